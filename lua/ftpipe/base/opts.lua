--- Option tables, checked by rules.
--
--    local rules = {
--       stages = { type = "int", min = 1, required = true, help = "pieces of the model" },
--       memory = { type = "bytes", default = "10 GiB" },
--       schedule = { choices = { "gpipe", "1f1b" }, default = "1f1b" },
--       lengths = { type = "table", items = "int" },      -- a list
--       next = { type = "function", remedy = "write ..." }, -- said of another type
--       parts = { default = 4, follows = f },             -- else f(values, 4), of all other values
--    }
--    local o = opts.check("pipeline", rules, given)
--
-- Unknown keys, missing ones and wrong values are errors that name the line of the caller, the key
-- and what was expected. ft.args reads flags with the same rules.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local number_text = require("ftpipe.base.number_text")
local suggest = require("ftpipe.base.suggest")
local units = require("ftpipe.base.units")

local M = {}

--- Past 2^53 numbers do not hold every integer: digits that would become others are refused.
local function integer(value)
   local number = units.number(value)
   if not number or number ~= math.floor(number) then
      return nil, ("expected an integer, got %s"):format(class.quoted(value))
   end
   local is_changed = type(value) == "string" and value:find("^%-?[1-9]%d*$")
      and ("%.0f"):format(number) ~= value
   if math.abs(number) <= 2 ^ 53 and not is_changed then return number end
   return nil, ("expected an integer of at most 2^53, got %s"):format(class.quoted(value))
end

local function boolean(value)
   if type(value) == "boolean" then return value end
   if value == "true" or value == "false" then return value == "true" end
   return nil, ("expected true or false, got %s"):format(class.quoted(value))
end

local function tensor(value)
   if type(value) == "userdata" and getmetatable(value) == core.tensor.meta then return value end
   return nil, ("expected a tensor, got a %s"):format(type(value))
end

local TYPES = {
   int = integer,
   number = units.number,
   boolean = boolean,
   tensor = tensor,
   bytes = units.bytes,
   seconds = units.seconds,
   rate = units.bytes_per_second,
}

--- The type of a rule: its own, or that of its choices or default.
function M.type_of(rule)
   if rule.type then return rule.type end
   if rule.choices then return "string" end
   local of_default = type(rule.default)
   if of_default == "nil" then return "any" end
   return of_default
end

--- A bound as people write it: 0.001, 1000000.
local function bound_text(n)
   return (n % 1 == 0 and math.abs(n) <= 2 ^ 53 and "%.0f" or "%g"):format(n)
end

local function in_range(rule, value)
   if type(value) ~= "number" then return true end
   local lo, hi = rule.min, rule.max
   if rule.above and value <= rule.above then
      return false, ("expected more than %s, got %s"):format(bound_text(rule.above),
         number_text(value))
   end
   if (not lo or value >= lo) and (not hi or value <= hi) then return true end
   if lo and hi then
      return false, ("expected %s to %s, got %s"):format(bound_text(lo), bound_text(hi),
         number_text(value))
   end
   return false, ("expected at %s %s, got %s"):format(lo and "least" or "most",
      bound_text(lo or hi), number_text(value))
end

local function chosen(rule, value)
   if not rule.choices or type(value) ~= "string" then return true end -- what Lua may give besides
   for _, choice in ipairs(rule.choices) do
      if choice == value then return true end
   end
   return false, ("'%s' is not available%s (expected one of: %s)"):format(tostring(value),
      suggest.hint(tostring(value), rule.choices), table.concat(rule.choices, ", "))
end

--- The reader of a type: one of the above, a function, or kinds of class.lua: "string|plan".
local function reader_of(kind)
   if type(kind) == "function" then return kind end
   if TYPES[kind] or type(kind) ~= "string" then return TYPES[kind] end
   return function(value)
      if class.is(value, kind) then return value end
      return nil, ("expected %s, got %s"):format(class.words(kind), class.told(value))
   end
end

--- Whether a list has something in it, and nothing that is not of the rule's `items`.
local function items_fit(rule, value)
   if not rule.items or type(value) ~= "table" then return true end
   if #value == 0 then return false, "expected a list that is not empty" end
   for i, item in ipairs(value) do
      if not class.is(item, rule.items) then
         return false, ("entry %d: expected %s, got %s"):format(i, class.words(rule.items),
            class.told(item))
      end
   end
   return true
end

--- One value by its rule: the value in base units, or nil and what was expected.
function M.convert(rule, value)
   local kind = M.type_of(rule)
   local convert = reader_of(kind)
   if not convert then
      core.fail("invalid argument", core.where() .. ("a rule has a type that is a %s"):format(
         type(kind)))
   end
   local result, problem = convert(value)
   if result == nil then
      return nil, (problem or "this value is not accepted")
         .. (rule.remedy and "; " .. rule.remedy or "")
   end
   local fine
   fine, problem = in_range(rule, result)
   if fine then fine, problem = chosen(rule, result) end
   if fine then fine, problem = items_fit(rule, result) end
   if fine then return result end
   return nil, problem
end

--- The names of the rules, sorted; items without a name are passed over.
function M.names(rules)
   local names = {}
   for name in pairs(rules) do
      if type(name) == "string" then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

--- Raises what is wrong with an option, with the line of the caller outside ftpipe; exit code 2.
function M.fail(what, format, ...)
   core.fail("invalid argument", ("%s%s: %s"):format(core.where(), what, format:format(...)), 2)
end

--- Raises for an option that has no rule; exit code 2.
-- @tparam string what names the function in messages
-- @tparam table rules
-- @tparam table given
function M.known(what, rules, given)
   if type(given) ~= "table" then
      M.fail(what, "expected a table of options, got a %s", type(given))
   end
   for key in pairs(given) do
      if not rules[key] then
         local names = M.names(rules)
         M.fail(what, "unknown option %s%s (expected one of: %s)", class.quoted(key),
            suggest.hint(tostring(key), names), table.concat(names, ", "))
      end
   end
end

--- Puts defaults that follow from other values in the place of those that were not given.
-- @tparam table rule
-- @tparam string name
-- @tparam table values by name, with defaults
-- @tparam table given by name, what is not nil was given
-- @treturn boolean whether the value is another one now
function M.follow(rule, name, values, given)
   local default = values[name]
   if not rule.follows or default == nil or given[name] ~= nil then return false end
   values[name] = rule.follows(values, default)
   return values[name] ~= default
end

--- The values of an option table: checked, in base units, defaults filled in.
-- @tparam string what names the function in messages
-- @tparam table rules
-- @tparam[opt] table given
function M.check(what, rules, given)
   given = given == nil and {} or given
   M.known(what, rules, given)
   local values = {}
   for _, name in ipairs(M.names(rules)) do
      local rule, value = rules[name], given[name]
      if value == nil then value = rule.default end
      if value ~= nil then
         local problem
         values[name], problem = M.convert(rule, value)
         if problem then M.fail(what, "option '%s': %s", name, problem) end
      elseif rule.required then
         local help = rule.help and " (" .. rule.help .. ")" or ""
         M.fail(what, "option '%s' is missing%s", name, help)
      end
   end
   for name, rule in pairs(rules) do M.follow(rule, name, values, given) end
   return named.like(given, values)
end

-- What a value is, where the name of its type does not say it.
local KINDS = {
   int = "integer", bytes = "bytes, as 11GB", seconds = "seconds, as 90s",
   rate = "bytes per second, as 12GB/s",
}

--- " from 0 to 1", " of at least 1".
local function range_of(rule)
   if rule.above then return " above " .. bound_text(rule.above) end
   if rule.min and (rule.max or 2 ^ 53) < 2 ^ 53 then
      return (" from %s to %s"):format(bound_text(rule.min), bound_text(rule.max))
   end
   return rule.min and " of at least " .. bound_text(rule.min)
      or rule.max and " of at most " .. bound_text(rule.max) or ""
end

--- One line of a rule: "name (integer of at least 1) [4]: what it is for", with the default in
-- brackets.
function M.line(name, rule)
   local kind, default = M.type_of(rule), rule.default
   local kinds = rule.choices and table.concat(rule.choices, ", ")
      or type(kind) ~= "string" and "value" or (KINDS[kind] or kind:gsub("|", " or "))
   local note = rule.required and " [required]"
      or default ~= nil and default ~= false and (" [%s]"):format(tostring(default)) or ""
   return ("%s (%s%s)%s%s"):format(name, kinds, range_of(rule), note,
      rule.help and ": " .. rule.help or "")
end

--- One line for each rule.
function M.help(rules)
   local lines = {}
   for i, name in ipairs(M.names(rules)) do lines[i] = "  " .. M.line(name, rules[name]) end
   return table.concat(lines, "\n")
end

guard("ft.opts", M, {
   type_of = "rule: table", convert = "rule: table, value?: any", names = "rules: table",
   fail = "what: string, format: string", check = "what: string, rules: table, given?: any",
   known = "what: string, rules: table, given: any", help = "rules: table",
   line = "name: string, rule: table",
   follow = "rule: table, name: string, values: table, given: table",
})

return M
