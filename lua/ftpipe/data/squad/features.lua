--- Questions and contexts as what BERT reads: windows of [CLS] question [SEP] context [SEP].
--
-- The context is cut into words at blanks, each word into pieces. A context that is too long for
-- one sequence becomes several windows that overlap. An answer is a span of words, made narrower
-- where its own pieces are found inside. Source: Devlin et al., arXiv:1810.04805, section 4.2, and
-- the program published with it, run_squad.py.

local core = require("ftpipe.core")

local M = {}
local Encoder = {}
Encoder.__index = Encoder

local NARROW_SPACE = "\226\128\175" -- U+202F; three blanks in its place keep positions as they are
local MAX_CACHED = 200000 -- words whose ids are kept

--- What turns text into features.
-- @tparam table o tokenizer; max_source (ids of a window at most), stride (pieces from the start of
--    a window to that of the next), max_query (pieces of a question at most)
function M.encoder(o)
   return setmetatable({
      tokenizer = o.tokenizer,
      max_source = o.max_source,
      stride = o.stride,
      max_query = o.max_query,
      first = o.tokenizer:special("cls"),
      separator = o.tokenizer:special("sep"),
      words = {},
      n_words = 0,
   }, Encoder)
end

--- Ids of one word; contexts repeat their words.
function Encoder:word(word)
   local ids = self.words[word]
   if ids then return ids end
   ids = self.tokenizer:vector(word)
   if self.n_words == MAX_CACHED then self.words, self.n_words = {}, 0 end
   self.words[word], self.n_words = ids, self.n_words + 1
   return ids
end

--- A context as pieces.
-- @tparam string text
-- @treturn table words (strings), starts (byte position of each), first (number of the first piece
--    of each), ids (of all pieces)
function Encoder:context(text)
   if self.last and self.last.text == text then return self.last end
   local words, starts, parts, first = {}, {}, {}, {}
   local n = 0
   for start, word in text:gsub(NARROW_SPACE, "   "):gmatch("()([^ \t\r\n]+)") do
      local w = #words + 1
      words[w], starts[w], first[w] = word, start, n + 1
      parts[w] = self:word(word)
      n = n + #parts[w]
   end
   self.last = {
      text = text, words = words, starts = starts, first = first, ids = core.data.ids(parts),
   }
   return self.last
end

--- Ids of a question, cut to what is allowed; whether something was cut off.
function Encoder:query(text)
   local ids = self.tokenizer:vector(text)
   return ids:part(1, math.min(#ids, self.max_query)), #ids > self.max_query
end

--- The windows over a context.
-- @tparam int pieces of the context
-- @tparam int query pieces of the question
-- @treturn {table,...} { first = number of the first piece, n = pieces }
function Encoder:windows(pieces, query)
   local most = self.max_source - query - 3
   local list, first = {}, 1
   while first <= pieces do
      local n = math.min(pieces - first + 1, most)
      list[#list + 1] = { first = first, n = n }
      if first + n > pieces then break end
      first = first + math.min(n, self.stride)
   end
   return list
end

--- Whether ids[from ...] are the wanted ones.
local function has_at(ids, from, wanted)
   for i = 1, #wanted do
      if ids[from + i - 1] ~= wanted[i] then return false end
   end
   return true
end

--- The first and narrowest span inside first .. last whose pieces are the answer's own: blanks
-- separate words, not "1895-1943", whose answer may be "1895".
local function narrow(ids, first, last, wanted)
   for from = first, last do
      if #wanted > 0 and from + #wanted - 1 <= last and has_at(ids, from, wanted) then
         return from, from + #wanted - 1
      end
   end
   return first, last
end

--- Number of the last word that starts at or before a byte.
local function word_at(starts, byte)
   local lo, hi = 1, #starts
   while lo < hi do
      local middle = math.ceil((lo + hi) / 2)
      if starts[middle] <= byte then lo = middle else hi = middle - 1 end
   end
   return lo
end

--- The pieces of an answer.
-- @tparam table context of :context
-- @tparam table answer { text =, at = byte position }
-- @treturn int first piece, nil when the words there do not hold the answer's text
-- @treturn int last piece
function Encoder:span(context, answer)
   if not context.words[1] then return nil end
   local from = word_at(context.starts, answer.at)
   local to = word_at(context.starts, answer.at + #answer.text - 1)
   local there = table.concat(context.words, " ", from, to)
   if not there:find(core.data.squeeze(answer.text), 1, true) then return nil end
   local first = context.first[from]
   local last = (context.first[to + 1] or #context.ids + 1) - 1
   return narrow(context.ids, first, last, self.tokenizer:vector(answer.text))
end

--- The ids and segments of one window: [CLS] question [SEP] context [SEP].
-- @tparam table context of :context
-- @tparam ids query
-- @tparam table window of :windows
-- @treturn ids
-- @treturn ids segments: 0 up to the first [SEP], 1 after
function Encoder:sequence(context, query, window)
   local sequence = core.data.ids {
      self.first, query, self.separator, context.ids:part(window.first, window.n), self.separator,
   }
   local segments = core.data.ids {
      core.data.repeated(0, #query + 2), core.data.repeated(1, window.n + 1),
   }
   return sequence, segments
end

--- Where a span lies in a window, counted from 0 in its sequence; 0, 0 (that is [CLS]) when the
-- window does not hold the whole of it.
function M.place(window, query, first, last)
   if not first or first < window.first or last >= window.first + window.n then return 0, 0 end
   local offset = query + 2 - window.first
   return first + offset, last + offset
end

return M
