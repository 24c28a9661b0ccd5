--- An experiment from its flags to its result: what recipes do once they have said what is learnt.
--
--    local args = ft.args { "Fine-tune T5 on RTE.", preset = "t5", steps = { default = 800 } }
--    return ft.fine_tune { args = args, task = ft.task.rte { max_source = args.max_source } }
--
-- Nothing in here is closed to scripts that want it otherwise: examples/own_task.lua writes it out.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local directories = require("ftpipe.store.directory")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local plans = require("ftpipe.plan")
local rehearse = require("ftpipe.run.rehearse")
local runs = require("ftpipe.run")
local usage = require("ftpipe.base.usage")

local rules = {
   args = { type = "table", required = true, help = "of ft.args" },
   task = { type = "task", required = true, help = "what is learnt, as ft.task.rte" },
   schedule = { type = "string|table", help = "in place of --schedule, as in ft.plan" },
   partition = { type = "any", help = "in place of --partition, as in ft.plan" },
   groups = { type = "string|table", help = "in place of --groups, as in ft.plan" },
}

--- Whether to score the weights before they are trained, which costs as much as afterwards: not in
-- the middle of a resumed run, and not when a new head of random values can only guess. The tiny
-- models inside the program are quick, and show what chance is.
local function is_telling(run)
   return run.done == 0 and (run.model.embedded or #run.fresh == 0)
end

--- Refuses flags of a command line that a script's own options take the place of.
local function check_replaced(args, o)
   for _, name in ipairs { "schedule", "partition", "groups" } do
      if o[name] ~= nil and args[name] ~= o[name] and named.is_given(args, name) then
         usage.of(args, "{" .. name .. "=%s} says nothing here: the script gives its own, leave "
            .. "the flag out", args[name])
      end
   end
   if type(o.partition) == "function" and named.is_given(args, "stages") then
      usage.of(args, "{stages} says nothing here: the script's own partitioner gives each node a "
         .. "device, leave the flag out")
   end
end

--- What the run has left, and what can be done with it.
local function what_is_left(args)
   if not args.out then
      return named.words(args, "nothing is kept; {out=auto} keeps the model and its metrics")
   end
   return ("%s: %s shows it, %s answers with it"):format(args.out,
      argvs.line { "ftpipe", "report", args.out }, argvs.line { "ftpipe", "predict", args.out })
end

--- Opens the model of --model and the data of --data, plans, and says what is planned. Without
-- devices to run on, or with --dry-run, that is all, and a plan that does not fit is an error; with
-- --dry-run so is what else would stop the run before its first step. Neither writes to --out.
-- Otherwise it scores the model, trains it, scores it again and leaves in --out what the run made;
-- with --eval-only it scores only.
-- @tparam table o `args` of ft.args, with what the preset "fine_tune" declares; `task`; optionally
--   `schedule`, `partition` and `groups`, in place of the flags: what ft.schedule gives, a
--   function, a list of groups, as { { "encoder.*", frozen = true } }
-- @treturn table what summary.json holds; the plan, when that is all
-- @raise invalid argument, not found, malformed data, plan infeasible, diverged, cancelled
return setmetatable({ takes = { ["ft.fine_tune"] = rules } }, { __call = function(_, o)
   o = opts.check("ft.fine_tune", rules, o)
   local args, task = o.args, o.task
   if not named.are_flags(args) then
      opts.fail("ft.fine_tune", "option 'args': expected what ft.args gives, as ft.args { preset = "
         .. '"fine_tune" }, got a table of its own')
   end
   check_replaced(args, o)
   core.sys.hear_asks(true) -- who asks before the first step is answered then
   directories.check(args)
   local model = models.open(args)
   local data = task:open(model, args)
   print(("%s: %s; %s"):format(task.name, model, data or "no data, planning only"))

   local plan = plans.new {
      model = model, data = data, args = args, schedule = o.schedule, partition = o.partition,
      groups = o.groups,
   }
   local planned = { plan = plan, task = task, data = data, args = args }
   if rehearse(planned) then
      core.sys.hear_asks(false)
      return plan
   end

   local run = runs.new(planned)
   if not args.eval_only then
      if not args.out and not model.embedded then
         run:say(named.words(args, "nothing will be kept; {out=auto} keeps it below out/"))
      end
      if is_telling(run) then print(("before: %s"):format(run:evaluate())) end
      for step in run:train() do run:show(step) end
   end
   local score = run:evaluate()
   print(("%s: %s"):format(args.eval_only and "score" or "after", score))
   local summary = run:close(score)
   if not args.eval_only then io.stderr:write(what_is_left(args), "\n") end
   return summary
end })
