--- The training loop by itself: on an engine that computes nothing, by a clock that is set.

local core = require("ftpipe.core")
local feed = require("ftpipe.data.feed")
local forecast = require("ftpipe.run.forecast")
local training = require("ftpipe.run.training")

local GIGA = 1e9

--- Calls f with other functions in place of some.
local function with(places, f)
   local kept = {}
   for i, place in ipairs(places) do
      kept[i] = place[1][place[2]]
      place[1][place[2]] = place[3]
   end
   local ok, problem = pcall(f)
   for i, place in ipairs(places) do place[1][place[2]] = kept[i] end
   if not ok then error(problem, 0) end
end

--- A run, and what happened in it: words in their order. A step ends `step_s` after the one before
-- it; three batches are under way at once.
local function a_run(options)
   local t = { now = 5, did = {}, said = {}, asks = {}, step_s = 1, batch = 0, rates = {},
      factors = {} }
   local function did(...)
      local word = string.format(...)
      if word ~= "drain" or t.did[#t.did] ~= word then table.insert(t.did, word) end -- no matter
   end
   local fed, taken, first, began = 0, 0, 0, 0
   local engine = {
      begin = function(_, n, step)
         fed, taken, first, began = 0, 0, step, t.now
         did("begin %d at %d", n, step)
      end,
      wants = function() return fed - taken < 3 end,
      feed = function(_, _, _, rate, factor)
         fed, t.rates[#t.rates + 1], t.factors[#t.factors + 1] = fed + 1, rate, factor
      end,
      drain = function() did("drain") end,
      busy = function() return { (t.now - began) * GIGA / 4, (t.now - began) * GIGA } end,
      measured = function() return { { total = 70 }, { total = 90 } } end,
      remarks = function() return {} end,
      finish = function()
         local ns = (t.now - began) * GIGA
         local waits = { edges = {} }
         for _, kind in ipairs { "data", "slots", "batches", "copies", "replicas", "between",
            "over" } do waits[kind] = kind == "data" and ns / 2 or 0 end
         return {
            end_ns = ns, busy_ns = { ns / 2 }, waits = { waits }, sent = { { forward = 10 } },
            copies = { {} }, trace = "the trace",
         }
      end,
   }
   t.run = setmetatable({
      engine = engine, threaded = true, rate = {}, inputs = {},
      model = { family = { losses = {} } },
      plan = {
         options = options, blueprint = { stages = function() return {} end }, devices = {},
      },
      args = options, data = { train = {}, eval = true }, task = {},
      best = { step = function() end },
      watch = {
         saw = function(_, seconds) t.saw = seconds end,
         next = function()
            if t.fails then core.fail("device failed", "on fire") end
            t.now, taken = t.now + t.step_s, taken + 1
            return { step = first + taken - 1, loss = first + taken - 1,
               end_ns = (t.now - began) * GIGA }
         end,
      },
      losses = {}, done = 0, seconds = 0, tokens = 0,
      say = function(_, text) table.insert(t.said, text) end,
      judge = function(run)
         did("judge after %d", run.done)
         run.judged = run.done
      end,
      checkpoint = function(run)
         did("checkpoint after %d", run.done)
         return "the checkpoint"
      end,
      publish = function() did("publish") end,
      take_best = function() did("take best") end,
   }, { __index = training })
   t.batches = {
      next = function()
         t.batch = t.batch + 1
         return { tokens = 10 * t.batch }
      end,
      seek = function(_, step) did("seek %d", step) end,
   }
   t.call = function(f)
      with({
         { core.sys, "time_ns", function() return t.now * GIGA end },
         { core.sys, "interrupted", function() return t.signal end },
         { core.sys, "hold_interrupt", function() end },
         { core.sys, "asked", function(what)
            local asked = t.asks[what]
            t.asks[what] = nil
            return asked
         end },
         { core.engine, "rate", function(_, step) return step / 10 end },
         { feed, "batches", function() return t.batches end },
      }, f)
   end
   return t
end

local OPTIONS = { batch = 8, micro_batches = 2, steps = 7, batches = 7, clip = 0 }

local function options(more)
   local o = {}
   for key, value in pairs(OPTIONS) do o[key] = value end
   for key, value in pairs(more or {}) do o[key] = value end
   return o
end

--- Trains to the end; `at` is called behind each step.
local function train(t, at)
   t.call(function()
      for step in t.run:train() do
         if at then at(step) end
      end
   end)
   return t.did
end

describe("a step", function()
   it("has figures of its own batch, and of its own time", function()
      local t, found = a_run(options()), {}
      t.call(function()
         for step in t.run:steps(t.batches, 4) do
            found[#found + 1] = { step.step, step.tokens, step.seconds, step.samples_per_second,
               step.idle[1], step.idle[2], step.memory[2] }
            assert.equal(t.saw, step.seconds)
            t.step_s = 2 * t.step_s
         end
      end)
      assert.same({
         { 1, 10, 1, 8, 75, 0, 90 },
         { 2, 20, 2, 16 / 3, 75, 0, 90 },
         { 3, 30, 4, 24 / 7, 75, 0, 90 },
         { 4, 40, 8, 32 / 15, 75, 0, 90 },
      }, found)
      assert.equal(100, t.run.tokens)
      assert.same({ 0.1, 0.2, 0.3, 0.4 }, t.rates)
      assert.same({ 1, 2, 3, 4 }, t.run.losses)
   end)

   it("is as fast as the training so far, without what was between legs", function()
      local t = a_run(options())
      t.call(function()
         for _ = 1, 2 do
            for _ in t.run:steps(t.batches, 2) do t.last = t.run.seconds end
            t.now = t.now + 100
         end
         assert.equal(4, t.run.seconds)
         for step in t.run:steps(t.batches, 1) do assert.equal(8, step.samples_per_second) end
      end)
      assert.equal(5, t.run.seconds)
      assert.equal(5 * GIGA, t.run.waits[1].ns)
      assert.equal(2.5 * GIGA, t.run.waits[1].data)
      assert.equal(5, t.run.copies.batches)
      assert.same({ { forward = 30 } }, t.run.copies.sent)
   end)
end)

describe("a step whose losses are scaled", function()
   it("waits for what the one before it has found", function()
      local t, found = a_run(options()), {}
      t.run.scaling = { factor = 4, saw = function(self) self.factor = 2 * self.factor end }
      t.call(function()
         for step in t.run:steps(t.batches, 3) do found[#found + 1] = step.loss_scale end
      end)
      assert.same({ 4, 8, 16 }, found)
      assert.same({ 4, 8, 16 }, t.factors)
   end)
end)

describe("a leg that is left", function()
   it("ends with what was fed", function()
      local t = a_run(options())
      t.call(function()
         t.run:steps(t.batches, 7)()
         t.run:stop()
         t.run:stop() -- there is none any more
      end)
      assert.same({ "begin 7 at 1", "drain" }, t.did)
      assert.equal(3, t.run.done)
      assert.is_nil(t.run.leg)
   end)

   it("takes nothing more where the step has failed", function()
      local t = a_run(options())
      t.call(function()
         local step = t.run:steps(t.batches, 7)
         step()
         t.fails = true
         assert.is_false((pcall(step)))
         t.fails = nil
         t.run:stop()
      end)
      assert.same({ "begin 7 at 1" }, t.did)
      assert.equal(1, t.run.done)
   end)
end)

describe("steps outside training", function()
   it("are not asked to save or to trace", function()
      local t = a_run(options())
      t.call(function()
         t.asks.save, t.asks.trace = true, true
         for _ in t.run:steps(t.batches, 4) do t.last = true end
      end)
      assert.same({ "begin 4 at 1" }, t.did)
      assert.is_true(t.asks.save and t.asks.trace)
   end)
end)

describe("training", function()
   it("evaluates and saves between its legs, each once", function()
      local t = a_run(options { eval_every = 2, save_every = 3 })
      assert.same({
         "begin 2 at 1", "judge after 2", "begin 1 at 3", "checkpoint after 3", "begin 1 at 4",
         "judge after 4", "begin 2 at 5", "judge after 6", "checkpoint after 6", "begin 1 at 7",
         "judge after 7", "checkpoint after 7", "take best",
      }, train(t))
   end)

   it("goes on behind its steps, whose evaluation is made already", function()
      local t = a_run(options { eval_every = 4 })
      t.run.done, t.run.judged = 4, 4
      assert.same({ "seek 5", "begin 3 at 5", "judge after 7", "checkpoint after 7", "take best" },
         train(t))
   end)

   it("ends what another loop has left", function()
      local t = a_run(options { steps = 4 })
      t.call(function() t.run:steps(t.batches, 2)() end)
      assert.same({ "begin 2 at 1", "drain", "seek 3", "begin 2 at 3", "checkpoint after 4",
         "take best" }, train(t))
   end)

   it("saves when it is asked to, once", function()
      local t = a_run(options())
      assert.same({ "begin 7 at 1", "drain", "checkpoint after 4", "begin 3 at 5",
         "checkpoint after 7", "take best" }, train(t, function(step)
         t.asks.save = step.step == 1
      end))
      assert.equal("saved the checkpoint, the run goes on", t.said[1])
   end)

   it("traces ten steps when it is asked to, once", function()
      local t, offered = a_run(options { steps = 40, batches = 40 }), {}
      t.run.directory, t.run.out = {
         note = function() end,
         offer = function(_, name) table.insert(offered, name) return true end,
      }, "out"
      t.run.data.train.dataset = { size = function() return 80 end }
      assert.same({ "begin 40 at 1", "drain", "begin 10 at 5", "begin 26 at 15",
         "checkpoint after 40", "take best" }, train(t, function(step)
         t.asks.trace = step.step == 1
      end))
      assert.same({ "timeline.json", "timeline.json", "trace-5-14.json", "timeline.json" }, offered)
      assert.equal("traced 10 steps in out/trace-5-14.json", t.said[1])
   end)

   it("ends at a signal with what was fed, and says how", function()
      for signal, code in pairs { [2] = 130, [15] = 75 } do
         local t = a_run(options { eval_every = 5 })
         t.run.directory = { note = function() end, offer = function() end, log = function() end }
         t.run.data.train.dataset = { size = function() return 80 end }
         local ok, problem = pcall(train, t, function(step)
            if step.step == 2 then t.signal = signal end
         end)
         assert.is_false(ok)
         assert.equal("cancelled", problem.status)
         assert.equal(code, problem.exit)
         assert.same({ "begin 5 at 1", "drain", "checkpoint after 5", "publish" }, t.did)
      end
   end)

   it("leaves the model of the best evaluation, and saves once, at a signal in another", function()
      local t = a_run(options { eval_every = 2, save_every = 2 })
      local judge = t.run.judge
      t.run.directory = { note = function() end, offer = function() end, log = function() end }
      t.run.data.train.dataset = { size = function() return 80 end }
      t.run.best = { step = function() return 2 end }
      t.run.judge = function(run)
         judge(run)
         if run.done == 4 then run.interrupted = 2 end
      end
      assert.is_false((pcall(train, t)))
      assert.same({ "begin 2 at 1", "judge after 2", "checkpoint after 2", "begin 2 at 3",
         "judge after 4", "checkpoint after 4" }, t.did)
   end)

   it("is predicted for its first leg", function()
      local asked
      local t = a_run(options { batches = 3, steps = 7 })
      with({ { forecast, "new", function(_, batches)
         asked = batches
         return { note = function() end, leg_ended = function() table.insert(t.did, "ended") end }
      end } }, function() train(t) end)
      assert.equal(3, asked)
      assert.same({ "begin 3 at 1", "ended", "begin 3 at 4", "ended", "begin 1 at 7", "ended",
         "checkpoint after 7", "take best" }, t.did)
   end)
end)
