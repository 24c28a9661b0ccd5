--- Pre-trains the tiny T5 that recipes use when they are given no model:
--
--    build/release/ftpipe tools/pretrain_t5_tiny.lua assets/t5_tiny
--
-- Reads config.json and spiece.model of the directory, writes model.safetensors there (f16). The
-- problems come from the sample generator (lua/ftpipe/sample/corpus.lua); the bytes written depend
-- on the seed, the flags and the instruction set alone. Takes some minutes on two cores.

local ft = require("ftpipe")
local core = require("ftpipe.core")
local checkpoint = require("ftpipe.checkpoint")
local corpus = require("ftpipe.sample.corpus")

local dir = table.remove(arg, 1)
if not dir or dir:sub(1, 1) == "-" then
   io.stderr:write("usage: ftpipe tools/pretrain_t5_tiny.lua DIR [--flag VALUE ...]\n")
   os.exit(2, true)
end

local args = ft.args {
   "Pre-train the tiny T5 on the sample world.",
   devices = { default = "cpu:2" },
   batch = { default = 32 },
   steps = { default = 4000 },
   lr = { default = 3e-3 },
   warmup = { default = 200 },
   lr_schedule = { default = "linear" },
   clip = { default = 1 },
   optimizer = true, schedule = true, micro_batches = true, seed = true,
}

local MAX_SOURCE, MAX_TARGET = 80, 32 -- ids; longer problems are left out

local ckpt = checkpoint.open(dir)
local tokenizer = ckpt:tokenizer()
local config = require("ftpipe.model.t5").config(ckpt.config)

--- `count` problems as a data set.
local function make_dataset(count, seed)
   local dataset = core.data.dataset { "source", "target" }
   local next_problem = corpus.problems(seed)
   while dataset:size() < count do
      local source_text, target_text = next_problem()
      local source, target = tokenizer:encode(source_text), tokenizer:encode(target_text)
      source[#source + 1] = config.eos_token_id
      target[#target + 1] = config.eos_token_id
      if #source <= MAX_SOURCE and #target <= MAX_TARGET then
         dataset:add { source = source, target = target }
      end
   end
   return dataset
end

-- As many problems as one pass takes: none is seen twice.
local dataset = make_dataset(args.batch * args.steps, args.seed)
local model = ft.model { model = dir, init = "random" }
local data = { train = { dataset = dataset } }
args.partition, args.recompute, args.weight_decay, args.precision = "seq", "never", 0, "f32"
local plan = ft.plan { model = model, data = data, args = args }
print(plan)

local run = ft.run { plan = plan, data = data, args = args }
for step in run:train() do run:show(step) end
print(("loss %.4f over the last tenth"):format(run:mean_loss()))

local tensors = {}
for name, tensor in pairs(run.params) do
   tensors[#tensors + 1] = { name = name, tensor = tensor:to("f16") }
end
core.io.write(dir .. "/model.safetensors", tensors)
