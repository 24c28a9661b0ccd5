--- Whether a run grows: memory of the process and of the card after a fifth of its steps, and after
-- all of them.
--
--    ftpipe bench/growth.lua DEVICES PRECISION MODEL [STEPS]
--
-- Prints both, and ends with 1 where the second is more than MOST_MB above the first. Nothing else
-- may run on the card meanwhile.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local ft = require("ftpipe")
local models = require("ftpipe.model")
local peers = require("peer")
local plans = require("ftpipe.plan")

local devices, precision, name, steps = unpack(arg)
steps = tonumber(steps) or 2000
local MOST_MB = 1

--- Megabytes that the process has in memory.
local function resident()
   local file = assert(io.open("/proc/self/statm"))
   local _, pages = file:read("*n", "*n")
   file:close()
   return pages * 4096 / 1e6
end

--- Megabytes of the card that are taken, by whomever; 0 where devices are of this machine's cores.
local function taken()
   local device = core.engine.devices(devices)[1]
   if device.in_host then return 0 end
   local card = ft.cuda.open(("cuda:%d"):format(device.card))
   local memory = card:usage()
   card:close()
   return (memory.total_bytes - memory.free_bytes) / 1e6
end

local plan = plans.new {
   model = models.open { model = name, init = "random" }, devices = devices, batch = 4,
   micro_batches = 4, buckets = { 16 }, lengths = { target = 4 }, partition = "seq",
   schedule = "1f1b", recompute = "never", optimizer = "adamw", hypers = {}, clip = 1, seed = 1,
   dropout = 0.1, steps = steps, batches = steps, precision = precision, profile = "modelled",
}
local inputs = peers.step_inputs(plan.graphs[1], plan.options.model.family,
   { batch = 4, micro = 4, vocab = plan.options.model.config.vocab_size })
local run, params = plan.blueprint:run(), {}
for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
plan.options.model:initialize(params, 1)
run:refresh()

local LEGS = 10
local each = math.max(1, math.floor(steps / LEGS))

--- A leg; legs are alike, so what one leaves behind shows.
local function train(number)
   run:begin(each, 1 + (number - 1) * each)
   local fed = 0
   for _ = 1, each do
      while fed < each and run:wants() do
         run:feed(inputs, 1, 1e-4)
         fed = fed + 1
      end
      run:next(600)
   end
   run:finish()
   collectgarbage()
   collectgarbage()
end

train(1)
train(2)
local card_before, before = taken(), resident()
for leg = 3, LEGS do train(leg) end
local after, card_after = resident(), taken()
run:free()
print(("growth over %d steps: process %.1f to %.1f MB, card %.1f to %.1f MB"):format(
   (LEGS - 2) * each, before, after, card_before, card_after))
os.exit(math.max(after - before, card_after - card_before) <= MOST_MB and 0 or 1, true)
