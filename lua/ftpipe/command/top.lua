--- ftpipe top RUN: what a run does now, from another terminal, by its metrics.jsonl.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local left = require("ftpipe.store.left")
local directories = require("ftpipe.store.directory")
local records = require("ftpipe.store.record")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")
local waits = require("ftpipe.schedule.waits")
local words = require("ftpipe.base.words")

local M = { help = "what a run does now, from another terminal" }

M.declared = {
   "Shows the last step of a run and what its devices do, again every second, until the run ends.",
   "ftpipe top out/rte",
   once = { type = "boolean", default = false, help = "show it once" },
}

-- Bytes of metrics.jsonl that are read, and those in which an evaluation and a leg further back are
-- looked for: lines of other steps are skipped there.
local TAIL, MOST = 2 ^ 16, 2 ^ 24
local BAR = 30 -- columns

-- What is shown of a step, and of an evaluation.
local STEP = { "loss", "loss_mean", "lr", "samples_per_second", "tokens_per_second" }
local EVALUATION = { "eval_loss", "metric", "value" }

local function has(row, names)
   for _, name in ipairs(names) do
      if row[name] == nil then return false end
   end
   return true
end

--- Whether a line may be the row of an evaluation or of a leg.
local function is_rare(line)
   return line:find('"eval_loss"', 1, true) or line:find('"leg_s"', 1, true)
end

--- The last row of a step, the last of an evaluation, and the last of a leg, in so many bytes at
-- the end of a file.
-- @tparam file file
-- @tparam int bytes
-- @tparam function may_be (line): whether a line is looked at
local function last_of(file, bytes, may_be)
   file:seek("set", math.max(0, file:seek("end") - bytes))
   local step, evaluation, leg
   for line in file:lines() do
      local row = may_be(line) and left.row(line) -- the first and the last may be cut
      if row then
         if has(row, STEP) then step = row end
         if has(row, EVALUATION) then evaluation = row end
         if row.leg_s then leg = row end
      end
   end
   return step, evaluation, leg
end

--- The last rows of a run's metrics.jsonl, as last_of has them.
local function last_rows(path)
   local file = io.open(path .. "/metrics.jsonl")
   if not file then return nil end
   local step, evaluation, leg = last_of(file, TAIL, function() return true end)
   if not evaluation or not leg then
      local _, earlier, earlier_leg = last_of(file, MOST, is_rare)
      evaluation, leg = evaluation or earlier, leg or earlier_leg
   end
   file:close()
   return step, evaluation, leg
end

--- What a device waited for most in a leg; "" where the row does not say.
local function longest(leg, d)
   local shares = leg.shares_percent and leg.shares_percent[d]
   return shares and waits.longest(shares) or ""
end

--- Lines of what the rows say.
-- @tparam table record of run.json
-- @tparam[opt] table step the row of the last step
-- @tparam[opt] table evaluation that of the last evaluation
-- @tparam boolean running
-- @tparam[opt] table leg the row of the last leg, with what devices waited for
function M.lines(record, step, evaluation, running, leg)
   if not step then return { running and "no step is done yet" or "no step was done" } end
   local steps = tonumber(record.flags and record.flags.steps)
   local rest = steps and step.step_s and math.max(0, steps - step.step) * step.step_s
   local lines = {
      ("step %d%s  loss %.4f (mean %.4f)  lr %.2e  %s"):format(step.step,
         steps and "/" .. steps or "", step.loss, step.loss_mean, step.lr,
         running and rest and "ETA " .. units.format_seconds(rest)
            or running and "" or records.state_words(record)),
      ("%s samples/s  %.0f tokens/s"):format(units.format_rate(step.samples_per_second),
         step.tokens_per_second),
   }
   if evaluation then
      lines[3] = ("held-out after step %d: %s %.4g %s"):format(evaluation.step, evaluation.metric,
         evaluation.value, evaluation.unit or "")
   end
   local names, longest_name = records.device_names(record, #(step.idle_percent or {})), 0
   for _, name in ipairs(names) do longest_name = math.max(longest_name, words.width(name)) end
   for d, idle in ipairs(step.idle_percent or {}) do
      local busy = math.max(0, math.min(BAR, math.floor(BAR * (100 - idle) / 100 + 0.5)))
      local wait = leg and longest(leg, d) or ""
      local padding = (" "):rep(longest_name - words.width(names[d]))
      lines[#lines + 1] = ("%s%s  %s%s %3.0f %% busy  %s%s"):format(names[d], padding,
         ("#"):rep(busy), ("."):rep(BAR - busy), 100 - idle,
         units.format_bytes((step.memory_bytes or {})[d] or 0),
         wait ~= "" and "  waits most for " .. wait or "")
   end
   return lines
end

--- What a run does now.
-- @treturn table lines
-- @treturn boolean whether a process runs it
-- @local
function M.screen(path)
   local running = directories.writer(path) ~= nil
   local step, evaluation, leg = last_rows(path)
   return M.lines(records.read(path), step, evaluation, running, leg), running
end

--- Rows of a terminal that lines take: those longer than it is wide are wrapped.
local function rows_of(lines)
   local columns, rows = core.sys.columns() or math.huge, 0
   for _, line in ipairs(lines) do
      rows = rows + math.max(1, math.ceil(words.width(line) / columns))
   end
   return rows
end

--- @tparam {string,...} argv the words after "top"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(M.declared, argv, "top RUN")
   if not path then usage("top needs the directory of a run, as ftpipe top out/rte") end
   records.need(path)
   local terminal, shown = core.sys.isatty(1), {}
   while true do
      local lines, running = M.screen(path)
      if terminal and shown[1] then io.stdout:write(("\27[%dA\27[J"):format(rows_of(shown))) end
      print(table.concat(lines, "\n"))
      shown = lines
      if flags.once or not running then return end
      core.process.sleep(1)
   end
end

return M
