--- Predictions of text-to-text models: greedy answers.

local core = require("ftpipe.core")
local batches = require("ftpipe.predict.batches")
local decode = require("ftpipe.decode")
local weights = require("ftpipe.predict.weights")

local M = {}

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

local function dataset_of(job, sources, max_source)
   local tokenizer, eos = job.model:tokenizer(), job.model.config.eos_token_id
   local dataset = core.data.dataset { "source", "target" }
   for _, text in ipairs(sources) do
      local ids = tokenizer:encode(text)
      for i = #ids, max_source, -1 do ids[i] = nil end
      ids[#ids + 1] = eos
      dataset:add { source = ids, target = { eos } }
   end
   return dataset
end

--- Answers every input, in order: { index =, answer = }.
function M.run(job)
   local function limit(key, preset)
      return job.flags[key] or job.task and job.task[key] or preset
   end
   local target = limit("max_target", MAX_TARGET)
   local dataset = dataset_of(job, sources_of(job), limit("max_source", MAX_SOURCE))
   local model, size = job.model, math.min(job.flags.batch, dataset:size())
   local params = weights.load(model,
      { batch = size, source = dataset:longest("source"), target = target })
   local decoders = batches.lazily(function(length)
      return decode.greedy(model, params,
         { batch = size, source = length, target = target, threads = job.threads })
   end)
   local take = batches.in_order(job.emit)
   batches.each(model, dataset, size, function(batch, length)
      local rows = decode.run(decoders[length], batch.input_ids, batch.mask)
      for row, number in ipairs(batch.index) do
         if number > 0 then
            take(number, { index = number, answer = model:tokenizer():decode(rows[row]) })
         end
      end
   end)
end

return M
