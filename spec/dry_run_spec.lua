--- --dry-run finds what a run would stop at, says it in the run's words, and writes nothing.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local ROW = '{"premise":"Ben has a kite.","hypothesis":"Ben has a kite.","label":"entailment"}\n'

describe("--dry-run", function()
   local directory

   before_each(function() directory = files.directory() end)

   after_each(function() files.remove(directory) end)

   --- Paths below the directory, with their sizes.
   local function listing()
      local pipe = io.popen(("cd '%s' && find . -printf '%%p %%s %%T@\\n' | sort"):format(
         directory))
      local text = pipe:read("*a")
      pipe:close()
      return text
   end

   --- Runs with these words, first with --dry-run; both must refuse in the same words.
   local function refused(code, pattern, words, script)
      local all = { script or "recipes/t5_rte.lua", "--profile", "modelled", "--steps", "4",
         "--eval-limit", "4", unpack(words) }
      local before = listing()
      all[#all + 1] = "--dry-run"
      local _, err, exit = process.ftpipe(all)
      assert.equal(code, exit, err)
      assert.matches(pattern, err)
      assert.equal(before, listing())
      all[#all] = nil
      local _, later, code_later = process.ftpipe(all)
      assert.same({ exit, err }, { code_later, later })
   end

   it("finds data that is wrong, and data that is not there", function()
      core.sys.write_file(directory .. "/good.jsonl", ROW:rep(8))
      core.sys.write_file(directory .. "/bad.jsonl", ROW .. '{"premise":"x"}\n')
      refused(6, "bad.jsonl", { "--train-file", directory .. "/bad.jsonl", "--eval-file",
         directory .. "/good.jsonl", "--cache", "none" })
      refused(6, "none.jsonl", { "--train-file", directory .. "/good.jsonl", "--eval-file",
         directory .. "/none.jsonl", "--cache", "none" })
   end)

   it("finds a tensor that is missing, and weights that are not whole", function()
      local model = directory .. "/model"
      files.tiny_model(model)
      local path = model .. "/model.safetensors"
      local bytes = core.sys.read_file(path)
      core.sys.write_file(path, (bytes:gsub("encoder.final_layer_norm.weight",
         "encoder.final_layer_norn.weight")))
      refused(6, "1 missing: encoder.final_layer_norm.weight %(nearest in the file: "
         .. "encoder.final_layer_norn.weight%)", { "--model", model, "--data", "embedded" })
      core.sys.write_file(path, bytes:sub(1, -100))
      refused(6, "model.safetensors", { "--model", model, "--data", "embedded" })
      os.remove(path)
      refused(6, "holds no weights, expected ", { "--model", model, "--data", "embedded" })
   end)

   it("finds more updates than a run may have", function()
      for flag, n in pairs { ["--steps"] = "1000000000", ["--epochs"] = "100000000000" } do
         local words = { "recipes/t5_rte.lua", flag, "1e9", "--profile", "modelled", "--dry-run" }
         process.refused(2, ("%s 1000000000: these are %s updates, expected at most 268435456\n")
            :format(flag:gsub("%-", "%%-"), n), words)
      end
   end)

   it("names the flag of windows that are too short", function()
      process.refused(2, "^ftpipe: %-%-max%-source: expected 8 to 16777216, got 7\n",
         { "recipes/bert_squad.lua", "--max-source", "7", "--dry-run" })
   end)

   it("finds a batch that takes longer than a plan can say", function()
      process.refused(2, "%-%-batch 100000000 in 4 micro%-batches: forward of stage 0 takes "
         .. "[%d.e+]+ s, expected 0 to 1000\n", { "recipes/t5_rte.lua", "--batch", "100000000",
         "--profile", "modelled", "--dry-run" })
   end)

   it("says that costs are measured where that takes long", function()
      core.sys.write_file(directory .. "/script.lua", [[
         local core = require("ftpipe.core")
         core.profile.measure = function() core.fail("out of memory", "not here") end
         dofile("recipes/t5_rte.lua")]])
      local function said(batch)
         local _, err, code = process.ftpipe { directory .. "/script.lua", "--profile", "fresh",
            "--batch", batch, "--dry-run" }
         assert.equal(0, code, err)
         return err
      end
      assert.equal("", said("32"))
      assert.matches("^measuring what operators cost, of which a micro%-batch of 25000 takes about "
         .. "[%d.]+ s; %-%-profile modelled does not measure\n$", said("100000"))
   end)

   it("finds flags that would do nothing", function()
      refused(2, "%-%-cache %S+ keeps what was made of files, and %-%-data embedded is in none: "
         .. "leave it out", { "--cache", directory })
      refused(2, "%-%-decay%-exempt vectors is for weight decay, and there is none: give "
         .. "%-%-weight%-decay too", { "--decay-exempt", "vectors" })
      local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--decay-exempt", "vectors",
         "--weight-decay", "0.1", "--cache", "none", "--profile", "modelled", "--dry-run" }
      assert.equal(0, code, err)
   end)

   it("lets flags of a sweep pass that would do nothing in this trial", function()
      local words = { "recipes/t5_rte.lua", "--decay-exempt", "vectors", "--cache", directory,
         "--profile", "modelled", "--dry-run" }
      local _, err, code = process.trial(words)
      assert.equal(0, code, err)
      words[#words + 1] = "--print-config"
      local out = process.trial(words)
      assert.matches("%-%-decay%-exempt vectors +sweep\n", out)
      assert.matches("%-%-steps %d+ +recipe\n", out)
   end)

   it("misses weights before anything is measured or planned", function()
      local model = directory .. "/model"
      files.tiny_model(model)
      os.remove(model .. "/model.safetensors")
      local said, err, exit = process.ftpipe { "recipes/t5_rte.lua", "--model", model, "--data",
         "embedded", "--devices", "cpu:2" }
      assert.same({ "", 6 }, { said, exit })
      assert.matches("holds no weights, expected model.safetensors", err)
   end)

   it("finds a BERT without segments, before it plans", function()
      local model = directory .. "/bert"
      core.sys.mkdir(model)
      core.sys.write_file(model .. "/config.json", '{ "model_type": "bert", "vocab_size": 30, '
         .. '"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, '
         .. '"intermediate_size": 16, "type_vocab_size": 1 }')
      local words = { "recipes/bert_squad.lua", "--model", model, "--devices", "sim:2x1GB" }
      local said, err, exit = process.ftpipe(words)
      assert.same({ "", 6 }, { said, exit })
      assert.matches("'type_vocab_size' is 1, expected at least 2", err)
   end)

   it("finds that memory is too small", function()
      refused(3, "device cpu:%d needs [%d.]+ MB of memory, its budget is 1.0 MB .*would help",
         { "--devices", "cpu:2/1MB" })
   end)

   it("finds an --out that cannot be written, is in use, or holds something else", function()
      core.sys.write_file(directory .. "/file", "")
      refused(2, "%-%-out %S+/file/in: %S+/file is not a directory", { "--out",
         directory .. "/file/in" })
      files.tiny_model(directory .. "/model")
      refused(2, "%-%-out %S+/model holds a model", { "--out", directory .. "/model" })
      core.sys.mkdir(directory .. "/busy")
      local lock = core.io.lock(directory .. "/busy/lock")
      refused(2, "%-%-out %S+/busy: process %d+ is running there", { "--out",
         directory .. "/busy" })
      lock:free()
   end)

   it("finds a --swap-dir that is not there, or no directory", function()
      core.sys.write_file(directory .. "/file", "")
      for _, name in ipairs { "/none", "/file" } do
         refused(2, "%-%-swap%-dir %S+" .. name .. ": expected a directory that is there", {
            "--swap", "always", "--swap-dir", directory .. name })
      end
   end)

   it("finds that the disk has no room for a checkpoint", function()
      core.sys.write_file(directory .. "/script.lua", [[
         require("ftpipe.core").io.free_bytes = function() return 2e6 end
         dofile("recipes/t5_rte.lua")]])
      local words = { directory .. "/script.lua", "--profile", "modelled", "--out",
         directory .. "/new", "--dry-run" }
      local said = "ftpipe: [^\n]*/new: no room for a checkpoint: [%d.]+ MB are missing: a "
         .. "checkpoint needs [%d.]+ MB, its disk has 2.0 MB left; there is no checkpoint yet\n"
      local before = listing()
      local _, err, code = process.ftpipe(words)
      assert.equal(6, code, err)
      assert.matches(said, err)
      assert.equal(before, listing())
      words[#words] = nil
      local _, later = process.ftpipe(words)
      assert.equal(err, later)
   end)

   it("finds a first batch that the graph does not take", function()
      core.sys.write_file(directory .. "/script.lua", [[
         local feed = require("ftpipe.data.feed")
         local list = feed.list
         feed.list = function(...)
            local tensors = list(...)
            tensors[1] = require("ftpipe").tensor.zeros({ 3, 5 }, "i32")
            return tensors
         end
         dofile("recipes/t5_rte.lua")]])
      local _, err, code = process.ftpipe { directory .. "/script.lua", "--profile", "modelled",
         "--dry-run" }
      assert.equal(6, code, err)
      assert.matches("engine: input '[%w_]+' has 15 elements of i32, expected %d+ of i32", err)
   end)

   it("finds arguments with which a run does not go on, and damaged checkpoints", function()
      local out = directory .. "/run"
      local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--profile", "modelled",
         "--steps", "2", "--eval-limit", "4", "--out", out }
      assert.equal(0, code, err)
      refused(2, "/step%-2 was made with other arguments: %-%-lr was 0.001, is 0.5",
         { "--out", out, "--resume", "--lr", "0.5" })
      local function damaged(name, length, pattern)
         local path = out .. "/checkpoints/step-2/" .. name
         local bytes = core.sys.read_file(path)
         core.sys.write_file(path, bytes:sub(1, length))
         refused(6, "/step%-2/" .. pattern, { "--out", out, "--resume" })
         core.sys.write_file(path, bytes)
      end
      damaged("state/state.safetensors", 0, "state/state%.safetensors: ")
      damaged("state/state.safetensors", -9, "state/state%.safetensors: tensors cover ")
      damaged("hf/config.json", 0, "hf/config%.json:1:%d+: ")
      damaged("hf/model.safetensors", -9, "hf/model%.safetensors: tensors cover ")
   end)

   it("writes nothing where all is well, and takes a run that is to go on", function()
      local out = directory .. "/run"
      local words = { "recipes/t5_rte.lua", "--profile", "modelled", "--steps", "4", "--eval-limit",
         "4", "--out", out }
      local function dry(...)
         local all = { unpack(words) }
         for _, word in ipairs { "--dry-run", ... } do all[#all + 1] = word end
         return process.ftpipe(all)
      end
      local printed, err, code = dry()
      assert.equal(0, code, err)
      assert.matches("predicted: ", printed)
      assert.is_nil(core.sys.exists(out))
      assert.equal(0, select(3, process.ftpipe(words)))
      local before = listing()
      local _, used, refusal = dry()
      assert.same({ 2, true }, { refusal, used:find("give --resume", 1, true) ~= nil })
      printed, err, code = dry("--resume")
      assert.matches("predicted: ", printed)
      assert.equal(0, code, err)
      assert.equal(before, listing())
   end)
end)
