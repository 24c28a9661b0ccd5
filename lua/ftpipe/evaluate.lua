--- Evaluation of a text-to-text model: loss and greedy answers over a data set.

local core = require("ftpipe.core")
local decode = require("ftpipe.decode")

local M = {}

local function bind(graph, params)
   local list = {}
   for i, param in ipairs(graph:params()) do list[i] = params[param.name] end
   return list
end

--- Programs for one length bucket, made when the first batch of that length comes.
local function bucket_programs(o, source)
   local size = {
      batch = o.batch, source = source, target = o.target, threads = o.threads, grads = false,
   }
   local graph = o.model.family.training(o.model.config, size)
   return {
      loss = core.program.new(graph, { threads = o.threads }),
      params = bind(graph, o.params),
      decoder = decode.greedy(o.model, o.params, size),
   }
end

local function batch_loss(programs, batch)
   local one = core.tensor.zeros({ 1 }):fill(1)
   local out = programs.loss:run(programs.params,
      { batch.input_ids, batch.mask, batch.decoder_ids, batch.labels, one })
   return out.loss:get()
end

--- Evaluates.
-- @tparam table o model, params (tensors by name), dataset, batch, buckets, target, threads; each
--   (optional): called with the example's number and its decoded ids
-- @treturn table loss (mean over the labels that count), predictions (ids by example)
function M.run(o)
   local batcher = core.data.batcher {
      dataset = o.dataset,
      batch = o.batch,
      buckets = o.buckets,
      target_length = o.target,
      pad_id = o.model.config.pad_token_id,
      decoder_start_id = o.model.config.decoder_start_token_id,
      shuffle = false,
   }
   local programs, predictions = {}, {}
   local total, tokens = 0, 0
   local batch = batcher:next()
   while batch do
      programs[batch.bucket] = programs[batch.bucket]
         or bucket_programs(o, o.buckets[batch.bucket])
      local here = programs[batch.bucket]
      total = total + batch_loss(here, batch)
      tokens = tokens + batch.n_tokens
      local rows = decode.run(here.decoder, batch.input_ids, batch.mask)
      for b, number in ipairs(batch.index) do
         if number > 0 then predictions[number] = rows[b] end
      end
      batch = batcher:next()
   end
   return { loss = total / tokens, predictions = predictions }
end

return M
