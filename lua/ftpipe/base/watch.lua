--- Waiting for a run that may hang.
--
-- A run in which no action ends anywhere for too long is lost: who waits for whom is said, and it
-- ends. SIGQUIT asks for the same words at any time, and the run goes on.

local core = require("ftpipe.core")

local M = {}
local Watch = {}
Watch.__index = Watch

local HANG_SECONDS = 300
local POLL_SECONDS = 0.2
local END_SECONDS = 5 -- for workers that are told to stop

--- @tparam table o engine (a run of it); limit (gives the seconds without any action finished after
--   which it is lost, nil for no limit; 300 without it); lost (called with what is said then, gives
--   what is to be said besides); say (prints an answer to SIGQUIT); waits (called now and then
--   while a step takes long)
function M.new(o)
   return setmetatable({
      engine = o.engine,
      limit = o.limit or function() return HANG_SECONDS end,
      lost = o.lost or function() return "" end,
      say = o.say or function(text) io.stderr:write(text) end,
      waits = o.waits or function() end,
      slowest = 0, -- step so far, in seconds
   }, Watch)
end

--- Notes what a step took.
function Watch:saw(seconds) self.slowest = math.max(self.slowest, seconds) end

--- Ends the run, which is lost.
local function give_up(watch, seconds)
   local text = ("nothing moved for %.0f s:\n%s"):format(seconds, watch.engine:describe())
   local more = watch.lost(text)
   local back, problem = pcall(watch.engine.give_up, watch.engine, END_SECONDS)
   if not back then more = more .. "\n" .. problem.message end
   core.fail("lost worker", text .. more)
end

--- The next finished batch.
-- @raise lost worker: nothing moves, with who waits for whom
function Watch:next()
   local run = self.engine
   local moved, since = run:progress(), core.sys.time_ns()
   while true do
      if core.sys.asked("report") then self.say(run:describe()) end
      local result = run:next(POLL_SECONDS)
      if result then return result end
      self.waits()
      local now = run:progress()
      if now ~= moved then moved, since = now, core.sys.time_ns() end
      local seconds = (core.sys.time_ns() - since) / 1e9
      if seconds > (self.limit(seconds) or math.huge) then give_up(self, seconds) end
   end
end

return M
