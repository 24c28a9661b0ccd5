--- The table ft: `local ft = require("ftpipe")`. Loads a part when it is first used, nothing else.

local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local parts = require("ftpipe.parts")
local suggest = require("ftpipe.base.suggest")

local modules = {}
for _, row in ipairs(parts) do modules[row[1]] = row[2] end

local function names_of_parts() return keys(modules) end

local function load_part(ft, name)
   local part
   if modules[name] then
      part = require(modules[name])
   elseif modules[name] == false then
      part = core[name]
   else
      local names = names_of_parts()
      core.fail("invalid argument", ("%sft has no '%s'%s (it has: %s)"):format(core.where(),
         tostring(name), suggest.hint(tostring(name), names), table.concat(names, ", ")))
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
