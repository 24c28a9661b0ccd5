--- A predicted answer, which is pieces of normalised text, as a part of the original text.
--
-- Both are compared without their blanks: when the words as the tokenizer sees them have as many
-- characters as the original, characters correspond one to one, and the answer's ends are found in
-- the original, with its case, accents and blanks. Source: get_final_text of run_squad.py, the
-- program published with Devlin et al., arXiv:1810.04805.

local M = {}

local SPACE = 32

--- Whether a character that is no space begins with this byte of UTF-8.
local function is_solid(byte)
   return byte ~= SPACE and (byte < 128 or byte >= 192)
end

--- How many characters that are no spaces text[1 .. last] has.
local function count_solid(text, last)
   local n = 0
   for i = 1, last do
      if is_solid(text:byte(i)) then n = n + 1 end
   end
   return n
end

--- Byte position of such a character by its number, past the end of the text when there is none.
local function find_solid(text, number)
   local n = 0
   for i = 1, #text do
      if is_solid(text:byte(i)) then n = n + 1 end
      if n == number then return i end
   end
   return #text + 1
end

--- Position of the last byte of the character at `at`.
local function last_byte(text, at)
   while (text:byte(at + 1) or 0) >= 128 and text:byte(at + 1) < 192 do at = at + 1 end
   return at
end

--- Projects.
-- @tparam string answer pieces joined into words
-- @tparam string original the words of the context that hold it
-- @tparam string seen the same words as the tokenizer's basic tokens, joined by spaces
-- @treturn string the part of `original`; all of it when the answer cannot be found in it
-- @usage project.text("steve smith", "Steve Smith's", "steve smith ' s") --> "Steve Smith"
function M.text(answer, original, seen)
   local at = answer ~= "" and seen:find(answer, 1, true)
   if not at then return original end
   if count_solid(original, #original) ~= count_solid(seen, #seen) then return original end
   local before, within = count_solid(seen, at - 1), count_solid(answer, #answer)
   local first = find_solid(original, before + 1)
   return original:sub(first, last_byte(original, find_solid(original, before + within)))
end

--- Pieces as words: "##" joins a piece to the one before it.
-- @tparam {string,...} pieces
-- @treturn string
function M.join(pieces)
   local text = table.concat(pieces, " "):gsub(" ##", ""):gsub("##", "")
   return (text:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%s+", " "))
end

return M
