--- What devices did with their time: computed, or waited, and for what.
--
-- Of a timeline, which is what blueprint:simulate, schedule_plan:simulate and the engine's
-- run:finish give. A device waits for what comes last of all that its next action needs:
--
--    data       an edge to be filled, which `edges` names: F0>F1 is from forwards of stage 0 to
--               those of stage 1
--    slots      a free slot of an edge
--    batches    its batch to be fed
--    copies     a copy to end
--    replicas   other replicas of its stage
--    between    nothing: the way from one action to the next
--    over       it has nothing left to do in the leg

local words = require("ftpipe.base.words")

local M = {}

local KINDS = { "data", "slots", "batches", "copies", "replicas", "between", "over" }

-- Shares below this one, in percent, round to nothing in every column.
local LEAST = 0.05

--- Sums over legs, with one more: by device ns, computed, each of the kinds, and edges, by name
-- { data =, slots = }.
-- @tparam ?table sums nil before the first
-- @tparam table played a timeline
function M.add(sums, played)
   sums = sums or {}
   for d, waits in ipairs(played.waits) do
      local row = sums[d] or { ns = 0, computed = 0, edges = {} }
      sums[d] = row
      row.ns = row.ns + played.end_ns
      row.computed = row.computed + played.busy_ns[d]
      for _, kind in ipairs(KINDS) do row[kind] = (row[kind] or 0) + waits[kind] end
      for _, edge in ipairs(waits.edges) do
         local sum = row.edges[edge.name] or { data = 0, slots = 0 }
         row.edges[edge.name] = sum
         sum.data, sum.slots = sum.data + edge.data, sum.slots + edge.slots
      end
   end
   return sums
end

--- The sums in percent of the time, by device: computed, the kinds that are not 0, and of edges
-- data and slots that are not 0.
function M.percent(sums)
   local list = {}
   for d, row in ipairs(sums) do
      local function share(ns) return ns > 0 and 100 * ns / row.ns or nil end
      local shares = { computed = 100 * row.computed / math.max(row.ns, 1), edges = {} }
      for _, kind in ipairs(KINDS) do shares[kind] = share(row[kind]) end
      for name, edge in pairs(row.edges) do
         shares.edges[name] = { data = share(edge.data), slots = share(edge.slots) }
      end
      list[d] = shares
   end
   return list
end

--- "data of B1>B0, 9.1 %": the edge that a device waited for most; "" where it did for none.
-- @tparam table shares of a device, of M.percent
function M.longest(shares)
   local most, found = 0, ""
   for name, edge in pairs(shares.edges or {}) do
      for kind, share in pairs(edge) do
         local said = ("%s of %s, %.1f %%"):format(kind, name, share)
         if share > most or share == most and said < found then most, found = share, said end
      end
   end
   return most >= LEAST and found or ""
end

--- Shares of M.percent as rows of words, the head first: columns that are nothing for all are left
-- out.
-- @tparam table percent
-- @tparam {string,...} names of the devices
function M.cells(percent, names)
   local kinds = { "computed" }
   for _, kind in ipairs(KINDS) do
      local most = 0
      for _, shares in ipairs(percent) do most = math.max(most, shares[kind] or 0) end
      if most >= LEAST then kinds[#kinds + 1] = kind end
   end
   local cells = { { "device", unpack(kinds) } }
   cells[1][#kinds + 2] = "most"
   for d, shares in ipairs(percent) do
      local line = { names[d] }
      for _, kind in ipairs(kinds) do
         line[#line + 1] = ("%.1f %%"):format(shares[kind] or 0)
      end
      line[#line + 1] = M.longest(shares)
      cells[d + 1] = line
   end
   return cells
end

--- The sums as lines of such a table.
function M.text(sums, names) return words.columns(M.cells(M.percent(sums), names)) end

return M
