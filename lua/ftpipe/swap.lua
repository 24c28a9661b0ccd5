--- Models larger than their devices, in Harmony's way: ft.swap.
--
--    local result = ft.partition(problem, { method = "pack" })      -- problem.swaps = true
--    local tasks = ft.swap.compose { ..., backward_packs = ft.swap.packs_of(result.stage) }
--    print(ft.swap.estimate(tasks, profile, rates, true).seconds)

local bytes = require("ftpipe.swap.bytes")
local estimate = require("ftpipe.swap.estimate")
local tasks = require("ftpipe.swap.tasks")
local volumes = require("ftpipe.swap.volumes")

return {
   compose = tasks.compose,
   constant_packs = tasks.constant_packs,
   packs_of = tasks.packs_of,
   estimate = estimate.run,
   bytes = bytes.count,
   peak_bytes = bytes.peak,
   volumes = volumes.count,
}
