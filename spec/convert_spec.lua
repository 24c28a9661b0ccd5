--- ftpipe convert: other numbers and other files, the same model.

local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local shards = require("ftpipe.model.shards")

describe("ftpipe convert", function()
   local directory, model

   setup(function()
      directory = files.directory()
      model = directory .. "/model"
      files.tiny_model(model)
   end)

   teardown(function() files.remove(directory) end)

   local function convert(from, to, ...)
      local out, err, code = process.ftpipe { "convert", from, "--out", to, ... }
      assert.equal(0, code, err)
      return out
   end

   --- Every tensor of a directory as numbers, by name.
   local function numbers(dir)
      local ckpt, all = checkpoint.open(dir), {}
      for _, name in ipairs(ckpt:names()) do
         all[name] = ckpt:read(name, core.tensor.zeros(ckpt:spec(name).dims))
      end
      return all
   end

   it("cuts weights into shards with an index, and puts them together again", function()
      local cut, whole = directory .. "/cut", directory .. "/whole"
      process.refused(2, "%-%-shard: expected at least 100000, got 2",
         { "convert", model, "--out", cut, "--shard", "2" })
      assert.matches("cut: 1.7 MB\n", convert(model, cut, "--shard", "300kB"))
      local index = core.json.decode(core.sys.read_file(cut .. "/model.safetensors.index.json"))
      local found, bytes = {}, 0
      for _, name in ipairs(core.sys.list_dir(cut)) do
         if name:find("%.safetensors$") then found[name] = true end
      end
      assert.is_true(found["model-00001-of-00006.safetensors"])
      for name, file in pairs(index.weight_map) do
         assert.is_true(found[file], file)
         assert.truthy(numbers(model)[name])
      end
      for _, tensor in pairs(numbers(cut)) do bytes = bytes + 4 * tensor:count() end
      assert.equal(bytes, index.metadata.total_size)
      convert(cut, whole)
      assert.is_nil(core.sys.exists(whole .. "/model.safetensors.index.json"))
      local before, after = numbers(model), numbers(whole)
      for name, tensor in pairs(before) do assert.is_true(tensor:equals(after[name]), name) end
      assert.equal(core.sys.read_file(model .. "/spiece.model"),
         core.sys.read_file(whole .. "/spiece.model"))
   end)

   it("rounds to bf16, says so in config.json, and what it writes can be trained", function()
      local half = directory .. "/half"
      assert.matches("half: 8%d%d%.%d kB\n", convert(model, half, "--dtype", "bf16"))
      local ckpt = checkpoint.open(half)
      assert.equal("bfloat16", ckpt.config.torch_dtype)
      local before = numbers(model)
      for name, tensor in pairs(numbers(half)) do
         assert.equal("bf16", ckpt:spec(name).dtype)
         assert.is_true(tensor:equals(before[name]:to("bf16"):to("f32")), name)
      end
      local out, err, code = process.ftpipe { "recipes/t5_rte.lua", "--model", half, "--data",
         "embedded", "--steps", "2", "--eval-limit", "4", "--profile", "modelled" }
      assert.equal(0, code, err)
      assert.matches("\nafter: accuracy", out)
   end)

   it("keeps a tensor that is larger than a file in one of its own", function()
      local rows = {}
      for i, bytes in ipairs { 5, 5, 30, 2, 9, 1 } do rows[i] = { bytes = bytes } end
      local sizes = {}
      for i, group in ipairs(shards.groups(rows, 10)) do sizes[i] = #group end
      assert.same({ 2, 1, 1, 2 }, sizes)
   end)
end)

describe("ftpipe convert without what it needs", function()
   it("says what that is", function()
      process.refused(2, "convert needs a run or the directory of a model", { "convert" })
      process.refused(2, "convert needs %-%-out DIR, where it writes", { "convert", "x" })
   end)
end)

describe("ftpipe new", function()
   it("makes a project that runs at once, and takes no place of another", function()
      files.in_directory(function(dir)
         local path = dir .. "/my own"
         local out, err, code = process.ftpipe { "new", path }
         assert.equal(0, code, err)
         local recipe = out:match("next: ftpipe '(.-)'\n") -- as a shell reads it
         out, err, code = process.shell(("cd '%s' && '%s' recipe.lua --steps 3 --eval-limit 10 "
            .. "--profile modelled --out 'first run' && '%s' predict 'first run' --text 'question: "
            .. "Which colour has the kite? paragraph: Anna has a red kite.'"):format(path,
            core.sys.executable(), core.sys.executable()))
         assert.equal(0, code, err)
         assert.matches("^colour: the tiny model .- %./data/train.jsonl .-\nafter: accuracy ", out)
         assert.matches("\nfirst run: ftpipe report 'first run' shows it, "
            .. "ftpipe predict 'first run' answers with it\n", "\n" .. err)
         assert.matches('\n{"answer": "%l+", "index": 1}\n$', out)
         out, err, code = process.ftpipe { recipe, "--dry-run" }
         assert.equal(0, code, err)
         assert.matches("predicted: ", out)
         process.refused(2, "is there already: give another name", { "new", path })
         process.refused(2, "new needs the directory", { "new" })
         process.refused(2, "new needs the directory", { "new", "" })
      end)
   end)

   it("fills the empty directory that a shell is in", function()
      files.in_directory(function(dir)
         for _, name in ipairs { ".", "./", "$PWD", "../*" } do
            local out, err, code = process.shell(("mkdir '%s/here' && cd '%s/here' && '%s' new %s "
               .. "&& ls"):format(dir, dir, core.sys.executable(), name))
            assert.equal(0, code, err)
            assert.matches("/recipe.lua\nREADME.md\ndata\nrecipe.lua\ntask.lua\n$", out)
            assert.not_matches("//", out)
            assert.same({ "here" }, core.sys.list_dir(dir))
            files.remove(dir .. "/here")
         end
      end)
   end)
end)
