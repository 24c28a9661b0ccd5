--- What ft has: `ft.NAME`, the module behind it, and what it is for. The prompt, doc/lua.md and
-- init.lua read these rows.
return {
   { "args", "ftpipe.args", "flags of a recipe" },
   { "cluster", "ftpipe.cluster", "devices and links, here or described" },
   { "compare", "ftpipe.compare", "partitioners side by side" },
   { "explore", "ftpipe.explore", "a plan to look at, of a model or a graph file" },
   { "fine_tune", "ftpipe.fine_tune", "a whole experiment" },
   { "graph", "ftpipe.graph", "weighted graphs, from models and files" },
   { "model", "ftpipe.model", "configurations and weights" },
   { "opts", "ftpipe.opts", "option tables, checked by rules" },
   { "partition", "ftpipe.partition", "placements of weighted graphs on devices" },
   { "plan", "ftpipe.plan", "plans: made, loaded, edited, simulated" },
   { "planner", "ftpipe.planner", "a search over plans" },
   { "profile", "ftpipe.profile", "what operators cost" },
   { "run", "ftpipe.run", "the execution of a plan" },
   { "schedule", "ftpipe.schedule", "orders of work" },
   { "stages", "ftpipe.stages", "stages of a weighted graph" },
   { "swap", "ftpipe.swap", "models larger than their devices" },
   { "task", "ftpipe.task", "data and metrics" },
   { "tensor", "ftpipe.tensor", "tensors of numbers" },
   { "units", "ftpipe.units", "bytes, seconds and rates as text" },
}
