--- A plan that is there already: from --plan, from ft.plan.load or an edit, or from the directory
-- of a run that goes on. What it decides is taken from it: where the model is cut, devices, orders,
-- slots, versions, recomputation. Bytes and memory follow from the model.

local class = require("ftpipe.base.class")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local named = require("ftpipe.base.named")
local options = require("ftpipe.plan.options")
local records = require("ftpipe.store.record")
local schedules = require("ftpipe.schedule")
local partitions = require("ftpipe.plan.partition")
local texts = require("ftpipe.schedule.text")
local usage = require("ftpipe.base.usage")

local M = {}

--- Opens what the option `plan` may be: the path of a file, or a plan of ft.plan.load.
-- @tparam string|schedule_plan what
-- @tparam[opt] boolean recorded it is the one that this run has made itself before
-- @treturn table plan, said = what it says of itself, name, title in a sentence, recorded
function M.open(what, recorded)
   local plan = type(what) == "string" and texts.load(what) or what
   if class.of(plan) ~= "ftpipe.schedule_plan" then
      usage("option 'plan': expected a file or what ft.plan.load gives, got %s", class.told(what))
   end
   return {
      plan = plan, said = plan:describe(), recorded = recorded,
      name = type(what) == "string" and what or "given",
      title = type(what) == "string" and what or "the plan that is given",
   }
end

--- Pieces of a batch that go forward, where some stage takes several micro-batches as one.
local function forward_pieces(said)
   local most = 1
   for _, stage in ipairs(said.stages) do most = math.max(most, stage.joint) end
   return most > 1 and said.micro_batches / most or nil
end

--- Options of ft.plan with what the plan decides.
function M.decide(o, given)
   local said = given.said
   if said.forward_only ~= (o.eval_only or false) then
      usage("%s: the plan is of %s; with %s a plan is one of forwards alone, else it trains",
         given.name, said.forward_only and "forwards alone" or "training",
         named.name(o, "eval_only"))
   end
   local decided = copy(o, {
      given = given, schedule = said.schedule, micro_batches = said.micro_batches,
      [o.eval_only and "eval_batches" or "batches"] = said.batches,
   })
   decided.forward_micro_batches = forward_pieces(said)
   if not given.recorded then decided.synchronous = said.synchronous end
   return decided
end

--- Refuses other devices than the plan has orders for.
local function check_devices(o, given)
   local n = #core.engine.devices(o.devices)
   if n ~= given.said.devices then
      usage.of(o, "%s: the plan is for %s, {devices} names %d", given.name,
         counted(given.said.devices, "device"), n)
   end
end

--- The cut of the plan that options have as `given`, for a graph.
-- @treturn table stage (by forward node), device (by stage; a list where it has replicas), name,
--   plan
-- @treturn table by stage, whether it recomputes
function M.partition(o, graph)
   local given, said = o.given, o.given.said
   check_devices(o, given)
   partitions.check_nodes(given.name, said.node_stage, graph, #said.stages)
   local device, recompute = {}, {}
   for s, stage in ipairs(said.stages) do
      device[s] = #stage.devices > 1 and stage.devices or stage.devices[1]
      recompute[s] = stage.recompute
   end
   return { stage = said.node_stage, device = device, name = given.partition or given.name,
      plan = given.plan }, recompute
end

--- The plan that a run has recorded in its directory; nil when there is none, when it is to go on
-- by other flags that a plan is made by, or in longer legs. With the same ones it goes on with the
-- plan that it has: costs that are measured again could give another. What the record says of the
-- schedule is what the plan is of, which --plan decides.
-- @tparam table args of the recipe
-- @tparam int batches of the longest leg
function M.recorded(args, batches)
   local path = args.out and args.out .. "/plan.txt"
   if not args.resume or args.eval_only or not core.sys.exists(path)
      or not core.sys.exists(records.path(args.out))
   then
      return nil
   end
   local record = records.read(args.out)
   local flags = record.flags
   args = copy(args, { schedule = args.plan and flags.schedule or schedules.name(args.schedule) })
   for _, row in ipairs(options.rows) do
      if row.plans and flags[row[1]] ~= args[row[1]] then return nil end
   end
   local given = M.open(path, true)
   given.partition = record.partition
   return given.said.batches >= batches and given or nil
end

return M
