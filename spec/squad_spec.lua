local core = require("ftpipe.core")
local features = require("ftpipe.squad.features")
local files = require("spec.support.files")
local project = require("ftpipe.squad.project")
local reader = require("ftpipe.squad.reader")
local scorer = require("ftpipe.squad.scorer")
local short_pieces = require("spec.support.short_pieces")
local spans = require("ftpipe.squad.spans")

local CONTEXT = "The Norsemen (Vikings) were led by Rollo, born 846–930."

local function article(...)
   return { data = { { title = "t", paragraphs = { ... } } } }
end

local function paragraph(context, ...) return { context = context, qas = { ... } } end

local function qa(id, ...) return { id = id, question = "Who?", answers = { ... } } end

local function gold(text, start) return { text = text, answer_start = start } end

local function parse(value) return reader.parse(core.json.encode(value), "x.json") end

local function fault(value)
   local problem = files.failure(type(value) == "string" and reader.parse or parse, value, "x.json")
   assert.equal("malformed data", problem.status)
   return problem.message
end

describe("a SQuAD file", function()
   it("gives its questions in order, with byte positions of answers", function()
      local list = parse(article(paragraph("Zoë and Bo.", qa("1", gold("Bo", 8)),
         qa("2", gold("Zoë", 0), gold("Bo", 8)))))
      assert.equal(2, #list)
      assert.equal("Who?", list[1].text)
      assert.same({ text = "Bo", at = 10 }, list[1].answers[1])
      assert.equal(2, #list[2].answers)
      assert.equal("Zoë and Bo.", list[2].context)
   end)

   it("is refused with line and column where it is not JSON", function()
      assert.equal("x.json:2:9: '}' expected near end of file",
         (fault('{"data": \n[{"a": 1 '):gsub("'}' expected.*", "'}' expected near end of file")))
   end)

   it("is refused with the path of what is missing", function()
      assert.equal("x.json: field 'data' is missing (have: version)", fault { version = "1.1" })
      assert.equal("x.json: data[0]: field 'paragraphs' is missing (have: title)",
         fault { data = { { title = "t" } } })
      assert.equal("x.json: data[0].paragraphs[0]: field 'context' is missing (have: qas)",
         fault(article { qas = core.json.array {} }))
      assert.equal("x.json: data[0].paragraphs[1].qas[0]: field 'answers' is missing "
         .. "(have: id, question)", fault(article(paragraph("c", qa("1", gold("c", 0))),
         paragraph("c", { id = "2", question = "q" }))))
      assert.equal("x.json: data[0].paragraphs[0].qas[0].answers[1]: field 'answer_start' is "
         .. "missing (have: text)", fault(article(paragraph("c", qa("1", gold("c", 0),
         { text = "c" })))))
   end)

   it("is refused with the path of what is of another kind", function()
      assert.equal("x.json: data is a string, expected an array", (fault { data = "x" }
         :gsub("data: is", "data is")))
      assert.equal("x.json: data[0].paragraphs[0].context: is null, expected a string",
         fault(article { context = core.json.null, qas = core.json.array {} }))
      assert.equal("x.json: data[0].paragraphs[0].qas[0]: is a number, expected an object",
         fault(article { context = "c", qas = { 7 } }))
      assert.equal("x.json: data[0].paragraphs[0].qas[0].answers[0].answer_start: is -1, expected "
         .. "an integer from 0", fault(article(paragraph("c", qa("1", gold("c", -1))))))
   end)

   it("is refused when a context does not hold its answer", function()
      assert.equal("x.json: data[0].paragraphs[0].qas[0].answers[0]: the context does not hold "
         .. "the answer 'Harald'", fault(article(paragraph(CONTEXT, qa("1", gold("Harald", 3))))))
      assert.equal("x.json: data[0].paragraphs[0].qas[0].answers[0].answer_start: is 70, past the "
         .. "end of the context", fault(article(paragraph(CONTEXT, qa("1", gold("Rollo", 70))))))
   end)

   it("is refused with both places of an id that is there twice", function()
      assert.equal("x.json: data[0].paragraphs[1].qas[0].id: '1' is also the id of "
         .. "data[0].paragraphs[0].qas[0]", fault(article(paragraph("c", qa("1", gold("c", 0))),
         paragraph("c", qa("1", gold("c", 0))))))
   end)

   it("has questions, and each has an answer", function()
      assert.equal("x.json: holds no questions", fault { data = core.json.array {} })
      assert.equal("x.json: data[0].paragraphs[0].qas[0].answers: is empty, expected an answer "
         .. "(SQuAD v1.1 has no questions without one)", fault(article(paragraph("c",
         { id = "1", question = "q", answers = core.json.array {} }))))
   end)
end)

local function encoder(options)
   options = options or {}
   return features.encoder {
      tokenizer = short_pieces.new(), max_source = options.max_source or 24,
      stride = options.stride or 4, max_query = options.max_query or 4,
   }
end

local function pieces_of(made, ids)
   local list = {}
   for i, id in ipairs(ids) do list[i] = made.tokenizer:piece(id) end
   return table.concat(list, " ")
end

describe("a context", function()
   it("is words at blanks and pieces of words", function()
      local made = encoder()
      local context = made:context("Rollo,\226\128\175the  Viking")
      assert.same({ "Rollo,", "the", "Viking" }, context.words)
      assert.same({ 1, 10, 15 }, context.starts)
      assert.equal("roll ##o , the viki ##ng", pieces_of(made, context.ids))
      assert.same({ 1, 1, 1, 2, 3, 3 }, context.word_of)
      assert.same({ 1, 4, 5 }, context.first)
   end)

   it("becomes one window when it fits, else windows a stride apart", function()
      local made = encoder { max_source = 15, stride = 4 }
      assert.same({ { first = 1, n = 10 } }, made:windows(10, 2))
      assert.same({ { first = 1, n = 10 }, { first = 5, n = 7 } }, made:windows(11, 2))
      assert.same({ { first = 1, n = 10 }, { first = 5, n = 10 }, { first = 9, n = 7 } },
         made:windows(15, 2))
   end)

   it("stands behind the question, each closed by [SEP]", function()
      local made = encoder()
      local context = made:context("led by Rollo")
      local ids, segments = made:sequence(context, made:query("Who led it then, and why?"),
         { first = 2, n = 3 })
      assert.equal("[CLS] who led it then [SEP] by roll ##o [SEP]", pieces_of(made, ids))
      assert.same({ 0, 0, 0, 0, 0, 0, 1, 1, 1, 1 }, segments)
   end)
end)

describe("an answer's span", function()
   local function span(text)
      local made = encoder()
      local context = made:context(CONTEXT)
      local first, last = made:span(context,
         { text = text, at = CONTEXT:find(text, 1, true) })
      local ids = {}
      for i = first or 1, last or 0 do ids[#ids + 1] = context.ids[i] end
      return first and pieces_of(made, ids)
   end

   it("is the pieces of its words", function()
      assert.equal("were led", span("were led"))
   end)

   it("is narrowed to its own pieces inside a word", function()
      assert.equal("viki ##ngs", span("Vikings"))
      assert.equal("roll ##o", span("Rollo"))
   end)

   it("is the whole word where its pieces are not the word's", function()
      assert.equal("nors ##emen", span("sem"))
   end)

   it("is nowhere when the words at its start do not hold it", function()
      local made = encoder()
      local context = made:context("one two three")
      assert.is_nil(made:span(context, { text = "three", at = 1 }))
   end)

   it("is at [CLS] in a window that does not hold all of it", function()
      assert.same({ 5, 6 }, { features.place({ first = 3, n = 4 }, 2, 4, 5) })
      assert.same({ 0, 0 }, { features.place({ first = 3, n = 4 }, 2, 6, 7) })
      assert.same({ 0, 0 }, { features.place({ first = 3, n = 4 }, 2, 2, 3) })
      assert.same({ 0, 0 }, { features.place({ first = 3, n = 4 }, 2, nil, nil) })
   end)
end)

describe("a predicted answer", function()
   it("gets back case and blanks of the original", function()
      assert.equal("Steve Smith", project.text("steve smith", "Steve Smith's",
         "steve smith ' s"))
      assert.equal("24–10", project.text("24 – 10", "(24–10)", "( 24 – 10 )"))
      assert.equal("Élan", project.text("elan", "Élan,", "elan ,"))
   end)

   it("is all words where characters do not correspond", function()
      assert.equal("Straße 7", project.text("x", "Straße 7", "straße 7"))
      assert.equal("a ﬁ b", project.text("a", "a ﬁ b", "a fi b"))
   end)

   it("is joined from pieces", function()
      assert.equal("viking , rollo", project.join { "viki", "##ng", ",", "roll", "##o" })
   end)
end)

local function row(n, values)
   local list = {}
   for i = 1, n do list[i] = values[i] or -9 end
   return list
end

describe("candidates", function()
   local windows = { { first = 1, n = 6 } }

   it("are spans inside the context, with their logits", function()
      -- [CLS] q [SEP] 1 2 3 4 5 6 [SEP] and padding
      local found = spans.candidates(windows, 1, 1, row(12, { [1] = 9, [5] = 4, [12] = 8 }),
         row(12, { [6] = 3, [10] = 8 }))
      table.sort(found, function(a, b) return a.start + a.stop > b.start + b.stop end)
      assert.same({ 2, 3, 4, 3 },
         { found[1].first, found[1].last, found[1].start, found[1].stop })
      for _, candidate in ipairs(found) do
         assert.is_true(candidate.first >= 1 and candidate.last <= 6)
         assert.is_true(candidate.last >= candidate.first)
      end
   end)

   it("have at most thirty pieces", function()
      local long = { { first = 1, n = 50 } }
      local found = spans.candidates(long, 1, 0, row(60, { [3] = 5 }), row(60, { [32] = 5, [33] = 9 }))
      for _, candidate in ipairs(found) do assert.is_true(candidate.last - candidate.first < 30) end
   end)

   it("start where the piece has most context, in the first of equal windows", function()
      local pair = { { first = 1, n = 6 }, { first = 3, n = 6 } }
      local function starts(number)
         local seen, list = {}, {}
         for _, candidate in ipairs(spans.candidates(pair, number, 0, row(9, {}), row(9, {}))) do
            if not seen[candidate.first] then list[#list + 1] = candidate.first end
            seen[candidate.first] = true
         end
         table.sort(list)
         return table.concat(list, " ")
      end
      assert.equal("1 2 3 4", starts(1))
      assert.equal("5 6 7 8", starts(2))
   end)
end)

describe("answers", function()
   it("are listed best first, each text once, with probabilities", function()
      local answers = spans.answers({
         { start = 1, stop = 1, window = 1, order = 0, first = 1 },
         { start = 2, stop = 2, window = 2, order = 0, first = 2 },
         { start = 2, stop = 1, window = 1, order = 1, first = 3 },
      }, function(candidate) return candidate.first == 3 and "b" or "a" end)
      assert.equal(2, #answers)
      assert.equal("a", answers[1].text)
      assert.equal(2, answers[1].start_logit)
      assert.is_true(math.abs(answers[1].probability - 1 / (1 + math.exp(-1))) < 1e-12)
   end)

   it("are 'empty' without a candidate", function()
      assert.equal("empty", spans.answers({}, function() end)[1].text)
   end)
end)

describe("the scorer", function()
   local function split_of(made)
      local split = { questions = {}, examples = {} }
      local text = article(paragraph(CONTEXT, qa("1", gold("Rollo", 35)), qa("2",
         gold("846–930", 47))))
      for number, question in ipairs(parse(text)) do
         local context = made:context(question.context)
         question.pieces, question.query = #context.ids, #made:query(question.text)
         local windows = made:windows(question.pieces, question.query)
         question.windows = #windows
         split.questions[number] = question
         for k in ipairs(windows) do
            split.examples[#split.examples + 1] = { question = number, window = k }
         end
      end
      return split
   end

   -- Logits that say where a span of pieces is.
   local function logits(made, split, example, first, last)
      local question = split.questions[example.question]
      local window = made:windows(question.pieces, question.query)[example.window]
      local from, to = features.place(window, question.query, first, last)
      if from == 0 then return { start = row(24, {}), ["end"] = row(24, {}) } end
      return { start = row(24, { [from + 1] = 5 }), ["end"] = row(24, { [to + 1] = 5 }) }
   end

   it("answers a question with its last window, in any order of windows", function()
      local made = encoder { max_source = 14 }
      local split = split_of(made)
      assert.is_true(split.questions[1].windows > 1)
      local context = made:context(CONTEXT)
      local first, last = made:span(context, split.questions[1].answers[1])
      local judge = scorer.new(split, made)
      for i = #split.examples, 1, -1 do
         judge:add(i, logits(made, split, split.examples[i], first, last))
      end
      assert.is_nil(next(judge.open))
      local result = judge:result()
      assert.equal("f1", result.metric)
      assert.same({ em = 50, f1 = 50 }, result.metrics)
      files.in_directory(function(dir)
         judge:write(dir)
         local predictions = core.json.decode(core.sys.read_file(dir .. "/predictions.json"))
         assert.equal("Rollo", predictions["1"])
         local best = core.json.decode(core.sys.read_file(dir .. "/nbest_predictions.json"))
         assert.equal("Rollo", best["1"][1].text)
         assert.equal(10, best["1"][1].start_logit + best["1"][1].end_logit)
         assert.is_true(#best["2"] <= spans.BEST)
      end)
   end)

   it("gives nothing for a question that is not answered", function()
      local made = encoder()
      assert.same({ em = 0, f1 = 0 }, scorer.new(split_of(made), made):result().metrics)
   end)
end)
