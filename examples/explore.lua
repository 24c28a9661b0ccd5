-- T5-3B on four cards of 10 GB: what fits, what is fast, and how sure that is.
-- Run: ftpipe examples/explore.lua
--
-- The whole search, some 80 plans, is in a minute:
-- ftpipe plan t5-3b --devices sim:4x10GB --batch 40 --max-source 320 --optimizer adafactor --search
local ft = require("ftpipe")

local function explore(devices, partition, micro_batches, schedule)
   return ft.explore("t5-3b", {
      devices = devices, batch = 40, micro_batches = micro_batches, source = 320, target = 8,
      partition = partition, schedule = schedule, optimizer = "adafactor",
   })
end

-- Contiguous stages, one a card: the decoder has most parameters and little work, so its card is
-- full before it is busy. Stages on any card in any order balance both.
local cards = "sim:4x10GB"
local seq, mixed = explore(cards, "seq", 5, "1f1b"), explore(cards, "mixed", 5, "1f1b")
print("seq", #seq.stages .. " stages", seq.fits and "fits" or "does not fit")
                                --> seq	4 stages	does not fit
print("mixed", #mixed.stages > 4, mixed.fits and "fits" or "does not fit")
                                --> mixed	true	fits

-- A card that is known by its size alone is one of 10 TFLOP/s and 500 GB/s, of which work reaches
-- 76 and 85 %, as it did on the 2080 Ti that FTPipe measured. At its peaks it would be faster: 4 s
-- a batch instead of 5.
local peaks = ft.cluster {
   devices = { { count = 4, memory = "10GB", flops = 10e12, bandwidth = "500GB/s",
      link = "12GB/s" } },
}
local share = explore(peaks, "seq", 20, "1f1b").seconds / explore(cards, "seq", 20, "1f1b").seconds
print(share > 0.74 and share < 0.8)                     --> true

-- Smaller micro-batches need less memory, so that less is computed again, and keep the pipeline
-- full; without flushes the cards never wait for the last one, and weights are an update late.
local found = ft.planner("t5-3b", {
   devices = cards, batch = 40, source = 320, optimizer = "adafactor", partition = "seq",
   counts = { 5, 20 }, schedules = { "1f1b", "async" },
})
for _, row in ipairs(found.rows) do
   local o = row.options
   print(o.micro_batches, o.schedule, row.staleness .. " late",
      row.over_bytes == 0 and "fits" or "does not fit")
end
                                --> 20	async	1 late	fits
                                --> 20	1f1b	0 late	fits
                                --> 5	1f1b	0 late	does not fit
                                --> 5	async	1 late	does not fit

-- With all work 5 % slower than modelled, a batch takes 5 % longer, and no more in any draw.
print(("%.2f times"):format(found.best.worst_seconds / found.best.seconds))   --> 1.05 times
