--- Weights that several stages share: any partition completes, and computes what one device does.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")

-- Forward nodes of the T5 of specs: the decoder's embedding and first self-attention need nothing
-- of the encoder, so a stage of them may come before it. They share the embedding and, with later
-- blocks, the position bias: stages are owners for each other.
local DECODER_FIRST, DECODER_LAST, NODES = 41, 49, 104

--- Stages of the nodes in an order that their values allow, cut in places from a seed.
local function random_partition(rng, n_devices)
   local order, last = {}, rng(DECODER_FIRST, DECODER_LAST)
   for n = DECODER_FIRST, last do order[#order + 1] = n end
   local first = #order
   for n = 1, NODES do
      if n < DECODER_FIRST or n > last then order[#order + 1] = n end
   end
   local cuts, stage, device, s = { [first + 1] = true }, {}, { rng(n_devices) }, 1
   for _ = 1, rng(0, 4) do cuts[rng(first + 2, NODES)] = true end
   for i, n in ipairs(order) do
      if cuts[i] then
         s = s + 1
         device[s] = rng(n_devices)
      end
      stage[n] = s
   end
   return stage, device
end

--- Numbers from a seed: rng(n) is 1 to n, rng(a, b) a to b.
local function numbers(seed)
   return function(a, b)
      seed = (seed * 69069 + 1) % 2 ^ 32
      if not b then a, b = 1, a end
      return a + math.floor(seed / 2 ^ 16) % (b - a + 1)
   end
end

local function train(partition, changes)
   local o = { devices = "cpu:2", steps = 4, partition = partition, d_model = 12, vocab_size = 61 }
   for key, value in pairs(changes) do o[key] = value end
   return pipeline.train(o)
end

local function same(a, b)
   assert.same(a.losses, b.losses)
   assert.same(a.params, b.params)
end

--- Calls f with the path of a random partition from a seed.
local function with_partition(seed, n_devices, f)
   files.in_directory(function(dir)
      local path = dir .. "/plan.txt"
      local stage, device = random_partition(numbers(seed), n_devices)
      core.sys.write_file(path, pipeline.partition_text(stage, device, n_devices))
      f(path)
   end)
end

describe("weights that stages share", function()
   local judge
   setup(function()
      judge = pipeline.train {
         devices = "cpu:1", steps = 4, schedule = "sequential", threaded = false, d_model = 12,
      }
   end)

   for seed = 1, 12 do
      it("are the same on any partition, the decoder's embedding first, seed " .. seed, function()
         with_partition(seed, 2, function(path)
            local schedule = seed % 2 == 0 and "1f1b" or "gpipe"
            same(judge, train(path, { schedule = schedule }))
            local options = { schedule = "async", micro_batches = seed % 3 == 0 and 2 or 4 }
            local run = train(path, options)
            options.threaded = false
            same(train(path, options), run)
         end)
      end)
   end

   -- Stages of a task follow each other, so one may sum what a later one has: behind all backwards.
   for seed = 1, 12 do
      it("are the same where tasks are of several stages, seed " .. seed, function()
         with_partition(seed, 1, function(path)
            for _, packs in ipairs { "1/2", "2/1", "3/2" } do
               local options = { devices = "cpu:1", schedule = "harmony-pp", packs = packs,
                  clip = 0 }
               same(judge, train(path, options))
               options.clip = 1e9 -- every update waits for all sums
               same(judge, train(path, options))
            end
         end)
      end)
   end

   it("pass once a batch through one slot where batches do not meet", function()
      local function slots_of(schedule)
         local plan, list = pipeline.plan {
            family = "gpt2", vocab_size = 700, devices = "cpu:2", stages = 6,
            schedule = schedule, micro_batches = 2,
         }, {}
         for slots in plan:text():gmatch("\nedge [RU]%d+>[RW]%d+ bytes [1-9]%d* slots (%d+)") do
            list[#list + 1] = tonumber(slots)
         end
         return list
      end
      for _, schedule in ipairs { "1f1b", "gpipe", "zero-bubble", "harmony-pp" } do
         for _, slots in ipairs(slots_of(schedule)) do assert.equal(1, slots, schedule) end
      end
      assert.is_true(slots_of("async")[1] > 1)
   end)
end)
