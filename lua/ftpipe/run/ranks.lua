--- Runs of several processes, which a launcher of MPI has started: rank 0 runs the recipe, plans,
-- and sends graphs and plans as texts; the others check them, build the same blueprint, and serve
-- with the devices that they have.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local links = require("ftpipe.placement.links")
local processor = require("ftpipe.base.processor")
local processors = require("ftpipe.base.processors")
local transport = require("ftpipe.placement.transport")
local usage = require("ftpipe.base.usage")

local M = {}

-- The run of several processes that was begun last, as long as it is held.
local begun = setmetatable({}, { __mode = "v" })

-- What a blueprint is made from and a job says in another way: as texts, or, as costs, not at all.
local OTHERWISE = {
   graphs = true, joint_graphs = true, plan = true, devices = true, weight_decays = true,
   rate_factors = true, costs = true, evaluation = true,
}

local function texts_of(graphs)
   local texts = {}
   for i, graph in ipairs(graphs) do texts[i] = graph:text() end
   return texts
end

--- A list with numbers, or false, for each of n; nil where there is none.
local function filled(list, n)
   if not list then return nil end
   local whole = {}
   for i = 1, n do whole[i] = list[i] or false end
   return whole
end

--- What the others need to have the same blueprint, and to pass values in the same way.
local function job_of(plan, way)
   local said = plan.said
   local n_params = #said.graphs[1]:params()
   local job = {
      graphs = texts_of(said.graphs), plan = plan.blueprint:plan_text(),
      joint_graphs = said.joint_graphs and texts_of(said.joint_graphs),
      devices = core.engine.devices(said.devices), transport = way,
      weight_decays = filled(said.weight_decays, n_params),
      rate_factors = filled(said.rate_factors, n_params),
   }
   for key, value in pairs(said) do
      if not OTHERWISE[key] then job[key] = value end
   end
   if said.evaluation then
      job.evaluation = {
         -- before the blueprint adds what it brings of weights that move: each does so by itself
         graphs = texts_of(said.evaluation.graphs), plan = said.evaluation.plan:text(),
      }
   end
   return core.json.encode(job)
end

local function parse_graphs(texts)
   for i, text in ipairs(texts) do
      if type(text) ~= "string" then
         core.fail("malformed data", ("a job: graph %d is no text"):format(i))
      end
      texts[i] = core.graph.parse(text)
   end
end

--- Graphs and plan of a part of a job, out of their texts.
local function parse(part)
   if type(part) ~= "table" or type(part.graphs) ~= "table" or type(part.plan) ~= "string" then
      core.fail("malformed data", "a job: expected graphs and a plan")
   end
   parse_graphs(part.graphs)
   if type(part.joint_graphs) == "table" then parse_graphs(part.joint_graphs) end
   part.plan = core.schedule.parse(part.plan)
end

--- What a process besides rank 0 makes of a job.
-- @treturn blueprint
-- @treturn[opt] string how values pass between cards, as --transport says it
-- @raise what is wrong with the text
-- @local
function M.blueprint_of(text)
   local said = core.json.decode(text)
   parse(said)
   if said.evaluation then parse(said.evaluation) end
   local way = said.transport
   said.transport = nil
   return core.engine.blueprint(said), way
end

local function run_of(text)
   local blueprint, way = M.blueprint_of(text)
   return blueprint:run(nil, way)
end

--- Processes of a device list.
local function count_ranks(devices)
   local last = 0
   for _, device in ipairs(devices) do last = math.max(last, device.rank) end
   return last + 1
end

--- What starts n processes of one run, in the words of the launcher that started this one.
local function launch_words(n)
   local launcher = os.getenv("SLURM_STEP_NUM_TASKS") and "srun --mpi=pmix" or "mpirun"
   return ("%s -n %d ftpipe ..."):format(launcher, n)
end

--- Raises what keeps a plan from being run by the processes that were started.
-- @param plan
-- @tparam table args flags, of which `transport` may be there
-- @tparam[opt] boolean rehearses nothing runs: a process that was started alone may look at a plan
--   for several
-- @treturn int how many processes there are
function M.check(plan, args, rehearses)
   transport.check(args, plan.devices)
   local all, wanted = core.ranks.all(), count_ranks(plan.devices)
   local there = all and #all or 1
   if there ~= wanted and (all or not rehearses) then
      usage("%s is of %s, and %s started: expected %s", plan.devices_name,
         counted(wanted, "process", "processes"), counted(there, "was", "were"),
         wanted > 1 and launch_words(wanted)
            or ("devices of %d, as hosts:%dxcpu:1"):format(there, there))
   end
   if wanted > 1 and plan.options.swap_dir then
      usage.of(plan.options, "{swap_dir} is for a run of one process, this one is of %d", wanted)
   end
   plan:check_swap_dir()
   return there
end

--- What a run of processes whose kernels differ says at its start; nil where they do not, or cards
-- compute.
function M.kernels_words(plan)
   local differ, least = processors.differ()
   if not differ or not plan.devices[1].in_host then return nil end
   return ("the kernels of its processes differ, and so may the last bits of numbers from those of "
      .. "one process: %s; FTPIPE_KERNELS=%s for all of them (mpirun -x FTPIPE_KERNELS=%s) makes "
      .. "them the same"):format(differ, least, least)
end

--- The run of a plan: of this process, or of all that there are, which have one at a time: the one
-- before it ends.
-- @param plan
-- @tparam[opt] table args flags, of which `transport` may be there
function M.run(plan, args)
   args = args or {}
   local there = M.check(plan, args)
   if there > 1 then
      if begun.last then begun.last:free() end
      collectgarbage() -- frees one that nobody holds
      core.ranks.tell(job_of(plan, args.transport))
   end
   local run = plan.blueprint:run(plan.options.swap_dir, args.transport)
   if there > 1 then begun.last = run end
   return run
end

local function serve_run(job)
   local made, run = pcall(run_of, job)
   if not made then
      core.ranks.reply(run.message or tostring(run), run.status)
      return
   end
   if core.ranks.reply() then run:serve() end
   run:free()
end

--- Does what rank 0 says until the program ends. Launchers send signals to all processes: what they
-- ask for rank 0 answers.
local function serve(rank)
   core.sys.hold_interrupt(true)
   core.sys.pass_over_asks()
   for job in core.ranks.hear do
      if job == links.JOB then
         if core.ranks.reply() then links.take_part(rank) end
      else
         serve_run(job)
      end
   end
end

--- Meets the other processes; those besides rank 0 serve.
function M.join()
   local rank = core.ranks.open(core.version, processor())
   if rank > 0 then serve(rank) end
end

return M
