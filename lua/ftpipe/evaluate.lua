--- Evaluation: forwards through the stages of a run.
--
-- They are a plan of their own over the same devices, stages and weights (engine.h), on graphs
-- without gradients and dropout. What a task scores is a row of `kinds`, by the kind of the model.
-- Answers of text-to-text models are decoded by the same forwards (drafts.lua), so that no device
-- ever has to hold more than its stages.

local copy = require("ftpipe.copy")
local core = require("ftpipe.core")
require("ftpipe.tensor") -- pointer()
local drafts = require("ftpipe.drafts")
local feed = require("ftpipe.feed")
local watch = require("ftpipe.watch")

local M = {}

local IGNORED = -100

-- ---------------------------------------------------------------------------------------------
-- Kinds: what the graph gives beside the loss (as family.training is asked for it, or named by
-- `outputs`), and what the task gets for each example (`predict`, or the answer of its drafts).

local kinds = {}

kinds.text2text = { asks = "likeliest" }

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

kinds.span = { asks = "logits" }

--- A row of a matrix.
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

--- What a row of a batch predicts, of kinds that take one forward.
function M.predict(model, batch, outputs, row)
   return kinds[model.family.kind].predict(batch, outputs, row)
end

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- The graph of evaluation.
-- @tparam model model
-- @tparam table size as family.training takes it
function M.graph(model, size)
   local kind = kinds[model.family.kind]
   local own = copy(size, { dropout = 0, grads = false })
   if kind.asks then own[kind.asks] = true end
   local graph = model.family.training(model.config, own)
   if kind.outputs then kind.outputs(graph) end
   return graph
end

-- ---------------------------------------------------------------------------------------------
-- Forwards.

--- Batches of a data set; the rows that the last one lacks have number 0.
local function batches_of(o, dataset)
   return core.data.batcher {
      dataset = dataset,
      batch = o.batch,
      buckets = o.buckets,
      lengths = o.lengths,
      columns = o.model.family.columns(o.model.config),
      shuffle = false,
      longest_first = true,
   }
end

--- How many batches an evaluation has.
function M.count_batches(dataset, batch) return math.ceil(dataset:size() / batch) end

--- Runs the leg of a data set: take(batch, result) for each batch in order. False when a signal
-- ended it.
local function run_leg(o, dataset, take)
   local batches, n = batches_of(o, dataset), M.count_batches(dataset, o.batch)
   local waiting, fed = {}, 0
   o.core:begin(n, 1, o.threaded, o.beside)
   for taken = 1, n do
      while fed < n and o.core:wants() do
         local batch = feed.weigh(o.model.family, batches:next(), o.micro_batches, true)
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

--- One forward over every example of a data set: visit(number, batch, outputs, row).
-- @treturn number the mean loss of the labels that count; nil when a signal ended it
local function forward(o, dataset, visit)
   local total, labels = 0, 0
   local counted = o.model.family.losses[1].labels
   local whole = run_leg(o, dataset, function(batch, result)
      total, labels = total + result.loss, labels + batch.counts[counted]
      for row, number in ipairs(batch.index) do
         if number > 0 then visit(number, batch, result.outputs, row) end
      end
   end)
   return whole and total / labels or nil
end

-- ---------------------------------------------------------------------------------------------
-- Answers.

--- The examples whose answers are not whole yet, with drafts for targets.
local function drafted(o, book, open)
   local dataset = core.data.dataset { "source", "target" }
   for _, row in ipairs(open) do
      row.draft = book:next(row.ids, row.verified)
      dataset:add { source = o.dataset:get(row.number, "source"), target = row.draft }
   end
   return dataset
end

--- Forwards until every answer is whole: the first one over the data as it is, whose targets are
-- the first drafts, the next ones over what is left. Returns the loss of the first.
local function answer(o)
   local book = drafts.new(o.model.config.eos_token_id, o.lengths.target)
   local open = {}
   local function verify(number, draft, outputs, row)
      local ids, verified = book:verify(draft, list_of(outputs.likeliest, row))
      if not verified then return o.take(number, ids) end
      open[#open + 1] = { number = number, ids = ids, verified = verified }
   end
   local loss = forward(o, o.dataset, function(number, _, outputs, row)
      local target = o.dataset:get(number, "target")
      book:learn(target)
      verify(number, target, outputs, row)
   end)
   while loss and #open > 0 do
      local rows, left = open, drafted(o, book, open)
      open = {}
      if not forward(o, left, function(k, _, outputs, row)
         verify(rows[k].number, rows[k].draft, outputs, row)
      end) then return nil end
   end
   return loss
end

--- Evaluates; nothing depends on the size of a batch but the order of sums, and how far examples
-- are padded, which the loss of spans, a choice among all positions, sees a little of.
-- @tparam table o model, core (the engine's run), inputs (of the graph), dataset, examples
--   (optional: a row may have `scored`), batch and micro_batches (of the plan), buckets, lengths,
--   threaded, beside (true: the run trains as well), take (called with the number of an example and
--   what the kind predicts: ids, { nll =, tokens = } or { start =, end = }; each example once)
-- @treturn number the mean loss of the labels that count; nil when a signal ended it, where
--   signals are held
function M.run(o)
   local predict = kinds[o.model.family.kind].predict
   if not predict then return answer(o) end
   return forward(o, o.dataset, function(number, batch, outputs, row)
      o.take(number, predict(batch, outputs, row, o.examples and o.examples[number]))
   end)
end

return M
