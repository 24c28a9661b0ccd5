--- A predicted answer, which is pieces of normalised text, as a part of the original text.
--
-- Both are compared without their blanks: when the words as the tokenizer sees them have as many
-- characters as the original, characters correspond one to one, and the answer's ends are found in
-- the original, with its case, accents and blanks. Source: get_final_text of run_squad.py, the
-- program published with Devlin et al., arXiv:1810.04805.

local M = {}

local CHARACTER = "()([%z\1-\127\194-\244][\128-\191]*)()"

--- The characters of a text that are no spaces: byte position of the first and last of each.
local function solid(text)
   local first, last, n = {}, {}, 0
   for from, character, past in text:gmatch(CHARACTER) do
      if character ~= " " then
         n = n + 1
         first[n], last[n] = from, past - 1
      end
   end
   return first, last, n
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
   local first, last, n = solid(original)
   local _, _, n_seen = solid(seen)
   if n ~= n_seen then return original end
   local _, _, before = solid(seen:sub(1, at - 1))
   local _, _, within = solid(answer)
   return original:sub(first[before + 1], last[before + within])
end

--- Pieces as words: "##" joins a piece to the one before it.
-- @tparam {string,...} pieces
-- @treturn string
function M.join(pieces)
   local text = table.concat(pieces, " "):gsub(" ##", ""):gsub("##", "")
   return (text:gsub("^%s+", ""):gsub("%s+$", ""):gsub("%s+", " "))
end

return M
