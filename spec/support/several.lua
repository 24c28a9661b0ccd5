--- Runs this program as several processes, with the launcher of the MPI that is installed.

local core = require("ftpipe.core")
local process = require("spec.support.process")

local M = {}

-- As root, with more processes than there are cores, and none of them bound to one.
local ENVIRONMENT = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
   .. "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none"

--- Why nothing can run here as several processes; nil where it can.
function M.missing()
   local module = core.sys.executable():gsub("[^/]+$", "libftpipe_mpi.so")
   if not core.sys.exists(module) then return "this program was built without MPI" end
   local _, _, code = process.shell("command -v mpirun")
   return code ~= 0 and "there is no mpirun" or nil
end

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

--- The command that runs the program with arguments as n processes; it is ended after so many
-- seconds.
function M.command(n, arguments, seconds)
   local words = { ("timeout -k 5 %d env %s mpirun -n %d"):format(seconds or 300, ENVIRONMENT, n) }
   words[#words + 1] = quote(core.sys.executable())
   for _, word in ipairs(arguments) do words[#words + 1] = quote(tostring(word)) end
   return table.concat(words, " ")
end

--- Runs it: what it printed, what it said on stderr, its exit code.
function M.run(n, arguments, seconds)
   return process.shell(M.command(n, arguments, seconds) .. " </dev/null")
end

return M
