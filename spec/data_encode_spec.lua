--- Many texts at once: what each would give alone.

local core = require("ftpipe.core")
local models = require("ftpipe.model")
local tasks = require("ftpipe.task")
local task_files = require("spec.support.task_files")

--- Vectors as lists.
local function lists(vectors)
   local result = {}
   for i, vector in ipairs(vectors) do result[i] = vector:totable() end
   return result
end

describe("encoding many texts", function()
   it("gives for each what it gives alone", function()
      local tokenizer, texts, alone = task_files.tokenizer(), {}, {}
      for i = 1, 500 do
         texts[i] = i % 7 == 0 and "" or ("Ben has %d kites. "):format(i):rep(i % 5)
         alone[i] = tokenizer:encode(texts[i])
      end
      assert.same(alone, lists(tokenizer:encode_all(texts)))
      assert.same({}, tokenizer:encode_all({}))
      assert.same({ alone[1] }, lists(tokenizer:encode_all({ texts[1] })))
      assert.same(alone[1], tokenizer:vector(texts[1]):totable())
   end)

   it("reports the first that is not UTF-8", function()
      local tokenizer, texts = task_files.tokenizer(), {}
      for i = 1, 100 do texts[i] = ("x"):rep(i) .. (i >= 40 and "\255" or "") end
      local ok, first = pcall(tokenizer.encode, tokenizer, texts[40])
      assert.is_false(ok)
      for _ = 1, 20 do
         local good, problem = pcall(tokenizer.encode_all, tokenizer, texts)
         assert.is_false(good)
         assert.equal(first.message, problem.message)
      end
   end)

   it("refuses what is no list of texts", function()
      local tokenizer = task_files.tokenizer()
      assert.fails_with(function() tokenizer:encode_all({ "a", 3 }) end, "element 2 is not a text")
      assert.has_error(function() tokenizer:encode_all("a") end)
   end)
end)

describe("a vector of ids", function()
   local ids = core.data.ids

   it("is made of ids and of vectors, and has its numbers", function()
      local v = ids { 3, ids { 4, 5 }, ids {}, -100, core.data.repeated(7, 2) }
      assert.same({ 3, 4, 5, -100, 7, 7 }, v:totable())
      assert.same({ 6, 3, 7 }, { #v, v[1], v[6] })
      for _, past in ipairs { 0, 7, 1.5, -1, 0 / 0, 1 / 0 } do assert.is_nil(v[past]) end
      assert.same({ 4, 5 }, v:part(2, 2):totable())
      assert.same({}, v:part(7, 0):totable())
      assert.equal("6 ids", tostring(v))
   end)

   it("goes into a data set as a list does, and comes out of it", function()
      local dataset = core.data.dataset { "source", "target" }
      dataset:add { source = ids { 1, 2, 3 }, target = { 4 } }
      assert.same({ 1, 2, 3 }, dataset:get(1, "source"))
      assert.same({ 1, 2, 3 }, dataset:ids(1, "source"):totable())
      assert.has_error(function() dataset:add { source = ids {}, target = { 4 } } end)
   end)

   it("is refused in one line when it cannot be", function()
      for _, wrong in ipairs { { 1.5 }, { -1 }, { "a" }, { {} }, { 2 ^ 31 } } do
         assert.fails_with(function() ids(wrong) end, "element 1 is neither a token id")
      end
      assert.has_error(function() ids(3) end)
      assert.has_error(function() ids({ 1 }):part(1, 2) end)
      assert.has_error(function() ids({ 1 }):part(0, 1) end)
      assert.has_error(function() ids({ 1 }):part(3, 0) end)
      assert.has_error(function() core.data.repeated(1, -1) end)
   end)
end)

describe("sources that are too long", function()
   it("are cut, their end token is kept, and they are counted", function()
      local function bytes(text) return core.data.ids { text:byte(1, #text) } end
      local tokenizer = {
         vector = function(_, text) return bytes(text) end,
         encode_all = function(_, texts)
            local list = {}
            for i, text in ipairs(texts) do list[i] = bytes(text) end
            return list
         end,
      }
      local rows = { path = "rows.jsonl" }
      for i, text in ipairs { "abc", "abcd", "abcdefgh" } do
         rows[i] = { text = text, label = 0 }
      end
      local task = { name = "own", definition = {
         label = "label", answers = { { label = 0, target = "x" } },
      } }
      local dataset, notes = require("ftpipe.data.kind.text2text").prepare(task,
         { template = "{text}" }, rows,
         { tokenizer = tokenizer, max_source = 4, max_target = 4, eos_id = 1 })
      assert.equal(2, notes.cut_sources)
      for i = 1, 3 do assert.same({ 97, 98, 99, 1 }, dataset:get(i, "source")) end
   end)
end)

--- What tasks of the embedded models put into data sets: by task, how many ids in vectors, and the
-- longest list of Lua. Nothing may encode into lists.
local function added(samples)
   local methods, result = getmetatable(core.data.dataset { "source" }).__index, {}
   local add, now = methods.add, nil
   function methods.add(dataset, row)
      for _, ids in pairs(row) do
         local is_list = type(ids) == "table"
         if not is_list then now.vectors = now.vectors + #ids end
         if is_list and #ids > now.longest_list then now.longest_list = #ids end
      end
      return add(dataset, row)
   end
   local ok, problem = pcall(function()
      for name, model in pairs(samples) do
         local tokenizer = models.open("embedded:" .. model):tokenizer()
         local texts = setmetatable({
            vector = function(_, text) return tokenizer:vector(text) end,
            encode_all = function(_, list) return tokenizer:encode_all(list) end,
            special = function(_, word) return tokenizer:special(word) end,
         }, { __index = function(_, word) error("a task asks the tokenizer for " .. word) end })
         now = { vectors = 0, longest_list = 0 }
         result[name] = now
         now.data = tasks[name]():load { sample = true, tokenizer = texts }
      end
   end)
   methods.add = add
   assert(ok, problem)
   return result
end

describe("examples", function()
   it("are in no table of Lua between the tokenizer and the batch, of any kind of model", function()
      local samples = { rte = "t5_tiny", squad = "bert_tiny", wikitext2 = "gpt2_tiny" }
      for name, found in pairs(added(samples)) do
         assert.is_true(found.vectors > 10000, name)
         assert.is_true(found.longest_list <= 1, name) -- a place in a sequence
         local model = models.open("embedded:" .. samples[name])
         local columns = model.family.columns(model.config)
         local dataset = found.data.train.dataset
         local batch = core.data.batcher { dataset = dataset, batch = 4, columns = columns,
            buckets = { dataset:longest("source") } }:next()
         for _, column in ipairs(columns) do
            assert.equal("userdata", type(batch[column.name]), column.name)
         end
      end
   end)
end)
