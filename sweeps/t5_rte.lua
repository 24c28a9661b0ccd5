--- The learning rate of the tiny T5 on RTE: 12 trials, of which the worse ones end early.

local ft = require("ftpipe")

return ft.sweep {
   run = { "recipes/t5_rte.lua", steps = 200, eval_every = 50, eval_limit = 200 },
   space = { lr = ft.sweep.log(1e-4, 1e-2) },
   method = "tpe",
   trials = 12,
   prune = { kind = "asha", min = 50, eta = 2 },
}
