--- Open devices: streams, events and memory (ft.cuda).

local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local units = require("ftpipe.base.units")

local M = {}

local Card, Stream, Event = { __name = "card" }, { __name = "stream" }, { __name = "event" }
Card.__index, Stream.__index, Event.__index = Card, Stream, Event

-- Devices ----------------------------------------------------------------------------------------

M.open_options = {
   pinned = { type = "bytes", default = "16MB", min = 2,
      help = "memory of the host that copies pass through" },
}

local cards = {} -- that are open, by what they were opened as

--- Opens a device; the same one again while it is open. It stays open until `card:close()`.
-- @tparam string where a device list of one: "cuda:0", "cuda:0/4GB"
-- @tparam[opt] table o those options that are not as they are below
-- @treturn card { name = "cuda:0" }
function M.open(where, o)
   local there = cards[where]
   if there and not o then return there end
   o = opts.check("ft.cuda.open", M.open_options, o or {})
   if there and there.pinned_bytes ~= o.pinned then
      core.fail("invalid argument", ("%sft.cuda.open: %s is open with %s of pinned memory; close it"
         .. " first"):format(core.where(), where, units.format_bytes(there.pinned_bytes)))
   end
   if there then return there end
   local handle = core.card.open(where, o.pinned)
   local card = { handle = handle, name = core.card.name(handle), as = where,
      pinned_bytes = o.pinned }
   cards[where] = setmetatable(card, Card)
   return card
end

--- What its memory holds.
-- @treturn table { total_bytes = its budget, free_bytes =, tensor_bytes = of tensors that scripts
--   have there, pinned_bytes = memory of the host that its copies pass through }
function Card:usage()
   local total, free, tensors, pinned = core.card.bytes(self.handle)
   return { total_bytes = total, free_bytes = free, tensor_bytes = tensors, pinned_bytes = pinned }
end

--- A stream: work on it is done in its order, and not in that of other streams.
-- @treturn stream
function Card:stream()
   return setmetatable({ handle = core.card.stream(self.handle), card = self }, Stream)
end

--- An event: a point in the work of a stream.
-- @treturn event
function Card:event()
   return setmetatable({ handle = core.card.event(self.handle), card = self }, Event)
end

--- Waits for all streams of the card.
-- @raise what failed on it
function Card:synchronize() core.card.finish(self.handle) end

--- Gives the card back, as soon as its tensors and streams are gone.
function Card:close()
   core.card.close(self.handle)
   cards[self.as] = nil
end

function Card:__tostring()
   if cards[self.as] ~= self then return ("card %s (closed)"):format(self.name) end
   local has = self:usage()
   return ("card %s: %s free of %s, %s in tensors, %s of pinned memory"):format(self.name,
      units.format_bytes(has.free_bytes), units.format_bytes(has.total_bytes),
      units.format_bytes(has.tensor_bytes), units.format_bytes(has.pinned_bytes))
end

-- Streams ----------------------------------------------------------------------------------------

--- After `run`: the stream of before gets work again, and what the function gave or raised goes on.
local function leave(card, before, fine, ...)
   core.card.use(card.handle, before and before.handle)
   card.current = before
   if not fine then error((...), 0) end
   return ...
end

--- Calls f(...); what it computes on the card is given to this stream.
-- @tparam function f
-- @param ... its arguments
-- @treturn any what it gives
function Stream:run(f, ...)
   local card, before = self.card, self.card.current
   core.card.use(card.handle, self.handle)
   card.current = self
   return leave(card, before, pcall(f, ...))
end

--- Has an event stand for what the stream was given so far.
-- @tparam[opt] event event of the same card; a new one when absent
-- @treturn event
function Stream:record(event)
   event = event or self.card:event()
   core.card.record(self.handle, event.handle)
   return event
end

--- What the stream is given from here on waits until the event has come.
-- @tparam event event that was recorded, on this card or another one
function Stream:wait(event) core.card.wait(self.handle, event.handle) end

--- Waits until all is done that the stream was given.
-- @raise what failed on the card
function Stream:synchronize() core.card.finish_stream(self.handle) end

function Stream:__tostring() return "stream of card " .. self.card.name end

-- Events -----------------------------------------------------------------------------------------

--- Waits until it has come.
-- @raise what failed on the card, or that it was never recorded
function Event:synchronize() core.card.await(self.handle) end

--- Whether it was recorded and has come.
-- @treturn boolean
function Event:passed() return core.card.passed_ns(self.handle) ~= nil end

--- The time between two events, on the card's clock; waits for both.
-- @tparam event earlier
-- @treturn number seconds
function Event:seconds_since(earlier)
   earlier:synchronize()
   self:synchronize()
   return (core.card.passed_ns(self.handle) - core.card.passed_ns(earlier.handle)) / 1e9
end

function Event:__tostring()
   return ("event of card %s, %s"):format(self.card.name, self:passed() and "passed" or
      "not passed")
end

guard("ft.cuda", M, { open = "where: string, o?: table" })
guard("card", Card, { usage = "", stream = "", event = "", synchronize = "", close = "" })
guard("stream", Stream, { run = "f: function", record = "event?: event", wait = "event: event",
   synchronize = "" })
guard("event", Event, { synchronize = "", passed = "", seconds_since = "earlier: event" })

return M
