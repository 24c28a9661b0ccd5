--- Every run computes the same within a budget as without: small models, whose state is at least
-- four times what a device may hold.
--
--    ftpipe bench/budgets.lua [STEPS [ORDER]]        10, all of them
--
-- State is weights, gradients, the optimizer's and packed copies, held against all that a device
-- has, with activations, workspace and buffers: the model's, as one device has it, and that of all
-- devices together without a budget, which is more where each has a replica. Bits do not depend on
-- how busy a machine is.

local copy = require("ftpipe.base.copy")
local pipeline = require("spec.support.pipeline")

io.stdout:setvbuf("line")
local steps = tonumber(arg[1]) or 10
local STAGES, MICROS = 18, 4
local LAYERS = { t5 = 3, gpt2 = 6, bert = 6 } -- T5 has as many in its decoder

-- Orders: one micro-batch after the other, all of them through a stage at once, and through packs
-- of three stages forward and two back; of a pipeline, and of devices that have all of the model.
-- The third word: micro-batches forward.
local ORDERS = {
   "1f1b", "harmony-pp", "harmony-pp 3/2", "data-parallel", "harmony-dp", "harmony-dp 3/2",
   "harmony-pp 2/1 2",
}
if arg[2] then ORDERS = { arg[2] } end
-- Of the least that a device can have; nil: no budget.
local SHARES = { 1, 1.1, 2, false }

local function is_same(a, b)
   if type(a) ~= "table" then return a == b end
   for key, value in pairs(a) do
      if not is_same(value, b[key]) then return false end
   end
   return true
end

local function options(family, order, devices)
   local schedule, packs, forward = order:match("^(%S+) ?(%S*) ?(%d*)$")
   local micros = math.ceil(MICROS / devices) * devices -- replicas have as many each
   return {
      family = family, schedule = schedule, packs = packs ~= "" and packs or nil,
      forward_micro_batches = tonumber(forward),
      devices = "cpu:" .. devices, stages = STAGES, layers = LAYERS[family],
      batch = micros, micro_batches = micros, steps = steps, longest = true,
      d_model = 96, d_kv = 32, d_ff = 384,
   }
end

local function state_of(memory)
   return memory.weights + memory.gradients + memory.optimizer + memory.packed
      + memory.turned
end

--- The largest of all devices.
local function most(list, value)
   local n = 0
   for _, memory in ipairs(list) do n = math.max(n, value(memory)) end
   return n
end

local function total_of(memory) return memory.total end

--- Bytes of state that all devices of a plan have together.
local function states_of(plan)
   local bytes = 0
   for _, memory in ipairs(plan.memory) do bytes = bytes + state_of(memory) end
   return bytes
end

--- Bytes of the whole model's state, on one device.
local function state_bytes(family)
   return states_of(pipeline.plan(copy(options(family, "harmony-pp", 1), {
      stages = 1, swap = "never",
   })))
end

--- What is wrong with a run within the budget, beside one without; nil: nothing.
local function fault_of(judge, run, budget)
   if not is_same(judge.losses, run.losses) then return "other losses" end
   if not is_same(judge.params, run.params) then return "other parameters" end
   for d, memory in ipairs(run.measured) do
      if memory.total > run.plan.memory[d].total or budget and memory.total > budget then
         return ("cpu:%d held %d bytes"):format(d - 1, memory.total)
      end
   end
end

local ran, differ, refused, cases, many, fewest = 0, 0, 0, 0, 0, math.huge

--- How many times its budget a device's model and all devices' state are, in words.
local function ratios_of(update, model, all, budget)
   cases, many = cases + 1, many + (model >= 4 * budget and 1 or 0)
   fewest = math.min(fewest, all / budget)
   return ("%s %.1f and %.1f"):format(update, model / budget, all / budget)
end

for _, family in ipairs { "t5", "gpt2", "bert" } do
   local whole = state_bytes(family)
   for _, order in ipairs(ORDERS) do
      for devices = 1, 4 do
         local o, ratios = options(family, order, devices), {}
         local judge = pipeline.train(o)
         for _, update in ipairs { "device", "host" } do
            local tight = pipeline.plan(copy(o, { swap = "always", update = update }))
            local least = most(tight.memory, total_of)
            for _, share in ipairs(SHARES) do
               local budget = share and math.ceil(share * least) or nil
               local name = ("%s %s on %d, update on %s, budget %s"):format(family, order,
                  devices, update, share and share .. " x least" or "none")
               local ok, run = pcall(pipeline.train, copy(o, {
                  swap = "auto", update = update,
                  devices = o.devices .. (budget and ("/%dB"):format(budget) or ""),
               }))
               local fault = ok and fault_of(judge, run, budget)
               ran = ran + 1
               if not ok then
                  refused = refused + 1
                  print(name .. ": refused: " .. tostring(run.message or run):sub(1, 300))
               elseif fault then
                  differ = differ + 1
                  print(name .. ": " .. fault)
               elseif share == 1 then
                  ratios[#ratios + 1] = ratios_of(update, whole, states_of(judge.plan), budget)
               end
               collectgarbage()
            end
         end
         print(("%s %s on %d: so many times the least budget are the model's state and that of all "
            .. "devices: %s"):format(family, order, devices, table.concat(ratios, ", ")))
      end
   end
end
print(("%d runs of %d steps; %d differ from those without a budget, %d refused"):format(ran, steps,
   differ, refused))
print(("the model's state is at least 4 times the least budget in %d of %d cases, that of all "
   .. "devices at least %.1f times"):format(many, cases, fewest))
print(("gate budgets-differ %d"):format(differ + refused))
print(("gate budgets-state %.2f"):format(fewest))
os.exit(differ + refused == 0 and 0 or 1, true)
