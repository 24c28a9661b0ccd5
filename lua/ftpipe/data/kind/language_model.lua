--- Kind language_model: a text goes on. A file is one long text, cut into windows (see
-- data/windows.lua).
--
-- The definition of a task has, beside what every task has (see task/init.lua):
--    block       tokens of an example
--    stride      tokens from window to window of the evaluation; nil: disjoint blocks
-- Rows are a list with one text in it, as `read` gives it.

local core = require("ftpipe.core")
local batches = require("ftpipe.data.predict.batches")
local copy = require("ftpipe.base.copy")
local counted = require("ftpipe.base.counted")
local decode = require("ftpipe.data.decode")
local generation = require("ftpipe.data.predict.generation")
local keys = require("ftpipe.base.keys")
local named = require("ftpipe.base.named")
local records = require("ftpipe.text.records")
local weights = require("ftpipe.data.predict.weights")
local windows = require("ftpipe.data.windows")

local M = {}

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

M.example = "window"
M.definition = {
   block = { type = "int", min = 2, required = true, help = "tokens of an example" },
   stride = { type = "int", min = 1, help = "tokens between windows of the evaluation" },
}
M.overrides = {
   block = { type = "int", min = 2, help = "tokens of an example" },
   stride = { type = "int", min = 1, help = "tokens between windows of the evaluation" },
}
M.load = {}

-- Tokenised data depends on what these do.
M.modules = { "ftpipe.data.windows" }

--- Reads a file of text.
-- @tparam string path
-- @treturn table rows { path =, { text =, line = 1 } }
-- @raise not found; malformed data: empty, or not UTF-8, with line and column
function M.read(path)
   local text = core.sys.read_file(path)
   if not text:find("%S") then fail("malformed data", "%s: holds no text", path) end
   local at = core.data.utf8_fault(text)
   if at then
      local before = text:sub(1, at - 1)
      local _, lines = before:gsub("\n", "")
      fail("malformed data", "%s:%d:%d: byte 0x%02x is not UTF-8", path, lines + 1,
         #before:match("[^\n]*$") + 1, text:byte(at))
   end
   return { path = path, { text = text, line = 1 } }
end

--- What a model and the flags of a recipe say about loading: nothing that the task does not say.
function M.options() return {} end

--- What is left of rows when n blocks, or windows, are asked for.
function M.limit(rows, n) return copy(rows, { blocks = n }) end

local function check_sizes(task)
   if task.stride and task.stride > task.block then
      core.fail("invalid argument", ("task %s: windows of %d tokens, %d apart, would leave tokens "
         .. "out"):format(task.name, task.block, task.stride), 2)
   end
end

--- The stride of a split: training is always on disjoint blocks.
local function stride_of(task, which)
   return which == "eval" and task.stride or nil
end

--- Tokenises a text.
-- @treturn dataset of field source
-- @treturn table notes: tokens of the text, words of it (nil when it is not all there), stride
-- @raise malformed data: the text is shorter than a block
function M.prepare(task, _, rows, o)
   check_sizes(task)
   local stride, text = stride_of(task, o.split), rows[1].text
   local ids = o.tokenizer:vector(stride and windows.joined(text) or text)
   if #ids < (stride and 2 or task.block) then
      fail("malformed data", "%s: holds %s, expected at least %s", rows.path,
         counted(#ids, "token"), stride and "2" or ("a block of %d"):format(task.block))
   end
   local notes = { tokens = #ids, words = windows.count_words(text), stride = stride }
   if rows.blocks then -- of words that are left out it cannot be told how many tokens they are
      notes.tokens = math.min(#ids, (rows.blocks - 1) * (stride or task.block) + task.block)
      notes.words = notes.tokens == #ids and notes.words or nil
   end
   return windows.dataset(ids, windows.cut(notes.tokens, task.block, stride)), notes
end

--- A split: `examples` (a list of { first =, n =, scored = how many of its tokens,
-- at the end, are predicted }), `tokens` and `words` (of the text),
-- `length` (of every example), `stride`.
function M.split(task, _, notes)
   return {
      examples = windows.cut(notes.tokens, task.block, notes.stride),
      tokens = notes.tokens, words = notes.words, length = task.block, stride = notes.stride,
   }
end

--- A scorer: scorer:add(i, { nll = sum in nats, tokens = how many } of example i), scorer:result()
-- as of metric/init.lua.
function M.scorer(_, split)
   return windows.scorer(split)
end

--- The names of a score's figures.
function M.figures(_, split) return keys(windows.scorer(split):result().metrics) end

-- ---------------------------------------------------------------------------------------------
-- Evaluation.

local IGNORED = -100 -- a label that is not scored

--- Names the terms of the labels an output.
function M.outputs(graph)
   for n = 1, graph:counts().forward do
      local node = graph:node(n)
      if node.op == "cross_entropy" then graph:output("nll", node.out + 2) end
   end
end

--- The sum over the labels of a row that are scored: all, or the last example.scored of them.
function M.predict(batch, outputs, row, example)
   local length = batch.labels:shape()[2]
   local labels, nll = batch.labels:pointer(), outputs.nll:pointer()
   local first = (row - 1) * length
   local n, sum = 0, 0
   while n < length and labels[first + n] ~= IGNORED do n = n + 1 end
   local scored = math.min(example and example.scored or n, n)
   for t = n - scored, n - 1 do sum = sum + nll[first + t] end
   return { nll = sum, tokens = scored }
end


--- What a scorer gets: { nll =, tokens = }.
function M.note(score, number, prediction)
   score.predictions[number] = {
      index = number, nll = prediction.nll, tokens = prediction.tokens,
   }
   return prediction
end

--- What a row of predictions has besides: the number of its first scored token in the text.
function M.told(split, number)
   local example = split.examples[number]
   return { first = example.first + example.n - example.scored }
end

-- ---------------------------------------------------------------------------------------------
-- Prediction.

M.flags = { "tokens", "greedy" }

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

--- The ids of texts, with what the tokenizer puts around a text, and the numbers of the texts, the
-- longest first.
local function by_length(tokenizer, prompts)
   local ids, order = {}, {}
   for i, prompt in ipairs(prompts) do ids[i], order[i] = (tokenizer:encode_pair(prompt)), i end
   table.sort(order, function(a, b) return #ids[a] > #ids[b] or #ids[a] == #ids[b] and a < b end)
   return ids, order
end

--- Refuses a text that fills the model's positions, so that nothing can follow.
-- @tparam table job
-- @tparam {int,...} ids of the longest text
-- @tparam int number of that text
local function check_room(job, ids, number)
   local positions = job.model.family.positions
   local most = positions and positions(job.model.config) or math.huge
   if #ids < most then return end
   core.fail("invalid argument", ("%s: text %d has %s, the model has %s: give a shorter text")
      :format(job.items.path, number, counted(#ids, "token"), counted(most, "position")), 2)
end

--- Continues every input, in order: { index =, answer = what follows }.
function M.answer(job)
   local model, prompts = job.model, prompts_of(job)
   local tokenizer = model:tokenizer()
   local rules = generation.rules(model, job.flags.greedy)
   local ids, order = by_length(tokenizer, prompts)
   check_room(job, ids[order[1]], order[1])
   local params = weights.load(model, { batch = 1, source = SHORT })
   local take, packs = batches.in_order(job.emit), decode.packs(params)
   for first = 1, #order, job.flags.batch do
      local together, most = {}, {}
      for k = first, math.min(first + job.flags.batch - 1, #order) do
         local prompt = ids[order[k]]
         together[#together + 1] = prompt
         most[#together] = job.flags.tokens or generation.most(rules, #prompt, "--tokens")
            or MOST_TOKENS
      end
      local rows = decode.continue(model, params, together, named.like(job.flags,
         { most = most, threads = job.threads, rules = rules, packs = packs }))
      for k, row in ipairs(rows) do
         local number = order[first + k - 1]
         take(number, { index = number, answer = tokenizer:decode(row) })
      end
   end
end

return M
