-- T5-3B on four cards of 11 GB: what fits, what is fast, and how sure that is.
-- Run: ftpipe examples/explore.lua
--
-- The whole search, some 80 plans, is in half a minute:
-- ftpipe plan t5-3b --devices sim:4x11GB --batch 40 --max-source 320 --optimizer adafactor --search
local ft = require("ftpipe")

local function explore(devices, partition, micro_batches, schedule)
   return ft.explore("t5-3b", {
      devices = devices, batch = 40, micro_batches = micro_batches, source = 320, target = 8,
      partition = partition, schedule = schedule, optimizer = "adafactor",
   })
end

-- Contiguous stages, one a card: the decoder has most parameters and little work, so its card is
-- full before it is busy. Stages on any card in any order balance both.
local cards = "sim:4x11GB"
local seq, mixed = explore(cards, "seq", 5, "1f1b"), explore(cards, "mixed", 5, "1f1b")
print("seq", #seq.stages .. " stages", seq.fits and "fits" or "does not fit")
                                --> seq	4 stages	does not fit
print("mixed", #mixed.stages .. " stages", mixed.fits and "fits" or "does not fit")
                                --> mixed	8 stages	fits
print(("%.1f s a batch"):format(mixed.seconds))   --> 8.4 s a batch

-- A card that is known by its size alone is one of 10 TFLOP/s and 500 GB/s, of which work reaches
-- 76 and 85 %, as it did on the 2080 Ti that FTPipe measured. At its peaks it would be faster.
local peaks = ft.cluster {
   devices = { { count = 4, memory = "11GB", flops = 10e12, bandwidth = "500GB/s",
      link = "12GB/s" } },
}
local at_peak = explore(peaks, "mixed", 5, "1f1b").seconds
local named = explore("sim:4x2080ti", "mixed", 5, "1f1b").seconds
print(("%.1f s at peak, %.1f s on 2080 Ti"):format(at_peak, named))
                                --> 6.2 s at peak, 6.5 s on 2080 Ti

-- Smaller micro-batches need less memory, so that less is computed again, and keep the pipeline
-- full; without flushes the cards never wait for the last one, and weights are an update late.
local found = ft.planner("t5-3b", {
   devices = cards, batch = 40, micro_batches = 20, source = 320, optimizer = "adafactor",
   partition = "mixed", stages = 8, schedules = { "1f1b", "async" },
})
for _, row in ipairs(found.rows) do
   print(row.options.schedule, ("%.1f s, %d late, %s"):format(row.seconds, row.staleness,
      row.verdict))
end
                                --> async	4.2 s, 1 late, chosen
                                --> 1f1b	4.7 s, 0 late, 11.3 % slower

-- With all work up to 5 % slower than modelled, a batch takes no longer than this.
print(("%.2f times"):format(found.best.worst_seconds / found.best.seconds))   --> 1.05 times
