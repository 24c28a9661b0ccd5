--- MultiRC: which answers to a question about a paragraph are right? Any number of them may be.
--
-- Khashabi et al., "Looking Beyond the Surface: A Challenge Set for Reading Comprehension over
-- Multiple Sentences", NAACL 2018, as SuperGLUE (Wang et al. 2019) distributes it: a paragraph with
-- its questions and their answers a line, or as Hugging Face datasets writes it: an answer a line.
-- Every answer is one example; the template, and what is done about markup, are those with which T5
-- was trained.

local records = require("ftpipe.text.records")
local sample = require("ftpipe.sample.multirc")
local task = require("ftpipe.task")

--- Every answer of a paragraph as a row, with the question that it belongs to.
local function answers_of(rows, row)
   local list = {}
   local passage = records.field(rows, row, row, "passage", "table")
   local paragraph = records.field(rows, row, passage, "text", "string", "passage")
   for q, question in records.each(rows, row, passage, "questions", "passage") do
      local where = ("passage.questions[%d]"):format(q - 1)
      local text = records.field(rows, row, question, "question", "string", where)
      for a, answer in records.each(rows, row, question, "answers", where) do
         list[#list + 1] = {
            paragraph = paragraph,
            question = text,
            answer = records.field(rows, row, answer, "text", "string",
               ("%s.answers[%d]"):format(where, a - 1)),
            label = answer.label,
            -- Numbers of questions are those of the split, or of the paragraph.
            group = ("%s %s"):format(tostring(row.idx or records.line(row)),
               tostring(question.idx or q)),
            idx = { row.idx, question.idx, answer.idx },
         }
      end
   end
   return list
end

--- What the answers to one question have in common, in rows of an answer each.
local function question_of(row)
   local idx = type(row.idx) == "table" and row.idx or {}
   return ("%s %s"):format(tostring(idx.paragraph or row.paragraph),
      tostring(idx.question or row.question))
end

local function without_markup(text)
   if not text:find("<", 1, true) then return text end
   return (text:gsub("<br>", " "):gsub("</?b>", ""))
end

local TEMPLATE = "multirc question: {question} answer: {answer} paragraph: {paragraph}"

return task.define {
   kind = "text2text",
   name = "multirc",
   answers = { { label = 0, target = "False" }, { label = 1, target = "True" } },
   layouts = {
      {
         name = "SuperGLUE",
         train = "train.jsonl",
         eval = "val.jsonl",
         expand = answers_of,
         template = TEMPLATE,
         clean = without_markup,
      },
      {
         name = "an answer a line",
         train = "train.jsonl",
         eval = "val.jsonl",
         columns = { "paragraph", "question", "answer" },
         template = TEMPLATE,
         clean = without_markup,
      },
   },
   group = function(row) return row.group or question_of(row) end,
   metric = "grouped_f1",
   max_source = 512,
   max_target = 4,
   sample = sample.examples,
}
