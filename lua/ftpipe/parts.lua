--- What ft has: `ft.NAME`, the module behind it, and what it is for; `also` has methods of it. The
-- prompt, doc/lua.md and init.lua read these rows.
return {
   { "args", "ftpipe.recipe.args", "flags of a recipe" },
   { "cluster", "ftpipe.placement.cluster", "devices and links, here or described" },
   { "compare", "ftpipe.planner.compare", "partitioners side by side" },
   { "explore", "ftpipe.planner.explore", "a plan to look at, of a model or a graph file" },
   { "fine_tune", "ftpipe.recipe.fine_tune", "a whole experiment" },
   { "graph", "ftpipe.graph", "weighted graphs, from models and files" },
   { "model", "ftpipe.model", "configurations and weights" },
   { "opts", "ftpipe.base.opts", "option tables, checked by rules" },
   { "partition", "ftpipe.placement.partition", "placements of weighted graphs on devices" },
   { "plan", "ftpipe.plan", "plans: made, loaded, edited, simulated" },
   { "planner", "ftpipe.planner", "a search over plans" },
   { "profile", "ftpipe.profile", "what operators cost" },
   { "run", "ftpipe.run", "the execution of a plan", also = "ftpipe.run.training" },
   { "schedule", "ftpipe.schedule", "orders of work" },
   { "stages", "ftpipe.plan.cut", "stages of a weighted graph" },
   { "swap", "ftpipe.swap", "models larger than their devices" },
   { "sweep", "ftpipe.sweep", "many runs of one recipe, and which is best" },
   { "task", "ftpipe.task", "data and metrics" },
   { "tensor", "ftpipe.base.tensor", "tensors of numbers" },
   { "units", "ftpipe.base.units", "bytes, seconds and rates as text" },
}
