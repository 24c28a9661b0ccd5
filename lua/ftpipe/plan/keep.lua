--- Recomputing no more than memory asks for.

local M = {}

--- Stages that recompute, those first that hold the fewest micro-batches: of the same memory they
-- save most time.
-- @tparam {boolean,...} flags by stage
-- @tparam table rows by stage: in_flight
-- @treturn {int,...}
function M.order(flags, rows)
   local list = {}
   for s, flag in ipairs(flags) do
      if flag then list[#list + 1] = s end
   end
   table.sort(list, function(a, b)
      local x, y = rows[a].in_flight, rows[b].in_flight
      return x < y or x == y and a < b
   end)
   return list
end

--- Keeps activations where there is room for them: a device with several stages may have it for
-- what some of them keep. One that keeps may make room for the next, by what recomputing needs
-- itself: a stage is tried again when another one of its device has changed since.
-- @param plan what has `recompute`, flags by stage
-- @tparam function rows_of gives the stages of a plan: in_flight, device
-- @tparam function with gives the plan with other flags
-- @tparam function is_too_large whether a device of a stage of a plan is over its budget
-- @return a plan of `with`, or the first
function M.where_possible(plan, rows_of, with, is_too_large)
   local changes, tried = {}, {}
   repeat
      local again, rows = false, rows_of(plan)
      for _, s in ipairs(M.order(plan.recompute, rows)) do
         local device = rows[s].device
         local count = changes[device] or 0
         if tried[s] ~= count then
            local flags = {}
            for i, flag in ipairs(plan.recompute) do flags[i] = flag and i ~= s end
            local kept = with(flags)
            tried[s] = count
            if not is_too_large(kept, rows[s]) then
               plan, again, changes[device] = kept, true, count + 1
            end
         end
      end
   until not again
   return plan
end

return M
