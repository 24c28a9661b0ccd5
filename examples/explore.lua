-- T5-3B on four cards of 11 GB: what fits, and what is fast. Run: ftpipe examples/explore.lua
--
-- `ftpipe plan t5-3b --devices sim:4x11GB --max-source 320 --search` prints the whole of it.
local ft = require("ftpipe")

local model = ft.model { model = "t5-3b" }

local function plan(partition, micro_batches, schedule)
   return ft.explore.model(model, {
      devices = "sim:4x11GB", batch = 40, micro_batches = micro_batches, source = 320, target = 8,
      partition = partition, schedule = schedule, recompute = "auto", optimizer = "adafactor",
   })
end

-- Contiguous stages, one a card: the decoder has most parameters and little work, so its card is
-- full before it is busy. Stages on any card in any order balance both.
local seq, mixed = plan("seq", 5, "1f1b"), plan("mixed", 5, "1f1b")
print("seq", #seq.stages .. " stages", seq.fits and "fits" or "does not fit")
                                --> seq	4 stages	does not fit
print("mixed", #mixed.stages .. " stages", mixed.fits and "fits" or "does not fit")
                                --> mixed	8 stages	fits

-- Smaller micro-batches need less memory and keep the pipeline full.
local small = plan("seq", 20, "1f1b")
print(small.fits, small.seconds < mixed.seconds)   --> true	true

-- Without flushes the cards never wait for the last one, and weights are an update late.
local async = plan("seq", 20, "async")
print(async.fits, async.seconds < small.seconds)   --> true	true
