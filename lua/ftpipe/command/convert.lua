--- ftpipe convert RUN|DIR --out DIR: a model as a Hugging Face directory of its own.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local directories = require("ftpipe.store.directory")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local sources = require("ftpipe.store.source")
local units = require("ftpipe.base.units")
local weights = require("ftpipe.data.predict.weights")

local M = { help = "a model as a directory of its own, adapters added to its weights" }

local declared = {
   "Writes a model as a Hugging Face directory: config.json, model.safetensors in f32, the\n"
      .. "tokenizer's files. Adapters (--lora) are added to the weights that they are beside.",
   "ftpipe convert out/rte --out merged",
   "ftpipe convert DIR --adapter out/rte/hf --out merged",
   adapter = { type = "string", value = "DIR", help = "adapters for the model" },
   out = { type = "string", value = "DIR", required = true, help = "where it is written" },
}

-- Graphs are built for the names of parameters alone.
local SMALLEST = { batch = 1, source = 1, target = 1 }

--- @tparam {string,...} argv the words after "convert"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(declared, argv, "convert RUN|DIR")
   if not path then
      core.fail("invalid argument", "convert needs a run or the directory of a model; see ftpipe "
         .. "convert --help", 2)
   end
   local source = sources.find(path)
   local given = named.flags { model = source.model, adapter = flags.adapter or source.adapter,
      out = flags.out, eval_only = true }
   directories.check(given)
   local model = models.open(given)
   local params, fresh = weights.load(model, SMALLEST)
   for _, name in ipairs(fresh) do params[name] = nil end -- the model has none
   local n_adapters = model:merge(params)
   model:save(flags.out, params)
   local bytes = 0
   for _, tensor in pairs(params) do bytes = bytes + 4 * tensor:count() end
   print(("%s: %s%s"):format(flags.out, units.format_bytes(bytes), n_adapters > 0
      and (", with %d adapters added to their weights"):format(n_adapters) or ""))
end

return M
