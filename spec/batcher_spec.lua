local core = require("ftpipe.core")
local files = require("spec.support.files")

-- n examples; example i has i % 5 + 1 source ids and two target ids.
local function dataset_of(n)
   local dataset = core.data.dataset { "source", "target" }
   for i = 1, n do
      local source = {}
      for k = 1, i % 5 + 1 do source[k] = 10 * i + k end
      dataset:add { source = source, target = { i, 1 } }
   end
   return dataset
end

local function columns_of(pad, first)
   return {
      { name = "input_ids", field = "source", as = "ids", pad = pad },
      { name = "mask", field = "source", as = "mask" },
      { name = "decoder_ids", field = "target", as = "shift_right", first = first, pad = pad },
      { name = "labels", field = "target", pad = -100 },
   }
end

local function batcher_of(options)
   local all = {
      dataset = dataset_of(10), batch = 4, buckets = { 3, 8 }, lengths = { target = 3 },
      columns = columns_of(0, 0),
   }
   for key, value in pairs(options or {}) do all[key] = value end
   return core.data.batcher(all), all.dataset
end

describe("a dataset", function()
   it("counts its examples and knows the longest", function()
      local dataset = dataset_of(10)
      assert.equal(10, #dataset)
      assert.equal(10, dataset:size())
      assert.equal(5, dataset:longest("source"))
      assert.equal(2, dataset:longest("target"))
      assert.equal(11, dataset:add { source = { 1 }, target = { 7, 8 } })
      assert.same({ 7, 8 }, dataset:get(11, "target"))
   end)

   it("refuses what is no list of token ids", function()
      local dataset = core.data.dataset { "source", "target" }
      for _, ids in ipairs { {}, { 0.5 }, { -1 }, { 2 ^ 31 }, { "1" }, { 0 / 0 } } do
         assert.has_error(function() dataset:add { source = ids, target = { 1 } } end)
         assert.has_error(function() dataset:add { source = { 1 }, target = ids } end)
      end
      assert.fails_with(function() dataset:add { source = "1", target = { 1 } } end,
         "field 'source' is no list of token ids")
      assert.fails_with(function() dataset:add { source = { 1 } } end,
         "field 'target' is no list of token ids")
      assert.fails_with(function() dataset:add { source = { 1 }, target = { 1 }, x = { 1 } } end,
         "the dataset has no field 'x'")
      assert.equal(0, #dataset)
   end)

   it("has fields that go together", function()
      local dataset = core.data.dataset { { "source", "segments" }, "start" }
      assert.same({ { "source", "segments" }, { "start" } }, dataset:groups())
      dataset:add { source = { 1, 2 }, segments = { 0, 1 }, start = { -100 } }
      assert.fails_with(function()
         dataset:add { source = { 1, 2 }, segments = { 0 }, start = { 1 } }
      end, "example 1 has 2 ids in field 'source' and 1 in 'segments', expected equally many")
      local batch = core.data.batcher({
         dataset = dataset, batch = 2, buckets = { 3 }, shuffle = false, columns = {
            { name = "labels", field = "source", as = "shift_left", pad = -100 },
            { name = "types", field = "segments", pad = 7 },
            { name = "start", field = "start", as = "scalar" },
         },
      }):next()
      assert.same({ { 2, -100, -100 }, { -100, -100, -100 } }, batch.labels:totable())
      assert.same({ { 0, 1, 7 }, { 7, 7, 7 } }, batch.types:totable())
      assert.same({ -100, -100 }, batch.start:totable())
      assert.same({ labels = 1, types = 6, start = 0 }, batch.counts)
      assert.equal(2, batch.tokens) -- of source: segments are as many, a label is none
   end)

   it("refuses names that are none", function()
      for _, groups in ipairs { {}, { "" }, { 1 }, { "a", "a" }, { { "a", "b" }, "b" }, { {} },
         { ("x"):rep(32) }, { "a", "b", "c", "d", "e", "f", "g", "h", "i" } } do
         assert.has_error(function() core.data.dataset(groups) end)
      end
   end)

   it("takes no more examples once a batcher draws from it", function()
      local batcher, dataset = batcher_of()
      assert.has_error(function() dataset:add { source = { 1 }, target = { 1 } } end)
      batcher:free()
      assert.has_error(function() dataset:add { source = { 1 }, target = { 1 } } end)
   end)
end)

describe("a batcher", function()
   it("pads, shifts and counts", function()
      local batch = batcher_of({ shuffle = false, columns = columns_of(7, 9) }):next()
      assert.equal(1, batch.number)
      assert.equal(2, batch.bucket)
      assert.equal(8, batch.counts.labels)
      assert.equal(2 + 3 + 4 + 5 + 4 * 2, batch.tokens)
      assert.same({ 1, 2, 3, 4 }, batch.index)
      assert.same({ 11, 12, 7, 7, 7, 7, 7, 7 }, batch.input_ids:totable()[1])
      assert.same({ 1, 1, 0, 0, 0, 0, 0, 0 }, batch.mask:totable()[1])
      assert.same({ 9, 1, 1 }, batch.decoder_ids:totable()[1])
      assert.same({ 1, 1, -100 }, batch.labels:totable()[1])
   end)

   it("ends without shuffling, its last batch filled with rows that are not there", function()
      local batcher = batcher_of { shuffle = false }
      assert.equal(3, batcher:per_epoch())
      batcher:next()
      batcher:next()
      local last = batcher:next()
      assert.same({ 9, 10, 0, 0 }, last.index)
      assert.equal(4, last.counts.labels)
      assert.equal(5 + 1 + 2 * 2, last.tokens)
      assert.is_nil(batcher:next())
      assert.is_nil(batcher:next())
   end)

   it("draws every example once an epoch when shuffling, in another order each", function()
      local batcher = batcher_of { batch = 5, seed = 3 }
      local orders = {}
      for epoch = 1, 3 do
         local seen, order = {}, {}
         for _ = 1, 2 do
            for _, i in ipairs(batcher:next().index) do
               seen[i] = (seen[i] or 0) + 1
               order[#order + 1] = i
            end
         end
         for i = 1, 10 do assert.equal(1, seen[i]) end
         orders[epoch] = table.concat(order, " ")
      end
      assert.not_equal(orders[1], orders[2])
      assert.not_equal(orders[2], orders[3])
   end)

   it("seeks to a batch by its number, with and without its thread", function()
      local first = batcher_of { prefetch = 3, seed = 5 }
      local wanted
      for _ = 1, 9 do wanted = first:next() end
      for _, prefetch in ipairs { 0, 1, 4 } do
         local batcher = batcher_of { prefetch = prefetch, seed = 5 }
         batcher:next()
         batcher:seek(9)
         local batch = batcher:next()
         assert.equal(9, batch.number)
         assert.same(wanted.index, batch.index)
         assert.same(wanted.input_ids:totable(), batch.input_ids:totable())
      end
   end)

   it("gives tensors that stay as they are", function()
      local batcher = batcher_of { shuffle = false }
      local batch = batcher:next()
      local before = batch.input_ids:totable()
      batcher:next()
      batcher:free()
      collectgarbage()
      assert.same(before, batch.input_ids:totable())
   end)

   it("keeps its dataset alive", function()
      local batcher, dataset = batcher_of { prefetch = 2 }
      dataset:free()
      dataset = nil -- luacheck: ignore
      collectgarbage()
      for _ = 1, 20 do assert.equal(4, #batcher:next().index) end
   end)

   it("refuses values without a name", function()
      local problem = tostring(files.failure(batcher_of, { 7 }))
      assert.matches("unknown option 'number' %(expected one of: dataset, ", problem)
   end)

   it("names the option that is wrong", function()
      local wrong = {
         batch = { 0, 1.5, "4" }, buckets = { {}, { 3 }, { 8, 3 }, { 3.5, 8 }, 8 },
         lengths = { { target = 0 }, { target = 1 }, { source = 8 }, { x = 1 }, 8 },
         columns = { {}, { {} }, { 3 }, { { name = "x", field = "source", at = "ids" } }, 8 },
         prefetch = { -1, 5000 }, seed = { -1 }, dataset = { {}, 3 },
         shuffle = { 1 }, bucket = { 1 },
      }
      local words = { buckets = "bucket", lengths = "length", columns = "" }
      for key, values in pairs(wrong) do
         for _, value in ipairs(values) do
            local problem = tostring(files.failure(batcher_of, { [key] = value }))
            local word = words[key] or key
            assert.matches(word, problem, 1, true)
         end
      end
      assert.has_error(function() core.data.batcher { dataset = dataset_of(1) } end)
      local none = core.data.dataset { "source", "target" }
      assert.matches("empty", tostring(files.failure(batcher_of, { dataset = none })))
   end)

   it("refuses use after free", function()
      local batcher = batcher_of()
      batcher:free()
      batcher:free()
      assert.has_error(function() batcher:next() end)
      assert.has_error(function() batcher:seek(1) end)
      assert.has_error(function() batcher_of().seek(batcher, 1) end)
      assert.has_error(function() batcher_of():seek(0) end)
      assert.has_error(function() batcher.next(dataset_of(1)) end)
      local _, dataset = batcher_of()
      dataset:free()
      assert.has_error(function() batcher_of { dataset = dataset } end)
      assert.has_error(function() dataset:size() end)
   end)
end)

describe("lengths that batches are padded to", function()
   local buckets = require("ftpipe.data.buckets")

   it("are multiples of eight, the last one for the longest example", function()
      assert.same({ 8, 16, 24 }, buckets.lengths(20, math.huge))
      assert.same({ 128, 256, 384, 512 }, buckets.lengths(512, math.huge))
      assert.same({ 8 }, buckets.lengths(1, math.huge))
   end)

   it("are at most what a model takes, for examples that it takes", function()
      assert.same({ 8, 16, 20 }, buckets.lengths(20, 20))
      assert.same({ 8, 16, 24 }, buckets.lengths(20, 19))
   end)
end)
