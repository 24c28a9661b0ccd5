--- The checker of reference outputs: it passes on what another framework computed, and only then.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local golden = require("ftpipe.data.golden")
local precision = require("ftpipe.trained.precision")
local process = require("spec.support.process")

-- Name, and how many figures it has at least: loss, logits, gradients, optimizers, greedy rows.
local directories = {
   { "golden/t5_v1_0", 7 }, { "golden/t5_v1_1", 7 }, { "golden/t5_rte_real", 7 },
   { "golden/bert_qa", 7 }, { "golden/minilm_squad", 5 }, { "golden/gpt2", 7 },
   { "golden/gpt2_wikitext_real", 6 },
}

describe("the golden checker", function()
   for _, case in ipairs(directories) do
      it("passes on " .. case[1], function()
         local dir = files.shared(case[1], pending)
         if not dir then return end
         local report = golden.check(dir)
         assert.equal(0, report.failed, table.concat(report:lines(), "\n"))
         assert.is_true(#report.rows >= case[2])
      end)
   end

   local rounded = {
      { "t5_v1_0", "bf16", "tf32" }, { "t5_v1_1", "bf16", "tf32" }, { "bert_qa", "bf16", "f16" },
      { "gpt2", "bf16", "f16" },
   }
   local device = core.engine.devices("cpu:1")[1] -- a card, in the program that tests those
   for _, case in ipairs(rounded) do
      for i = 2, 3 do
         it(("passes on losses in %s: %s"):format(case[i], case[1]), function()
            local dir = files.shared("golden/" .. case[1], pending)
            if not dir then return end
            local numbers = case[i]
            local missing = device[numbers .. "_flops_per_s"] == 0
               or device.in_host and numbers == "bf16" and not core.sys.has_bf16()
            if missing then return pending("skipped: no " .. numbers .. " here") end
            local report = golden.check(dir, {
               round = function(graph, on) precision.apply(numbers, graph, on) end,
            })
            assert.equal(0, report.failed, table.concat(report:lines(), "\n"))
            assert.is_true(#report.rows >= 2)
            assert.is_true(report.rows[1].error > 1e-7) -- not what f32 gives
         end)
      end
   end

   it("fails when one gradient element is off by 1 % of its tensor's largest", function()
      local dir = files.shared(directories[1][1], pending)
      if not dir then return end
      local names = { "shared.weight", "encoder.block.0.layer.0.layer_norm.weight",
         "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight" }
      for _, name in ipairs(names) do
         local moved = 0
         local report = golden.check(dir, { tamper = function(parameter, gradient)
            if parameter ~= name then return end
            local data, largest = gradient:pointer(), 0
            for i = 0, gradient:count() - 1 do largest = math.max(largest, math.abs(data[i])) end
            data[gradient:count() - 1] = data[gradient:count() - 1] + 0.01 * largest
            moved = moved + 1
         end })
         assert.equal(1, moved)
         assert.equal(1, report.failed)
         assert.matches("gradients %(%d+%), " .. name:gsub("%p", "%%%0"),
            table.concat(report:lines(), "\n"))
      end
   end)

   it("compares norms of gradients where only these are stored", function()
      local dir = files.shared("golden/bert_qa", pending)
      if not dir then return end
      files.in_directory(function(copy)
         for _, name in ipairs(core.sys.list_dir(dir)) do
            core.sys.write_file(copy .. "/" .. name, core.sys.read_file(dir .. "/" .. name))
         end
         local reference = core.json.read(dir .. "/golden.json")
         reference.losses, reference.grad_norms = nil, {}
         golden.check(dir, { tamper = function(parameter, gradient)
            local data, sum = gradient:pointer(), 0
            for i = 0, gradient:count() - 1 do sum = sum + data[i] * data[i] end
            reference.grad_norms[parameter] = math.sqrt(sum)
         end })
         local weight = "qa_outputs.weight"
         for _, factor in ipairs { 1, 1.001 } do
            reference.grad_norms[weight] = reference.grad_norms[weight] * factor
            core.sys.write_file(copy .. "/golden.json", core.json.encode(reference))
            local report = golden.check(copy)
            local found = "gradient norms %(55%), " .. (factor == 1 and "" or "qa_outputs.weight")
            assert.equal(factor == 1 and 0 or 1, report.failed)
            assert.matches(found, table.concat(report:lines(), "\n"))
         end
      end)
   end)

   it("fails on NaN, which is no small error", function()
      local dir = files.shared(directories[1][1], pending)
      if not dir then return end
      local report = golden.check(dir, {
         tamper = function(_, gradient) gradient:pointer()[0] = 0 / 0 end,
      })
      assert.equal(1, report.failed)
   end)

   it("fails when a reference figure is another", function()
      local dir = files.shared(directories[1][1], pending)
      if not dir then return end
      files.in_directory(function(copy)
         for _, name in ipairs(core.sys.list_dir(dir)) do
            core.sys.write_file(copy .. "/" .. name, core.sys.read_file(dir .. "/" .. name))
         end
         local text = core.sys.read_file(dir .. "/golden.json")
         local reference = core.json.decode(text)
         reference.loss = reference.loss * 1.0001
         reference.losses.adamw[10] = reference.losses.adamw[10] * 1.001
         reference.greedy[1][3] = reference.greedy[1][3] + 1
         core.sys.write_file(copy .. "/golden.json", core.json.encode(reference))
         local lines, failed = {}, golden.check(copy)
         for _, row in ipairs(failed.rows) do lines[#lines + 1] = not row.ok and row.what or nil end
         assert.same({ "loss", "10 losses, adamw", "greedy rows" }, lines)
         local out, _, code = process.ftpipe { "tools/check_golden.lua", copy }
         assert.equal(1, code)
         assert.matches("FAILED", out)
      end)
   end)
end)

describe("tools/check_golden.lua", function()
   it("prints the worst error of each figure and exits 0 when all are small", function()
      local dir = files.shared(directories[1][1], pending)
      if not dir then return end
      local out, err, code = process.ftpipe { "tools/check_golden.lua", dir }
      assert.equal("", err)
      assert.equal(0, code)
      local figures = { "loss", "logits", "gradients", "adamw", "adafactor", "sgd", "greedy" }
      for _, what in ipairs(figures) do
         assert.matches(what, out)
      end
      assert.matches("worst %d%.%d%de%-%d+ of 1e%-0%d +ok", out)
   end)

   it("says what is wrong with a directory in one line", function()
      local out, _, code = process.ftpipe { "tools/check_golden.lua", "/nonexistent" }
      assert.equal(1, code)
      assert.matches("\n  FAILED: /nonexistent/golden%.json: [^\n]+\n0 passed, 1 failed\n$", out)
   end)
end)
