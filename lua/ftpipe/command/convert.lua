--- ftpipe convert RUN|DIR --out DIR: a model as a Hugging Face directory of its own, in other
-- numbers and other files when that is asked for.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local checkpoint = require("ftpipe.model.checkpoint")
local counted = require("ftpipe.base.counted")
local directories = require("ftpipe.store.directory")
local models = require("ftpipe.model")
local named = require("ftpipe.base.named")
local sources = require("ftpipe.store.source")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")
local weights = require("ftpipe.data.predict.weights")

local M = { help = "a model as a directory of its own: adapters merged, bf16, shards" }

M.declared = {
   "Writes a model as a Hugging Face directory: config.json, model.safetensors, the tokenizer's\n"
      .. "files. Adapters (--lora) are added to the weights that they are beside; bf16 rounds to\n"
      .. "the nearest number.",
   "ftpipe convert out/rte --out merged",
   "ftpipe convert DIR --adapter out/rte/hf --out merged",
   "ftpipe convert t5-base --out t5-base-bf16 --dtype bf16 --shard 2GB",
   adapter = { type = "string", value = "DIR", help = "adapters for the model" },
   out = { type = "string", value = "DIR", help = "where it is written" },
   dtype = { choices = { "f32", "bf16" }, default = "f32", help = "of the weights" },
   shard = { type = "bytes", value = "5GB", default = "5GB", min = 1e5,
      help = "of a file, at most" },
}

-- Graphs are built for the names of parameters alone.
local SMALLEST = { batch = 1, source = 1, target = 1 }

--- @tparam {string,...} argv the words after "convert"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(M.declared, argv, "convert RUN|DIR")
   if not path or not flags.out then
      usage("convert needs %s; see ftpipe convert --help", path and "--out DIR, where it writes"
         or "a run or the directory of a model")
   end
   local source = sources.find(path)
   local given = named.flags { model = source.model, adapter = flags.adapter or source.adapter,
      out = flags.out, eval_only = true }
   directories.check(given)
   local model = models.open(given)
   local params, fresh = weights.load(model, SMALLEST)
   for _, name in ipairs(fresh) do params[name] = nil end -- the model has none
   local n_adapters = model:merge(params)
   local bytes = checkpoint.save(flags.out, {
      config = model:saved_config(), tensors = params, source = model.files,
      dtype = flags.dtype, shard_bytes = flags.shard,
   })
   print(("%s: %s%s"):format(flags.out, units.format_bytes(bytes), n_adapters > 0
      and (", with %s added to their weights"):format(counted(n_adapters, "adapter")) or ""))
end

return M
