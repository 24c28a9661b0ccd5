--- Predictions of language models: greedy continuations of texts.

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

--- Continues every input, in order: { index =, answer = what follows }.
function M.run(job)
   local model, prompts = job.model, prompts_of(job)
   local tokenizer = model:tokenizer()
   local params = weights.load(model, { batch = 1, source = SHORT })
   for first = 1, #prompts, job.flags.batch do
      local ids = {}
      for i = first, math.min(first + job.flags.batch - 1, #prompts) do
         ids[#ids + 1] = tokenizer:encode(prompts[i])
      end
      local rows = decode.continue(model, params, ids,
         { most = job.flags.tokens or MOST_TOKENS, threads = job.threads })
      for i, row in ipairs(rows) do
         job.emit { index = first + i - 1, answer = tokenizer:decode(row) }
      end
   end
end

return M
