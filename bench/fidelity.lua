--- How well runs are predicted: three models, synchronous and asynchronous, with and without
-- recomputation, on two CPU workers.
--
--    ftpipe bench/fidelity.lua [STEPS [MODEL...]]        12; t5-small and small forms of BERT and GPT-2
--
-- A profile is taken with the other worker busy and written down; the prediction is made from it
-- before the first step. What is compared is the time of a step after the first three, and the memory
-- that live tensors reached. The CPU time that the run took is held against the work that the plan
-- sees for its workers as well: that comparison stands on a machine that does other things meanwhile.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peer = require("peer")
local plans = require("ftpipe.plan")
local profiles = require("ftpipe.profile")

local WARM = 3
local steps = tonumber(arg[1]) or 12
local names = { "t5-small", "bert", "gpt2" }
if arg[2] then names = { unpack(arg, 2) } end

--- Small forms, by the names above.
local CONFIGS = {
   bert = {
      model_type = "bert", vocab_size = 8000, hidden_size = 384, intermediate_size = 1536,
      num_hidden_layers = 8, num_attention_heads = 6, max_position_embeddings = 128,
      type_vocab_size = 2,
   },
   gpt2 = {
      model_type = "gpt2", vocab_size = 8000, n_embd = 384, n_layer = 8, n_head = 6,
      n_positions = 128, n_ctx = 128,
   },
}

local scratch = os.tmpname()
os.remove(scratch)

--- A model without weights: a published size, or one of the forms above.
local function open_model(name)
   if not CONFIGS[name] then return models.open { model = name, init = "random" } end
   local dir = scratch .. "/" .. name
   core.sys.mkdir(dir)
   core.sys.write_file(dir .. "/config.json", core.json.encode(CONFIGS[name]))
   return models.open { model = dir, init = "random" }
end

local BATCH, MICRO, SOURCE, TARGET = 16, 8, 48, 8

local function options_of(model, schedule, recompute)
   return {
      model = model, devices = "cpu:2", batch = BATCH, micro_batches = MICRO, buckets = { SOURCE },
      lengths = { target = TARGET }, partition = "seq", schedule = schedule,
      recompute = recompute and "always" or "never", optimizer = "adamw", hypers = {}, clip = 0,
      seed = 1, dropout = 0.1, steps = steps + WARM, batches = steps + WARM,
   }
end

--- Seconds of a step as the plan has it, between the ends of two legs.
local function predict(plan)
   return (plan:simulate(steps + WARM).seconds - plan:simulate(WARM).seconds) / steps
end

--- Seconds that all workers work for one step.
local function work(plan)
   local played, busy = plan:simulate(steps), 0
   for _, bubble in ipairs(played.bubble) do busy = busy + (1 - bubble) * played.seconds end
   return busy / steps
end

--- The share of the planned memory that was reached on the device that reached least of its own;
-- never more than was planned on any. Slots between stages need not all be full at once.
local function share_reached(plan, reached)
   local least = 1
   for d, row in ipairs(plan.memory) do
      assert(reached[d].total <= row.total, "a device held more than was planned")
      least = math.min(least, reached[d].total / row.total)
   end
   return least
end

local errors, cpu_errors, shares = {}, {}, {}

local function compare(name, model, schedule, recompute)
   local o = options_of(model, schedule, recompute)
   local graph = plans.new(o).graphs[1]
   local profile = profiles(graph, o.devices, {
      fresh = true, recompute = recompute, optimizer = o.optimizer, seconds = 2,
   })
   o.profile = scratch .. "/profile"
   profile:save(o.profile)
   local plan = plans.new(o)
   local predicted = predict(plan)
   local measured, seen = peer.step_seconds(plan, steps, WARM)
   local cpu, reached = seen.cpu_seconds, seen.reached
   local off, cpu_off = measured / predicted - 1, cpu / work(plan) - 1
   errors[#errors + 1], cpu_errors[#cpu_errors + 1] = math.abs(off), math.abs(cpu_off)
   shares[#shares + 1] = share_reached(plan, reached)
   print(("%-9s %-5s recompute %-3s: predicted %8.2f ms a step, measured %8.2f (%+.1f %%); CPU time "
      .. "predicted %8.2f ms, measured %8.2f (%+.1f %%); memory reached %.2f %%"):format(name, schedule,
      recompute and "on" or "off", 1e3 * predicted, 1e3 * measured, 100 * off, 1e3 * work(plan),
      1e3 * cpu, 100 * cpu_off, 100 * shares[#shares]))
end

core.sys.mkdir(scratch)
for _, name in ipairs(names) do
   local model = open_model(name)
   for _, schedule in ipairs { "1f1b", "async" } do
      for _, recompute in ipairs { false, true } do compare(name, model, schedule, recompute) end
   end
end
os.execute("rm -r '" .. scratch .. "'")
print(("fidelity: median error %.1f %%, worst %.1f %%; of CPU time median %.1f %%, worst %.1f %%; memory reached at least %.2f %%")
   :format(100 * peer.median(errors), 100 * math.max(unpack(errors)), 100 * peer.median(cpu_errors),
   100 * math.max(unpack(cpu_errors)), 100 * math.min(unpack(shares))))
peer.gate("fidelity-median", peer.median(errors))
peer.gate("fidelity-worst", math.max(unpack(errors)))
peer.gate("fidelity-memory", math.min(unpack(shares)))
