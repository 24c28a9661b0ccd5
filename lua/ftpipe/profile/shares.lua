--- How often batches fall into each length bucket, and what a node costs on average.
--
-- A profile is of the longest bucket. A node's cost in a shorter one is taken in proportion to what
-- is modelled for both.

local copy = require("ftpipe.base.copy")

local M = {}

local SAMPLE = 2000 -- examples looked at, evenly spread

--- Shares of batches by bucket, from the lengths of a dataset's first length group: a batch is as
-- long as its longest example.
-- @tparam dataset dataset
-- @tparam {int,...} buckets ascending
-- @tparam int batch examples
-- @treturn {number,...} shares that add up to 1
function M.of(dataset, buckets, batch)
   local fields, size = dataset:groups()[1], dataset:size()
   local counts, looked = {}, math.min(SAMPLE, size)
   for b in ipairs(buckets) do counts[b] = 0 end
   for i = 1, looked do
      local length = #dataset:get(math.floor((i - 1) * size / looked) + 1, fields[1])
      local b = 1
      while b < #buckets and buckets[b] < length do b = b + 1 end
      counts[b] = counts[b] + 1
   end
   local result, fit, before = {}, 0, 0
   for b in ipairs(buckets) do
      fit = fit + counts[b]
      local all_fit = (fit / looked) ^ batch
      result[b], before = all_fit - before, all_fit
   end
   return result
end

--- Costs of nodes averaged over the buckets.
-- @tparam table costs of the last graph
-- @tparam {graph,...} graphs by bucket
-- @tparam {number,...} shares by bucket; nil: all in the last
-- @tparam string device that the ratios are modelled for
function M.blend(costs, graphs, shares, device)
   if not shares or #graphs == 1 then return costs end
   local last = graphs[#graphs]:times(device)
   local factor = {}
   for n in ipairs(last) do factor[n] = shares[#graphs] end
   for b = 1, #graphs - 1 do
      for n, ns in ipairs(graphs[b]:times(device)) do
         factor[n] = factor[n] + shares[b] * ns / last[n]
      end
   end
   local result = copy(costs)
   for _, key in ipairs { "node_ns", "recompute_ns" } do
      if costs[key] then
         result[key] = {}
         for n, ns in ipairs(costs[key]) do result[key][n] = ns * factor[n] end
      end
   end
   return result
end

return M
