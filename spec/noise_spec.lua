--- Draws of profiles that are off, of subjects whose times are closed forms of their factors.

local noise = require("ftpipe.planner.noise")

local SCOPES = { "net/a", "net/b", "net/c" }

--- A subject of nodes { scope, stage, forward_ns, backward_ns }; `seconds_of` gives its time from
-- the factors of its stages. What factors it was asked for is in .asked.
local function subject_of(nodes, n_stages, seconds_of)
   local subject = {
      graph = { nodes = {} }, result = { stage = {} }, stages = {}, asked = {},
      steady = function(self, factors)
         self.asked[#self.asked + 1] = factors
         return seconds_of(factors)
      end,
   }
   for s = 1, n_stages do subject.stages[s] = {} end
   for i, node in ipairs(nodes) do
      subject.graph.nodes[i] = { scope = node[1], forward_ns = node[3], backward_ns = node[4] }
      subject.result.stage[i] = node[2]
   end
   return subject
end

--- One node, whose factor is the time.
local function single(scope)
   return subject_of({ { scope, 1, 1, 1 } }, 1, function(factors) return factors[1] end)
end

describe("a draw", function()
   it("makes every block longer or shorter by up to the share", function()
      local least, most, sum, n = math.huge, 0, 0, 400
      for number = 1, n do
         local factor = noise.seconds({ single("net/a") }, number)[1]
         least, most, sum = math.min(least, factor), math.max(most, factor), sum + factor
      end
      assert.is_true(least >= 0.95 and least < 0.951, least)
      assert.is_true(most <= 1.05 and most > 1.049, most)
      -- uniform: the deviation of the mean is 0.1 / sqrt(12 * 400) = 0.0014
      assert.near(1, sum / n, 5 * 0.0014)
   end)

   it("is its own, and alike in all plans", function()
      local seen = {}
      for number = 1, 50 do
         local x, y = unpack(noise.seconds({ single("net/a"), single("net/b") }, number))
         assert.equal(x, y) -- the first block of either
         assert.is_nil(seen[x])
         seen[x] = true
      end
   end)

   it("weighs the blocks of a stage by their forward and backward together", function()
      local subject = subject_of({
         { SCOPES[1], 1, 1, 1 }, { SCOPES[2], 2, 1, 1 }, { SCOPES[3], 3, 1, 1 },
         { SCOPES[1] .. "/x", 4, 1, 5 }, { SCOPES[2] .. "/y", 4, 2, 0 }, { SCOPES[3], 5, 0, 4 },
      }, 6, function() return 0 end)
      for number = 1, 5 do noise.seconds({ subject }, number) end
      for _, factors in ipairs(subject.asked) do
         local a, b, c = factors[1], factors[2], factors[3]
         assert.is_true(a ~= b and b ~= c)
         assert.near((6 * a + 2 * b) / 8, factors[4], 1e-12)
         assert.equal(c, factors[5])
         assert.equal(1, factors[6]) -- nothing is in that stage
      end
   end)
end)

describe("what draws say of plans", function()
   it("is how often each is the fastest, of equals the first", function()
      local function alike() return single("net/a") end
      local result = noise.judge { alike(), alike(), alike() }
      assert.same({ noise.DRAWS, 0, 0 }, { result[1].wins, result[2].wins, result[3].wins })
      -- the second takes the time of two blocks of which the other one takes one
      local function second(factors) return factors[2] end
      local function nodes() return { { SCOPES[1], 1, 1, 0 }, { SCOPES[2], 2, 1, 0 } } end
      local function first(factors) return factors[1] end
      result = noise.judge { subject_of(nodes(), 2, first), subject_of(nodes(), 2, second) }
      local wins = 0
      for number = 1, noise.DRAWS do
         local x, y = unpack(noise.seconds({ subject_of(nodes(), 2, first),
            subject_of(nodes(), 2, second) }, number))
         wins = wins + (x <= y and 1 or 0)
      end
      assert.equal(wins, result[1].wins)
      assert.equal(noise.DRAWS - wins, result[2].wins)
      assert.is_true(wins > 0 and wins < noise.DRAWS)
      assert.same({}, noise.judge {})
   end)

   it("includes a draw that takes longer than everything at its longest", function()
      local calm = noise.judge { single("net/a") }[1]
      assert.near(1.05, calm.worst_seconds, 1e-12)
      local odd = subject_of({ { SCOPES[1], 1, 1, 1 } }, 1, function(factors)
         return factors[1] < 1 and 10 - factors[1] or factors[1] -- longer where work is shorter
      end)
      local worst = noise.judge({ odd })[1].worst_seconds
      assert.is_true(worst > 9 and worst <= 9.05, worst)
   end)

   it("asks of those alone that some profile makes the fastest", function()
      -- one that takes r times as long wins at most when it is 5 % shorter and the other 5 % longer
      local best = { seconds = 3 }
      for _, r in ipairs { 1, 1.05, 1.1, 1.105, 1.106, 1.11, 2 } do
         assert.equal(0.95 * r * 3 < 1.05 * 3, r * 3 < noise.out_of_reach(best), r)
      end
   end)
end)
