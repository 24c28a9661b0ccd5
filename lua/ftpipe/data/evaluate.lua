--- Evaluation: forwards through the stages of a run.
--
-- They are a plan of their own over the same devices, stages and weights (engine/engine.h), on
-- graphs without gradients and dropout. What they give for an example depends on the kind of the
-- model (kind/init.lua). Answers of text-to-text models are decoded by the same forwards
-- (drafts.lua), so that no device ever has to hold more than its stages.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
require("ftpipe.base.tensor") -- pointer()
local feed = require("ftpipe.data.feed")
local kinds = require("ftpipe.data.kind")
local watches = require("ftpipe.base.watch")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- Graphs.

--- The graph of evaluation.
-- @tparam model model
-- @tparam table size as family.training takes it
function M.graph(model, size)
   local kind = kinds.of(model)
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
   local waiting, fed, start_ns, waited_ns = {}, 0, core.sys.time_ns(), 0
   local watch = o.watch or watches.new { engine = o.engine }
   o.engine:begin(n, 1, o.threaded, o.beside)
   for taken = 1, n do
      while fed < n and o.engine:wants() do
         local batch = feed.weigh(o.model.family, batches:next(), o.micro_batches, true)
         o.engine:feed(feed.list(o.inputs, batch), batch.bucket, 0)
         fed = fed + 1
         waiting[fed] = batch
      end
      if core.sys.interrupted() then
         o.engine:finish()
         return false
      end
      local asked_ns = core.sys.time_ns()
      local result = watch:next()
      waited_ns = waited_ns + core.sys.time_ns() - asked_ns
      take(waiting[taken], result)
      waiting[taken] = nil
   end
   o.engine:finish()
   if o.passes then
      local ns = core.sys.time_ns() - start_ns
      o.passes[#o.passes + 1] = { batches = n, seconds = ns / 1e9,
         host_seconds = (ns - waited_ns) / 1e9 }
   end
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

--- A row of a matrix, as a list.
function M.row(tensor, row)
   local length = tensor:shape()[2]
   local values, list = tensor:pointer(), {}
   for t = 1, length do list[t] = values[(row - 1) * length + t - 1] end
   return list
end

--- Evaluates; nothing depends on the size of a batch but the order of sums, and how far examples
-- are padded, which the loss of spans, a choice among all positions, sees a little of.
-- @tparam table o model, engine (its run), inputs (of the graph), dataset, examples
--   (optional: a row may have `scored`), batch and micro_batches (of the plan), buckets, lengths,
--   threaded, beside (true: the run trains as well), watch (of base/watch.lua, over the engine),
--   take (called with the number of an example and what the kind predicts: ids, { nll =, tokens = }
--   or { start =, end =, row = }; each example once), passes (a list that gets { batches =,
--   seconds =, host_seconds = (of them the main thread made batches and took what came out) } for
--   each time through examples)
-- @treturn number the mean loss of the labels that count; nil when a signal ended it, where
--   signals are held
function M.run(o)
   local kind = kinds.of(o.model)
   if kind.evaluate then return kind.evaluate(o, forward) end
   return forward(o, o.dataset, function(number, batch, outputs, row)
      o.take(number, kind.predict(batch, outputs, row, o.examples and o.examples[number]))
   end)
end

return M
