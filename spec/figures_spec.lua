--- The figures of a run are what happened, and agree wherever they are shown.

local core = require("ftpipe.core")
local figures = require("ftpipe.store.figures")
local files = require("spec.support.files")
local keys = require("ftpipe.base.keys")
local process = require("spec.support.process")

local BATCH = 4

--- Runs the recipe: summary, rows of steps, rows of evaluations, stderr.
local function run(dir, ...)
   local _, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--out", dir, "--batch",
      tostring(BATCH), "--micro-batches", "2", "--profile", "modelled", ... }
   assert.equal(0, exit, err)
   local steps, evaluations, legs = {}, {}, {}
   for line in core.sys.read_file(dir .. "/metrics.jsonl"):gmatch("[^\n]+") do
      local row = core.json.decode(line)
      local list = row.eval_loss and evaluations or row.leg_steps and legs or steps
      list[#list + 1] = row
   end
   return core.json.read(dir .. "/summary.json"), steps, evaluations, err
end

local function sum(rows, key)
   local total = 0
   for _, row in ipairs(rows) do total = total + row[key] end
   return total
end

--- The numbers of a summary are those of figures.NUMBERS but these.
local function assert_numbers(summary, but)
   local numbers, listed = {}, {}
   for _, key in ipairs(keys(summary)) do
      numbers[#numbers + 1] = type(summary[key]) == "number" and key or nil
   end
   for _, name in ipairs(figures.NUMBERS) do
      listed[#listed + 1] = not name:find(but) and name or nil
   end
   assert.same(listed, numbers)
end

describe("the running mean of losses", function()
   it("weighs each 0.9 of the one after it, the first as well", function()
      assert.is_nil(figures.mean {})
      assert.equal(3, figures.mean { 3 })
      assert.near((0.9 * 3 + 1) / 1.9, figures.mean { 3, 1 }, 1e-12)
      assert.near((0.81 * 3 + 0.9 * 1 + 2) / 2.71, figures.mean { 3, 1, 2 }, 1e-12)
      local losses = { 1000 }
      for i = 2, 100 do losses[i] = 1 end
      assert.near(1 + 999 * 0.9 ^ 99 * 0.1 / (1 - 0.9 ^ 100), figures.mean(losses), 1e-9)
   end)
end)

describe("the figures of a run", function()
   if core.sanitized then
      return it("are slow", function() pending("takes minutes under sanitizers") end)
   end

   it("agree in the rows, on the line and in the summary", function()
      files.in_directory(function(dir)
         local summary, steps, _, err = run(dir .. "/run", "--steps", "4")
         local last = steps[4]
         assert.equal(steps[1].loss, summary.loss_first)
         assert.equal(last.loss, summary.loss_last)
         assert.equal(last.loss_mean, summary.loss_mean)
         assert.near(figures.mean { steps[1].loss, steps[2].loss, steps[3].loss, last.loss },
            summary.loss_mean, 1e-12)
         local shown = ("step=4 of=4 loss=%.4f loss_mean=%.4f lr=%.3e samples_per_second=%.1f ")
            :format(last.loss, last.loss_mean, last.lr, last.samples_per_second)
         assert.is_not_nil(err:find(shown, 1, true), shown .. "\nin\n" .. err)
         assert.near(sum(steps, "tokens") / summary.seconds, summary.tokens_per_second, 1e-6)
      end)
   end)

   it("are in every row", function()
      files.in_directory(function(dir)
         local _, steps, evaluations = run(dir .. "/run", "--steps", "3")
         local before = 0
         for i, row in ipairs(steps) do
            assert.is_true(row.time >= before and row.time <= core.sys.unix_time())
            before = row.time
            assert.near(i * steps[1].epoch, row.epoch, 1e-12)
            assert.is_true(row.gnorm > 0 and row.tokens > 0)
            assert.near(row.tokens, row.tokens_per_second * row.step_s, 1e-6)
            for d = 1, 2 do
               assert.is_true(row.idle_percent[d] >= 0 and row.idle_percent[d] <= 100)
               assert.is_true(row.memory_bytes[d] > 0)
            end
         end
         assert.is_true(evaluations[1].eval_s > 0)
      end)
   end)

   it("count examples by their tokens, without padding", function()
      files.in_directory(function(dir)
         local rows = {}
         for i = 1, 2 * BATCH do -- as many as two batches, each example once
            rows[i] = core.json.encode {
               premise = ("Anna has a kite. "):rep(1 + i % 3), hypothesis = "Anna has it.",
               label = "entailment",
            }
         end
         local file = dir .. "/rows.jsonl"
         core.sys.write_file(file, table.concat(rows, "\n") .. "\n")
         local _, steps = run(dir .. "/run", "--steps", "2", "--train-file", file, "--eval-file",
            file)
         local tokenizer = require("ftpipe.model").open({ model = "embedded:t5_tiny" }):tokenizer()
         local data = require("ftpipe.task").rte {}:load {
            train_file = file, eval_file = file, tokenizer = tokenizer,
         }
         local dataset, ids = data.train.dataset, 0
         for i = 1, 2 * BATCH do
            ids = ids + #dataset:get(i, "source") + #dataset:get(i, "target")
         end
         assert.equal(ids, sum(steps, "tokens"))
      end)
   end)

   it("of speed are of training alone", function()
      files.in_directory(function(dir)
         local summary, steps, evaluations = run(dir .. "/run", "--steps", "6", "--eval-every", "1")
         local first, last = steps[1], steps[6]
         local judged = sum(evaluations, "eval_s") - evaluations[1].eval_s
            - evaluations[#evaluations].eval_s
         assert.is_true(judged > 0)
         -- From the end of the first step to that of the last are five steps and five evaluations.
         local most = last.time - first.time + first.step_s - judged / 2
         assert.is_true(summary.seconds < most, summary.seconds .. " of " .. most)
         assert.is_true(last.samples_per_second > 6 * BATCH / most)
         assert.near(6 * BATCH / summary.seconds, summary.samples_per_second, 1e-9)
         assert_numbers(summary, "^step_seconds") -- of longer runs
      end)
   end)

   it("go on when a run does, and say the warm-up that was used", function()
      files.in_directory(function(dir)
         local flags = { "--warmup", "200", "--lr", "1e-3" }
         local whole, wanted = run(dir .. "/whole", "--steps", "20", unpack(flags))
         run(dir .. "/cut", "--steps", "20", "--save-every", "8", unpack(flags))
         files.remove(dir .. "/cut/checkpoints/latest")
         core.io.link(dir .. "/cut/checkpoints/latest", "step-16")
         local summary, steps = run(dir .. "/cut", "--steps", "20", "--resume", unpack(flags))
         for i, row in ipairs(wanted) do
            for _, key in ipairs { "loss", "loss_mean", "tokens", "epoch", "lr" } do
               assert.equal(row[key], steps[i][key], key)
            end
         end
         assert.equal(whole.loss_mean, summary.loss_mean)
         assert_numbers(whole, "^best_") -- of runs that are evaluated
         assert.near(whole.tokens_per_second * whole.seconds,
            summary.tokens_per_second * summary.seconds, 1e-6)
         assert.equal(2, core.json.read(dir .. "/whole/run.json").flags.warmup)
      end)
   end)
end)
