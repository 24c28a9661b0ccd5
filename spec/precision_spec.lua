--- Precisions of plans: what 16 bits save and speed up on devices that are not here.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local process = require("spec.support.process")

local function plan(precision, devices, more)
   return ft.plan(copy({
      model = ft.model "t5-small", devices = devices or "sim:2xa100", batch = 8, micro_batches = 4,
      buckets = { 64 }, lengths = { target = 64 }, batches = 2, precision = precision,
      partition = { "decoder/block.0" }, recompute = "never",
   }, more))
end

--- Numbers of the weights of products, each once for each stage that reads it, by stage.
local function product_weights(made)
   local graph, counts, seen = made.graphs[1], {}, {}
   local params = graph:params()
   for n = 1, graph:counts().forward do
      local node, stage = graph:node(n), made.partition.stage[n]
      local p = node.op == "linear" and node.params[1]
      local key = p and stage .. " " .. p
      if p and not seen[key] then
         seen[key] = true
         counts[stage] = (counts[stage] or 0) + params[p].dims[1] * params[p].dims[2]
      end
   end
   return counts
end

describe("plans in 16 bits", function()
   for _, precision in ipairs { "bf16", "f16" } do
      it("keep activations in them, with weights and their state in f32: " .. precision, function()
         local whole, half = plan("f32"), plan(precision)
         local weights = product_weights(half)
         for d, row in ipairs(half.memory) do
            local full = whole.memory[d]
            for _, class in ipairs { "weights", "gradients", "optimizer" } do
               assert.equal(full[class], row[class], class)
            end
            assert.near(0.5, row.activations / full.activations, 0.02)
            assert.equal(0, full.packed)
            assert.near(1, row.packed / (2 * weights[d]), 1e-3)
         end
         local moved, before = 0, 0
         for i, transfer in ipairs(half.blueprint:transfers()) do
            moved = moved + transfer.bytes
            before = before + whole.blueprint:transfers()[i].bytes
         end
         assert.is_true(moved < before and moved >= before / 2)
         assert.matches("\nprecision: activations and copies of weights in " .. precision
            .. "; weights, gradients and optimizer f32\n", tostring(half))
      end)
   end

   it("are not computed by CPUs", function()
      local graph = plan("bf16").graphs[1]
      assert.is_true(graph == graph:verify())
      local message = files.fault(core.program.new, graph, { grads = true })
      assert.matches("^'embedding' in .+ has values as cards keep them",
         message)
   end)

   it("run products at the card's rate for them, and the rest at that of its memory", function()
      local function seconds(precision, device)
         device.name, device.memory, device.link = "d", "80GB", "100GB/s"
         local o = { micro_batches = 1, batch = 64 }
         return plan(precision, ft.cluster { devices = { device, device } }, o):simulate(2).seconds
      end
      -- products alone, beside attention's, which are f32: memory has no end
      local whole = seconds("f32", { flops = 1e12, bandwidth = "1000TB/s" })
      local half = seconds("bf16", { flops = 1e12, bf16_flops = 4e12, bandwidth = "1000TB/s" })
      assert.is_true(whole / half > 3.5 and whole / half < 4)
      assert.equal(half, seconds("f16", { flops = 1e12, f16_flops = 4e12, bandwidth = "1000TB/s" }))
      -- memory alone: half of the bytes of activations
      whole = seconds("f32", { flops = 1e18, bandwidth = "10GB/s" })
      half = seconds("bf16", { flops = 1e18, bf16_flops = 1e18, bandwidth = "10GB/s" })
      assert.is_true(whole / half > 1.4 and whole / half < 2)
   end)

   it("round products alone in tf32, at half of bf16's rate", function()
      local whole, half = plan("f32"), plan("tf32")
      assert.same(whole.memory, half.memory)
      assert.matches("\nprecision: products of tf32 with f32 sums, the rest f32\n", tostring(half))
      local cards = {}
      for _, card in ipairs(core.engine.cards()) do
         cards[card.name] = card
         assert.equal(card.bf16_flops_per_s / 2, card.tf32_flops_per_s)
      end
      assert.near(0.52 * 156e12, cards.a100.tf32_flops_per_s, 1)
      local function seconds(precision, more)
         local device = copy({ flops = 1e12, bandwidth = "1000TB/s", name = "d", memory = "80GB",
            link = "100GB/s" }, more)
         return plan(precision, ft.cluster { devices = { device, device } },
            { micro_batches = 1, batch = 64 }):simulate(2).seconds
      end
      local faster = seconds("f32") / seconds("tf32", { tf32_flops = 4e12 })
      assert.is_true(faster > 3.5 and faster < 4)
      for _, devices in ipairs { "sim:2x2080ti", "sim:2xv100" } do
         assert.matches("there is no rate of tf32 for sim:0", files.fault(plan, "tf32", devices))
      end
      if core.engine.devices("cpu:2")[1].tf32_flops_per_s > 0 then return end -- cards stand for it
      assert.matches('precision = "tf32": cpu:0 has no products of tf32; f32 runs everywhere$',
         files.fault(plan, "tf32", "cpu:2"))
   end)

   it("are of cards that have a rate for them", function()
      local cards = {}
      for _, card in ipairs(core.engine.cards()) do cards[card.name] = card end
      assert.near(0.52 * 312e12, cards.a100.bf16_flops_per_s, 1)
      assert.equal(0, cards["2080ti"].bf16_flops_per_s)
      assert.near(0.52 * 53.8e12, cards["2080ti"].f16_flops_per_s, 1)
      for name, card in pairs(cards) do
         assert.is_true(card.f16_flops_per_s >= card.bf16_flops_per_s, name)
         assert.is_true(card.f16_flops_per_s == 0 or card.f16_flops_per_s > card.flops_per_s, name)
      end
      local message = files.fault(plan, "bf16", "sim:2x2080ti")
      assert.matches('precision = "bf16": there is no rate of bf16 for sim:0 2080ti; name a card '
         .. "that has one %(3090, .*h200%), or say bf16_flops of the device in a cluster", message)
      assert.matches("no rate of f16 for sim:0 card", files.fault(plan, "f16", "sim:2x11GB"))
      for _, name in ipairs { "t5-small", "mt5-small" } do
         assert.matches('precision = "f16": what T5\'s feed%-forward layers give is too large for '
            .. "it %(65504 at most%); take bf16, tf32 or f32$",
            files.fault(plan, "f16", "cpu:2", { model = ft.model(name) }))
      end
   end)

   it("are made by recipes and by ftpipe plan", function()
      local out, problem, code = process.ftpipe { "plan", "t5-small", "--devices", "sim:2xt4",
         "--precision", "f16", "--mem" }
      assert.equal(0, code, problem)
      assert.matches("packed.*\nprecision: activations and copies of weights in f16", out)
      out, problem, code = process.ftpipe { "recipes/t5_rte.lua", "--devices", "sim:2xl4",
         "--precision", "bf16" }
      assert.equal(0, code, problem)
      assert.matches("\nprecision: activations", out)
      out, problem, code = process.ftpipe { "plan", "t5-small", "--devices", "sim:2xl4",
         "--precision", "bf16", "--search", "--batch", "8" }
      assert.equal(0, code, problem)
      assert.matches("precision: activations", out)
   end)
end)
