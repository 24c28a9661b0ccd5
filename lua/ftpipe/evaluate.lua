--- Evaluation: forwards through the stages of a run, and greedy answers of text-to-text models.
--
-- The forwards are a plan of their own over the same devices, stages and weights (engine.h), on
-- graphs without gradients and dropout. What a task scores is a row of `kinds`, by the kind of the
-- model. Decoding is not a plan: all threads of the devices work on one batch, on the stages'
-- weights where they are.

local core = require("ftpipe.core")
require("ftpipe.tensor") -- pointer()
local decode = require("ftpipe.decode")
local feed = require("ftpipe.feed")
local watch = require("ftpipe.watch")

local M = {}

local DECODE_BATCH = 32
local IGNORED = -100

-- ---------------------------------------------------------------------------------------------
-- Kinds: what the graph gives beside the loss, and what the task gets for each example.

local kinds = {}

--- Loss over all labels; the answers come from decoding.
kinds.text2text = { decodes = true }

kinds.language_model = {}

--- Names the terms of the labels an output.
function kinds.language_model.outputs(graph)
   for n = 1, graph:counts().forward do
      local node = graph:node(n)
      if node.op == "cross_entropy" then graph:output("nll", node.out + 2) end
   end
end

--- The sum over the labels of a row that are scored: all, or the last example.scored of them.
function kinds.language_model.predict(batch, outputs, row, example)
   local length = batch.labels:shape()[2]
   local labels, nll = batch.labels:pointer(), outputs.nll:pointer()
   local first = (row - 1) * length
   local n, sum = 0, 0
   while n < length and labels[first + n] ~= IGNORED do n = n + 1 end
   local scored = math.min(example and example.scored or n, n)
   for t = n - scored, n - 1 do sum = sum + nll[first + t] end
   return { nll = sum, tokens = scored }
end

kinds.span = { logits = true }

local function list_of(tensor, row)
   local length = tensor:shape()[2]
   local values, list = tensor:pointer(), {}
   for t = 1, length do list[t] = values[(row - 1) * length + t - 1] end
   return list
end

--- The logits of a row.
function kinds.span.predict(_, outputs, row)
   return { start = list_of(outputs.start_logits, row), ["end"] = list_of(outputs.end_logits, row) }
end

--- Whether models of a kind are evaluated by decoding, beside the forwards.
function M.decodes(kind) return kinds[kind].decodes == true end

--- What a row of a batch predicts, of kinds that need no decoding.
function M.predict(model, batch, outputs, row)
   return kinds[model.family.kind].predict(batch, outputs, row)
end

-- ---------------------------------------------------------------------------------------------
-- Graphs and stages.

--- The graph of evaluation.
-- @tparam model model
-- @tparam table size as family.training takes it
function M.graph(model, size)
   local kind, own = kinds[model.family.kind], {}
   for key, value in pairs(size) do own[key] = value end
   own.dropout, own.grads, own.logits = 0, false, kind.logits
   local graph = model.family.training(model.config, own)
   if kind.outputs then kind.outputs(graph) end
   return graph
end

-- What an operator of training is in a graph without dropout.
local without_dropout = { dropout_add = "add" }

--- Numbers nodes by scope and operator: name(n) is the same in both graphs.
local function namer(graph)
   local seen = {}
   return function(n)
      local node = graph:node(n)
      local key = node.scope .. " " .. (without_dropout[node.op] or node.op)
      seen[key] = (seen[key] or 0) + 1
      return key .. " " .. seen[key]
   end
end

--- Stages of an evaluation graph's nodes: those that the same nodes have in training.
-- @tparam graph training
-- @tparam {int,...} stage by forward node of training
-- @tparam graph graph of M.graph, of the same model
function M.stages(training, stage, graph)
   local known, result = {}, {}
   local name = namer(training)
   for n = 1, training:counts().forward do known[name(n)] = stage[n] end
   name = namer(graph)
   for n = 1, graph:counts().forward do
      local key = name(n)
      result[n] = known[key] or error("evaluation has a node that training has not: " .. key)
   end
   return result
end

-- ---------------------------------------------------------------------------------------------
-- Forwards.

--- Batches of a data set in its order; the rows that the last one lacks have number 0.
local function batches_of(o, batch)
   return core.data.batcher {
      dataset = o.dataset,
      batch = batch,
      buckets = o.buckets,
      lengths = o.lengths,
      columns = o.model.family.columns(o.model.config),
      shuffle = false,
   }
end

--- How many batches an evaluation has.
function M.count_batches(dataset, batch) return math.ceil(dataset:size() / batch) end

--- Gives a batch weights with which its loss is a sum over labels.
local function weigh(o, batch)
   for _, row in ipairs(o.model.family.losses) do
      batch[row.weight] = core.tensor.zeros({ o.micro_batches }):fill(row.share)
   end
   return batch
end

--- Runs the leg: take(batch, result) for each batch in order. False when a signal ended it.
local function forward(o, take)
   local batches, n = batches_of(o, o.batch), M.count_batches(o.dataset, o.batch)
   local waiting, fed = {}, 0
   o.core:begin(n, 1, o.threaded, o.beside)
   for taken = 1, n do
      while fed < n and o.core:wants() do
         local batch = weigh(o, batches:next())
         o.core:feed(feed.list(o.inputs, batch), batch.bucket, 0)
         fed = fed + 1
         waiting[fed] = batch
      end
      if core.sys.interrupted() then
         o.core:finish()
         return false
      end
      take(waiting[taken], watch.next(o.core))
      waiting[taken] = nil
   end
   o.core:finish()
   return true
end

--- Loss, and predictions by example of kinds that need no decoding; nil when interrupted.
local function run_forwards(o, kind)
   local total, labels = 0, 0
   local counted = o.model.family.losses[1].labels
   local whole = forward(o, function(batch, result)
      total, labels = total + result.loss, labels + batch.counts[counted]
      if not kind.predict then return end
      for row, number in ipairs(batch.index) do
         if number > 0 then
            local example = o.examples and o.examples[number]
            o.take(number, kind.predict(batch, result.outputs, row, example))
         end
      end
   end)
   return whole and total / labels or nil
end

-- ---------------------------------------------------------------------------------------------
-- Decoding.

--- Greedy answers by example. False when a signal ended it.
local function run_decoding(o)
   local batches, decoders = batches_of(o, DECODE_BATCH), {}
   local batch = batches:next()
   while batch do
      if core.sys.interrupted() then return false end
      decoders[batch.bucket] = decoders[batch.bucket] or decode.greedy(o.model, o.params, {
         batch = DECODE_BATCH, source = o.buckets[batch.bucket], target = o.lengths.target,
         threads = o.threads,
      })
      local rows = decode.run(decoders[batch.bucket], batch.input_ids, batch.mask)
      for row, number in ipairs(batch.index) do
         if number > 0 then o.take(number, rows[row]) end
      end
      batch = batches:next()
   end
   return true
end

--- Evaluates; nothing depends on the size of a batch but the order of sums.
-- @tparam table o model, core (the engine's run), params (by name), inputs (of the graph), dataset,
--   examples (optional: a row may have `scored`), batch and micro_batches (of the plan), buckets,
--   lengths, threads (for decoding), threaded, beside (true: the run trains as well), take (called
--   with the number of an example and what the kind predicts: ids, { nll =, tokens = } or { start
--   =, end = })
-- @treturn number the mean loss of the labels that count; nil when a signal ended it, where
--   signals are held
function M.run(o)
   local kind = kinds[o.model.family.kind]
   local loss = run_forwards(o, kind)
   if loss and kind.decodes and not run_decoding(o) then return nil end
   return loss
end

return M
