--- What is said of a plan that is over its budgets: by how much, and whether any placement would
-- not be.

local units = require("ftpipe.base.units")

local M = {}

local FLOAT = 4 -- bytes

--- The device that is furthest over its budget; a budget of 0 is none.
-- @tparam {table,...} memory by device: total, budget, bytes
-- @treturn int bytes that it is over, 0 when everything fits
-- @treturn[opt] int device
function M.worst(memory)
   local most, device = 0, nil
   for d, row in ipairs(memory) do
      local over = row.budget > 0 and row.total - row.budget or 0
      if over > most then most, device = over, d end
   end
   return most, device
end

--- What training keeps of the parameters wherever they are: weights, gradients and the state of the
-- optimizer. No placement needs less.
-- @tparam plan plan
-- @treturn table parameters, bytes_each, bytes
function M.least(plan)
   local parameters, gradients, state = 0, 0, 0
   for _, param in ipairs(plan.graphs[#plan.graphs]:params()) do
      local n = 1
      for _, dim in ipairs(param.dims) do n = n * dim end
      parameters = parameters + n
   end
   for _, row in ipairs(plan.memory) do
      gradients, state = gradients + row.gradients, state + row.optimizer
   end
   -- weights that are tied, and their gradients, may be on several devices in this plan
   local each = FLOAT + math.min(FLOAT, gradients / parameters) + state / parameters
   return { parameters = parameters, bytes_each = each, bytes = parameters * each }
end

--- Whether all devices together have less than that; a budget of 0 is none.
-- @tparam table memory rows of a plan's devices
-- @tparam table least of M.least
function M.is_hopeless(memory, least)
   local budgets = 0
   for _, row in ipairs(memory) do
      if row.budget == 0 then return false end
      budgets = budgets + row.budget
   end
   return least.bytes > budgets, budgets
end

--- Parameters in the thousands, millions or billions that they are.
local function counted(n)
   if n >= 1e9 then return ("%.2f G"):format(n / 1e9) end
   return n >= 1e6 and ("%.2f M"):format(n / 1e6) or ("%.2f k"):format(n / 1e3)
end

--- "no placement fits: ...", where arithmetic says so; nil where it does not.
-- @tparam {table,...} memory as of worst
-- @tparam[opt] table least of M.least
-- @tparam string optimizer
function M.bound(memory, least, optimizer)
   if not least then return nil end
   local hopeless, budgets = M.is_hopeless(memory, least)
   if not hopeless then return nil end
   return ("no placement fits: %s keeps %.3g bytes for each of %s parameters, %s in all, and "
      .. "the devices have %s together"):format(optimizer, least.bytes_each,
      counted(least.parameters), units.format_bytes(least.bytes), units.format_bytes(budgets))
end

--- Totals and budgets of a plan, as of worst.
function M.memory(plan)
   local memory = {}
   for d, device in ipairs(plan.devices) do
      memory[d] = { total = plan.memory[d].total, budget = device.memory_bytes }
   end
   return memory
end

--- Why swaps do not make room, where they were asked for: "swapping does not help: ...".
-- @tparam plan plan
function M.unswapped(plan)
   return plan.unswapped and "swapping does not help: " .. plan.unswapped or nil
end

--- Lines that say first what does not fit; none when all does.
-- @tparam {table,...} memory as of worst
-- @tparam {string,...} names by device
-- @tparam[opt] table least of M.least; nil: of a graph file, or where swaps may make room
-- @tparam[opt] string optimizer
-- @tparam[opt] string unswapped of M.unswapped
function M.lines(memory, names, least, optimizer, unswapped)
   local over, d = M.worst(memory)
   if over == 0 then return {} end
   local row = memory[d]
   return {
      ("does not fit: %s needs %s of its %s, %s too much"):format(names[d],
         units.format_bytes(row.total), units.format_bytes(row.budget), units.format_bytes(over)),
      M.bound(memory, least, optimizer) or unswapped,
   }
end

return M
