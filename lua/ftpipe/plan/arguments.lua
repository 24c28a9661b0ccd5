--- What a recipe's arguments and data mean for its plan.

local buckets = require("ftpipe.data.buckets")
local copy = require("ftpipe.base.copy")
local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local directories = require("ftpipe.store.directory")
local evaluate = require("ftpipe.data.evaluate")
local givens = require("ftpipe.plan.given")
local late = require("ftpipe.schedule.late")
local named = require("ftpipe.base.named")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local partitions = require("ftpipe.plan.partition")
local placement = require("ftpipe.placement")
local schedules = require("ftpipe.schedule")
local transport = require("ftpipe.placement.transport")
local usage = require("ftpipe.base.usage")

local M = {}

local function longest_of(data, field)
   local longest = 0
   for _, split in pairs(data) do longest = math.max(longest, split.dataset:longest(field)) end
   return longest
end

--- Length buckets of the first length group of the data, and the lengths of the others by their
-- first field; a split whose examples are all equally long says so in `length`. Without data: as
-- long as the flags allow.
local function lengths_of(model, data, args)
   if not data then return { args.block or args.max_source }, { target = args.max_target } end
   local lengths_to_pad, lengths
   local split = select(2, next(data))
   for _, group in ipairs(split.dataset:groups()) do
      local longest = longest_of(data, group[1])
      if lengths then
         lengths[group[1]] = longest
      else
         lengths_to_pad = split.length and { split.length } or buckets.of(model, longest)
         lengths = {}
      end
   end
   return lengths_to_pad, lengths
end

-- Updates in a plan that is only looked at, when there is no data to count epochs of.
local PLANNED_STEPS = 100

-- Updates of a run, at most: as many as a leg may have (src/plan/making.h).
local MOST_STEPS = 2 ^ 28

--- The updates that a flag asks for.
local function checked_steps(args, flag, steps)
   if steps <= MOST_STEPS then return steps end
   return usage("%s: these are %.0f updates, expected at most %d",
      named.value(args, flag, args[flag]), steps, MOST_STEPS)
end

--- Updates of the whole run: --steps, or as many as --epochs makes.
local function count_steps(args, data)
   if args.steps and not args.epochs then return checked_steps(args, "steps", args.steps) end
   if not data then return PLANNED_STEPS end -- only possible when planning, see Task:open
   if not data.train then return 1 end -- --eval-only
   if not args.epochs then
      usage.of(args, "nothing says how long to train, give {steps} or {epochs}")
   end
   return checked_steps(args, "epochs",
      math.max(1, math.ceil(args.epochs * data.train.dataset:size() / args.batch)))
end

--- Costs come from a profile taken here where that takes no card's time, unless it is asked for.
local function profile_rule(args)
   if args.profile then return args.profile end
   return core.engine.devices(args.devices)[1].in_host and "measured" or "modelled"
end

--- Refuses fewer devices than a recorded plan has stages on.
local function check_recorded(path, args)
   local wanted, there = partitions.devices_of(path), #core.engine.devices(args.devices)
   if wanted > there then
      usage.of(args, "{resume}: the plan in %s has stages on %d devices, and there are %d: give "
         .. "as many, or {change_schedule}, which goes on with other stages and so other numbers",
         path, wanted, there)
   end
end

--- Where the stages come from. What an asynchronous run computes depends on them, and a profile
-- taken another time may give others: it goes on with those that it recorded.
-- @treturn string|table|function the option `partition`
-- @treturn[opt] int the option `stages`: how many are asked for
local function partition_rule(args)
   local recorded = args.resume and not args.change_schedule and args.out
      and args.out .. "/plan.txt"
   local own = args.partition
   local chosen = type(own) == "string" and core.sys.exists(own) -- by the user, in a file
   if recorded and not chosen and not schedules.is_synchronous(args.schedule)
      and core.sys.exists(recorded)
   then
      check_recorded(recorded, args)
      return recorded
   end
   return own, args.stages
end

-- Batches of an evaluation whose data is not there; more of them need no more memory.
local UNKNOWN_BATCHES = 64

--- Batches of an evaluation; nil when there is nothing to evaluate on, as in pre-training.
local function count_eval_batches(data, batch)
   if not data then return UNKNOWN_BATCHES end
   return data.eval and evaluate.count_batches(data.eval.dataset, batch)
end

--- Refuses vectors that are exempt from a decay which there is not.
local function check_decay(args)
   local exempt = named.is_given(args, "decay_exempt") and args.decay_exempt ~= "none"
   if exempt and args.weight_decay == 0 then
      usage.of(args, "{decay_exempt=%s} is for weight decay, and there is none: give "
         .. "{weight_decay} too", args.decay_exempt)
   end
end

--- What is wrong with a number that was set since the flags were read; nil when nothing is.
local function fault_of(row, value)
   local kind = opts.type_of(row)
   if kind ~= "number" and kind ~= "int" or not value then return nil end
   if type(value) == "number" then return select(2, opts.convert(row, value)) end
   if row.lua_type and class.is(value, row.lua_type) then return nil end
   return ("expected %s, got %s"):format(class.words(kind), class.quoted(value))
end

--- Refuses numbers that are none, or out of range.
local function check_numbers(args)
   for _, row in ipairs(options.rows) do
      local fault = fault_of(row, args[row[1]])
      if fault then usage.of(args, "{" .. row[1] .. "}: %s", fault) end
   end
end

--- Refuses flags that mean nothing together.
local function check_flags(args)
   check_numbers(args)
   directories.check(args)
   if args.patience and not args.eval_every then
      usage.of(args, "{patience} counts evaluations, give {eval_every} too")
   end
   if args.save_every and not args.out then
      usage.of(args, "{save_every} saves in the directory that {out} names, give it too")
   end
   for _, name in ipairs { "change_rate", "change_schedule" } do
      if args[name] and not args.resume then
         usage.of(args, "{" .. name .. "} is for a run that goes on, give {resume} too")
      end
   end
   if args.keep and not args.out then
      usage.of(args, "{keep} is for checkpoints in the directory that {out} names, give it too")
   end
   if not args.plan then placement.check_effort(args) end
   check_decay(args)
   late.check(args)
   transport.check(args, args.devices)
end

--- Refuses to train, on devices that are here, with what can only be planned.
local function check_runs(args)
   local staleness = args.staleness ~= "none" and args.staleness or nil
   local here = core.engine.devices(args.devices)[1].executes
   if not here or args.dry_run or args.eval_only or args.plan
      or schedules.runs(args.schedule, staleness)
   then
      return
   end
   usage("%s can be planned and simulated, but not executed yet; %s plans it",
      staleness and named.value(args, "staleness", staleness)
         or named.value(args, "schedule", schedules.name(args.schedule)),
      named.name(args, "dry_run"))
end

--- What ft.args gives, as options of ft.plan.
function M.of(model, data, args)
   check_flags(args)
   check_runs(args)
   local steps = count_steps(args, data)
   local lengths_to_pad, lengths = lengths_of(model, data, args)
   local batches = math.min(args.eval_every or steps, args.save_every or steps, steps)
   local o = copy(options.pick("plan", args), {
      model = model,
      train = data and data.train and data.train.dataset,
      buckets = lengths_to_pad,
      lengths = lengths,
      hypers = { weight_decay = args.weight_decay },
      profile = profile_rule(args),
      dropout = args.dropout or model.config.dropout_rate,
      steps = steps,
      batches = batches,
      plan = givens.recorded(args, batches) or args.plan,
      eval_batches = count_eval_batches(data, args.batch),
      evaluated = data and data.eval and data.eval.dataset,
   })
   o.partition, o.stages = partition_rule(args)
   return o
end

return M
