--- Comparison with the reference outputs of another framework.
--
-- A golden directory is a checkpoint with golden.json and golden.safetensors beside it: inputs,
-- loss, logits, gradients, the losses of ten optimizer steps, greedy answers. What is absent is not
-- checked.

local adapters = require("ftpipe.model.adapters")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- pointer()
local decode = require("ftpipe.data.decode")
local feed = require("ftpipe.data.feed")
local generation = require("ftpipe.data.predict.generation")
local keys = require("ftpipe.base.keys")
local models = require("ftpipe.model")

local M = {}

--- Largest errors allowed. Gradients: of the tensor's largest magnitude, or of a thousandth of the
-- largest gradient of all if that is more.
M.tolerance = { loss = 1e-5, logits = 1e-5, grad = 1e-4, steps = 1e-4 }

--- In other precisions only losses are compared.
M.rounded_tolerance = { loss = 1e-2, steps = 2e-2 }
local GRAD_FLOOR = 1e-3

-- ---------------------------------------------------------------------------------------------
-- Comparing.

--- Whether an error is worse than another; NaN is the worst.
local function worse(a, b) return a > b or a ~= a end

--- A difference as a part of a magnitude; none where both are zero, as with a loss over one choice.
local function part(difference, magnitude)
   return difference == 0 and 0 or difference / magnitude
end

--- Largest magnitude of a tensor, and largest difference from another.
local function extremes(ours, theirs)
   local a, b, n = ours:pointer(), theirs:pointer(), ours:count()
   local largest, worst = 0, 0
   for i = 0, n - 1 do
      local difference = math.abs(a[i] - b[i])
      if worse(difference, worst) then worst = difference end
      if math.abs(b[i]) > largest then largest = math.abs(b[i]) end
   end
   return largest, worst
end

local function same_shape(ours, theirs)
   local a, b = ours:shape(), theirs:shape()
   if #a ~= #b then return false end
   for i = 1, #a do
      if a[i] ~= b[i] then return false end
   end
   return true
end

local Report = {}
Report.__index = Report

--- Notes one figure: an error and what it may be.
function Report:note(what, worst, allowed)
   local ok = worst <= allowed
   if not ok then self.failed = self.failed + 1 end
   self.rows[#self.rows + 1] = { what = what, error = worst, allowed = allowed, ok = ok }
end

function Report:note_exact(what, ok, detail)
   if not ok then self.failed = self.failed + 1 end
   self.rows[#self.rows + 1] = { what = what, ok = ok, detail = detail }
end

--- Lines for people.
function Report:lines()
   local lines = {}
   for _, row in ipairs(self.rows) do
      local verdict = row.ok and "ok" or "FAILED"
      if row.error then
         lines[#lines + 1] = ("  %-44s worst %.2e of %.0e  %s"):format(row.what, row.error,
            row.allowed, verdict)
      else
         lines[#lines + 1] = ("  %-44s %s  %s"):format(row.what, row.detail or "", verdict)
      end
   end
   return lines
end

-- ---------------------------------------------------------------------------------------------
-- Inputs, by family: a batch (tensors by name), and the size of the training graph.

local families = {}

local function int_tensor(rows) return core.tensor.from_table(rows, "i32") end

--- Labels shifted right; what does not count becomes padding.
local function shift_right(labels, start, pad)
   local rows = {}
   for b, row in ipairs(labels) do
      rows[b] = { start }
      for t = 1, #row - 1 do rows[b][t + 1] = row[t] == -100 and pad or row[t] end
   end
   return rows
end

local function count_labels(labels)
   local n = 0
   for _, row in ipairs(labels) do
      for _, id in ipairs(row) do n = n + (id == -100 and 0 or 1) end
   end
   return n
end

local function ones_like(rows)
   local mask = {}
   for b, row in ipairs(rows) do
      mask[b] = {}
      for t = 1, #row do mask[b][t] = 1 end
   end
   return mask
end

function families.t5(config, inputs)
   local ids, labels = inputs.input_ids, inputs.labels
   local weight = core.tensor.zeros({ 1 }):fill(1 / count_labels(labels))
   local mask = int_tensor(inputs.attention_mask or ones_like(ids))
   local decoder_ids = shift_right(labels, config.decoder_start_token_id, config.pad_token_id)
   return {
      input_ids = int_tensor(ids), mask = mask, decoder_ids = int_tensor(decoder_ids),
      labels = int_tensor(labels), loss_weight = weight,
   }, { batch = #ids, source = #ids[1], target = #labels[1], dropout = 0, logits = true }
end

families.mt5 = families.t5

--- Labels of the next tokens; the last position has none.
local function shift_left(labels)
   local rows = {}
   for b, row in ipairs(labels) do
      rows[b] = {}
      for t = 1, #row do rows[b][t] = row[t + 1] or -100 end
   end
   return rows
end

function families.gpt2(_, inputs)
   local ids, labels = inputs.input_ids, shift_left(inputs.labels or inputs.input_ids)
   local weight = core.tensor.zeros({ 1 }):fill(1 / count_labels(labels))
   return { input_ids = int_tensor(ids), labels = int_tensor(labels), loss_weight = weight },
      { batch = #ids, source = #ids[1], dropout = 0, logits = true }
end

--- Positions past the sequence do not count; those before it are its first.
local function positions_within(positions, length)
   local list, n = {}, 0
   for b, position in ipairs(positions) do
      local counts = position < length
      list[b] = counts and math.max(position, 0) or -100
      n = n + (counts and 1 or 0)
   end
   return int_tensor(list), core.tensor.zeros({ 1 }):fill(n > 0 and 0.5 / n or 0)
end

function families.bert(_, inputs)
   local ids = inputs.input_ids
   local types = inputs.token_type_ids and int_tensor(inputs.token_type_ids)
      or core.tensor.zeros({ #ids, #ids[1] }, "i32")
   local first, first_weight = positions_within(inputs.start_positions, #ids[1])
   local last, last_weight = positions_within(inputs.end_positions, #ids[1])
   return {
      input_ids = int_tensor(ids), token_type_ids = types,
      mask = int_tensor(inputs.attention_mask or ones_like(ids)),
      start_positions = first, start_weight = first_weight,
      end_positions = last, end_weight = last_weight,
   }, { batch = #ids, source = #ids[1], dropout = 0, logits = true }
end

-- ---------------------------------------------------------------------------------------------
-- Checks.

local function load_params(case)
   local params, by_name = {}, {}
   for i, param in ipairs(case.list) do
      params[i] = core.tensor.zeros(param.dims)
      by_name[param.name] = params[i]
   end
   case.model:fill(case.list, { tensor_of = function(i) return params[i] end })
   return params, by_name
end

local function read_golden(case, name)
   local spec = case.archive:spec(name)
   if not spec then return nil end
   local tensor = core.tensor.zeros(spec.dims)
   case.archive:read(name, tensor)
   return tensor
end

--- The time positions of (B, T, V) that a list names, counted from 0.
local function at_positions(tensor, positions)
   local B, T, V = unpack(tensor:shape())
   local some = core.tensor.zeros { B, #positions, V }
   local from, to = tensor:pointer(), some:pointer()
   for b = 0, B - 1 do
      for i, t in ipairs(positions) do
         local source, target = (b * T + t) * V, (b * #positions + i - 1) * V
         for v = 0, V - 1 do to[target + v] = from[source + v] end
      end
   end
   return some
end

local function check_loss(case, report, out)
   local loss = out.loss:get()
   report:note("loss", part(math.abs(loss - case.golden.loss), math.abs(case.golden.loss)),
      case.tolerance.loss)
end

local function check_logits(case, report, out)
   if case.golden.logit_positions then
      out.logits = at_positions(out.logits, case.golden.logit_positions)
   end
   for _, name in ipairs { "logits", "start_logits", "end_logits" } do
      local logits = read_golden(case, name)
      if logits and not same_shape(out[name], logits) then
         report:note_exact(name, false, "another shape")
      elseif logits then
         local largest, worst = extremes(out[name], logits)
         report:note(name, part(worst, largest), case.tolerance.logits)
      end
   end
end

--- The stored gradients by parameter number, and the largest magnitude among them.
local function read_gradients(case)
   local stored, largest = {}, 0
   for i, param in ipairs(case.list) do
      stored[i] = read_golden(case, "grad." .. param.name)
      if stored[i] then largest = math.max(largest, (extremes(stored[i], stored[i]))) end
   end
   return stored, largest
end

local function check_gradients(case, report, program)
   local stored, largest = read_gradients(case)
   local worst_all, worst_name, n = 0, "none", 0
   for i, param in ipairs(case.list) do
      if stored[i] then
         local ours = program:grad(i)
         if case.tamper then case.tamper(param.name, ours) end
         local magnitude, worst = extremes(ours, stored[i])
         local relative = part(worst, math.max(magnitude, GRAD_FLOOR * largest))
         if worse(relative, worst_all) then worst_all, worst_name = relative, param.name end
         n = n + 1
      end
   end
   if n > 0 then
      report:note(("gradients (%d), %s"):format(n, worst_name), worst_all, case.tolerance.grad)
   end
end

--- 2-norm of a tensor's numbers.
local function norm_of(tensor)
   local data, sum = tensor:pointer(), 0
   for i = 0, tensor:count() - 1 do sum = sum + data[i] * data[i] end
   return math.sqrt(sum)
end

--- Norms of gradients, where only these are stored; with the floor that gradients have.
local function check_gradient_norms(case, report, program)
   local theirs = case.golden.grad_norms
   if not theirs then return end
   local largest, worst_all, worst_name, n = 0, 0, "none", 0
   for _, norm in pairs(theirs) do largest = math.max(largest, norm) end
   for i, param in ipairs(case.list) do
      local norm = theirs[param.name]
      if norm then
         local relative = part(math.abs(norm_of(program:grad(i)) - norm),
            math.max(norm, GRAD_FLOOR * largest))
         if worse(relative, worst_all) then worst_all, worst_name = relative, param.name end
         n = n + 1
      end
   end
   report:note(("gradient norms (%d), %s"):format(n, worst_name), worst_all, case.tolerance.grad)
end

local hyper_names = {
   adamw = function(s)
      return { beta1 = s.betas[1], beta2 = s.betas[2], eps = s.eps, weight_decay = s.weight_decay }
   end,
   sgd = function(s) return { momentum = s.momentum } end,
   adafactor = function(s)
      return { eps1 = s.eps[1], eps2 = s.eps[2], clip_threshold = s.clip_threshold,
         decay_rate = -s.decay_rate }
   end,
}

--- Ten steps of an optimizer through the engine, on one device.
local function train(case, name, steps)
   local settings = case.golden.optimizers[name]
   local stage = {}
   for n = 1, case.graph:counts().forward do stage[n] = 1 end
   local plan = core.engine.plan {
      graphs = { case.graph }, node_stage = stage, stage_device = { 1 }, devices = "cpu:1",
      schedule = "sequential", batches = steps,
   }
   local blueprint = core.engine.blueprint {
      graphs = { case.graph }, plan = plan, devices = "cpu:1",
      micro_batch_size = case.size.batch, optimizer = name, hypers = hyper_names[name](settings),
   }
   local run = blueprint:run()
   case.model:fill(case.list, { tensor_of = function(i) return run:param(i) end })
   run:refresh()
   run:begin(steps, 1, false)
   local losses, fed = {}, 0
   while #losses < steps do
      while fed < steps and run:wants() do
         run:feed(case.inputs, 1, settings.lr)
         fed = fed + 1
      end
      losses[#losses + 1] = run:next(60).loss
   end
   run:finish()
   run:free()
   return losses
end

local function check_steps(case, report)
   for _, name in ipairs(keys(case.golden.losses or {})) do
      local theirs = case.golden.losses[name]
      local ours, worst = train(case, name, #theirs), 0
      for i, loss in ipairs(ours) do
         local difference = part(math.abs(loss - theirs[i]), math.abs(theirs[i]))
         if worse(difference, worst) then worst = difference end
      end
      report:note(("%d losses, %s"):format(#theirs, name), worst, case.tolerance.steps)
   end
end

-- By family: greedy rows as the reference stores them, as far as they are made.
local greedy = {}

--- T5: the start token first.
function greedy.t5(case, by_name, most)
   local rules = generation.rules(case.model)
   local decoder = decode.greedy(case.model, by_name, {
      batch = case.size.batch, source = case.size.source, threads = 1, target = most, rules = rules,
   })
   local rows = decode.run(decoder, case.batch.input_ids, case.batch.mask)
   for _, row in ipairs(rows) do table.insert(row, 1, rules.start) end
   return rows
end

greedy.mt5 = greedy.t5

--- GPT-2: the prompt first.
function greedy.gpt2(case, by_name, most)
   local prompts = case.golden.inputs.input_ids
   local limits = {}
   for b = 1, #prompts do limits[b] = most end
   local rows = decode.continue(case.model, by_name, prompts,
      { most = limits, threads = 1, rules = generation.rules(case.model) })
   for b, row in ipairs(rows) do
      for t, id in ipairs(prompts[b]) do table.insert(row, t, id) end
   end
   return rows
end

--- Rows end with 0.
local function check_greedy(case, report, by_name)
   local wanted = case.golden.greedy
   if not wanted then return end
   local rows = greedy[case.golden.family](case, by_name, case.golden.greedy_args.max_new_tokens)
   local equal, total = 0, #wanted
   for b, row in ipairs(wanted) do
      local same = #rows[b] <= #row
      for t = 1, #row do same = same and row[t] == (rows[b][t] or 0) end
      if same then equal = equal + 1 end
   end
   report:note_exact("greedy rows", equal == total, ("%d of %d equal"):format(equal, total))
end

--- The graph of training: beside adapters all else is frozen.
local function graph_of(case)
   local graph = case.model.family.training(case.model.config, copy(case.size, { grads = false }))
   for _, param in ipairs(case.model.lora and graph:params() or {}) do
      if not adapters.is(param.name) then graph:freeze(param.name) end
   end
   return graph:grad(graph:find("loss"))
end

--- What is computed once, on cores.
local function check_once(case, report, params, rounds)
   local program = core.program.new(case.graph, { grads = true })
   local out = program:run(params, case.inputs)
   check_loss(case, report, out)
   if rounds then return end
   check_logits(case, report, out)
   check_gradients(case, report, program)
   check_gradient_norms(case, report, program)
end

--- Checks one directory.
-- @tparam string dir
-- @tparam[opt] table options round (called with (graph, device), for other precisions: losses alone
--   are compared, on cards those of the ten steps, as what gives the rest is of CPUs), tamper
--   (called with (name, gradient) before each comparison, for tests of the checker itself)
-- @treturn report rows, failed (how many), :lines()
function M.check(dir, options)
   options = options or {}
   local rounds = options.round
   local device = core.engine.devices("cpu:1")[1] -- a card, in the program that tests those
   local case = {
      golden = core.json.read(dir .. "/golden.json"),
      archive = core.io.archive(dir .. "/golden.safetensors"),
      model = models.open { model = dir },
      tamper = options.tamper,
      tolerance = rounds and M.rounded_tolerance or M.tolerance,
   }
   local batch_of = families[case.golden.family]
   if not batch_of then
      core.fail("unsupported",
         ("%s: golden.json: family is '%s', expected one of: %s"):format(dir,
            tostring(case.golden.family), table.concat(keys(families), ", ")), 6)
   end
   local report = setmetatable({ rows = {}, failed = 0 }, Report)
   case.batch, case.size = batch_of(case.model.config, case.golden.inputs)
   case.graph = graph_of(case)
   if rounds then rounds(case.graph, device) end
   case.inputs = feed.list(case.graph:inputs(), case.batch)
   case.list = case.graph:params()
   local params, by_name = load_params(case)
   if not rounds or device.in_host then check_once(case, report, params, rounds) end
   check_steps(case, report)
   if not rounds then check_greedy(case, report, by_name) end
   return report
end

return M
