--- Values as the prompt prints them.

local help = require("ftpipe.prompt.help")
local number_text = require("ftpipe.base.number_text")

local M = {}

-- What is shown of a plain table: entries of it, characters of a line and of a table in a part of
-- one, lines, and levels, the table's own first.
local MOST_ENTRIES, LONGEST_LINE, LONGEST_ENTRY, MOST_LINES, LEVELS = 24, 96, 80, 24, 4
local MORE = "page(x) has all"

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

local ESCAPES = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }

local function escaped(sign)
   return ESCAPES[sign] or (sign:gsub(".", function(c) return ("\\%d"):format(c:byte()) end))
end

--- Text whose control characters would be of effect on a terminal, as they are written in Lua.
-- @tparam string text
-- @tparam string kept a pattern of those that stay
local function harmless(text, kept)
   text = text:gsub("%c", function(c) return not c:find(kept) and escaped(c) or nil end)
   return (text:gsub("\194[\128-\159]", escaped))
end

--- A string in quotes, on one line.
local function quoted(text)
   return '"' .. harmless(text:gsub('[\\"]', "\\%0"), "^$") .. '"'
end

--- A value as `tostring` has it; a number in the fewest digits that are it and no other.
local function text_of(value)
   if type(value) == "string" then return harmless(value, "[\n\t]") end
   if type(value) ~= "number" then return tostring(value) end
   return value == value and number_text(value) or "nan"
end

local function keys_of(value)
   local keys = {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, comes_first)
   return keys
end

--- Whether keys are those of a list: 1, 2 and so on.
local function is_list(keys)
   return type(keys[1]) == "number" and keys[1] == 1 and keys[#keys] == #keys
end

--- "a = " and "[5] = ": a key in front of its value.
local function name_of(key)
   local name = type(key) == "string" and key:match("^[%a_][%w_]*$")
   return (name or ("[%s]"):format(type(key) == "string" and quoted(key) or tostring(key))) .. " = "
end

--- The first entries, in braces, that a part of a line has room for.
local function fitting(entries, seen)
   local n, width = 0, #"{ ,  ... }"
   while entries[n + 1] and width + #entries[n + 1] + #", " <= LONGEST_ENTRY do
      n = n + 1
      width = width + #entries[n] + #", "
   end
   if n == #entries then return in_braces(entries) end
   seen.cut = true
   return n == 0 and "{...}" or ("{ %s, ... }"):format(table.concat(entries, ", ", 1, n))
end

local shown

--- The entries of a plain table as texts, and whether they are those of a list.
-- @tparam table value
-- @tparam int levels of tables in it that are shown
-- @tparam table seen tables around it, by table; `cut` is set when something had no room, `deep`
--   when something is of too many levels
-- @tparam[opt] int columns of each on a line of its own, which may go on below; 0: it may not; nil:
--   all of them are for one line
local function entries_of(value, levels, seen, columns)
   local keys, entries = keys_of(value), {}
   local is_bare, width = is_list(keys), 0
   seen[value] = true
   for i = 1, math.min(#keys, MOST_ENTRIES) do
      local name = is_bare and not columns and "" or name_of(keys[i])
      entries[i] = name .. shown(value[keys[i]], levels - 1, seen, columns)
      width = width + #entries[i] + #", "
      if not columns and width > LONGEST_LINE then break end -- as the others have no room, too
   end
   seen[value] = nil
   if #keys > MOST_ENTRIES then
      entries[#entries + 1] = ("... %d more, %s"):format(#keys - MOST_ENTRIES, MORE)
      seen.cut = true
   end
   return entries
end

--- A value that is no plain table, in a part of a line.
local function short(value, seen)
   local text = type(value) == "string" and quoted(value) or text_of(value)
   local line = text:match("^[^\n]*")
   if line == text and #text <= LONGEST_ENTRY then return text end
   seen.cut = true
   return line:sub(1, LONGEST_ENTRY) .. " ..."
end

local function indented(entries)
   return "{\n  " .. table.concat(entries, "\n"):gsub("\n", "\n  ") .. "\n}"
end

--- A value in another one: on one line where it has room there, else with an entry on each line.
function shown(value, levels, seen, columns)
   if not is_plain(value) then return short(value, seen) end
   if seen[value] then return "<cycle>" end
   if levels <= 0 and next(value) then
      seen.deep = true
      return "{...}"
   end
   local cut = seen.cut
   seen.cut = false
   local line = fitting(entries_of(value, levels, seen), seen)
   if (columns or 0) == 0 or #line <= columns and not seen.cut then
      seen.cut = seen.cut or cut
      return line
   end
   seen.cut = cut
   return indented(entries_of(value, levels, seen, columns - 2))
end

--- Entries on one line if they fit, else each on its own, with those of tables in them below where
-- that is no more than some lines.
local function show_table(value)
   local seen = {}
   local text = in_braces(entries_of(value, LEVELS, seen))
   if #text > LONGEST_LINE or seen.cut then
      seen = {}
      text = indented(entries_of(value, LEVELS, seen, LONGEST_LINE))
      if select(2, text:gsub("\n", "")) > MOST_LINES then
         seen = {}
         text = indented(entries_of(value, LEVELS, seen, 0))
      end
   end
   local is_all = not seen.cut and not seen.deep
   return (is_all or text:find(MORE, 1, true)) and text or text .. "\n... " .. MORE
end

--- A value as text: functions and parts of ft by how they are called, objects by __shown of their
-- metatables where tostring says less, tables by their entries, numbers in full, the rest as
-- tostring has it.
function M.value(value)
   local brief = help.brief(value)
   if brief then return brief end
   local meta = debug.getmetatable(value)
   local own = type(meta) == "table" and rawget(meta, "__shown")
   if own then return own(value) end
   return is_plain(value) and show_table(value) or text_of(value)
end

-- ---------------------------------------------------------------------------------------------
-- With nothing left out.

--- A value inside of others, whose lines behind the first begin with the indent.
local function whole(value, indent, around)
   if type(value) == "string" then return quoted(value) end
   if not is_plain(value) then return (M.value(value):gsub("\n", "\n" .. indent)) end
   if around[value] then return "<cycle>" end
   around[value] = true
   local entries, inner, keys = {}, indent .. "  ", keys_of(value)
   for i, key in ipairs(keys) do entries[i] = whole(value[key], inner, around) end
   around[value] = nil
   local names = {}
   for i, key in ipairs(keys) do names[i] = name_of(key) .. entries[i] end
   local line = in_braces(is_list(keys) and entries or names)
   if #indent + #line <= LONGEST_LINE and not line:find("\n") then return line end
   return "{\n" .. inner .. table.concat(names, ",\n" .. inner) .. "\n" .. indent .. "}"
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
