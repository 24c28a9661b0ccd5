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

--- What a shell reads as this word: in quotes where it would read the word itself otherwise.
-- @tparam string word any bytes but NUL, which no shell has in a word
-- @treturn string
function M.quoted(word)
   local plain = word:find("^[%w_@%%+:,./-]+$")
      or word:find("^%-[%w_@%%+=:,./-]*$") -- a=b gives a variable where a command begins
   return plain and word or "'" .. word:gsub("'", "'\\''") .. "'"
end

--- The line that gives a shell these words.
-- @tparam {string,...} words as of `quoted`
-- @treturn string
function M.line(words)
   local parts = {}
   for i, word in ipairs(words) do parts[i] = M.quoted(word) end
   return table.concat(parts, " ")
end

return M
