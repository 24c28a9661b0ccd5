local args = require("ftpipe.recipe.args")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local left = require("ftpipe.store.left")
local process = require("spec.support.process")
local rates = require("ftpipe.trained.rate")
local schedules = require("ftpipe.schedule")

local function rate(schedule, flags)
   local declared = { preset = "fine_tune", steps = { default = 200 } }
   return rates.of(args.parse(declared, flags or {}), schedules.is_synchronous(schedule), 200)
end

describe("the learning rate of a run", function()
   it("stays after warm-up with schedules that drain", function()
      for _, schedule in ipairs { "sequential", "gpipe", "1f1b", "interleaved", "zero-bubble" } do
         assert.equal("constant", rate(schedule).schedule)
      end
      local late = rate("1f1b")
      assert.equal(late.peak, core.engine.rate(late, 200))
   end)

   it("falls to 0 with those that do not, rules of one's own among them", function()
      local function next_action(state)
         return state.forwards - state.backwards < 4 and "F" or "B"
      end
      for _, schedule in ipairs { "async", { name = "mine", next = next_action } } do
         local falls = rate(schedule)
         assert.equal("cooldown", falls.schedule)
         assert.equal(falls.peak, core.engine.rate(falls, 160)) -- warm-up is 20 steps
         assert.near(falls.peak / 2, core.engine.rate(falls, 182), 1e-12)
         assert.equal(0, core.engine.rate(falls, 200))
      end
   end)

   it("stays where weights may not be late, and losses are those of 1f1b to the bit", function()
      assert.equal("constant", rate("async", { "--max-staleness", "0" }).schedule)
      assert.equal("cooldown", rate("async", { "--max-staleness", "1" }).schedule)
      files.in_directory(function(dir)
         local function losses(...)
            local out, list = ("%s/%s"):format(dir, select("#", ...)), {}
            local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--steps", "6", "--devices",
               "cpu:2", "--profile", "modelled", "--eval-limit", "4", "--out", out, "--schedule",
               ... }
            assert.equal(0, code, err)
            for _, row in ipairs(left.rows(out)) do list[#list + 1] = row.loss end
            return list
         end
         local drained = losses("1f1b")
         assert.equal(6, #drained)
         assert.same(drained, losses("async", "--max-staleness", "0"))
      end)
   end)

   it("is what --lr-schedule says with either", function()
      assert.equal("constant", rate("async", { "--lr-schedule", "constant" }).schedule)
      assert.equal("cosine", rate("async", { "--lr-schedule", "cosine" }).schedule)
      assert.equal("linear", rate("1f1b", { "--lr-schedule", "linear" }).schedule)
   end)

   it("is in what the plan says", function()
      local function said(...)
         return (process.ftpipe { "recipes/t5_rte.lua", "--dry-run", "--profile", "modelled", ... })
      end
      assert.matches("\nrate: 0.001 after 80 steps of warm%-up, over the last fifth linear to 0 "
         .. "at step 800\n", said("--schedule", "async"))
      assert.matches("\nrate: 0.001 after 80 steps of warm%-up, then linear to 0 at step 800\n",
         said("--schedule", "async", "--lr-schedule", "linear"))
      assert.matches("\nrate: 0.001 after 80 steps of warm%-up, constant\n", said())
      assert.matches("\nrate: 0.01, constant\n",
         said("--schedule", "async", "--lr-schedule", "constant", "--lr", "0.01", "--warmup", "0"))
      assert.is_nil(said("--eval-only"):find("rate:", 1, true))
   end)

   it("falls until the last batch of the epochs, which need not be full", function()
      local function last_step(epochs, batch)
         local out = process.ftpipe { "recipes/t5_rte.lua", "--dry-run", "--profile", "modelled",
            "--lr-schedule", "linear", "--epochs", epochs, "--batch", batch,
            "--micro-batches", "1" }
         assert.matches("embedded train data of task rte %(3200 examples%)", out)
         return tonumber(out:match("then linear to 0 at step (%d+)\n"))
      end
      assert.equal(458, last_step("1", "7")) -- 457 of 7, and one example
      assert.equal(229, last_step("0.5", "7"))
      assert.equal(400, last_step("1", "8"))
      assert.equal(800, last_step("2", "8"))
   end)

   it("falls with the root of the step, or over the last tenth", function()
      local slow = rate("1f1b", { "--lr-schedule", "inverse-sqrt", "--lr", "2e-3" })
      assert.near(2e-3, core.engine.rate(slow, 20), 1e-12) -- warm-up is 20 steps
      assert.near(1e-3, core.engine.rate(slow, 80), 1e-12)
      assert.equal("0.002 after 20 steps of warm-up, then by one over the root of the step",
         rates.words(slow))
      local late = rate("1f1b", { "--lr-schedule", "warmup-stable-decay", "--lr", "2e-3" })
      assert.near(2e-3, core.engine.rate(late, 181), 1e-12)
      assert.near(2e-3 * (1 - math.sqrt(0.5)), core.engine.rate(late, 191), 1e-12)
      assert.equal(0, core.engine.rate(late, 200))
      assert.matches("over the last tenth by one less a root to 0 at step 200$", rates.words(late))
   end)

   it("is that of each step, from the first to the last", function()
      files.in_directory(function(dir)
         local _, err, exit = process.ftpipe { "spec/support/resume_run.lua", "--steps", "4",
            "--lr", "0.004", "--warmup", "0", "--out", dir .. "/out" }
         assert.equal(0, exit, err)
         local rates_seen = {}
         for line in io.lines(dir .. "/out/metrics.jsonl") do
            rates_seen[#rates_seen + 1] = tonumber(line:match('"lr": ([^,]+)'))
         end
         for step = 1, 4 do assert.near(0.004 - 0.001 * step, rates_seen[step], 1e-12) end
      end)
   end)

   it("changes in a run that goes on when it is told so", function()
      files.in_directory(function(dir)
         local function run(steps, lr, ...)
            return process.ftpipe { "spec/support/resume_run.lua", "--steps", steps, "--lr", lr,
               "--lr-schedule", "constant", "--warmup", "0", "--out", dir .. "/out", ... }
         end
         local _, err, exit = run("3", "1e-3")
         assert.equal(0, exit, err)
         process.refused(2, "%-%-change%-rate is for a run that goes on, give %-%-resume too",
            { "spec/support/resume_run.lua", "--change-rate", "--out", dir .. "/other" })
         local _, problem = run("6", "4e-3", "--resume")
         assert.matches("%-%-lr was 0.001, is 0.004", problem)
         _, err, exit = run("6", "4e-3", "--resume", "--change-rate")
         assert.equal(0, exit, err)
         _, err, exit = run("8", "4e-3", "--resume") -- those are the run's now
         assert.equal(0, exit, err)
         local seen = {}
         for line in core.sys.read_file(dir .. "/out/metrics.jsonl"):gmatch("[^\n]+") do
            local row = core.json.decode(line, "a row")
            if row.loss then seen[#seen + 1] = ("%d %g"):format(row.step, row.lr) end
         end
         assert.equal("1 0.001, 2 0.001, 3 0.001, 4 0.004, 5 0.004, 6 0.004, 7 0.004, 8 0.004",
            table.concat(seen, ", "))
         local record = core.json.decode(core.sys.read_file(dir .. "/out/run.json"), "run.json")
         assert.equal(0.004, record.flags.lr)
      end)
   end)
end)
