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
      for start = 1, #word, 4 do
         local piece = word:sub(start, start + 3)
         ids[#ids + 1] = self:id(start > 1 and "##" .. piece or piece)
      end
   end
   return ids
end

function Tokenizer:vector(text) return core.data.ids(self:encode(text)) end

return M
