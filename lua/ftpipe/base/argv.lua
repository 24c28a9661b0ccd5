--- Words of a command line.

local M = {}

--- Takes the first word out of argv; nil where that is a flag, or there is none.
-- @tparam {string,...} argv
-- @treturn string
function M.word(argv)
   if not argv[1] or argv[1]:find("^%-") then return nil end
   return table.remove(argv, 1)
end

--- Takes all words up to the first flag out of argv.
-- @tparam {string,...} argv
-- @treturn {string,...}
function M.words(argv)
   local words = {}
   for word in M.word, argv do words[#words + 1] = word end
   return words
end

--- The line that gives a shell these words: what it would read otherwise is in quotes.
-- @tparam {string,...} words
-- @treturn string
function M.line(words)
   local parts = {}
   for i, word in ipairs(words) do
      parts[i] = word:find("^[%w_@%%+=:,./-]+$") and word
         or "'" .. word:gsub("'", "'\\''") .. "'"
   end
   return table.concat(parts, " ")
end

return M
