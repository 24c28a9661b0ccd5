--- Models larger than their devices, in Harmony's way: ft.swap.
--
--    local result = ft.partition(problem, { method = "pack" })      -- problem.swaps = true
--    local tasks = ft.swap.compose { ..., backward_packs = ft.swap.packs_of(result.stage) }
--    print(ft.swap.estimate(tasks, profile, rates, true).seconds)
--
-- These schedules are no rules of ft.schedule: a rule gives every stage its order, and a stage of a
-- plan has one device, while a layer's backward here runs on another device than its forward, in
-- another pack and in micro-batches of another size. So they are tasks of their own, and the
-- estimate stands beside the simulator. Where forward and backward of a pack share a device, the
-- order is a plan like any other, with swaps as actions; what it waits for is simulated:
--
--    local plan = ft.swap.plan { packs = 10, devices = 2, micro_batches = 4 }
--    print(plan:text(), plan:simulate { forward_ns = ..., swap_bytes = ..., machine = ... }.end_ns)

local bytes = require("ftpipe.swap.bytes")
local estimate = require("ftpipe.swap.estimate")
local plan = require("ftpipe.swap.plan")
local tasks = require("ftpipe.swap.tasks")
local volumes = require("ftpipe.swap.volumes")

return {
   compose = tasks.compose,
   constant_packs = tasks.constant_packs,
   packs_of = tasks.packs_of,
   estimate = estimate.run,
   plan = plan.plan,
   text = plan.text,
   bytes = bytes.count,
   peak_bytes = bytes.peak,
   volumes = volumes.count,
}
