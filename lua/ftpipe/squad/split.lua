--- SQuAD questions as a split of a data set: an example is a window.

local core = require("ftpipe.core")
local features = require("ftpipe.squad.features")

local M = {}

--- Adds the windows of one question. Returns whether its answer was found.
local function add_question(split, encoder, number, keep)
   local question = split.questions[number]
   local context, query = encoder:context(question.context), encoder:query(question.text)
   if #context.ids == 0 then
      core.fail("malformed data", ("%s: the context of question '%s' holds no text"):format(
         split.path, question.id))
   end
   local first, last = encoder:span(context, question.answers[1])
   if not first and not keep then return false end
   local windows = encoder:windows(#context.ids, #query)
   question.pieces, question.query, question.windows = #context.ids, #query, #windows
   for k, window in ipairs(windows) do
      local ids, segments = encoder:sequence(context, query, window)
      local from, to = features.place(window, #query, first, last)
      split.dataset:add { source = ids, segments = segments, start = { from }, ["end"] = { to } }
      split.examples[#split.examples + 1] = { question = number, window = k }
   end
   return first ~= nil
end

--- Makes a split.
-- @tparam {table,...} questions of reader.lua
-- @tparam table encoder of features.lua
-- @tparam boolean keep questions whose answer the words of the context do not hold (to score them);
--    else they are left out (training)
-- @treturn table dataset (source, segments, start, end), examples ({ question = number, window =
--    number }), questions (with pieces, query, windows: how many), path, encoder, unplaced (how many
--    questions have no answer in the words of the context), unlabelled (0)
-- @raise malformed data: a context without text, no question left
function M.make(questions, encoder, keep)
   local split = {
      dataset = core.data.dataset { { "source", "segments" }, "start", "end" },
      examples = {},
      questions = questions,
      path = questions.path,
      encoder = encoder,
      unplaced = 0,
   }
   for number in ipairs(questions) do
      if not add_question(split, encoder, number, keep) then
         split.unplaced = split.unplaced + 1
      end
   end
   if #split.examples == 0 then
      core.fail("malformed data", ("%s: no answer of its %d questions is where answer_start says"):format(
         split.path, #questions))
   end
   return split
end

return M
