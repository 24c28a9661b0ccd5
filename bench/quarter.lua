--- Models of real sizes on devices that are too small: BERT-base on SQuAD's rows and GPT-2 (124 M)
-- on WikiText-2's, on two devices with a budget of a quarter of the model's state each, beside the
-- same run without a budget.
--
--    ftpipe bench/quarter.lua --data DIR --models DIR [--steps 50] [--only bert-base]
--    ftpipe bench/quarter.lua --data DIR --models DIR --forward-micro-batches 1 --block 96
--
-- The second takes all micro-batches of a batch through a stage, then through the next, and has so
-- many forward: harmony-pp, where the first takes one after the other through all stages: 1f1b.
--
-- DIR of --data has squad and wikitext2 with the published files, DIR of --models the vocabularies:
-- minilm_squad and gpt2_wikitext_real. Weights are random. State is weights, gradients, optimizer
-- state and packed copies, as one device without a budget has them. Losses, bytes and what devices
-- hold do not depend on how busy a machine is; the ratio of times does.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local copies = require("ftpipe.schedule.copies")
local ft = require("ftpipe")
local peer = require("peer")
local recipe_args = require("ftpipe.recipe.args")
local units = require("ftpipe.base.units")
local waits = require("ftpipe.schedule.waits")

local args = ft.args {
   "Models of real sizes on devices with a part of their state.",
   data = { type = "string", required = true, value = "DIR", help = "published files" },
   models = { type = "string", required = true, value = "DIR", help = "vocabularies" },
   steps = { type = "int", min = 2, default = 50, help = "of every run" },
   only = { choices = { "bert-base", "gpt2" }, help = "one of the models" },
   recompute = { choices = { "auto", "always" }, default = "auto", help = "of both runs" },
   block = { type = "int", min = 2, default = 128, help = "tokens of an example of GPT-2" },
   forward_micro_batches = { type = "int", min = 1,
      help = "of a batch, which harmony-pp takes through a stage, then through the next" },
}

local DEVICES, SHARE = 2, 0.25

-- Model, where its vocabulary is and which files that has; its sizes; the task and flags. A
-- backward of GPT-2's head needs 0.15 of the state at once: weights, gradients and a packed copy of
-- 50257 x 768 numbers. Beside it stays the slot in which these gradients pass to the embedding,
-- 0.05. What is left of a quarter is enough for logits of 128 tokens at a time by 1f1b, of 96 by
-- harmony-pp, which keeps what passes between stages for a whole batch.
local CASES = {
   { name = "bert-base", vocabulary = "minilm_squad", files = { "vocab.txt",
      "tokenizer_config.json" },
      sizes = { hidden_size = 768, intermediate_size = 3072, num_hidden_layers = 12,
         num_attention_heads = 12 },
      task = function() return ft.task.squad { max_source = 384 } end,
      flags = "--train-file {data}/squad/train-v1.1-subset.json --eval-file "
         .. "{data}/squad/dev-v1.1-reconstructed.json --eval-limit 8 --max-source 384 --lr 3e-5 "
         .. "--batch 4 --micro-batches 4 --stages 24" },
   { name = "gpt2", vocabulary = "gpt2_wikitext_real", files = { "vocab.json",
      "merges.txt" },
      sizes = { n_embd = 768, n_layer = 12, n_head = 12, n_positions = 1024 },
      task = function() return ft.task.wikitext2 { block = args.block } end,
      flags = "--train-file {data}/wikitext2/wiki.valid.tokens --eval-file "
         .. "{data}/wikitext2/wiki.test.tokens --eval-limit 8 --block {block} --lr 5e-5 "
         .. "--batch 4 --micro-batches 4 --stages 13" },
}

--- A directory with a model's sizes and a vocabulary, without weights.
local function make_model(case)
   local from = args.models .. "/" .. case.vocabulary
   local dir = os.tmpname()
   os.remove(dir)
   core.sys.mkdir(dir)
   local config = core.json.read(from .. "/config.json")
   for key, value in pairs(case.sizes) do config[key] = value end
   core.sys.write_file(dir .. "/config.json", core.json.encode(config))
   for _, file in ipairs(case.files) do
      core.sys.write_file(dir .. "/" .. file, core.sys.read_file(from .. "/" .. file))
   end
   return dir
end

--- Flags of a run, as recipes read them.
local function arguments(case, dir, devices, swap)
   local words = {}
   local forward = args.forward_micro_batches
   local order = forward and "harmony-pp --forward-micro-batches " .. forward or "1f1b"
   local text = ("--model %s --init random --optimizer adamw --clip 0 --schedule %s "
      .. "--recompute %s --partition seq --steps %d --seed 1 "
      .. "--profile modelled --devices %s --swap %s "):format(dir, order, args.recompute,
      args.steps, devices, swap)
      .. case.flags:gsub("{(%w+)}", args)
   for word in text:gmatch("%S+") do words[#words + 1] = word end
   return recipe_args.read({ "A run.", preset = "fine_tune", max_source = true,
      block = { type = "int", min = 2, help = "tokens of an example" } }, words, "a run")
end

--- The plan with these flags, on training data alone, and all that a run is made of.
local function open(case, flags)
   local task, model = case.task(), ft.model(flags)
   local data = task:open(model, flags)
   data.eval = nil -- a pass over it would be most of the time
   return { plan = ft.plan { model = model, data = data, args = flags }, task = task, data = data,
      args = flags }
end

local function train(opened)
   local run, losses = ft.run(opened), {}
   for step in run:train() do losses[#losses + 1] = step.loss end
   local result = { losses = losses, seconds = run.seconds, waits = run.waits,
      copies = run.copies, measured = run.engine:measured() }
   run.engine:free()
   return result
end

local function state_of(plan)
   local bytes = 0
   for _, row in ipairs(plan.memory) do
      bytes = bytes + row.weights + row.gradients + row.optimizer + row.packed
         + row.turned
   end
   return bytes
end

local function indented(text) return (text:gsub("[^\n]+", "  %0")) end

--- Trains within the budget; what is printed of it, and what is compared with.
local function train_within(case, dir, budget)
   local small = open(case, arguments(case, dir, ("cpu:%d/%dB"):format(DEVICES, budget), "auto"))
   small.plan:check()
   local names, planned = {}, {}
   for d, device in ipairs(small.plan.devices) do names[d] = device.name end
   for line in tostring(small.plan):gmatch("[^\n]+") do
      if line:find("^swaps of") then planned[#planned + 1] = "  planned: " .. line end
   end
   return train(small), names, table.concat(planned, "\n")
end

--- Prints what devices held; how many were over the budget.
local function print_memory(names, within, without, budget)
   local over = 0
   for d, row in ipairs(within.measured) do
      over = over + (row.total > budget and 1 or 0)
      print(("  %s held %s of %s (%.1f %%), without a budget %s"):format(names[d],
         units.format_bytes(row.total), units.format_bytes(budget), 100 * row.total / budget,
         units.format_bytes(without.measured[d].total)))
   end
   return over
end

--- Trains with a budget and without, and prints both: losses that differ, devices over the budget,
-- the ratio of times.
local function compare(case)
   local dir = make_model(case)
   local state = state_of(open(case, arguments(case, dir, "cpu:1", "never")).plan)
   local budget = math.floor(SHARE * state)
   print(("%s: state %s, a device's budget %s (%g %%)"):format(case.name,
      units.format_bytes(state), units.format_bytes(budget), 100 * SHARE))
   local within, names, planned = train_within(case, dir, budget)
   collectgarbage() -- parameters hold on to the memory of a run
   collectgarbage()
   local without = train(open(case, arguments(case, dir, "cpu:" .. DEVICES, "never")))
   local over, differ, n = print_memory(names, within, without, budget), 0, #within.losses
   for i, loss in ipairs(without.losses) do
      differ = differ + (loss ~= within.losses[i] and 1 or 0)
   end
   local ratio = within.seconds / without.seconds
   print(("  losses of %d steps, first %.4f, last %.4f: %d differ from those without a budget")
      :format(n, within.losses[1], within.losses[n], differ))
   print(("  time: %.3f of that without a budget (%s and %s a step)"):format(ratio,
      units.format_seconds(within.seconds / n), units.format_seconds(without.seconds / n)))
   print(planned)
   print(indented(waits.text(within.waits, names)))
   print(indented(copies.text(within.copies, names)))
   for _, file in ipairs(case.files) do os.remove(dir .. "/" .. file) end
   os.remove(dir .. "/config.json")
   os.remove(dir)
   return differ, over, ratio
end

local differ, over, slowest = 0, 0, 0
for _, case in ipairs(CASES) do
   if not args.only or args.only == case.name then
      local d, o, ratio = compare(case)
      differ, over, slowest = differ + d, over + o, math.max(slowest, ratio)
      collectgarbage()
   end
end
peer.gate("quarter-differ", differ)
peer.gate("quarter-over", over)
peer.gate("quarter-time", slowest)
