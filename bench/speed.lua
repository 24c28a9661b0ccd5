--- What schedules, recomputation and partitions are worth on two cores: each against another way of
-- doing the same, in the same run.
--
--    ftpipe bench/speed.lua [PART ...]       parts: async zero-bubble stash recompute auto mixed
--
-- Part `recorded` runs only when it is named: what --gaps and --gnorm cost, in CPU time of all
-- threads, which other work on the machine changes less than it changes time.
--
-- Rounds alternate between the ways that are compared; a ratio is taken within its round, since a
-- machine's speed drifts, and the median of the rounds counts. Nothing else may run meanwhile.
-- Stages are cut by measured costs, as those of a recipe are.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local plans = require("ftpipe.plan")

package.path = "bench/?.lua;" .. package.path
local peer = require("peer")

local STEPS, WARM, ROUNDS = 12, 2, 5
local LONG_STEPS = 5 -- of rows of 128 tokens
local LEG_STEPS = 10 -- of these where a leg is filled and drained once

local t5 = models.open { model = "t5-small", init = "random" }

--- A plan of t5-small, 16 rows in 8 micro-batches; options change it.
local function plan_of(options)
   local o = {
      model = t5, devices = "cpu:2", batch = 16, micro_batches = 8, buckets = { 32 },
      lengths = { target = 4 }, partition = "seq", schedule = "async", recompute = "never",
      optimizer = "sgd", hypers = {}, clip = 0, seed = 1, dropout = 0.1, steps = STEPS + WARM,
      batches = STEPS + WARM, profile = "measured",
   }
   for key, value in pairs(options) do o[key] = value end
   return plans.new(o)
end

--- Seconds of a step of each plan of a list, by round; and the same of CPU time.
local function measure(list)
   local rounds, cpu = {}, {}
   for round = 1, ROUNDS do
      rounds[round], cpu[round] = {}, {}
      for i, plan in ipairs(list) do
         local seconds, seen = peer.step_seconds(plan, plan.options.steps - WARM, WARM)
         rounds[round][i], cpu[round][i] = seconds, seen.cpu_seconds
      end
   end
   return rounds, cpu
end

--- The median over rounds of what `ratio` makes of the seconds of a round; all of them are printed.
local function median(rounds, ratio)
   local list, said = {}, {}
   for i, seconds in ipairs(rounds) do
      list[i] = ratio(unpack(seconds))
      said[i] = ("%.3f"):format(list[i])
   end
   print("rounds: " .. table.concat(said, " "))
   return peer.median(list)
end

--- What the steps that are measured take, as they are predicted.
local function predict_seconds(plan)
   return plan:simulate(plan.options.steps).seconds - plan:simulate(WARM).seconds
end

local function largest_bytes(plan) return math.max(unpack(plan:memory_bytes())) end

local parts, order = {}, { "async", "zero-bubble", "stash", "recompute", "auto", "mixed" }

--- Two devices that never drain, cut by `mixed` as FTPipe does, against one worker: a model that
-- shares a weight between its ends, with micro-batches of four rows, and one that does not, of two.
function parts.async()
   local steps = LEG_STEPS + WARM
   local sizes = { steps = steps, batches = steps, micro_batches = 4, buckets = { 128 },
      partition = "mixed" }
   for _, case in ipairs {
      { "", model = t5, batch = 16, lengths = { target = 16 } },
      { "-bert", model = models.open { model = "bert-base", init = "random" }, batch = 8,
         lengths = {} },
   } do
      local function plan(devices, schedule)
         return plan_of(copy(sizes, { model = case.model, batch = case.batch,
            lengths = case.lengths, devices = devices, schedule = schedule }))
      end
      local rounds = measure { plan("cpu:1", "1f1b"), plan("cpu:2", "async") }
      peer.gate("speed-async" .. case[1], median(rounds, function(one, two) return one / two end))
   end
end

--- Halves of backwards within the memory of 1f1b's largest device, in the best cut that there is
-- for that, against the most that 1f1b could reach: M / (M + P - 1) of two workers.
parts["zero-bubble"] = function()
   local micro = 4
   local function plan(schedule, devices, partition)
      return plan_of { schedule = schedule, devices = devices, partition = partition,
         micro_batches = micro, buckets = { 128 }, steps = LONG_STEPS + WARM,
         batches = LONG_STEPS + WARM }
   end
   local usual = plan("1f1b")
   local halves = plan("zero-bubble", ("cpu:2/%dB"):format(largest_bytes(usual)), "best"):check()
   local alone, bound = plan("1f1b", "cpu:1"), micro / (micro + 1)
   for name, halved in pairs { ["as the schedule says"] = plan("zero-bubble"),
      ["within 1f1b's memory"] = halves }
   do
      print(("zero-bubble %s: %.3f of 1f1b's bytes, predicted %.3f of its bound"):format(name,
         largest_bytes(halved) / largest_bytes(usual),
         predict_seconds(alone) / 2 / predict_seconds(halved) / bound))
   end
   local rounds = measure { alone, halves, usual }
   print(("1f1b: %.3f of two workers, its bound is %.3f"):format(
      median(rounds, function(one, _, drained) return one / 2 / drained end), bound))
   peer.gate("speed-zero-bubble",
      median(rounds, function(one, two) return one / 2 / two / bound end))
   peer.gate("speed-zero-bubble-memory", largest_bytes(halves) / largest_bytes(usual))
end

--- Bytes of weights that are kept in an update, on all devices.
local function kept_bytes(plan)
   local bytes, versions = 0, {}
   for _, stage in ipairs(plan.blueprint:stages()) do
      versions[stage.device] = math.max(versions[stage.device] or 1, stage.versions)
   end
   for d, row in ipairs(plan.memory) do
      if versions[d] > 1 then bytes = bytes + (row.versions or 0) / (versions[d] - 1) end
   end
   return bytes
end

--- Seconds that copying so many bytes takes, from memory that is not in a cache.
local function copy_seconds(bytes)
   local ffi = require("ffi")
   local n = math.max(math.floor(bytes), 1)
   local from, to, best = ffi.new("uint8_t[?]", n), ffi.new("uint8_t[?]", n), math.huge
   for _ = 1, 5 do
      local start = core.sys.time_ns()
      ffi.copy(to, from, n)
      best = math.min(best, (core.sys.time_ns() - start) / 1e9)
   end
   return best
end

--- Backwards that read what their forwards read: the time of copying older weights, and no more.
function parts.stash()
   local stashed = plan_of { staleness = "stash" }
   local bytes = kept_bytes(stashed)
   local copying = copy_seconds(bytes)
   print(("stash keeps %.1f MB in an update: %.2f ms to copy"):format(bytes / 1e6, 1e3 * copying))
   local rounds = measure { plan_of {}, stashed }
   peer.gate("speed-stash",
      median(rounds, function(newest, stash) return (stash - copying) / newest end))
end

--- Forwards run again before their backwards, on one worker.
function parts.recompute()
   local one = { devices = "cpu:1", schedule = "1f1b" }
   local rounds = measure { plan_of(one), plan_of { devices = one.devices, schedule = one.schedule,
      recompute = "always" } }
   peer.gate("speed-recompute", median(rounds, function(never, always) return always / never end))
end

--- Recomputation where memory asks for it, within a budget that not recomputing does not fit.
function parts.auto()
   local function plan(recompute, devices)
      return plan_of { devices = devices or "cpu:2", schedule = "gpipe", recompute = recompute,
         buckets = { 128 },
         partition = { "encoder/block.2", "encoder/block.4", "decoder/block.0" } }
   end
   local most, least = largest_bytes(plan("never")), largest_bytes(plan("always"))
   local devices = ("cpu:2/%dB"):format(math.ceil((most + least) / 2))
   local auto, recomputed = plan("auto", devices):check(), 0
   for _, flag in ipairs(auto.recompute) do recomputed = recomputed + (flag and 1 or 0) end
   print(("auto recomputes %d of %d stages within %.1f MB; always needs %.1f, never %.1f"):format(
      recomputed, #auto.recompute, (most + least) / 2e6, least / 1e6, most / 1e6))
   local rounds = measure { auto, plan("always", devices):check() }
   peer.gate("speed-auto", median(rounds, function(some, all) return some / all end))
end

--- A model that no cut in order balances: three blocks of GPT-2 with long rows, in each of which
-- attention, one operator, takes most.
local function lumpy_model()
   local dir = os.tmpname()
   os.remove(dir)
   core.sys.mkdir(dir)
   core.sys.write_file(dir .. "/config.json", core.json.encode {
      model_type = "gpt2", vocab_size = 97, n_embd = 96, n_inner = 96, n_layer = 3, n_head = 2,
      n_positions = 512, activation_function = "gelu_new",
   })
   local model = models.open { model = dir, init = "random" }
   os.execute(("rm -rf '%s'"):format(dir))
   return model
end

--- What devices do of a step, the mean over the most.
local function balance(plan)
   local times, sum, most = {}, 0, 0
   for _, stage in ipairs(plan.blueprint:stages()) do
      times[stage.device] = (times[stage.device] or 0) + stage.forward_ns + stage.backward_ns
   end
   for _, ns in pairs(times) do sum, most = sum + ns, math.max(most, ns) end
   return sum / #plan.devices / most
end

--- Stages that need not be adjacent, against the best ones that are.
function parts.mixed()
   local model = lumpy_model()
   local function plan(partition, profile, stages)
      return plan_of { model = model, partition = partition, stages = stages, batch = 16,
         micro_batches = 8, buckets = { 512 }, lengths = {}, profile = profile }
   end
   local seq, mixed = plan("seq", "fresh"), plan("mixed", "measured", 8)
   local predicted = predict_seconds(seq) / predict_seconds(mixed)
   print(("balance: seq %.3f, mixed %.3f; mixed is predicted %.3f times as fast"):format(
      balance(seq), balance(mixed), predicted))
   peer.gate("speed-mixed-balance", balance(seq))
   local ratio = median(measure { seq, mixed }, function(one, other) return one / other end)
   print(("mixed is %.3f times as fast"):format(ratio))
   peer.gate("speed-mixed-ahead", ratio)
   peer.gate("speed-mixed", math.abs(ratio / predicted - 1))
end

--- Gaps and norms that nobody needs to train, recorded.
function parts.recorded()
   local _, cpu = measure { plan_of {}, plan_of { gaps = true }, plan_of { gnorm = true } }
   for i, name in ipairs { "--gaps", "--gnorm" } do
      local list = {}
      for round, seconds in ipairs(cpu) do
         list[round] = ("%.3f"):format(seconds[1 + i] / seconds[1])
      end
      print(("%s: %.3f of the CPU time of a step without; rounds %s"):format(name,
         median(cpu, function(...) return select(1 + i, ...) / (...) end), table.concat(list, " ")))
   end
end

for _, name in ipairs(#arg > 0 and arg or order) do
   assert(parts[name], "parts: " .. table.concat(order, " ") .. " recorded")
   parts[name]()
end
