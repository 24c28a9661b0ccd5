--- What is done with any text as a file of JSON in a model's directory: the model is refused in one
-- line, or graphs of it are built and its weights are looked for.

local adapters = require("ftpipe.model.adapters")
local core = require("ftpipe.core")
local models = require("ftpipe.model")
local peft = require("ftpipe.model.peft")

local check_refusal = dofile("test/fuzz/refusal.lua")

local CONFIG = '{"model_type":"t5","vocab_size":9,"d_model":2,"d_kv":1,"d_ff":2,"num_layers":1,'
   .. '"num_heads":1}'
local MOST_LAYERS = 4 -- of a model whose graphs are built
local SIZE = { batch = 2, source = 3, target = 2 }

local directory = dofile("test/fuzz/directory.lua")
local root = directory.path

local function write(name, text)
   local file = assert(io.open(root .. "/" .. name, "w"))
   file:write(text)
   file:close()
end

--- A file of weights with one tensor of ones.
local function write_weights(name, tensor)
   core.io.write(root .. "/" .. name, { { name = tensor, tensor = core.tensor.zeros { 9, 2 } } })
end

--- All that is asked of a model before its weights are read.
local function look(model)
   local c = model.config
   local layers = (c.num_layers or c.n_layer or c.num_hidden_layers) + (c.num_decoder_layers or 0)
   model:saved_config()
   if layers > MOST_LAYERS then return end
   local graph = model.family.training(adapters.training_config(model), SIZE)
   model:check_files(graph:params())
end

local function look_at_model() look(models.open { model = root .. "/model" }) end

local function look_at_adapters()
   local lora = peft.open(root .. "/adapters")
   look(models.open { model = root .. "/whole", adapter = lora.path })
end

local function look_at_shards()
   local archive = core.io.archive(root .. "/shards")
   for _, name in ipairs(archive:names()) do
      if archive:spec(name).dims[2] == 2 then archive:read(name, core.tensor.zeros { 9, 2 }) end
      archive:nearest(name .. "s")
   end
end

for _, name in ipairs { "model", "adapters", "whole", "shards" } do
   core.sys.mkdir(root .. "/" .. name)
end
write("whole/config.json", CONFIG)
write_weights("whole/model.safetensors", "shared.weight")
write_weights("model/model.safetensors", "shared.weight")
write_weights("adapters/adapter_model.safetensors",
   "base_model.model.encoder.block.0.layer.0.SelfAttention.q.lora_A.weight")
write_weights("shards/a", "shared.weight")
write_weights("shards/b", "lm_head.weight")

-- By the first byte of an input: which file the others are, and what reads it.
local FILES = {
   c = { "model/config.json", look_at_model },
   a = { "adapters/adapter_config.json", look_at_adapters },
   i = { "shards/model.safetensors.index.json", look_at_shards },
}

--- Takes a text; raises for what may not be.
return function(text)
   local row = FILES[text:sub(1, 1)]
   if not row or not directory then return end
   write(row[1], text:sub(2))
   local ok, problem = pcall(row[2])
   if not ok then
      check_refusal(problem, "malformed data", "unsupported", "not found", "shape mismatch",
         "invalid argument")
   end
end
