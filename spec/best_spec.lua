local best = require("ftpipe.run.best")
local scores = require("ftpipe.run.score")

local METRICS = {
   accuracy = { unit = "%", better = "higher" },
   ["mean error"] = { unit = "points", better = "lower" },
   loss = { unit = "", better = "lower" },
}

local function score(metric, value)
   local row = METRICS[metric]
   return scores.new { metric = metric, value = value, unit = row.unit, better = row.better }
end

--- The steps at which a metric is the best so far, and where patience ends.
local function follow(metric, values, patience)
   local b, steps, over = best.new(patience), {}, nil
   for step, value in ipairs(values) do
      if b:note(step, score(metric, value)) then steps[#steps + 1] = step end
      if not over and b:is_over() then over = step end
   end
   return steps, over, b
end

describe("the best of a run", function()
   it("is the highest, of equals the first", function()
      local steps, over = follow("accuracy", { 50, 60, 60, 55, 61 })
      assert.same({ 1, 2, 5 }, steps)
      assert.is_nil(over)
   end)

   it("is the lowest where the metric says that lower is better, whatever its name", function()
      local steps, over, b = follow("mean error", { 30, 31, 20, 25, 20 }, 2)
      assert.same({ 1, 3 }, steps)
      assert.equal(5, over)
      assert.equal("mean error 20.00 points at step 3", tostring(b))
   end)

   it("never is what is not a number", function()
      assert.same({ 1, 3 }, (follow("accuracy", { 1, 0 / 0, 2 })))
      assert.same({ 2 }, (follow("loss", { 0 / 0, 1 })))
   end)

   it("is not compared with what other data gave", function()
      local b = best.new()
      local function note(step, value, data)
         local x = score("accuracy", value)
         x.data = data
         return b:note(step, x)
      end
      assert.is_true(note(1, 100, "a"))
      assert.is_false(note(2, 90, "a"))
      assert.is_true(note(3, 80, "b"))
      assert.is_false(note(4, 70, "b"))
      assert.is_true(best.new(nil, b:state()):compares { metric = "accuracy", data = "b" })
      assert.is_false(best.new(nil, b:state()):compares { metric = "accuracy", data = "a" })
   end)

   it("is not compared with what another metric gave", function()
      local _, _, b = follow("accuracy", { 50, 60 })
      assert.is_true(b:note(3, score("loss", 70)))
      assert.is_true(b:note(4, score("loss", 65)))
      assert.equal("loss 65.0 at step 4", (tostring(b):gsub("65%.0+", "65.0")))
      assert.is_false(b:note(5, score("loss", 66)))
   end)

   it("is waited for as long as patience says", function()
      local _, over = follow("accuracy", { 50, 40, 51, 50, 49, 48 }, 2)
      assert.equal(5, over)
   end)

   it("goes on from its state", function()
      local _, _, b = follow("accuracy", { 50, 40 }, 3)
      local again = best.new(3, b:state())
      assert.equal("accuracy 50.0 % at step 1", tostring(again))
      again:note(3, score("accuracy", 45))
      assert.is_false(again:is_over())
      again:note(4, score("accuracy", 50))
      assert.is_true(again:is_over())
      assert.equal(1, again:step())
   end)
end)
