--- Predictions of language models: greedy continuations of texts.

local batches = require("ftpipe.predict.batches")
local core = require("ftpipe.core")
local decode = require("ftpipe.decode")
local records = require("ftpipe.records")
local weights = require("ftpipe.predict.weights")

local M = {}

local MOST_TOKENS = 32
local SHORT = 8 -- tokens: any length will do for a graph whose parameters are listed

--- The texts to go on with: those given, or the field `text` of rows.
local function prompts_of(job)
   local items, list = job.items, {}
   if items.document then
      job.usage("%s: expected texts, or rows with a field 'text'", items.path)
   end
   for i, item in ipairs(items) do
      list[i] = item.text or records.string(items.rows, item.row, "text")
      if list[i] == "" then
         core.fail("malformed data", (item.row and records.where(items.rows, item.row)
            or items.path) .. ": the text is empty, expected something to go on with")
      end
   end
   return list
end

--- The ids of texts, and the numbers of the texts, the longest first.
local function by_length(tokenizer, prompts)
   local ids, order = {}, {}
   for i, prompt in ipairs(prompts) do ids[i], order[i] = tokenizer:encode(prompt), i end
   table.sort(order, function(a, b) return #ids[a] > #ids[b] or #ids[a] == #ids[b] and a < b end)
   return ids, order
end

--- Continues every input, in order: { index =, answer = what follows }.
function M.run(job)
   local model, prompts = job.model, prompts_of(job)
   local tokenizer = model:tokenizer()
   local params = weights.load(model, { batch = 1, source = SHORT })
   local ids, order = by_length(tokenizer, prompts)
   local take = batches.in_order(job.emit)
   for first = 1, #order, job.flags.batch do
      local together = {}
      for k = first, math.min(first + job.flags.batch - 1, #order) do
         together[#together + 1] = ids[order[k]]
      end
      local rows = decode.continue(model, params, together,
         { most = job.flags.tokens or MOST_TOKENS, threads = job.threads })
      for k, row in ipairs(rows) do
         local number = order[first + k - 1]
         take(number, { index = number, answer = tokenizer:decode(row) })
      end
   end
end

return M
