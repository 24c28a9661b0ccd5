--- The table ft: `local ft = require("ftpipe")`. Loads a part when it is first used, nothing else.

local core = require("ftpipe.core")
local suggest = require("ftpipe.suggest")

--- ft.NAME is the module ftpipe.NAME.
local PARTS = {
   "args", "cluster", "compare", "explore", "fine_tune", "graph", "model", "opts", "partition",
   "plan", "planner", "profile", "run", "schedule", "stages", "swap", "task", "tensor", "units",
}

--- ft.NAME is a table of core.
local CORE = { "json", "sys" }

local function find(list, name)
   for _, entry in ipairs(list) do
      if entry == name then return true end
   end
   return false
end

local function names_of_parts()
   local names = {}
   for _, entry in ipairs(PARTS) do names[#names + 1] = entry end
   for _, entry in ipairs(CORE) do names[#names + 1] = entry end
   table.sort(names)
   return names
end

local function load_part(ft, name)
   local part
   if find(PARTS, name) then
      part = require("ftpipe." .. name)
   elseif find(CORE, name) then
      part = core[name]
   else
      local names = names_of_parts()
      error(("ft has no '%s'%s (it has: %s)"):format(tostring(name),
         suggest.hint(tostring(name), names), table.concat(names, ", ")), 2)
   end
   rawset(ft, name, part)
   return part
end

return setmetatable({ version = core.version }, {
   __index = load_part,
   __tostring = function()
      return ("ftpipe %s: ft.%s"):format(core.version, table.concat(names_of_parts(), ", ft."))
   end,
})
