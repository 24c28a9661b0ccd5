--- Options of a plan: checked, and with what follows from each other.

local adapters = require("ftpipe.model.adapters")
local arguments = require("ftpipe.plan.arguments")
local batch_parts = require("ftpipe.base.batch_parts")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local givens = require("ftpipe.plan.given")
local groups = require("ftpipe.trained.groups")
local late = require("ftpipe.schedule.late")
local links = require("ftpipe.placement.links")
local named = require("ftpipe.base.named")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local placement = require("ftpipe.placement")
local rates = require("ftpipe.trained.rate")
local replicas = require("ftpipe.placement.replicas")
local schedules = require("ftpipe.schedule")
local partitions = require("ftpipe.plan.partition")
local swaps = require("ftpipe.plan.swaps")
local usage = require("ftpipe.base.usage")

local M = {}

-- Options of a plan besides those of options.lua.
M.rules = copy(options.rules("plan"), {
   model = { type = "model", required = true,
      help = 'what ft.model gives, as ft.model "t5-small"' },
   buckets = { type = "table", items = "int", help = "lengths of a source, ascending" },
   lengths = { type = "table", help = "of other fields, by name: { target = 8 }" },
   batches = { type = "int", min = 1, help = "of the longest leg" },
   hypers = { type = "table", help = "of the optimizer, by name" },
   eval_batches = { type = "int", min = 1, help = "of the longest evaluation; none when absent" },
   train = { type = "any", help = "a data set, for how often its lengths are" },
   evaluated = { type = "any", help = "the data set of eval_only, for its lengths" },
   shares = { type = "table", items = "number",
      help = "of batches by bucket; all in the last one when absent" },
   placements = { type = "table", help = "of earlier plans, see ftpipe.placement" },
   searched = { type = "boolean", default = false,
      help = "one of many that are compared: it is compared with few other cuts, and --recompute "
         .. "auto not with other rules" },
})

-- The same when they follow from a recipe's flags and data.
local OF_RECIPES = {
   model = M.rules.model,
   args = { type = "table", required = true, help = "what ft.args gives" },
   data = { type = "any", help = "what the task has loaded" },
   schedule = { type = "string|table", help = "in place of --schedule, as in ft.plan" },
   partition = { type = "any", help = "in place of --partition, as in ft.plan" },
   groups = { type = "string|table", help = "in place of --groups, as in ft.plan" },
}

--- The options of a plan from what is given: those themselves, or flags and data of a recipe, with
-- what is given in place of flags as `instead`.
local function options_of(given)
   if given.args then
      local o = opts.check("ft.plan", OF_RECIPES, given)
      for _, name in ipairs(o.args.plan and { "schedule", "partition" } or {}) do
         if o[name] then usage.of(o.args, "{plan} decides what %s says, leave one out", name) end
      end
      local instead = { schedule = o.schedule, partition = o.partition, groups = o.groups }
      local args = copy(o.args, instead)
      return copy(arguments.of(o.model, o.data, args), { instead = instead }), args
   end
   local o = opts.check("ft.plan", M.rules, given)
   if not o.plan then
      placement.check_effort(o)
   elseif o.effort then
      usage.of(o, "{plan} decides what {effort} says, leave one out")
   end
   return o
end

--- Two stages for each of several devices, where a schedule places them and --stages does not say
-- how many. Refuses, before anything is measured, what it cannot have.
local function check_turns(o)
   local schedule, how = o.rule or o.schedule, o.partition
   if o.given or o.eval_only or not schedules.places(schedule) or not placement.is(how) then
      return
   end
   placement.check_places(o)
   local n_devices = #core.engine.devices(o.devices)
   local n_groups = o.replicas and #replicas.of(o) or n_devices
   local each = (n_groups > 1 or schedules.folds(schedule)) and 2 or 1
   o.stages = o.stages or each * n_groups
   schedules.check_turns(schedule, o.replicas and select(2, replicas.of(o))
      or partitions.place(o, o.stages, n_devices), o.micro_batches)
end

--- Refuses --look-ahead where there is nothing that it could decide.
local function check_look_ahead(o)
   if not o.look_ahead then return end
   if o.synchronous and o.given then
      usage.of(o, "{look_ahead} is for weights that are late, and those of %s never are: leave it "
         .. "out", o.given.title)
   elseif o.synchronous then
      usage.of(o, "{look_ahead} is for weights that are late, and those of {schedule=%s}, which "
         .. "drains, never are: leave it out", o.schedule)
   elseif not core.engine.looks_ahead(o) then
      usage.of(o, "{look_ahead} goes by an optimizer's momentum; {optimizer=%s} has none",
         o.optimizer)
   elseif o.staleness or not schedules.may_be_stale(o.rule or o.schedule) then
      local name = o.staleness and "staleness" or "schedule"
      usage("%s is for the newest weights; %s says itself which weights it reads",
         named.name(o, "look_ahead"), named.value(o, name, o[name]))
   end
end

-- What --update may say. A stage updates `when`: "device", at once behind its backwards, or "end",
-- when the gradients of all stages are there; nil: as the schedule does. Of what moves, `place` is
-- where: "device", "host", or "auto" for what is faster.
local UPDATES = {
   auto = { place = "auto" },
   device = { when = "device", place = "device" },
   ["end"] = { when = "end", place = "device" },
   host = { place = "host" },
}

--- Refuses a directory of swaps where nothing can lie there.
local function check_swap_dir(o, at_home)
   if not swaps.may(o) then
      usage.of(o, "{swap_dir=%s} is for state that moves: expected {swap=auto}", o.swap_dir)
   elseif at_home then
      usage.of(o, "{update=host} works in host memory, and with {swap_dir} the state is on disk: "
         .. "leave one out")
   end
end

--- Decides `update` and `update_place`, columns of UPDATES. Clipping by the norm of all gradients
-- needs those of all stages.
local function settle_update(o)
   if o.swap_dir == "" then
      usage("%s: expected a directory", named.value(o, "swap_dir", ""))
   end
   if o.plan or o.given then return end -- as it is there, see swaps.check_dir
   local how = UPDATES[o.update or "auto"]
   local at_home = how.place == "host"
   if how.when == "device" and o.clip > 0 then
      usage("%s: a stage would update before the gradients of all are there, which %s needs; "
         .. "expected %s or %s", named.value(o, "update", o.update),
         named.value(o, "clip", o.clip), named.value(o, "update", "end"),
         named.value(o, "clip", 0))
   end
   if o.swap_dir then check_swap_dir(o, at_home) end
   if at_home and not swaps.may(o) then
      usage("%s is for state that moves to host memory: expected %s",
         named.value(o, "update", o.update), named.value(o, "swap", "auto"))
   end
   local early = schedules.groups(o.rule or o.schedule) and o.clip == 0
   o.update_place = o.swap_dir and "device" or how.place
   o.update = how.when or (early and "device" or "end")
end

--- Refuses --gnorm where the norm of all gradients is recorded without it.
local function check_gnorm(o)
   local together = not o.given and o.synchronous and o.update ~= "device"
   if o.clip > 0 or together then
      local name = o.clip > 0 and "clip" or "schedule"
      usage("%s is not needed here: with %s the norm of all gradients is recorded anyway",
         named.name(o, "gnorm"), named.value(o, name, o[name]))
   end
end

--- Lengths ascend: a batch goes to the first bucket that holds it.
local function check_buckets(buckets)
   local before = 0
   for i, length in ipairs(buckets) do
      if length <= before then
         opts.fail("ft.plan", "option 'buckets': entry %d is %d, expected more than %d", i, length,
            before)
      end
      before = length
   end
end

-- What has no default: it is given, or decided by something else.
local NEEDED = { "buckets", "batches" }
local NEEDED_TO_EVALUATE = { "buckets", "batches", "eval_batches" }

--- The options with what follows from each other: a rule has a name, a plan that is there decides
-- what it says, a rate depends on whether the pipeline drains.
function M.of(given)
   local o, args = options_of(given)
   local rule = type(o.schedule) == "table" and o.schedule or nil
   if o.staleness == "none" then o.staleness = nil end -- that of the schedule
   o.hypers, o.groups = o.hypers or {}, groups.of(o)
   o.model = adapters.adapt(o.model, o)
   if rule then o.rule, o.schedule = rule, rule.name end
   if o.plan then
      o = givens.decide(o, type(o.plan) == "table" and o.plan.said and o.plan
         or givens.open(o.plan))
   end
   if o.synchronous == nil then
      o.synchronous = schedules.is_synchronous(o.rule or o.schedule)
   end
   o.rate = args and rates.of(args, o.synchronous, o.steps)
   for _, key in ipairs(o.eval_only and NEEDED_TO_EVALUATE or NEEDED) do
      if o[key] == nil then
         opts.fail("ft.plan", "option '%s' is missing (%s)", key, M.rules[key].help)
      end
   end
   check_buckets(o.buckets)
   local problem = batch_parts(o)
   if problem then usage("%s", problem) end
   if not o.given then replicas.check_shares(o) end
   check_turns(o)
   check_look_ahead(o)
   if o.gaps then late.check_gaps(o) end
   settle_update(o)
   if o.gnorm then check_gnorm(o) end
   swaps.mode(o)
   o.placements = o.placements or {}
   o.devices = links.join(o.devices, o.profile)
   return o
end

return M
