--- Trains the small T5 of spec/support/pipeline.lua for as many steps of a leg of 40 as the
-- argument says, over batches that are there before the first one, and allocates on this thread as
-- often as the second one says: the program itself, and as often a library.
package.path = "./?.lua;" .. package.path

local pipeline = require("spec.support.pipeline")

local core = require("ftpipe.core")

local steps, more = tonumber(arg[1]), tonumber(arg[2] or 0)
local LEG = 40
local plan, o = pipeline.plan { devices = "cpu:2", steps = LEG }
local run = plan.blueprint:run()
local batches = { pipeline.fed(plan, o, 1), pipeline.fed(plan, o, 2) }
for _ = 1, more do
   core.tensor.zeros { 3 }
   assert(io.open("/dev/null")):close() -- libc allocates the stream
end
run:begin(LEG, 1)
local fed, taken = 0, 0
while taken < steps do
   while fed < steps and run:wants() do
      fed = fed + 1
      local batch = batches[fed % 2 + 1]
      run:feed(batch.inputs, batch.bucket, o.rate)
   end
   if fed == steps then run:drain() end
   run:next(600)
   taken = taken + 1
end
run:finish()
