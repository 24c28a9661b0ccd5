--- Words in boxes and columns, measured in characters of UTF-8 instead of bytes.

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

--- Rows of words in columns, as lines; the first row is their heads. Words of the first and of the
-- last column begin on the left, numbers between them end on the right.
-- @tparam table cells
-- @tparam[opt=false] boolean all_left all columns are of words
function M.columns(cells, all_left)
   local width, lines = {}, {}
   for _, row in ipairs(cells) do
      for c, word in ipairs(row) do
         -- what is said instead of a row's numbers takes no column
         if #row == #cells[1] then width[c] = math.max(width[c] or 0, M.width(word)) end
      end
   end
   for i, row in ipairs(cells) do
      local padded = {}
      for c, word in ipairs(row) do
         local pad = (" "):rep((width[c] or 0) - M.width(word))
         local left = all_left or c == 1 or c == #cells[1] or #row < #cells[1]
         padded[c] = left and word .. pad or pad .. word
      end
      lines[i] = ("  " .. table.concat(padded, "  ")):gsub("%s+$", "")
   end
   return table.concat(lines, "\n")
end

return M
