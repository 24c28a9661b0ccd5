--- The progress of a run, for people: one line that rewrites itself on a terminal, plain lines of
-- key=value elsewhere. Goes to stderr; results go to stdout.

local core = require("ftpipe.core")

local M = {}
local Progress = {}
Progress.__index = Progress

local PLAIN_SECONDS = 5 -- between plain lines, at least
local SHOWN_SECONDS = 0.2 -- between lines of an evaluation on a terminal

local stderr = io.stderr

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
local function line(text, columns)
   return "\r" .. (columns and text:sub(1, columns - 1) or text) .. "\27[K"
end

local function show(text) stderr:write(line(text, core.sys.columns())) end

--- A count that rewrites itself on a terminal, and is gone at its end; nothing elsewhere.
-- @tparam string what is counted: "plans"
-- @treturn function of how many are done, and of how many
function M.counter(what)
   if not core.sys.isatty(2) then return function() end end
   return function(done, total)
      show(done < total and ("%d of %d %s"):format(done, total, what) or "")
      if done == total then stderr:write("\r") end
   end
end

-- ---------------------------------------------------------------------------------------------
-- Evaluations.

local Evaluation = {}
Evaluation.__index = Evaluation

--- The progress of an evaluation: a line that is gone at its end on a terminal, elsewhere plain
-- lines when it takes long.
-- @tparam int total examples
-- @tparam[opt] table screen terminal, columns, write(text), now() in ns: those of the process,
--   unless given
-- @treturn table :add() counts an example, :close() ends the line
function M.evaluation(total, screen)
   screen = screen or {
      terminal = core.sys.isatty(2), now = core.sys.time_ns, columns = core.sys.columns(),
      write = function(text) stderr:write(text) end,
   }
   local start_ns = screen.now()
   return setmetatable({
      screen = screen, total = total, done = 0, start_ns = start_ns, last_ns = start_ns,
      shown = false,
   }, Evaluation)
end

--- Counts an example.
function Evaluation:add()
   self.done = self.done + 1
   local now, terminal = self.screen.now(), self.screen.terminal
   local seconds = (now - self.start_ns) / 1e9
   if (now - self.last_ns) / 1e9 < (terminal and SHOWN_SECONDS or PLAIN_SECONDS) then return end
   self.last_ns, self.shown = now, true
   local speed = self.done / seconds
   local eta = clock((self.total - self.done) / speed)
   local text = (terminal and "evaluated %d/%d  %.1f samples/s  ETA %s"
      or "evaluated=%d of=%d samples_per_second=%.1f eta=%s\n"):format(self.done, self.total, speed,
      eta)
   self.screen.write(terminal and line(text, self.screen.columns) or text)
end

--- Takes the line away.
function Evaluation:close()
   if self.shown and self.screen.terminal then self.screen.write("\r\27[K") end
end

-- ---------------------------------------------------------------------------------------------
-- Training.

--- Notes a finished step and shows it.
-- @tparam table step of the training loop (see run/training.lua)
function Progress:step(step)
   self.done = self.done + 1
   local seconds = (core.sys.time_ns() - self.start_ns) / 1e9
   local eta = clock((self.total - step.step) * seconds / self.done)
   if self.terminal then
      show(("step %d/%d  loss %.4f (mean %.4f)  lr %.2e  %.1f samples/s  %.0f tokens/s%s  "
         .. "ETA %s  idle %s %%  %s MB"):format(step.step, self.total, step.loss, step.loss_mean,
         step.rate, step.samples_per_second, step.tokens / step.seconds, self.score or "", eta,
         by_device(step.idle, 1, "%.0f", " "), by_device(step.memory, 1e6, "%.1f", " ")))
   elseif seconds - self.last_plain >= PLAIN_SECONDS or step.step == self.total then
      self.last_plain = seconds
      stderr:write(("step=%d of=%d loss=%.4f loss_mean=%.4f lr=%.3e samples_per_second=%.1f "
         .. "tokens_per_second=%.0f eta=%s idle_percent=%s memory_mb=%s\n"):format(step.step,
         self.total, step.loss, step.loss_mean, step.rate, step.samples_per_second,
         step.tokens / step.seconds, eta,
         by_device(step.idle, 1, "%.0f", ","), by_device(step.memory, 1e6, "%.1f", ",")))
   end
end

--- Notes what the last evaluation gave, for the line.
-- @tparam string text "accuracy 93.2 %"
function Progress:evaluated(text) self.score = "  " .. text end

--- Ends the line on a terminal.
function Progress:close()
   if self.terminal and self.done > 0 then stderr:write("\n") end
end

return M
