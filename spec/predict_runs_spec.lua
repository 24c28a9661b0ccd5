--- ftpipe predict on what runs of the other kinds leave: the run, its model, a text, a file.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local CONTEXT = "Ben has a red kite . Ann has a blue boat ."

local function document(questions)
   local qas = {}
   for i, question in ipairs(questions) do
      qas[i] = { id = "q" .. i, question = question,
         answers = { { text = "Ben", answer_start = 0 } } }
   end
   return core.json.encode { data = { { paragraphs = { { context = CONTEXT, qas = qas } } } } }
end

local RUNS = {
   {
      recipe = "recipes/bert_squad.lua", ends = ".json",
      train = document { "Who has a red kite ?" },
      text = { "--text", "Who has a red kite ?", "--context", CONTEXT },
      files = {
         ["rows.jsonl"] = core.json.encode { question = "Who has a red kite ?",
            context = CONTEXT } .. "\n",
         ["one.json"] = document { "Who has a red kite ?" },
      },
      wrong = {
         { "a question needs a context: give %-%-context", "--text", "Who ?" },
         { "expected rows with fields 'question' and 'context', or SQuAD's JSON", "-" },
      },
   },
   {
      recipe = "recipes/gpt2_wikitext2.lua", ends = ".txt",
      train = ("Ben has a red kite . "):rep(200) .. "\n",
      text = { "--text", "Ben has a red" },
      files = { ["rows.jsonl"] = '{"text": "Ben has a red"}\n', ["lines.txt"] = "Ben has a red\n" },
      wrong = {
         { "the model: it has %d+ positions .*; give fewer with %-%-tokens",
            "--text", "Ben has", "--tokens", "5000" },
         { "text 1 has %d+ tokens, the model has %d+ positions: give a shorter text",
            "--text", ("kite "):rep(600) },
      },
   },
}

for _, case in ipairs(RUNS) do
   describe("ftpipe predict on a run of " .. case.recipe, function()
      local dir

      setup(function()
         dir = files.directory()
         local data = dir .. "/train" .. case.ends
         core.sys.write_file(data, case.train)
         local _, err, exit = process.ftpipe { case.recipe, "--train-file", data,
            "--eval-file", data, "--steps", "1", "--batch", "4", "--out", dir .. "/run" }
         assert.equal(0, exit, err)
      end)

      teardown(function() files.remove(dir) end)

      local function answers(path, ...)
         local out, err, exit = process.ftpipe { "predict", path, ... }
         assert.equal(0, exit, err)
         local list = {}
         for line in out:gmatch("[^\n]+") do list[#list + 1] = core.json.decode(line).answer end
         return list
      end

      it("answers a text and files alike, by the run and by its model", function()
         local wanted = answers(dir .. "/run", unpack(case.text))
         assert.equal(1, #wanted)
         assert.same(wanted, answers(dir .. "/run/hf", unpack(case.text)))
         for name, bytes in pairs(case.files) do
            core.sys.write_file(dir .. "/" .. name, bytes)
            assert.same(wanted, answers(dir .. "/run", "--file", dir .. "/" .. name))
         end
      end)

      it("says what is wrong in one line", function()
         for _, wrong in ipairs(case.wrong) do
            local out, err, exit = process.ftpipe({ "predict", dir .. "/run",
               unpack(wrong, 2) }, "a text\n")
            assert.equal("2", tostring(exit) .. out, err)
            assert.matches(wrong[1], err)
            assert.equal(1, select(2, err:gsub("\n", "")), err)
         end
      end)
   end)
end
