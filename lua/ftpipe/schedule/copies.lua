--- What devices copied to and from host memory, by class of what it was, and sent each other.
--
-- Of a timeline, as blueprint:simulate, schedule_plan:simulate and the engine's run:finish give it.
-- A copy is hidden while its device computes, or waits for something that is not a copy.

local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")

local M = {}

--- Sums over legs, with one more: batches, in devices by device and class bytes_in, bytes_out, ns,
-- exposed_ns, and, of runs, in sent by device bytes by what made them.
-- @tparam ?table sums nil before the first
-- @tparam table played a timeline
-- @tparam int batches of it
function M.add(sums, played, batches)
   sums = sums or { batches = 0, devices = {}, sent = played.sent and {} }
   sums.batches = sums.batches + batches
   for d, by_class in ipairs(played.copies) do
      local own = sums.devices[d] or {}
      sums.devices[d] = own
      for class, row in pairs(by_class) do
         own[class] = own[class] or { bytes_in = 0, bytes_out = 0, ns = 0, exposed_ns = 0 }
         for key, value in pairs(row) do own[class][key] = own[class][key] + value end
      end
   end
   for d, by_kind in ipairs(played.sent or {}) do
      local own = sums.sent[d] or {}
      sums.sent[d] = own
      for kind, bytes in pairs(by_kind) do own[kind] = (own[kind] or 0) + bytes end
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

--- Rows of what a device sent others, largest first.
local function add_sent(cells, name, by_kind, batches)
   local kinds = {}
   for kind in pairs(by_kind) do kinds[#kinds + 1] = kind end
   table.sort(kinds, function(a, b)
      return by_kind[a] > by_kind[b] or by_kind[a] == by_kind[b] and a < b
   end)
   for _, kind in ipairs(kinds) do
      cells[#cells + 1] = { name, kind .. " to others", "-",
         units.format_bytes(by_kind[kind] / batches), "-", "-" }
   end
end

--- The sums as rows of words, the head first, those first that were waited for longest; then what
-- was sent.
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
      add_sent(cells, names[d], sums.sent and sums.sent[d] or {}, batches)
   end
   return cells
end

--- The cells as lines of a table.
function M.text(sums, names) return words.columns(M.cells(sums, names)) end

return M
