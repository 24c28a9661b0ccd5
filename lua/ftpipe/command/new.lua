--- ftpipe new DIR: a project of one's own, which runs at once.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local replace = require("ftpipe.model.replace")
local tasks = require("ftpipe.task")
local usage = require("ftpipe.base.usage")

local M = { help = "a project of your own: a recipe, a task, data and a README" }

M.declared = {
   "Makes a directory with a recipe, a task, some rows of data and a README: a project that runs\n"
      .. "at once, to be changed from there.",
   "ftpipe new colours",
   "ftpipe colours/recipe.lua",
}

local FILES = { "README.md", "recipe.lua", "task.lua" }

--- Writes rows as a file of JSON lines.
local function write_rows(path, rows)
   local lines = {}
   for i, row in ipairs(rows) do lines[i] = core.json.encode(row, { sort = true }) .. "\n" end
   core.sys.write_file(path, table.concat(lines))
end

local function fill(dir)
   core.sys.mkdir(dir .. "/data")
   for _, name in ipairs(FILES) do
      core.sys.write_file(dir .. "/" .. name, core.asset("new/" .. name))
   end
   local definition = tasks.load(dir .. "/task.lua") {}.definition
   local layout, train, held_out = definition.layouts[1], definition.sample()
   write_rows(dir .. "/data/" .. layout.train, train)
   write_rows(dir .. "/data/" .. layout.eval, held_out)
end

--- @tparam {string,...} argv the words after "new"
function M.run(argv)
   local path = argvs.word(argv)
   args.read(M.declared, argv, "new DIR")
   if not path or path == "" then
      usage("new needs the directory to make, as ftpipe new colours")
   end
   local kind = core.sys.exists(path)
   if kind and (kind ~= "directory" or core.sys.list_dir(path)[1]) then
      usage("%s is there already: give another name", path)
   end
   replace.directory(path, fill)
   print(("made %s: README.md, recipe.lua, task.lua, data/"):format(path))
   print("next: " .. argvs.line { "ftpipe", (path:gsub("/*$", "/recipe.lua", 1)) })
end

return M
