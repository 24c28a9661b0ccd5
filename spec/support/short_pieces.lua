--- A tokenizer for specs: lower case, punctuation apart, pieces of at most four letters, a new id
-- for each new piece.

local core = require("ftpipe.core")

local M = {}
local Tokenizer = {}
Tokenizer.__index = Tokenizer

function M.new()
   local tokenizer = setmetatable({ ids = {}, pieces = {}, n = 0 }, Tokenizer)
   for _, piece in ipairs { "[PAD]", "[CLS]", "[SEP]" } do tokenizer:id(piece) end
   return tokenizer
end

function Tokenizer:id(piece)
   if not self.ids[piece] then
      self.ids[piece], self.pieces[self.n] = self.n, piece
      self.n = self.n + 1
   end
   return self.ids[piece]
end

function Tokenizer:piece(id) return self.pieces[id] end

function Tokenizer:special(name) return self.ids["[" .. name:upper() .. "]"] end

function Tokenizer.basic(_, text)
   local words = {}
   for word in core.data.squeeze(text):lower():gsub("%p", " %0 "):gmatch("[^ ]+") do
      words[#words + 1] = word
   end
   return words
end

function Tokenizer:encode(text)
   local ids = {}
   for _, word in ipairs(self:basic(text)) do
      local letters = {}
      for letter in word:gmatch("[%z\1-\127\192-\255][\128-\191]*") do
         letters[#letters + 1] = letter
      end
      for i = 1, #letters, 4 do
         local piece = table.concat(letters, "", i, math.min(i + 3, #letters))
         ids[#ids + 1] = self:id(i > 1 and "##" .. piece or piece)
      end
   end
   return ids
end

function Tokenizer:vector(text) return core.data.ids(self:encode(text)) end

--- As tokenizers of C do it, by one that has the pieces so far.
function Tokenizer:answer(spans, context)
   local lines = {}
   for id = 0, self.n - 1 do lines[id + 1] = self.pieces[id] .. "\n" end
   lines[#lines + 1] = "[UNK]\n"
   local made = core.data.wordpiece { vocab = table.concat(lines), name = "short pieces" }
   return made:answer(spans, context)
end

return M
