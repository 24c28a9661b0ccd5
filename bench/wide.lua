--- Planning for many devices: T5-3B in 8 stages of 128 replicas, on 128 hosts of 8 cards.
--
--    ftpipe bench/wide.lua

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local ft = require("ftpipe")
local peer = require("peer")

local HOSTS, CARDS, STAGES = 128, 8, 8

local devices = {}
for h = 1, HOSTS do devices[h] = { card = "a100", count = CARDS, host = "host " .. h } end
local replicas = HOSTS * CARDS / STAGES

local start_ns = core.sys.time_ns()
local found = ft.explore("t5-3b", {
   devices = ft.cluster { devices = devices, network = { bandwidth = "25GB/s", latency = "5us" } },
   replicas = (replicas .. "-"):rep(STAGES):sub(1, -2), optimizer = "adafactor", source = 512,
   batch = 8 * replicas, micro_batches = 8 * replicas,
})
local seconds = (core.sys.time_ns() - start_ns) / 1e9
print(found.plan)
print(("%d devices: %.1f s, at most %s"):format(HOSTS * CARDS, seconds,
   core.sys.read_file("/proc/self/status"):match("VmHWM:%s*([^\n]+)")))
peer.gate("wide", seconds)
