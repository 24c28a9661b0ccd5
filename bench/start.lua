--- How long the program takes to begin, wall time: the best of many, each with the shell that
-- starts it.
--
--    ftpipe bench/start.lua

package.path = "bench/?.lua;" .. package.path
local core = require("ftpipe.core")
local peer = require("peer")

local ROUNDS = 31

local CASES = {
   { "a script that does nothing", "-e ''" },
   { "the prompt", "-i" },
   { "help", "--help" },
   { "help of a recipe", "recipes/t5_rte.lua --help" },
}

local function best_ms(arguments)
   local command, best = ("'%s' %s </dev/null >/dev/null 2>&1"):format(core.sys.executable(),
      arguments), math.huge
   for _ = 1, ROUNDS do
      local start_ns = core.sys.time_ns()
      assert(os.execute(command) == 0, command)
      best = math.min(best, (core.sys.time_ns() - start_ns) / 1e6)
   end
   return best
end

for i, case in ipairs(CASES) do
   local ms = best_ms(case[2])
   print(("%-28s %6.1f ms"):format(case[1], ms))
   if i == 1 then peer.gate("start", ms) end
end
