--- The learning rate over a run, from its flags.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")

local M = {}

--- After warm-up the rate stays, unless --lr-schedule says otherwise. With a schedule that does
-- not drain it falls to 0 over the last fifth of the run: late weights differ from the newest
-- ones by steps of the size of the rate, so at a rate that stays it is luck how the last steps
-- leave the model (doc/staleness.md). With --max-staleness 0 none are late.
local function schedule_of(args, synchronous)
   local is_late = not synchronous and args.max_staleness ~= 0
   return args.lr_schedule or (is_late and "cooldown" or "constant")
end

--- @tparam table args of ft.args: lr, lr_schedule, warmup and max_staleness (may be nil)
-- @tparam boolean synchronous the schedule of the run drains
-- @tparam int steps of the whole run; warm-up is never more than a tenth of them
-- @treturn table what engine.rate takes: schedule, peak, warmup, steps
function M.of(args, synchronous, steps)
   return {
      schedule = schedule_of(args, synchronous),
      peak = args.lr,
      warmup = math.min(args.warmup or steps, math.floor(steps / 10)),
      steps = steps,
   }
end

local rows = {}
for _, row in ipairs(core.engine.rate_schedules()) do rows[row.name] = row end

--- For people: "0.001 after 80 steps of warm-up, then linear to 0 at step 800".
function M.words(rate)
   local text, row = ("%g"):format(rate.peak), rows[rate.schedule]
   if rate.warmup > 0 then
      text = ("%s after %s of warm-up"):format(text, counted(rate.warmup, "step"))
   end
   text = ("%s, %s"):format(text, row.words)
   return row.ends and ("%s to 0 at step %d"):format(text, rate.steps) or text
end

return M
