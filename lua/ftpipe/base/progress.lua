--- The progress of a run, for people: one line that rewrites itself on a terminal, plain lines of
-- key=value elsewhere. Goes to stderr; results go to stdout.

local core = require("ftpipe.core")
local units = require("ftpipe.base.units")

local M = {}
local Progress = {}
Progress.__index = Progress

local PLAIN_SECONDS = 5 -- between plain lines, at least
local SHOWN_SECONDS = 0.2 -- between lines of an evaluation on a terminal

local stderr = io.stderr

--- @tparam int total steps of the run
-- @tparam[opt] {int,...} late by stage, how many updates the weights of its forwards lack
function M.new(total, late)
   return setmetatable({
      total = total,
      late = late,
      terminal = core.sys.isatty(2),
      start_ns = core.sys.time_ns(),
      done = 0,
      shown = false, -- the line of a terminal, which has no end yet
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

--- Parts of a line that fit into so many columns, two blanks between them. What has the largest
-- rank goes first.
-- @tparam table parts { { text, rank }, ... }
-- @tparam[opt] int columns
-- @treturn string
function M.fitted(parts, columns)
   local kept = { unpack(parts) }
   while true do
      local texts, last = {}, 1
      for i, part in ipairs(kept) do
         texts[i] = part[1]
         if part[2] > kept[last][2] then last = i end
      end
      local text = table.concat(texts, "  ")
      if not columns or #text < columns or #kept == 1 then return text end
      table.remove(kept, last)
   end
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
   local text = (terminal and "evaluated %d/%d  %s samples/s  ETA %s"
      or "evaluated=%d of=%d samples_per_second=%s eta=%s\n"):format(self.done, self.total,
      units.format_rate(speed), eta)
   self.screen.write(terminal and line(text, self.screen.columns) or text)
end

--- Takes the line away.
function Evaluation:close()
   if self.shown and self.screen.terminal then self.screen.write("\r\27[K") end
end

-- ---------------------------------------------------------------------------------------------
-- Training.

--- What a terminal shows of a step, each part with how soon it is left out where there is no room.
local function parts_of(progress, step, eta)
   local parts = {
      { ("step %d/%d"):format(step.step, progress.total), 1 },
      { ("loss %.4f"):format(step.loss), 2 },
      { ("mean %.4f"):format(step.loss_mean), 6 }, { ("lr %.2e"):format(step.rate), 9 },
      { units.format_rate(step.samples_per_second) .. " samples/s", 4 },
      { ("%.0f tokens/s"):format(step.tokens / step.seconds), 7 },
      { "ETA " .. eta, 3 }, { ("idle %s %%"):format(by_device(step.idle, 1, "%.0f", " ")), 5 },
      { by_device(step.memory, 1e6, "%.1f", " ") .. " MB", 8 },
   }
   if progress.score then table.insert(parts, 7, { progress.score, 5 }) end
   if progress.late then parts[#parts + 1] = { "late " .. table.concat(progress.late, " "), 10 } end
   return parts
end

local function show_plain(progress, step, eta)
   stderr:write(("step=%d of=%d loss=%.4f loss_mean=%.4f lr=%.3e samples_per_second=%s "
      .. "tokens_per_second=%.0f eta=%s idle_percent=%s memory_mb=%s%s\n"):format(step.step,
      progress.total, step.loss, step.loss_mean, step.rate,
      units.format_rate(step.samples_per_second), step.tokens / step.seconds, eta,
      by_device(step.idle, 1, "%.0f", ","), by_device(step.memory, 1e6, "%.1f", ","),
      progress.late and " late=" .. table.concat(progress.late, ",") or ""))
end

--- Notes a finished step and shows it.
-- @tparam table step of the training loop (see run/training.lua)
function Progress:step(step)
   self.done = self.done + 1
   local seconds = (core.sys.time_ns() - self.start_ns) / 1e9
   local eta = clock((self.total - step.step) * seconds / self.done)
   if self.terminal then
      local columns = core.sys.columns()
      stderr:write(line(M.fitted(parts_of(self, step, eta), columns), columns))
      self.shown = true
   elseif seconds - self.last_plain >= PLAIN_SECONDS or step.step == self.total then
      self.last_plain = seconds
      show_plain(self, step, eta)
   end
end

--- Notes what the last evaluation gave, for the line.
-- @tparam string text "accuracy 93.2 %"
function Progress:evaluated(text) self.score = text end

--- Ends the line on a terminal.
function Progress:close()
   if self.shown then stderr:write("\n") end
   self.shown = false
end

return M
