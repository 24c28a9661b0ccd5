--- Values as the prompt prints them.

local help = require("ftpipe.prompt.help")
local number_text = require("ftpipe.base.number_text")

local M = {}

-- What is shown of a plain table, and of one in it; of how many levels, the table's own first.
local MOST_ENTRIES, LONGEST_LINE, LONGEST_ENTRY, LEVELS = 24, 96, 80, 3

--- Names before numbers, each in its order.
local function comes_first(a, b)
   if type(a) ~= type(b) then return type(a) == "string" end
   if type(a) == "string" or type(a) == "number" then return a < b end
   return tostring(a) < tostring(b)
end

local function is_plain(value)
   return type(value) == "table" and not (getmetatable(value) or {}).__tostring
end

local function in_braces(entries)
   return #entries > 0 and "{ " .. table.concat(entries, ", ") .. " }" or "{}"
end

local entries_of

--- A value as `tostring` has it; a number in the fewest digits that are it and no other.
local function text_of(value)
   if type(value) ~= "number" then return tostring(value) end
   return value == value and number_text(value) or tostring(value)
end

local function keys_of(value)
   local keys = {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, comes_first)
   return keys
end

--- "a" and "[5]": a key in front of its value.
local function name_of(key)
   return type(key) == "string" and key:match("^[%a_][%w_]*$")
      or ("[%s]"):format(type(key) == "string" and ("%q"):format(key) or tostring(key))
end

--- The first entries, in braces, that a part of a line has room for.
local function fitting(entries)
   local n, width = 0, #"{ ,  ... }"
   while entries[n + 1] and width + #entries[n + 1] + #", " <= LONGEST_ENTRY do
      n = n + 1
      width = width + #entries[n] + #", "
   end
   if n == #entries then return in_braces(entries) end
   return n == 0 and "{...}" or ("{ %s, ... }"):format(table.concat(entries, ", ", 1, n))
end

--- A value in a part of a line; of tables so many levels.
local function short(value, levels)
   if is_plain(value) then
      return (levels > 0 or not next(value)) and fitting(entries_of(value, levels)) or "{...}"
   end
   local text = type(value) == "string" and ("%q"):format(value) or text_of(value)
   local line = text:match("^[^\n]*")
   return line == text and #text <= LONGEST_ENTRY and text or line:sub(1, LONGEST_ENTRY) .. " ..."
end

--- "a = 1" and "[1] = 5" of a plain table, and so many levels of the tables in it.
function entries_of(value, levels)
   local keys, entries = keys_of(value), {}
   for i = 1, math.min(#keys, MOST_ENTRIES) do
      entries[i] = ("%s = %s"):format(name_of(keys[i]), short(value[keys[i]], levels - 1))
   end
   if #keys > MOST_ENTRIES then
      entries[#entries + 1] = ("... %d more, page(x) has all"):format(#keys - MOST_ENTRIES)
   end
   return entries
end

--- Entries on one line if they fit, else each on its own.
local function show_table(value)
   local entries = entries_of(value, LEVELS)
   local line = in_braces(entries)
   return #line <= LONGEST_LINE and line or "{\n  " .. table.concat(entries, "\n  ") .. "\n}"
end

--- A value as text: functions and parts of ft by how they are called, objects by __shown of their
-- metatables where tostring says less, tables by their entries, numbers in full, the rest as
-- tostring has it.
function M.value(value)
   local brief = help.brief(value)
   if brief then return brief end
   local meta = debug.getmetatable(value)
   local shown = type(meta) == "table" and rawget(meta, "__shown")
   if shown then return shown(value) end
   return is_plain(value) and show_table(value) or text_of(value)
end

-- ---------------------------------------------------------------------------------------------
-- With nothing left out.

--- A value inside of others, whose lines behind the first begin with the indent; a table that is in
-- itself is {...}.
local function whole(value, indent, around)
   if type(value) == "string" then return ("%q"):format(value) end
   if not is_plain(value) then return (M.value(value):gsub("\n", "\n" .. indent)) end
   if around[value] then return "{...}" end
   around[value] = true
   local entries, inner = {}, indent .. "  "
   for i, key in ipairs(keys_of(value)) do
      entries[i] = ("%s = %s"):format(name_of(key), whole(value[key], inner, around))
   end
   around[value] = nil
   local line = in_braces(entries)
   if #indent + #line <= LONGEST_LINE and not line:find("\n") then return line end
   return "{\n" .. inner .. table.concat(entries, ",\n" .. inner) .. "\n" .. indent .. "}"
end

--- A value as text with nothing left out: all entries of tables and of those in them, all elements
-- of a tensor, by __whole of its metatable.
function M.whole(value)
   local meta = debug.getmetatable(value)
   local own = type(meta) == "table" and rawget(meta, "__whole")
   if own then return own(value) end
   return is_plain(value) and whole(value, "", {}) or M.value(value)
end

return M
