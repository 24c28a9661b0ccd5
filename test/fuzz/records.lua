--- What is done with any text as the records of a task: they are refused in one line that names the
-- file, or become examples.

local files = require("ftpipe.data.files")
local records = require("ftpipe.text.records")
local task = require("ftpipe.task")

local check_refusal = dofile("test/fuzz/refusal.lua")
local tokenizer = dofile("test/fuzz/tokenizer.lua")

local FORMS = {
   { name = "rows.jsonl", task = task.rte {} }, { name = "rows.tsv", task = task.rte {} },
   { name = "rows.jsonl", task = task.wic {} }, { name = "rows.jsonl", task = task.boolq {} },
   { name = "rows.jsonl", task = task.multirc {} },
}

--- Takes a text; raises for what may not be. Its first letter, from "a" on, chooses the task.
return function(text)
   local form = FORMS[(text:byte() or 0) % 32] or FORMS[1]
   local ok, dataset = pcall(function()
      local rows = records.parse(form.name, text:sub(2))
      local layout = files.layout_of(form.task, rows)
      form.task.rows.sources(form.task, layout, rows)
      return (form.task.rows.prepare(form.task, layout, rows, {
         tokenizer = tokenizer, max_source = 16, max_target = 16, eos_id = 3,
      }))
   end)
   if ok then
      if dataset:size() == 0 then error("a data set without examples", 0) end
      return
   end
   check_refusal(dataset, "malformed data")
   if dataset.message:sub(1, #form.name) ~= form.name then error(dataset.message, 0) end
end
