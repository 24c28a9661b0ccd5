--- Kind text2text: a text becomes one of a few answers, what Raffel et al. 2020 call text-to-text.
--
-- The definition of a task has, beside what every task has (see task/init.lua):
--    answers     a list of { label =, target = }: values of the label and their target texts; where
--                one of two is the true one it comes last; with `number`, what stands for the label
--                in files that number their classes, as Hugging Face datasets writes them
--    label       the field with the label ("label")
--    metric      a name of metric/answers.lua, or such a table
--    group       a function row -> what the examples of one question have in common, a text or a
--                number, for metrics that score whole questions
--    max_source, max_target  ids of a source and of a target at most, </s> included
-- and in a layout
--    template    the source text; {field} stands for a field of the row
--    label       when it is another field here
--    expand      a function (rows, row) -> the rows that one row of the file holds
--    clean       a function of the source text

local core = require("ftpipe.core")
local answer_metrics = require("ftpipe.data.metric.answers")
local batches = require("ftpipe.data.predict.batches")
local class = require("ftpipe.base.class")
local choice = require("ftpipe.data.choice")
local counted = require("ftpipe.base.counted")
local decode = require("ftpipe.data.decode")
local drafts = require("ftpipe.data.drafts")
local evaluate = require("ftpipe.data.evaluate")
local generation = require("ftpipe.data.predict.generation")
local keys = require("ftpipe.base.keys")
local metrics = require("ftpipe.data.metric")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local records = require("ftpipe.text.records")
local shown = require("ftpipe.base.shown")
local usage = require("ftpipe.base.usage")
local weights = require("ftpipe.data.predict.weights")

local M = {}

local FIELD = "{([^{}]+)}" -- in a template
local TOGETHER = 256 -- texts that are encoded at once, on all cores

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

M.definition = {
   answers = { type = "table", required = true },
   label = { type = "string", default = "label" },
   metric = { type = answer_metrics.convert, required = true },
   group = { type = "function", help = "function(row) -> what the examples of a question share" },
   max_source = { type = "int", min = 2, required = true },
   max_target = { type = "int", min = 2, required = true },
}

M.overrides = {
   max_source = { type = "int", min = 2, help = "ids of a source at most" },
   max_target = { type = "int", min = 2, help = "ids of a target at most" },
}

M.layout = {
   template = { type = "string", required = true },
   label = { type = "string" },
   expand = { type = "function" },
   clean = { type = "function" },
}

M.load = {
   max_source = { type = "int", min = 2 },
   max_target = { type = "int", min = 2 },
   eos_id = { type = "int", min = 0, default = 1 },
}

local function is_number(label, value)
   return type(value) == "number" and tonumber(label) == value
end

local function is_of(label, answer)
   return label == answer.label or is_number(label, answer.label)
      or is_number(label, answer.number)
end

--- Refuses answers that are no list of labels with their texts, each label and each text once.
local function check_answers(definition)
   local seen, texts, what = {}, {}, "task " .. definition.name
   if #definition.answers == 0 then
      opts.fail(what, "option 'answers' is no list, expected { { label =, target = }, ... }")
   end
   for i, answer in ipairs(definition.answers) do
      if type(answer) ~= "table" or answer.label == nil or type(answer.target) ~= "string"
         or type(answer.number or 0) ~= "number" then
         opts.fail(what, "answer %d: expected { label = a value, target = a text }, and number = a "
            .. "number where files number their labels", i)
      end
      local other = seen[answer.label]
      if other then
         opts.fail(what, "answer %d: label '%s' is that of answer %d", i, tostring(answer.label),
            other)
      end
      local same = texts[answer.target]
      if same then
         opts.fail(what, "answers %d and %d have the same target '%s': give each a text of its own",
            same, i, answer.target)
      end
      seen[answer.label], texts[answer.target] = i, i
   end
   for i, answer in ipairs(definition.answers) do
      for _, other in ipairs(definition.answers) do
         if other ~= answer and answer.number ~= nil and is_of(answer.number, other) then
            opts.fail(what, "answer %d: number %s is that of another answer, or its label", i,
               shown(answer.number))
         end
      end
   end
end

--- Refuses templates that are the same text for every row.
local function check_templates(definition)
   for i, layout in ipairs(definition.layouts) do
      if not layout.template:find(FIELD) then
         opts.fail(("task %s, layout %d"):format(definition.name, i),
            "option 'template': expected the name of a field in it, as {text}")
      end
   end
end

--- Refuses answers and templates that are none, and a definition that lacks what its metric needs.
function M.check(definition)
   local metric = definition.metric
   check_answers(definition)
   check_templates(definition)
   if metric.needs and definition[metric.needs] == nil then
      opts.fail("task", "metric '%s' needs option '%s' (%s)",
         answer_metrics.known_name(metric) or metric.name, metric.needs,
         M.definition[metric.needs].help)
   end
end

--- What a model and the flags of a recipe say about loading.
function M.options(model, args)
   return {
      max_source = args.max_source, max_target = args.max_target,
      eos_id = model.config.eos_token_id,
   }
end

-- ---------------------------------------------------------------------------------------------
-- Rows to pairs of texts.

--- What a function of a task's layout gave for a row; raises what it should have given.
local function given(task, name, rows, row, value, kind, expected)
   if type(value) == kind then return value end
   return fail("malformed data", "%s: task %s: '%s' of its layout gives %s, expected %s",
      records.where(rows, row), task.name, name, class.told(value), expected)
end

local function fill_template(task, layout, rows, row)
   local text = layout.template:gsub(FIELD, function(name)
      return records.string(rows, row, name)
   end)
   if not layout.clean then return text end
   return given(task, "clean", rows, row, layout.clean(text), "string", "the text")
end

--- The rows that a row of the file holds.
local function expand(task, layout, rows, whole)
   if not layout.expand then return { whole } end
   local list = given(task, "expand", rows, whole, layout.expand(rows, whole), "table",
      "a list of rows")
   for _, row in ipairs(list) do
      given(task, "expand", rows, whole, row, "table", "rows, which are tables")
      records.numbered(row, records.line(whole))
   end
   return list
end

local function is_unlabelled(label)
   return label == nil or label == core.json.null or label == -1 or label == "-1"
end

--- The number of a row's answer, nil when it has no label.
local function answer_of(task, layout, rows, row)
   local field = layout.label or task.definition.label
   local label = row[field]
   if is_unlabelled(label) then return nil end
   local labels, form = {}, type(label) == "table" and "is %s" or "'%s'"
   for i, answer in ipairs(task.definition.answers) do
      if is_of(label, answer) then return i end
      labels[i] = tostring(answer.label)
      if label == labels[i] then form = "is the string '%s'" end
   end
   return fail("malformed data", "%s: %s %s, expected one of: %s", records.where(rows, row), field,
      form:format(shown(label)), table.concat(labels, ", "))
end

--- What a row's group is. Tokenised data keeps it, so that a table would not come back as the same;
-- nothing, NaN and null are in common to no rows.
local function group_of(task, rows, row)
   local group = task.definition.group(row)
   local kind = type(group)
   if kind == "string" or kind == "number" and group - group == 0 then return group end
   return fail("malformed data", "%s: task %s: 'group' gives %s, expected a text or a finite "
      .. "number", records.where(rows, row), task.name,
      group == core.json.null and "null" or class.told(group))
end

--- Calls take(row, source) for every row, or the rows that it holds.
local function each_source(task, layout, rows, take)
   for _, whole in ipairs(rows) do
      for _, row in ipairs(expand(task, layout, rows, whole)) do
         take(row, fill_template(task, layout, rows, row))
      end
   end
end

--- Calls visit(row, source, answer) for every labelled row; counts the others.
local function each_pair(task, layout, rows, visit)
   local unlabelled = 0
   each_source(task, layout, rows, function(row, source)
      local answer = answer_of(task, layout, rows, row)
      if answer then visit(row, source, answer) else unlabelled = unlabelled + 1 end
   end)
   return unlabelled
end

--- The source texts of rows, labelled or not.
function M.sources(task, layout, rows)
   local list = {}
   each_source(task, layout, rows, function(_, source) list[#list + 1] = source end)
   return list
end

--- Makes of the ids of a text `most` at most, the end token last; whether something was cut off.
local function finish(ids, most, eos)
   local cut = #ids > most - 1
   return core.data.ids { cut and ids:part(1, most - 1) or ids, eos }, cut
end

--- The ids of all answers. One that is cut could be taken for another, and is never given.
local function encode_targets(task, o)
   local targets, longest = {}, 1
   for i, answer in ipairs(task.definition.answers) do
      targets[i] = core.data.ids { o.tokenizer:vector(answer.target), o.eos_id }
      if #targets[i] > #targets[longest] then longest = i end
   end
   local n = #targets[longest]
   if n > o.max_target then
      usage("task %s: the answer '%s' is %s with its end, too long for %s: give %s", task.name,
         task.definition.answers[longest].target, counted(n, "id"),
         named.value(o, "max_target", o.max_target), named.value(o, "max_target", n))
   end
   return targets
end

--- Tokenises rows.
-- @treturn dataset of fields source and target
-- @treturn table what `split` wants to know beside it, plain values only: answers (numbers by
--    example), groups, unlabelled, cut_sources, max_source
function M.prepare(task, layout, rows, o)
   local dataset = core.data.dataset { "source", "target" }
   local targets, is_grouped = encode_targets(task, o), task.definition.group ~= nil
   local notes = {
      answers = {}, groups = is_grouped and {} or nil, cut_sources = 0, max_source = o.max_source,
   }
   local waiting = {}
   local function add_waiting()
      for _, source in ipairs(o.tokenizer:encode_all(waiting)) do
         local ids, cut = finish(source, o.max_source, o.eos_id)
         dataset:add { source = ids, target = targets[notes.answers[dataset:size() + 1]] }
         notes.cut_sources = notes.cut_sources + (cut and 1 or 0)
      end
      waiting = {}
   end
   notes.unlabelled = each_pair(task, layout, rows, function(row, source, answer)
      waiting[#waiting + 1] = source
      notes.answers[#notes.answers + 1] = answer
      if is_grouped then notes.groups[#notes.answers] = group_of(task, rows, row) end
      if #waiting == TOGETHER then add_waiting() end
   end)
   add_waiting()
   if dataset:size() == 0 then
      fail("malformed data", notes.unlabelled == 0 and "%s: its rows hold no example"
         or "%s: read %s, and found no label", rows.path, counted(notes.unlabelled, "row"))
   end
   return dataset, notes
end

-- ---------------------------------------------------------------------------------------------
-- Splits.

--- Texts and rows of examples, made when one of them is first asked for: tokenised data that comes
-- from the cache needs neither.
local function lazily(task, layout, read_rows, examples)
   local texts
   local function load()
      texts = {}
      each_pair(task, layout, read_rows(), function(row, source)
         texts[#texts + 1] = { row = row, source = source }
      end)
   end
   local meta = {
      __index = function(example, key)
         if key ~= "row" and key ~= "source" then return nil end
         if not texts then load() end
         return texts[example.number][key]
      end,
   }
   for _, example in ipairs(examples) do setmetatable(example, meta) end
   return examples
end

local function result_of(task, accumulated)
   local metric, figures = task.definition.metric, accumulated.result()
   if type(figures) ~= "table" or type(figures[metric.name]) ~= "number" then
      fail("invalid argument", "task %s: result() of metric '%s' gives no figure of that name",
         task.name, metric.name)
   end
   return metrics.result(metric, figures)
end

--- A new accumulator of a task's metric.
local function start(task)
   local metric = task.definition.metric
   local score = metric.start(task)
   if type(score) ~= "table" or type(score.add) ~= "function"
      or type(score.result) ~= "function"
   then
      fail("invalid argument", "task %s: start() of metric '%s' gives no accumulator, expected "
         .. "{ add = function(example, answer), result = function() -> figures by name }",
         task.name, metric.name)
   end
   return score
end

--- The answer that scores best when it is always given, and its value.
local function majority(task, examples)
   local metric, best = task.definition.metric, nil
   for _, answer in ipairs(task.definition.answers) do
      local score = start(task)
      for _, example in ipairs(examples) do score.add(example, answer.target) end
      local value = result_of(task, score).value
      if not best or metrics.beats(metric, value, best.value) then
         best = { answer = answer.target, value = value }
      end
   end
   return best
end

local function remarks(notes)
   local list, cut, unlabelled = {}, notes.cut_sources, notes.unlabelled
   if cut > 0 then list[1] = ("%d cut to %s"):format(cut, counted(notes.max_source, "id")) end
   if unlabelled > 0 then list[#list + 1] = ("%d without a label left out"):format(unlabelled) end
   return list
end

--- A split: `examples` (a list of { number =, target =, group =, source =, row = }), `unlabelled`
-- (rows left out because they have no label), `cut_sources` (how many were longer than allowed),
-- `majority` ({ answer =, value = }: what always giving the best answer scores), `remarks`.
function M.split(task, layout, notes, read_rows)
   local examples = {}
   for i, answer in ipairs(notes.answers) do
      examples[i] = {
         number = i, target = task.definition.answers[answer].target,
         group = notes.groups and notes.groups[i] or nil,
      }
   end
   return {
      examples = lazily(task, layout, read_rows, examples),
      unlabelled = notes.unlabelled,
      cut_sources = notes.cut_sources,
      majority = majority(task, examples),
      remarks = remarks(notes),
   }
end

--- A scorer: scorer:add(i, answer) for example i, then scorer:result() as of metric/init.lua.
function M.scorer(task, split)
   local score = start(task)
   return {
      add = function(_, i, answer) score.add(split.examples[i], answer) end,
      result = function() return result_of(task, score) end,
   }
end

--- The names of a score's figures.
function M.figures(task)
   local metric = task.definition.metric
   return answer_metrics.known_name(metric) and keys(metric.start(task).result()) or nil
end

-- ---------------------------------------------------------------------------------------------
-- Evaluation.

M.asks = "likeliest"

--- The examples whose answers are not whole yet, with drafts for targets.
local function drafted(o, book, open)
   local dataset = core.data.dataset { "source", "target" }
   for _, row in ipairs(open) do
      row.draft = book:next(row.ids, row.verified)
      dataset:add { source = o.dataset:ids(row.number, "source"), target = row.draft }
   end
   return dataset
end

--- Evaluates by forwards until every answer is whole: the first one over the data as it is, whose
-- targets are the first drafts, the next ones over what is left. Returns the loss of the first.
function M.evaluate(o, forward)
   local book = drafts.new(choice.plain(o.model.config).ends, o.lengths.target)
   local open = {}
   local function verify(number, draft, outputs, row)
      local ids, verified = book:verify(draft, evaluate.row(outputs.likeliest, row))
      if not verified then return o.take(number, ids) end
      open[#open + 1] = { number = number, ids = ids, verified = verified }
   end
   local loss = forward(o, o.dataset, function(number, _, outputs, row)
      local target = o.dataset:get(number, "target")
      book:learn(target)
      verify(number, target, outputs, row)
   end)
   while loss and #open > 0 do
      local rows, left = open, drafted(o, book, open)
      open = {}
      if not forward(o, left, function(k, _, outputs, row)
         verify(rows[k].number, rows[k].draft, outputs, row)
      end) then return nil end
   end
   return loss
end


--- What a scorer gets: the text of an answer.
function M.note(score, number, ids)
   local text = score.tokenizer:decode(ids)
   score.predictions[number] = { index = number, answer = text, ids = ids }
   return text
end

--- What a row of predictions has besides: the text that was read, the one that was wanted, whether
-- the answer is that, and the line of the data.
function M.told(split, number, row)
   local example = split.examples[number]
   return {
      input = example.source, gold = example.target, right = row.answer == example.target,
      line = records.line(example.row),
   }
end

-- ---------------------------------------------------------------------------------------------
-- Prediction.

M.flags = { "max_source", "max_target", "greedy" }

local MAX_SOURCE, MAX_TARGET = 512, 32 -- of texts that belong to no task

--- The source texts: those given, or what the task makes of rows.
local function sources_of(job)
   local items, list = job.items, {}
   if items.document then
      core.fail("malformed data",
         items.path .. ": expected one JSON object a line, or a text a line")
   end
   if items.rows then
      if not job.task then job.usage("%s holds rows: --task says what they mean", items.path) end
      return job.task:sources(items.rows)
   end
   for i, item in ipairs(items) do list[i] = item.text end
   return list
end

--- The source texts as a data set; says how many of them are not read to their end.
local function dataset_of(job, sources, max_source)
   local tokenizer, eos = job.model:tokenizer(), job.model.config.eos_token_id
   local dataset, n_cut = core.data.dataset { "source", "target" }, 0
   for _, text in ipairs(sources) do
      local ids, cut = finish(tokenizer:vector(text), max_source, eos)
      dataset:add { source = ids, target = { eos } }
      n_cut = n_cut + (cut and 1 or 0)
   end
   if n_cut > 0 then
      io.stderr:write(("%s: %d of %s cut to %s, --max-source reads more\n"):format(job.items.path,
         n_cut, counted(#sources, "input"), counted(max_source, "id")))
   end
   return dataset
end

--- Answers every input, in order: { index =, answer = }.
function M.answer(job)
   local function limit(key, preset)
      return job.flags[key] or job.task and job.task[key] or preset
   end
   local rules = generation.rules(job.model, job.flags.greedy)
   local target = limit("max_target") or generation.most(rules, 1, "--max-target") or MAX_TARGET
   local dataset = dataset_of(job, sources_of(job), limit("max_source", MAX_SOURCE))
   local model, size = job.model, math.min(job.flags.batch, dataset:size())
   local params = weights.load(model,
      { batch = size, source = dataset:longest("source"), target = target })
   local packs = decode.packs(params)
   local decoder_of = batches.by_length(function(length)
      return decode.greedy(model, params, { batch = size, source = length, target = target,
         threads = job.threads, rules = rules, packs = packs })
   end)
   local take = batches.in_order(job.emit)
   batches.each(model, dataset, size, function(batch, length)
      local rows = decode.run(decoder_of(length), batch.input_ids, batch.mask)
      for row, number in ipairs(batch.index) do
         if number > 0 then
            take(number, { index = number, answer = model:tokenizer():decode(rows[row]) })
         end
      end
   end)
end

return M
