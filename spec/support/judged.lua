--- A run of spec/support/pipeline.lua beside one that computes the same.

local assert = require("luassert")

--- Asserts that a run has the bits of its judge, and held no more memory than was planned.
-- @tparam table judge as pipeline.train gives it
-- @tparam table run likewise
-- @tparam[opt] number near its losses may be so far off instead, as a share
return function(judge, run, near)
   for i, loss in ipairs(near and judge.losses or {}) do
      assert.is_true(math.abs(run.losses[i] - loss) <= near * loss)
   end
   if not near then
      assert.same(judge.losses, run.losses)
      assert.same(judge.params, run.params)
   end
   for d, planned in ipairs(run.plan.memory) do
      assert.is_true(run.measured[d].total <= planned.total)
   end
end
