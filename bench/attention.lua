--- C5: attention with T5's bias table, forward and gradient, against PyTorch's operators.
--
--    ftpipe bench/attention.lua [ROUNDS]      9
--
-- Ours is bench_attention, from beside the program; the peer runs when FTPIPE_PEER_PYTHON names a
-- Python with torch: eager, f32, one thread. They take turns; figures are medians of CPU time. A
-- ratio above 1: ours is faster. bench_attention alone prints GFLOP/s against a peak loop.

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local peer = require("peer")

local rounds = tonumber(arg[1]) or 9
local WARM = 2
local LENGTHS = { { 64, 8 }, { 128, 4 }, { 320, 2 }, { 512, 2 } } -- tokens, samples

local theirs = peer.python("attention_torch.py")
if not theirs then
   print(("skipped: attention against torch (%s)"):format(peer.NO_PYTHON))
   peer.gate("attention", nil, peer.NO_PYTHON)
   os.exit(0, true)
end
local ours = peer.open(core.sys.executable():match("^(.*)/") .. "/bench_attention serve")

--- Prints a line; returns the ratio of forward and gradient together.
local function compare(name, line)
   local mine, other = { {}, {}, {} }, { {}, {}, {} }
   local function note(times, forward, grad)
      for i, value in ipairs { forward, grad, forward + grad } do table.insert(times[i], value) end
   end
   for round = 1, rounds + WARM do
      local a, b = ours.ask(line)
      local c, d = theirs.ask(line)
      if round > WARM then
         note(mine, a, b)
         note(other, c, d)
      end
   end
   local function ratio(i) return peer.median(other[i]) / peer.median(mine[i]) end
   local detail = ""
   if mine[2][1] > 0 then detail = (" forward %.2f grad %.2f"):format(ratio(1), ratio(2)) end
   print(("%s %.2f%s ours %.0f us torch %.0f us"):format(name, ratio(3), detail,
      peer.median(mine[3]) * 1e6, peer.median(other[3]) * 1e6))
   return ratio(3)
end

local sum, n, least = 0, 0, math.huge
for _, size in ipairs { 64, 128 } do
   for _, dropout in ipairs { 0, 0.1 } do
      for _, length in ipairs(LENGTHS) do
         local tokens, samples = length[1], length[2]
         local ratio = compare(("attention_T%d_d%d_p%g"):format(tokens, size, dropout),
            ("%d 8 %d %d %d %g"):format(samples, tokens, tokens, size, dropout))
         sum, n, least = sum + math.log(ratio), n + 1, math.min(least, ratio)
      end
   end
end
compare("attention_decode_512_keys_d64", "8 8 1 512 64 0")
print(("attention_vs_torch %.2f geomean of %d, least %.2f"):format(math.exp(sum / n), n, least))
peer.gate("attention", math.exp(sum / n))
ours.close()
theirs.close()
