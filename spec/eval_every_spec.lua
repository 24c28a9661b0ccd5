local core = require("ftpipe.core")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")

--- A run of the recipe: summary, rows of metrics.jsonl that are evaluations, stderr.
local function run(dir, ...)
   local out, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--out", dir, ... }
   assert.equal(0, exit, err)
   local rows = {}
   for line in core.sys.read_file(dir .. "/metrics.jsonl"):gmatch("[^\n]+") do
      local row = core.json.decode(line)
      row.time, row.eval_s = nil, nil
      if row.eval_loss then rows[#rows + 1] = row end
   end
   return core.json.read(dir .. "/summary.json"), rows, err, out
end

describe("evaluation inside training", function()
   if core.sanitized then
      return it("is slow", function() pending("takes minutes under sanitizers") end)
   end

   it("keeps the best model, and makes none when it only evaluates", function()
      files.in_directory(function(dir)
         local summary, rows, err, out = run(dir .. "/run", "--steps", "60", "--eval-every", "20",
            "--lr", "3e-3")
         local steps, best = {}, nil
         for i, row in ipairs(rows) do
            steps[i] = row.step
            if i > 1 and (not best or row.value > best.value) then best = row end
         end
         assert.same({ 0, 20, 40, 60 }, steps)
         assert.equal(best.step, summary.best_step)
         assert.equal(best.value, summary.best_value)
         assert.equal(best.value, summary.value)
         assert.equal(best.eval_loss, summary.eval_loss)
         assert.matches(("after: accuracy %.1f %%%%"):format(best.value), out)
         assert.matches("step 20: accuracy .*, the best so far\n", err)
         assert.matches("step=60 of=60 .* idle_percent=%d+,%d+ memory_mb=[%d.]+,[%d.]+\n", err)
         assert.equal(best.step ~= 60, err:find("hf/ is the best: accuracy") ~= nil)
         pipeline.assert_totals(summary.memory_planned_bytes, summary.memory_measured_bytes)
         assert.equal("file", core.sys.exists(dir .. "/run/plan-evaluate.txt"))

         local resumed, same_rows, said = run(dir .. "/run", "--steps", "60", "--eval-every", "20",
            "--lr", "3e-3", "--resume")
         assert.same(rows, same_rows) -- nothing was left to do, and nothing is noted twice
         assert.equal(summary.value, resumed.value)
         assert.matches("goes on from .*/checkpoints/step%-60, after step 60 of 60\n", said)

         local again = run(dir .. "/again", "--eval-only")
         assert.equal(50, math.floor(again.value + 0.5))
         assert.is_nil(again.best_step)
         assert.is_false(core.sys.exists(dir .. "/again/hf") and true or false)
      end)
   end)

   it("computes what a run without evaluations computes", function()
      files.in_directory(function(dir)
         local function losses(out, ...)
            local list = {}
            run(out, "--steps", "12", ...)
            for line in core.sys.read_file(out .. "/metrics.jsonl"):gmatch("[^\n]+") do
               list[#list + 1] = core.json.decode(line).loss
            end
            return list
         end
         assert.same(losses(dir .. "/plain"), losses(dir .. "/judged", "--eval-every", "5"))
      end)
   end)

   it("knows the best evaluation when it goes on after kill -9", function()
      files.in_directory(function(dir)
         local flags = { "--steps", "30", "--eval-every", "10", "--lr", "3e-3" }
         local whole, wanted_rows = run(dir .. "/whole", unpack(flags))
         local cut = dir .. "/cut"
         core.sys.write_file(dir .. "/killed.lua", [[
            local core, training = require("ftpipe.core"), require("ftpipe.run.training")
            local show = training.show
            function training.show(run, step)
               show(run, step)
               if step.step == 14 then os.execute("kill -9 " .. core.sys.getpid()) end
            end
            return dofile("recipes/t5_rte.lua")]])
         local _, err, code = process.shell(("'%s' '%s/killed.lua' --out '%s' %s"):format(
            core.sys.executable(), dir, cut, table.concat(flags, " ")))
         assert.equal(137, code, err)
         flags[#flags + 1] = "--resume"
         local summary, rows = run(cut, unpack(flags))
         assert.same(wanted_rows, rows)
         for _, key in ipairs { "best_step", "best_value", "value", "eval_loss", "loss_last" } do
            assert.equal(whole[key], summary[key], key)
         end
         assert.is_true(core.sys.read_file(dir .. "/whole/hf/model.safetensors")
            == core.sys.read_file(cut .. "/hf/model.safetensors"))
      end)
   end)

   it("compares what it trained since with the best from before it went on", function()
      files.in_directory(function(dir)
         local flags = { "--devices", "cpu:1", "--profile", "modelled", "--eval-limit", "20" }
         run(dir .. "/run", "--steps", "6", "--eval-every", "3", unpack(flags))
         local summary, rows, err = run(dir .. "/run", "--steps", "12", "--resume", unpack(flags))
         local best
         for i, row in ipairs(rows) do
            if i > 1 and (not best or row.value > best.value) then best = row end
         end
         assert.equal(12, rows[#rows].step)
         assert.matches("\nstep 12: accuracy ", err)
         assert.equal(best.step, summary.best_step)
         assert.equal(best.value, summary.value)
      end)
   end)

   it("stops when patience is at its end", function()
      files.in_directory(function(dir)
         -- A rate of nothing: no evaluation is better than the first.
         local summary, rows, err = run(dir .. "/run", "--steps", "100", "--eval-every", "2",
            "--patience", "3", "--lr", "0")
         assert.equal(8, summary.steps)
         assert.is_true(summary.stopped_early)
         assert.equal(2, summary.best_step)
         assert.equal(5, #rows)
         assert.matches("stopped: 3 evaluations were not better than accuracy [%d.]+ %% at step 2",
            err)
      end)
   end)

   it("refuses patience without evaluations", function()
      local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--patience", "2" }
      assert.equal(2, exit)
      assert.matches("%-%-patience counts evaluations, give %-%-eval%-every too\n", err)
   end)
end)
