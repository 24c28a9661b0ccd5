--- What a sweep varies: each parameter is a list of values, or a range of numbers. A point of a
-- space has a coordinate in [0, 1) for each parameter, in the order of their names.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local number_text = require("ftpipe.base.number_text")
local opts = require("ftpipe.base.opts")

local M = {}

local Range = { __name = "range" }

function Range:__tostring()
   return ("%s to %s%s"):format(number_text(self.low), number_text(self.high),
      self.scale == "log" and ", by factors" or self.whole and ", whole" or "")
end

--- Numbers from low to high.
-- @tparam number low
-- @tparam number high
-- @tparam string scale "linear", or "log": every factor is as likely
-- @tparam[opt] boolean whole only whole numbers
function M.range(low, high, scale, whole)
   local is_longer = low < high -- not of what is not a number
   local is_finite = high - low < math.huge
   if not (is_longer and is_finite and (scale ~= "log" or low > 0)) then
      core.fail("invalid argument", ("%sft.sweep: a range from %g to %g%s"):format(core.where(),
         low, high, not is_longer and ", expected a larger end"
            or is_finite and ": by factors it begins above 0"
            or ", expected ends that are finite"), 2)
   end
   return setmetatable({ low = low, high = high, scale = scale, whole = whole }, Range)
end

local function is_range(value) return getmetatable(value) == Range end

--- Refuses what a command line cannot say: a flag is a text, a number or a boolean, and its name
-- has _ between its words.
-- @tparam string what "space"
-- @tparam string name
-- @param value
function M.check_flag(what, name, value)
   local is_number = type(value) == "number" and value - value == 0 -- finite
   if not is_number and type(value) ~= "string" and type(value) ~= "boolean" then
      opts.fail("ft.sweep", "%s.%s: %s is no value of a flag, expected a number, a text or a "
         .. "boolean", what, name, class.told(value))
   elseif not name:find("^%w[%w_]*$") then
      opts.fail("ft.sweep", "%s: '%s' is no name of a flag%s", what, name,
         name:find("-", 1, true) and ", expected " .. name:gsub("^%-+", ""):gsub("-", "_") or "")
   end
end

--- Whether a table is a list and no more, with something in it.
local function is_list(value)
   if type(value) ~= "table" then return false end
   local n = 0
   for _ in pairs(value) do n = n + 1 end
   return n > 0 and n == #value
end

--- The values of a list, each once.
local function checked_values(name, list)
   local values, seen = {}, {}
   for _, value in ipairs(list) do
      M.check_flag("space", name, value)
      if not seen[value] then seen[value], values[#values + 1] = true, value end
   end
   return values
end

--- Parameters of a definition's `space`, sorted by name: { name =, values = (list) } or { name =,
-- range = }.
function M.parameters(space)
   local list = {}
   for key in pairs(space) do
      if type(key) ~= "string" then
         opts.fail("ft.sweep", "space[%s] has no name, expected { lr = ... }", tostring(key))
      end
   end
   for _, name in ipairs(opts.names(space)) do
      local value = space[name]
      if is_range(value) then
         list[#list + 1] = { name = name, range = value }
      elseif is_list(value) then
         list[#list + 1] = { name = name, values = checked_values(name, value) }
      else
         opts.fail("ft.sweep", "space.%s: expected a list of values or a range, as "
            .. "ft.sweep.log(1e-4, 1e-2)", name)
      end
   end
   if #list == 0 then opts.fail("ft.sweep", "space names no parameter") end
   return list
end

--- A number of a range in few digits, since what people read is what is tried: four, or as many
-- more as a narrow range needs to have a thousand numbers in it.
local function rounded(range, value)
   local most = (range.high - range.low) / 2000
   for digits = 4, 16 do
      local short = tonumber(("%." .. digits .. "g"):format(value))
      if math.abs(short - value) <= most then
         return math.max(range.low, math.min(range.high, short))
      end
   end
   return value
end

--- The value of a parameter at a coordinate in [0, 1).
function M.value(parameter, u)
   if parameter.values then return parameter.values[math.floor(u * #parameter.values) + 1] end
   local r = parameter.range
   local value
   if r.scale == "log" then
      value = math.exp(math.log(r.low) + u * (math.log(r.high) - math.log(r.low)))
   else
      value = r.low + u * (r.high - r.low + (r.whole and 1 or 0))
   end
   if r.whole then return math.min(r.high, math.floor(value)) end
   return rounded(r, value)
end

--- The values of a point: { lr = 1e-3 }.
function M.values(parameters, point)
   local values = {}
   for k, parameter in ipairs(parameters) do
      values[parameter.name] = M.value(parameter, point[k])
   end
   return values
end

--- A text that is the same for the same values alone.
function M.key(values) return core.json.encode(values, { sort = true }) end

--- How many values of a parameter a grid has: all of a list, `steps` of a range, but no more than
-- there are whole numbers in it.
local function grid_values(parameter, steps)
   if parameter.values then return #parameter.values end
   local r = parameter.range
   return r.whole and math.min(steps, r.high - r.low + 1) or steps
end

--- How many points a grid has.
function M.grid_size(parameters, steps)
   local n = 1
   for _, parameter in ipairs(parameters) do n = n * grid_values(parameter, steps) end
   return n
end

--- How many points a space has; nil where a range has no end of them.
function M.size(parameters)
   for _, parameter in ipairs(parameters) do
      if parameter.range and not parameter.range.whole then return nil end
   end
   return M.grid_size(parameters, math.huge)
end

--- Point i (from 1) of the grid; the last parameter changes first.
function M.grid_point(parameters, steps, i)
   local point, rest = {}, i - 1
   for k = #parameters, 1, -1 do
      local n = grid_values(parameters[k], steps)
      point[k] = (rest % n + 0.5) / n
      rest = math.floor(rest / n)
   end
   return point
end

return M
