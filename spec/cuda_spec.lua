--- What ft.cuda says of cards: in the program ftpipe_emu there are two, emulated ones.

local core = require("ftpipe.core")
local ft = require("ftpipe")
local process = require("spec.support.process")

local emulated = core.sys.executable():match("[^/]+$") == "ftpipe_emu"

describe("ft.cuda", function()
   it("says whether there are cards, and else why not", function()
      local there, why = ft.cuda.available()
      if emulated then assert.is_true(there) end
      if there then
         assert.is_nil(why)
      else
         assert.is_false(there)
         assert.matches("CUDA", why)
         assert.not_matches("device list", why)
      end
   end)

   it("has the cards, or an error with the same reason", function()
      local there, why = ft.cuda.available()
      if not there then
         local ok, failure = pcall(ft.cuda.devices)
         assert.is_false(ok)
         assert.matches(why, failure.message, 1, true)
         return
      end
      local list = ft.cuda.devices()
      if emulated then assert.equal(2, #list) end
      for i, card in ipairs(list) do
         assert.equal(("cuda:%d"):format(i - 1), card.name)
         assert.equal(i - 1, card.card)
         assert.is_true(card.memory_bytes > 0 and card.flops_per_s > 0 and card.bytes_per_s > 0)
         assert.is_nil(card.threads)
      end
   end)

   it("is told by doctor, which measures cores alone", function()
      local out, err, code = process.ftpipe { "doctor" }
      assert.equal(0, code, err)
      local rates = out:match("\ndevice    cpu:0, budget [^\n]*(GFLOP/s)")
      assert.equal(core.engine.devices("cpu")[1].in_host, rates ~= nil)
      assert.equal(ft.cuda.available(), out:match("\ngpu       none: ") == nil)
   end)
end)

--- What computes here: an emulated card, or a device of the CPU, which goes the same way.
local DEVICE = emulated and "emu:1" or "cpu:1"

describe("a tensor on a card", function()
   local card, x, y
   before_each(function()
      card = ft.cuda.open(DEVICE)
      x = ft.tensor { { 1, -2, 3 }, { 4, 5, -6 } }
      y = x:to(card)
   end)

   it("goes there and back, prints itself, and says where it is", function()
      assert.equal(card.name, y:device())
      assert.same({ "f32", { 2, 3 }, 6 }, { y:dtype(), y:shape(), y:count() })
      assert.is_true(x == y:to("cpu"))
      assert.is_true(x:to("cpu") == x)
      assert.matches("^tensor f32 %(2, 3%) on " .. card.name .. "\n", tostring(y))
      assert.same({ { 1, -2, 3 }, { 4, 5, -6 } }, y:totable())
      assert.equal(-6, y:get(2, 3))
      assert.is_true(y:to("i32"):to("cpu") == x:to("i32"))
      assert.is_true(x:transpose():to(card):to("cpu") == x:transpose():copy())
      assert.same({ 3, 2 }, y:reshape({ 3, -1 }):shape())
      assert.equal(0, ft.tensor.zeros({ 0, 4 }):to(card):to("cpu"):count())
   end)

   it("passes through a few bytes of pinned memory", function()
      card:close()
      local narrow = ft.cuda.open(DEVICE, { pinned = 24 })
      local z = ft.tensor.randn({ 1001 }, 3)
      assert.is_true(z == z:to(narrow):to("cpu"))
      assert.equal(24, narrow:usage().pinned_bytes)
      assert.fails_with(function() ft.cuda.open(DEVICE, { pinned = "1kB" }) end,
         "is open with 24 B of pinned memory; close it first")
      narrow:close()
   end)

   it("has the operators and the arithmetic of the host", function()
      local function all(t)
         return { t * t + 1, 2 - t, t / 2, -t, t:relu(), t:softmax(), t:sum(1), t:mean(-1),
            t:matmul(t, { transpose_b = 1 }), t:sum(), t:mean(), t:max(),
            ft.tensor.ops.dropout(t, { p = 0.5, seed = 7 }), 3 + t, t - 4 }
      end
      local here, there = all(x), all(y)
      for i, value in ipairs(there) do
         if type(value) ~= "number" then value = value:to("cpu") end
         local far = value - here[i]
         assert.near(0, type(far) == "number" and far or (far * far):max(), 1e-10, i)
      end
      local norm = ft.tensor.ops.layer_norm(y, ft.tensor.ones({ 3 }):to(card),
         ft.tensor.zeros({ 3 }):to(card))
      assert.near(0, norm:sum(), 1e-5)
      local dx, dw = ft.tensor.ops.rms_norm_grad(y, y, ft.tensor.ones({ 3 }):to(card),
         ft.tensor.ones({ 2 }):to(card)) -- works in memory of its own
      assert.same({ 2, 3 }, dx:shape())
      assert.same({ 17, 29, 45 }, dw:totable())
   end)

   it("is not mixed with what is elsewhere", function()
      assert.fails_with(function() return y + x end, "input 2 is in the host.*move it with :to")
      assert.fails_with(function() return x + y end, "input 1 is in the host.*move it with :to")
      assert.fails_with(function() return y[1] end, "is on " .. card.name .. ".*:to%(\"cpu\"%)")
      assert.fails_with(function() return x:to("sim:1x1GB") end, "for planning only")
      assert.fails_with(function() return x:to("cpu:2") end, "'cpu:2' has 2 devices, expected one")
      assert.fails_with(function() return x:to("f99") end, "f99.*f32, f64")
      assert.fails_with(function() return y:view { 4 } end, "no view of %(4%)")
      assert.fails_with(function() -- 3 * 2^64 + 6 elements: 6 where a product wraps
         return y:view { 3, 239075442, 77158673929 }
      end, "larger than any memory")
      assert.fails_with(function() return ft.tensor.ops.relu(y, { p = 1 }) end, "p")
      y:free()
      assert.fails_with(function() return y:relu() end, "freed")
   end)

   it("moves between cards", function()
      local other = ft.cuda.open(DEVICE .. "/1GB") -- another one of its own
      local z = (y * 2):to(other)
      assert.is_true(z:to("cpu") == x * 2)
      assert.fails_with(function() return z + y end, "input 2 is on .*, one before it on ")
      other:close()
      assert.is_true(z:relu():to("cpu") == (x * 2):relu()) -- it is held by what is on it
   end)

   it("is counted in the card's memory until it is gone", function()
      collectgarbage()
      collectgarbage()
      local before = card:usage().tensor_bytes
      local z = ft.tensor.zeros({ 1000 }):to(card)
      local view = z:view { 10, 100 }
      assert.equal(before + 4000, card:usage().tensor_bytes)
      z:free()
      assert.equal(before + 4000, card:usage().tensor_bytes)
      view:free()
      local has = card:usage()
      assert.equal(before, has.tensor_bytes)
      assert.is_true(has.free_bytes > 0 and has.free_bytes <= has.total_bytes)
   end)
end)

describe("streams and events", function()
   it("order what two streams do, and have times", function()
      local card = ft.cuda.open(DEVICE)
      local x = ft.tensor.randn({ 64, 64 }, 1):to(card)
      local a, b = card:stream(), card:stream()
      local begun = a:record()
      local y = a:run(function() return x:matmul(x) end)
      local ended = card:event()
      assert.equal(ended, a:record(ended))
      b:wait(ended)
      local z, w = b:run(function(t) return t:relu(), nil end, y) -- and it waits for y by itself
      assert.is_nil(w)
      b:synchronize()
      card:synchronize()
      assert.is_true(ended:passed() and begun:passed())
      local seconds = ended:seconds_since(begun)
      assert.is_true(seconds >= 0 and seconds < 600)
      assert.is_true(z:to("cpu") == x:matmul(x):relu():to("cpu"))
      assert.matches("^card .-: .- free of .-, .- in tensors, 16%.0 MB of pinned memory$",
         tostring(card))
      assert.equal("stream of card " .. card.name, tostring(a))
      assert.equal(("event of card %s, passed"):format(card.name), tostring(ended))
   end)

   it("wait for what another one writes, and memory for those who read it", function()
      local card = ft.cuda.open(DEVICE)
      local x = ft.tensor.randn({ 128, 128 }, 1)
      local a, b, there = card:stream(), card:stream(), x:to(card)
      local y = a:run(function() return there:matmul(there) end)
      local z = b:run(function() return y:relu() end)
      there:free()
      y:free()
      local far = z:to("cpu") - x:matmul(x):relu()
      assert.near(0, (far * far):max(), 1e-6)
   end)

   it("go back to the stream of before, also after an error", function()
      local card = ft.cuda.open(DEVICE)
      local s, t = card:stream(), card:stream()
      local ok, said = pcall(s.run, s, function()
         t:run(function() assert.equal(t, card.current) end)
         assert.equal(s, card.current)
         error("inside", 0)
      end)
      assert.is_false(ok)
      assert.equal("inside", said)
      assert.is_nil(card.current)
   end)

   it("refuse what cannot be", function()
      local card, other = ft.cuda.open(DEVICE), ft.cuda.open(DEVICE .. "/1GB")
      local s, never = card:stream(), card:event()
      assert.is_false(never:passed())
      assert.fails_with(function() s:wait(never) end, "an event that was never recorded")
      assert.fails_with(function() never:synchronize() end, "an event that was never recorded")
      assert.fails_with(function() s:record(other:event()) end, "the event is of ")
      assert.fails_with(function() s:wait(3) end, "stream:wait: 'event': expected a event, got 3")
      assert.fails_with(function() ft.cuda.open("cuda:77") end, "cuda:77")
      other:close()
      assert.fails_with(function() other:stream() end, "card was freed")
      assert.matches("%(closed%)$", tostring(other))
   end)

   it("wait for nothing where there is no card, but say why", function()
      local there, why = ft.cuda.available()
      if there then return end
      local ok, failure = pcall(ft.cuda.open, "cuda:0")
      assert.is_false(ok)
      assert.matches(why, failure.message, 1, true)
      assert.not_matches("\n", failure.message)
   end)
end)
