--- The progress of a run, for people: one line that rewrites itself on a terminal, plain lines of
-- key=value elsewhere. Goes to stderr; results go to stdout.

local core = require("ftpipe.core")

local M = {}
local Progress = {}
Progress.__index = Progress

local PLAIN_SECONDS = 5 -- between plain lines, at least

--- @tparam int total steps of the run
-- @tparam int batch samples per step
function M.new(total, batch)
   return setmetatable({
      total = total,
      batch = batch,
      terminal = core.sys.isatty(2),
      start_ns = core.sys.time_ns(),
      done = 0,
      last_plain = -math.huge,
      smooth = nil,
   }, Progress)
end

local function clock(seconds)
   seconds = math.floor(seconds + 0.5)
   if seconds >= 3600 then
      return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60)
   end
   return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

--- A number of each device: "18 21".
local function by_device(list, format, separator)
   local words = {}
   for d, value in ipairs(list) do words[d] = format:format(value) end
   return table.concat(words, separator)
end

--- The line of a terminal, no longer than it is wide, so that the next one covers it.
local function show(text)
   local columns = core.sys.columns()
   io.stderr:write("\r", columns and text:sub(1, columns - 1) or text, "\27[K")
end

--- A count that rewrites itself on a terminal, and is gone at its end; nothing elsewhere.
-- @tparam string what is counted: "plans"
-- @treturn function of how many are done, and of how many
function M.counter(what)
   if not core.sys.isatty(2) then return function() end end
   return function(done, total)
      show(done < total and ("%d of %d %s"):format(done, total, what) or "")
      if done == total then io.stderr:write("\r") end
   end
end

--- Notes a finished step and shows it.
-- @tparam table step step, loss, rate
-- @tparam function load gives what the devices do, as lists: idle (percent of the time), memory
--   (MB that were reached)
function Progress:step(step, load)
   self.done = self.done + 1
   self.smooth = self.smooth and 0.9 * self.smooth + 0.1 * step.loss or step.loss
   local seconds = (core.sys.time_ns() - self.start_ns) / 1e9
   local speed = self.done * self.batch / seconds
   local eta = clock((self.total - step.step) * seconds / self.done)
   if self.terminal then
      local now = load()
      show(("step %d/%d  loss %.4f  lr %.2e  %.1f samples/s%s  ETA %s  idle %s %%  %s MB"):format(
         step.step, self.total, self.smooth, step.rate, speed, self.score or "", eta,
         by_device(now.idle, "%.0f", " "), by_device(now.memory, "%.1f", " ")))
   elseif seconds - self.last_plain >= PLAIN_SECONDS or step.step == self.total then
      local now = load()
      self.last_plain = seconds
      io.stderr:write(("step=%d of=%d loss=%.4f lr=%.3e samples_per_second=%.1f eta=%s "
         .. "idle_percent=%s memory_mb=%s\n"):format(step.step, self.total, self.smooth, step.rate,
         speed, eta, by_device(now.idle, "%.0f", ","), by_device(now.memory, "%.1f", ",")))
   end
end

--- Notes what the last evaluation gave, for the line.
-- @tparam string text "accuracy 93.2 %"
function Progress:evaluated(text) self.score = "  " .. text end

--- Ends the line on a terminal.
function Progress:close()
   if self.terminal and self.done > 0 then io.stderr:write("\n") end
end

return M
