--- Small random models and synthetic batches, trained through a pipeline: what specs of the engine
-- share.

local core = require("ftpipe.core")
local feed = require("ftpipe.data.feed")
local models = require("ftpipe.model")
local plans = require("ftpipe.plan")
local ranks = require("ftpipe.run.ranks")

local M = {}

--- Options with which `train` runs when it is not told otherwise.
local presets = {
   family = "t5", devices = "cpu:1", schedule = "1f1b", recompute = "never", partition = "seq",
   batch = 8, micro_batches = 4, steps = 20, optimizer = "adamw", rate = 3e-3, dropout = 0.1,
   clip = 0,
   seed = 7, threaded = true, gated = false, tied = true, layers = 3,
   vocab_size = 61, d_model = 24, d_kv = 5, d_ff = 40,
   longest = false, -- all batches in the longer bucket, not every second one
}

--- Options of `train`, with the presets of those that are not given.
function M.with_presets(options)
   local o = {}
   for key, value in pairs(presets) do o[key] = value end
   for key, value in pairs(options or {}) do o[key] = value end
   return o
end

-- By family: config.json of a small model of odd sizes, and one synthetic batch of ragged rows.
local families = { t5 = {}, bert = {}, gpt2 = {} }

local SOURCES = { 12, 16 }
local TARGET = 5

--- T5: so many encoder and decoder blocks.
function families.t5.config(o)
   return {
      model_type = "t5", vocab_size = o.vocab_size, d_model = o.d_model, d_kv = o.d_kv,
      d_ff = o.d_ff, num_layers = o.layers, num_heads = 3,
      feed_forward_proj = o.gated and "gated-gelu" or "relu",
      tie_word_embeddings = o.tied,
   }
end

function families.bert.config(o)
   return {
      model_type = "bert", vocab_size = o.vocab_size, hidden_size = o.d_model,
      intermediate_size = o.d_ff, num_hidden_layers = o.layers, num_attention_heads = 3,
      max_position_embeddings = 20, type_vocab_size = 3, hidden_act = o.gated and "gelu" or "relu",
   }
end

function families.gpt2.config(o)
   return {
      model_type = "gpt2", vocab_size = o.vocab_size, n_embd = o.d_model, n_inner = o.d_ff,
      n_layer = o.layers, n_head = 3, n_positions = 20, tie_word_embeddings = o.tied,
      activation_function = o.gated and "gelu_new" or "relu",
   }
end

--- A model by its config.json, without files.
function M.model_of(raw)
   local family = require("ftpipe.model." .. raw.model_type)
   return setmetatable(
      { name = "spec", raw = raw, config = family.config(raw), family = family, notes = {} },
      getmetatable(models.open { model = "t5-small" }))
end

--- The model of `options.family`, without files.
function M.model(options)
   local o = M.with_presets(options)
   return M.model_of(families[o.family].config(o))
end

local function ints(...) return core.tensor.zeros({ ... }, "i32") end

function families.t5.batch(o, number, source)
   local batch = {
      input_ids = ints(o.batch, source), mask = ints(o.batch, source),
      decoder_ids = ints(o.batch, TARGET), labels = ints(o.batch, TARGET),
      counts = { labels = 0 },
   }
   for b = 1, o.batch do
      for t = 1, source - (b + number) % 5 do
         batch.input_ids:set(b, t, (7 * b + 3 * t * t + number) % 59 + 2)
         batch.mask:set(b, t, 1)
      end
      for t = 1, TARGET do
         local counts = t <= 2 + (b + number) % 4
         batch.labels:set(b, t, counts and (5 * b + 2 * t + number) % 59 + 2 or -100)
         batch.counts.labels = batch.counts.labels + (counts and 1 or 0)
         if t > 1 then
            batch.decoder_ids:set(b, t, math.max(batch.labels:get(b, t - 1), 0))
         end
      end
   end
   return batch
end

function families.bert.batch(o, number, source)
   local batch = {
      input_ids = ints(o.batch, source), mask = ints(o.batch, source),
      token_type_ids = ints(o.batch, source), start_positions = ints(o.batch),
      end_positions = ints(o.batch), counts = { start_positions = 0 },
   }
   for b = 1, o.batch do
      for t = 1, source - (b + number) % 5 do
         batch.input_ids:set(b, t, (7 * b + 3 * t * t + number) % 59 + 2)
         batch.token_type_ids:set(b, t, math.floor(3 * t / (source + 1)))
         batch.mask:set(b, t, 1)
      end
      local counts = (b + number) % 4 > 0
      batch.start_positions:set(b, counts and (b + 2 * number) % 5 or -100)
      batch.end_positions:set(b, counts and (b + 2 * number) % 5 + b % 3 or -100)
      batch.counts.start_positions = batch.counts.start_positions + (counts and 1 or 0)
   end
   batch.counts.end_positions = batch.counts.start_positions
   return batch
end

function families.gpt2.batch(o, number, source)
   local batch = {
      input_ids = ints(o.batch, source), labels = ints(o.batch, source), counts = { labels = 0 },
   }
   for b = 1, o.batch do
      local length = source - (b + number) % 5
      for t = 1, source do
         batch.input_ids:set(b, t, (7 * b + 3 * t * t + number) % 59 + 2)
         batch.labels:set(b, t, -100)
         if t > 1 and t <= length then batch.labels:set(b, t - 1, batch.input_ids:get(b, t)) end
      end
      batch.counts.labels = batch.counts.labels + length - 1
   end
   return batch
end

--- The text of a plan that says where nodes are; its order of work is one micro-batch.
-- @tparam {int,...} stage by forward node
-- @tparam {int,...} device by stage; a list where it has replicas
-- @tparam int n_devices
function M.partition_text(stage, device, n_devices)
   local lines = {
      "ftpipe-plan 1", "stages " .. #device, "devices " .. n_devices, "micro-batches 1",
      "batches 1", "body-batches 0", "body-repeats 0",
   }
   for s, at in ipairs(device) do
      local list = {}
      for i, d in ipairs(type(at) == "table" and at or { at }) do list[i] = d - 1 end
      lines[#lines + 1] = ("stage %d device %s depth 0 in-flight 1"):format(s - 1,
         table.concat(list, ","))
   end
   lines[#lines + 1] = "nodes " .. #stage
   for _, s in ipairs(stage) do lines[#lines + 1] = ("node-stage %d*1"):format(s - 1) end
   return table.concat(lines, "\n") .. "\n"
end

--- Synthetic batch `number`: every second one in the longer bucket.
local function make_batch(o, number)
   local bucket = o.longest and 2 or number % 2 + 1
   local batch = families[o.family].batch(o, number, SOURCES[bucket])
   batch.bucket = bucket
   return batch
end

--- A plan for `train`'s options.
function M.plan(options)
   local o = M.with_presets(options)
   return plans.new {
      model = M.model(o), devices = o.devices, batch = o.batch, micro_batches = o.micro_batches,
      buckets = SOURCES, lengths = { target = TARGET }, partition = o.partition, stages = o.stages,
      replicas = o.replicas, schedule = o.schedule, staleness = o.staleness,
      max_staleness = o.max_staleness, gaps = o.gaps, gnorm = o.gnorm,
      recompute = o.recompute,
      optimizer = o.optimizer, hypers = o.hypers or {}, decay_exempt = o.decay_exempt,
      clip = o.clip, seed = o.seed,
      precision = o.precision, dropout = o.dropout, steps = o.steps, batches = o.steps,
      plan = o.plan, swap = o.swap, update = o.update, swap_dir = o.swap_dir, packs = o.packs,
      forward_micro_batches = o.forward_micro_batches,
      groups = o.groups, train_only = o.train_only, freeze = o.freeze, layer_decay = o.layer_decay,
      lora = o.lora, lora_alpha = o.lora_alpha, lora_dropout = o.lora_dropout,
      lora_targets = o.lora_targets,
      eval_batches = o.eval_batches, eval_only = o.eval_only, profile = o.profile,
   }, o
end

--- What run:feed takes of synthetic batch `number`.
-- @treturn table inputs, bucket
function M.fed(plan, o, number)
   local batch = make_batch(o, number)
   feed.weigh(plan.options.model.family, batch, o.micro_batches)
   return { inputs = feed.list(plan.graphs[1]:inputs(), batch), bucket = batch.bucket }
end

--- A leg of `n` steps of training, the first of which is number `first`.
-- @treturn table losses
-- @treturn table norms
-- @treturn table timeline
function M.steps(run, plan, o, first, n)
   local losses, norms, fed = {}, {}, 0
   if o.record then o.record.losses = losses end
   run:begin(n, first, o.threaded)
   while #losses < n do
      while fed < n and run:wants() do
         local batch = make_batch(o, first - 1 + fed)
         if o.shape then o.shape(batch) end
         local factor = o.loss_scales and o.loss_scales(first - 1 + fed)
         feed.weigh(plan.options.model.family, batch, o.micro_batches, false, factor)
         if o.edit then o.edit(batch, first - 1 + fed) end
         run:feed(feed.list(plan.graphs[1]:inputs(), batch), batch.bucket,
            o.rates and o.rates(first - 1 + fed) or o.rate, factor)
         fed = fed + 1
      end
      local result = run:next(600)
      losses[#losses + 1] = result.loss
      norms[#norms + 1] = result.grad_norm
      if result.skipped and o.skipped then o.skipped[#losses] = true end
   end
   if o.record then o.record.reached = run:measured() end
   return losses, norms, run:finish(o.trace)
end

--- Losses of several legs of one run, each { number of its first step, how many }.
function M.legs(run, plan, o, legs)
   local losses = {}
   for _, leg in ipairs(legs) do
      for _, loss in ipairs((M.steps(run, plan, o, leg[1], leg[2]))) do
         losses[#losses + 1] = loss
      end
   end
   return losses
end

--- A run with the same initial values each time.
-- @treturn Run
-- @treturn table its parameters, by name
function M.open(plan, o)
   local run, params = ranks.run(plan, { transport = o.transport }), {}
   for i, param in ipairs(plan.graphs[1]:params()) do params[param.name] = run:param(i) end
   plan.options.model:initialize(params, o.seed)
   if o.plant then o.plant(params) end
   run:refresh()
   return run, params
end

--- Trains from the same initial values each time.
--
-- Beside the presets: plant (a function that changes the initial parameters, by name), shape and
-- edit (two that change batch number 0, 1, ..., before and after its labels are weighed),
-- loss_scales (one that gives the factor of its losses), skipped (a table that gets true at steps
-- that updated nothing), record (a table that gets the losses and the parameters, as tables of
-- numbers, even when training fails, and as `reached` what memory was measured before the leg
-- ended).
-- @treturn table losses, norms, params (tables of numbers by name), timeline, planned and measured
--   (bytes by device), plan, grown (bytes by which the process grew)
function M.train(options)
   local rss = core.sys.rss()
   local plan, o = M.plan(options)
   local run = M.open(plan, o)
   local done, losses, norms, timeline = pcall(M.steps, run, plan, o, 1, o.steps)
   local grown = core.sys.rss() - rss
   if not done then pcall(run.finish, run) end
   local copies = {}
   for i, param in ipairs(plan.graphs[1]:params()) do
      copies[param.name] = run:param(i):totable() -- a card's are copied when asked for
   end
   if o.record then o.record.params = copies end
   if not done then error(losses, 0) end
   local result = {
      losses = losses, norms = norms, params = copies, timeline = timeline, plan = plan,
      planned = plan.memory, measured = run:measured(), grown = grown,
   }
   run:free()
   return result
end

--- How often the tolerances of sums on the CPU count for the device that stands for it: cards round
-- products before they are added where their compiler does not join the two.
function M.rounding() return core.engine.devices("cpu:1")[1].in_host and 1 or 10 end

--- The precision of which products read packed copies of weights on the device that stands for the
-- CPU: cards have none of f32.
function M.packing() return core.engine.devices("cpu:1")[1].in_host and "f32" or "bf16" end

--- Whether products have the same bits for any number of rows: on CPUs with a matrix unit, 64 rows
-- and more have others than fewer.
function M.rows_are_alike() return core.sys.kernels() ~= "avx512+amx" end

--- The most that was live on each device, of all classes, is no more than was planned for it, and
-- most of that.
function M.assert_totals(planned, measured)
   for d, bytes in ipairs(planned) do
      assert(measured[d] <= bytes and measured[d] > 0.7 * bytes,
         ("device %d: planned %d, measured %d"):format(d, bytes, measured[d]))
   end
end

--- Live tensors took what was planned. It was no more of buffers, which are not all in use at once,
-- and of activations where a device has several stages, which are not all at their most at once.
function M.assert_memory(plan, by_device)
   local stages = {}
   for _, stage in ipairs(plan.blueprint:stages()) do
      for _, d in ipairs(stage.devices) do stages[d] = (stages[d] or 0) + 1 end
   end
   for d, planned in ipairs(plan.memory) do
      local measured = by_device[d]
      for class, bytes in pairs(planned) do
         local what = ("device %d, %s: planned %d, measured %d"):format(d, class, bytes,
            measured[class])
         if class == "buffers" or class == "total"
            or (class == "activations" and stages[d] > 1)
         then
            assert(measured[class] <= bytes, what)
            assert(measured[class] > 0 or bytes == 0, what)
         else
            assert(bytes == measured[class], what)
         end
      end
   end
end

return M
