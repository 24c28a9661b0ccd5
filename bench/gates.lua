--- What `./dev bench` runs, and what has to come of it: a row for each run, with its gates.
--
-- A benchmark prints "gate NAME FIGURE" for each of its gates, or "gate NAME absent: WHY" where its
-- peer is not there. A gate is the least or the most that the figure may be, `against` whom it was
-- taken, in the same run. What is against nobody is a time of this machine: it holds on a quiet core
-- of today.
--
--    { name, command, gates = { { name, least = or most =, against = }, ... }, asked = true }
--
-- PROGRAM is the program, BUILD the directory it is in. A run that is `asked` for runs only when it
-- is named. The limits are those that were asked of each figure before it was measured.

local function step(model, sizes)
   local name = "step-" .. model
   return { name, ("PROGRAM bench/step.lua %s %s"):format(model, sizes), gates = {
      { name, most = 0.72, against = "PyTorch's time" },
   } }
end

return {
   { "attention-peak", "BUILD/bench_attention" },
   { "matmul", "BUILD/bench_matmul", gates = {
      { "matmul-NT", least = 0.95, against = "oneDNN's own best call" },
      { "matmul-NN", least = 0.95, against = "oneDNN's own best call" },
      { "matmul-TN", least = 0.95, against = "oneDNN's own best call" },
   } },
   { "optim", "BUILD/bench_optim", gates = {
      { "adamw", least = 0.9, against = "the triad's bandwidth" },
      { "adafactor", least = 0.9, against = "the triad's bandwidth" },
      { "sgd", least = 0.9, against = "the triad's bandwidth" },
   } },
   { "several", "PROGRAM bench/several.lua", gates = {
      { "several-processes", least = 0.97, against = "one process of two devices" },
   } },
   { "link", "PROGRAM bench/link.lua", gates = {
      { "link-memory", least = 0.9, against = "NetPIPE, by MPI alone" },
      { "link-tcp", least = 0.9, against = "NetPIPE, by MPI alone" },
   } },
   { "throttled", "PROGRAM bench/throttled.lua", asked = true, gates = {
      { "throttled-median", most = 0.05, against = "the simulator's step" },
      { "throttled-worst", most = 0.1, against = "the simulator's step" },
      { "throttled-cut", least = 1, against = "the cut for links that take nothing" },
   } },
   { "simulate", "BUILD/bench_simulate", gates = {
      { "simulate", least = 5e6, against = "nobody: events/s" },
   } },
   { "tokenizer-own", "BUILD/bench_tokenizer", gates = {
      { "sentencepiece", least = 1, against = "libsentencepiece's speed" },
   } },
   { "tokenizer", "PROGRAM bench/tokenizer.lua", gates = {
      { "tokenizer-wordpiece", least = 1, against = "Hugging Face tokenizers" },
      { "tokenizer-byte_bpe", least = 1, against = "Hugging Face tokenizers" },
      { "tokenizer-unigram", least = 1, against = "Hugging Face tokenizers" },
   } },
   { "attention", "PROGRAM bench/attention.lua", gates = {
      { "attention", least = 1.5, against = "PyTorch's operators" },
   } },
   { "generate", "PROGRAM bench/generate.lua", gates = {
      { "generate-gpt2-1", most = 1, against = "PyTorch's time" },
      { "generate-gpt2-8", most = 1, against = "PyTorch's time" },
      { "generate-t5-small-1", most = 1, against = "PyTorch's time" },
      { "generate-t5-small-32", most = 1, against = "PyTorch's time" },
   } },
   { "start", "PROGRAM bench/start.lua", gates = {
      { "start", most = 20, against = "nobody: ms" },
   } },
   { "graph", "PROGRAM bench/graph.lua" },
   { "load", "PROGRAM bench/load.lua" },
   { "partition", "PROGRAM bench/partition.lua", gates = {
      { "partition-mixed", most = 1, against = "nobody: seconds" },
      { "partition-deadline", most = 0.05, against = "nobody: seconds" },
      { "partition-best", most = 5, against = "nobody: seconds" },
      { "partition-large", most = 10, against = "nobody: seconds" },
   } },
   { "wide", "PROGRAM bench/wide.lua", gates = {
      { "wide-8", most = 60, against = "nobody: seconds" },
      { "wide-64", most = 60, against = "nobody: seconds" },
      { "wide-1024", most = 60, against = "nobody: seconds" },
   } },
   { "effort", "PROGRAM bench/effort.lua", asked = true, gates = {
      { "effort-worst", most = 0.005, against = "four times the effort" },
   } },
   { "profile", "PROGRAM bench/profile.lua", gates = {
      { "profile", most = 0.03, against = "the whole step" },
   } },
   { "swap", "PROGRAM bench/swap.lua", gates = {
      { "swap-worst", most = 0.1, against = "the measured step" },
      { "swap-hidden", least = 0.9, against = "the speed without swaps" },
   } },
   { "fidelity", "PROGRAM bench/fidelity.lua", gates = {
      { "fidelity-median", most = 0.03, against = "the measured step" },
      { "fidelity-worst", most = 0.08, against = "the measured step" },
      { "fidelity-memory", least = 0.99, against = "the planned memory" },
   } },
   { "pipeline", "PROGRAM bench/pipeline.lua", gates = {
      { "pipeline-async", least = 0.95, against = "two single workers" },
      { "pipeline-gpipe", least = 0.95, against = "two single workers x bound" },
      { "pipeline-1f1b", least = 0.95, against = "two single workers x bound" },
   } },
   { "emulated", "PROGRAM bench/emulated.lua", asked = true, gates = {
      { "emulated-failed", most = 0, against = "what the specs say" },
   } },
   { "failures", "PROGRAM bench/failures.lua", asked = true, gates = {
      { "failures-bad", most = 0, against = "one error, nothing left open, checkpoints whole" },
   } },
   { "growth", "PROGRAM bench/growth.lua cpu:1 f32 t5-small 100", asked = true },
   { "card", "PROGRAM bench/card.lua cuda:0 f32 t5-base 8 320 8", asked = true },
   { "equality", "PROGRAM bench/equality.lua", asked = true, gates = {
      { "equality-differ", most = 0, against = "one device" },
   } },
   { "plans", "BUILD/test_engine_plans 10000 401", asked = true },
   { "budgets", "PROGRAM bench/budgets.lua", asked = true, gates = {
      { "budgets-differ", most = 0, against = "the same run without a budget" },
      { "budgets-state", least = 4, against = "the least budget of a device" },
   } },
   { "quarter", "PROGRAM bench/quarter.lua --data ../shared/data --models ../shared/golden",
      asked = true, gates = {
         { "quarter-differ", most = 0, against = "losses of the same run without a budget" },
         { "quarter-over", most = 0, against = "the budget" },
         { "quarter-time", most = 1.25, against = "the same run without a budget" },
      } },
   { "harmony", "PROGRAM examples/papers/harmony.lua --run", asked = true },
   { "speed", "PROGRAM bench/speed.lua", gates = {
      { "speed-async", least = 1.90, against = "one worker" },
      { "speed-async-bert", least = 1.90, against = "one worker" },
      { "speed-zero-bubble", least = 1, against = "1f1b's bound, M / (M + P - 1)" },
      { "speed-zero-bubble-memory", most = 1.01, against = "1f1b's largest device" },
      { "speed-stash", most = 1.03, against = "the newest weights, and a copy of its bytes" },
      { "speed-recompute", most = 1.35, against = "no recomputation" },
      { "speed-auto", most = 1, against = "recomputation everywhere" },
      { "speed-mixed-balance", most = 0.9, against = "equal devices" },
      { "speed-mixed-ahead", least = 1, against = "seq" },
      { "speed-mixed", most = 0.03, against = "what was predicted" },
   } },
   step("t5-small", "8 128 4"),
   step("bert-base", "2 128"),
   step("gpt2", "1 256"),
   { "staleness", "PROGRAM bench/staleness.lua", asked = true },
   { "real-rows", "PROGRAM bench/real_rows.lua --data ../shared/data --models ../shared/golden",
      asked = true },
}
