--- ftpipe run FILE.lua: what `ftpipe FILE.lua` does, for those who look for the word; with
-- --restart, again when a process was lost.

local args = require("ftpipe.recipe.args")
local core = require("ftpipe.core")
local restart = require("ftpipe.run.restart")
local script = require("ftpipe.recipe.script")
local suggest = require("ftpipe.base.suggest")
local usage = require("ftpipe.base.usage")

local M = { help = "a recipe: the same as ftpipe FILE.lua" }

M.declared = {
   "Runs a recipe, as ftpipe FILE.lua does; ftpipe FILE.lua --help says what its flags are.\n"
      .. "With --restart it starts the processes of the recipe's devices by mpirun, and when one\n"
      .. "is lost those that are left, from the last checkpoint (with late weights it takes\n"
      .. "--change-schedule, which is given to them alone). Both flags may be behind the\n"
      .. "recipe; one that has flags of these names gets its own behind --.",
   "ftpipe run recipes/t5_rte.lua --out out/rte",
   "ftpipe run recipes/t5_rte.lua --out out/rte --resume --devices cpu:1",
   "ftpipe run --restart 2 recipes/t5_rte.lua --devices hosts:3xcpu:1 --out out/three",
   "ftpipe run my_recipe.lua --lr 1e-3 -- --hosts flag_of_my_recipe",
   restart = { type = "int", min = 0, value = "N", help = "start again N times at most" },
   hosts = { type = "string", value = "LIST",
      help = "machines and their processes, as anna:1,berta:2 (this one)" },
}

--- Takes the flags of this command out of a command line, wherever they are, and all that is in
-- front of the recipe. A word "--" behind it is left out: what follows is the recipe's.
local function take_flags(argv)
   local flags, at = {}, 1
   while argv[at] do
      local word, behind = argv[at], at > 1
      if behind and word == "--" then
         table.remove(argv, at)
         break
      end
      local name, value = word:match("^%-%-([^=]+)(=?)")
      local rule = name and M.declared[name:gsub("%-", "_")]
      if rule or not behind and word:find("^%-") then
         flags[#flags + 1] = table.remove(argv, at)
         if rule and value == "" then flags[#flags + 1] = table.remove(argv, at) end
      else
         at = at + 1
      end
   end
   return flags
end

-- Flags of recipes that print something in place of a run.
local PRINTS = { ["-h"] = true, ["--help"] = true, ["--print-config"] = true }

local function only_prints(argv)
   for _, word in ipairs(argv) do
      if PRINTS[word] then return true end
   end
   return false
end

--- @tparam {string,...} argv the words after "run"
function M.run(argv)
   local o = args.read(M.declared, take_flags(argv), "run FILE.lua")
   local path = argv[1]
   if not path then usage("run needs a recipe, as ftpipe run recipes/t5_rte.lua") end
   if core.sys.exists(path) ~= "file" then
      usage("there is no recipe '%s'%s", path, suggest.file_hint(path))
   end
   if o.restart and not only_prints(argv) then
      local code = restart.run(restart.job(argv, o.hosts), o.restart)
      if code ~= 0 then os.exit(code, true) end
      return
   end
   if o.hosts and not o.restart then usage("--hosts is for --restart, which starts processes") end
   table.remove(argv, 1)
   script(path, argv)
end

return M
