-- Two hosts of two cards each: what the links cost. Run: ftpipe examples/hosts.lua
local ft = require("ftpipe")

local model = ft.model { model = "t5-large" }

local function plan(host, network)
   return ft.explore.model(model, {
      devices = ft.cluster {
         devices = {
            { card = "2080ti", count = 2, host = "a" },
            { card = "2080ti", count = 2, host = "b" },
         },
         hosts = { a = host, b = host }, network = network,
      },
      batch = 32, micro_batches = 8, source = 512, target = 8, partition = "mixed",
      schedule = "1f1b", recompute = "auto", optimizer = "adafactor",
   })
end

-- What the cards of a host send passes through it: side by side, or one after the other.
local fast = { bandwidth = "25GB/s" }
local own = plan({ bandwidth = "1GB/s" }, fast)
local shared = plan({ bandwidth = "1GB/s", shared = true }, fast)
print(shared.seconds > own.seconds)                     --> true
print(shared:limits():match("busiest link: (host)"))    --> host

-- 1 Gbit/s between the hosts is what everybody waits for.
local slow = plan({ bandwidth = "12GB/s" }, { bandwidth = "0.125GB/s", latency = "30us" })
print(slow.seconds > 1.2 * own.seconds)                 --> true
print(slow:limits():match("busiest link: (%a+)"))       --> network
