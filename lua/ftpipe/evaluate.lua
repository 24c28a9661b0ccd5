--- Evaluation of a text-to-text model: loss and greedy answers over a data set.

local core = require("ftpipe.core")
local decode = require("ftpipe.decode")
local feed = require("ftpipe.feed")

local M = {}

local function bind(graph, params)
   local list = {}
   for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
   return list
end

--- Programs for one length bucket, made when the first batch of that length comes.
local function bucket_programs(o, source)
   local size = {
      batch = o.batch, source = source, target = o.lengths.target, threads = o.threads,
      grads = false,
   }
   local graph = o.model.family.training(o.model.config, size)
   return {
      loss = core.program.new(graph, { threads = o.threads }),
      inputs = graph:inputs(),
      params = bind(graph, o.params),
      decoder = decode.greedy(o.model, o.params, size),
   }
end

--- The loss of a batch times its labels, and how many labels those are.
local function batch_loss(o, programs, batch)
   for _, row in ipairs(o.model.family.losses) do
      batch[row.weight] = core.tensor.zeros({ 1 }):fill(row.share)
   end
   local out = programs.loss:run(programs.params, feed.list(programs.inputs, batch))
   return out.loss:get(), batch.counts[o.model.family.losses[1].labels]
end

--- Evaluates.
-- @tparam table o model, params (tensors by name), dataset, batch, buckets, lengths, threads
-- @treturn table loss (mean over the labels that count), predictions (ids by example)
function M.run(o)
   local batcher = core.data.batcher {
      dataset = o.dataset,
      batch = o.batch,
      buckets = o.buckets,
      lengths = o.lengths,
      columns = o.model.family.columns(o.model.config),
      shuffle = false,
   }
   local programs, predictions = {}, {}
   local total, tokens = 0, 0
   local batch = batcher:next()
   while batch do
      programs[batch.bucket] = programs[batch.bucket]
         or bucket_programs(o, o.buckets[batch.bucket])
      local here = programs[batch.bucket]
      local loss, counted = batch_loss(o, here, batch)
      total, tokens = total + loss, tokens + counted
      local rows = decode.run(here.decoder, batch.input_ids, batch.mask)
      for b, number in ipairs(batch.index) do
         if number > 0 then predictions[number] = rows[b] end
      end
      batch = batcher:next()
   end
   return { loss = total / tokens, predictions = predictions }
end

return M
