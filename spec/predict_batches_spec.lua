--- Predictions work on inputs of like lengths together, and give answers in the order of inputs.

local batches = require("ftpipe.data.predict.batches")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local models = require("ftpipe.model")
local process = require("spec.support.process")

describe("inputs of predictions", function()
   it("are padded to lengths near their own", function()
      local model = models.open { model = "embedded:t5_tiny" }
      local dataset, ids, padded, seen = core.data.dataset { "source", "target" }, 0, 0, {}
      for i = 1, 24 do
         local source = {}
         for k = 1, i % 3 == 0 and 64 or 5 do source[k] = k + i end
         ids = ids + #source
         dataset:add { source = source, target = { 1 } }
      end
      batches.each(model, dataset, 4, function(batch, length)
         assert.same({ 4, length }, batch.input_ids:shape())
         padded = padded + 4 * length
         for _, number in ipairs(batch.index) do seen[number] = true end
      end)
      assert.equal(24, #seen)
      assert.is_true(padded < 1.5 * ids, padded .. " for " .. ids)
   end)

   it("are answered in their order, each as soon as all before it are", function()
      local said = {}
      local take = batches.in_order(function(row) said[#said + 1] = row end)
      take(2, "b")
      take(4, "d")
      assert.same({}, said)
      take(1, "a")
      assert.same({ "a", "b" }, said)
      take(3, "c")
      assert.same({ "a", "b", "c", "d" }, said)
   end)

   it("are answered as they are alone", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/model")
         local texts = {}
         for i = 1, 7 do texts[i] = ("Anna has a red kite. "):rep(i % 3 == 1 and 6 or 1) .. i end
         core.sys.write_file(dir .. "/texts", table.concat(texts, "\n") .. "\n")
         local function answers(batch)
            local out, err, exit = process.ftpipe { "predict", dir .. "/model", "--file",
               dir .. "/texts", "--batch", tostring(batch) }
            assert.equal(0, exit, err)
            local list = {}
            for line in out:gmatch("[^\n]+") do list[#list + 1] = core.json.decode(line) end
            return list
         end
         local together = answers(3)
         assert.same(answers(1), together)
         for i, row in ipairs(together) do assert.equal(i, row.index) end
         assert.equal(7, #together)
      end)
   end)
end)
