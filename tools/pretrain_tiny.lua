--- Pre-trains one of the tiny models that recipes use when they are given none:
--
--    build/release/ftpipe tools/pretrain_tiny.lua assets/t5_tiny
--    build/release/ftpipe tools/pretrain_tiny.lua assets/gpt2_tiny
--    build/release/ftpipe tools/pretrain_tiny.lua assets/bert_tiny
--
-- Reads config.json and the tokenizer of the directory, writes model.safetensors there (f16). What
-- is learnt comes from the sample generators (lua/ftpipe/sample/); the bytes written depend on the
-- seed, the flags and the instruction set alone. Takes some minutes on two cores.

local ft = require("ftpipe")
local core = require("ftpipe.core")
local cloze = require("ftpipe.sample.cloze")
local corpus = require("ftpipe.sample.corpus")
local span = require("ftpipe.data.kind.span")
local random = require("ftpipe.base.random")
local windows = require("ftpipe.data.windows")

-- ---------------------------------------------------------------------------------------------
-- What each family learns: `count` examples as a data set, none seen twice, and what differs in
-- the flags.

local families = {}

--- T5: the problems of sample/corpus.lua; longer ones than so many ids are left out.
families.t5 = { flags = {}, max_source = 80, max_target = 32 }

function families.t5.dataset(tokenizer, config, count, seed)
   local dataset = core.data.dataset { "source", "target" }
   local next_problem = corpus.problems(seed)
   while dataset:size() < count do
      local source_text, target_text = next_problem()
      local source, target = tokenizer:encode(source_text), tokenizer:encode(target_text)
      source[#source + 1] = config.eos_token_id
      target[#target + 1] = config.eos_token_id
      if #source <= families.t5.max_source and #target <= families.t5.max_target then
         dataset:add { source = source, target = target }
      end
   end
   return dataset
end

--- GPT-2: passages one after the other, in blocks. Here and there are some pieces in no order, so
-- that none that the passages lack is thought impossible.
families.gpt2 = {
   flags = { batch = 16, steps = 800 },
   positions = "transformer.wpe.weight",
   block = 128,
}

function families.gpt2.dataset(tokenizer, _, count, seed)
   local next_passage, ids, block = corpus.passages(seed), {}, families.gpt2.block
   local rng, size = random.new(seed), tokenizer:size()
   while #ids < count * block do
      for _ = 1, rng:chance(0.1) and 8 or 0 do ids[#ids + 1] = rng:integer(size) - 1 end
      for _, id in ipairs(tokenizer:encode(next_passage())) do ids[#ids + 1] = id end
   end
   return windows.dataset(ids, windows.blocks(count * block, block))
end

--- BERT: blanks whose words stand in a paragraph. The head that finds them is not kept: recipes
-- start with one of their own, as with published models.
families.bert = {
   flags = { steps = 1500, lr = 2e-3, warmup = 50 },
   positions = "bert.embeddings.position_embeddings.weight",
   alike = { "%.key%.weight$", ".query.weight" },
   kept = "^bert%.",
}

function families.bert.dataset(tokenizer, config, count, seed)
   local task = ft.task.squad { max_source = config.max_position_embeddings }
   local next_problem, problems = cloze.problems(seed), { path = "cloze" }
   for i = 1, count do problems[i] = next_problem() end
   task.tokenizer = tokenizer
   return (span.prepare(task, nil, problems))
end

--- Gives embeddings of positions waves for initial values, with wavelengths from that of one
-- position to that of all (Vaswani et al., arXiv:1706.03762, section 3.5): then a single product
-- finds neighbours, wherever they stand, and little has to be learnt.
local function set_sinusoids(tensor, deviation)
   local n, width = unpack(tensor:shape())
   for i = 0, width - 1 do
      local frequency = (n / (2 * math.pi)) ^ (-2 * math.floor(i / 2) / width)
      local wave = i % 2 == 0 and math.sin or math.cos
      for p = 1, n do tensor:set(p, i + 1, math.sqrt(2) * deviation * wave(frequency * p)) end
   end
end

--- Copies parameters over others, by a pattern of these names and what stands there in the names of
-- those.
local function set_alike(params, pattern, source)
   for name, tensor in pairs(params) do
      local other, found = name:gsub(pattern, source)
      if found > 0 then tensor:copy_from(params[other]) end
   end
end

--- Changes initial values where small models on little data profit: waves for positions, and keys
-- that equal queries, so that words attend to their likes from the start (Trockman and Kolter,
-- "Mimetic Initialization of Self-Attention Layers", ICML 2023, arXiv:2305.09828).
local function prepare(run, family)
   if family.positions then
      set_sinusoids(run.params[family.positions], run.model.config.initializer_range)
   end
   if family.alike then set_alike(run.params, unpack(family.alike)) end
   run.engine:refresh()
end

-- ---------------------------------------------------------------------------------------------
-- Training.

local dir = table.remove(arg, 1)
if not dir or dir:sub(1, 1) == "-" then
   io.stderr:write("usage: ftpipe tools/pretrain_tiny.lua DIR [--flag VALUE ...]\n")
   os.exit(2, true)
end

local model = ft.model { model = dir, init = "random" }
local family = families[model.raw.model_type]

local declared = {
   "Pre-train a tiny model on the sample world.",
   devices = { default = "cpu:2" },
   batch = { default = 32 },
   steps = { default = 4000 },
   lr = { default = 3e-3 },
   warmup = { default = 200 },
   lr_schedule = { default = "linear" },
   clip = { default = 1 },
   optimizer = true, schedule = true, micro_batches = true, seed = true,
}
for name, default in pairs(family.flags) do declared[name] = { default = default } end
local args = ft.args(declared)

local dataset = family.dataset(model:tokenizer(), model.config, args.batch * args.steps, args.seed)
local data = { train = { dataset = dataset } }
args.partition, args.recompute, args.weight_decay, args.precision = "seq", "never", 0, "f32"
local plan = ft.plan { model = model, data = data, args = args }
print(plan)

local run = ft.run { plan = plan, data = data, args = args }
prepare(run, family)
for step in run:train() do run:show(step) end
print(("running mean of losses %.4f"):format(run.loss_mean))

local tensors = {}
for name, tensor in pairs(run.params) do
   if name:find(family.kept or "") then
      tensors[#tensors + 1] = { name = name, tensor = tensor:to("f16") }
   end
end
table.sort(tensors, function(a, b) return a.name < b.name end)
core.io.write(dir .. "/model.safetensors", tensors)
