--- A plan as pictures, and as data for JSON.

local bars = require("ftpipe.page.bars")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local describe = require("ftpipe.plan.describe")
local fit = require("ftpipe.plan.fit")
local timeline = require("ftpipe.schedule.timeline")
local units = require("ftpipe.base.units")

local M = {}

--- The first batches in time: as a drawing, and as a trace for Perfetto.
-- @treturn string SVG
-- @treturn string JSON
function M.timeline(plan, batches)
   local played, names, budgets = plan.blueprint:simulate(batches, true), {}, {}
   for d, device in ipairs(plan.devices) do
      names[d], budgets[d] = device.name, device.memory_bytes
   end
   return timeline.svg(played, names, budgets), played.trace
end

--- The memory of devices as bars.
function M.memory(plan)
   local rows = {}
   for d, row in ipairs(plan.memory) do
      local device = plan.devices[d]
      rows[d] = { name = device.name, value = row.total, colour = d,
         words = ("%s of %s"):format(units.format_bytes(row.total),
            units.format_bytes(device.memory_bytes)) }
   end
   return bars { { title = "Memory", rows = rows } }
end

--- What a plan comes to, with bytes and seconds.
function M.data(plan)
   local o, devices, stages = plan.options, {}, {}
   for d, row in ipairs(plan.memory) do
      local classes = {}
      for _, class in ipairs(describe.classes) do classes[class] = row[class] end
      devices[d] = { name = plan.devices[d].name, bytes = row.total, classes = classes,
         budget_bytes = plan.devices[d].memory_bytes }
   end
   for s, stage in ipairs(plan.blueprint:stages()) do
      stages[s] = { span = plan:span(s), forward_ns = stage.forward_ns,
         backward_ns = stage.backward_ns, in_flight = stage.in_flight,
         devices = core.json.array(copy(stage.devices)) }
   end
   local predicted = plan:simulate(fit.compared(plan))
   return {
      schedule = o.schedule, partition = plan.partition.name, batch = o.batch,
      micro_batches = o.micro_batches, devices = core.json.array(devices),
      stages = core.json.array(stages), samples_per_second = predicted.samples_per_second,
      idle = core.json.array(predicted.bubble),
   }
end

return M
