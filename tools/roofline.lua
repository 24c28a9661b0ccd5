--- What a step costs on paper: ftpipe tools/roofline.lua [DETAIL]
--
-- For models and lengths that people fine-tune: FLOP and bytes of each kind of operator, and the
-- least time that they take on five cards, the longer of arithmetic and traffic, at the parts of
-- the peaks that work reaches (src/device/cards.c). Every input comes once, every output goes once.
-- Without recomputation; optimizers by the bytes of their states. Operators are told in f32,
-- outside the tensor cores; steps also in the other precisions that runs on cards have for the
-- model, whose products with weights and of attention are of the tensor cores: in 16 bits values
-- are kept so, and weights are rounded once after each update. The share of the peak is that of all
-- FLOP of a step in its time: the model FLOP utilisation. DETAIL (a model) prints its operators.

local core = require("ftpipe.core")
local models = require("ftpipe.model")
local plans = require("ftpipe.plan")
local precision = require("ftpipe.trained.precision")

local CARDS = { "2080ti", "3090", "a100", "h100", "h200" }
-- Name, model, samples of a micro-batch, micro-batches, source, target, optimizer and its bytes for
-- each parameter: AdamW reads p, g, m, v and writes p, m, v; Adafactor reads g three times and p
-- twice, and writes p.
local CASES = {
   { "T5-3B 320/8", "t5-3b", 8, 5, 320, 8, "adafactor", 24 },
   { "T5-3B 512/4", "t5-3b", 4, 5, 512, 4, "adafactor", 24 },
   { "GPT-2 XL 1024", "gpt2-xl", 1, 4, 1024, 4, "adamw", 28 },
   { "BERT-large 384", "bert-large", 24, 1, 384, 4, "adamw", 28 },
}

local cards = {}
for _, card in ipairs(core.engine.cards()) do cards[card.name] = card end

--- Bytes of the weights that a node multiplies.
local function weight_bytes(node, params)
   local bytes = 0
   for _, number in ipairs(node.params) do
      local dims = params[number].dims
      if #dims > 1 then bytes = bytes + 4 * dims[1] * dims[2] end
   end
   return bytes
end

--- Ends the program where the models have none of that name.
local function check_model(name)
   local known = {}
   for i, case in ipairs(CASES) do
      if case[2] == name then return end
      if i == 1 or CASES[i - 1][2] ~= case[2] then known[#known + 1] = case[2] end
   end
   io.stderr:write(("roofline: model '%s', expected one of %s\n"):format(name,
      table.concat(known, ", ")))
   os.exit(2, true)
end

--- The least time of a node on a card.
local function seconds_of(node, params, card)
   local rate = node.numbers == "f32" and card.flops_per_s or card[node.numbers .. "_flops_per_s"]
   local half = node.numbers == "bf16" or node.numbers == "f16"
   local bytes = node.bytes - (half and weight_bytes(node, params) / 2 or 0)
   return math.max(node.flops / rate, bytes / card.bytes_per_s)
end

--- Operators of a micro-batch by row: nodes, flops, bytes, seconds by card; parameters, and those
-- that products read in 16 bits.
local function operators(case, numbers)
   local plan = plans.new {
      model = models.open { model = case[2], init = "random" }, devices = "sim:1x4000GB",
      batch = case[3] * case[4], micro_batches = case[4], buckets = { case[5] },
      lengths = { target = case[6] }, partition = "seq", schedule = "1f1b", recompute = "never",
      optimizer = case[7], hypers = {}, clip = 0, seed = 1, dropout = 0.1, steps = 1, batches = 1,
   }
   local graph, rows, names = plan.graphs[1], {}, {}
   precision.apply(numbers, graph, {}) -- no CPU
   local list, packed = graph:params(), {}
   for i = 1, graph:counts().nodes do
      local node = graph:node(i)
      local row = rows[node.op]
      if not row then
         row = { op = node.op, nodes = 0, flops = 0, bytes = 0, seconds = {} }
         rows[node.op], names[#names + 1] = row, row
      end
      row.nodes, row.flops, row.bytes = row.nodes + 1, row.flops + node.flops,
         row.bytes + node.bytes
      for _, name in ipairs(CARDS) do
         row.seconds[name] = (row.seconds[name] or 0) + seconds_of(node, list, cards[name])
      end
      if node.numbers == "bf16" or node.numbers == "f16" then
         for _, number in ipairs(node.params) do packed[number] = true end
      end
   end
   table.sort(names, function(a, b) return a.seconds.h100 > b.seconds.h100 end)
   local params, halves = 0, 0
   for number, param in ipairs(list) do
      local n = 1
      for _, dim in ipairs(param.dims) do n = n * dim end
      params = params + n
      if packed[number] and #param.dims > 1 then halves = halves + n end
   end
   return names, params, halves
end

--- All of them in a step: { nodes =, flops =, bytes =, seconds = by card }, and the seconds of the
-- update.
local function step_of(case, rows, params, halves)
   local step = { nodes = 0, flops = 0, bytes = 0, seconds = {} }
   for _, row in ipairs(rows) do
      for _, key in ipairs { "nodes", "flops", "bytes" } do
         step[key] = step[key] + case[4] * row[key]
      end
      for name, seconds in pairs(row.seconds) do
         step.seconds[name] = (step.seconds[name] or 0) + case[4] * seconds
      end
   end
   local update = { seconds = {} }
   for _, name in ipairs(CARDS) do
      update.seconds[name] = (case[8] * params + 6 * halves) / cards[name].bytes_per_s
      step.seconds[name] = step.seconds[name] + update.seconds[name]
   end
   return step, update
end

--- A card's peak for products of such numbers; 0: it has none.
local function peak_of(card, numbers)
   if numbers == "f32" then return card.flops_per_s / card.products end
   return card[numbers .. "_flops_per_s"] / card.tensor
end

--- Two lines: the time of a step in a precision, and its share of the peak.
local function print_step(numbers, step)
   local times, shares = {}, {}
   for i, name in ipairs(CARDS) do
      local peak = peak_of(cards[name], numbers)
      times[i] = peak > 0 and ("%9.2f"):format(1e3 * step.seconds[name]) or ("%9s"):format("-")
      shares[i] = peak > 0 and ("%7.0f %%"):format(100 * step.flops / step.seconds[name] / peak)
         or ("%9s"):format("-")
   end
   print(("   %-50s %s"):format("a step in " .. numbers, table.concat(times)))
   print(("   %-50s %s"):format("   of the peak of such products", table.concat(shares)))
end

local function milliseconds(row, factor)
   local cells = {}
   for i, name in ipairs(CARDS) do
      cells[i] = ("%9.2f"):format(1e3 * factor * row.seconds[name])
   end
   return table.concat(cells)
end

if arg[1] then check_model(arg[1]) end
print(("%-26s %6s %9s %9s "):format("", "nodes", "GFLOP", "GB")
   .. ("%9s%9s%9s%9s%9s   ms"):format(unpack(CARDS)))
for _, case in ipairs(CASES) do
   if not arg[1] or arg[1] == case[2] then
      local rows, params = operators(case, "f32")
      local step, update = step_of(case, rows, params, 0)
      print(("%s: %.0f M parameters, %d x %d samples, %s"):format(case[1], params / 1e6, case[4],
         case[3], case[7]))
      for _, row in ipairs(rows) do
         if arg[1] or row.seconds.h100 * case[4] > 0.01 * step.seconds.h100 then
            print(("   %-23s %6d %9.1f %9.2f %s"):format(row.op, case[4] * row.nodes,
               case[4] * row.flops / 1e9, case[4] * row.bytes / 1e9, milliseconds(row, case[4])))
         end
      end
      print(("   %-23s %6s %9s %9.2f %s"):format("update", "", "", case[8] * params / 1e9,
         milliseconds(update, 1)))
      print(("   %-23s %6d %9.1f %9.2f %s"):format("step", step.nodes, step.flops / 1e9,
         step.bytes / 1e9 + case[8] * params / 1e9, milliseconds(step, 1)))
      local shares = {}
      for i, name in ipairs(CARDS) do
         shares[i] = ("%7.0f %%"):format(100 * step.flops / step.seconds[name]
            / cards[name].flops_per_s)
      end
      print(("   %-50s %s"):format("of the rate that f32 products reach", table.concat(shares)))
      print_step("f32", step)
      local outgrows_f16 = models.open { model = case[2], init = "random" }.family.outgrows_f16
      for _, row in ipairs(precision.rows) do
         if row.rate and not (row.scales and outgrows_f16) then
            print_step(row.name, (step_of(case, operators(case, row.name))))
         end
      end
   end
end
