--- ftpipe run FILE.lua: what `ftpipe FILE.lua` does, for those who look for the word.

local core = require("ftpipe.core")
local script = require("ftpipe.recipe.script")
local suggest = require("ftpipe.base.suggest")
local usage = require("ftpipe.base.usage")

local M = { help = "a recipe: the same as ftpipe FILE.lua" }

local HELP = [[
usage: ftpipe run FILE.lua [--flag VALUE ...]
Runs a recipe, as ftpipe FILE.lua does; ftpipe FILE.lua --help says what its flags are.

  ftpipe run recipes/t5_rte.lua --out out/rte
  ftpipe run recipes/t5_rte.lua --out out/rte --resume --devices cpu:1
  ftpipe run recipes/t5_rte.lua --dry-run]]

--- " (did you mean 'recipes/t5_rte.lua'?)"
local function hint(path)
   local directory, name = path:match("^(.*/)([^/]*)$")
   local found, names = pcall(core.sys.list_dir, directory or ".")
   return found and suggest.hint(name or path, names) or ""
end

--- @tparam {string,...} argv the words after "run"
function M.run(argv)
   local path = table.remove(argv, 1)
   if path == "--help" or path == "-h" then return print(HELP) end
   if not path or path:find("^%-") then
      usage("run needs a recipe in front of its flags, as ftpipe run recipes/t5_rte.lua")
   end
   if core.sys.exists(path) ~= "file" then
      usage("there is no recipe '%s'%s", path, hint(path))
   end
   script(path, argv)
end

return M
