--- The score of an evaluation: what a run prints, compares and writes down.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local digest = require("ftpipe.base.digest")
local evaluate = require("ftpipe.data.evaluate")
local kinds = require("ftpipe.data.kind")
local metrics = require("ftpipe.data.metric")
local progress = require("ftpipe.base.progress")

local M = {}
local Score = {}
Score.__index = Score
Score.__name = "score"

--- A score of the fields that the functions below look at.
function M.new(fields) return setmetatable(fields, Score) end

--- Evaluates a run on a split.
-- @tparam table run of ft.run: model, plan, engine, inputs, task; threaded
-- @tparam table split of the task
-- @treturn score metric, unit, better, value, metrics (see data/metric/init.lua), loss, examples
--   (how many), example (what one is called), data (their digest), predictions (rows by example),
--   passes (see data/evaluate.lua), scorer; nil when a signal ended it, where signals are held
function M.of(run, split)
   local o, kind = run.plan.options, kinds.of(run.model)
   local scorer = run.task:scorer(split)
   local score = { predictions = {}, passes = {}, scorer = scorer, tokenizer = run.task.tokenizer,
      split = split, told = kind.told }
   local start_ns, line = core.sys.time_ns(), progress.evaluation(#split.examples)
   score.loss = evaluate.run {
      model = run.model, engine = run.engine, inputs = run.inputs, dataset = split.dataset,
      examples = split.examples, batch = o.batch, micro_batches = o.micro_batches,
      buckets = o.buckets, lengths = o.lengths, threaded = run.threaded,
      beside = run.plan.beside, passes = score.passes, watch = run.watch,
      take = function(number, prediction)
         scorer:add(number, kind.note(score, number, prediction))
         line:add()
      end,
   }
   line:close()
   if not score.loss then return nil end
   for key, value in pairs(scorer:result()) do score[key] = value end
   score.examples, score.example = #split.examples, split.example
   split.digest = split.digest or digest(split.dataset:pack())
   score.data = split.digest
   score.seconds = (core.sys.time_ns() - start_ns) / 1e9
   score.majority = split.majority and split.majority.value
   return M.new(score)
end

--- Whether it beats another score of the same metric; what is not a number beats nothing.
function Score:is_better_than(other) return metrics.beats(self, self.value, other.value) end

--- "accuracy 93.2 %"
function Score:short() return self.metric .. " " .. metrics.text(self, self.value) end

--- " (em 80.0 %)": figures that are usual beside the one that counts.
local function beside_words(score)
   local words = {}
   for i, name in ipairs(score.beside or {}) do
      words[i] = name .. " " .. metrics.text(score, score.metrics[name])
   end
   return words[1] and (" (%s)"):format(table.concat(words, ", ")) or ""
end

function Score:__tostring()
   local majority = self.majority
      and (" (majority %s)"):format(metrics.text(self, self.majority)) or ""
   return ("%s%s on %s%s, loss %.4f"):format(Score.short(self),
      beside_words(self), counted(self.examples, "held-out " .. self.example), majority, self.loss)
end

--- The row of metrics.jsonl.
function Score:row(step)
   return {
      v = 1, step = step, time = core.sys.unix_time(), eval_s = self.seconds,
      eval_loss = self.loss, eval_examples = self.examples, example = self.example,
      metric = self.metric, value = self.value, unit = self.unit, better = self.better,
      metrics = self.metrics,
   }
end

--- Writes predictions.jsonl, or what the task writes instead.
function Score:write(dir)
   if self.scorer.write then self.scorer:write(dir) end
   local lines = {}
   for i, row in ipairs(self.predictions) do
      local told = self.told and self.told(self.split, i, row)
      lines[i] = core.json.encode(copy(row, told)) .. "\n"
   end
   if #lines > 0 then core.sys.write_file(dir .. "/predictions.jsonl", table.concat(lines)) end
end

return M
