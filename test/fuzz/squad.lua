--- What is done with any text as a file of SQuAD: it is refused in one line that names it, or its
-- questions become windows, with their answers where they say.

local reader = require("ftpipe.data.squad.reader")
local task = require("ftpipe.task")

local check_refusal = dofile("test/fuzz/refusal.lua")
local tokenizer = dofile("test/fuzz/tokenizer.lua")

local made = task.squad { max_source = 24, stride = 5, max_query = 8 }
made.tokenizer = tokenizer

local function check_answers(question)
   for _, answer in ipairs(question.answers) do
      if answer.at < 1 or answer.at > #question.context
         or not question.context:find(answer.text, 1, true) then
         error("an answer outside its context: " .. answer.text, 0)
      end
   end
end

--- Takes a text; raises for what may not be.
return function(text)
   local ok, problem = pcall(function()
      local questions = reader.parse(text, "squad.json")
      for _, question in ipairs(questions) do check_answers(question) end
      local dataset, notes = made.rows.prepare(made, made.definition.layouts[1], questions, {})
      local split = made.rows.split(made, nil, notes, function() return questions end)
      if dataset:size() ~= #split.examples then error("windows without examples", 0) end
   end)
   if ok then return end
   check_refusal(problem, "malformed data")
   if problem.message:sub(1, 10) ~= "squad.json" then error(problem.message, 0) end
   pcall(reader.parse, text, "squad.json", true)
end
