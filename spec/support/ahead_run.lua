--- A small run of ftpipe_emu whose waits a spec counts: MICRO-BATCHES STEPS DEVICES. Prints which
-- part of its timeline sums of gradients take on the first device, and how many forwards take none.

package.path = "./?.lua;" .. package.path

local pipeline = require("spec.support.pipeline")

local micro_batches, steps = tonumber(arg[1]), tonumber(arg[2])
local run = pipeline.train {
   devices = "cpu:" .. arg[3], batch = micro_batches, micro_batches = micro_batches, steps = steps,
   trace = true,
}
local us, none = 0, 0
for line in run.timeline.trace:gmatch("[^\n]+") do
   us = us + (line:match('"pid":0,.*"dur":([%d.]+),.*"name":"R stage') or 0)
   none = none + (line:match('"dur":0%.000,.*"name":"F stage') and 1 or 0)
end
print(("sums %.3f, %d forwards without time"):format(1e3 * us / run.timeline.end_ns, none))
