--- The number that counts, in what a trial has left.

local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local suggest = require("ftpipe.base.suggest")

local M = {}

local FIGURES = "metrics" -- an object of summary.json whose names need not be said with its own

--- What a dotted name has in a table.
local function at_name(data, name)
   for key in name:gmatch("[^.]+") do
      if type(data) ~= "table" then return nil end
      data = data[key]
   end
   return data
end

--- The number of a name in what a trial left, the figures of a recipe included.
-- @tparam table data
-- @tparam string name a dot goes into objects
-- @treturn ?number
-- @treturn boolean whether there is something of that name
function M.number(data, name)
   local value = at_name(data, name)
   if value == nil then value = at_name(data[FIGURES], name) end
   return tonumber(value), value ~= nil
end

--- The names by which `number` finds the numbers of a table, sorted.
function M.names(data)
   local list = {}
   local function add(object, before)
      for key, value in pairs(object) do
         if type(key) == "string" and not key:find(".", 1, true) then
            if type(value) == "number" then list[before .. key] = true end
            if type(value) == "table" and getmetatable(value) ~= core.json.array_meta then
               add(value, before == "" and key == FIGURES and "" or before .. key .. ".")
            end
         end
      end
   end
   add(data, "")
   return keys(list)
end

--- Why a metric is none, in words.
-- @tparam string metric
-- @tparam string whose "trial 3 left"
-- @tparam {string,...} names of what there is
function M.unknown(metric, whose, names)
   return ("metric '%s': %s no such number%s, but %s"):format(metric, whose,
      suggest.hint(metric, names), names[1] and table.concat(names, ", ") or "none at all")
end

return M
