--- Makes a plan fit the budgets of its devices by moving state to host memory and back.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local draw = require("ftpipe.plan.draw")
local fit = require("ftpipe.plan.fit")

local M = {}

-- Plans that are drawn, each with what the one before it was over by left free: places of different
-- sizes do not always lie next to each other without holes.
local TRIES = 8

--- Bytes by which each device is over its budget, added to `spare`; whether one is.
local function add_over(plan, spare)
   local any = false
   for d, device in ipairs(plan.devices) do
      local over = plan.memory[d].total - device.memory_bytes
      if over > 0 then spare[d], any = spare[d] + over, true end
   end
   return any
end

--- The plan with moves, as --swap asks for: auto where a device is over its budget, always with as
-- little device memory as there can be. What cannot be made to fit stays as it is, with `unswapped`
-- saying why.
function M.fit(plan)
   local o, spare, drawn = plan.options, {}, plan
   local least = o.swap == "always"
   if not least and (o.swap ~= "auto" or fit.worst_over(plan) == 0) then return plan end
   for d in ipairs(plan.devices) do spare[d] = 0 end
   for _ = 1, TRIES do
      local ok, text, volumes = pcall(plan.blueprint.fit, plan.blueprint, least, spare)
      if not ok then
         if least or type(text) ~= "table" then error(text, 0) end
         plan.unswapped = text.message
         return plan
      end
      local partition = copy(plan.partition, { plan = core.schedule.parse(text) })
      drawn = draw.blueprint(o, plan.graphs, partition, plan.recompute)
      drawn.volumes = volumes
      if not add_over(drawn, spare) or least then break end
   end
   return drawn
end

--- What a batch moves, in a line for each device that moves something.
function M.lines(plan)
   local lines = {}
   for d, row in ipairs(plan.volumes or {}) do
      local bytes_in, bytes_out = 0, 0
      for class, bytes in pairs(row.bytes_in) do
         bytes_in, bytes_out = bytes_in + bytes, bytes_out + row.bytes_out[class]
      end
      if row.loads + row.saves + row.drops > 0 then
         lines[#lines + 1] = ("swaps of %s: %.1f MB in and %.1f MB out for each batch"):format(
            plan.devices[d].name, bytes_in / plan.options.batches / 1e6,
            bytes_out / plan.options.batches / 1e6)
      end
   end
   return lines
end

return M
