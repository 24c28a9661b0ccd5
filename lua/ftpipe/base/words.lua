--- Words in boxes and columns, measured in characters of UTF-8 instead of bytes.

local core = require("ftpipe.core")

local M = {}

--- Whether the terminal, by its locale, shows more than ASCII.
function M.is_unicode()
   local locale = os.getenv("LC_ALL") or ""
   if locale == "" then locale = os.getenv("LC_CTYPE") or "" end
   if locale == "" then locale = os.getenv("LANG") or "" end
   return locale:lower():find("utf%-?8") ~= nil
end

--- How many characters.
function M.width(text) return select(2, text:gsub("[^\128-\191]", "")) end

--- The text, or its beginning and "..." when it has more than `most` characters.
function M.short(text, most)
   if M.width(text) <= most then return text end
   local n = 0
   for at in text:gmatch("()[^\128-\191]") do
      n = n + 1
      if n == most - 2 then return text:sub(1, at - 1) .. "..." end
   end
end

local WORDS = "[^ \n]+"

--- One line of prose in lines of at most so many characters, where its words allow.
local function wrapped_line(line, columns)
   local parts, used = {}, 0
   local indent = line:match("^ *[-*] ") and "  " or "" -- below the words of an item of a list
   for blanks, word in line:gmatch("( *)(" .. WORDS .. ")") do
      local width = M.width(blanks .. word)
      if used > 0 and used + width > columns then
         parts[#parts + 1], used = "\n" .. indent .. word, #indent + M.width(word)
      else
         parts[#parts + 1], used = blanks .. word, used + width
      end
   end
   return table.concat(parts)
end

--- Text with its long lines wrapped between words; rows of tables and code, which are indented by
-- four, stay as they are.
-- @tparam string text
-- @tparam int columns
function M.wrapped(text, columns)
   return (text:gsub("[^\n]+", function(line)
      if M.width(line) <= columns or line:find("^|") or line:find("^    ") then return nil end
      return wrapped_line(line, columns)
   end))
end

--- How wide each column is. What is said instead of a row's numbers, its last word, takes none.
local function widths(cells)
   local width = {}
   for _, row in ipairs(cells) do
      for c, word in ipairs(row) do
         if #row == #cells[1] or c < #row then width[c] = math.max(width[c] or 0, M.width(word)) end
      end
   end
   return width
end

local GAP = 2 -- characters before a column

--- Columns that stand below each other where not all have room in a line: each list begins with
-- the keys and has at least one more.
local function divided(width, keys, room)
   local parts, key_width, used = {}, 0, 0
   for c = 1, keys do key_width = key_width + GAP + width[c] end
   for c = keys + 1, #width do
      if not parts[1] or used + GAP + width[c] > room then
         parts[#parts + 1], used = {}, key_width
         for k = 1, keys do parts[#parts][k] = k end
      end
      table.insert(parts[#parts], c)
      used = used + GAP + width[c]
   end
   return parts
end

--- A row's words of some columns, in a line.
local function line_of(cells, row, columns, width)
   local padded, n = {}, #cells[1]
   for k, c in ipairs(columns) do
      local pad = (" "):rep((width[c] or 0) - M.width(row[c]))
      local left = cells.all_left or c == 1 or c == n or c == #row
      padded[k] = left and row[c] .. pad or pad .. row[c]
   end
   local gap = (" "):rep(GAP)
   return (gap .. table.concat(padded, gap)):gsub("%s+$", "")
end

--- Rows of words in columns, as lines; the first row is their heads. Words of the first and of the
-- last column begin on the left, numbers between them end on the right. Where the columns have no
-- room beside each other they are divided, the first ones being repeated.
-- @tparam table cells rows of words; keys = how many columns say what a row is of (1), all_left =
--   true: no column is of numbers. The last word of a row that has fewer than the first is said
--   instead of its numbers
-- @tparam[opt] int room characters of a line (those of a terminal that is printed to, or any)
function M.columns(cells, room)
   local n, width, lines = #cells[1], widths(cells), {}
   room = room or core.sys.isatty(1) and core.sys.columns() or math.huge
   local parts = divided(width, math.min(cells.keys or 1, n - 1), room)
   for p, columns in ipairs(parts) do
      for _, row in ipairs(cells) do
         if #row == n then
            lines[#lines + 1] = line_of(cells, row, columns, width)
         elseif p == 1 then
            local all = {}
            for c = 1, #row do all[c] = c end
            lines[#lines + 1] = line_of(cells, row, all, width)
         end
      end
   end
   return table.concat(lines, "\n")
end

return M
