--- Options as whoever gave them knows them: "--micro-batches 4" of a command line, and
-- "micro_batches = 4" of Lua. Tables of flags are marked; copies of them are too (copy.lua).

local M = {}

-- Origins of flags: on the command line that somebody wrote, on that of a sweep's trial, by others.
M.COMMAND_LINE, M.SWEEP, M.FOLLOWS = "command line", "sweep", "follows from other flags"

local FLAGS = { __index = { flagged = true } }

--- Marks values as those of flags.
-- @tparam table values
-- @tparam[opt] table origins by name, where each value is from, as it is now
-- @tparam[opt=false] boolean in_lua whoever sets them knows no command line, as at the prompt
function M.flags(values, origins, in_lua)
   if not origins then return setmetatable(values, FLAGS) end
   local read = {}
   for name in pairs(origins) do read[name] = values[name] end
   return setmetatable(values,
      { __index = { flagged = not in_lua }, origins = origins, read = read })
end

--- Whether values are those of flags.
function M.are_flags(values)
   local meta = getmetatable(values)
   local index = type(meta) == "table" and rawget(meta, "__index")
   return type(index) == "table" and index.flagged ~= nil
end

--- By name where each value of flags is from: one of the above, "recipe" or "default"; what is
-- another value since the flags were read is from the recipe. Empty where nothing is known.
function M.origins(values)
   local meta, now = getmetatable(values) or {}, {}
   for name, origin in pairs(meta.origins or {}) do
      now[name] = rawget(values, name) == meta.read[name] and origin or "recipe"
   end
   return now
end

--- Whether somebody asked for what a flag says, or an option in Lua that has no default, so that it
-- is refused where it does nothing. Flags of a sweep are given to all of its trials, and some may
-- say nothing in some of them.
function M.is_given(values, name)
   if M.are_flags(values) then return M.origins(values)[name] == M.COMMAND_LINE end
   return values[name] ~= nil
end

--- Marks values as those of flags when the given ones are.
function M.like(given, values)
   return M.are_flags(given) and M.flags(values, M.origins(given), not given.flagged) or values
end

--- "--micro-batches" or "micro_batches".
-- @tparam table o the options it is one of
-- @tparam string name as ft.args has it
function M.name(o, name)
   return o.flagged and "--" .. name:gsub("_", "-") or name
end

--- "--schedule 1f1b" or 'schedule = "1f1b"'; what is neither text nor number is told by its type.
function M.value(o, name, value)
   local text = type(value) == "number" and tostring(value)
      or type(value) == "string" and (o.flagged and value or '"' .. value .. '"')
      or "(a " .. type(value) .. ")"
   return M.name(o, name) .. (o.flagged and " " or " = ") .. text
end

--- Several of them, rows { name, value }, as they are given together.
function M.list(o, rows)
   local words = {}
   for i, row in ipairs(rows) do words[i] = M.value(o, row[1], row[2]) end
   return table.concat(words, o.flagged and " " or ", ")
end

--- A text for whoever gave the options: "{data=DIR}" in it is "--data DIR" or 'data = "DIR"',
-- "{data}" is "--data" or "data".
function M.words(o, text)
   return (text:gsub("{([%l_]+)=?([^{}]*)}", function(name, value)
      return value == "" and M.name(o, name) or M.value(o, name, value)
   end))
end

return M
