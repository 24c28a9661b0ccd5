--- The progress of a run, for people: one line that rewrites itself on a terminal, plain lines of
-- key=value elsewhere. Goes to stderr; results go to stdout.

local core = require("ftpipe.core")

local M = {}
local Progress = {}
Progress.__index = Progress

local PLAIN_SECONDS = 5 -- between plain lines, at least

--- @tparam int total steps of the run
function M.new(total)
   return setmetatable({
      total = total,
      terminal = core.sys.isatty(2),
      start_ns = core.sys.time_ns(),
      done = 0,
      last_plain = -math.huge,
   }, Progress)
end

local function clock(seconds)
   seconds = math.floor(seconds + 0.5)
   if seconds >= 3600 then
      return ("%d:%02d:%02d"):format(seconds / 3600, seconds / 60 % 60, seconds % 60)
   end
   return ("%d:%02d"):format(seconds / 60, seconds % 60)
end

--- A number of each device, in some unit: "18 21".
local function by_device(list, unit, format, separator)
   local words = {}
   for d, value in ipairs(list) do words[d] = format:format(value / unit) end
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
-- @tparam table step of the training loop (see run/training.lua)
function Progress:step(step)
   self.done = self.done + 1
   local seconds = (core.sys.time_ns() - self.start_ns) / 1e9
   local eta = clock((self.total - step.step) * seconds / self.done)
   if self.terminal then
      show(("step %d/%d  loss %.4f (mean %.4f)  lr %.2e  %.1f samples/s%s  ETA %s  idle %s %%  "
         .. "%s MB"):format(step.step, self.total, step.loss, step.loss_mean, step.rate,
         step.samples_per_second, self.score or "", eta, by_device(step.idle, 1, "%.0f", " "),
         by_device(step.memory, 1e6, "%.1f", " ")))
   elseif seconds - self.last_plain >= PLAIN_SECONDS or step.step == self.total then
      self.last_plain = seconds
      io.stderr:write(("step=%d of=%d loss=%.4f loss_mean=%.4f lr=%.3e samples_per_second=%.1f "
         .. "eta=%s idle_percent=%s memory_mb=%s\n"):format(step.step, self.total, step.loss,
         step.loss_mean, step.rate, step.samples_per_second, eta,
         by_device(step.idle, 1, "%.0f", ","), by_device(step.memory, 1e6, "%.1f", ",")))
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
