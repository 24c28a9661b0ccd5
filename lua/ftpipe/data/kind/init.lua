--- Kinds of models and of tasks: what is read, handed out, scored and predicted. A kind is a file
-- here, kind/NAME.lua, and needs no other; a model's family and a task's definition name it.
--
-- A kind has, for tasks (see task/init.lua)
--    definition, overrides, load   option rules of a definition, of a task made of it, of
--                                  Task:load, beyond those that every task has. `task` below has
--                                  `task.definition`, and the overrides as fields. What predicting
--                                  needs is among these: a run keeps them, not the definition
--    layout                        rules of what predictions need of a layout; optional
--    check(definition)             refuses options that do not go together; optional
--    options(model, args)          what flags of a recipe are options of Task:load
--    example                       what an example is called, where it is no row; optional
--    prepare(task, layout, rows, o)  the slow part: a dataset, and plain values ("notes"), of rows
--                                  (text/records.lua); o.split is "train" or "eval", o.tokenizer
--                                  that of the model
--    limit(rows, n)                what is left of rows when n are asked for, where that is not the
--                                  first n; optional
--    modules                       names of others whose code `prepare` runs; optional
--    split(task, layout, notes, read_rows)  the rest of a split: examples, and remarks, a list of
--                                  what a user should know of the data (optional); read_rows()
--                                  gives the rows
--    sources(task, layout, rows)   see Task:sources; optional
--    scorer(task, split)           see Task:scorer
--    figures(task, split)          see Task:figures; optional
-- for evaluation (see data/evaluate.lua)
--    asks                          an option of family.training that makes the graph hand out what
--                                  is scored; optional
--    outputs(graph)                names what is scored an output, where no option does; optional
--    predict(batch, outputs, row, example)  what one forward says of a row of a batch, or instead
--    evaluate(o, forward)          all forwards
--    note(score, number, prediction)  what the scorer gets; keeps rows of predictions.jsonl in
--                                  score.predictions
--    told(split, number, row)      what such a row has besides: the example; optional
-- and for `ftpipe predict`
--    flags                         names of the flags that it understands, of those that not all do
--    answer(job)                   emits a row for each of job.items (data/predict/input.lua):
--                                  texts, or with items.rows rows of job.task; refuses by job.usage
--                                  what it cannot read. A job has model, flags and threads, too

local families = require("ftpipe.model.families")
local modules = require("ftpipe.base.modules")

local M = {}

local PLACE = "ftpipe.data.kind"

--- The names of all kinds, sorted.
function M.names() return modules(PLACE) end

--- The name of a kind's module.
function M.module(name) return PLACE .. "." .. name end

--- The kind of a name; nil when there is none.
function M.find(name)
   if type(name) ~= "string" or not name:find("^[%w_]+$") then return nil end
   local ok, found = pcall(require, M.module(name))
   if ok then return found end
   if type(found) == "string" and found:find("module '" .. M.module(name) .. "' not found", 1, true)
   then
      return nil
   end
   return error(found, 0)
end

--- What an example of a kind is called.
function M.example(kind) return kind.example or "example" end

--- The model_types whose models are of a kind, sorted.
function M.families(name)
   local list = {}
   for model_type, module in pairs(families) do
      if require(module).kind == name then list[#list + 1] = model_type end
   end
   table.sort(list)
   return list
end

--- The kind of a model.
function M.of(model) return require(M.module(model.family.kind)) end

return M
