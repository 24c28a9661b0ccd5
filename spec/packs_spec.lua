--- Packed copies of weights that programs share: products read them, with the same results.

local core = require("ftpipe.core")
local decode = require("ftpipe.data.decode")

local ROWS, WIDTH, COLUMNS = 8, 48, 80

--- A program of one product with packs, or none.
local function product(packs)
   local graph = core.graph.new()
   local x, w = graph:input("x", "f32", { ROWS, WIDTH }), graph:param("w", { COLUMNS, WIDTH })
   graph:output("y", graph:add("linear", { x, w }))
   return core.program.new(graph, { packs = packs })
end

local x = core.tensor.zeros({ ROWS, WIDTH }):fill_range(-1, 1 / 256)

local function weight(first)
   return core.tensor.zeros({ COLUMNS, WIDTH }):fill_range(first, 1 / 1024)
end

--- What a program gives for a weight, as a table.
local function run(program, w) return program:run({ w }, { x }).y:totable() end

--- Rows of numbers that are as good as equal.
local function assert_near(wanted, given)
   for i, row in ipairs(wanted) do
      for j, number in ipairs(row) do
         assert.near(number, given[i][j], 1e-5 * math.max(1, math.abs(number)))
      end
   end
end

describe("packed copies that programs share", function()
   it("give what the weights give", function()
      local w = weight(0.25)
      assert_near(run(product(), w), run(product(core.program.packs()), w))
   end)

   it("are made once for each weight, and looked up by which one a run gets", function()
      local packs, a, b = core.program.packs(), weight(0.25), weight(-2)
      local first, second = product(packs), product(packs)
      local of_a, of_b = run(first, a), run(first, b)
      assert.not_same(of_a, of_b)
      a:fill(0) -- too late, where a copy is read
      assert.same(of_b, run(second, b))
      assert.same(run(first, a), run(second, a))
   end)

   it("keep their weights, also freed ones, so that another one is never taken for them", function()
      for _, frees in ipairs { false, true } do
         local packs = core.program.packs()
         local with, plain = product(packs), product()
         for i = 1, 40 do
            local w = weight(i)
            assert_near(run(plain, w), run(with, w))
            if frees then w:free() end
            w = nil -- luacheck: ignore
            collectgarbage()
         end
      end
   end)

   it("are refused where they are something else", function()
      assert.fails_with(function() product(7) end,
         "option 'packs': expected those of program.packs, got number")
   end)

   it("are made for predictions where they have room", function()
      local memory = core.sys.memory
      local params = { w = weight(1) } -- 15,360 bytes
      core.sys.memory = function() return 4 * 15360 - 1 end
      local none = decode.packs(params)
      core.sys.memory = function() return 4 * 15360 end
      local some = decode.packs(params)
      core.sys.memory = memory
      assert.is_nil(none)
      assert.equal("userdata", type(some))
   end)
end)
