--- A small tokenizer for rows of fuzz targets: WordPiece with letters, digits and a few words.

local core = require("ftpipe.core")

local pieces = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "was", "who", "##s", ",", ".", "?" }
for code = ("0"):byte(), ("z"):byte() do
   local letter = string.char(code)
   if letter:find("[%l%d]") then
      pieces[#pieces + 1], pieces[#pieces + 2] = letter, "##" .. letter
   end
end

return core.data.wordpiece { vocab = table.concat(pieces, "\n") .. "\n", name = "vocab.txt" }
