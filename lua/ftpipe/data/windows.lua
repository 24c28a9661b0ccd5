--- A long text as examples of a language model, and what its perplexity then means.
--
-- Perplexity depends on how the text is cut, so each way to cut has a name that goes with the
-- number:
--    disjoint blocks   the whole file as one text, blocks of so many tokens, the rest left out;
--                      each token but the first of a block is predicted
--    windows           the lines joined by blank lines, windows that begin every `stride` tokens;
--                      of each window but the first only the tokens that no window before had
--                      are predicted, so that each has context, and each counts once
-- Source of the second: the documentation of Hugging Face transformers, "Perplexity of
-- fixed-length models".

local core = require("ftpipe.core")
local metrics = require("ftpipe.data.metric")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- Cutting.

--- Disjoint blocks over n tokens.
-- @tparam int n
-- @tparam int length of a block
-- @treturn {table,...} { first = number of the first token, n = tokens, scored = how many of them,
--    at the end, are predicted }
function M.blocks(n, length)
   local list = {}
   for first = 1, n - length + 1, length do
      list[#list + 1] = { first = first, n = length, scored = length - 1 }
   end
   return list
end

--- Overlapping windows over n tokens; the last one may be shorter.
-- @tparam int n
-- @tparam int length of a window
-- @tparam int stride at most length
-- @treturn {table,...} as of blocks
function M.strided(n, length, stride)
   local list, seen, first = {}, 0, 1
   while seen < n do
      local last = math.min(first + length - 1, n)
      local scored = math.min(last - seen, last - first) -- the first token has no context
      if scored > 0 then
         list[#list + 1] = { first = first, n = last - first + 1, scored = scored }
      end
      seen, first = last, first + stride
   end
   return list
end

local function is_blank(line) return not line:find("%S") end

--- The lines of a text, without their ends.
local function lines_of(text)
   return (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("([^\n]*)\n")
end

--- Lines as the Hugging Face data set has them, blank ones empty, joined by blank lines.
function M.joined(text)
   local rows = {}
   for line in lines_of(text) do
      rows[#rows + 1] = is_blank(line) and "" or line .. "\n"
   end
   return table.concat(rows, "\n\n")
end

--- Words of a text as word-level models count them: what blanks separate, and an end of each line.
function M.count_words(text)
   local n = 0
   for _ in text:gmatch("%S+") do n = n + 1 end
   for _ in lines_of(text) do n = n + 1 end
   return n
end

-- ---------------------------------------------------------------------------------------------
-- Data sets.

--- The windows of a text of that many tokens.
-- @tparam int n tokens
-- @tparam int length of a window
-- @tparam[opt] int stride nil: disjoint blocks
function M.cut(n, length, stride)
   return stride and M.strided(n, length, stride) or M.blocks(n, length)
end

--- The windows of a text as a data set.
-- @tparam ids ids of the whole text
-- @tparam {table,...} windows
-- @treturn dataset of field source
function M.dataset(ids, windows)
   local dataset = core.data.dataset { "source" }
   for _, window in ipairs(windows) do
      dataset:add { source = ids:part(window.first, window.n) }
   end
   return dataset
end

-- ---------------------------------------------------------------------------------------------
-- Scores.

local Sum = {}
Sum.__index = Sum

--- A running perplexity.
-- @tparam table split `length` of its examples, `stride` (nil: disjoint blocks), `words` of the
--    text (nil: not all of it is there)
-- @treturn table with :add(i, { nll =, tokens = }) and :result()
function M.scorer(split)
   return setmetatable({ split = split, nll = 0, tokens = 0 }, Sum)
end

--- Adds what an example gave.
-- @tparam int _ its number
-- @tparam table prediction nll: sum over its predicted tokens, in nats; tokens: how many they are
function Sum:add(_, prediction)
   self.nll = self.nll + prediction.nll
   self.tokens = self.tokens + prediction.tokens
end

--- The perplexity, with its definition.
-- @treturn table as of metric/init.lua: the metric has the definition in words, the figures have it
--    in their names
function Sum:result()
   local split, value = self.split, math.exp(self.nll / self.tokens)
   local metric, figures = { unit = "", better = "lower" }, {}
   if split.stride then
      metric.name = ("perplexity (windows of %d, stride %d)"):format(split.length, split.stride)
      figures[("perplexity_windows_%d_stride_%d"):format(split.length, split.stride)] = value
      -- With the length for a stride the first token of each window is left out.
      if split.words and split.stride < split.length then
         figures.word_perplexity = math.exp(self.nll / split.words)
      end
   else
      metric.name = ("perplexity (disjoint blocks of %d)"):format(split.length)
      figures[("perplexity_blocks_%d"):format(split.length)] = value
   end
   return metrics.result(metric, figures, value)
end

return M
