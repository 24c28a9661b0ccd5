--- Every run computes the same within a budget as without: small models, in devices whose state is
-- several times what they hold.
--
--    ftpipe bench/budgets.lua [STEPS [ORDER]]        10, all of them
--
-- Bits do not depend on how busy a machine is.

local copy = require("ftpipe.base.copy")
local pipeline = require("spec.support.pipeline")

io.stdout:setvbuf("line")
local steps = tonumber(arg[1]) or 10
local STAGES = 12

-- Orders: one micro-batch after the other, all of them through a stage at once, and through packs of
-- three stages forward and two back; of a pipeline, and of devices that have all of the model. The
-- third word: micro-batches of a batch, and how many it has forward.
local ORDERS = {
   "1f1b", "harmony-pp", "harmony-pp 3/2", "data-parallel", "harmony-dp", "harmony-dp 3/2",
   "harmony-pp 2/1 6/3",
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
   local schedule, packs, micros, forward = order:match("^(%S+) ?(%S*) ?(%d*)/?(%d*)$")
   return {
      family = family, schedule = schedule, packs = packs ~= "" and packs or nil,
      forward_micro_batches = tonumber(forward),
      devices = "cpu:" .. devices, stages = STAGES,
      batch = 12, micro_batches = tonumber(micros) or 12, steps = steps, longest = true,
      d_model = 48, d_kv = 16, d_ff = 192,
   }
end

local function state_of(memory)
   return memory.weights + memory.gradients + memory.optimizer + memory.packed
end

--- The largest of all devices.
local function most(list, value)
   local n = 0
   for _, memory in ipairs(list) do n = math.max(n, value(memory)) end
   return n
end

local function total_of(memory) return memory.total end

--- Bytes of the whole model's state, on one device.
local function state_bytes(o)
   local plan = pipeline.plan(copy(o, {
      devices = "cpu:1", schedule = "harmony-pp", stages = 1, swap = "never",
   }))
   return state_of(plan.memory[1])
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

local ran, differ, refused = 0, 0, 0
for _, family in ipairs { "t5", "gpt2", "bert" } do
   for _, order in ipairs(ORDERS) do
      for devices = 1, 4 do
         local o, ratios = options(family, order, devices), {}
         local whole = state_bytes(o)
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
                  ratios[#ratios + 1] = ("%s %.1f"):format(update, whole / budget)
               end
               collectgarbage()
            end
         end
         print(("%s %s on %d: the model's state is so many times the least budget: %s"):format(
            family, order, devices, table.concat(ratios, ", ")))
      end
   end
end
print(("%d runs of %d steps; %d differ from those without a budget, %d refused"):format(ran, steps,
   differ, refused))
print(("gate budgets-differ %d"):format(differ + refused))
os.exit(differ + refused == 0 and 0 or 1, true)
