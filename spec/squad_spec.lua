local core = require("ftpipe.core")
local features = require("ftpipe.data.squad.features")
local files = require("spec.support.files")
local process = require("spec.support.process")
local reader = require("ftpipe.data.squad.reader")
local short_pieces = require("spec.support.short_pieces")
local span = require("ftpipe.data.kind.span")

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

   it("may begin with a byte order mark", function()
      local text = core.json.encode(article(paragraph("Bo.", qa("1", gold("Bo", 0)))))
      assert.equal("Bo.", reader.parse("\239\187\191" .. text, "x.json")[1].context)
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
      assert.equal("x.json: data: is a string, expected an array", fault { data = "x" })
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
      assert.equal("x.json: is empty, expected an object with a field 'data'", fault(" \n"))
      assert.equal("x.json: holds an array, expected an object with a field 'data'", fault("[]"))
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
   for i = 1, #ids do list[i] = made.tokenizer:piece(ids[i]) end
   return table.concat(list, " ")
end

describe("a context", function()
   it("is words at blanks and pieces of words", function()
      local made = encoder()
      local context = made:context("Rollo,\226\128\175the  Viking")
      assert.same({ "Rollo,", "the", "Viking" }, context.words)
      assert.same({ 1, 10, 15 }, context.starts)
      assert.equal("roll ##o , the viki ##ng", pieces_of(made, context.ids))
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
      assert.same({ 0, 0, 0, 0, 0, 0, 1, 1, 1, 1 }, segments:totable())
   end)
end)

describe("an answer's span", function()
   local function pieces_at(text)
      local made = encoder()
      local context = made:context(CONTEXT)
      local first, last = made:span(context,
         { text = text, at = CONTEXT:find(text, 1, true) })
      local ids = {}
      for i = first or 1, last or 0 do ids[#ids + 1] = context.ids[i] end
      return first and pieces_of(made, ids)
   end

   it("is the pieces of its words", function()
      assert.equal("were led", pieces_at("were led"))
   end)

   it("is narrowed to its own pieces inside a word", function()
      assert.equal("viki ##ngs", pieces_at("Vikings"))
      assert.equal("roll ##o", pieces_at("Rollo"))
   end)

   it("is the whole word where its pieces are not the word's", function()
      assert.equal("nors ##emen", pieces_at("sem"))
      assert.equal("nors ##emen", pieces_at("Norsem"))
   end)

   it("is narrowed at the end of its words too", function()
      local made = encoder()
      assert.same({ 2, 2 }, { made:span(made:context("(were led"), { text = "were", at = 2 }) })
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

local function row(n, values)
   local list = {}
   for i = 1, n do list[i] = values[i] or -9 end
   return list
end

local function matrix(list) return core.tensor.from_table { list } end

--- Adds a window to spans; logits are lists.
local function add(found, windows, number, query, starts, ends)
   found:add(windows, number, query, matrix(starts), matrix(ends), 1)
   return found
end

--- The spans of one window, as they were found.
local function spans_of(...)
   local found, list = add(core.data.spans(), ...), {}
   for i = 1, #found do
      local first, last, start, stop = found:get(i)
      list[i] = { first = first, last = last, start = start, stop = stop }
   end
   return list
end

--- A tokenizer of pieces, and their ids.
local function pieces_made(pieces)
   local vocab, ids = { "[UNK]" }, {}
   for piece in pieces:gmatch("%S+") do
      ids[#ids + 1] = #vocab
      vocab[#vocab + 1] = piece
   end
   local text = table.concat(vocab, "\n")
   return core.data.wordpiece { vocab = text, name = "x" }, core.data.ids(ids)
end

--- Answers in a context whose pieces are words, with blanks between them.
local function answer(found, pieces)
   local made, ids = pieces_made(pieces)
   local context = { ids = ids, words = {}, first = {} }
   for word in pieces:gmatch("%S+") do
      table.insert(context.words, word)
      table.insert(context.first, #context.words)
   end
   return made:answer(found, context)
end

describe("a window", function()
   it("begins at a piece", function()
      for _, window in ipairs { { n = 2 }, { first = 0, n = 2 } } do
         local problem = files.failure(add, core.data.spans(), { window }, 1, 0, { 0, 0, 0, 0 },
            { 0, 0, 0, 0 })
         assert.matches("window 1 has no 'first', expected a piece, 1 or more", tostring(problem))
      end
   end)
end)

describe("a predicted answer", function()
   -- What a context of one word is cut to by pieces with blanks between them.
   local function original(pieces, text)
      local made, ids = pieces_made(pieces)
      local starts, ends = {}, {}
      for i = 1, #ids + 3 do
         starts[i], ends[i] = i == 3 and 0 or -math.huge, i == #ids + 2 and 0 or -math.huge
      end
      local found = add(core.data.spans(), { { first = 1, n = #ids } }, 1, 0, starts, ends)
      made:answer(found, { ids = ids, words = { text }, first = { 1 } })
      assert.equal(1, found:answers())
      return (found:answer(1))
   end

   it("gets back case and blanks of the original", function()
      assert.equal("Steve Smith", original("steve smith", "Steve Smith's"))
      assert.equal("24–10", original("24 – 10", "(24–10)"))
      assert.equal("Élan", original("elan", "Élan,"))
      assert.equal("b  C", original("b c", "a b  C d"))
   end)

   it("is all words where characters do not correspond", function()
      assert.equal("Straße 7", original("x", "Straße 7"))
      assert.equal("e\204\129lan b", original("b", "e\204\129lan b"))
      assert.equal("##", original("##", "##"))
   end)

   it("is joined from pieces", function()
      assert.equal("Viking, Rollo", original("viki ##ng , roll ##o", "(Viking, Rollo)"))
   end)

   it("is of words, pieces and spans that belong together", function()
      local made, ids = pieces_made("a b")
      local function refusal(context, piece)
         local logits = { -math.huge, -math.huge }
         logits[piece + 2], logits[piece + 3] = 0, -math.huge
         for i = 1, piece + 1 do logits[i] = -math.huge end
         local found = add(core.data.spans(), { { first = 1, n = piece } }, 1, 0, logits, logits)
         return files.failure(made.answer, made, found, context).message
      end
      local function context(words, ...) return { ids = ids, words = words, first = { ... } } end
      assert.matches("not UTF%-8", refusal(context({ "a\255", "b" }, 1, 2), 1))
      assert.matches("ends at piece 3, the context has 2", refusal(context({ "a" }, 1), 3))
      assert.matches("word 1 begins with piece 2, expected 1 to 1", refusal(context({ "a" }, 2), 1))
      assert.matches("word 2 begins with piece 4, expected 1 to 3",
         refusal(context({ "a", "b" }, 1, 4), 1))
      assert.matches("word 3 begins with piece 1, expected 2 to 3",
         refusal(context({ "a", "b", "c" }, 1, 2, 1), 1))
      assert.matches("a number in 'first' for each word", refusal(context({ "a" }), 1))
      assert.matches("its pieces are of no word", refusal(context({}), 1))
      assert.matches("word 1 is no text", refusal(context({ 1 }, 1), 1))
      assert.matches("expected a list 'words'", refusal({ ids = ids, first = { 1 } }, 1))
      assert.matches("expected ids", refusal({ ids = { 1 }, words = { "a" }, first = { 1 } }, 1))
   end)
end)

describe("the spans of a window", function()
   local windows = { { first = 1, n = 6 } }

   it("are spans inside the context, with their logits", function()
      -- [CLS] q [SEP] 1 2 3 4 5 6 [SEP] and padding
      local found = spans_of(windows, 1, 1, row(12, { [1] = 9, [5] = 4, [12] = 8 }),
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
      local found = spans_of(long, 1, 0, row(60, { [3] = 5 }),
         row(60, { [32] = 5, [33] = 9 }))
      for _, candidate in ipairs(found) do assert.is_true(candidate.last - candidate.first < 30) end
   end)

   it("are none where logits are not finite", function()
      local none = {}
      for i = 1, 10 do none[i] = i % 2 == 0 and 0 / 0 or math.huge end
      assert.same({}, spans_of(windows, 1, 1, none, none))
   end)

   it("start where the piece has most context, in the first of equal windows", function()
      local pair = { { first = 1, n = 6 }, { first = 3, n = 6 } }
      local function starts(number)
         local seen, list = {}, {}
         for _, candidate in ipairs(spans_of(pair, number, 0, row(9, {}), row(9, {}))) do
            if not seen[candidate.first] then list[#list + 1] = candidate.first end
            seen[candidate.first] = true
         end
         table.sort(list)
         return table.concat(list, " ")
      end
      assert.equal("1 2 3 4", starts(1))
      assert.equal("5 6 7 8", starts(2))
      pair[2].first = 4 -- piece 5 has one piece behind it there, and one before it here
      assert.equal("1 2 3 4 5", starts(1))
      assert.equal("6 7 8 9", starts(2))
   end)

   it("come in the order of their logits, earlier ones before equals", function()
      local found = spans_of({ { first = 1, n = 3 } }, 1, 1, row(7, {}), row(7, {}))
      assert.same({ 1, 1 }, { found[1].first, found[1].last })
      assert.same({ 1, 3 }, { found[3].first, found[3].last })
   end)

   it("are of the row that is asked for", function()
      local found = core.data.spans()
      local logits = core.tensor.from_table { row(10, { [4] = 7 }), row(10, { [5] = 7 }) }
      found:add(windows, 1, 1, logits, logits, 2)
      assert.same({ 2, 2, 7, 7 }, { found:get(1) })
   end)

   it("are refused without a logit for every id, or of no window", function()
      local found, logits = core.data.spans(), matrix(row(10, {}))
      local function refusal(...) return files.failure(found.add, found, ...).message end
      assert.truthy(refusal(windows, 1, 1, matrix(row(9, {})), matrix(row(9, {})), 1):find(
         "logits of 9 positions, expected at least the 10 of the window", 1, true))
      assert.truthy(refusal(windows, 2, 1, logits, logits, 1):find("from 1 to 1", 1, true))
      assert.truthy(refusal({}, 1, 1, logits, logits, 1):find("expected windows, got 0", 1, true))
      assert.truthy(refusal(windows, 1, 1, logits, logits, 2):find("has no row 2 of 1", 1, true))
      assert.truthy(refusal(windows, 1, 1, logits, matrix(row(9, {})), 1):find(
         "has 9 columns, expected 10 as of starts", 1, true))
      assert.equal(0, #found)
   end)
end)

describe("the home of a piece", function()
   -- Of two windows of 300 and 180 pieces the longer one has 0.01 x 120 more: 85 pieces of context
   -- there are better than 86 in the other, 84 are not better than 87.
   local pair = { { first = 1, n = 300 }, { first = 129, n = 180 } }

   it("weighs a hundredth of a window's length against its context", function()
      local function is_in(number, piece)
         local s = piece - pair[number].first + 3 -- [CLS] and [SEP] before it, counted from 1
         local logits = row(310, { [s] = 9 })
         for _, candidate in ipairs(spans_of(pair, number, 0, logits, logits)) do
            if candidate.first == piece then return true end
         end
         return false
      end
      assert.same({ true, false }, { is_in(1, 215), is_in(2, 215) })
      assert.same({ false, true }, { is_in(1, 216), is_in(2, 216) })
   end)
end)

describe("the best twenty", function()
   it("starts and ends of a window are looked at", function()
      local logits = {}
      for i = 1, 42 do logits[i] = i >= 3 and i <= 41 and 100 - i or -9 end
      local windows, starts, ends = { { first = 1, n = 39 } }, {}, {}
      for _, c in ipairs(spans_of(windows, 1, 0, logits, logits)) do
         starts[c.first], ends[c.last] = true, true
      end
      for piece = 1, 39 do
         assert.equal(piece <= 20 or nil, starts[piece], piece)
         assert.equal(piece <= 20 or nil, ends[piece], piece)
      end
   end)

   it("answers of a question are kept", function()
      local pair, found = { { first = 1, n = 20 }, { first = 21, n = 20 } }, core.data.spans()
      for number = 2, 1, -1 do -- a span from each of twenty starts to the one end
         local starts, ends = {}, {}
         for i = 1, 23 do
            starts[i] = i > 2 and i < 23 and -number * i or -math.huge
            ends[i] = i == 22 and 0 or -math.huge
         end
         add(found, pair, number, 0, starts, ends)
      end
      assert.equal(40, #found)
      local pieces = {}
      for i = 1, 40 do pieces[i] = "w" .. i end
      answer(found, table.concat(pieces, " "))
      assert.same({ 20, 0 }, { found:answers(), #found })
      assert.equal(table.concat(pieces, " ", 1, 20), (found:answer(1)))
      assert.equal(-16, (select(3, found:answer(20)))) -- -3 to -16 and -6, -8 to -16
   end)
end)

describe("answers", function()
   local NONE = -math.huge

   it("are listed best first, each text once, with probabilities", function()
      local found = add(core.data.spans(), { { first = 1, n = 2 } }, 1, 0,
         { NONE, NONE, 2, 1, NONE }, { NONE, NONE, 2, 1, NONE })
      assert.equal(0, found:answers())
      assert.equal(found, answer(found, "a a")) -- "a" of 4, "a a" of 3, "a" of 2
      assert.equal(2, found:answers())
      local text, probability, start, stop = found:answer(1)
      assert.same({ "a", 2, 2 }, { text, start, stop })
      assert.is_true(math.abs(probability - 1 / (1 + math.exp(-1))) < 1e-12)
      assert.equal("a a", (found:answer(2)))
   end)

   it("of equal logits are those of the first window first", function()
      local pair, found = { { first = 1, n = 1 }, { first = 2, n = 1 } }, core.data.spans()
      add(found, pair, 2, 0, { NONE, NONE, 1, NONE }, { NONE, NONE, 2, NONE })
      add(found, pair, 1, 0, { NONE, NONE, 2, NONE }, { NONE, NONE, 1, NONE })
      answer(found, "one two")
      assert.same({ "one", "two" }, { (found:answer(1)), (found:answer(2)) })
   end)

   it("are 'empty' without a span", function()
      local found = answer(core.data.spans(), "a")
      assert.same({ "empty", 1, 0, 0 }, { found:answer(1) })
   end)
end)

describe("the scorer", function()
   local function split_of(max_source)
      local task = {
         name = "squad", tokenizer = short_pieces.new(), max_source = max_source, stride = 4,
         max_query = 4,
      }
      local rows = parse(article(paragraph(CONTEXT, qa("1", gold("Rollo", 35)), qa("2",
         gold("846–930", 47)))))
      local dataset, notes = span.prepare(task, nil, rows)
      local split = span.split(task, nil, notes, function() return rows end)
      assert.equal(dataset:size(), #split.examples)
      return split, task, dataset
   end

   -- Logits that say where a span of pieces is.
   local function logits(split, i, first, last)
      local example = split.examples[i]
      local query = split.query[example.question]
      local windows = split.encoder:windows(split.pieces[example.question], query)
      local from, to = features.place(windows[example.window], query, first, last)
      local inside = from > 0
      return {
         start = matrix(row(24, inside and { [from + 1] = 5 } or {})),
         ["end"] = matrix(row(24, inside and { [to + 1] = 5 } or {})), row = 1,
      }
   end

   it("answers a question with its last window, in any order of windows", function()
      local split, task = split_of(14)
      assert.is_true(split.windows[1] > 1)
      local question = split.questions()[1]
      local first, last = split.encoder:span(split.encoder:context(CONTEXT), question.answers[1])
      local judge = span.scorer(task, split)
      for i = #split.examples, 1, -1 do judge:add(i, logits(split, i, first, last)) end
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
         assert.is_true(#best["2"] <= 20)
      end)
   end)

   it("gives nothing for a question that is not answered", function()
      local split, task = split_of(24)
      assert.same({ em = 0, f1 = 0 }, span.scorer(task, split):result().metrics)
   end)
end)

describe("a split of spans", function()
   local function prepare(max_query, ...)
      local task = {
         name = "squad", tokenizer = short_pieces.new(), max_source = 16, stride = 4,
         max_query = max_query,
      }
      return span.prepare(task, nil, parse(article(...)))
   end

   it("has no label where the words do not hold the answer", function()
      local dataset, notes = prepare(4, paragraph("one two, one", qa("1", gold("two", 0)), qa("2",
         gold("two", 4))))
      assert.same({ -100 }, dataset:get(1, "start"))
      assert.same({ -100 }, dataset:get(1, "end"))
      assert.equal(1, notes.unplaced)
      assert.same({ 5 }, dataset:get(2, "start"))
   end)

   it("tells how many questions are cut", function()
      local long, short = qa("1", gold("two", 4)), qa("2", gold("two", 4))
      long.question = "which word is it that comes behind the first ?"
      short.question = "which ?"
      local dataset, notes = prepare(4, paragraph("one two, one", long, short))
      assert.equal(1, notes.cut)
      local split = span.split({ name = "squad", tokenizer = short_pieces.new(), max_source = 16,
         stride = 4, max_query = 4 }, nil, notes, function() return {} end)
      assert.same({ "1 question cut to 4 ids" }, split.remarks)
      assert.equal(dataset:size(), #split.examples)
   end)

   it("is refused when no answer is in its place", function()
      assert.equal("x.json: none of its 1 answers is where answer_start says", files.failure(
         prepare, 4, paragraph("one two", qa("1", gold("two", 0)))).message)
   end)

   it("is refused with the question whose context has no words", function()
      for _, blanks in ipairs { "\226\128\175", " \226\128\175\n" } do
         assert.equal("x.json: the context of question '2' has no text that the tokenizer knows",
            files.failure(prepare, 4, paragraph("one", qa("1", gold("one", 0))),
               paragraph(blanks, qa("2", gold("\226\128\175", 0)))).message)
      end
   end)

   it("is refused when windows have no room", function()
      local problem = files.failure(prepare, 13, paragraph("a", qa("1", gold("a", 0))))
      assert.equal("task squad: windows of 16 ids leave no room beside questions of 13: give "
         .. "max_source = 17 or more, or max_query = 12 or less", problem.message)
      assert.equal(2, problem.exit)
      process.refused(2, "of 64: give %-%-max%-source 68 or more, or %-%-max%-query 4 or less",
         { "recipes/bert_squad.lua", "--max-source", "8", "--profile", "modelled" })
   end)
end)
