--- Stages, schedules and micro-batches of T5-3B on eight cards of 11 GB, which need not be here.

local ft = require("ftpipe")

return ft.sweep {
   run = { "plan", "t5-3b", devices = "sim:8x11GB", optimizer = "adafactor", batch = 40,
      max_source = 320, format = "json" },
   space = {
      stages = { 8, 16 },
      schedule = { "gpipe", "1f1b", "async" },
      micro_batches = { 5, 10, 20 },
   },
   method = "grid",
   metric = "seconds_per_batch",
   goal = "min",
}
