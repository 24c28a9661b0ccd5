--- Lengths that batches are padded to.

local M = {}

local STEP, MOST = 8, 4

--- At most four lengths, multiples of 8, ascending; the last one holds every example.
-- @tparam int longest ids of an example
-- @tparam int most that a model takes; an example may be longer all the same
-- @treturn {int,...}
function M.lengths(longest, most)
   local buckets = {}
   for quarter = 1, MOST do
      local length = math.max(STEP, math.ceil(longest * quarter / MOST / STEP) * STEP)
      if longest <= most then length = math.min(length, most) end
      if length ~= buckets[#buckets] then buckets[#buckets + 1] = length end
   end
   return buckets
end

--- Those for a model: one may have positions for so many ids alone.
function M.of(model, longest)
   local positions = model.family.positions
   return M.lengths(longest, positions and positions(model.config) or math.huge)
end

return M
