--- What a run may not change when it goes on: everything that decides its numbers, by the name of
-- its flag, and nothing else.

local files = require("spec.support.files")
local named = require("ftpipe.base.named")
local numbers = require("ftpipe.store.numbers")

--- A run as far as its numbers need it; `change` changes it.
local function run_of(change)
   local run = {
      task = { name = "rte" }, model = { raw = { d_model = 64 } },
      data = { train = { dataset = { pack = function(self) return self.packed end,
         packed = "rows" } } },
      plan = { groups = {}, options = {
         batch = 8, micro_batches = 2, buckets = { 32 }, lengths = { target = 4 }, seed = 1,
         dropout = 0.1, optimizer = "adamw", hypers = { weight_decay = 0 }, decay_exempt = "none",
         clip = 1, synchronous = true,
      } },
      rate = { peak = 1e-3, schedule = "linear", warmup = 10, steps = 100 },
      args = named.flags { precision = "f32" },
   }
   if change then change(run, run.plan.options) end
   return run
end

--- What is said of a change by a run that is past a step; nil when it may be.
local function said(change, step)
   local record = numbers.of(run_of())
   local ok = pcall(numbers.check, run_of(change), record, step or 50, "dir")
   return not ok and files.failure(numbers.check, run_of(change), record, step or 50, "dir").message
      or nil
end

describe("what decides the numbers of a run", function()
   it("stays when nothing of it changes", function()
      assert.is_nil(said(nil))
      assert.is_nil(said(function(run) run.out, run.plan.options.devices = "x", "cpu:4" end))
   end)

   local changes = {
      { "the task was rte, is boolq", function(run) run.task.name = "boolq" end },
      { "config.json of %-%-model differs", function(run) run.model.raw.d_model = 65 end },
      { "the training examples .- differs",
         function(run) run.data.train.dataset.packed = "others" end },
      { "%-%-batch was 8, is 16", function(_, o) o.batch = 16 end },
      { "%-%-micro%-batches was 2, is 4", function(_, o) o.micro_batches = 4 end },
      { "lengths of the padded batches .- was 32; target 4, is 48; target 4",
         function(_, o) o.buckets = { 48 } end },
      { "%-%-seed was 1, is 2", function(_, o) o.seed = 2 end },
      { "%-%-dropout was 0.1, is 0.2", function(_, o) o.dropout = 0.2 end },
      { "%-%-optimizer was adamw, is sgd", function(_, o) o.optimizer = "sgd" end },
      { "%-%-weight%-decay was weight_decay 0, is weight_decay 1",
         function(_, o) o.hypers = { weight_decay = 1 } end },
      { "%-%-decay%-exempt was none, is vectors", function(_, o) o.decay_exempt = "vectors" end },
      { "%-%-clip was 1, is 2", function(_, o) o.clip = 2 end },
      { "%-%-lr was 0.001, is 0.002", function(run) run.rate.peak = 2e-3 end },
      { "%-%-lr%-schedule was linear, is cosine", function(run) run.rate.schedule = "cosine" end },
      { "%-%-steps, .- was 100, is 200", function(run) run.rate.steps = 200 end },
      { "%-%-precision was f32, is bf16", function(run) run.args.precision = "bf16" end },
      { "%-%-schedule was synchronous, is async", function(run, o)
         o.synchronous = false
         run.plan.partition, run.plan.recompute = { stage = { 1 } }, { false }
         run.plan.blueprint = { stages = function() return { { device = 1, ahead = 0 } } end }
      end },
   }
   for _, row in ipairs(changes) do
      it("is told: " .. row[1]:gsub("%%", ""), function()
         local message = said(row[2])
         assert.is_string(message)
         local of_rate = row[1]:find("lr", 1, true) or row[1]:find("steps", 1, true)
         local of_schedule = row[1]:find("schedule was synchronous", 1, true)
         local hint = of_rate and "; %-%-change%-rate goes on with another rate"
            or of_schedule and "; %-%-change%-schedule goes on with another schedule" or ""
         assert.matches("^%-%-resume: dir was made with other arguments: " .. row[1] .. hint .. "$",
            message)
      end)
   end

   it("has no weight decay where none was told", function()
      local function untold(_, o) o.hypers = {} end
      local record = numbers.of(run_of(untold))
      numbers.check(run_of(), record, 50, "dir")
      local function decays(_, o) o.hypers = { weight_decay = 0.1 } end
      assert.matches("%-%-weight%-decay was , is weight_decay 0.1",
         files.failure(numbers.check, run_of(decays), record, 50, "dir").message)
   end)

   it("has its warm-up as long as it lasts, and where the rate goes on from it", function()
      local function with(warmup) return function(run) run.rate.warmup = warmup end end
      for _, row in ipairs { { 20, 5 }, { 20, 15 }, { 20, 19 }, { 0, 9 }, { 5, 7 } } do
         assert.matches("%-%-warmup %(at most a tenth of %-%-steps%) was 10, is " .. row[1] .. "; ",
            said(with(row[1]), row[2]))
      end
      for _, row in ipairs { { 20, 20 }, { 20, 50 }, { 0, 10 }, { 5, 10 } } do
         local function stays(run) run.rate.schedule = "constant" end
         local function change(run)
            stays(run)
            run.rate.warmup = row[1]
         end
         local record = numbers.of(run_of(stays))
         numbers.check(run_of(change), record, row[2], "dir")
         assert.is_string(said(with(row[1]), row[2])) -- that of a linear rate
      end
   end)

   it("has no schedule when that is to change", function()
      local function change(run, o)
         o.synchronous = false
         run.plan.partition, run.plan.recompute = { stage = { 1 } }, { false }
         run.plan.blueprint = { stages = function() return { { device = 1, ahead = 0 } } end }
         run.args.change_schedule = true
      end
      assert.is_nil(said(change))
      assert.matches("arguments: %-%-seed was 1, is 2$", said(function(run, o)
         change(run, o)
         o.seed = 2
      end))
   end)

   it("has no rates when these are to change", function()
      local function change(run)
         run.rate = { peak = 1, schedule = "inverse-sqrt", warmup = 3, steps = 7 }
         run.plan.groups = { rates = "a: rate 2" }
         run.plan.options.layer_decay = 0.5
      end
      for _, word in ipairs { "lr was", "lr%-schedule", "warmup", "rates of %-%-groups",
         "layer%-decay" } do
         assert.matches(word, said(change))
      end
      assert.is_nil(said(function(run)
         change(run)
         run.args.change_rate = true
      end))
      assert.matches("arguments: %-%-groups, .* was not given, is b: frozen$", said(function(run)
         change(run)
         run.args.change_rate, run.plan.groups.others = true, "b: frozen"
      end))
   end)
end)
