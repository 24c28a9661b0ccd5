--- Answers by what generation_config.json asks: those of Hugging Face transformers
-- (tools/make_golden_forms.py), and what is refused.

local choice = require("ftpipe.data.choice")
local core = require("ftpipe.core")
local decode = require("ftpipe.data.decode")
local files = require("spec.support.files")
local generation = require("ftpipe.data.predict.generation")
local models = require("ftpipe.model")
local process = require("spec.support.process")
local weights = require("ftpipe.data.predict.weights")

local FILE = "/generation_config.json"

--- The embedded model of a name as a directory without that file.
local function make_model(dir, name)
   core.sys.mkdir(dir)
   for _, asset in ipairs(core.assets()) do
      local file = asset:match("^" .. name .. "/(.*)$")
      if file and "/" .. file ~= FILE then
         core.sys.write_file(dir .. "/" .. file, core.asset(asset))
      end
   end
end

--- Answers to each source alone.
local answers = {}

function answers.t5(model, params, sources)
   local rules, rows = generation.rules(model), {}
   for i, source in ipairs(sources) do
      local decoder = decode.greedy(model, params, { batch = 1, source = #source, threads = 1,
         target = generation.most(rules, 1, "--max-target"), rules = rules })
      local ids = core.tensor.from_table({ source }, "i32")
      local mask = core.tensor.zeros({ 1, #source }, "i32"):fill(1)
      rows[i] = decode.run(decoder, ids, mask)[1]
   end
   return rows
end

--- All at once: rows of other lengths change nothing.
function answers.gpt2(model, params, prompts)
   local rules, most = generation.rules(model), {}
   for i, prompt in ipairs(prompts) do most[i] = generation.most(rules, #prompt, "--tokens") end
   return decode.continue(model, params, prompts, { most = most, threads = 1, rules = rules })
end

describe("generation_config.json", function()
   for _, case in ipairs(core.json.read("spec/golden/generation.json").cases) do
      it("has the answers of " .. case.model .. " that transformers gives", function()
         files.in_directory(function(dir)
            local different, params = {}, nil
            make_model(dir .. "/m", case.model)
            for _, row in ipairs(case.rows) do
               local asked = core.json.encode(row.asked)
               core.sys.write_file(dir .. "/m" .. FILE, asked)
               local model = models.open { model = dir .. "/m" }
               params = params or weights.load(model, { batch = 1, source = 8, target = 8 })
               local rows = answers[model.raw.model_type](model, params, case.sources)
               for i, answer in ipairs(row.answers) do
                  assert.equal(table.concat(answer, " "), table.concat(rows[i], " "), asked)
               end
               different[core.json.encode(row.answers)] = true
            end
            local n = 0
            for _ in pairs(different) do n = n + 1 end
            assert.is_true(n > #case.rows / 3) -- what is asked is seen in the answers
         end)
      end)
   end

   it("holds down tokens with scores below 0 as well as others", function()
      local rules = { penalty = 2, ngram = 0, shortest = 0, least = 0, ends = {} }
      local function pick(scores, ids)
         return choice.pick(rules, core.tensor.from_table({ { scores } }, "f32"), 1, ids, 1)
      end
      assert.equal(1, pick({ -3, -1, -1.5 }, {}))
      assert.equal(2, pick({ -3, -1, -1.5 }, { 1 }))
      assert.equal(2, pick({ -3, 1, 0.75 }, { 1, 1 }))
      assert.equal(1, pick({ -3, 1, 0.4 }, { 1, 1 })) -- once, however often it was there
   end)

   it("is refused where its answers would be others, in one line", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/m")
         local function refused(text, pattern)
            core.sys.write_file(dir .. "/m" .. FILE, text)
            local problem = files.failure(function()
               generation.rules(models.open { model = dir .. "/m" })
            end)
            assert.equal("unsupported", problem.status)
            assert.matches("/m/generation_config%.json: " .. pattern, problem.message)
         end
         refused('{"num_beams": 4}', "'num_beams' is 4, expected 1: answers are decoded greedily; "
            .. "%-%-greedy leaves aside what this file asks")
         refused('{"do_sample": true}', "'do_sample' is true, expected false: answers are decoded")
         refused('{"suppress_tokens": [3]}', "'suppress_tokens' is a list, expected null: answers")
         refused('{"forced_bos_token_id": 9}', "'forced_bos_token_id' is 9, expected null")
         refused('{"repetition_penalty": 0}',
            "'repetition_penalty' is 0, expected a number above 0")
         refused('{"no_repeat_ngram_size": 1.5}',
            "'no_repeat_ngram_size' is 1.5, expected an integer from 0 on")
         refused('{"max_length": 0}', "'max_length' is 0, expected an integer from 1 on")
         refused('{"eos_token_id": [1, 100000]}',
            "'eos_token_id' is 100000, expected an id below vocab_size")
         refused('{"decoder_start_token_id": "0"}', "'decoder_start_token_id' is 0, expected an id")
         core.sys.write_file(dir .. "/m" .. FILE, "[1]")
         assert.matches("generation_config%.json: expected a JSON object", files.failure(function()
            generation.rules(models.open { model = dir .. "/m" })
         end).message)
      end)
   end)

   it("is left aside by --greedy, but for its tokens and lengths", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/m")
         core.sys.write_file(dir .. "/m" .. FILE, '{"num_beams": 4, "min_length": 9, '
            .. '"repetition_penalty": 2, "eos_token_id": 10, "max_length": 5, "length_penalty": 2}')
         local rules = generation.rules(models.open { model = dir .. "/m" }, true)
         assert.same({ 1, 0, 0, 0 }, { rules.penalty, rules.ngram, rules.least, rules.shortest })
         assert.same({ [10] = true }, rules.ends)
         assert.equal(4, generation.most(rules, 1, "--max-target"))
         local problem = files.failure(generation.most, rules, 5, "--max-target")
         assert.matches("'max_length' is 5, and 5 tokens are there before the answer: "
            .. "give %-%-max%-target", problem.message)
      end)
   end)

   it("is what ftpipe predict follows", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/m")
         local words = { "predict", dir .. "/m", "--text", "Anna found a black ball in Cairo ." }
         local function answer(...)
            local out, err, exit = process.ftpipe { words[1], words[2], words[3], words[4], ... }
            assert.equal(0, exit, err)
            return core.json.decode(out).answer
         end
         local plain = answer()
         core.sys.write_file(dir .. "/m" .. FILE, '{"min_new_tokens": 12, "max_new_tokens": 12}')
         local long = answer()
         assert.is_true(#long > #plain, long)
         assert.equal(plain, answer("--greedy"))
         core.sys.write_file(dir .. "/m" .. FILE, '{"num_beams": 2}')
         process.refused(6, "'num_beams' is 2, expected 1", words)
         assert.equal(plain, answer("--greedy"))
      end)
   end)

   for _, name in ipairs { "t5_tiny", "gpt2_tiny" } do
      it("ends an answer of " .. name .. " with any of the ids of a list in config.json", function()
         files.in_directory(function(dir)
            make_model(dir .. "/m", name)
            local raw = core.json.read(dir .. "/m/config.json")
            raw.eos_token_id = core.json.array { 7, 9 }
            core.sys.write_file(dir .. "/m/config.json", core.json.encode(raw))
            local model = models.open { model = dir .. "/m" }
            local ends = { [7] = true, [9] = true }
            assert.same(ends, choice.plain(model.config).ends)
            assert.same(ends, generation.rules(model).ends)
            assert.equal(7, model.config.eos_token_id) -- ends what is trained on
            assert.same({ 7, 9 }, { unpack(model:saved_config().eos_token_id) })
         end)
      end)
   end

   it("is config.json where there is none", function()
      files.in_directory(function(dir)
         files.tiny_model(dir .. "/m")
         local raw = core.json.read(dir .. "/m/config.json")
         raw.no_repeat_ngram_size = 3
         core.sys.write_file(dir .. "/m/config.json", core.json.encode(raw))
         assert.equal(3, generation.rules(models.open { model = dir .. "/m" }).ngram)
         core.sys.write_file(dir .. "/m" .. FILE, "{}")
         assert.equal(0, generation.rules(models.open { model = dir .. "/m" }).ngram)
      end)
   end)
end)
