--- All three kinds: text into ids, against Hugging Face `tokenizers` on one thread.
--
--    ftpipe bench/tokenizer.lua [BERT_DIR [GPT2_DIR [T5_DIR [TEXT]]]]
--
-- The directories hold vocab.txt; vocab.json with merges.txt; spiece.model, and tokenizer.json for
-- the other side. Both sides take the text line by
-- line, in turns, in CPU time; medians are compared, and the numbers of ids have to be equal.
-- FTPIPE_PEER_PYTHON names a Python that has `tokenizers`.

package.path = "bench/?.lua;" .. package.path

local core = require("ftpipe.core")
local peers = require("peer")

local ROUNDS = 5
local shared = os.getenv("FTPIPE_SHARED") or "../shared"
local BERT = arg[1] or shared .. "/data/vocab/bert-base-uncased"
local GPT2 = arg[2] or shared .. "/data/vocab/gpt2"
local T5 = arg[3] or shared .. "/data/vocab/t5"
local TEXT = arg[4] or shared .. "/data/wikitext2/wiki.valid.tokens"

local function read(dir, name)
   return core.sys.read_file(dir .. "/" .. name)
end

local KINDS = {
   { name = "wordpiece", dir = BERT, file = "vocab.txt", open = function(dir)
      return core.data.wordpiece { vocab = read(dir, "vocab.txt") }
   end },
   { name = "byte_bpe", dir = GPT2, file = "merges.txt", open = function(dir)
      return core.data.byte_bpe {
         vocab = read(dir, "vocab.json"), merges = read(dir, "merges.txt"),
      }
   end },
   { name = "unigram", dir = T5, file = "spiece.model", open = function(dir)
      return core.data.tokenizer { path = dir .. "/spiece.model" }
   end },
}

--- Seconds of CPU time for all lines, and the number of ids.
local function encode(tokenizer, lines)
   local start, n = os.clock(), 0
   for _, line in ipairs(lines) do n = n + #tokenizer:encode(line) end
   return os.clock() - start, n
end

local function measure(kind, text, lines)
   local tokenizer = kind.open(kind.dir)
   local peer = peers.python("tokenizer_hf.py", kind.name, kind.dir, TEXT)
   local ours, theirs, n, other_n = {}, {}, 0, nil
   for round = 1, ROUNDS do
      ours[round], n = encode(tokenizer, lines)
      if peer then theirs[round], other_n = peer.ask("encode") end
   end
   local speed = #text / peers.median(ours) / 1e6
   local line = ("tokenizer %-9s %d bytes %d ids: ours %.1f MB/s"):format(kind.name, #text, n,
      speed)
   if not peer then
      print(line .. "; skipped: tokenizers (" .. peers.NO_PYTHON .. ")")
      peers.gate("tokenizer-" .. kind.name, nil, peers.NO_PYTHON)
      return
   end
   peer.close()
   assert(n == other_n, ("%s: %d ids, the peer has %d"):format(kind.name, n, other_n))
   print(("%s, tokenizers %.1f MB/s, ratio %.1f of its speed"):format(line,
      #text / peers.median(theirs) / 1e6, peers.median(theirs) / peers.median(ours)))
   peers.gate("tokenizer-" .. kind.name, peers.median(theirs) / peers.median(ours))
end

if core.sys.exists(TEXT) ~= "file" then
   print("tokenizer: skipped: no " .. TEXT)
   for _, kind in ipairs(KINDS) do peers.gate("tokenizer-" .. kind.name, nil, "no " .. TEXT) end
   return
end
local text, lines = core.sys.read_file(TEXT), {}
for line in text:gmatch("[^\n]+") do lines[#lines + 1] = line end
for _, kind in ipairs(KINDS) do
   if core.sys.exists(kind.dir .. "/" .. kind.file) == "file" then
      measure(kind, text, lines)
   else
      local why = ("no %s/%s"):format(kind.dir, kind.file)
      print(("tokenizer %s: skipped: %s"):format(kind.name, why))
      peers.gate("tokenizer-" .. kind.name, nil, why)
   end
end
