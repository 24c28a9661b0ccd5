--- Tokenised data on disk: what comes from there is what was made, and nothing else ever does.

local cache = require("ftpipe.base.cache")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local task = require("ftpipe.task")
local task_files = require("spec.support.task_files")

describe("the name of tokenised data", function()
   it("depends on all that it is made of", function()
      local bytes, seen = ("x"):rep(2 ^ 18), {}
      local function name(text, parts, module)
         return cache.path("dir", text, parts, { "ftpipe.data." .. module })
      end
      for _, path in ipairs {
         name(bytes, { a = 1 }, "windows"), name(bytes, { a = 2 }, "windows"),
         name(bytes, { a = 1 }, "buckets"), name(bytes .. "y", { a = 1 }, "windows"),
      } do
         assert.is_nil(seen[path])
         seen[path] = true
      end
      assert.is_true(seen[name(bytes, { a = 1 }, "windows")])
   end)
end)

--- Rows for more bytes than a file needs to be kept.
local function many_rows(seed)
   local list, filler = {}, ("Ben has a kite. "):rep(16)
   for i = 1, 1100 do
      list[i] = core.json.encode({
         premise = filler .. seed + i, hypothesis = "h", label = i % 3 == 0 and "entailment"
            or "not_entailment",
      })
   end
   return table.concat(list, "\n") .. "\n"
end

--- Calls body(load, dir): load(options) loads RTE rows with dir/cache as the cache.
local function with_data(body)
   files.in_directory(function(dir)
      local path = dir .. "/rows.jsonl"
      core.sys.write_file(path, many_rows(0))
      body(function(options)
         local o = {
            eval_file = path, eval_only = true, tokenizer = task_files.tokenizer(),
            tokenizer_key = "tiny", cache = dir .. "/cache",
         }
         for key, value in pairs(options or {}) do o[key] = value or nil end
         return task.rte():load(o).eval
      end, dir, path)
   end)
end

local function kept(dir) return core.sys.list_dir(dir .. "/cache") end

--- What a kept file's split and a fresh one have in common.
local function same(a, b)
   assert.is_true(a.dataset:pack() == b.dataset:pack())
   assert.equal(#a.examples, #b.examples)
   assert.same(a.majority, b.majority)
   for _, key in ipairs { "unlabelled", "cut_sources", "layout", "path" } do
      assert.equal(a[key], b[key])
   end
   for _, i in ipairs { 1, 700, 1100 } do
      for _, key in ipairs { "target", "source" } do
         assert.equal(a.examples[i][key], b.examples[i][key])
      end
      assert.same(a.examples[i].row, b.examples[i].row)
   end
end

local OWN = [[
local function change(text) return text:%s() end
return require("ftpipe").task.define {
   kind = "text2text", name = "own", metric = "accuracy", max_source = 16, max_target = 4,
   answers = { { label = "entailment", target = "a" }, { label = "not_entailment", target = "b" } },
   layouts = { {
      name = "rows", train = "train.jsonl", eval = "val.jsonl", template = "{hypothesis} {premise}",
      clean = function(text) return change(text) end,
   } },
}
]]

--- A task of one's own whose source texts go through `clean`.
local function own_task(clean)
   return task.define {
      kind = "text2text", name = "own", metric = "accuracy", max_source = 16, max_target = 4,
      answers = {
         { label = "entailment", target = "a" }, { label = "not_entailment", target = "b" },
      },
      layouts = { {
         name = "rows", train = "train.jsonl", eval = "val.jsonl",
         template = "{hypothesis} {premise}", clean = clean,
      } },
   } {}
end

describe("the cache of tokenised data", function()
   if not core.source("ftpipe.task") then
      return pending("keeps nothing while modules come from a directory")
   end

   it("knows the script of a task of one's own by its text", function()
      files.in_directory(function(dir)
         local script, rows = dir .. "/own.lua", dir .. "/rows.jsonl"
         core.sys.write_file(rows, many_rows(0))
         local function load(method)
            core.sys.write_file(script, OWN:format(method))
            return task.load(script) {}:load({
               eval_file = rows, eval_only = true, tokenizer = task_files.tokenizer(),
               tokenizer_key = "tiny", cache = dir .. "/cache",
            }).eval.dataset:pack()
         end
         local lower = load("lower")
         assert.is_true(lower == load("lower"))
         assert.equal(1, #core.sys.list_dir(dir .. "/cache"))
         assert.is_false(lower == load("upper"))
      end)
   end)

   --- Calls body(load, dir): load(clean) has the ids of rows that went through a function.
   local function with_function(body)
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/rows.jsonl", many_rows(0))
         body(function(clean)
            return own_task(clean):load({
               eval_file = dir .. "/rows.jsonl", eval_only = true,
               tokenizer = task_files.tokenizer(), tokenizer_key = "tiny", cache = dir .. "/cache",
            }).eval.dataset:pack()
         end, dir)
      end)
   end

   it("knows what the functions of a task hold", function()
      with_function(function(load, dir)
         local function prefixed(prefix)
            local args = { prefix = prefix }
            args.itself = args
            local function add(text) return args.prefix .. text end
            local function clean(text) return text ~= "" and add(text) or clean end
            return clean
         end
         local one = load(prefixed("red "))
         assert.is_true(one == load(prefixed("red ")))
         assert.equal(1, #kept(dir))
         assert.is_false(one == load(prefixed("blue ")))
         assert.equal(2, #kept(dir))
         local ft, lower = require("ftpipe"), string.lower
         local function tidy(text) return lower(ft.task and text) end
         load(tidy)
         load(string.upper)
         assert.equal(4, #kept(dir)) -- what Lua and this program have is told by its name
      end)
   end)

   it("knows the globals that the functions of a task read, and those that they make", function()
      with_function(function(load, dir)
         local function marked(prefix)
            local globals = setmetatable({ prefix = prefix }, { __index = _G })
            return setfenv(loadstring([[
               function mark(text) return prefix .. text end
               return function(text)
                  return (text:gsub("^.*$", function(all) return nothing or mark(all) end))
               end]]), globals)()
         end
         local one = load(marked("red "))
         assert.is_true(one == load(marked("red ")))
         assert.equal(1, #kept(dir))
         assert.is_false(one == load(marked("blue ")))
         assert.equal(2, #kept(dir))
      end)
   end)

   it("keeps nothing of functions that hold what cannot be told", function()
      with_function(function(load, dir)
         for _, held in ipairs { io.stdout, setmetatable({}, { __index = string }),
            coroutine.create(print) }
         do
            load(function(text) return held and text end)
         end
         assert.is_nil(core.sys.exists(dir .. "/cache"))
      end)
   end)

   it("can keep what each task inside the program makes", function()
      local bytes = ("x"):rep(2 ^ 18)
      for _, name in ipairs(task.names()) do
         local definition = task.named(name)().definition
         assert.is_string(cache.path("dir", bytes, { definition = definition }, {}), name)
      end
   end)

   it("gives what was made, without making it", function()
      with_data(function(load, dir)
         local made = load()
         assert.equal(1, #kept(dir))
         local tokenizer = task_files.tokenizer()
         tokenizer:free() -- encoding would fail
         same(made, load { tokenizer = tokenizer })
         assert.equal(1, #kept(dir))
      end)
   end)

   it("makes anew what another file, tokenizer or length needs", function()
      with_data(function(load, dir, path)
         load()
         load { tokenizer_key = "another" }
         load { max_source = 16 }
         load { eos_id = 3 }
         core.sys.write_file(path, many_rows(1))
         load()
         assert.equal(5, #kept(dir))
         load { max_source = 16 }
         assert.equal(6, #kept(dir))
      end)
   end)

   it("makes anew what was cut short or changed", function()
      with_data(function(load, dir)
         local made = load()
         local path = dir .. "/cache/" .. kept(dir)[1]
         local whole = core.sys.read_file(path)
         local function with_byte(at)
            local byte = string.char((whole:byte(at) + 1) % 256)
            return whole:sub(1, at - 1) .. byte .. whole:sub(at + 1)
         end
         for _, bytes in ipairs { "", "ftset", whole:sub(1, 60), whole:sub(1, -2), whole .. "x",
            with_byte(2), with_byte(20), with_byte(75), with_byte(#whole - 999), with_byte(#whole) }
         do
            core.sys.write_file(path, bytes)
            same(made, load())
            assert.is_true(core.sys.read_file(path) == whole)
         end
      end)
   end)

   it("keeps nothing when not told where, nor small files", function()
      with_data(function(load, dir, path)
         load { cache = false }
         core.sys.write_file(path, '{"premise": "p", "hypothesis": "h", "label": "entailment"}\n')
         load()
         assert.is_nil(core.sys.exists(dir .. "/cache"))
      end)
   end)

   it("goes on where it cannot write", function()
      with_data(function(load, dir)
         core.sys.write_file(dir .. "/cache", "in the way")
         local stderr, said = io.stderr, ""
         -- luacheck: push ignore 122
         io.stderr = { write = function(_, text) said = said .. text end }
         local ok, split = pcall(load)
         io.stderr = stderr
         -- luacheck: pop
         assert.is_true(ok, tostring(split))
         assert.equal(1100, #split.examples)
         assert.matches("^ftpipe: tokenised data is not kept: [^\n]*/cache: [^\n]+\n$", said)
      end)
   end)

   it("names things by their whole content", function()
      local big = ("x"):rep(2 ^ 18)
      local function path(bytes, parts) return cache.path("/c", bytes, parts, { "ftpipe.task" }) end
      local seen = {}
      for _, parts in ipairs { { a = 1 }, { a = "1" }, { a = { 1 } }, { a = { 2 } }, { b = 1 },
         { a = function() return 1 end }, { a = function() return 2 end } } do
         local name = path(big, parts)
         assert.is_nil(seen[name])
         seen[name] = true
      end
      assert.equal(path(big, { a = 1, b = 2 }), path(big, { b = 2, a = 1 }))
      assert.is_nil(path("small", {}))
      assert.not_equal(path(big, {}), path(big:sub(1, -2) .. "y", {}))
   end)
end)

describe("a packed dataset", function()
   local function dataset(id)
      local d = core.data.dataset { { "source", "segments" }, "start" }
      d:add { source = { 1, id }, segments = { 0, 1 }, start = { -100 } }
      d:add { source = { 5 }, segments = { 0 }, start = { 2 } }
      return d
   end

   it("is the same again", function()
      for _, id in ipairs { 0, 65435, 65436, 2 ^ 31 - 1 } do
         local bytes = dataset(id):pack()
         local again = core.data.unpack(bytes)
         assert.is_true(again:pack() == bytes)
         assert.same({ 1, id }, again:get(1, "source"))
         assert.same({ -100 }, again:get(1, "start"))
         assert.same({ { "source", "segments" }, { "start" } }, again:groups())
         assert.equal(2, again:longest("source"))
      end
   end)

   it("is refused when it is not whole", function()
      local bytes = dataset(70000):pack()
      for n = 0, #bytes - 1 do
         assert.has_error(function() core.data.unpack(bytes:sub(1, n)) end)
      end
      assert.has_error(function() core.data.unpack(bytes .. "x") end)
   end)
end)

describe("a digest", function()
   it("is that of FIPS 180-4", function()
      local cases = {
         [""] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
         abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
         [("a"):rep(1000000)] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
      }
      for text, digest in pairs(cases) do assert.equal(digest, core.sys.sha256(text)) end
   end)
end)
