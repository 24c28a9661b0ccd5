--- Weighted graphs placed on devices: ft.partition(problem, options).
--
--    local problem = ft.graph("bert24_training.json"):problem()
--    local result = ft.partition(problem, { method = "seq", cost = "sum" })
--    print(result)
--
-- A problem is a table of lists. By node: node_ns (a list for each kind of device), fixed_bytes,
-- saved_bytes (of each micro-batch in flight), tie (nodes of one number share a device), pin (its
-- only device), cheap (made again where it is used). By edge: edge_from, edge_to, edge_bytes,
-- edge_grad_bytes. `devices` has rows { kind =, slowdown =, memory_bytes =, bytes_per_s = };
-- in_flight is a number of micro-batches. Nodes, devices and kinds count from 1.

local bars = require("ftpipe.page.bars")
local class = require("ftpipe.base.class")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local html = require("ftpipe.page.html")
local opts = require("ftpipe.base.opts")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")

local M = { methods = core.partition.methods, costs = core.partition.costs }

local Result = {}
Result.__index = Result
Result.__name = "placement"

local function describe_load(d, load)
   return ("  device %d: %.2f ms in %s, %.1f MB, sends %.2f MB, receives %.2f MB"):format(d - 1,
      load.price_ns / 1e6, counted(load.stages, "stage"), load.memory_bytes / 1e6,
      (load.out_bytes + load.out_grad_bytes) / 1e6, (load.in_bytes + load.in_grad_bytes) / 1e6)
end

--- "optimal", or how far above a bound: that of all placements, and the method's own where it has
-- one.
local function describe_gap(result)
   if result.proved then return "optimal" end
   local words = ("at most %.1f %% above the optimum"):format(100 * result.gap)
   if not result.method_gap or result.method_gap >= result.gap then return words end
   return ("%s, %.1f %% above the best that %s could find"):format(words, 100 * result.method_gap,
      result.method)
end

function Result:__tostring()
   local lines = {
      ("%s: slowest device %.3f ms, %s, %s, %.2f MB moved; effort %.1f"):format(self.method,
         self.objective_ns / 1e6, describe_gap(self), counted(self.n_stages, "stage"),
         self.moved_bytes / 1e6, self.effort),
   }
   local referee = self.referee
   if referee then
      lines[2] = ("  referee: no placement is below %.3f ms%s, found in %.1f s"):format(
         referee.bound_ns / 1e6, referee.optimal and ", and one is as fast" or "", referee.seconds)
   end
   for d, load in ipairs(self.loads) do lines[#lines + 1] = describe_load(d, load) end
   return table.concat(lines, "\n")
end

--- By device its time and its memory, as bars.
local function picture(result)
   local times, memory = {}, {}
   for d, load in ipairs(result.loads) do
      local name = ("device %d"):format(d - 1)
      times[d] = { name = name, value = load.price_ns, colour = d,
         words = ("%.2f ms, %s"):format(load.price_ns / 1e6, counted(load.stages, "stage")) }
      memory[d] = { name = name, value = load.memory_bytes, colour = d,
         words = units.format_bytes(load.memory_bytes) }
   end
   return bars { { title = "Time", rows = times }, { title = "Memory", rows = memory } }
end

--- Writes the time and the memory of devices as bars; where the stages are is drawn by
-- graph:save("FILE.svg", { result = ... }).
-- @tparam string path
function Result:svg(path)
   core.sys.write_file(path, picture(self))
   return self
end

--- Writes what it says and its bars as a page that needs nothing else.
-- @tparam string path
function Result:html(path)
   core.sys.write_file(path, html.of(tostring(self), { picture(self) }))
   return self
end

--- The placement and its loads as JSON; stages and devices count from 1.
function Result:json()
   local data = copy(self)
   for key, value in pairs(data) do
      if type(value) == "table" and value[1] ~= nil then data[key] = core.json.array(value) end
   end
   return core.json.encode(data, { sort = true }) .. "\n"
end

-- Seconds of the referee when nobody says how many, and how far its arithmetic may be off.
local REFEREE_SECONDS, TOLERANCE = 60, 1e-6

--- Has a result judged by cbc: result.referee, and a higher bound where it found one.
local function judge(problem, result, cost, seconds)
   if seconds == true then seconds = REFEREE_SECONDS end
   if type(seconds) ~= "number" or not (seconds >= 1 and seconds <= 1e6) then
      core.fail("invalid argument", ("ft.partition: referee is %s, expected true or the seconds "
         .. "that it has, 1 to 1e6"):format(tostring(seconds)), 2)
   end
   local verdict = require("ftpipe.placement.referee").judge(problem, cost, result.objective_ns,
      math.floor(seconds))
   if verdict.device then -- which may need more memory than there is, where several are in flight
      local ok, own = pcall(M.evaluate, problem, verdict.device, nil, cost)
      verdict.objective_ns = ok and own.objective_ns or nil
   end
   result.referee = verdict
   result.lower_bound_ns = math.max(result.lower_bound_ns,
      math.min(verdict.bound_ns, result.objective_ns))
   result.gap = result.lower_bound_ns > 0 and result.objective_ns / result.lower_bound_ns - 1 or 0
   if result.gap <= TOLERANCE then result.proved, result.gap = true, 0 end
end

--- What a partitioner of one's own says of a problem; raises when it is no placement.
local function ask(partitioner, problem)
   local times = problem.node_ns
   local ok, device = pcall(partitioner, problem)
   if not ok and type(device) == "string" then
      usage("a partitioner of one's own failed: %s", device)
   elseif not ok and type(device) == "table" and device.status then
      error(device, 0)
   elseif not ok then
      usage("a partitioner of one's own raised what has no words")
   end
   local n_devices = #problem.devices
   local n_nodes = #(type(times[1]) == "table" and times[1] or times)
   if type(device) ~= "table" then
      usage("a partitioner of one's own gave a %s, expected a list with a device for each of %d "
         .. "nodes", type(device), n_nodes)
   end
   if #device ~= n_nodes then
      usage("a partitioner of one's own gave %s, expected one for each of %s",
         counted(#device, "device"), counted(n_nodes, "node"))
   end
   for n, d in ipairs(device) do
      if type(d) ~= "number" or d % 1 ~= 0 or d < 1 or d > n_devices then
         usage("a partitioner of one's own gave a list whose [%d] is %s, expected a device, 1 to "
            .. "%d", n, class.quoted(d), n_devices)
      end
   end
   return device
end

--- Raises unless that is a problem; `what` asks for it.
-- @local
function M.need(problem, what)
   if type(problem) == "table" and problem.node_ns then return end
   opts.fail(what, 'expected a problem, as ft.graph("t5-small"):problem { devices = '
      .. '"sim:2x11GB" } gives it')
end

-- Of what a device does for a micro-batch, what its replicas share; each of them holds the whole.
local SHARED = { "compute_ns", "price_ns", "out_bytes", "out_grad_bytes", "in_bytes",
   "in_grad_bytes" }

--- Spreads the load of the first device of a stage over its replicas, which follow it.
local function spread(result)
   for s, n in ipairs(result.stage_replicas) do
      local first = result.stage_device[s]
      local load = n > 1 and copy(result.loads[first])
      for _, key in ipairs(load and SHARED or {}) do load[key] = load[key] / n end
      for d = first, load and first + n - 1 or first - 1 do result.loads[d] = copy(load) end
   end
   return result
end

-- What is absent is decided by the method.
local RULES = {
   method = { type = "string|function", help = "its name (best), or one of your own" },
   cost = { type = "string", help = "the cost model (overlap)" },
   seed = { type = "int", min = 0, help = "the same one gives the same result" },
   effort = { type = "number", above = 0, max = 1e6, help = "of mixed, in millions of steps" },
   deadline_ms = { type = "int", min = 0, help = "no restart is kept that ends later" },
   max_stages = { type = "int", min = 0, help = "stages at most" },
   max_stages_per_device = { type = "int", min = 0, help = "stages of a device at most" },
   blocks = { type = "int", min = 0, help = "that mixed places, or packs of pack" },
   max_down_sets = { type = "int", min = 0, help = "seq is exact while a graph has no more" },
   in_order = { type = "boolean", help = "seq cuts nodes in the order of their numbers" },
   straight = { type = "boolean", help = "pipedream makes no replicas" },
   free_transfers = { type = "boolean", help = "transfers cost pipedream nothing" },
   referee = { type = "boolean|number", help = "true, or seconds: what cbc says of the result" },
}

--- Places the nodes of a problem on its devices.
-- @tparam table problem
-- @tparam[opt] table options method ("best"; or a function from the problem to a list of devices by
--   node), cost ("overlap"), seed, effort (millions of steps; the default takes some
--   seconds at most), deadline_ms, max_stages, max_stages_per_device, blocks, max_down_sets,
--   in_order, straight, free_transfers; referee (true, or the seconds
--   it has: what cbc, a solver of integer programmes, says of the result)
-- @treturn table stage and device by node, stage_device and stage_replicas by stage, loads by
--   device (replicas of a stage share its work), objective_ns, lower_bound_ns, gap, proved,
--   n_stages, moved_bytes, effort (that was spent: as much gives the same on any machine), work
--   (all of it, in millions of steps), method;
--   method_bound_ns and method_gap (of the placements that the method considers) where it has a
--   bound of its own
-- @raise invalid argument — the problem makes no sense; plan infeasible — nothing fits
function M.solve(problem, options)
   local own = opts.check("ft.partition", RULES, options)
   M.need(problem, "ft.partition")
   local seconds = own.referee
   own.referee = nil
   local result
   if type(own.method) == "function" then
      result = M.evaluate(problem, ask(own.method, problem), nil, own.cost)
      result.method = "custom"
   else
      result = setmetatable(spread(core.partition.solve(problem, own)), Result)
   end
   if seconds then judge(problem, result, own.cost or "overlap", seconds) end
   return result
end

--- Prices a placement that was made elsewhere.
-- @tparam table problem
-- @tparam table device by node
-- @tparam[opt] table stage by node; made, as few as are found, when it is absent
-- @tparam[opt="overlap"] string cost
function M.evaluate(problem, device, stage, cost)
   M.need(problem, "ft.partition.evaluate")
   return setmetatable(core.partition.evaluate(problem, device, stage, cost), Result)
end

M.takes = { ["ft.partition"] = RULES }

guard("placement", Result, { json = "", svg = "path: string", html = "path: string" })

guard("ft.partition", M, {
   evaluate = "problem: table, device: table, stage?: table, cost?: string",
})

return setmetatable(M, {
   __call = function(_, problem, options) return M.solve(problem, options) end,
})
