local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local short_pieces = require("spec.support.short_pieces")
local task = require("ftpipe.task")

local function question(id, text, answer, start)
   return { id = id, question = text, answers = { { text = answer, answer_start = start } } }
end

local CONTEXT = "In 911 Rollo of Norway was given land by Charles the Simple."

local DATA = core.json.encode {
   version = "1.1",
   data = { { title = "Normans", paragraphs = { {
      context = CONTEXT,
      qas = {
         question("a", "Who was given land?", "Rollo", 7),
         question("b", "Who gave it?", "Charles the Simple", 41),
      },
   } } } },
}

-- Calls body(task, data) with the task loaded from a directory with these files.
local function with_task(contents, overrides, body)
   files.in_directory(function(dir)
      for name, text in pairs(contents) do core.sys.write_file(dir .. "/" .. name, text) end
      local squad = task.squad(overrides)
      body(squad, squad:load { data = dir, tokenizer = short_pieces.new() }, dir)
   end)
end

local function fault(contents)
   return (files.fault(with_task, contents, {}, function() end))
end

describe("the SQuAD task", function()
   it("has windows as examples, with the places of answers", function()
      with_task({ ["train-v1.1.json"] = DATA, ["dev-v1.1.json"] = DATA }, {}, function(squad, data)
         assert.equal("span", squad.kind)
         assert.equal("SQuAD v1.1", data.train.layout)
         assert.equal(2, #data.train.examples)
         local dataset = data.eval.dataset
         assert.same({ { "source", "segments" }, { "start" }, { "end" } }, dataset:groups())
         local ids, first = dataset:get(2, "source"), dataset:get(2, "start")[1]
         local words = {}
         for i = first, dataset:get(2, "end")[1] do
            words[#words + 1] = squad.tokenizer:piece(ids[i + 1])
         end
         assert.equal("char ##les the simp ##le", table.concat(words, " "))
         assert.equal(#ids, #dataset:get(2, "segments"))
      end)
   end)

   it("cuts long contexts into windows of the sizes that it is told", function()
      with_task({ ["train-v1.1.json"] = DATA, ["dev-v1.1.json"] = DATA },
         { max_source = 16, stride = 6, max_query = 4 }, function(squad, data)
         assert.is_true(#data.eval.examples > 2)
         assert.is_true(data.eval.dataset:longest("source") <= 16)
         assert.equal(data.eval.windows[1] + data.eval.windows[2], #data.eval.examples)
         assert.matches(("dev%%-v1%%.1%%.json %%(%d windows, "):format(#data.eval.examples),
            tostring(data))
         local scorer = squad:scorer(data.eval)
         for i in ipairs(data.eval.examples) do
            local n = #data.eval.dataset:get(i, "source")
            local flat = {}
            for k = 1, n do flat[k] = 0 end
            flat = core.tensor.from_table { flat }
            scorer:add(i, { start = flat, ["end"] = flat, row = 1 })
         end
         -- Everywhere alike: the first word of the first window is the answer.
         assert.same({ em = 0, f1 = 0 }, scorer:result().metrics)
         assert.same({ "em", "f1" }, squad:figures(data.eval))
      end)
   end)

   it("scores what points at the answers in full", function()
      with_task({ ["train-v1.1.json"] = DATA, ["dev-v1.1.json"] = DATA }, {}, function(squad, data)
         local scorer, dataset = squad:scorer(data.eval), data.eval.dataset
         for i in ipairs(data.eval.examples) do
            local starts, ends = {}, {}
            for k = 1, #dataset:get(i, "source") + 5 do starts[k], ends[k] = -1, -1 end
            starts[dataset:get(i, "start")[1] + 1] = 3
            ends[dataset:get(i, "end")[1] + 1] = 3
            scorer:add(i, {
               start = core.tensor.from_table { starts }, ["end"] = core.tensor.from_table { ends },
               row = 1,
            })
         end
         assert.same({ metric = "f1", unit = "%", better = "higher", value = 100,
            beside = { "em" }, metrics = { em = 100, f1 = 100 } }, scorer:result())
      end)
   end)

   it("says what it looks for, and what is wrong with a file", function()
      assert.matches("holds no data of task squad, expected train%-v1.1.json and dev%-v1.1.json "
         .. "%(SQuAD v1.1%); it holds: x.json$", fault { ["x.json"] = DATA })
      assert.equal("train-v1.1.json: field 'data' is missing (have: nothing)",
         (fault { ["train-v1.1.json"] = "{}", ["dev-v1.1.json"] = DATA }))
      assert.matches("^train%-v1.1.json:1:13: ", (fault { ["train-v1.1.json"] = '{"data": [1,}',
         ["dev-v1.1.json"] = DATA }))
   end)
end)

describe("published SQuAD data", function()
   local TRUE_COUNTS = { -- features by max_source 384, stride 128, questions of 64
      { "dev-v1.1-reconstructed.json", 10668 },
      { "xquad.en.json", 1232 },
      { "train-v1.1-subset.json", 4385 },
   }

   local function shared_tokenizer()
      local dir = files.shared("golden/minilm_squad", pending)
      return dir and checkpoint.open(dir):tokenizer()
   end

   it("has the known number of windows", function()
      local tokenizer = shared_tokenizer()
      if not tokenizer then return end
      for _, row in ipairs(TRUE_COUNTS) do
         local path = files.shared("data/squad/" .. row[1], pending)
         local data = task.squad {}:load {
            eval_file = path, eval_only = true, tokenizer = tokenizer,
         }
         assert.equal(row[2], #data.eval.examples)
         assert.equal(0, data.eval.unplaced)
      end
   end)

   it("becomes the reference features", function()
      local tokenizer = shared_tokenizer()
      if not tokenizer then return end
      local path = files.shared("data/tokvec/derived/bert_squad_features_xquad_first40.json",
         pending)
      local squad = task.squad {}
      local data = squad:load {
         eval_file = files.shared("data/squad/xquad.en.json", pending), eval_only = true,
         tokenizer = tokenizer,
      }
      local split = data.eval
      for i, wanted in ipairs(core.json.decode(core.sys.read_file(path))) do
         local example = split.examples[i]
         local window = split.encoder:windows(split.pieces[example.question],
            split.query[example.question])[example.window]
         assert.equal(wanted.id, split.questions()[example.question].id)
         assert.equal(wanted.doc_start, window.first - 1)
         assert.equal(wanted.doc_len, window.n)
         assert.equal(wanted.query_len, split.query[example.question])
         assert.same(wanted.input_ids, { unpack(split.dataset:get(i, "source")) })
         assert.equal(wanted.start, split.dataset:get(i, "start")[1])
         assert.equal(wanted["end"], split.dataset:get(i, "end")[1])
         local zeros = 0
         for _, segment in ipairs(split.dataset:get(i, "segments")) do
            zeros = zeros + (segment == 0 and 1 or 0)
         end
         assert.equal(wanted.n_segment0, zeros)
      end
   end)
end)
