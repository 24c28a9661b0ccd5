-- Fewer weights that are trained: all of them, biases alone (BitFit, Ben Zaken et al., ACL 2022),
-- or adapters of low rank (LoRA, Hu et al., ICLR 2022). With --out, a run leaves its adapters as
-- the Python package peft reads them, and ftpipe convert adds them to the weights.
-- Run: ftpipe examples/lora.lua [--steps N]
local ft = require("ftpipe")

--- Flags of a run that trains what `changes` say.
local function arguments(changes)
   local declared = {
      "Fine-tune BERT to find answers, with all weights, biases alone, or adapters.",
      preset = "fine_tune",
      model = { default = "embedded:bert_tiny" }, devices = { default = "cpu:2" },
      batch = { default = 32 }, steps = { default = 30 }, lr = { default = 3e-3 },
      lora = { default = false }, profile = { default = "modelled" },
   }
   for name, rule in pairs(changes) do declared[name] = rule end
   return ft.args(declared)
end

local task = ft.task.squad { max_source = 96, max_query = 32 }

--- Trains; gives the plan, and the losses at first and at last.
local function train(changes)
   local args = arguments(changes)
   local model = ft.model(args)
   local data = task:open(model, args)
   local plan = ft.plan { model = model, data = data, args = args }
   local run, losses = ft.run { plan = plan, task = task, data = data, args = args }, {}
   for step in run:train() do losses[#losses + 1] = step.loss end
   return plan, losses[1], losses[#losses]
end

--- Bytes of gradients and optimizer on all devices.
local function kept(plan)
   local bytes = 0
   for _, row in ipairs(plan.memory) do bytes = bytes + row.gradients + row.optimizer end
   return bytes
end

-- All weights: a gradient and two numbers of AdamW for each.
local all, first, last = train {}
print(last < first)                                    --> true

-- Biases alone, and the new head: a fiftieth of the numbers.
local biases, first_of_biases, last_of_biases = train {
   train_only = { default = "*.bias,qa_outputs.*" },
}
print(first_of_biases == first)                        --> true
print(last_of_biases < first, kept(biases) < kept(all) / 20)   --> true	true

-- Adapters of rank 8 beside queries and values. B begins with zeros: training begins where the
-- model is.
local adapted, first_of_adapters, last_of_adapters = train { lora = { default = 8 } }
print(first_of_adapters == first)                      --> true
print(last_of_adapters < first, kept(adapted) < kept(all) / 5)   --> true	true
