--- Planning for many devices: T5-3B on 128 hosts of 8 cards, in few stages of many replicas and in
-- as many stages as there are devices; for these it has more layers, since it is cut between
-- operators.
--
--    ftpipe bench/wide.lua [STAGES...]

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local ft = require("ftpipe")
local peer = require("peer")

local HOSTS, CARDS, MICRO_BATCHES = 128, 8, 8
local LAYERS = { [1024] = 36 } -- by stages; else its own

local devices = {}
for h = 1, HOSTS do devices[h] = { card = "a100", count = CARDS, host = "host " .. h } end

--- Seconds of planning for so many stages, each with as many devices.
local function plan(stages)
   local replicas = HOSTS * CARDS / stages
   local batch = MICRO_BATCHES * replicas
   local model = ft.model "t5-3b"
   model.config.num_layers = LAYERS[stages] or model.config.num_layers
   model.config.num_decoder_layers = model.config.num_layers
   local start_ns, start_s = core.sys.time_ns(), os.clock()
   local found = ft.explore(model, {
      devices = ft.cluster { devices = devices,
         network = { bandwidth = "25GB/s", latency = "5us" } },
      replicas = (replicas .. "-"):rep(stages):sub(1, -2), optimizer = "adafactor", source = 512,
      batch = batch, micro_batches = batch,
   })
   local seconds = (core.sys.time_ns() - start_ns) / 1e9
   print(("%s\n%s\n%d stages on %d devices: %.1f s, %.1f s of them of this core, at most %s so far")
      :format(found:setting(), found:prediction(), stages, HOSTS * CARDS, seconds,
         os.clock() - start_s,
         core.sys.read_file("/proc/self/status"):match("VmHWM:%s*([^\n]+)")))
   return seconds
end

for _, stages in ipairs(arg[1] and arg or { 8, 64, 1024 }) do
   peer.gate("wide-" .. stages, plan(tonumber(stages)))
end
