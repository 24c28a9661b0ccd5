--- Options as whoever gave them knows them: "--micro-batches 4" of a command line, and
-- "micro_batches = 4" of Lua. Tables of flags are marked; copies of them are too (copy.lua).

local M = {}

local FLAGS = { __index = { flagged = true } }

--- Marks values as those of flags.
function M.flags(values) return setmetatable(values, FLAGS) end

--- Marks values as those of flags when the given ones are.
function M.like(given, values)
   return getmetatable(given) == FLAGS and M.flags(values) or values
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
