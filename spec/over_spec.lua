--- What is said of plans that are over their budgets.

local over = require("ftpipe.placement.over")

local function graph_of(dims) return { params = function() return { { dims = dims } } end } end

describe("what is over a budget", function()
   it("is the most that a device needs beside it; a budget of 0 is none", function()
      local bytes, device = over.worst { { total = 12, budget = 10 }, { total = 25, budget = 20 },
         { total = 99, budget = 0 }, { total = 5, budget = 5 } }
      assert.same({ 5, 2 }, { bytes, device })
      assert.same({ 0 }, { over.worst { { total = 5, budget = 5 } } })
   end)

   it("is hopeless where all devices together have less", function()
      local memory = { { budget = 30 }, { budget = 12 } }
      assert.is_false((over.is_hopeless(memory, { bytes = 42 })))
      assert.is_true((over.is_hopeless(memory, { bytes = 43 })))
      memory[3] = { budget = 0 }
      assert.is_false((over.is_hopeless(memory, { bytes = 1e9 })))
   end)

   it("is at least what training keeps of each parameter once", function()
      local plan = { graphs = { graph_of { 2 }, graph_of { 4, 5 } },
         memory = { { gradients = 80, optimizer = 100 }, { gradients = 80, optimizer = 60 } } }
      assert.same({ parameters = 20, bytes_each = 4 + 4 + 8, bytes = 320 }, over.least(plan))
      plan.memory = { { gradients = 20, optimizer = 40 } } -- a quarter is trained
      assert.same({ parameters = 20, bytes_each = 4 + 1 + 2, bytes = 140 }, over.least(plan))
   end)
end)
