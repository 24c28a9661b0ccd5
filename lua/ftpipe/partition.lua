--- Weighted graphs placed on devices: ft.partition(problem, options).
--
--    local problem = ft.graph("bert24_training.json"):problem()
--    local result = ft.partition(problem, { method = "seq", cost = "sum" })
--    print(result)
--
-- A problem is a table of lists by node and by edge, and of devices; src/partition/partition.h says
-- what each of them means.

local core = require("ftpipe.core")

local M = { methods = core.partition.methods, costs = core.partition.costs }

local Result = {}
Result.__index = Result

local function describe_load(d, load)
   return ("  device %d: %.2f ms in %d stage%s, %.1f MB, sends %.2f MB, receives %.2f MB"):format(d,
      load.price_ns / 1e6, load.stages, load.stages == 1 and "" or "s", load.memory_bytes / 1e6,
      (load.out_bytes + load.out_grad_bytes) / 1e6, (load.in_bytes + load.in_grad_bytes) / 1e6)
end

function Result:__tostring()
   local lines = {
      ("%s: slowest device %.3f ms, %s, %d stages, %.2f MB moved"):format(self.method,
         self.objective_ns / 1e6, self.proved and "optimal"
         or ("at most %.1f %% above the optimum"):format(100 * self.gap), self.n_stages,
         self.moved_bytes / 1e6),
   }
   for d, load in ipairs(self.loads) do lines[#lines + 1] = describe_load(d, load) end
   return table.concat(lines, "\n")
end

--- Places the nodes of a problem on its devices.
-- @tparam table problem
-- @tparam[opt] table options method ("best"; or a function from the problem to a list of devices by
--   node), cost ("overlap"), seed, restarts, deadline_ms, effort, max_stages,
--   max_stages_per_device, blocks, max_down_sets, straight, free_transfers
-- @treturn table stage and device by node, stage_device and stage_replicas by stage, loads by
--   device, objective_ns, lower_bound_ns, gap, proved, n_stages, moved_bytes, restarts, method
-- @raise invalid argument — the problem makes no sense; plan infeasible — nothing fits
function M.solve(problem, options)
   local method = options and options.method
   if type(method) == "function" then
      local result = M.evaluate(problem, method(problem), nil, options.cost)
      result.method = "custom"
      return result
   end
   return setmetatable(core.partition.solve(problem, options), Result)
end

--- Prices a placement that was made elsewhere.
-- @tparam table problem
-- @tparam table device by node
-- @tparam[opt] table stage by node; made, as few as are found, when it is absent
-- @tparam[opt="overlap"] string cost
function M.evaluate(problem, device, stage, cost)
   return setmetatable(core.partition.evaluate(problem, device, stage, cost), Result)
end

return setmetatable(M, {
   __call = function(_, problem, options) return M.solve(problem, options) end,
})
