--- Where backwards come in halves, as many gradients of weights wait as there is memory for.

local core = require("ftpipe.core")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")

local MICRO, BATCHES = 8, 4

local function largest(plan) return math.max(unpack(plan:memory_bytes())) end

local function plan_of(schedule, devices, rule)
   return ft.plan {
      model = ft.model "gpt2", devices = devices, batch = 2 * MICRO, micro_batches = MICRO,
      buckets = { 256 }, batches = BATCHES, schedule = schedule, partition = "seq",
      recompute = rule or "never",
   }
end

--- How many wait in each stage, from the orders of the plan.
local function waiting(plan)
   local orders, list = core.schedule.parse(plan:text()), {}
   for s = 1, plan.n_stages do
      local held, most = 0, 0
      for letter in orders:letters(s):gmatch("[IG]") do
         held = held + (letter == "I" and 1 or -1)
         most = letter == "I" and math.max(most, held) or most
      end
      list[s] = most - 1 -- beside the one that the last I was for
   end
   return list
end

describe("gradients of weights", function()
   it("wait as long as the schedule says where there is room", function()
      local plan = plan_of("zero-bubble", "sim:4x80GB")
      assert.same({ 0, 1, 2, 3 }, waiting(plan))
      assert.is_nil(tostring(plan):find("\nwaiting: ", 1, true))
   end)

   it("wait less on the devices that have none, and on no others", function()
      local budget = math.floor(0.99 * largest(plan_of("zero-bubble", "sim:4x80GB")))
      local plan = plan_of("zero-bubble", ("sim:4x%dB"):format(budget))
      assert.same({ 0, 1, 1, 2 }, waiting(plan))
      assert.is_true(largest(plan) <= budget)
      assert.matches("\nwaiting: fewer gradients of weights, to fit, by stage 2: 1, 3: 2\n",
         tostring(plan))
   end)

   it("wait not at all before stages recompute, and wait again where that makes room", function()
      local always = largest(plan_of("zero-bubble", "sim:4x80GB", "always"))
      local plan = plan_of("zero-bubble", ("sim:4x%dB"):format(math.ceil(1.02 * always)), "auto")
      local recomputed = 0
      for _, flag in ipairs(plan.recompute) do recomputed = recomputed + (flag and 1 or 0) end
      assert.is_true(recomputed > 0)
      assert.is_true(math.max(unpack(waiting(plan))) > 0)
   end)

   it("leave zero-bubble ahead of 1f1b in the same memory", function()
      for name, size in pairs { ["t5-small"] = { 128, { target = 4 } }, gpt2 = { 64 } } do
         local micro = 4
         local function plan(schedule, devices)
            return ft.plan {
               model = ft.model(name), devices = devices, batch = 16, micro_batches = micro,
               buckets = { size[1] }, lengths = size[2], batches = BATCHES, schedule = schedule,
               partition = "seq", recompute = "never", optimizer = "sgd",
            }
         end
         local function seconds(of)
            return of:simulate(BATCHES).seconds - of:simulate(1).seconds
         end
         local usual, one = plan("1f1b", "cpu:2/80GB"), plan("1f1b", "cpu:1/80GB")
         local halves = plan("zero-bubble", ("cpu:2/%dB"):format(largest(usual)))
         assert.is_true(largest(halves) <= largest(usual))
         assert.is_true(seconds(halves) < seconds(usual))
         assert.is_true(seconds(one) / 2 / seconds(halves) > micro / (micro + 1))
      end
   end)

   it("change no bit, however many of them wait, in the memory that is planned", function()
      local o = { family = "gpt2", steps = 4, micro_batches = 8, clip = 1, optimizer = "sgd",
         recompute = "never" }
      local one = pipeline.train(o)
      o.devices, o.schedule = "cpu:3", "zero-bubble"
      local free = largest(pipeline.plan(o))
      for share, wanted in pairs { [0.92] = { 0, 1, 1 }, [0.83] = { 0, 1, 0 } } do
         o.devices = ("cpu:3/%dB"):format(math.floor(share * free))
         local run = pipeline.train(o)
         assert.same(wanted, waiting(run.plan))
         assert.same(one.losses, run.losses)
         assert.same(one.norms, run.norms)
         assert.same(one.params, run.params)
         pipeline.assert_memory(run.plan, run.measured)
      end
   end)
end)
