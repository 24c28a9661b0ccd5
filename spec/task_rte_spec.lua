local core = require("ftpipe.core")
local files = require("spec.support.files")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

local columns = require("ftpipe.model.t5").columns { pad_token_id = 0, decoder_start_token_id = 0 }

local function row(premise, hypothesis, label)
   local fields = { premise = premise, hypothesis = hypothesis, label = label, idx = 4 }
   return core.json.encode(fields) .. "\n"
end

local SUPERGLUE = row("p", "h", "entailment") .. row("q", "g", "not_entailment")
local GLUE = "index\tsentence1\tsentence2\tlabel\n0\tp\th\tentailment\n1\tq\tg\tnot_entailment\n"

local function with_files(contents, body) task_files.with("rte", contents, body) end

local function fault(contents, options) return task_files.fault("rte", contents, options) end

describe("the RTE task", function()
   it("writes sources as SuperGLUE has them", function()
      with_files({ ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = SUPERGLUE }, function(load)
         local data = load()
         assert.equal("SuperGLUE", data.train.layout)
         assert.equal("rte hypothesis: h premise: p", data.train.examples[1].source)
         assert.equal("entailment", data.train.examples[1].target)
         assert.equal("not_entailment", data.eval.examples[2].target)
         assert.equal(4, data.eval.examples[2].row.idx)
         assert.equal(2, data.eval.dataset:size())
      end)
   end)

   it("writes sources as GLUE has them", function()
      with_files({ ["train.tsv"] = GLUE, ["dev.tsv"] = GLUE }, function(load)
         local data = load()
         assert.equal("GLUE", data.eval.layout)
         assert.equal("rte sentence1: p sentence2: h", data.eval.examples[1].source)
      end)
   end)

   it("puts text with a percent sign or braces in as it is", function()
      local text = row("100 % {hypothesis} %1", "{x} %0", "entailment")
      with_files({ ["train.jsonl"] = text, ["val.jsonl"] = text }, function(load)
         assert.equal("rte hypothesis: {x} %0 premise: 100 % {hypothesis} %1",
            load().train.examples[1].source)
      end)
   end)

   it("takes a directory as a shell completes it", function()
      with_files({ ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = SUPERGLUE }, function(load, dir)
         assert.equal(dir .. "/train.jsonl", load({ data = dir .. "//" }).train.path)
      end)
   end)

   it("takes single files, each by its own layout", function()
      with_files({ ["a.tsv"] = GLUE, ["b.jsonl"] = SUPERGLUE }, function(load)
         local data = load { train_file = "a.tsv", eval_file = "b.jsonl" }
         assert.equal("GLUE", data.train.layout)
         assert.equal("SuperGLUE", data.eval.layout)
         assert.is_nil(load({ eval_file = "b.jsonl", eval_only = true }).train)
      end)
   end)

   it("cuts long sources and ends every one with </s>", function()
      local text = row(("word "):rep(60), "h", "entailment")
      local tokenizer = task_files.tokenizer()
      with_files({ ["train.jsonl"] = SUPERGLUE .. text, ["val.jsonl"] = text }, function(load)
         local data = load { max_source = 16, tokenizer = tokenizer }
         assert.equal(1, data.eval.cut_sources)
         assert.equal(1, data.train.cut_sources)
         assert.matches("val%.jsonl %(1 example, 1 cut to 16 ids%)$", tostring(data))
         assert.equal(16, data.eval.dataset:longest("source"))
         local batcher = core.data.batcher {
            dataset = data.eval.dataset, batch = 1, buckets = { 16 }, lengths = { target = 16 },
            shuffle = false, columns = columns,
         }
         local batch = batcher:next()
         local ids = batch.input_ids:totable()[1]
         local whole = tokenizer:encode(data.eval.examples[1].source)
         for i = 1, 15 do assert.equal(whole[i], ids[i]) end
         assert.equal(1, ids[16])
         assert.equal(1, batch.labels:totable()[1][batch.counts.labels])
      end)
   end)

   it("leaves out rows without a label and counts them", function()
      local text = SUPERGLUE .. row("a", "b", nil) .. row("a", "b", -1)
         .. row("a", "b", core.json.null)
      with_files({ ["train.jsonl"] = text, ["val.jsonl"] = SUPERGLUE }, function(load)
         local train = load().train
         assert.equal(2, #train.examples)
         assert.equal(3, train.unlabelled)
         assert.matches("%(2 examples, 3 without a label left out%) and ", tostring(load()))
      end)
      local message = fault { ["train.jsonl"] = row("a", "b"), ["val.jsonl"] = SUPERGLUE }
      assert.equal("train.jsonl: read 1 row, and found no label", message)
   end)

   it("refuses another label, with its place and those expected", function()
      local message, status = fault {
         ["train.jsonl"] = SUPERGLUE .. row("a", "b", "maybe"), ["val.jsonl"] = SUPERGLUE,
      }
      assert.equal("train.jsonl:3: label 'maybe', expected one of: entailment, not_entailment",
         message)
      assert.equal("malformed data", status)
   end)

   it("refuses a row without a field", function()
      local message = fault {
         ["train.jsonl"] = '{"hypothesis": "h", "label": "entailment"}', ["val.jsonl"] = SUPERGLUE,
      }
      assert.equal("train.jsonl:1: field 'premise' is missing (have: hypothesis, label)", message)
      message = fault { ["train.tsv"] = "a\tlabel\n1\tentailment\n", ["dev.tsv"] = GLUE }
      assert.equal("train.tsv:2: field 'sentence1' is missing (have: a, label)", message)
   end)

   it("says what a directory lacks", function()
      local message, status = fault { ["notes.txt"] = "x" }
      assert.matches("expected train.jsonl and val.jsonl %(SuperGLUE%) or train.tsv and dev.tsv",
         message)
      assert.matches("it holds: notes.txt", message)
      assert.equal("not found", status)
      message = fault { ["train.jsonl"] = SUPERGLUE }
      assert.equal("val.jsonl: no such file (task rte, layout SuperGLUE); eval_file takes one of "
         .. "another name", message)
      assert.matches("^val.jsonl: holds no rows",
         (fault { ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = "" }))
   end)

   it("knows what always giving the most frequent answer scores", function()
      local text = SUPERGLUE .. row("a", "b", "not_entailment")
      with_files({ ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = text }, function(load)
         local data = load()
         assert.equal("not_entailment", data.eval.majority.answer)
         assert.near(100 * 2 / 3, data.eval.majority.value, 1e-12)
         assert.equal("entailment", data.train.majority.answer)
         assert.equal(50, data.train.majority.value)
      end)
   end)

   it("scores answers by the letter, in percent", function()
      with_files({ ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = SUPERGLUE }, function(load)
         local rte, eval = task.rte(), load().eval
         assert.same({ metric = "accuracy", unit = "%", better = "higher", value = 100,
            metrics = { accuracy = 100 } },
            task_files.score(rte, eval, { "entailment", "not_entailment" }))
         assert.equal(50, task_files.score(rte, eval, { "entailment", "Not_entailment" }).value)
         assert.equal(0, task_files.score(rte, eval, { "", "entailment" }).value)
      end)
   end)

   it("has embedded sentences, balanced", function()
      local data = task.rte():load { sample = true, tokenizer = task_files.tokenizer() }
      assert.equal(3200, #data.train.examples)
      assert.equal(400, #data.eval.examples)
      assert.equal(50, data.eval.majority.value)
      assert.equal(0, data.train.cut_sources + data.eval.cut_sources)
   end)

   it("agrees with the published inputs of SuperGLUE's RTE", function()
      local vectors = files.shared("data/tokvec/derived/t5_superglue_val_inputs.json", pending)
      local spiece = files.shared("data/vocab/t5/spiece.model", pending)
      local dir = files.shared("data/superglue/RTE", pending)
      if not (vectors and spiece and dir) then return end
      local tokenizer = core.data.tokenizer { path = spiece }
      local data = task.rte():load { data = dir, tokenizer = tokenizer }
      assert.equal(2490, #data.train.examples)
      assert.equal(277, #data.eval.examples)
      assert.near(52.708, data.eval.majority.value, 5e-4)
      assert.equal(316, data.train.dataset:longest("source"))
      assert.equal(6, data.train.dataset:longest("target"))
      local batcher = core.data.batcher {
         dataset = data.eval.dataset, batch = 1, buckets = { 320 }, lengths = { target = 8 },
         shuffle = false, columns = columns,
      }
      local n = 0
      for _, vector in ipairs(core.json.read(vectors)) do
         if vector.task == "rte" then
            n = n + 1
            local batch = batcher:next()
            assert.equal(vector.input, data.eval.examples[n].source)
            assert.equal(vector.target, data.eval.examples[n].target)
            local ids, labels = batch.input_ids:totable()[1], batch.labels:totable()[1]
            for i, id in ipairs(vector.input_ids) do assert.equal(id, ids[i]) end
            for i, id in ipairs(vector.target_ids) do assert.equal(id, labels[i]) end
            assert.equal(#vector.target_ids, batch.counts.labels)
         end
      end
      assert.equal(25, n)
   end)
end)

describe("a task", function()
   it("is one table", function()
      local answers = { { label = false, target = "False" }, { label = true, target = "True" } }
      local make = task.define {
         kind = "text2text", name = "multi", answers = answers, max_source = 32, max_target = 4,
         metric = {
            name = "all", unit = "answers", better = "lower",
            start = function()
               local n = 0
               return {
                  add = function() n = n + 1 end,
                  result = function() return { all = n, none = 0 } end,
               }
            end,
         },
         layouts = {
            {
               name = "pairs", train = "train.jsonl", eval = "val.jsonl",
               template = "multi question: {question} answer: {text}",
               expand = function(_, whole)
                  local rows = {}
                  for i, one in ipairs(whole.answers) do
                     rows[i] = { question = whole.question, text = one.text, label = one.label }
                  end
                  return rows
               end,
            },
         },
      }
      files.in_directory(function(dir)
         local text = '{"question": "q", "answers": [{"text": "a", "label": true},'
            .. '{"text": "b", "label": false}, {"text": "c"}]}\n'
         core.sys.write_file(dir .. "/train.jsonl", text)
         core.sys.write_file(dir .. "/val.jsonl", text)
         local multi = make { max_source = 24 }
         local data = multi:load { data = dir, tokenizer = task_files.tokenizer() }
         assert.equal(2, #data.train.examples)
         assert.equal(1, data.train.unlabelled)
         assert.equal("multi question: q answer: b", data.train.examples[2].source)
         assert.equal("False", data.train.examples[2].target)
         assert.same({ metric = "all", unit = "answers", better = "lower", value = 2,
            metrics = { all = 2, none = 0 } },
            task_files.score(multi, data.eval, { "True", "True" }))
      end)
   end)

   it("has answers that fit whole", function()
      local problem = files.failure(task_files.with, "rte",
         { ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = SUPERGLUE },
         function(load) load { max_target = 2 } end)
      local n = problem.message:match("^task rte: the answer 'not_entailment' is (%d+) ids with "
         .. "its end, too long for max_target = 2: give max_target = (%d+)$")
      assert.is_not_nil(n, problem.message)
      task_files.with("rte", { ["train.jsonl"] = SUPERGLUE, ["val.jsonl"] = SUPERGLUE },
         function(load) load { max_target = tonumber(n) } end)
      assert.equal(2, problem.exit)
   end)

   it("is found by its name", function()
      local problem = files.failure(function() return task.rtf end)
      assert.matches("no task is called 'rtf'", problem.message)
      assert.matches("there are: .*rte", problem.message)
   end)

   it("refuses unknown options", function()
      local rte = task.rte()
      assert.fails_with(function() rte:load { dat = "x" } end, "unknown option 'dat'.*data")
      assert.fails_with(function() rte:load { data = "x" } end, "'tokenizer' is missing")
      assert.fails_with(function() task.rte { max_source = 1 } end, "max_source.*at least 2")
      assert.fails_with(function() rte:load { tokenizer = task_files.tokenizer() } end,
         "give data or train_file")
   end)
end)
