local core = require("ftpipe.core")
local tensor = require("ftpipe.base.tensor")

local function values(t)
   return t:totable()
end

describe("tensor", function()
   it("prints nan without a sign, which says nothing", function()
      for _, nan in ipairs { 0 / 0, -(0 / 0) } do
         assert.matches("\nnan$", tostring(tensor(nan)))
         assert.matches("\n%[nan, +1%]$", tostring(tensor({ nan, 1 }):to("bf16")))
      end
   end)

   it("is made from nested tables, and goes back", function()
      for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "u8" } do
         local t = tensor({ { 1, 2, 3 }, { 4, 5, 6 } }, dtype)
         assert.equal(dtype, t:dtype())
         assert.same({ 2, 3 }, t:shape())
         assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, values(t))
      end
      assert.same({ true, false }, values(tensor({ true, false }, "bool")))
      assert.equal(5, tensor(5):get())
   end)

   it("refuses tables with holes and with keys of other kinds", function()
      for _, t in ipairs { { 1, [3] = 3 }, { 1, 2, x = 3 }, { 1, [0] = 2 }, { 1, [1.5] = 2 } } do
         assert.fails_with(function() return tensor(t) end, "expected 1 to %d, no hole")
      end
   end)

   it("refuses ragged tables and numbers that the dtype does not hold", function()
      assert.fails_with(function() return tensor { { 1, 2 }, { 3 } } end, "ft.tensor: ragged")
      for _, other in ipairs { "x", {}, true } do
         local words = "expected a tensor or a number, got a " .. type(other)
         assert.fails_with(function() return tensor { 1 } + other end, words)
         assert.fails_with(function() return other * tensor { 1 } end, words)
      end
      assert.fails_with(function() return tensor { 1, "a" } end, "bad argument #1 %(elements of")
      assert.fails_with(function() tensor { { 1, 2 }, 3 } end, "expected a table of 2")
      assert.fails_with(function() tensor({ 1.5 }, "i32") end, "1%.5 is no value of i32")
      assert.fails_with(function() tensor({ 256 }, "u8") end, "256 is no value of u8")
      assert.fails_with(function() tensor({ "1" }) end, "got string")
      assert.fails_with(function() tensor({ 1 }, "f99") end, "f99.*f32, f64")
      assert.fails_with(function() tensor.zeros { 2 ^ 31, 2 ^ 31, 2 ^ 31 } end, "tensor_spec")
   end)

   it("has constructors", function()
      assert.same({ 0, 0 }, values(tensor.zeros { 2 }))
      assert.same({ { 1, 1 } }, values(tensor.ones { 1, 2 }))
      assert.same({ 7, 7 }, values(tensor.full({ 2 }, 7, "i64")))
      assert.same({ 0, 1, 2 }, values(tensor.arange(3)))
      assert.same({ 1, 3, 5 }, values(tensor.arange(1, 6, 2)))
      assert.same({}, values(tensor.arange(0)))
      local a, b = tensor.randn({ 100 }, 3), tensor.randn({ 100 }, 3)
      assert.is_true(a == b)
      assert.is_false(a == tensor.randn({ 100 }, 4))
      assert.near(0, a:mean(), 0.5)
   end)

   it("draws numbers by law, the same for a seed and a stream", function()
      local function drawn(...) return tensor.zeros({ 4000 }):draw(...) end
      local normal, even = drawn("normal", 2, 5, 1), drawn("uniform", 2, 5, 1):stats()
      assert.is_true(drawn("constant", 3, 5) == tensor.full({ 4000 }, 3))
      assert.near(2, normal:stats().deviation, 0.1)
      assert.is_true(even.min < -1.9 and even.min >= -2 and even.max > 1.9 and even.max < 2)
      assert.is_true(normal == drawn("normal", 2, 5, 1))
      for _, other in ipairs { { 2, 5, 2 }, { 2, 6, 1 }, { 1, 5, 1 }, { 2, 5 } } do
         assert.is_false(normal == drawn("normal", unpack(other)))
      end
      assert.is_true(drawn("uniform") == drawn("uniform", 1, 0, 0))
      assert.fails_with(function() drawn("levy") end, "'levy'.*constant, normal, uniform")
      assert.fails_with(function() tensor.zeros({ 2 }, "i32"):draw("normal") end, "floating dtype")
      assert.fails_with(function() tensor.zeros({ 2 }, "f12") end,
         "no dtype is called 'f12', expected one of: f32, f64, f16, bf16, i32, i64, u8, bool")
   end)

   it("counts from 1, and backwards from -1", function()
      local t = tensor { { 1, 2 }, { 3, 4 } }
      assert.equal(2, t[1][2])
      assert.equal(4, t[-1][-1])
      assert.equal(3, t:get(2, 1))
      t:set(2, 1, 9)
      t[1] = 7
      t[2][2] = 5
      assert.same({ { 7, 7 }, { 9, 5 } }, values(t))
      t[1] = tensor { 1, 2 }
      assert.same({ { 1, 2 }, { 9, 5 } }, values(t))
      assert.fails_with(function() return t[3] end, "expected an integer from %-2 to 2, got 3")
      assert.fails_with(function() return t[0] end, "count from 1")
      assert.fails_with(function() t:get(1) end, "2 dimensions, 1 indices")
      assert.fails_with(function() t[1] = tensor { 1, 2, 3 } end, "tensor_spec")
      assert.is_nil(t.no_such_method)
   end)

   it("has views on the same elements", function()
      local t = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
      assert.same({ { 2, 3 }, { 5, 6 } }, values(t:narrow(2, 2, 2)))
      assert.same({ 2, 5 }, values(t:select(2, 2)))
      assert.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, values(t:transpose()))
      assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, values(t:view { 3, 2 }))
      assert.same({ 1, 4, 2, 5, 3, 6 }, values(t:transpose(1, 2):reshape { -1 }))
      assert.fails_with(function() t:reshape { 4, -1 } end,
         "tensor:reshape: 6 elements are no multiple of 4")
      assert.fails_with(function() return t[0] end, "0 is no index: they count from 1")
      t:select(1, 1):fill(0)
      assert.same({ { 0, 0, 0 }, { 4, 5, 6 } }, values(t))
      assert.fails_with(function() t:narrow(2, 3, 2) end, "expected an integer from 0 to 1")
      assert.fails_with(function() t:narrow(3, 1, 1) end, "expected an integer from %-2 to 2")
      assert.fails_with(function() t:view { 4 } end, "tensor_spec")
      assert.fails_with(function() t:transpose():view { 6 } end, "copy it first")
   end)

   it("computes", function()
      local t = tensor { { 1, 2 }, { 3, 4 } }
      assert.same({ { 3, 5 }, { 7, 9 } }, values(t * 2 + 1))
      assert.same({ { 0, -1 }, { -2, -3 } }, values(1 - t))
      assert.same({ { 2, 1 }, { 0.5, 0.25 } }, values(2 / tensor { { 1, 2 }, { 4, 8 } }))
      assert.same({ { 2, 4 }, { 4, 6 } }, values(t + tensor { 1, 2 }))
      assert.same({ { 2, 4 }, { 4, 6 } }, values(tensor { 1, 2 } + t))
      assert.same({ { -1, -2 }, { -3, -4 } }, values(-t))
      assert.same({ { 7, 10 }, { 15, 22 } }, values(t:matmul(t)))
      assert.same({ { 7, 15 }, { 10, 22 } }, values(t:matmul(t):transpose()))
      assert.fails_with(function() return t + tensor { 1, 2, 3 } end, "tensor_spec%.lua:%d+: .*add")
      assert.fails_with(function() return t:to("f64") + 1 end, "f64")
   end)

   it("reduces all, or one axis counted from 1", function()
      local t = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
      assert.equal(21, t:sum())
      assert.equal(3.5, t:mean())
      assert.equal(6, t:max())
      assert.same({ 5, 7, 9 }, values(t:sum(1)))
      assert.same({ 6, 15 }, values(t:sum(-1)))
      assert.same({ 4, 5, 6 }, values(t:max(1)))
      assert.fails_with(function() t:sum(3) end, "axis 3")
      assert.fails_with(function() t:sum(0) end, "axis 0")
   end)

   it("offers every row of the operator table", function()
      for _, op in ipairs(core.ops.list()) do
         assert.is_function(tensor.ops[op.name])
         assert.is_true(#op.doc > 0)
      end
      local t = tensor { { 0, 0 }, { 1, 1 } }
      assert.same({ { 0.5, 0.5 }, { 0.5, 0.5 } }, values(t:softmax()))
      assert.same({ { 0, 0 }, { 3, 3 } }, values(tensor.ops.scale(t, { factor = 3 })))
      assert.fails_with(function() tensor.ops.scale(t, { fctor = 3 }) end, "fctor")
      assert.fails_with(function() tensor.ops.relu() end, "takes 1 to 1 inputs, got 0")
      assert.fails_with(function() tensor.ops.relu(3) end, "expected a tensor, got number")
      assert.is_true(tensor.ops.dropout(tensor.ones { 64 }, { p = 0.5, seed = 1 })
         == tensor.ops.dropout(tensor.ones { 64 }, { p = 0.5, seed = 1 }))
   end)

   it("converts, compares and copies", function()
      local t = tensor { 1, 2.5 }
      assert.equal("f64", t:to("f64"):dtype())
      assert.same({ 1, 2.5 }, values(t:to("bf16")))
      assert.is_true(t == t:copy())
      assert.is_false(t == tensor { 1, 2 })
      assert.is_true(tensor.zeros({ 2 }):copy_from(t) == t)
      assert.equal(2, #t)
      assert.equal(2, t:count())
   end)

   it("copies between views that overlap as they were before", function()
      local long = tensor.zeros({ 5000 }):fill_range(1, 1)
      long:narrow(1, 2, 4999):copy_from(long:narrow(1, 1, 4999))
      assert.same({ 1, 1, 2, 4999 }, { long[1], long[2], long[3], long[5000] })
      local t = tensor { { 1, 2 }, { 3, 4 } }
      assert.same({ { 1, 3 }, { 2, 4 } }, values(t:copy_from(t:transpose())))
      t[2] = t:transpose()[1]
      assert.same({ { 1, 3 }, { 1, 2 } }, values(t))
   end)

   it("gives a typed pointer to contiguous elements", function()
      local t = tensor { { 1, 2 }, { 3, 4 } }
      local p = t:pointer()
      assert.equal(3, p[2])
      p[3] = 9
      assert.equal(9, t[2][2])
      assert.equal(-5, tensor({ -5 }, "i32"):pointer()[0])
      assert.fails_with(function() t:transpose():pointer() end, "contiguous")
   end)

   it("says when it was freed", function()
      local t = tensor { 1 }
      local view = t:view { 1, 1 }
      t:free()
      t:free()
      assert.equal("tensor (freed)", tostring(t))
      assert.fails_with(function() t:sum() end, "input 1: the tensor was freed")
      assert.fails_with(function() t:shape() end, "tensor was freed")
      assert.same({ { 1 } }, values(view))
   end)

   it("prints dtype, shape and elements", function()
      assert.matches("f32 %(2, 2%)", tostring(tensor { { 1, 2 }, { 3, 4 } }))
      local many = tensor.arange(2000)
      assert.matches("^tensor f32 %(2000%), 8%.0 kB: min 0, max 1999, mean 999%.5, "
         .. "deviation 577%.4\n", tostring(many))
      assert.is_nil(tostring(many):find(" 1000,", 1, true))
      assert.is_not_nil(many:text():find(" 1000,", 1, true))
   end)

   it("says what numbers it holds", function()
      local t = tensor { 1, 3, 0 / 0, -1 / 0 }
      assert.same({ count = 4, nan = 1, infinite = 1, min = 1, max = 3, mean = 2, deviation = 1 },
         t:stats())
      assert.same({ count = 0, nan = 0, infinite = 0 }, tensor.zeros({ 0 }):stats())
   end)

   it("lets the collector see its memory", function()
      collectgarbage()
      collectgarbage("setpause", 200)
      local before = core.sys.rss()
      for _ = 1, 400 do tensor.zeros { 1024, 1024 } end
      assert.is_true(core.sys.rss() - before < 200e6)
   end)
end)
