--- Runs this program as several processes, with the launcher of the MPI that is installed.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local process = require("spec.support.process")

local M = {}

-- As root, with more processes than there are cores, and none of them bound to one. What Open MPI's
-- modules leave is not looked for: they are closed when a sanitizer lists it, and have no name.
local ENVIRONMENT = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
   .. "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none "
   .. 'ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0"'

--- A command with what a launcher needs here.
function M.environment(command) return ("env %s %s"):format(ENVIRONMENT, command) end

--- Why nothing can run here as several processes; nil where it can.
function M.missing()
   local module = core.sys.executable():gsub("[^/]+$", "libftpipe_mpi.so")
   if not core.sys.exists(module) then return "this program was built without MPI" end
   local _, _, code = process.shell("command -v mpirun && command -v pgrep")
   if code ~= 0 then return "there is no mpirun, or no pgrep" end
   _, _, code = process.shell(M.environment("mpirun -n 1 true")) -- needs a network, if only `lo`
   return code ~= 0 and "mpirun starts nothing" or nil
end

local RECIPE = "recipes/t5_rte.lua"
local SMALL = { "--profile", "modelled", "--max-source", "32" }

--- The words of a small training, with more of them in front.
function M.flags(...)
   local list = { RECIPE, ... }
   for _, word in ipairs(SMALL) do list[#list + 1] = word end
   return list
end

local function digest(path) return core.sys.sha256(core.sys.read_file(path)) end

--- What a run directory keeps of training to a step, by file.
function M.kept(directory, step)
   local state = ("%s/checkpoints/step-%d"):format(directory, step)
   return {
      model = digest(directory .. "/hf/model.safetensors"),
      plan = digest(directory .. "/plan.txt"),
      predictions = digest(directory .. "/predictions.jsonl"),
      weights = digest(state .. "/hf/model.safetensors"),
      state = digest(state .. "/state/state.safetensors"),
   }
end

--- The command that runs the program with arguments as n processes; it is ended after so many
-- seconds.
-- @param[opt] before by rank: words in front of the program
-- @param[opt] other another program in its place
function M.command(n, arguments, seconds, before, other)
   local words = { other or core.sys.executable() }
   for _, word in ipairs(arguments) do words[#words + 1] = tostring(word) end
   local program = argvs.line(words)
   local parts = { ("-n %d %s"):format(n, program) }
   for rank = 1, before and n or 0 do
      parts[rank] = ("-n 1 %s %s"):format(before[rank - 1] or "", program)
   end
   return ("timeout -k 5 %d %s"):format(seconds or 900,
      M.environment("mpirun " .. table.concat(parts, " : ")))
end

--- A number for a set of them, which no other process has as long as this one goes on.
function M.set_of_machines()
   local pid = core.sys.getpid()
   for try = M.set and 250 or 0, 249 do
      M.set = (pid + try) % 250 + 1
      local name = "ft" .. M.set
      local is_free = not core.sys.exists("/run/netns/" .. name .. "-0")
         and not core.sys.exists("/tmp/ftnet-" .. M.set)
      local opened, lock = pcall(core.io.lock, "/tmp/" .. name .. ".lock")
      M.lock = is_free and opened and lock
      if M.lock then break end
   end
   return M.set
end

local function netns(what, set, ...)
   return process.shell(("FTPIPE=%s tools/netns.sh %s %d %s"):format(core.sys.executable(), what,
      set, table.concat({ ... }, " ")))
end

--- Makes a set of n machines: namespaces of networks (tools/netns.sh); with links of so many bits/s
-- and a delay in ms. What was said, exit code.
function M.machines_up(set, n, ...)
   local _, err, code = netns("up", set, n, ...)
   return err, code
end

function M.machines_down(set, n) netns("down", set, n) end

--- Why there can be none here, with such links; nil where they can.
function M.no_machines(...)
   local missing, set = M.missing(), M.set_of_machines()
   if missing then return missing end
   local err, code = M.machines_up(set, 1, ...)
   M.machines_down(set, 1)
   return code ~= 0 and "no namespaces of networks: " .. (err:match("[^\n]+") or "?") or nil
end

--- Makes two such machines nodes of a cluster of Slurm, whose settings are in a directory. What was
-- said, exit code.
function M.slurm_up(set, directory)
   local _, err, code = netns("slurm", set, 2, directory)
   return err, code
end

--- Why there can be no such cluster here; nil where there can.
function M.no_slurm()
   local _, _, code = process.shell(
      "for program in munged slurmctld slurmd srun nsenter; do command -v $program || exit; done")
   return code ~= 0 and "there is no Slurm (slurm-wlm, munge)" or M.no_machines()
end

--- The command that runs the program with arguments as two tasks of such a cluster.
function M.on_slurm(directory, arguments)
   return ("SLURM_CONF=%s/slurm.conf timeout -k 5 900 %s </dev/null"):format(directory,
      M.environment(("srun --mpi=pmix -N 2 -n 2 %s %s"):format(core.sys.executable(),
         table.concat(arguments, " "))))
end

--- The command that runs the program with arguments as processes of two such machines.
function M.on_machines(set, arguments)
   return ("timeout -k 5 900 %s </dev/null"):format(M.environment(
      ("tools/netns.sh run %d 2 %s %s"):format(set, core.sys.executable(),
         table.concat(arguments, " "))))
end

--- Runs it: what it printed, what it said on stderr, its exit code.
function M.run(n, arguments, seconds)
   return process.shell(M.command(n, arguments, seconds) .. " </dev/null")
end

return M
