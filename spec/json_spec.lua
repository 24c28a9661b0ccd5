local core = require("ftpipe.core")

local json = core.json

local function round_trip(text)
   return json.encode(json.decode(text))
end

describe("core.json", function()
   it("reads every kind of value", function()
      local value = json.decode('{"a": [1, -2.5, true, false, null, "x\\u00e4"], "b": {}}')
      assert.same({ 1, -2.5, true, false, json.null, "xä" }, value.a)
      assert.same({}, value.b)
   end)

   it("keeps empty arrays and empty objects apart", function()
      assert.equal('{"a": [], "b": {}}', round_trip('{"b": {}, "a": []}'))
      assert.equal("[]", json.encode(json.array {}))
      assert.equal("{}", json.encode {})
   end)

   it("writes the shortest digits that read back the same", function()
      for _, number in ipairs { 0.1, 1e-6, 1 / 3, 2 ^ 53, -1.5e300, 5e-324, 3.0000000000000004 } do
         assert.equal(number, json.decode(json.encode(number)))
      end
      assert.equal("[0.1, 1e-06, 3, 9007199254740992]", json.encode { 0.1, 1e-6, 3, 2 ^ 53 })
      assert.equal("[1e+17, 18014398509481984.0]", json.encode { 1e17, 2 ^ 54 })
   end)

   it("refuses arrays with holes", function()
      local list = { 1, 2, 3, 4 }
      list[2] = nil
      assert.fails_with(function() json.encode(list) end, "has 3 items up to its length of 4")
   end)

   it("refuses integers that a number does not hold", function()
      assert.fails_with(function() json.decode("9007199254740993") end, "past 2%^53")
      assert.equal(9007199254740992, json.decode("9007199254740992"))
   end)

   it("sorts names, and indents when asked", function()
      assert.equal('{\n  "a": 1,\n  "b": [\n    2\n  ]\n}',
         json.encode({ b = { 2 }, a = 1 }, { indent = 2 }))
   end)

   it("names the place of a mistake", function()
      assert.fails_with(function() json.decode("[1,\n2,]", "x.json") end, "x%.json:2:")
      assert.fails_with(function() json.decode('{"a":1,"a":2}') end, "duplicate")
   end)

   it("refuses what JSON cannot say", function()
      local circle = {}
      circle[1] = circle
      assert.fails_with(function() json.encode(circle) end, "circle")
      assert.fails_with(function() json.encode(0 / 0) end, "nan")
      assert.fails_with(function() json.encode(math.huge) end, "inf")
      assert.fails_with(function() json.encode { 1, a = 2 } end, "neither")
      assert.fails_with(function() json.encode { 1, nil, 3 } end, "items")
      assert.fails_with(function() json.encode { [true] = 1 } end, "names are strings")
      assert.fails_with(function() json.encode(print) end, "function")
      assert.fails_with(function() json.encode("\255") end, "UTF%-8")
   end)

   it("merges changes and leaves the rest as it was written", function()
      local text = '{"z": 1.0, "unknown": {"q": [1e-06]}, "a": 1, "gone": true}'
      assert.equal('{"z": 1.0, "unknown": {"q": [1e-06]}, "a": 2, "gone": null, "new": "x"}',
         json.merge(text, { a = 2, gone = json.null, new = "x" }))
      assert.fails_with(function() json.merge("[1]", {}) end, "object")
   end)

   it("frees everything, also on errors", function()
      collectgarbage()
      for _ = 1, 100 do pcall(json.decode, "[[[[1,2,") end
      for _ = 1, 100 do pcall(json.encode, { { { print } } }) end
      local before = core.sys.allocs()
      for _ = 1, 100 do json.encode(json.decode('{"a": [1, 2, {"b": "c"}]}')) end
      collectgarbage()
      assert.equal(before, (core.sys.allocs()))
   end)
end)
