--- Batches on their way into graphs: a batch is a table of tensors by the names of graph inputs.
--
-- A family says how labels are weighed in `family.losses`, a list of { weight =, labels =, share =
-- }: the graph input `weight` gets share / (labels of the column `labels` that count), counted over
-- the whole batch, so that the loss is the mean over labels however the batch is cut.

local core = require("ftpipe.core")

local M = {}

--- Batches of training data from the start, in the order of a run.
-- @tparam table o options of a plan: batch, buckets, lengths, seed
-- @tparam dataset dataset
-- @tparam model model
function M.batches(o, dataset, model)
   return core.data.batcher {
      dataset = dataset,
      batch = o.batch,
      buckets = o.buckets,
      lengths = o.lengths,
      columns = model.family.columns(model.config),
      seed = o.seed,
      shuffle = true,
      prefetch = 4,
   }
end

--- Gives a batch the weights of its labels.
-- @tparam family family
-- @tparam table batch of a batcher; its weights are set: batch[weight], (micro_batches) f32
-- @tparam int micro_batches
-- @tparam[opt] boolean sums the loss is to be a sum over labels, not their mean
-- @tparam[opt] number factor by which the loss is to be too large (base/scaling.lua)
-- @treturn table the batch
function M.weigh(family, batch, micro_batches, sums, factor)
   for _, row in ipairs(family.losses) do
      local weight = row.share / (sums and 1 or math.max(batch.counts[row.labels], 1))
         * (factor or 1)
      batch[row.weight] = core.tensor.zeros({ micro_batches }):fill(weight)
   end
   return batch
end

--- The tensors of a batch in the order of a graph's inputs.
-- @tparam {table,...} inputs of graph:inputs()
-- @tparam table batch tensors by name
-- @raise invalid argument: the batch lacks one
function M.list(inputs, batch)
   local list = {}
   for i, input in ipairs(inputs) do
      list[i] = batch[input.name]
      if not list[i] then
         core.fail("invalid argument", ("the batch has no '%s', an input of the graph"):format(
            input.name))
      end
   end
   return list
end

return M
