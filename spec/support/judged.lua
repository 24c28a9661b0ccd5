--- A run of spec/support/pipeline.lua beside one that computes the same.

local assert = require("luassert")

--- Asserts that a run has the bits of its judge, and held no more memory than was planned.
-- @tparam table judge as pipeline.train gives it
-- @tparam table run likewise
return function(judge, run)
   assert.same(judge.losses, run.losses)
   assert.same(judge.params, run.params)
   for d, planned in ipairs(run.plan.memory) do
      assert.is_true(run.measured[d].total <= planned.total)
   end
end
