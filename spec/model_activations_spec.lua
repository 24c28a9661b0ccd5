--- Activations by their names in transformers, against what it computes
-- (tools/make_golden_activations.py).

local activations = require("ftpipe.model.activations")
local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- totable()

local golden = core.json.read("spec/golden/activations.json")

--- Values of an activation, and slopes.
local function computed(name, points)
   local found = activations.of("hidden_act", name)
   local g, n = core.graph.new(), #points
   local x, weight = g:param("x", { n, 1 }), g:param("one", { 1, 1 })
   local y = g:add("linear", { x, weight }, { activation = found.fused })
   if found.row then y = g:add(found.row, { y }) end
   g:output("y", y)
   g:output("loss", g:add("sum", { y }))
   g:grad(g:find("loss"))
   local rows = {}
   for i, point in ipairs(points) do rows[i] = { point } end
   local program = core.program.new(g, { grads = true })
   local out = program:run({ core.tensor.from_table(rows), core.tensor.from_table { { 1 } } }, {})
   return out.y, program:grad(1)
end

describe("an activation", function()
   for name, row in pairs(golden.rows) do
      it("is what transformers computes by that name, " .. name, function()
         local y, slope = computed(name, golden.points)
         for i, point in ipairs(golden.points) do
            local where = ("%s(%g)"):format(name, point)
            local value, wanted = y:get(i, 1), row.values[i]
            assert.is_true(math.abs(value - wanted) <= 2e-6 * (math.abs(wanted) + 1), where)
            value, wanted = slope:get(i, 1), row.slopes[i]
            assert.is_true(math.abs(value - wanted) <= 4e-6 * (math.abs(wanted) + 1), where)
         end
      end)
   end
end)
