local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local models = require("ftpipe.model")
local process = require("spec.support.process")
local replace = require("ftpipe.model.replace")
local states = require("ftpipe.store.state")
local t5 = require("ftpipe.model.t5")

local V, D = 6, 4

local CONFIG = [[{
  "model_type": "t5",
  "vocab_size": 6,
  "d_model": 4,
  "layer_norm_epsilon": 1e-06,
  "initializer_factor": 1.0,
  "task_specific_params": {"x": [1, 2.0, null]},
  "torch_dtype": "float32"
}
]]

local function filled(dims, first, dtype)
   local tensor = core.tensor.zeros(dims, dtype)
   return tensor:fill_range(first, 1)
end

-- Parameters of a model that has two.
local PARAMS = {
   { name = "shared.weight", dims = { V, D } },
   { name = "encoder.final_layer_norm.weight", dims = { D } },
}

local function tensors()
   return {
      ["shared.weight"] = filled({ V, D }, 1),
      ["encoder.final_layer_norm.weight"] = filled({ D }, 100),
   }
end

local function write(dir, named, config)
   local list = {}
   for name, tensor in pairs(named) do list[#list + 1] = { name = name, tensor = tensor } end
   core.sys.write_file(dir .. "/config.json", config or CONFIG)
   core.io.write(dir .. "/model.safetensors", list)
end

-- Loads the parameters of a checkpoint by name.
local function load(ckpt, params)
   params = params or PARAMS
   local loaded = {}
   checkpoint.load(ckpt, params, function(i)
      loaded[params[i].name] = core.tensor.zeros(params[i].dims)
      return loaded[params[i].name]
   end)
   return loaded
end

-- A checkpoint with changed tensors (false: left out), given to body with its directory.
local function with_checkpoint(changes, body)
   files.in_directory(function(dir)
      local all = tensors()
      for name, tensor in pairs(changes or {}) do all[name] = tensor or nil end
      write(dir, all)
      local ckpt = checkpoint.open(dir)
      body(ckpt, dir)
      ckpt:close()
   end)
end

local function load_fault(changes)
   local problem
   with_checkpoint(changes, function(ckpt, dir)
      problem = files.failure(load, ckpt)
      problem.message = problem.message:gsub("^" .. dir:gsub("%p", "%%%0") .. ": ", "")
   end)
   return problem.message, problem.status
end

describe("opening a checkpoint", function()
   it("gives every key of config.json", function()
      with_checkpoint(nil, function(ckpt)
         assert.equal(6, ckpt.config.vocab_size)
         assert.same({ 1, 2 }, { unpack(ckpt.config.task_specific_params.x, 1, 2) })
         assert.same({ dtype = "f32", dims = { V, D }, readable = true },
            ckpt:spec("shared.weight"))
         assert.is_nil(ckpt:spec("lm_head.weight"))
         assert.equal(2, #ckpt:names())
      end)
   end)

   it("opens what is inside the program", function()
      if not table.concat(core.assets(), "\n"):find("t5_tiny/config.json", 1, true) then
         return pending("skipped: this build has no embedded model")
      end
      local ckpt = checkpoint.open { asset = "t5_tiny" }
      assert.equal("embedded:t5_tiny", tostring(ckpt.path))
      assert.equal("t5", ckpt.config.model_type)
      local dims = ckpt:spec("shared.weight").dims
      assert.same({ ckpt.config.vocab_size, ckpt.config.d_model }, dims)
      local shared = ckpt:read("shared.weight", core.tensor.zeros(dims))
      assert.not_equal(0, shared:get(1, 1))
      assert.is_true(ckpt:tokenizer():size() <= ckpt.config.vocab_size)
      assert.fails_with(function() checkpoint.open { asset = "none" } end,
         "no model embedded:none %(there are: embedded:bert_tiny, .*embedded:t5_tiny%)")
   end)

   it("works without weights, loading then says so", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/config.json", CONFIG)
         local ckpt = checkpoint.open(dir)
         assert.same({}, ckpt:names())
         assert.is_nil(ckpt:spec("shared.weight"))
         local problem = files.failure(load, ckpt)
         assert.equal("not found", problem.status)
         assert.matches("holds no weights, expected model.safetensors", problem.message)
      end)
   end)

   it("refuses what is no checkpoint, with the file and the reason", function()
      files.in_directory(function(dir)
         assert.equal("not found", files.failure(checkpoint.open, dir .. "/none").status)
         assert.fails_with(function() checkpoint.open(dir) end, "holds no config.json$")
         core.sys.mkdir(dir .. "/hf")
         core.sys.write_file(dir .. "/hf/config.json", "{}")
         assert.fails_with(function() checkpoint.open(dir) end,
            "holds no config.json; it is a run, whose model is .*/hf$")
         core.sys.write_file(dir .. "/config.json", "{\n  'a': 1}")
         assert.fails_with(function() checkpoint.open(dir) end, "config.json:2:%d+: ")
         core.sys.write_file(dir .. "/config.json", "[]")
         assert.fails_with(function() checkpoint.open(dir) end, "config.json: expected a JSON obj")
         assert.fails_with(function() checkpoint.open(dir .. "/config.json") end, "not a directory")
         core.sys.write_file(dir .. "/config.json", '{ "model_type": "t5", "d_model": 0 }')
         local problem = files.failure(models.open, { model = dir })
         assert.matches(dir .. "/config.json: ", problem.message, 1, true)
         assert.equal(6, problem.exit)
      end)
   end)

   it("refuses truncated weights", function()
      with_checkpoint(nil, function(_, dir)
         local bytes = core.sys.read_file(dir .. "/model.safetensors")
         core.sys.write_file(dir .. "/model.safetensors", bytes:sub(1, -3))
         local problem = files.failure(checkpoint.open, dir)
         assert.equal("malformed data", problem.status)
         assert.matches("model.safetensors: ", problem.message)
      end)
   end)

   it("says what was not fetched where a file is a pointer of Git LFS", function()
      with_checkpoint(nil, function(_, dir)
         for _, name in ipairs { "model.safetensors", "pytorch_model.bin" } do
            os.remove(dir .. "/model.safetensors")
            core.sys.write_file(dir .. "/" .. name,
               "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 1234\n")
            local problem = files.failure(checkpoint.open, dir)
            assert.equal("malformed data", problem.status)
            assert.matches(name .. ": is a pointer of Git LFS .*; git lfs pull", problem.message)
         end
      end)
   end)

   it("compares tensors without loading them", function()
      local same, other = filled({ V, D }, 1, "bf16"), filled({ V, D }, 2)
      with_checkpoint({ ["a"] = same, ["b"] = other }, function(ckpt)
         assert.is_true(ckpt:tensors_equal("shared.weight", "a"))
         assert.is_false(ckpt:tensors_equal("shared.weight", "b"))
         assert.is_false(ckpt:tensors_equal("shared.weight", "encoder.final_layer_norm.weight"))
      end)
      local long, changed = filled({ 3, 5000 }, 0), filled({ 3, 5000 }, 0)
      changed:set(3, 5000, 0.5)
      with_checkpoint({ ["a"] = long, ["b"] = changed }, function(ckpt)
         assert.is_true(ckpt:tensors_equal("a", "a"))
         assert.is_false(ckpt:tensors_equal("a", "b"))
      end)
   end)
end)

describe("loading a checkpoint", function()
   it("reads each parameter where it is wanted", function()
      with_checkpoint(nil, function(ckpt)
         local loaded = load(ckpt)
         for name, tensor in pairs(tensors()) do assert.is_true(tensor:equals(loaded[name])) end
      end)
   end)

   it("converts half precision", function()
      with_checkpoint({ ["shared.weight"] = filled({ V, D }, 1, "bf16") }, function(ckpt)
         assert.is_true(tensors()["shared.weight"]:equals(load(ckpt)["shared.weight"]))
      end)
   end)

   it("takes repetitions of the tied embedding, and one of them in its place", function()
      local repeated = {
         ["encoder.embed_tokens.weight"] = filled({ V, D }, 1),
         ["decoder.embed_tokens.weight"] = filled({ V, D }, 1),
         ["lm_head.weight"] = filled({ V, D }, 1),
         ["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] =
            filled({ 3, 2 }, 0),
      }
      local function check(ckpt) assert.equal(1, load(ckpt)["shared.weight"]:get(1, 1)) end
      with_checkpoint(repeated, check)
      repeated["shared.weight"] = false
      with_checkpoint(repeated, check)
   end)

   it("refuses a repetition that differs", function()
      local message = load_fault { ["encoder.embed_tokens.weight"] = filled({ V, D }, 2) }
      assert.matches("1 unexpected: encoder.embed_tokens.weight %(it is to repeat shared.weight "
         .. "and has other values%)", message)
   end)

   it("reads a head of its own when the model has one", function()
      with_checkpoint({ ["lm_head.weight"] = filled({ V, D }, 50) }, function(ckpt)
         local params = { PARAMS[1], PARAMS[2], { name = "lm_head.weight", dims = { V, D } } }
         local loaded = load(ckpt, params)
         assert.equal(50, loaded["lm_head.weight"]:get(1, 1))
         assert.equal(1, loaded["shared.weight"]:get(1, 1))
      end)
   end)

   it("takes a lone head for the embedding where they are tied", function()
      local alone = { ["shared.weight"] = false, ["lm_head.weight"] = filled({ V, D }, 50) }
      with_checkpoint(alone, function(ckpt)
         assert.is_false(t5.untied(ckpt))
         assert.equal(50, load(ckpt)["shared.weight"]:get(1, 1))
         local params = { PARAMS[1], PARAMS[2], { name = "lm_head.weight", dims = { V, D } } }
         assert.fails_with(function() load(ckpt, params) end, "1 missing: shared.weight")
      end)
   end)

   it("lists what is missing, with the nearest name, and what is unexpected", function()
      local message, status = load_fault {
         ["encoder.final_layer_norm.weight"] = false,
         ["encoder.final_layernorm.weight"] = filled({ D }, 0),
      }
      assert.equal("its tensors are not those that config.json describes: "
         .. "1 missing: encoder.final_layer_norm.weight "
         .. "(nearest in the file: encoder.final_layernorm.weight); "
         .. "1 unexpected: encoder.final_layernorm.weight", message)
      assert.equal("malformed data", status)
   end)

   it("shows both shapes of what does not fit, before it reads anything", function()
      local message, status = load_fault { ["shared.weight"] = filled({ V + 1, D }, 0) }
      assert.equal("its tensors are not those that config.json describes: "
         .. "1 of another shape: shared.weight is (7, 4), expected (6, 4)", message)
      assert.equal("shape mismatch", status)
      with_checkpoint({ extra = filled({ 1 }, 0) }, function(ckpt)
         local asked = 0
         local function ask() asked = asked + 1 end
         local problem = files.failure(checkpoint.load, ckpt, PARAMS, ask)
         assert.matches("1 unexpected: extra", problem.message)
         assert.equal(0, asked)
      end)
   end)

   -- A family with a head that a file may lack, known by its forms alone.
   local function with_family(body)
      local families = require("ftpipe.model.families")
      families.spec, package.loaded["spec.family"] = "spec.family", {
         forms = { names = { { "^old%.", "" } }, ignored = { "^cls%." }, optional = { "^head%." } },
      }
      files.in_directory(function(dir) body(dir) end)
      families.spec, package.loaded["spec.family"] = nil, nil
   end

   it("names the parameters that a file may lack and does", function()
      with_family(function(dir)
         local params = {
            { name = "w", dims = { 2 } }, { name = "head.weight", dims = { 2 } },
            { name = "head.bias", dims = { 1 } },
         }
         local config = '{"model_type": "spec"}'
         local there = { ["old.w"] = filled({ 2 }, 1), ["cls.weight"] = filled({ 9 }, 1) }
         local loaded = {}
         local function tensor_of(i)
            loaded[params[i].name] = core.tensor.zeros(params[i].dims)
            return loaded[params[i].name]
         end
         write(dir, there, config)
         assert.same({ "head.weight", "head.bias" },
            checkpoint.load(checkpoint.open(dir), params, tensor_of))
         assert.equal(2, loaded.w:get(2))
         assert.is_nil(loaded["head.weight"])
         -- Half a head is no head that was left out.
         there["head.bias"] = filled({ 1 }, 1)
         write(dir, there, config)
         local problem = files.failure(checkpoint.load, checkpoint.open(dir), params, tensor_of)
         assert.matches("1 missing: head.weight", problem.message, 1, true)
      end)
   end)

   it("fails when the file shrinks meanwhile", function()
      with_checkpoint(nil, function(ckpt, dir)
         local file = io.open(dir .. "/model.safetensors", "w")
         file:close()
         assert.equal("input or output failed", files.failure(load, ckpt).status)
      end)
   end)
end)

describe("a checkpoint's tokenizer", function()
   it("is that of spiece.model, with the extra ids of its configuration", function()
      with_checkpoint(nil, function(_, dir)
         core.sys.write_file(dir .. "/spiece.model", core.asset("t5_tiny/spiece.model"))
         core.sys.write_file(dir .. "/config.json", '{"model_type": "t5", "vocab_size": 100000}')
         local with_preset = checkpoint.open(dir):tokenizer():size()
         core.sys.write_file(dir .. "/tokenizer_config.json",
            '{"extra_ids": 7, "model_max_length": 1000000000000000019884624838656}')
         assert.equal(with_preset - 93, checkpoint.open(dir):tokenizer():size())
      end)
   end)

   it("reads ids of rows that only the model has as no text", function()
      with_checkpoint(nil, function(_, dir)
         core.sys.write_file(dir .. "/spiece.model", core.asset("t5_tiny/spiece.model"))
         core.sys.write_file(dir .. "/config.json", '{"model_type": "t5", "vocab_size": 1000}')
         local tokenizer = checkpoint.open(dir):tokenizer()
         local ids = tokenizer:encode("Anna has a kite.")
         local padded = { tokenizer:size(), 999 }
         for i, id in ipairs(ids) do table.insert(padded, i + 1, id) end
         assert.equal("Anna has a kite.", tokenizer:decode(padded))
         padded[1] = 1000
         assert.matches("id 1000 at position 0, expected 0 to 999",
            files.failure(tokenizer.decode, tokenizer, padded).message)
      end)
   end)

   it("may not have more ids than the model", function()
      with_checkpoint(nil, function(_, dir)
         core.sys.write_file(dir .. "/spiece.model", core.asset("t5_tiny/spiece.model"))
         local ckpt = checkpoint.open(dir)
         local problem = files.failure(ckpt.tokenizer, ckpt)
         assert.equal("shape mismatch", problem.status)
         assert.matches("has %d+ ids, the model's vocab_size is 6$", problem.message)
      end)
   end)

   it("has to be there", function()
      with_checkpoint(nil, function(ckpt)
         assert.fails_with(function() ckpt:tokenizer() end,
            "holds no tokenizer, expected tokenizer_class \"ByT5Tokenizer\" or spiece.model or "
               .. "tokenizer.json")
      end)
   end)
end)

describe("saving a checkpoint", function()
   it("loads back to the bit", function()
      files.in_directory(function(dir)
         local saved = { w = core.tensor.zeros({ 300, 7 }) }
         saved.w:draw("normal", 1, 3)
         checkpoint.save(dir .. "/out/hf", { config = { model_type = "x" }, tensors = saved })
         local ckpt = checkpoint.open(dir .. "/out/hf/")
         local loaded = load(ckpt, { { name = "w", dims = { 300, 7 } } })
         assert.is_true(saved.w:equals(loaded.w))
         assert.same({ "config.json", "model.safetensors" }, core.sys.list_dir(dir .. "/out/hf"))
         assert.same({ "hf" }, core.sys.list_dir(dir .. "/out"))
      end)
   end)

   it("takes over tokenizer files and config.json byte for byte", function()
      with_checkpoint(nil, function(_, dir)
         core.sys.write_file(dir .. "/spiece.model", "\0\1\255")
         core.sys.write_file(dir .. "/generation_config.json", '{ "a":1 }')
         core.sys.write_file(dir .. "/README.md", "x")
         local ckpt = checkpoint.open(dir)
         local out = dir .. "/hf"
         checkpoint.save(out, { config = ckpt.config, tensors = tensors(), source = ckpt })
         assert.equal(CONFIG, core.sys.read_file(out .. "/config.json"))
         assert.equal("\0\1\255", core.sys.read_file(out .. "/spiece.model"))
         assert.equal('{ "a":1 }', core.sys.read_file(out .. "/generation_config.json"))
         assert.is_nil(core.sys.exists(out .. "/README.md"))
      end)
   end)

   it("changes only what changed in config.json", function()
      with_checkpoint(nil, function(_, dir)
         core.sys.write_file(dir .. "/config.json", (CONFIG:gsub("float32", "bfloat16")))
         local ckpt = checkpoint.open(dir)
         ckpt.config.vocab_size = 6
         local config = { vocab_size = 7, added = true }
         for key, value in pairs(ckpt.config) do config[key] = config[key] or value end
         checkpoint.save(dir .. "/hf", { config = config, tensors = {}, source = ckpt })
         local text = core.sys.read_file(dir .. "/hf/config.json")
         assert.matches('"vocab_size": 7,', text, 1, true)
         assert.matches('"torch_dtype": "float32"', text, 1, true)
         assert.matches('"initializer_factor": 1.0', text, 1, true)
         assert.matches('"added": true', text, 1, true)
         assert.equal("bfloat16", ckpt.config.torch_dtype)
      end)
   end)

   it("replaces an old one whole and keeps what somebody put beside it", function()
      files.in_directory(function(dir)
         local out = dir .. "/hf"
         core.sys.mkdir(out)
         core.sys.write_file(out .. "/model-00001-of-00002.safetensors", "old")
         core.sys.write_file(out .. "/model.safetensors.index.json", "old")
         core.sys.write_file(out .. "/notes.txt", "mine")
         checkpoint.save(out, { config = {}, tensors = tensors() })
         checkpoint.save(out, { config = {}, tensors = tensors() })
         assert.same({ "config.json", "model.safetensors", "notes.txt" }, core.sys.list_dir(out))
         assert.equal("mine", core.sys.read_file(out .. "/notes.txt"))
         assert.same({ "hf" }, core.sys.list_dir(dir))
      end)
   end)

   it("leaves the old one, and nothing else, when it fails", function()
      files.in_directory(function(dir)
         local out = dir .. "/hf"
         checkpoint.save(out, { config = { a = 1 }, tensors = tensors() })
         local strided = filled({ V, D }, 0):transpose(1, 2)
         local problem = files.failure(checkpoint.save, out,
            { config = {}, tensors = { x = strided } })
         assert.equal("invalid argument", problem.status)
         assert.matches("'x' is not contiguous", problem.message)
         assert.equal(1, checkpoint.open(out).config.a)
         assert.same({ "hf" }, core.sys.list_dir(dir))
         core.sys.write_file(dir .. "/file", "kept")
         assert.equal("invalid argument",
            files.failure(checkpoint.save, dir .. "/file", { config = {}, tensors = {} }).status)
         assert.equal("kept", core.sys.read_file(dir .. "/file"))
      end)
   end)

   it("replaces a link to a directory without touching what it points to", function()
      files.in_directory(function(dir)
         core.sys.mkdir(dir .. "/real")
         core.sys.write_file(dir .. "/real/config.json", "{}")
         core.sys.write_file(dir .. "/real/notes.txt", "mine")
         os.execute(("ln -s real '%s/hf'"):format(dir))
         checkpoint.save(dir .. "/hf", { config = { a = 1 }, tensors = tensors() })
         assert.equal(1, checkpoint.open(dir .. "/hf").config.a)
         assert.equal("{}", core.sys.read_file(dir .. "/real/config.json"))
         assert.equal("mine", core.sys.read_file(dir .. "/real/notes.txt"))
         assert.same({ "hf", "real" }, core.sys.list_dir(dir))
      end)
   end)
end)

describe("a directory that is replaced", function()
   it("keeps what it is told to where the new one has nothing of that name", function()
      files.in_directory(function(dir)
         local function fill(contents)
            return function(beside)
               core.sys.mkdir(beside)
               for name, text in pairs(contents) do
                  core.sys.write_file(beside .. "/" .. name, text)
               end
            end
         end
         local place = dir .. "/place"
         replace.directory(place, fill { a = "old", b = "old", c = "old" })
         replace.directory(place, fill { a = "new" }, function(name) return name ~= "c" end)
         assert.same({ "a", "b" }, core.sys.list_dir(place))
         assert.equal("new", core.sys.read_file(place .. "/a"))
         assert.same({ "place" }, core.sys.list_dir(dir))
      end)
   end)

   it("stays itself where this process is in it, and is found by dots", function()
      files.in_directory(function(dir)
         core.sys.mkdir(dir .. "/here/inner")
         core.sys.write_file(dir .. "/here/old", "")
         core.sys.write_file(dir .. "/here/kept", "")
         local out, err, code = process.shell(([[cd '%s/here' && '%s' -e '
            local core, replace = require("ftpipe.core"), require("ftpipe.model.replace")
            local function fill(beside)
               core.sys.mkdir(beside)
               core.sys.write_file(beside .. "/new", "")
            end
            replace.directory("inner/.", fill)
            replace.directory(".", fill, function(name) return name ~= "old" end)
            replace.directory("inner/..", fill, function(name) return name ~= "kept" end)
            ' && find . | sort]]):format(dir, core.sys.executable()))
         assert.equal(0, code, err)
         assert.equal(".\n./inner\n./inner/new\n./new\n", out)
         assert.same({ "here" }, core.sys.list_dir(dir))
      end)
   end)
end)

describe("the newest checkpoint of a run", function()
   it("is that of the link, or the last whole one where the link leads nowhere", function()
      files.in_directory(function(dir)
         local root = dir .. "/checkpoints"
         core.sys.mkdir(root)
         core.io.link(root .. "/latest", "step-9")
         assert.is_nil(states.find(dir))
         for _, name in ipairs { "step-3/hf", "step-12/hf", "step-20" } do
            core.sys.mkdir(root .. "/" .. name)
         end
         assert.equal(root .. "/step-12", states.find(dir))
         core.io.link(root .. "/latest", "step-3")
         assert.equal(root .. "/step-3", states.find(dir))
      end)
   end)
end)

describe("a checkpoint with second names for its files", function()
   it("is on the disk before it has its place", function()
      files.in_directory(function(dir)
         write(dir, tensors())
         local from, to, asked = dir .. "/from", dir .. "/to", {}
         checkpoint.save(from, { config = { a = 1 }, tensors = tensors() })
         local sync, exchange = core.io.sync, core.io.exchange
         core.io.sync = function(path)
            asked[#asked + 1] = "sync " .. path
            return sync(path)
         end
         core.io.exchange = function(beside, place)
            asked[#asked + 1] = "exchange " .. beside
            return exchange(beside, place)
         end
         local ok, done = pcall(checkpoint.link, to, from)
         core.io.sync, core.io.exchange = sync, exchange
         assert.is_true(ok and done)
         assert.same(core.sys.list_dir(from), core.sys.list_dir(to))
         local beside = asked[2]:match("^exchange (.*)$")
         assert.same({ "sync " .. beside, "exchange " .. beside }, asked)
      end)
   end)
end)

describe("the published T5 checkpoints", function()
   it("say by their contents whether the head is tied", function()
      local expected = { t5_v1_0 = false, t5_v1_1 = true, t5_rte_real = false }
      for name, untied in pairs(expected) do
         local dir = files.shared("golden/" .. name, pending)
         if not dir then return end
         local ckpt = checkpoint.open(dir)
         local head = "lm_head.weight"
         local differs = ckpt:spec(head) ~= nil and not ckpt:tensors_equal(head, "shared.weight")
         assert.equal(untied, differs)
      end
   end)
end)
