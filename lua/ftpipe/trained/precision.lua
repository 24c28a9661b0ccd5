--- What numbers products with weights are made of: one row each.
--
-- tf32 rounds the operands of products with weights and of attention; on CPUs bf16 does so with
-- weights alone; all else is f32. On cards, and on devices of plans (sim:), bf16 and f16 keep what
-- nodes give in 16 bits as well, while weights, their gradients, the optimizer's state, statistics
-- and sums are f32, and products read copies of the weights in 16 bits (Micikevicius et al., "Mixed
-- Precision Training", ICLR 2018, section 3.1).

local core = require("ftpipe.core")
local usage = require("ftpipe.base.usage")

local M = {}

--- { name =, rate = field of a device: its rate, rounds = what it does to a graph, stores = what
-- nodes give is kept in it where devices are no CPUs, scales = losses are scaled, and steps may be
-- skipped (base/scaling.lua) }.
M.rows = {
   { name = "f32", rounds = function() end },
   { name = "tf32", rate = "tf32_flops_per_s", rounds = function(graph) graph:tf32() end },
   { name = "bf16", rate = "bf16_flops_per_s", stores = true,
      rounds = function(graph) graph:bf16() end },
   { name = "f16", rate = "f16_flops_per_s", stores = true, scales = true },
}

local function find(name)
   for _, row in ipairs(M.rows) do
      if row.name == (name or M.rows[1].name) then return row end
   end
   error(("there is no precision '%s'"):format(tostring(name)))
end

--- What cannot be trained with scaled losses.
local function check_scaled(o, row, devices)
   local why = o.model.family.outgrows_f16
      or not o.eval_only and not o.synchronous and "a step whose gradients were scaled too far is "
      .. "skipped by all stages together: take a schedule that drains, as 1f1b"
      or not o.eval_only and o.update == "device" and "a step whose gradients were scaled too far "
      .. "is skipped by all stages together: leave out {update=device}"
      or devices[#devices].rank > 0 and "scaled losses are of one process"
   if why then usage.of(o, "{precision=%s}: " .. why, row.name) end
end

--- Whether losses are scaled in it.
function M.scales(name) return find(name).scales or false end

--- Refuses a precision that devices do not have.
-- @tparam table o options: precision
-- @tparam {table,...} devices
function M.check_rates(o, devices)
   local row = find(o.precision)
   for _, device in ipairs(devices) do
      local lacks = row.rate and device[row.rate] == 0
      if lacks and device.executes then
         usage.of(o, "{precision=%s}: %s has no products of %s; f32 runs everywhere", row.name,
            device.name, row.name)
      elseif lacks then
         usage.of(o, "{precision=%s}: there is no rate of %s for %s; name a card that has one "
            .. "(%s), or say %s_flops of the device in a cluster", row.name, row.name, device.name,
            M.cards(row.rate), row.name)
      end
   end
end

--- As that, and where it cannot be trained in.
-- @tparam table o options: precision, and those of a plan
-- @tparam {table,...} devices
function M.check(o, devices)
   local row = find(o.precision)
   if row.scales and devices[1].executes then check_scaled(o, row, devices) end
   M.check_rates(o, devices)
end

--- The cards that have a rate, "3090, a100".
function M.cards(rate)
   local names = {}
   for _, card in ipairs(core.engine.cards()) do
      names[#names + 1] = card[rate] > 0 and card.name or nil
   end
   return table.concat(names, ", ")
end

--- Changes a graph, which has its gradients, as the precision asks (the first, when it is nil).
-- @tparam string name
-- @tparam graph graph
-- @tparam table device that it is for
function M.apply(name, graph, device)
   local row = find(name)
   if row.stores and not device.in_host then
      graph:store(row.name)
   else
      row.rounds(graph)
   end
   if row.rate and not device.in_host then graph:align() end
end

--- A line for plans; nil where all is f32.
function M.words(name, device)
   local row = find(name)
   if not row.rate then return nil end
   local what = row.stores and not device.in_host
      and "activations and copies of weights in %s; weights, gradients and optimizer f32"
      or "products of %s with f32 sums, the rest f32"
   return "precision: " .. what:format(row.name)
end

return M
