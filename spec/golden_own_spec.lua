--- Reference outputs that come with the sources: what PyTorch, transformers, tokenizers and
-- SentencePiece make of the embedded models (tools/make_golden.py).

local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local golden = require("ftpipe.data.golden")

-- Lines of a report that a family has: loss, logits, gradients, norms, optimizers, greedy rows.
local FAMILIES = { t5 = 8, gpt2 = 8, bert = 8 }

--- The embedded tensors, and those that the reference adds.
local function tensors_of(ckpt, added)
   local list = {}
   local function take(archive, name, as)
      local tensor = core.tensor.zeros(archive:spec(name).dims)
      archive:read(name, tensor)
      list[#list + 1] = { name = as, tensor = tensor }
   end
   for _, name in ipairs(ckpt.archive:names()) do
      take(ckpt.archive, name, (name:gsub("^bert%.", "")))
   end
   for _, name in ipairs(added:names()) do
      local own = name:match("^param%.(.*)")
      if own then take(added, name, own) end
   end
   return list
end

--- Calls body(dir) with a golden directory: the embedded model with the reference outputs.
local function with_golden(family, body)
   local ckpt = checkpoint.open { asset = family .. "_tiny" }
   local outputs = "spec/golden/" .. family
   files.in_directory(function(dir)
      local added = core.io.archive(outputs .. "/golden.safetensors")
      core.io.write(dir .. "/model.safetensors", tensors_of(ckpt, added))
      core.sys.write_file(dir .. "/config.json", ckpt:file("config.json"))
      for _, name in ipairs { "golden.json", "golden.safetensors" } do
         core.sys.write_file(dir .. "/" .. name, core.sys.read_file(outputs .. "/" .. name))
      end
      body(dir)
   end)
end

-- Tiny models of other forms (tools/make_golden_forms.py): loss, logits, gradients, greedy rows.
for name, what in pairs {
   mt5 = "mT5, as it was published", t5_headless = "T5, told of a head that its file lacks",
   t5_gated_silu = "T5, whose feed-forward blocks are those of UL2",
   gpt2_scaled = "GPT-2, whose blocks scale attention by their number",
} do
   describe("a model of " .. what, function()
      it("computes what transformers computes", function()
         local report = golden.check("spec/golden/" .. name)
         assert.equal(0, report.failed, table.concat(report:lines(), "\n"))
         assert.equal(4, #report.rows)
      end)
   end)
end

describe("a loss of zero", function()
   it("agrees with one of zero: questions on one token have one answer", function()
      with_golden("bert", function(dir)
         local was = core.json.read(dir .. "/golden.json")
         local reference = {
            family = "bert", loss = 0, grad_norm = 0, losses = { adamw = { 0, 0 } },
            optimizers = was.optimizers,
            inputs = {
               input_ids = { { 5 } }, attention_mask = { { 1 } }, token_type_ids = { { 0 } },
               start_positions = { 0 }, end_positions = { 0 },
            },
         }
         core.sys.write_file(dir .. "/golden.json", core.json.encode(reference))
         core.io.write(dir .. "/golden.safetensors", {
            { name = "none", tensor = core.tensor.zeros { 1 } },
         })
         local report = golden.check(dir)
         assert.equal(0, report.failed, table.concat(report:lines(), "\n"))
         assert.equal(2, #report.rows)
         reference.loss = 1e-6
         core.sys.write_file(dir .. "/golden.json", core.json.encode(reference))
         assert.equal(1, golden.check(dir).failed)
      end)
   end)
end)

for family, rows in pairs(FAMILIES) do
   describe("the embedded model of " .. family, function()
      it("computes what PyTorch computes", function()
         with_golden(family, function(dir)
            local report = golden.check(dir)
            local text = table.concat(report:lines(), "\n")
            assert.equal(0, report.failed, text)
            assert.equal(rows, #report.rows, text)
         end)
      end)

      it("is told to differ where a reference is not a number", function()
         with_golden(family, function(dir)
            local list = {}
            local outputs = core.io.archive(dir .. "/golden.safetensors")
            for _, name in ipairs(outputs:names()) do
               local tensor = core.tensor.zeros(outputs:spec(name).dims)
               outputs:read(name, tensor)
               if name:find("^grad") then tensor:fill(0 / 0) end
               list[#list + 1] = { name = name, tensor = tensor }
            end
            core.io.write(dir .. "/golden.safetensors", list)
            assert.is_true(golden.check(dir).failed > 0)
         end)
      end)

      it("has a tokenizer that gives the reference's ids and texts", function()
         local tokenizer = checkpoint.open({ asset = family .. "_tiny" }):tokenizer()
         for _, row in ipairs(core.json.read("spec/golden/" .. family .. "/tokens.json").rows) do
            local ids = tokenizer:encode(row.text)
            assert.equal(table.concat(row.ids, " "), table.concat(ids, " "), row.text)
            if row.decoded ~= core.json.null then
               assert.equal(row.decoded, tokenizer:decode(ids, false), row.text)
            end
         end
      end)
   end)
end
