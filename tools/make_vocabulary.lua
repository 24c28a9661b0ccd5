--- Makes the vocabularies of the tiny GPT-2 and the tiny BERT out of the sample world's texts:
--
--    luajit tools/make_vocabulary.lua gpt2 assets/gpt2_tiny     vocab.json, merges.txt
--    luajit tools/make_vocabulary.lua bert assets/bert_tiny     vocab.txt
--
-- The same bytes each time. That of GPT-2 is byte-level byte-pair encoding (Sennrich et al.,
-- arXiv:1508.07909; Radford et al. 2019, section 2.2); BERT's holds all words of the texts, and
-- letters, digits and marks with which others can be spelt. Texts are ASCII.

local here = arg[0]:match("^(.*)[/\\]") or "."
package.path = here .. "/../lua/?.lua;" .. package.path

local cloze = require("ftpipe.sample.cloze")
local corpus = require("ftpipe.sample.corpus")
local squad = require("ftpipe.sample.squad")
local wikitext2 = require("ftpipe.sample.wikitext2")

local SEED, PASSAGES, PROBLEMS = 1, 5000, 20000
local MERGES = 400 -- at most; the texts have words for fewer
local END_OF_TEXT = "<|endoftext|>"

local function write_file(path, text)
   local file, problem = io.open(path, "wb")
   if not file then
      io.stderr:write(("make_vocabulary: cannot write %s\n"):format(problem))
      os.exit(6)
   end
   file:write(text)
   file:close()
end

local function sorted(set)
   local list = {}
   for key in pairs(set) do list[#list + 1] = key end
   table.sort(list)
   return list
end

-- ---------------------------------------------------------------------------------------------
-- Byte-level byte-pair encoding.

--- The character that stands for a byte in the files: itself where it can be seen, else one past
-- U+00FF. Also the bytes in the order of their ids: those that can be seen come first.
local function byte_characters()
   local characters, order, hidden = {}, {}, {}
   local function two_bytes(code)
      return string.char(192 + math.floor(code / 64), 128 + code % 64)
   end
   for byte = 0, 255 do
      local is_ascii, is_seen = byte < 127, byte > 32 and (byte < 127 or byte > 160) and byte ~= 173
      local list = is_seen and order or hidden
      list[#list + 1] = byte
      characters[byte] = is_ascii and string.char(byte) or two_bytes(byte)
   end
   for i, byte in ipairs(hidden) do
      characters[byte] = two_bytes(255 + i)
      order[#order + 1] = byte
   end
   return characters, order
end

--- Calls visit(word) for the stretches that no merge crosses: letters, digits or marks, each with
-- the blank before them, and blanks but the last one before something.
local function each_stretch(text, visit)
   local at = 1
   while at <= #text do
      local stretch = text:match("^ ?%a+", at) or text:match("^ ?%d+", at)
         or text:match("^ ?[^%s%w]+", at)
      if not stretch then
         stretch = text:match("^%s+", at)
         if #stretch > 1 and at + #stretch <= #text then stretch = stretch:sub(1, -2) end
      end
      visit(stretch)
      at = at + #stretch
   end
end

--- The distinct stretches of the texts as lists of characters, with how often they come.
local function count_words(texts, characters)
   local counts = {}
   for _, text in ipairs(texts) do
      each_stretch(text, function(word) counts[word] = (counts[word] or 0) + 1 end)
   end
   local words = {}
   for i, word in ipairs(sorted(counts)) do
      words[i] = { count = counts[word] }
      for k = 1, #word do words[i][k] = characters[word:byte(k)] end
   end
   return words
end

--- The pair that comes most often; of several the first in alphabetical order. Nil without any.
local function best_pair(words)
   local counts, best = {}, nil
   for _, word in ipairs(words) do
      for i = 1, #word - 1 do
         local pair = word[i] .. " " .. word[i + 1]
         counts[pair] = (counts[pair] or 0) + word.count
      end
   end
   for pair, count in pairs(counts) do
      if not best or count > counts[best] or (count == counts[best] and pair < best) then
         best = pair
      end
   end
   return best
end

local function merge(word, left, right)
   local i = 1
   while i < #word do
      if word[i] == left and word[i + 1] == right then
         word[i] = left .. right
         table.remove(word, i + 1)
      end
      i = i + 1
   end
end

local function train_merges(words)
   local merges = {}
   for i = 1, MERGES do
      local pair = best_pair(words)
      if not pair then break end
      merges[i] = pair
      local left, right = pair:match("^(%S+) (%S+)$")
      for _, word in ipairs(words) do merge(word, left, right) end
   end
   return merges
end

local function make_gpt2(dir)
   local train = wikitext2.examples { seed = SEED }
   local texts, next_passage = { train[1].text }, corpus.passages(SEED)
   for _ = 1, PASSAGES do texts[#texts + 1] = next_passage() end
   local characters, order = byte_characters()
   local merges = train_merges(count_words(texts, characters))
   local pieces = {}
   for i, byte in ipairs(order) do pieces[i] = characters[byte] end
   for _, pair in ipairs(merges) do pieces[#pieces + 1] = pair:gsub(" ", "") end
   pieces[#pieces + 1] = END_OF_TEXT
   for i, piece in ipairs(pieces) do
      pieces[i] = ('"%s":%d'):format(piece:gsub('[\\"]', "\\%0"), i - 1)
   end
   write_file(dir .. "/vocab.json", "{" .. table.concat(pieces, ",") .. "}\n")
   write_file(dir .. "/merges.txt", "#version: 0.2\n" .. table.concat(merges, "\n") .. "\n")
end

-- ---------------------------------------------------------------------------------------------
-- Words.

local function make_bert(dir)
   local words = {}
   local function add(text)
      for word in text:lower():gmatch("%a+") do words[word] = true end
   end
   for _, question in ipairs((squad.examples { seed = SEED })) do
      add(question.text)
      add(question.context)
   end
   local next_problem = cloze.problems(SEED)
   for _ = 1, PROBLEMS do add((next_problem().text:gsub("%[MASK%]", ""))) end
   local pieces = { "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]" }
   for byte = 33, 126 do
      local character = string.char(byte)
      if not character:find("%u") then pieces[#pieces + 1] = character end
      words[character] = nil
   end
   for character in ("abcdefghijklmnopqrstuvwxyz0123456789"):gmatch(".") do
      pieces[#pieces + 1] = "##" .. character
   end
   for _, word in ipairs(sorted(words)) do pieces[#pieces + 1] = word end
   write_file(dir .. "/vocab.txt", table.concat(pieces, "\n") .. "\n")
end

local families = { gpt2 = make_gpt2, bert = make_bert }

if not families[arg[1]] or not arg[2] then
   io.stderr:write("usage: make_vocabulary.lua gpt2|bert DIR\n")
   os.exit(2)
end
families[arg[1]](arg[2])
