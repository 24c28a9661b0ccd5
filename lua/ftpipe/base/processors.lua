--- The processors of all processes of a run, in words: their kernels may round differently.

local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local processor = require("ftpipe.base.processor")

local M = {}

local KERNELS = core.sys.all_kernels() -- each needs more of the processor than the one before

--- "rank 0", or "ranks 1, 3 to 5".
local function ranks_words(ranks)
   local parts, first = {}, 1
   for i, rank in ipairs(ranks) do
      if ranks[i + 1] ~= rank + 1 then
         if i - first == 1 then parts[#parts + 1] = ranks[first] end
         parts[#parts + 1] = i - first > 1 and ("%d to %d"):format(ranks[first], rank) or rank
         first = i + 1
      end
   end
   return (#ranks == 1 and "rank " or "ranks ") .. table.concat(parts, ", ")
end

--- What each of a list has, "A at rank 0, B at ranks 1 to 3", where they differ.
-- @tparam {string,...} list by rank
-- @local
function M.words(list)
   local order, ranks = {}, {}
   for i, what in ipairs(list) do
      if not ranks[what] then order[#order + 1], ranks[what] = what, {} end
      table.insert(ranks[what], i - 1)
   end
   if #order == 1 then return order[1] end
   for i, what in ipairs(order) do order[i] = what .. " at " .. ranks_words(ranks[what]) end
   return table.concat(order, ", ")
end

--- The processors of the processes that there are.
-- @treturn string "AMD EPYC 9654 (avx512)"; with the ranks, where they differ
function M.all()
   local all = core.ranks.all()
   return all and M.words(column(all, "processor")) or processor()
end

--- Which kernels differ between processes; nil where all have the same.
-- @treturn[opt] string "avx512 at rank 0, base at rank 1"
-- @treturn[opt] string those that all of them have
function M.differ()
   local list, least = {}, #KERNELS
   for i, row in ipairs(core.ranks.all() or {}) do
      list[i] = row.processor:match("%(([^()]*)%)$") or "?"
      for k, name in ipairs(KERNELS) do
         if name == list[i] then least = math.min(least, k) end
      end
   end
   for _, kernels in ipairs(list) do
      if kernels ~= list[1] then return M.words(list), KERNELS[least] end
   end
   return nil
end

return M
