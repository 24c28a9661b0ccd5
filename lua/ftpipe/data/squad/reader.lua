--- Reader of SQuAD v1.1 files: articles of paragraphs, each a context with questions about it.
--
-- Everything is checked while it is read, and what is wrong is named by its path in the JSON, as
-- data[3].paragraphs[0].qas[2].answers[0], counted from 0 as most tools that print JSON do.

local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local records = require("ftpipe.text.records")
local shown = require("ftpipe.base.shown")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- Places: a list of names and indices, made into text only for a message.

local function path_of(place)
   local parts = {}
   for i, step in ipairs(place) do
      if type(step) == "number" then
         parts[i] = ("[%d]"):format(step - 1)
      else
         parts[i] = (i > 1 and "." or "") .. step
      end
   end
   return table.concat(parts)
end

local function fault(file, place, format, ...)
   core.fail("malformed data", ("%s: %s: %s"):format(file, path_of(place), format:format(...)))
end

--- A place below another one.
local function below(place, ...)
   local result = {}
   for i, step in ipairs(place) do result[i] = step end
   for _, step in ipairs { ... } do result[#result + 1] = step end
   return result
end

-- ---------------------------------------------------------------------------------------------
-- Fields.

local function kind_of(value)
   if value == core.json.null then return "null" end
   if type(value) ~= "table" then return type(value) end
   return getmetatable(value) == core.json.array_meta and "array" or "object"
end

local ARTICLES = { object = "an object", array = "an array" }

local function with_article(kind) return ARTICLES[kind] or "a " .. kind end

local function expect(file, place, value, kind)
   local found = kind_of(value)
   if found == kind then return value end
   return fault(file, place, "is %s, expected %s", found == "null" and found or with_article(found),
      with_article(kind))
end

local function names_of(object)
   local names = keys(object)
   return #names > 0 and shown(table.concat(names, ", ")) or "nothing"
end

--- A field of an object that must be there, of one kind.
local function field(file, place, object, name, kind)
   local value = object[name]
   if value == nil then
      fault(file, place, "field '%s' is missing (have: %s)", name, names_of(object))
   end
   if kind_of(value) == kind then return value end -- a path is made only when it is needed
   return expect(file, below(place, name), value, kind)
end

local function text_field(file, place, object, name)
   local text = field(file, place, object, name, "string")
   if not text:find("%S") then fault(file, below(place, name), "is empty") end
   return text
end

--- The objects of a list field: index, object.
local function objects(file, place, object, name)
   local list, i = field(file, place, object, name, "array"), 0
   return function()
      i = i + 1
      if list[i] == nil then return nil end
      if kind_of(list[i]) == "object" then return i, list[i] end
      return i, expect(file, below(place, name, i), list[i], "object")
   end
end

-- ---------------------------------------------------------------------------------------------
-- Answers.

--- A context with a function byte_of(number): the byte position of a character (from 0), nil past
-- the end.
local function located(text)
   if not text:find("[\128-\255]") then
      return { text = text, byte_of = function(n) return n < #text and n + 1 or nil end }
   end
   local starts
   return { text = text, byte_of = function(number)
      if not starts then -- once for all answers
         starts = {}
         for start in text:gmatch("()[%z\1-\127\192-\255]") do starts[#starts + 1] = start end
      end
      return starts[number + 1]
   end }
end

--- An answer as { text =, at = }, `at` its byte position in the context. A start that is off is
-- taken as it is, as long as the answer is somewhere: the features then leave the question out.
local function read_answer(file, place, context, answer)
   local text = text_field(file, place, answer, "text")
   local start = field(file, place, answer, "answer_start", "number")
   if start < 0 or start ~= math.floor(start) then
      fault(file, below(place, "answer_start"), "is %.17g, expected an integer from 0", start)
   end
   local at = context.byte_of(start)
   if not at then
      fault(file, below(place, "answer_start"), "is %.17g, past the end of the context", start)
   end
   local whole = context.text
   if whole:sub(at, at + #text - 1) ~= text and not whole:find(text, 1, true) then
      fault(file, place, "the context does not hold the answer '%s'", shown(text))
   end
   return { text = text, at = at }
end

local function read_question(file, place, context, qa, unlabelled)
   local question = {
      id = text_field(file, place, qa, "id"),
      text = text_field(file, place, qa, "question"),
      context = context.text,
      answers = {},
   }
   if unlabelled then return question end
   for i, answer in objects(file, place, qa, "answers") do
      question.answers[i] = read_answer(file, below(place, "answers", i), context, answer)
   end
   if #question.answers == 0 then
      fault(file, below(place, "answers"), "is empty, expected an answer (SQuAD v1.1 has no "
         .. "questions without one)")
   end
   return question
end

-- ---------------------------------------------------------------------------------------------
-- Files.

--- Questions of a text in the format of SQuAD v1.1.
-- @tparam string text JSON
-- @tparam string file name for messages
-- @tparam[opt] boolean unlabelled answers are not looked at, and need not be there
-- @treturn {table,...} questions in the order of the file: { id =, text =, context =, answers =
--    list of { text =, at = byte position in the context } }; those of one paragraph follow each
--    other and share the context's string; the list has `path`
-- @raise malformed data, with line and column, or with the path of the field
function M.parse(text, file, unlabelled)
   text = records.unmarked(text)
   local root = text:find("%S") and core.json.decode(text, file)
   if kind_of(root) ~= "object" then
      core.fail("malformed data", ("%s: %s, expected an object with a field 'data'"):format(file,
         root and "holds " .. with_article(kind_of(root)) or "is empty"))
   end
   if root.data == nil then
      core.fail("malformed data",
         ("%s: field 'data' is missing (have: %s)"):format(file, names_of(root)))
   end
   local questions, places = { path = file }, {}
   for a, article in objects(file, {}, root, "data") do
      for p, paragraph in objects(file, { "data", a }, article, "paragraphs") do
         local above = { "data", a, "paragraphs", p }
         local context = located(text_field(file, above, paragraph, "context"))
         for q, qa in objects(file, above, paragraph, "qas") do
            local place = below(above, "qas", q)
            local question = read_question(file, place, context, qa, unlabelled)
            local other = places[question.id]
            if other then
               fault(file, below(place, "id"), "'%s' is also the id of %s", shown(question.id),
                  path_of(other))
            end
            places[question.id] = place
            questions[#questions + 1] = question
         end
      end
   end
   if #questions == 0 then
      core.fail("malformed data", ("%s: holds no questions"):format(file))
   end
   return questions
end

--- Questions of a file; see parse.
-- @usage local questions = reader.read("SQuAD/dev-v1.1.json")
function M.read(path)
   return M.parse(core.sys.read_file(path), path)
end

return M
