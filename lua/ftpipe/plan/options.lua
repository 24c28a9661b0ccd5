--- The options of runs and plans: one row each, in the order of --help.
--
-- A row is a rule of base/opts.lua with a name, and with `of`: who takes it.
--
--    recipe    flags of every recipe (preset "fine_tune")
--    some      flags that a recipe may declare
--    explore   flags of `ftpipe plan`, options of ft.explore and ft.planner
--    plan      options of ft.plan
--
-- `explore = { ... }` and `plan = { ... }` change the rule there. `lua` is the name in ft.explore,
-- where it is another; `lua_type` what Lua may give besides a text. `rare` flags are in --help all
-- only. Rows with `models` mean nothing to a graph file, whose nodes have costs of their own. A run
-- that goes on with another value of a row with `plans` makes a plan anew. Rows that `trains` are
-- refused beside --eval-only. A new option is a row here and the code that reads it: flags, --help,
-- checks and what is passed on follow.

local choices = require("ftpipe.plan.choices")
local copy = require("ftpipe.base.copy")
local named = require("ftpipe.base.named")

local M = {}

local MOST_MICRO_BATCHES = 2 ^ 20 -- of a batch: as many as partitioners hold in a stage
local MOST_TOKENS = 2 ^ 24 -- of a sequence: what attention makes of more has no size

M.rows = {
   { "devices", of = "recipe explore plan", plans = true, type = "string", default = "cpu",
      value = "LIST", lua_type = "string|table", explore = { default = false },
      help = "cpu, cpu:N, cpu:NxT, cpu:N/2GB@1GB/s, cpu:N/unpacked, hosts:2xcpu:N, sim:8x11GB, "
         .. "sim:4x3090" },
   { "model", of = "recipe", plans = true, type = "string", value = "NAME|DIR",
      help = "configuration, or directory with weights" },
   { "adapter", of = "recipe", plans = true, rare = true, type = "string", value = "DIR",
      help = "adapters for the model, as --lora leaves them" },
   { "init", of = "recipe", rare = true, choices = { "weights", "random" }, default = "weights",
      help = "where weights come from" },
   { "data", of = "recipe", type = "string", value = "DIR|embedded",
      help = "directory of the task's files; those inside the program" },
   { "train_file", of = "recipe", type = "string", value = "FILE", help = "training examples" },
   { "eval_file", of = "recipe", type = "string", value = "FILE", help = "evaluation examples" },
   { "cache", of = "recipe", rare = true, type = "string", value = "DIR|none",
      help = "where tokenised data is kept" },
   { "batch", of = "recipe explore plan", plans = true, type = "int", min = 1, default = 8,
      explore = { default = 32 }, help = "samples of an update" },
   { "micro_batches", of = "recipe explore plan", plans = true, type = "int", min = 1,
      max = MOST_MICRO_BATCHES, default = 4,
      follows = choices.fitting_parts, explore = { default = 8 },
      help = "pieces of a batch; by default fewer where these do not divide it" },
   { "schedule", of = "recipe explore plan", plans = true, trains = true,
      choices = choices.schedules, default = "1f1b", value = "NAME", lua_type = "string|table",
      help = choices.schedules_help,
      remedy = "a rule of your own is ft.schedule { next = FUNCTION }" },
   { "staleness", of = "recipe explore plan", plans = true, trains = true,
      choices = choices.staleness, default = "none", value = "NAME",
      help = choices.staleness_help },
   { "max_staleness", of = "recipe explore plan", plans = true, trains = true, rare = true,
      type = "int", min = 0, value = "N",
      help = "updates that weights may be late; a stage that is further ahead waits" },
   { "partition", of = "recipe explore plan", plans = true, type = "string", default = "seq",
      value = "NAME|FILE", lua_type = "string|table|function", items = "string",
      follows = choices.fitting_partition, explore = { default = "mixed" },
      help = "stages: " .. choices.partitions_help .. ", or those of a plan" },
   { "plan", of = "recipe explore plan", models = true, plans = true, rare = true,
      type = "string", value = "FILE", lua_type = "string|table|ftpipe.schedule_plan",
      help = "a plan that is there: stages, devices, orders and slots are those of the file",
      decides = { "max_staleness", "micro_batches", "partition", "recompute", "schedule", "stages",
         "staleness", "swap", "update", "replicas", "packs", "forward_micro_batches", "effort" } },
   { "profile", of = "recipe explore plan", models = true, plans = true, rare = true,
      type = "string", value = "NAME|FILE",
      explore = { rare = false, default = "modelled", help = "what work costs; for models" },
      help = "costs: measured, as they are kept, or fresh; modelled" },
   { "stages", of = "recipe explore plan", plans = true, rare = true, type = "int", min = 1,
      help = "pieces of the model: of seq as many, else at most; where nothing is said, one "
         .. "for each device, of mixed at most two" },
   { "replicas", of = "recipe explore plan", models = true, plans = true, rare = true,
      type = "string", value = "2-1", lua_type = "string|table", items = "int",
      help = "devices of each stage, or of each group that stages go to in turns, which share its "
         .. "micro-batches; 4: all of the model on each" },
   { "packs", of = "recipe explore plan", models = true, plans = true, trains = true, rare = true,
      type = "string", value = "3/1",
      help = "harmony-pp and -dp: a device takes a micro-batch through 3 stages forward, and back "
         .. "through 1, before the next one" },
   { "forward_micro_batches", of = "recipe explore plan", models = true, plans = true,
      trains = true, rare = true, type = "int", min = 1, value = "N",
      help = "harmony-pp and -dp: pieces of a batch that go forward, of several that go back" },
   { "effort", of = "recipe explore plan", plans = true, rare = true, type = "number", above = 0,
      max = 1e6, value = "N", explore = { rare = false },
      help = "of partitioners that search, in millions of steps: the same on any machine" },
   { "recompute", of = "recipe explore plan", plans = true, trains = true,
      choices = { "auto", "always", "never" },
      default = "auto", help = "activations; auto: where memory asks for it" },
   { "swap", of = "recipe explore plan", models = true, plans = true, trains = true, rare = true,
      type = "string", value = "WHEN|CLASSES", default = "never", explore = { rare = false },
      help = choices.swap_help },
   { "swap_dir", of = "recipe plan", plans = true, trains = true, rare = true, type = "string",
      value = "DIR",
      help = "weights and optimizer state that move have their home there, not in host memory" },
   { "update", of = "recipe explore plan", models = true, plans = true, trains = true, rare = true,
      choices = { "auto", "end", "device", "host" }, default = "auto",
      help = choices.update_help },
   { "optimizer", of = "recipe explore plan", plans = true, trains = true,
      choices = choices.optimizers, default = choices.optimizers[1], help = "update rule" },
   { "lr", of = "recipe", trains = true, type = "number", min = 0, default = 1e-4,
      help = "learning rate" },
   { "warmup", of = "recipe", trains = true, type = "int", min = 0,
      help = "steps of warm-up, at most a tenth of all" },
   { "lr_schedule", of = "recipe", trains = true, choices = choices.rates,
      help = "after warm-up [constant; async: cooldown]" },
   { "change_schedule", of = "recipe", trains = true, rare = true, type = "boolean",
      default = false,
      help = "with --resume: go on drained or not, with other stages and staleness" },
   { "change_rate", of = "recipe", trains = true, rare = true, type = "boolean", default = false,
      help = "with --resume: rates are those of the flags, from the next step on" },
   { "look_ahead", of = "recipe plan", trains = true, rare = true, choices = { "lag", "none" },
      help = "late weights: steps to come that are taken early [lag: as many as they are late]" },
   { "gaps", of = "recipe plan", trains = true, rare = true, type = "boolean", default = false,
      help = "late weights: record how far the newest are from what forwards read" },
   { "gnorm", of = "recipe plan", trains = true, rare = true, type = "boolean", default = false,
      help = "without --clip, where updates wait for no others: record norms of gradients" },
   { "clip", of = "recipe plan", plans = true, trains = true, type = "number", min = 0, default = 1,
      plan = { default = 0 }, help = "norm of gradients, 0 for none" },
   { "weight_decay", of = "recipe", trains = true, type = "number", min = 0, max = 10,
      default = 0, help = "weight decay: decoupled; with sgd added to the gradients" },
   { "decay_exempt", of = "recipe plan", trains = true, rare = true,
      choices = { "none", "vectors" }, default = "none",
      help = "vectors: biases and norms do not decay" },
   { "train_only", of = "recipe explore plan", models = true, plans = true, trains = true,
      type = "string", value = "NAMES", lua_type = "string|table", items = "string",
      explore = { rare = true },
      help = 'parameters that are trained, all others stay as they are: "*.bias,qa_outputs.*"' },
   { "freeze", of = "recipe explore plan", models = true, plans = true, trains = true,
      type = "string", value = "NAMES", lua_type = "string|table", items = "string",
      explore = { rare = true },
      help = 'parameters that stay as they are: "encoder.*,shared.*"' },
   { "groups", of = "recipe explore plan", models = true, trains = true, rare = true,
      type = "string", value = "TEXT", lua_type = "string|table",
      help = 'of parameters, by names: "bert.encoder.*: frozen; *.bias: decay 0, rate 0.1"' },
   { "lora", of = "recipe explore plan", models = true, plans = true, trains = true, type = "int",
      min = 1, value = "RANK", explore = { rare = true },
      help = "train adapters of this rank beside weights that stay as they are" },
   { "lora_alpha", of = "recipe explore plan", models = true, trains = true, rare = true,
      type = "number", above = 0, max = 1e6,
      help = "adapters count this divided by their rank times [8]" },
   { "lora_dropout", of = "recipe explore plan", models = true, plans = true, trains = true,
      rare = true, type = "number", min = 0, max = 0.99,
      help = "probability, of what adapters read [0]" },
   { "lora_targets", of = "recipe explore plan", models = true, plans = true, trains = true,
      rare = true, type = "string", value = "NAMES", lua_type = "string|table", items = "string",
      help = 'products with adapters, by their last names or patterns: "q,v,encoder.*.wo"' },
   { "layer_decay", of = "recipe plan", trains = true, rare = true, type = "number", above = 0,
      max = 1, help = "each layer's rate is that of the one above it, times this" },
   { "dropout", of = "recipe plan", trains = true, type = "number", min = 0, max = 0.99,
      lua_type = "number|table", help = "probability, else the model's" },
   { "max_source", of = "some explore", models = true, lua = "source", type = "int", min = 2,
      max = MOST_TOKENS, default = 128, explore = { min = 1 }, help = "tokens of an input" },
   { "max_target", of = "some explore", models = true, lua = "target", type = "int", min = 1,
      max = MOST_TOKENS, default = 8, help = "tokens of an answer" },
   { "steps", of = "recipe plan", trains = true, type = "int", min = 1, help = "updates" },
   { "epochs", of = "recipe", trains = true, type = "number", above = 0,
      help = "passes over the data, instead of steps" },
   { "eval_every", of = "recipe plan", trains = true, type = "int", min = 1,
      help = "steps between evaluations" },
   { "patience", of = "recipe", trains = true, rare = true, type = "int", min = 1,
      help = "evaluations without a better one after which to stop" },
   { "eval_limit", of = "recipe", rare = true, type = "int", min = 1, value = "N",
      help = "evaluate on the first N rows, questions or blocks" },
   { "eval_only", of = "recipe plan", type = "boolean", default = false,
      help = "evaluate, do not train" },
   { "precision", of = "recipe explore plan", models = true, plans = true,
      choices = choices.precisions, default = "f32", explore = { rare = true },
      help = "of products with weights and, except on CPUs, of activations" },
   { "seed", of = "recipe explore plan", type = "int", min = 0, max = 2 ^ 53, default = 1,
      help = "of everything random" },
   { "transport", of = "recipe", rare = true, choices = { "auto", "nccl", "mpi" },
      default = "auto",
      help = "how values pass between cards of several processes; auto: by NCCL where it is found, "
         .. "else through the host and MPI" },
   { "out", of = "recipe", type = "string", value = "DIR|auto",
      help = "run directory: metrics, plan, model; auto: out/DATE_RECIPE" },
   { "save_every", of = "recipe plan", trains = true, type = "int", min = 1,
      help = "steps between checkpoints in --out" },
   { "keep", of = "recipe", trains = true, rare = true, type = "int", min = 1,
      help = "checkpoints to keep, beside the best (2)" },
   { "events", of = "recipe", rare = true, type = "boolean", default = false,
      help = "an event file for TensorBoard in --out, written as the run goes on" },
   { "resume", of = "recipe", type = "boolean", default = false,
      help = "go on from the checkpoint in --out" },
   { "watchdog", of = "recipe", rare = true, type = "number", min = 0, value = "SECONDS",
      help = "without progress that end a run, 0: none do [20 steps, at least 30 s]" },
   { "dry_run", of = "recipe", type = "boolean", default = false, short = "-n",
      help = "plan, predict and check what a run needs, write nothing" },
   { "cost", of = "explore", choices = choices.costs, default = "overlap",
      help = "what --compare counts, and a graph file is cut by" },
}

--- The rows that `who` takes.
function M.taken_by(who)
   local list = {}
   for _, row in ipairs(M.rows) do
      if (" " .. row.of .. " "):find(" " .. who .. " ", 1, true) then list[#list + 1] = row end
   end
   return list
end

--- The rule of a row for `who`: without a default where that is false.
function M.rule(row, who)
   local rule = copy(row, type(row[who]) == "table" and row[who] or nil)
   if rule.default == false and rule.type ~= "boolean" then rule.default = nil end
   return rule
end

--- Declarations of flags for ft.args, by name.
function M.flags(who)
   local flags = {}
   for _, row in ipairs(M.taken_by(who)) do flags[row[1]] = row[who] or true end
   return flags
end

--- Rules of an option table in Lua, by name; `defaults` false: what is absent stays so.
function M.rules(who, defaults)
   local rules = {}
   for _, row in ipairs(M.taken_by(who)) do
      local rule = M.rule(row, who)
      if row.lua_type then rule.type = row.lua_type end
      if defaults == false then rule.default = nil end
      rules[row.lua or row[1]] = rule
   end
   return rules
end

--- Names of the options of `who` that are for models, and not for graph files.
function M.of_models(who)
   local list = {}
   for _, row in ipairs(M.taken_by(who)) do
      list[#list + 1] = row.models and { flag = row[1], lua = row.lua or row[1] } or nil
   end
   return list
end

--- Values for `who` out of a larger table of them, by their names in Lua.
-- @tparam string who
-- @tparam table values by the names of flags
function M.pick(who, values)
   local picked = {}
   for _, row in ipairs(M.taken_by(who)) do picked[row.lua or row[1]] = values[row[1]] end
   return named.like(values, picked)
end

return M
