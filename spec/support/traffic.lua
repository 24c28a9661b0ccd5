--- What a run of spec/support/pipeline.lua has copied, beside what its plan says, in whole bytes.

local assert = require("luassert")

local M = {}

--- Asserts of every device, class and direction that as many bytes were copied to and from host
-- memory as the plan says.
-- @tparam table run of as many steps as the plan's longest leg, where stages of a device pass
--   something through host memory of the longest batches
function M.assert_copied(run)
   for d, volume in ipairs(run.plan.volumes or {}) do
      for _, way in ipairs { "bytes_in", "bytes_out" } do
         for class, planned in pairs(volume[way]) do
            local copied = run.timeline.copies[d][class]
            assert.equal(planned, copied and copied[way] or 0,
               ("%s of %s on device %d"):format(way, class, d))
         end
      end
   end
end

--- Asserts of every device and kind of action that it sent others as many bytes as the plan says.
-- @tparam table run likewise, of the longest batches
function M.assert_sent(run)
   assert.same(run.plan.sends, run.timeline.sent)
end

--- Bytes that all devices sent each other, of what actions of the kind made.
function M.sent(run, kind)
   local bytes = 0
   for _, by_kind in ipairs(run.timeline.sent) do bytes = bytes + (by_kind[kind] or 0) end
   return bytes
end

--- Bytes of a class that a plan says all devices copy, from host memory and to it.
function M.planned(plan, class)
   local bytes = 0
   for _, volume in ipairs(plan.volumes) do
      bytes = bytes + volume.bytes_in[class] + volume.bytes_out[class]
   end
   return bytes
end

return M
