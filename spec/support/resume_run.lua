--- A small run that specs stop, kill and resume: a model of spec/support/pipeline.lua with random
-- weights on examples made here. Prints "step N" for each.
--
-- Flags of this script alone: --family; --drain-at K: a leg ends at step K too, as one does that is
-- interrupted; --wait-at K: it waits there for its signal, however late that comes, or until there
-- is a file that is called as --out with .go behind it.

package.path = "./?.lua;" .. package.path

local ft = require("ftpipe")
local core = require("ftpipe.core")
local args = ft.args {
   "A run for specs.",
   preset = "fine_tune",
   devices = { default = "cpu:2" }, steps = { default = 30 }, lr = { default = 3e-3 },
   lr_schedule = { default = "linear" }, clip = { default = 0 },
   profile = { default = "modelled" }, -- the same stages whatever else the machine does
   dropout = { default = 0.1 },
   family = { choices = { "t5", "gpt2", "bert" }, default = "t5", help = "of the model" },
   drain_at = { type = "int", min = 1, help = "a step at which a leg ends" },
   wait_at = { type = "int", min = 1, help = "a step after which a signal comes" },
}
local go = (args.out or "") .. ".go"

local function ids(n, seed)
   local list = {}
   for i = 1, n do list[i] = (7 * seed + 3 * i * i) % 59 + 2 end
   return list
end

--- By family: the length groups of a data set, and one example.
local examples = {
   t5 = { groups = { "source", "target" }, make = function(i)
      return { source = ids(16 - i % 9, i), target = ids(1 + i % 4, i + 50) }
   end },
   gpt2 = { groups = { "source" }, make = function(i) return { source = ids(16 - i % 9, i) } end },
   bert = { groups = { { "source", "segments" }, "start", "end" }, make = function(i)
      local source, segments = ids(16 - i % 9, i), {}
      for t = 1, #source do segments[t] = t > 3 and 1 or 0 end
      return { source = source, segments = segments, start = { i % 5 }, ["end"] = { i % 5 + 2 } }
   end },
}

local dataset = core.data.dataset(examples[args.family].groups)
for i = 1, 50 do dataset:add(examples[args.family].make(i)) end

local model = require("spec.support.pipeline").model { family = args.family }
local data = { train = { dataset = dataset }, eval = { dataset = dataset } }
local plan = ft.plan { model = model, data = data, args = args }
local task = { name = "spec", record = function() return { name = "spec", settings = {} } end }
local run = ft.run { plan = plan, task = task, data = data, args = args }

local leg_length = run.leg_length
function run:leg_length()
   local n = leg_length(self)
   local early = args.drain_at and args.drain_at - self.done or n
   return early > 0 and math.min(n, early) or n
end

for step in run:train() do
   io.stdout:write("step ", step.step, "\n")
   io.stdout:flush()
   while step.step == args.wait_at and not core.sys.interrupted() and not core.sys.exists(go) do
      core.process.sleep(0.01)
   end
end
