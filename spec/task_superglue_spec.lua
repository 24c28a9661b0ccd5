--- WiC, BoolQ and MultiRC: templates, labels, metrics, and what is refused.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

local json = core.json

local function lines(...)
   local list = {}
   for i, row in ipairs { ... } do list[i] = json.encode(row) .. "\n" end
   return table.concat(list)
end

local function wic(label)
   return {
      word = "class", sentence1 = "A rising class.", sentence2 = "Real class.", idx = 0,
      label = label, start1 = 9,
   }
end

local function answer(text, label) return { text = text, label = label, idx = 7 } end

local function paragraph(text, ...)
   return { idx = 3, version = 1.1, passage = { text = text, questions = { ... } } }
end

local function question(text, idx, ...)
   return { question = text, idx = idx, answers = { ... } }
end

describe("the WiC task", function()
   it("writes sources and targets as T5 was trained with them", function()
      local split = task_files.eval_of("wic", lines(wic(true), wic(false)))
      assert.equal("wic sentence1: A rising class. sentence2: Real class. word: class",
         split.examples[1].source)
      assert.equal("True", split.examples[1].target)
      assert.equal("False", split.examples[2].target)
      assert.equal(9, split.examples[2].row.start1)
   end)

   it("refuses labels of another form, with line and what is expected", function()
      assert.equal("val.jsonl:2: label 'yes', expected one of: false, true", (task_files.fault(
         "wic", { ["val.jsonl"] = lines(wic(true), wic("yes")) }, { eval_only = true })))
      assert.equal("val.jsonl:1: label is the string 'true', expected one of: false, true",
         (task_files.fault("wic", { ["val.jsonl"] = lines(wic("true")) }, { eval_only = true })))
      assert.equal("val.jsonl:1: label is a list, expected one of: false, true",
         (task_files.fault("wic", { ["val.jsonl"] = lines(wic({ 1 })) }, { eval_only = true })))
   end)

   it("refuses what is no file of rows", function()
      local function fault(text)
         return (task_files.fault("wic", { ["val.jsonl"] = text }, { eval_only = true }))
      end
      assert.equal("val.jsonl: holds no rows, expected one JSON object a line", fault(""))
      assert.matches("^val%.jsonl:2:10: ", fault(lines(wic(true)) .. '{"word": }\n'))
      assert.equal("val.jsonl:1:11: byte 0xe9 is not UTF-8", fault('{"word": "\233"}\n'))
      assert.equal("val.jsonl:2: field 'sentence1' is missing (have: label, sentence2, word)",
         fault(lines(wic(true)) .. '{"word": "w", "sentence2": "s", "label": true}\n'))
      assert.equal("val.jsonl: read 1 row, and found no label", fault(lines(wic(nil))))
   end)
end)

describe("the BoolQ task", function()
   local glue = { question = "is it", passage = "Ethanol -- It is.", label = true, idx = 1 }
   local released = { question = "is it", passage = "It is.", title = "Ethanol", answer = true }

   it("reads both forms of the data, with the same result", function()
      for _, row in ipairs { glue, released } do
         local split = task_files.eval_of("boolq", lines(row))
         assert.equal("boolq passage: Ethanol -- It is. question: is it",
            split.examples[1].source)
         assert.equal("True", split.examples[1].target)
      end
   end)

   it("finds either form in a directory", function()
      local text = lines(released)
      task_files.with("boolq", { ["train.jsonl"] = text, ["dev.jsonl"] = text }, function(load)
         local data = load()
         assert.equal("original release", data.train.layout)
         assert.equal("original release", data.eval.layout)
      end)
      task_files.with("boolq", { ["train.jsonl"] = lines(glue), ["val.jsonl"] = lines(glue) },
         function(load) assert.equal("SuperGLUE", load().train.layout) end)
   end)
end)

describe("the MultiRC task", function()
   local text = lines(
      paragraph("<b>Sent 1: </b>It rains.<br>It pours.",
         question("Does it rain?", 10, answer("Yes", 1), answer("No", 0)),
         question("Does it pour?", 11, answer("Never", 0))),
      { passage = { text = "p", questions = { question("q", nil, answer("a", 1)) } } })

   it("makes an example of every answer, without markup", function()
      local split = task_files.eval_of("multirc", text)
      assert.equal(4, #split.examples)
      assert.equal(
         "multirc question: Does it rain? answer: Yes paragraph: Sent 1: It rains. It pours.",
         split.examples[1].source)
      assert.equal("True", split.examples[1].target)
      assert.equal("False", split.examples[3].target)
      assert.equal(split.examples[1].group, split.examples[2].group)
      assert.not_equal(split.examples[2].group, split.examples[3].group)
      assert.not_equal(split.examples[3].group, split.examples[4].group)
   end)

   it("tells questions without numbers apart", function()
      local split = task_files.eval_of("multirc", lines({ passage = { text = "p", questions = {
         question("q", nil, answer("a", 1)), question("r", nil, answer("b", 1)) } } }))
      assert.not_equal(split.examples[1].group, split.examples[2].group)
   end)

   it("scores answers by F1 and whole questions", function()
      local multirc, split = task.multirc(), task_files.eval_of("multirc", text)
      local all = task_files.score(multirc, split, { "True", "False", "False", "True" })
      assert.same({ metric = "average", unit = "%", better = "higher", value = 100,
         beside = { "f1a", "em" }, metrics = { average = 100, f1a = 100, em = 100 } }, all)
      -- One of two right ones found, none wrongly: P = 1, R = 1/2; two of three questions whole.
      local some = task_files.score(multirc, split, { "True", "False", "False", "False" })
      assert.near(200 / 3, some.metrics.f1a, 1e-9)
      assert.near(200 / 3, some.metrics.em, 1e-9)
      -- What is no answer is the wrong one: here true, false, true, false.
      local none = task_files.score(multirc, split, { "", "yes", "true", "Tru" })
      assert.same({ average = 0, f1a = 0, em = 0 }, none.metrics)
      assert.same({ "average", "em", "f1a" }, multirc:figures(split))
      local no_hit = task_files.score(multirc, split, { "False", "False", "True", "False" })
      assert.equal(0, no_hit.metrics.f1a)
   end)

   it("streams: scores do not depend on the order", function()
      local multirc, split = task.multirc(), task_files.eval_of("multirc", text)
      local scorer = multirc:scorer(split)
      for _, i in ipairs { 4, 2, 1, 3 } do scorer:add(i, i == 4 and "False" or i == 1 and "True"
         or "False") end
      assert.same(task_files.score(multirc, split, { "True", "False", "False", "False" }),
         scorer:result())
   end)

   it("names the place inside a row", function()
      local function fault(row)
         return (task_files.fault("multirc", { ["val.jsonl"] = lines(row) }, { eval_only = true }))
      end
      assert.equal("val.jsonl:1: field 'passage' is missing (have: idx)", fault({ idx = 1 }))
      assert.equal("val.jsonl:1: field 'passage' is a string, expected a table",
         fault({ passage = "x" }))
      assert.equal("val.jsonl:1: field 'passage.questions' is missing (have: text)",
         fault({ passage = { text = "x" } }))
      assert.equal("val.jsonl:1: field 'passage.questions' is an object, expected a list",
         fault({ passage = { text = "x", questions = { a = 1 } } }))
      assert.equal("val.jsonl:1: field 'passage.questions[1]' is a number, expected a table",
         fault(paragraph("x", question("q", 1, answer("a", 1)), 3)))
      assert.equal(
         "val.jsonl:1: field 'passage.questions[0].answers[1].text' is missing (have: idx, label)",
         fault(paragraph("x", question("q", 1, answer("a", 1), answer(nil, 1)))))
      assert.equal("val.jsonl: its rows hold no example",
         fault { passage = { text = "x", questions = json.array {} } })
      assert.equal("val.jsonl:1: label '2', expected one of: 0, 1",
         fault(paragraph("x", question("q", 1, answer("a", 2)))))
   end)
end)

describe("published data", function()
   local cases = {
      wic = { dir = "WiC", n = 638, majority = 50, most = 64 },
      boolq = { dir = "BoolQ", n = 3270, majority = 62.171, most = 512 },
      multirc = { dir = "MultiRC", n = 4848, majority = 30.3923, most = 512 },
   }
   for name, case in pairs(cases) do
      it(("of %s has the published inputs and majority"):format(case.dir), function()
         local vectors = files.shared("data/tokvec/derived/t5_superglue_val_inputs.json", pending)
         local spiece = files.shared("data/vocab/t5/spiece.model", pending)
         local path = files.shared("data/superglue/" .. case.dir .. "/val.jsonl", pending)
         if not (vectors and spiece and path) then return end
         local split = task[name]():load({
            eval_file = path, eval_only = true, tokenizer = core.data.tokenizer { path = spiece },
         }).eval
         assert.equal(case.n, #split.examples)
         assert.near(case.majority, split.majority.value, 5e-4)
         assert.equal(case.most, split.dataset:longest("source"))
         local n = 0
         for _, vector in ipairs(json.read(vectors)) do
            if vector.task == name then
               n = n + 1
               assert.equal(vector.input, split.examples[n].source)
               assert.same({ unpack(vector.input_ids) }, split.dataset:get(n, "source"))
               assert.same({ unpack(vector.target_ids) }, split.dataset:get(n, "target"))
            end
         end
         assert.equal(25, n)
      end)
   end

   it("of MultiRC scores constant answers as published", function()
      local path = files.shared("data/superglue/MultiRC/val.jsonl", pending)
      if not path then return end
      local multirc = task.multirc()
      local split = multirc:load({
         eval_file = path, eval_only = true, tokenizer = task_files.tokenizer(), max_source = 8,
      }).eval
      local function constant(text)
         local scorer = multirc:scorer(split)
         for i = 1, #split.examples do scorer:add(i, text) end
         return scorer:result().metrics
      end
      assert.near(59.9451, constant("True").f1a, 5e-5)
      assert.near(0.8395, constant("True").em, 5e-5)
      assert.equal(0, constant("False").f1a)
      assert.near(0.3148, constant("False").em, 5e-5)
   end)

   it("of BoolQ is the same in both forms", function()
      local spiece = files.shared("data/vocab/t5/spiece.model", pending)
      local dir = files.shared("data/superglue/BoolQ", pending)
      if not (spiece and dir) then return end
      local packs = {}
      for i, name in ipairs { "val.jsonl", "original_dev.jsonl" } do
         local data = task.boolq():load {
            eval_file = dir .. "/" .. name, eval_only = true, max_source = 64,
            tokenizer = core.data.tokenizer { path = spiece },
         }
         packs[i] = data.eval.dataset:pack()
      end
      assert.is_true(packs[1] == packs[2])
   end)
end)

describe("rows that Hugging Face datasets has written", function()
   it("number their labels in the order of its classes", function()
      local rte = { premise = "p", hypothesis = "h" }
      local boolq = { passage = "p", question = "q" }
      for name, case in pairs {
         rte = { rte, "entailment", "not_entailment" }, boolq = { boolq, "False", "True" },
         wic = { wic(), "False", "True" },
      } do
         local row, text = case[1], {}
         for i = 0, 1 do
            row.label = i
            text[i + 1] = lines(row)
         end
         local split = task_files.eval_of(name, table.concat(text))
         assert.equal(case[2], split.examples[1].target)
         assert.equal(case[3], split.examples[2].target)
      end
      rte.label = 2
      assert.matches("^val%.jsonl:1: label '2', expected one of: entailment, not_entailment$",
         (task_files.fault("rte", { ["val.jsonl"] = lines(rte) }, { eval_only = true })))
   end)

   it("have an answer of MultiRC a line, and are scored by question", function()
      local function row(q, a, label)
         return {
            paragraph = "It rained.<br>He slept.", question = "Did it?", answer = a, label = label,
            idx = { paragraph = 4, question = q, answer = 0 },
         }
      end
      local split = task_files.eval_of("multirc", lines(row(1, "Yes", 1), row(1, "No", 0),
         row(2, "Yes", 0)))
      assert.equal("multirc question: Did it? answer: Yes paragraph: It rained. He slept.",
         split.examples[1].source)
      assert.equal("True", split.examples[1].target)
      local group = task.multirc().definition.group
      assert.equal(group(row(1, "Yes", 1)), group(row(1, "No", 0)))
      assert.not_equal(group(row(1, "Yes", 1)), group(row(2, "Yes", 0)))
   end)
end)

describe("numbers of labels", function()
   it("are numbers, and of one answer each", function()
      local function problem(...)
         local answers = { ... }
         return tostring(files.failure(task.define, {
            kind = "text2text", name = "mine", metric = "accuracy", max_source = 8, max_target = 8,
            layouts = { { train = "a.jsonl", eval = "b.jsonl", template = "{x}" } },
            answers = answers,
         }).message)
      end
      local a, b = { label = "a", target = "a" }, { label = "b", target = "b" }
      a.number, b.number = 0, 0
      local taken = "task mine: answer 1: number 0 is that of another answer, or its label$"
      assert.matches(taken, problem(a, b))
      b.number, b.label = nil, 0
      assert.matches(taken, problem(a, b))
      a.number = "0"
      assert.matches("task mine: answer 1: expected { label = a value", problem(a, b))
   end)
end)

describe("a recipe's task", function()
   local function model(kind)
      return { name = "m", family = { kind = kind }, embedded = true, config = {} }
   end

   it("has to be of the model's kind", function()
      local problem = files.failure(function() task.wic():open(model("span"), {}) end)
      assert.equal('task wic is text2text (for models of mt5, t5), model = "m" is span',
         problem.message)
      assert.equal(2, problem.exit)
   end)

   it("is refused where nothing is embedded and nothing named", function()
      local opened = require("ftpipe.model").open { model = "embedded:t5_tiny" }
      local bare = task.define {
         kind = "text2text", name = "bare", metric = "accuracy", max_source = 8, max_target = 8,
         layouts = { { train = "train.jsonl", eval = "val.jsonl", template = "{text}" } },
         answers = { { label = 1, target = "yes" } },
      }
      local problem = files.failure(function() bare():open(opened, { devices = "cpu:1" }) end)
      assert.equal('task bare has no embedded data: give data = "DIR", or train_file and '
         .. "eval_file", problem.message)
      assert.equal(2, problem.exit)
   end)
end)
