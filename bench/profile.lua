--- How well the costs of operators add up to a step: published and embedded models, one worker and
-- two side by side.
--
--    ftpipe bench/profile.lua [SECONDS]        of measuring each; 16: medians of two rounds are noise
--
-- The whole forward and backward is run in turn with the blocks that operators are timed in.

package.path = "bench/?.lua;" .. package.path
local models = require("ftpipe.model")
local peer = require("peer")
local profiles = require("ftpipe.profile")

local CASES = {
   { "t5-small", "cpu:1", { batch = 1, source = 64, target = 8 } },
   { "t5-small", "cpu:2", { batch = 2, source = 48, target = 8 } },
   { "gpt2", "cpu:1", { batch = 1, source = 64 } },
   { "bert-base", "cpu:2", { batch = 2, source = 48 } },
   { "embedded:t5_tiny", "cpu:2", { batch = 4, source = 48, target = 8 } },
   { "embedded:bert_tiny", "cpu:1", { batch = 4, source = 48 } },
   { "embedded:gpt2_tiny", "cpu:1", { batch = 4, source = 48 } },
}

local worst = 0
for _, case in ipairs(CASES) do
   local name, devices, options = unpack(case)
   options.fresh, options.whole, options.seconds = true, true, tonumber(arg[1]) or 16
   local model = models.open { model = name, init = name:find("^embedded") and "weights" or "random" }
   local profile = profiles(model, devices, options)
   worst = math.max(worst, math.abs(profile:difference()))
   print(("%-18s %s: sum of operators %8.2f ms, whole step %8.2f ms (%+.1f %%), %d of %d blocks in "
      .. "%d rounds"):format(name, devices, profile:sums().pass / 1e6, profile.head.whole_ns / 1e6,
      100 * profile:difference(), profile.head.distinct, profile.head.blocks, profile.head.rounds))
end
print(("worst: %.1f %%"):format(100 * worst))
peer.gate("profile", worst)
