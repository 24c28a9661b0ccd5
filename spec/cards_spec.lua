--- Training on cards, or on what stands for them: in the program ftpipe_emu "cpu" counts emulated
-- cards, in others these tests are of the CPU. FTPIPE_CARDS says what else to train on, with %d for
-- how many: "cuda:0/%dx1GB" (./dev gpu).

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")

local CARDS = os.getenv("FTPIPE_CARDS") or "cpu:%d"

local function cards(n) return CARDS:format(n) end

--- Runs of a few steps of a small model, of one sample for each micro-batch.
local function train(options)
   return pipeline.train(copy({
      batch = 2, micro_batches = 2, steps = 2, clip = 0.5, d_model = 12, d_kv = 4, d_ff = 16,
   }, options))
end

--- Whether they keep values of 16 bits, as CPUs do not.
local function keeps_halves()
   local device = core.engine.devices(cards(1))[1]
   return not device.in_host and device.bf16_flops_per_s > 0
end

local function assert_equal_runs(a, b)
   assert.same(a.losses, b.losses)
   for step, norm in ipairs(a.norms) do -- not a number where gradients are not clipped
      assert.is_true(norm == b.norms[step] or (norm ~= norm and b.norms[step] ~= b.norms[step]))
   end
   assert.same(a.params, b.params)
end

describe("a pipeline of cards", function()
   for _, family in ipairs { "t5", "gpt2", "bert" } do
      it("computes what one card computes: " .. family, function()
         local one = train { family = family, devices = cards(1), threaded = false }
         for _, n in ipairs { 2, 4 } do
            assert_equal_runs(one, train { family = family, devices = cards(n) })
         end
      end)
   end

   for _, optimizer in ipairs { "sgd", "adafactor" } do
      it("computes the same with " .. optimizer, function()
         local one = train { devices = cards(1), optimizer = optimizer, threaded = false }
         assert_equal_runs(one, train { devices = cards(2), optimizer = optimizer })
      end)
   end

   it("takes several micro-batches forward as one, as a replay does", function()
      local o = {
         devices = cards(2), schedule = "harmony-pp", stages = 4, packs = "1/1", clip = 0,
         batch = 4, micro_batches = 4, forward_micro_batches = 2,
      }
      local threads = train(o)
      assert.matches(" joint 2\n", threads.plan:text())
      o.threaded = false
      assert_equal_runs(train(o), threads)
   end)

   for _, staleness in ipairs { "none", "stash", "predict", "gap-aware", "stash+gap-aware" } do
      it("computes asynchronously what a replay does: " .. staleness, function()
         local o = {
            devices = cards(3), schedule = "async", staleness = staleness, steps = 4, clip = 0,
         }
         local threads = train(o)
         o.threaded = false
         assert_equal_runs(train(o), threads)
      end)
   end

   it("sums what replicas of stages have in their order, with any cut", function()
      local whole = train { devices = cards(2), replicas = "2" }
      for _, replicas in ipairs { "2-1", "1-2" } do
         local run = train { devices = cards(3), replicas = replicas }
         assert.equal(whole.losses[1], run.losses[1])
         assert_equal_runs(run, train { devices = cards(3), replicas = replicas,
            schedule = "gpipe", threaded = false })
      end
      assert_equal_runs(whole, train { devices = cards(4), replicas = "2-2" })
   end)

   it("clips gradients of older weights by what is left of them", function()
      local o = { devices = cards(2), schedule = "async", staleness = "gap-aware", clip = 0.1,
         steps = 4 }
      local threads = train(o)
      o.threaded = false
      assert_equal_runs(train(o), threads)
      o.clip = 1e-3
      assert.is_false(pcall(assert_equal_runs, train(o), threads))
   end)

   it("keeps a copy of weights in bf16, as it was planned", function()
      if core.engine.devices(cards(1))[1].tf32_flops_per_s == 0 then
         return pending("skipped: no cards are here") -- and many CPUs have no bf16
      end
      local o = { devices = cards(1), precision = "bf16", threaded = false, steps = 3 }
      local one = train(o)
      assert.is_true(one.plan.memory[1].packed > 0)
      for _, more in ipairs { { devices = cards(2) }, { devices = cards(4) } } do
         local run = train(copy(o, more))
         assert_equal_runs(one, run)
         pipeline.assert_memory(run.plan, run.measured)
      end
   end)

   it("counts the writing alone of a copy that updates write", function()
      local graph = core.graph.new()
      local x, w = graph:input("x", "f32", { 4, 3 }), graph:param("w", { 5, 3 })
      graph:add("mean", { graph:add("linear", { x, w }) })
      local times = graph:update_times(cards(1), 1, {
         node_ns = { 0, 0 }, pack_ns = { 6, 0 }, update_ns = { 70 }, norm_ns = { 0 } })
      assert.same({ keeps_halves() and 72 or 76, 0 }, times)
   end)

   it("rounds products to tf32, on any cut to the same bits", function()
      local devices = core.engine.devices(cards(1))
      if devices[1].tf32_flops_per_s == 0 then return pending("skipped: there is no tf32 here") end
      local one = train { devices = cards(1), precision = "tf32", threaded = false }
      assert_equal_runs(one, train { devices = cards(2), precision = "tf32" })
      local whole = train { devices = cards(1), threaded = false }
      for step, loss in ipairs(one.losses) do
         assert.is_true(loss ~= whole.losses[step])
         assert.near(1, loss / whole.losses[step], 1e-2)
      end
   end)

   it("computes the same when state moves to host memory and back", function()
      local o = { family = "bert", devices = cards(2), stages = 4, clip = 0 }
      local stays, moved = train(o), train(copy(o, { swap = "always", update = "device" }))
      assert.is_true(moved.plan.volumes[1].bytes_out.activations > 0)
      assert.same(stays.losses, moved.losses)
      assert.same(stays.params, moved.params)
   end)

   it("hears of more micro-batches than its worker is ahead by", function()
      local o = { batch = 18, micro_batches = 18, steps = 1 } -- 36 actions of a stage
      local one = train(copy(o, { devices = cards(1), threaded = false }))
      assert_equal_runs(one, train(copy(o, { devices = cards(2), schedule = "gpipe" })))
      local few = train(copy(o, { devices = cards(1), micro_batches = 2, threaded = false }))
      assert.near(1, one.losses[1] / few.losses[1], 1e-5) -- each micro-batch's was heard
   end)

   it("hears of what a leg finds behind another", function()
      local o = { devices = cards(1), batch = 2, micro_batches = 2, steps = 5 }
      local plan, whole = pipeline.plan(o)
      local run = pipeline.open(plan, whole)
      assert.same(pipeline.train(o).losses,
         pipeline.legs(run, plan, whole, { { 1, 3 }, { 4, 2 } }))
      run:free()
   end)

   it("has its memory back when a run is freed, though tensors look at weights", function()
      if core.engine.devices(cards(1))[1].in_host then
         return pending("skipped: the device has the host's memory")
      end
      local card = ft.cuda.open(cards(1))
      local function free() return card:usage().free_bytes end
      local plan, whole = pipeline.plan { devices = cards(1), batch = 2, micro_batches = 2 }
      local run = pipeline.open(plan, whole)
      pipeline.legs(run, plan, whole, { { 1, 2 } })
      local weight, held = run:param(1), free()
      local value = weight:get(1, 1)
      run:free()
      assert.is_true(free() >= held + plan.memory[1].total)
      assert.equal(value, weight:get(1, 1))
      card:close()
   end)

   it("says what gave the first number that is not finite, a batch after the fact", function()
      for _, schedule in ipairs { "1f1b", "async" } do
         local problem = files.failure(train, {
            devices = cards(2), schedule = schedule, batch = 4, micro_batches = 2, steps = 3,
            tied = false, dropout = 0,
            plant = function(params) params["shared.weight"]:set(2, 3, 0 / 0) end,
            edit = function(batch, number)
               if number == 1 then batch.input_ids:set(3, 2, 1) end -- of no other row
            end,
         })
         assert.equal("step 2: 'embedding' in encoder/embed (forward) gave nan from the parameter "
            .. "'shared.weight', which is not finite; stage 0 of 2, micro-batch 1 of 2",
            tostring(problem.message))
      end
   end)

   it("has 16 bits of values that are swapped, made again, halved and late", function()
      if not keeps_halves() then return pending("skipped: there is no bf16 of cards here") end
      local o = { precision = "bf16", batch = 4, clip = 0, dropout = 0.1 }
      local one = train(copy(o, { devices = cards(1) }))
      for _, way in ipairs {
         { devices = cards(2), stages = 4, swap = "always", update = "device" },
         { devices = cards(2), recompute = "always", schedule = "gpipe" },
         { devices = cards(3), schedule = "zero-bubble" },
         { devices = cards(2), stages = 4, schedule = "interleaved" },
      } do
         local run = train(copy(o, way))
         assert.same(one.losses, run.losses)
         assert.same(one.params, run.params)
         if not way.swap then pipeline.assert_memory(run.plan, run.measured) end
      end
      for _, staleness in ipairs { "stash", "predict", "gap-aware" } do
         local late = copy(o, { devices = cards(3), schedule = "async", staleness = staleness })
         local threads = train(late)
         late.threaded = false
         assert_equal_runs(train(late), threads)
      end
   end)

   it("says which of 16 bits is the first that is not finite", function()
      if not keeps_halves() then return pending("skipped: there is no bf16 of cards here") end
      local name = "encoder.block.1.layer.0.layer_norm.weight"
      local o = { devices = cards(2), precision = "bf16", steps = 1, plant = function(params)
         params[name]:set(1, 0 / 0) -- every other number is the lower half of one of 32 bits
      end }
      local problem = files.failure(train, o)
      assert.equal("diverged", problem.status)
      assert.matches("'rms_norm' in encoder/block.1/attn %(forward%) gave nan from the parameter '"
         .. name:gsub("%p", "%%%0") .. "'", tostring(problem.message))
   end)

   it("updates healthy stages once where one's own weight gradient alone is not finite", function()
      local DOWN = "transformer.h.0.mlp.c_proj.weight"

      -- what block 0 keeps is so large, and the loss, that their product is none; what block 0
      -- hands on is as it was, and all other gradients are finite
      local function plant(params)
         for name, factor in pairs { ["transformer.h.0.mlp.c_fc.weight"] = 1e30, [DOWN] = 1e-30 } do
            local weight = params[name]
            local rows = weight:totable()
            for i, row in ipairs(rows) do
               for k, value in ipairs(row) do weight:set(i, k, value * factor) end
            end
         end
      end

      --- Parameters after a step, and its failure.
      local function attempt(options)
         local record = {}
         local done, problem = pcall(train, copy({
            family = "gpt2", layers = 2, tied = false, dropout = 0, clip = 0, steps = 1, batch = 4,
            optimizer = "sgd", rate = 1e-14, plant = plant, record = record,
            edit = function(batch) batch.loss_weight:fill(batch.loss_weight:get(1) * 1e14) end,
         }, options))
         return record.params, not done and tostring(problem) or nil
      end

      local whole = { freeze = DOWN, devices = cards(1), threaded = false }
      local updated, none = attempt(whole)
      assert.is_nil(none)
      local start = attempt(copy(whole, { rate = 0 }))
      assert.not_same(start["lm_head.weight"], updated["lm_head.weight"])
      for schedule, healthy in pairs { ["1f1b"] = start, async = updated } do
         local options = { devices = cards(2), schedule = schedule }
         local params, said = attempt(options)
         assert.matches("step 1: 'linear_grad_weight' in block.0/ff %(backward%) gave %a+; stage 0",
            said)
         for name, values in pairs(params) do
            local first, last = name:find("%.w.e%.") or name:find("%.h%.0%."),
               name:find("lm_head") or name:find("%.ln_f%.") or name:find("%.h%.1%.mlp%.")
            local kept = pcall(assert.same, start[name], values)
            local moved = pcall(assert.same, healthy[name], values)
            -- the middle is of either stage
            assert.is_true((kept or not first) and (moved or not last) and (kept or moved), name)
         end
         -- what a healthy stage makes of its new weights is not what has failed
         local _, large = attempt(copy(options, { rate = 1e10 }))
         assert.matches("%(backward%).*; stage 0 of 2, micro%-batch 0 of 2", large)
      end
   end)

   it("computes the same with halves of backwards and recomputation", function()
      local one = train { devices = cards(1), threaded = false }
      assert_equal_runs(one, train { devices = cards(2), schedule = "zero-bubble" })
      assert_equal_runs(one, train { devices = cards(2), recompute = "always" })
   end)

   it("holds what was planned", function()
      local run = train { devices = cards(2) }
      pipeline.assert_memory(run.plan, run.measured)
   end)

   it("counts what cuBLASLt works in", function()
      if not ft.cuda.available() then return pending("skipped: no cards are here") end
      local list = "cuda:0/2x500MB"
      local library = core.engine.devices(list)[1].library_bytes
      local run, other = train { devices = list }, train { devices = cards(2) }
      assert_equal_runs(other, run)
      pipeline.assert_memory(run.plan, run.measured)
      local before = core.engine.devices(cards(2))[1].library_bytes
      local more = run.plan.memory[1].workspace - other.plan.memory[1].workspace
      assert.is_true(library == before and more == 0 or more >= library - before)
   end)

   it("says which numbers are not finite", function()
      local function plant(params)
         for name, tensor in pairs(params) do
            if name:find("DenseReluDense.wo.weight", 1, true) then tensor:set(1, 1, math.huge) end
         end
      end
      local ok, failure = pcall(train, { devices = cards(2), plant = plant })
      assert.is_false(ok)
      assert.matches("step 1: '.-' in .- gave %a+ from the parameter", tostring(failure))
   end)
end)
