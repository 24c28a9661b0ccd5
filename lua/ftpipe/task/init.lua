--- Tasks: rows of a data set as examples, and how predictions are scored.
--
-- A task is data, one file under task/: which files a data directory holds, how a row becomes an
-- example, what is scored. What tasks of one kind share is in kind/, a module for each kind. This
-- module does the rest: finding and reading files, the cache of tokenised data, loading what a
-- recipe's flags name.
--
--    local task = ft.task.rte {}
--    local data = task:load { data = "RTE", tokenizer = tokenizer }
--    data.train.dataset, data.eval.dataset, data.eval.majority.value

local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")
local cache = require("ftpipe.base.cache")
local class = require("ftpipe.base.class")
local copy = require("ftpipe.base.copy")
local counted = require("ftpipe.base.counted")
local files = require("ftpipe.data.files")
local keys = require("ftpipe.base.keys")
local kinds = require("ftpipe.data.kind")
local modules = require("ftpipe.base.modules")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local records = require("ftpipe.text.records")
local suggest = require("ftpipe.base.suggest")
local usage = require("ftpipe.base.usage")

local M = {}
local Task = {}
Task.__index = Task
Task.__name = "task"

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

-- ---------------------------------------------------------------------------------------------
-- Defining.

local function joined(rules, more)
   local all = {}
   for name, rule in pairs(rules) do all[name] = rule end
   for name, rule in pairs(more or {}) do all[name] = rule end
   return all
end

local function kind_of(definition)
   local name = type(definition) == "table" and definition.kind or nil
   local kind = kinds.find(name)
   if kind then return kind end
   return opts.fail("task", "option 'kind' is %s, expected one of: %s", class.quoted(name),
      table.concat(kinds.names(), ", "))
end

local definition_rules = {
   kind = { type = "string", required = true },
   name = { type = "string", required = true },
   layouts = { type = "table", required = true },
   sample = { type = "function" },
}

local layout_rules = {
   name = { type = "string" }, train = { type = "string", required = true },
   eval = { type = "string" }, columns = { type = "table", items = "string" },
   read = { type = "function" },
}

--- Refuses layouts that say something else than a kind understands, or nothing.
local function check_layouts(definition, kind)
   if #definition.layouts == 0 then
      opts.fail("task " .. definition.name, "option 'layouts' is no list of layouts, expected "
         .. "{ { name =, train =, eval =, ... }, ... }")
   end
   local rules = joined(joined(layout_rules, { eval = { type = "string", required = true } }),
      kind.layout)
   for i, layout in ipairs(definition.layouts) do
      opts.check(("task %s, layout %d"):format(definition.name, i), rules, layout)
   end
end

--- A function of a definition or of its layouts, nil where there is none.
local function function_of(definition)
   for _, part in ipairs { definition, unpack(definition.layouts) } do
      for _, name in ipairs(keys(part)) do
         if type(part[name]) == "function" then return part[name] end
      end
   end
end

--- Where a script says what a task is: as debug.getinfo names its text. A script whose last call
-- defines the task is gone by then, but what it wrote is not.
local function origin_of(definition, caller)
   if caller and caller.what ~= "C" then return caller.source end
   local written = function_of(definition)
   return written and debug.getinfo(written, "S").source or "=a table"
end

--- Defines a task.
--
-- A definition has
--    kind        what a prediction is; a model has one too, and they have to agree
--    name        as in summary.json
--    layouts     the forms in which the data is distributed, rows { name =, train =, eval = } with
--                names of files; optionally read, a function from a path to rows, and columns
--    sample      function(): train and evaluation rows of the embedded data, in the first layout;
--                optional
-- and what its kind asks for. Of text2text that is
--    answers     a list of { label =, target = }: values of the label, and the texts that answer;
--                number = what stands for the label in files that number their classes, optional
--    label       the field with the label; optional ("label")
--    metric      what is scored: "accuracy", "grouped_f1", or a table { name =, better =, start = }
--    group       function(row): what the examples of a question share, a text or a number; for
--                "grouped_f1"
--    max_source, max_target  ids of a source and of a target at most
-- and in every layout
--    template    the source text, in which {field} stands for a field of the row
--    label, expand, clean  optional: its own field with the label; function(rows, row): the rows
--                that a row of the file holds; function(text): the source text as it is read
-- Of span: max_source, stride, max_query, which a task may also be made with. Of language_model:
-- block, and stride, which is optional.
-- @treturn function(overrides) that makes a task
function M.define(definition)
   local kind = kind_of(definition)
   local caller = debug.getinfo(2, "S")
   definition = opts.check("task", joined(definition_rules, kind.definition), definition)
   check_layouts(definition, kind)
   if kind.check then kind.check(definition) end
   local origin = origin_of(definition, caller)
   local function make(overrides)
      local task = opts.check("task " .. definition.name, kind.overrides, overrides)
      for name in pairs(kind.overrides) do
         if task[name] == nil then task[name] = definition[name] end
      end
      task.definition, task.name, task.kind = definition, definition.name, definition.kind
      task.rows, task.origin, task.make = kind, origin, make
      return setmetatable(task, Task)
   end
   return make
end

-- ---------------------------------------------------------------------------------------------
-- Loading.

--- Both splits of the embedded data.
local function sample_splits(task, o)
   local sample = task.definition.sample
   if not sample then
      usage.of(o, "task %s has no embedded data: give {data=DIR}, or {train_file} and {eval_file}",
         task.name)
   end
   local rows = {}
   rows.train, rows.eval = sample()
   for split, list in pairs(rows) do
      list.path = ("embedded %s data of task %s"):format(split, task.name)
      for i, row in ipairs(list) do
         -- what a file would have given
         list[i] = records.numbered(core.json.decode(core.json.encode(row)), i)
      end
   end
   return rows
end

--- The text of the script that defined a task outside the program.
local function origin_text(task)
   local path = task.origin:match("^@(.*)")
   return path and core.sys.exists(path) == "file" and core.sys.read_file(path) or task.origin
end

--- Where the split of a file is kept, nil when it is not.
local function cache_path(task, found, path, o)
   if not o.cache or not o.tokenizer_key then return nil end
   if o.split == "eval" and o.eval_limit then return nil end -- soon made
   local settings = { split = o.split }
   for name in pairs(task.rows.load) do settings[name] = o[name] end
   for name in pairs(task.rows.overrides) do settings[name] = o[name] end
   local sources = {
      "ftpipe.task", "ftpipe.text.records", "ftpipe.data.files", kinds.module(task.kind),
   }
   local own = "ftpipe.task." .. task.name
   if package.preload[own] then sources[#sources + 1] = own end
   for _, name in ipairs(task.rows.modules or {}) do sources[#sources + 1] = name end
   return cache.path(o.cache, core.sys.read_file(path), {
      definition = task.definition, layout = found.name, settings = settings,
      tokenizer = o.tokenizer_key, origin = origin_text(task), ending = path:match("%.[^./]*$"),
   }, sources)
end

--- What eval_limit leaves of the rows of a split.
local function limited(task, rows, o)
   local most = o.split == "eval" and o.eval_limit
   if not most then return rows end
   if task.rows.limit then return task.rows.limit(rows, most) end
   local kept = copy(rows)
   for i = most + 1, #rows do kept[i] = nil end
   return kept
end

--- The rows of a file, read when first asked for, and their layout.
local function reader(task, found, path, o)
   local rows, layout
   return function()
      if not rows then
         rows, layout = files.read(task, found, path)
         rows = limited(task, rows, o)
      end
      return rows, layout
   end
end

local function finish_split(task, layout, path, dataset, notes, read_rows)
   local split = task.rows.split(task, layout, notes, read_rows)
   split.dataset, split.path, split.layout = dataset, path, layout.name
   split.example = kinds.example(task.rows)
   return split
end

local function layout_named(task, name)
   for _, layout in ipairs(task.definition.layouts) do
      if layout.name == name then return layout end
   end
end

--- One split of a file: from the cache, or made and put there.
local function load_file(task, found, path, o)
   local kept = cache_path(task, found, path, o)
   local read_rows = reader(task, found, path, o)
   local dataset, notes
   if kept then dataset, notes = cache.read(kept) end
   if dataset then
      local layout = layout_named(task, notes.layout)
      return finish_split(task, layout, path, dataset, notes.notes, read_rows)
   end
   local rows, layout = read_rows()
   dataset, notes = task.rows.prepare(task, layout, rows, o)
   if kept then cache.write(kept, dataset, { layout = layout.name, notes = notes }, o) end
   -- Read again in the unlikely case that rows are looked at: parsed rows are large.
   return finish_split(task, layout, path, dataset, notes, reader(task, found, path, o))
end

local function load_sample(task, rows, o)
   local layout = task.definition.layouts[1]
   rows = limited(task, rows, o)
   local dataset, notes = task.rows.prepare(task, layout, rows, o)
   return finish_split(task, layout, rows.path, dataset, notes, function() return rows end)
end

local load_rules = {
   data = { type = "string", help = "a directory" },
   train_file = { type = "string" },
   eval_file = { type = "string" },
   sample = { type = "boolean", default = false, help = "the embedded data" },
   tokenizer = { required = true },
   tokenizer_key = { type = "string", help = "a digest of what the tokenizer was made of" },
   cache = { type = "string", help = "a directory for tokenised data; nothing is kept without" },
   eval_limit = { type = "int", min = 1, help = "rows of the evaluation split at most" },
   eval_only = { type = "boolean", default = false, help = "no training split" },
}

local Data = {
   __tostring = function(data)
      local parts = {}
      for _, name in ipairs { "train", "eval" } do
         local split = data[name]
         local said = split and { counted(#split.examples, split.example) }
         for _, remark in ipairs(split and split.remarks or {}) do said[#said + 1] = remark end
         parts[#parts + 1] = split and ("%s (%s)"):format(split.path, table.concat(said, ", "))
      end
      return table.concat(parts, " and ")
   end,
}

--- Reads and tokenises the task's data; the task keeps the tokenizer as `task.tokenizer`.
--
-- A split has `dataset` (tokenised), `examples` (a list, in the same order), `example` (what one is
-- called), `path`, `layout` (its name), and what its kind adds.
-- @tparam table o where from: `data` (a directory), `train_file` and `eval_file` (they go before
--    it), or `sample` = true (embedded data); `tokenizer`; `cache` and `tokenizer_key` (both, or
--    nothing is kept); `eval_only` (true: no training split); `eval_limit` (rows, questions or
--    blocks that are evaluated, the first ones); and options of the kind
-- @treturn table { train = split, eval = split }
-- @raise not found, malformed data, invalid argument
-- @usage local data = task:load { data = "RTE", tokenizer = tokenizer }
function Task:load(o)
   o = opts.check("task " .. self.name, joined(load_rules, self.rows.load), o)
   for name in pairs(self.rows.overrides) do
      if o[name] == nil then o[name] = self[name] end
   end
   self.tokenizer = o.tokenizer
   local sample = o.sample and sample_splits(self, o)
   local result = {}
   for _, split in ipairs(o.eval_only and { "eval" } or { "train", "eval" }) do
      o.split = split
      if sample then
         result[split] = load_sample(self, sample[split], o)
      else
         local found, path = files.find(self, o, split)
         result[split] = load_file(self, found, path, o)
      end
   end
   return setmetatable(result, Data)
end

local EMBEDDED = "embedded" -- what --data calls the data inside the program

local function check_kind(task, model, args)
   if type(model.family) ~= "table" then
      opts.fail("task:open", "'model': expected what ft.model gives, got %s", class.told(model))
   end
   if model.family.kind == task.kind then return model.family.columns(model.config) end
   usage.of(args, "task %s is %s (for models of %s), {model=%s} is %s", task.name, task.kind,
      table.concat(kinds.families(task.kind), ", "), model.name, tostring(model.family.kind))
end

--- The cache's directory by --cache; nil for none.
local function cache_of(args)
   if args.cache == "none" then return nil end
   return args.cache or cache.directory()
end

--- Loads what a recipe's flags name: --data, --train-file and --eval-file, or the embedded data, by
-- its name or when the model is embedded too.
-- @tparam model model
-- @tparam table args of ft.args
-- @treturn table as `load`; nil when nothing is named and the run would only plan
-- @raise invalid argument: the model is of another kind
function Task:open(model, args)
   check_kind(self, model, args)
   local devices = args.devices and core.engine.devices(args.devices)
   local only_plans = args.dry_run or devices and not devices[1].executes
   if not only_plans then model:check_trainable(args.resume) end
   local by_file = args.train_file or args.eval_file
   local given = args.data or by_file
   if not given and not model.embedded then
      if only_plans then return nil end
      fail("invalid argument", named.words(args, "no data for {model=%s}: give {data=DIR}, or "
         .. "{train_file} and {eval_file}, or {data=%s}"), model.name, EMBEDDED)
   end
   local sample = not given or args.data == EMBEDDED
   if sample and by_file then
      usage.of(args, "{data=%s} has both splits, {train_file} and {eval_file} name others: give "
         .. "one of them", EMBEDDED)
   end
   if sample and named.is_given(args, "cache") and args.cache ~= "none" then
      usage.of(args, "{cache=%s} keeps what was made of files, and {data=%s} is in none: leave it "
         .. "out", args.cache, EMBEDDED)
   end
   local o = named.like(args, self.rows.options(model, args))
   o.data, o.train_file, o.eval_file = not sample and args.data or nil, args.train_file,
      args.eval_file
   o.sample, o.eval_only, o.eval_limit = sample, args.eval_only, args.eval_limit
   o.tokenizer, o.tokenizer_key = model:tokenizer(), model.files:tokenizer_key()
   o.cache = cache_of(args)
   return self:load(o)
end

--- What a model gets of rows that need no label, as it is predicted from: source texts in a task of
-- kind text2text.
-- @tparam {table,...} rows of text/records.lua
-- @local
function Task:sources(rows)
   return self.rows.sources(self, files.layout_of(self, rows), rows)
end

-- ---------------------------------------------------------------------------------------------
-- Scoring.

--- Scores predictions one by one, so that none has to be kept.
--
-- scorer:add(i, prediction) notes the prediction for example i, each example once; what it is
-- depends on the kind (a text for text2text). scorer:result() gives `metric` (the name of the
-- figure that counts), `unit`, `better` ("higher" or "lower"), `value`, and `metrics` (all figures
-- by name; shares in percent).
-- @tparam table split of `load`
function Task:scorer(split)
   return self.rows.scorer(self, split)
end

--- The names of the figures that a scorer of a split will give (`metrics` of its result).
-- @tparam table split of `load`
-- @treturn {string,...} nil where only a result can tell: of a metric that is a function of its own
-- @local
function Task:figures(split)
   return self.rows.figures and self.rows.figures(self, split)
end

function Task:__tostring()
   return ("task %s (%s)"):format(self.name, self.kind)
end

-- ---------------------------------------------------------------------------------------------
-- Tasks as data, for who predicts with what a run has left.

--- Whether a task is one of those inside the program.
local function is_inside(task)
   return package.loaded["ftpipe.task." .. task.name] == task.make
end

--- What a task's predictions need of its layouts: strings. Nil when one needs a function to make
-- sources of rows.
local function plain_layouts(task)
   local list = {}
   for i, layout in ipairs(task.definition.layouts) do
      list[i] = {}
      for key, value in pairs(layout) do
         if type(value) == "function" and key ~= "read" then return nil end
         if type(value) == "string" then list[i][key] = value end
      end
      list[i].columns = layout.columns
   end
   return list
end

--- The task as plain values.
-- @treturn table name, settings; of one that is defined outside the program also file and sha256 of
--   its script (nil: it is no file), kind, layouts (nil: predicting needs the script)
-- @local
function Task:record()
   local record = { name = self.name, settings = {} }
   for key in pairs(self.rows.overrides) do record.settings[key] = self[key] end
   if is_inside(self) then return record end
   local path = self.origin:match("^@(.*)")
   record.file = path and core.sys.exists(path) == "file" and path or nil
   record.sha256 = record.file and core.sys.sha256(core.sys.read_file(record.file))
   record.kind, record.layouts = self.kind, plain_layouts(self)
   return record
end

--- What tasks of the kind of a record have in common.
-- @raise invalid argument: there is no such kind
-- @local
function M.kind(record) return kind_of(record) end

--- A task of what `record` gave, for predictions alone: nothing can be trained or scored with it.
-- @tparam table record with layouts
-- @tparam table overrides as of ft.task.NAME
-- @raise invalid argument: a value is not what it has to be
-- @local
function M.restore(record, overrides)
   local kind = kind_of(record)
   local task, layouts = opts.check("task " .. record.name, kind.overrides, overrides), {}
   for i, layout in ipairs(record.layouts) do
      layouts[i] = opts.check("layout of task " .. record.name,
         joined(layout_rules, kind.layout), layout)
   end
   task.definition = { kind = record.kind, name = record.name, layouts = layouts }
   task.name, task.kind, task.rows = record.name, record.kind, kind
   return setmetatable(task, Task)
end

-- ---------------------------------------------------------------------------------------------
-- Finding tasks.

--- Calls f, which is of a task's file: where what it raises names the line that loads the file, or
-- none, it names the file instead. The last call of a script is not seen by who looks for its line.
local function blaming(path, f, ...)
   local at, ok, result = core.where(), pcall(f, ...)
   if ok then return result end
   local said = type(result) == "table" and result.message
   if not said or said:sub(1, #at) ~= at or said:sub(1, #path) == path then error(result, 0) end
   return core.fail(result.status, path .. ": " .. said:sub(#at + 1), result.exit)
end

--- The task of a file of one's own: a Lua script that returns what `define` gives.
-- @tparam string path
-- @treturn function(overrides) as ft.task.NAME
-- @treturn string digest of the file
-- @raise not found; malformed data: the script does not compile, or returns something else; what it
--    raises itself
-- @usage local task = ft.task.load("examples/tasks/colour.lua") {}
function M.load(path)
   local text = core.sys.read_file(path)
   local chunk, problem = loadstring(text, "@" .. path)
   if not chunk then fail("malformed data", "%s: %s", path, problem) end
   local make = blaming(path, chunk)
   local task = type(make) == "function" and blaming(path, make, {}) or nil
   if getmetatable(task) ~= Task then
      fail("malformed data", "%s: returns a %s, expected what ft.task.define gives", path,
         type(make))
   end
   -- `define` cannot tell where a script's last call comes from.
   local function own(overrides)
      local made = make(overrides)
      made.origin = "@" .. path
      return made
   end
   return own, core.sys.sha256(text)
end

--- Names of the tasks that are there.
function M.names() return modules("ftpipe.task") end

--- A task of the program, by its name.
-- @treturn function(overrides)
-- @raise invalid argument: there is none
function M.named(name)
   local module = "ftpipe.task." .. tostring(name)
   local ok, found = pcall(require, module)
   if ok then return found end
   if type(found) == "string" and found:find("module '" .. module .. "' not found", 1, true) then
      local names = M.names()
      fail("invalid argument", "no task is called '%s'%s (there are: %s, and FILE.lua)",
         tostring(name), suggest.hint(tostring(name), names), table.concat(names, ", "))
   end
   return error(found, 0)
end

M.takes = { ["ft.task.define"] = definition_rules, ["task:load"] = load_rules }

guard("ft.task", M, {
   define = "definition: table", load = "path: string", names = "", named = "name: string",
})
guard("task", Task, {
   load = "o: table", open = "model: table, args: table", scorer = "split: table",
})

--- A task inside the program, by its name: ft.task.rte { max_source = 320 }.
-- @function ft.task.NAME
-- @tparam[opt] table settings
-- @treturn task

return setmetatable(M, { __index = function(_, name) return M.named(name) end })
