--- What passes between stages in a trace: who made a value, who took it, and what went on then.
--
-- A trace says when a value was made and when it was taken, not when it arrived: what it waits in a
-- slot counts as its way.

local units = require("ftpipe.base.units")

local M = {}

--- "F0 29 3" of forwards of stage 0, batch 29, micro-batch 3.
local function key_of(letter, stage, of)
   return ("%s%s %s %s"):format(letter, stage, tostring(of.batch), tostring(of.micro))
end

--- The letter and the stage of an action that a slice shows; nil of others.
local function action_of(slice) return slice.name:match("^(%u) stage (%d+) ") end

--- Values that were made and taken within some slices, edge by edge.
-- @tparam table list slices, as of window.of
-- @tparam table edges as in schedule_plan:head
-- @treturn {table,...} edge, maker and taker (slices)
function M.of(list, edges)
   local slices, makers, found = {}, {}, {}
   for _, slice in ipairs(list) do
      local letter, stage = action_of(slice)
      if letter then
         slices[key_of(letter, stage, slice.args)] = slice
         makers[letter .. stage] = makers[letter .. stage] or {}
         table.insert(makers[letter .. stage], slice)
      end
   end
   for _, edge in ipairs(edges) do
      for _, maker in ipairs(makers[edge.kind .. edge.from - 1] or {}) do
         local taker = slices[key_of(edge.to_kind, edge.to - 1, maker.args)]
         found[#found + 1] = taker and { edge = edge, maker = maker, taker = taker } or nil
      end
   end
   return found
end

--- When devices compute, by device: { from =, till = } in the order of time.
local function computing(list, computes)
   local by_device = {}
   for _, slice in ipairs(list) do
      if computes(slice) then
         by_device[slice.pid] = by_device[slice.pid] or {}
         table.insert(by_device[slice.pid], { from = slice.ts, till = slice.ts + slice.dur })
      end
   end
   for _, spans in pairs(by_device) do
      table.sort(spans, function(a, b) return a.from < b.from end)
   end
   return by_device
end

--- How much of the time between two moments some spans have.
local function shared(spans, from, till)
   local us = 0
   for _, span in ipairs(spans or {}) do
      if span.from >= till then break end
      us = us + math.max(0, math.min(span.till, till) - math.max(span.from, from))
   end
   return us
end

--- What micro-batches leave for another device: how many values, microseconds from when they were
-- made until they were taken, and how many of these the taker computed.
-- @tparam table list slices
-- @tparam table edges as in schedule_plan:head
-- @tparam function computes whether a slice is work of its device
-- @treturn int values
-- @treturn number us
-- @treturn number hidden
function M.overlap(list, edges, computes)
   local spans, values, us, hidden = computing(list, computes), 0, 0, 0
   for _, passage in ipairs(M.of(list, edges)) do
      local maker, taker = passage.maker, passage.taker
      if maker.pid ~= taker.pid and maker.args.micro then
         local from, till = maker.ts + maker.dur, math.max(taker.ts, maker.ts + maker.dur)
         values, us = values + 1, us + till - from
         hidden = hidden + shared(spans[taker.pid], from, till)
      end
   end
   return values, us, hidden
end

--- The same in a line; nil where nothing passes between devices.
function M.words(list, edges, computes)
   local values, us, hidden = M.overlap(list, edges, computes)
   if values == 0 then return nil end
   return ("between devices: %d values, %s each from made to taken, %.0f %% of it while the taker "
      .. "computes"):format(values, units.format_seconds(us / values / 1e6),
      100 * hidden / math.max(us, 1e-9))
end

return M
