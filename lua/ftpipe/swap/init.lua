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
local guard = require("ftpipe.base.guard")
local estimate = require("ftpipe.swap.estimate")
local plan = require("ftpipe.swap.plan")
local tasks = require("ftpipe.swap.tasks")
local volumes = require("ftpipe.swap.volumes")

local M = {}

--- The tasks of one update, in their order.
-- @function ft.swap.compose
-- @tparam table o mode ("pipeline", or "data"), devices, samples, forward_micro, backward_micro
--   (samples of a micro-batch), forward_packs, backward_packs (rows { first, last })
M.compose = tasks.compose

--- Packs of so many layers, the remainder first.
-- @function ft.swap.constant_packs
-- @tparam int n_layers
-- @tparam int size
M.constant_packs = tasks.constant_packs

--- The stages of a partition of a chain of layers, as packs.
-- @function ft.swap.packs_of
-- @tparam {int,...} stage
M.packs_of = tasks.packs_of

--- How long tasks take.
-- @function ft.swap.estimate
-- @tparam table tasks
-- @tparam table profile
-- @tparam table rates
-- @tparam boolean overlap
M.estimate = estimate.run

--- Harmony's order as a plan, proved, for packs whose backward runs where their forward did.
-- @function ft.swap.plan
-- @tparam table o
M.plan = plan.plan

--- That plan's text.
-- @function ft.swap.text
-- @tparam table o
M.text = plan.text

--- Bytes that tasks move in one update, by device and class.
-- @function ft.swap.bytes
-- @tparam table tasks
-- @tparam table profile
M.bytes = bytes.count

--- The most bytes that tasks need at once, by device.
-- @function ft.swap.peak_bytes
-- @tparam table tasks
-- @tparam table profile
M.peak_bytes = bytes.peak

--- Transfers of one update by class, in tensors of one layer.
-- @function ft.swap.volumes
-- @tparam string schedule
-- @tparam table o
M.volumes = volumes.count

guard("ft.swap", M, {
   compose = "o: table", constant_packs = "n_layers: int, size: int", packs_of = "stage: table",
   estimate = "tasks: table, profile: table, rates: table, overlap?: boolean", plan = "o: table",
   text = "o: table", bytes = "tasks: table, profile: table",
   peak_bytes = "tasks: table, profile: table", volumes = "schedule: string, o: table",
})

return M
