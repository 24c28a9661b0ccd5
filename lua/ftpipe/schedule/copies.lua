--- What devices copied to and from host memory, by class of what it was.
--
-- Of a timeline, as blueprint:simulate, schedule_plan:simulate and the engine's run:finish give it.
-- A copy is hidden while its device computes, or waits for something that is not a copy.

local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")

local M = {}

--- Sums over legs, with one more: batches, and by device and class bytes_in, bytes_out, ns,
-- exposed_ns.
-- @tparam ?table sums nil before the first
-- @tparam table played a timeline
-- @tparam int batches of it
function M.add(sums, played, batches)
   sums = sums or { batches = 0, devices = {} }
   sums.batches = sums.batches + batches
   for d, by_class in ipairs(played.copies) do
      local own = sums.devices[d] or {}
      sums.devices[d] = own
      for class, row in pairs(by_class) do
         own[class] = own[class] or { bytes_in = 0, bytes_out = 0, ns = 0, exposed_ns = 0 }
         for key, value in pairs(row) do own[class][key] = own[class][key] + value end
      end
   end
   return sums
end

--- Whether any were made.
function M.any(sums)
   for _, by_class in ipairs(sums and sums.devices or {}) do
      if next(by_class) then return true end
   end
   return false
end

--- The sums as rows of words, the head first, those first that were waited for longest.
-- @tparam table sums
-- @tparam {string,...} names of the devices
function M.cells(sums, names)
   local cells = { { "device", "copies of a batch", "in", "out", "take", "hidden" } }
   local batches = math.max(sums.batches, 1)
   for d, by_class in ipairs(sums.devices) do
      local classes = {}
      for class in pairs(by_class) do classes[#classes + 1] = class end
      table.sort(classes, function(a, b)
         local x, y = by_class[a].exposed_ns, by_class[b].exposed_ns
         return x > y or x == y and a < b
      end)
      for _, class in ipairs(classes) do
         local sum = by_class[class]
         cells[#cells + 1] = { names[d], class, units.format_bytes(sum.bytes_in / batches),
            units.format_bytes(sum.bytes_out / batches),
            units.format_seconds(sum.ns / 1e9 / batches),
            ("%.0f %%"):format(100 * (1 - sum.exposed_ns / math.max(sum.ns, 1))) }
      end
   end
   return cells
end

--- The cells as lines of a table.
function M.text(sums, names) return words.columns(M.cells(sums, names)) end

return M
