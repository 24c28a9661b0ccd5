--- Tasks: rows of a data set as pairs of text, and how answers are scored.
--
-- A task is data, one file under task/: which files a data directory holds, how a row becomes a
-- source text, which label is which target text. This module does the rest: finding and reading
-- files, checking rows, tokenising, scoring.
--
--    local task = ft.task.rte {}
--    local data = task:load { data = "RTE", tokenizer = tokenizer }
--    data.train.dataset, data.eval.dataset, data.eval.majority.percent

local core = require("ftpipe.core")
local opts = require("ftpipe.opts")
local records = require("ftpipe.records")
local suggest = require("ftpipe.suggest")

local M = {}
local Task = {}
Task.__index = Task

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

-- ---------------------------------------------------------------------------------------------
-- Scores: functions of the examples and the answers to them, in percent.

local scores = {}

--- Share of answers that are the target to the letter.
function scores.accuracy(examples, answers)
   local right = 0
   for i, example in ipairs(examples) do
      if answers[i] == example.target then right = right + 1 end
   end
   return 100 * right / #examples
end

-- ---------------------------------------------------------------------------------------------
-- Defining.

local definition_rules = {
   name = { type = "string", required = true },
   answers = { type = "table", required = true },
   layouts = { type = "table", required = true },
   metrics = { type = "table", required = true },
   max_source = { type = "int", min = 2, required = true },
   max_target = { type = "int", min = 2, required = true },
   sample = { type = "function" },
}

local override_rules = {
   max_source = { type = "int", min = 2, help = "ids of a source at most" },
   max_target = { type = "int", min = 2, help = "ids of a target at most" },
}

--- Defines a task.
--
-- A definition has
--    name        as in summary.json
--    answers     a list of { label =, target = }: values of field `label` and their target texts
--    layouts     a list of { name =, train =, eval =, template =, expand = }: the forms in which
--                the data is distributed, told apart by the files that a directory holds. {field}
--                in a template stands for a field of the row; expand(row), optional, gives a list
--                of rows for one row
--    metrics     a list of names of scores ("accuracy"), or of { name =, score = } with a function
--                (examples, answers) -> percent; the first is the one that counts
--    max_source, max_target  ids of a source and of a target at most, </s> included
--    sample      function(): train and evaluation rows of the embedded data, in the first layout
-- @treturn function(overrides) that makes a task; overrides: max_source, max_target
function M.define(definition)
   definition = opts.check("task", definition_rules, definition)
   return function(overrides)
      local o = opts.check("task " .. definition.name, override_rules, overrides)
      return setmetatable({
         definition = definition,
         name = definition.name,
         max_source = o.max_source or definition.max_source,
         max_target = o.max_target or definition.max_target,
      }, Task)
   end
end

-- ---------------------------------------------------------------------------------------------
-- Finding files.

local function exists(path)
   return core.sys.exists(path) == "file"
end

local function expected_files(layouts)
   local lines = {}
   for i, layout in ipairs(layouts) do
      lines[i] = ("%s and %s (%s)"):format(layout.train, layout.eval, layout.name)
   end
   return table.concat(lines, " or ")
end

--- The names in a directory, as text.
local function list_names(dir)
   local names = core.sys.list_dir(dir)
   local most = 20
   local rest = #names > most and (" and %d more"):format(#names - most) or ""
   return table.concat(names, ", ", 1, math.min(#names, most)) .. rest
end

--- The layout of a directory: the first of which a file is there.
local function find_layout(task, dir)
   local kind = core.sys.exists(dir)
   if not kind then fail("not found", "--data %s: no such directory", dir) end
   if kind ~= "directory" then
      fail("invalid argument",
         "--data %s: not a directory (--train-file and --eval-file take files)", dir)
   end
   for _, layout in ipairs(task.definition.layouts) do
      if exists(dir .. "/" .. layout.train) or exists(dir .. "/" .. layout.eval) then
         return layout
      end
   end
   return fail("not found", "%s: holds no data of task %s, expected %s; it holds: %s", dir,
      task.name, expected_files(task.definition.layouts), list_names(dir))
end

--- The layout of a file, by the end of its name.
local function layout_of_file(task, path)
   local ending = path:match("%.[^./]*$")
   if ending == ".json" then ending = ".jsonl" end
   local endings = {}
   for i, layout in ipairs(task.definition.layouts) do
      endings[i] = layout.train:match("%.[^./]*$")
      if endings[i] == ending then return layout end
   end
   return fail("invalid argument", "%s: cannot tell its layout, expected a name that ends in %s",
      path, table.concat(endings, " or "))
end

--- What to read for one split: layout, rows.
local function read_split(task, o, split)
   local file = o[split .. "_file"]
   if file then return layout_of_file(task, file), records.read(file) end
   if o.data then
      local layout = find_layout(task, o.data)
      local path = o.data .. "/" .. layout[split]
      if not exists(path) then
         fail("not found", "%s: no such file (task %s, layout %s)", path, task.name, layout.name)
      end
      return layout, records.read(path)
   end
   return fail("invalid argument", "task %s: no %s data, give --data or --%s-file", task.name,
      split, split)
end

--- Both splits of the embedded data.
local function sample_splits(task)
   local sample = task.definition.sample
   if not sample then
      fail("invalid argument", "task %s has no embedded data, give --data", task.name)
   end
   local rows = {}
   rows.train, rows.eval = sample()
   for split, list in pairs(rows) do
      list.path = ("embedded %s data of task %s"):format(split, task.name)
      for i, row in ipairs(list) do row.line = i end
   end
   return rows
end

-- ---------------------------------------------------------------------------------------------
-- Rows to examples.

local function fill_template(template, rows, row)
   return (template:gsub("{([%w_]+)}", function(name) return records.string(rows, row, name) end))
end

local function is_unlabelled(label)
   return label == nil or label == core.json.null or label == -1 or label == "-1"
end

local function same_label(label, value)
   return label == value or (type(value) == "number" and tonumber(label) == value)
end

--- The target text of a row, nil when it has no label.
local function target_of(task, rows, row)
   if is_unlabelled(row.label) then return nil end
   local labels = {}
   for i, answer in ipairs(task.definition.answers) do
      if same_label(row.label, answer.label) then return answer.target end
      labels[i] = tostring(answer.label)
   end
   return fail("malformed data", "%s: label '%s', expected one of: %s", records.where(rows, row),
      tostring(row.label), table.concat(labels, ", "))
end

local function expand(layout, row)
   if not layout.expand then return { row } end
   local list = layout.expand(row)
   for _, part in ipairs(list) do part.line = row.line end
   return list
end

--- Examples { source =, target =, row = } of labelled rows; the others are counted.
local function make_examples(task, layout, rows)
   local examples, unlabelled = {}, 0
   for _, whole in ipairs(rows) do
      for _, row in ipairs(expand(layout, whole)) do
         local source = fill_template(layout.template, rows, row)
         local target = target_of(task, rows, row)
         if target then
            examples[#examples + 1] = { source = source, target = target, row = row }
         else
            unlabelled = unlabelled + 1
         end
      end
   end
   if #examples == 0 then
      fail("malformed data", "%s: none of its %d rows has a label", rows.path, #rows)
   end
   return examples, unlabelled
end

--- Ids of a text, the end token last, `most` at most; and whether something was cut off.
local function encode(tokenizer, text, most, eos)
   local ids = tokenizer:encode(text)
   local cut = #ids > most - 1
   for i = #ids, most, -1 do ids[i] = nil end
   ids[#ids + 1] = eos
   return ids, cut
end

--- The answer that is right most often, and how often, in percent.
local function majority(task, examples)
   local count = {}
   for _, example in ipairs(examples) do
      count[example.target] = (count[example.target] or 0) + 1
   end
   local best
   for _, answer in ipairs(task.definition.answers) do
      local n = count[answer.target] or 0
      if not best or n > count[best] then best, count[answer.target] = answer.target, n end
   end
   return { answer = best, percent = 100 * count[best] / #examples }
end

--- Rows as a split: see Task:load.
local function make_split(task, layout, rows, o)
   local examples, unlabelled = make_examples(task, layout, rows)
   local split = {
      dataset = core.data.dataset { "source", "target" },
      examples = examples,
      path = rows.path,
      layout = layout.name,
      unlabelled = unlabelled,
      cut_sources = 0,
      cut_targets = 0,
      majority = majority(task, examples),
   }
   for _, example in ipairs(examples) do
      local source, source_cut = encode(o.tokenizer, example.source, o.max_source, o.eos_id)
      local target, target_cut = encode(o.tokenizer, example.target, o.max_target, o.eos_id)
      split.cut_sources = split.cut_sources + (source_cut and 1 or 0)
      split.cut_targets = split.cut_targets + (target_cut and 1 or 0)
      split.dataset:add { source = source, target = target }
   end
   return split
end

-- ---------------------------------------------------------------------------------------------
-- Loading, scoring.

local load_rules = {
   data = { type = "string", help = "a directory" },
   train_file = { type = "string" },
   eval_file = { type = "string" },
   sample = { type = "boolean", default = false, help = "the embedded data" },
   tokenizer = { required = true },
   max_source = { type = "int", min = 2 },
   max_target = { type = "int", min = 2 },
   eos_id = { type = "int", min = 0, default = 1 },
   eval_only = { type = "boolean", default = false, help = "no training split" },
}

local Data = {
   __tostring = function(data)
      local parts = {}
      for _, name in ipairs { "train", "eval" } do
         local split = data[name]
         parts[#parts + 1] = split and ("%s (%d examples)"):format(split.path, #split.examples)
      end
      return table.concat(parts, " and ")
   end,
}

--- Reads and tokenises the task's data; the task keeps the tokenizer as `task.tokenizer`.
--
-- A split has `dataset` (tokenised), `examples` (list of { source =, target =, row = }, in the same
-- order), `path`, `layout`, `unlabelled` (rows left out because they have no label), `cut_sources`
-- and `cut_targets` (how many were longer than allowed), `majority` ({ answer =, percent = }: what
-- always giving the most frequent answer scores).
-- @tparam table o where from: `data` (a directory), `train_file` and `eval_file` (they go before
--    it), or `sample` = true (embedded data); and `tokenizer`, `max_source`, `max_target`,
--    `eos_id` (1), `eval_only` (true: no training split)
-- @treturn table { train = split, eval = split }
-- @raise not found, malformed data, invalid argument
-- @usage local data = task:load { data = "RTE", tokenizer = tokenizer }
function Task:load(o)
   o = opts.check("task " .. self.name, load_rules, o)
   o.max_source = o.max_source or self.max_source
   o.max_target = o.max_target or self.max_target
   self.tokenizer = o.tokenizer
   local sample = o.sample and sample_splits(self)
   local result = {}
   for _, split in ipairs(o.eval_only and { "eval" } or { "train", "eval" }) do
      local layout, rows
      if sample then
         layout, rows = self.definition.layouts[1], sample[split]
      else
         layout, rows = read_split(self, o, split)
      end
      result[split] = make_split(self, layout, rows, o)
   end
   return setmetatable(result, Data)
end

--- Loads what a recipe's flags name: --data, --train-file and --eval-file, or the embedded data
-- when the model is embedded too.
-- @tparam model model
-- @tparam table args of ft.args
-- @treturn table as `load`; nil when nothing is named and the run would only plan
function Task:open(model, args)
   local named = args.data or args.train_file or args.eval_file
   if not named and not model.embedded then
      if args.dry_run or args.devices:match("^sim") then return nil end
      fail("invalid argument", "no data for --model %s: give --data DIR, or --train-file and "
         .. "--eval-file", model.name)
   end
   return self:load {
      data = args.data, train_file = args.train_file, eval_file = args.eval_file,
      sample = not named, tokenizer = model:tokenizer(), eval_only = args.eval_only,
      max_source = args.max_source, max_target = args.max_target,
      eos_id = model.config.eos_token_id,
   }
end

--- Scores answers.
-- @tparam table split of `load`
-- @tparam {string,...} answers one for each example, in order
-- @treturn table `metric` (name), `value` (of that metric), `metrics` (all, by name); percent
function Task:score(split, answers)
   if #answers ~= #split.examples then
      fail("invalid argument", "task %s: %d answers for %d examples", self.name, #answers,
         #split.examples)
   end
   local result = { metrics = {} }
   for _, entry in ipairs(self.definition.metrics) do
      local name = type(entry) == "string" and entry or entry.name
      local score = type(entry) == "string" and scores[entry] or entry.score
      result.metrics[name] = score(split.examples, answers)
      result.metric = result.metric or name
   end
   result.value = result.metrics[result.metric]
   return result
end

function Task:__tostring()
   return ("task %s: %s of %d answers"):format(self.name, self.definition.metrics[1],
      #self.definition.answers)
end

--- Names of the tasks that are there.
function M.names()
   local names = {}
   for module in pairs(package.preload) do
      names[#names + 1] = module:match("^ftpipe%.task%.([%w_]+)$")
   end
   table.sort(names)
   return names
end

--- ft.task.NAME is the task of task/NAME.lua.
local function find_task(_, name)
   local module = "ftpipe.task." .. tostring(name)
   local ok, found = pcall(require, module)
   if ok then return found end
   if type(found) == "string" and found:find("module '" .. module .. "' not found", 1, true) then
      local names = M.names()
      fail("invalid argument", "no task is called '%s'%s (there are: %s)", tostring(name),
         suggest.hint(tostring(name), names), table.concat(names, ", "))
   end
   return error(found, 0)
end

return setmetatable(M, { __index = find_task })
