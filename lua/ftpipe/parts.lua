--- What ft has: `ft.NAME`, the module behind it, and what it is for; `also` has methods of it, `c`
-- is the file of what is written in C. A part without a module is a table of ftpipe.core. The
-- prompt, doc/lua.md and init.lua read these rows.
return {
   { "args", "ftpipe.recipe.args", "flags of a recipe" },
   { "cluster", "ftpipe.placement.cluster", "devices and links, here or described" },
   { "compare", "ftpipe.planner.compare", "partitioners side by side" },
   { "cuda", "ftpipe.placement.cuda", "the cards of this machine", also = "ftpipe.base.card" },
   { "explore", "ftpipe.planner.explore", "a plan to look at, of a model or a graph file" },
   { "fine_tune", "ftpipe.recipe.fine_tune", "a whole experiment" },
   { "graph", "ftpipe.graph", "weighted graphs, from models and files" },
   { "json", false, "JSON: texts into values and back", c = "src/bind_values/json.c" },
   { "model", "ftpipe.model", "configurations and weights" },
   { "opts", "ftpipe.base.opts", "option tables, checked by rules" },
   { "partition", "ftpipe.placement.partition", "placements of weighted graphs on devices" },
   { "plan", "ftpipe.plan", "plans: made, loaded, edited, simulated" },
   { "planner", "ftpipe.planner", "a search over plans" },
   { "profile", "ftpipe.profile", "what operators cost" },
   { "run", "ftpipe.run", "the execution of a plan", also = "ftpipe.run.training" },
   { "schedule", "ftpipe.schedule", "orders of work" },
   { "stages", "ftpipe.placement.stages", "stages of a weighted graph" },
   { "swap", "ftpipe.swap", "models larger than their devices" },
   { "sweep", "ftpipe.sweep", "many runs of one recipe, and which is best" },
   { "sys", false, "the machine, files and signals", c = "src/bind_values/sys.c" },
   { "task", "ftpipe.task", "data and metrics" },
   { "tensor", "ftpipe.base.tensor", "tensors of numbers", c = "src/bind_values/tensor.c" },
   { "tools", "ftpipe.prompt.tools", "what the prompt has beside ft: page, time, bench" },
   { "units", "ftpipe.base.units", "bytes, seconds and rates as text" },
}
