--- The way between two processes of this machine for large activations: what passes by our
-- transport, and what MPI alone passes, as NetPIPE says (Debian's netpipe-openmpi), turn by turn.
--
--    ftpipe bench/link.lua [ROUNDS]

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local files = require("spec.support.files")
local links = require("ftpipe.placement.links")
local peer = require("peer")
local process = require("spec.support.process")
local several = require("spec.support.several")

local BYTES = 2 ^ 23 -- of a message of NetPIPE; what we pass is as many, a MiB each

-- Ways of Open MPI between processes of one machine.
local WAYS = { { "memory", "vader,self" }, { "tcp", "tcp,self" } }

local function run(command, btl)
   local out, err, code = process.shell(("OMPI_MCA_btl=%s %s </dev/null"):format(btl, command))
   assert(code == 0, err)
   return out
end

--- Bytes a second of our transport, the slower of both directions.
local function ours(btl)
   local out = run(several.command(2, { "bench/link.lua", "child" }, 100), btl)
   return assert(tonumber(out:match("rate (%S+)")), out)
end

--- Bytes a second that NetPIPE says: a line of its file has bytes, Mbit/s, seconds.
local function theirs(btl, path)
   run(several.environment(("timeout 100 mpirun -n 2 NPopenmpi -l %d -u %d -p 0 -o %s"):format(
      BYTES, BYTES, path)), btl)
   local mbits = core.sys.read_file(path):match("(%S+)%s+%S+%s*$")
   return assert(tonumber(mbits)) * 2 ^ 20 / 8
end

local function compare(rounds, path)
   for _, way in ipairs(WAYS) do
      local ratios = {}
      for round = 1, rounds do
         local a, b = ours(way[2]), theirs(way[2], path)
         ratios[round] = a / b
         print(("%-6s %.2f GB/s, NetPIPE %.2f GB/s: %.3f"):format(way[1], a / 1e9, b / 1e9, a / b))
      end
      peer.gate("link-" .. way[1], peer.median(ratios))
   end
end

local function missing()
   local _, _, code = process.shell("command -v NPopenmpi")
   return several.missing() or code ~= 0 and "there is no NPopenmpi" or nil
end

if arg[1] == "child" then
   local way = links.find(true).ways[1]
   print(("rate %.0f"):format(math.min(way.to_bytes_per_s, way.from_bytes_per_s)))
elseif missing() then
   for _, way in ipairs(WAYS) do peer.gate("link-" .. way[1], nil, missing()) end
else
   local scratch = files.directory()
   compare(tonumber(arg[1] or 5), scratch .. "/np")
   files.remove(scratch)
end
