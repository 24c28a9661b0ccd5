--- A plan shown, and what its run would stop at before its first step, found without running it, in
-- the words of the run itself. Flags, data, devices and memory were checked when it was planned;
-- here the rest: another process in --out, more or fewer processes than devices are of, NCCL where
-- it is asked for, the directory of swaps and its room, tensors of the checkpoint, arguments with
-- which a run does not go on, the first batch, room for a checkpoint. Nothing is written, and no
-- weight is read.

local directories = require("ftpipe.store.directory")
local feed = require("ftpipe.data.feed")
local ranks = require("ftpipe.run.ranks")
local states = require("ftpipe.store.state")
local transport = require("ftpipe.placement.transport")
local wanted = require("ftpipe.run.wanted")

--- The first batch against the graph of its length.
local function check_batch(plan, data)
   local o = plan.options
   if not data.train then return end
   local batch = feed.batches(o, data.train.dataset, o.model):next()
   feed.weigh(o.model.family, batch, o.micro_batches)
   plan.blueprint:check_feed(feed.list(plan.graphs[1]:inputs(), batch), batch.bucket)
end

--- What a run goes on from: arguments that would change what it computes, and files.
local function check_start(o, path)
   local run = {
      plan = o.plan, model = o.plan.options.model, task = o.task, data = o.data, args = o.args,
      rate = o.plan.options.rate,
   }
   if o.data and o.data.train then states.check(run, path) end
   states.check_files(run, path)
end

--- Raises what is wrong.
local function rehearse(o)
   local plan, args = o.plan, o.args
   if args.out then directories.check_free(args) end
   ranks.check(plan, args, true)
   transport.rehearse(args, plan.devices)
   local swap_dir = plan.options.swap_dir
   if swap_dir then plan.blueprint:check_swap_room(swap_dir) end
   local from = args.resume and states.find(args.out)
   if from then
      check_start(o, from)
   else
      plan.options.model:check_files(plan.graphs[1]:params())
   end
   if o.data then check_batch(plan, o.data) end
   if args.out and not args.eval_only then
      states.check_room {
         out = args.out, plan = plan, model = plan.options.model, losses = {}, args = args,
      }
   end
end

--- Prints a plan and refuses one that does not fit; of one that can only be looked at, also what a
-- run would stop at.
-- @tparam table o plan; task; data, nil without; args
-- @treturn boolean whether that is all that the plan is for
-- @raise plan infeasible, not found, malformed data, shape mismatch, invalid argument, input or
--   output failed, unsupported
return function(o)
   local plan = o.plan
   print(plan)
   plan:check()
   if not plan.only then return false end
   wanted(o.task, o.data)
   if plan.devices[1].executes then rehearse(o) end
   return true
end
