--- Every reader takes time in proportion to its input, or refuses what is past a stated limit.
--
-- Eight times the input may take up to 24 times the CPU time: a quadratic reader takes 64 times.

local checkpoint = require("ftpipe.model.checkpoint")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local graphs = require("ftpipe.graph")
local records = require("ftpipe.text.records")
local squad = require("ftpipe.data.squad.reader")
local suggest = require("ftpipe.base.suggest")

local TIMES, MOST = 8, 24

--- The text of item(1) .. item(n), with what is around them.
local function text_of(before, item, after)
   return function(n)
      local parts = { before }
      for i = 1, n do parts[i + 1] = item(i, n) end
      parts[n + 2] = after or ""
      return table.concat(parts)
   end
end

local function little(number, bytes)
   local text = {}
   for i = 1, bytes do
      text[i] = string.char(number % 256)
      number = math.floor(number / 256)
   end
   return table.concat(text)
end

--- A safetensors file of n tensors of a byte each.
local function safetensors(n)
   local header = text_of("{", function(i)
      return ('%s"t%d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}'):format(
         i > 1 and "," or "", i, i - 1, i)
   end, "}")(n)
   return little(#header, 8) .. header .. ("\0"):rep(n)
end

--- A file of PyTorch with n tensors, each in an entry of its own.
local function torch(n)
   local files_of, directory, at = {}, {}, 0
   local function add(name, bytes)
      local both = little(0, 4) .. little(#bytes, 4) .. little(#bytes, 4) .. little(#name, 2)
         .. little(0, 2)
      local file = "PK\3\4\20\0\0\0\0\0" .. little(0, 4) .. both .. name .. bytes
      directory[#directory + 1] = "PK\1\2\0\0\20\0\0\0\0\0" .. little(0, 4) .. both
         .. little(0, 10) .. little(at, 4) .. name
      files_of[#files_of + 1], at = file, at + #file
   end
   local function string_of(text) return "X" .. little(#text, 4) .. text end
   local program = { "\128\2}(" }
   for i = 1, n do
      program[#program + 1] = string_of("t" .. i) .. "ctorch._utils\n_rebuild_tensor_v2\n(("
         .. string_of("storage") .. "ctorch\nFloatStorage\n" .. string_of(tostring(i))
         .. string_of("cpu") .. "K\1tQK\0K\1\133K\1\133\137ccollections\nOrderedDict\n)RtR"
   end
   add("a/data.pkl", table.concat(program) .. "u.")
   for i = 1, n do add("a/data/" .. i, "\0\0\0\0") end
   local list = table.concat(directory)
   return table.concat(files_of) .. list .. "PK\5\6" .. little(0, 4) .. little(n % 65536, 2)
      .. little(n % 65536, 2) .. little(#list, 4) .. little(at, 4) .. little(0, 2)
end

local function open_archive(bytes)
   local archive = core.io.archive_bytes(bytes, "model")
   archive:close()
end

--- Loads n parameters that are not in a file of n others.
local function load_missing(n)
   files.in_directory(function(dir)
      core.sys.write_file(dir .. "/config.json", '{"model_type": "bert"}')
      core.sys.write_file(dir .. "/model.safetensors", safetensors(n))
      local ckpt, params = checkpoint.open(dir), {}
      for i = 1, n do params[i] = { name = "layer." .. i .. ".weight", dims = { 1 } } end
      local problem = files.failure(checkpoint.load, ckpt, params, function() end)
      assert.matches("^.*: " .. n .. " missing: ", problem.message)
      ckpt:close()
   end)
end

local function chain(edge)
   return function(i, n) return i < n and edge(i, i + 1) or "" end
end

--- A cycle of n nodes is refused, and named by a few of them.
local function refuse_cycle(text)
   local problem = files.failure(graphs.read, text, "cycle.txt")
   assert.matches("the graph has a cycle: .* %-> %.%.%. %->", problem.message)
end

local function encode_long(options)
   return function(text)
      local tokenizer = core.data[options.kind](options.files(#text))
      tokenizer:encode(text)
   end
end

local READERS = {
   { "safetensors", 4000, safetensors, open_archive },
   { "a file of PyTorch", 1000, torch, open_archive },
   { "missing tensors", 1000, function(n) return n end, load_missing },
   { "rows of JSON", 2000, text_of("", function(i) return ('{"a": %d, "b": "x"}\n'):format(i) end),
      function(text) records.jsonl("a.jsonl", text) end },
   { "tab-separated values", 2000, text_of("a\tb\n", function(i) return i .. "\tx\n" end),
      function(text) records.tsv("a.tsv", text) end },
   { "columns", 2000, text_of("", function(i, n) return "c" .. i .. (i < n and "\t" or "\n") end),
      function(text) records.tsv("a.tsv", text .. text) end },
   { "questions of one long context", 500, function(n)
      local context = ("\195\169 "):rep(4 * n)
      return core.json.encode { data = { { paragraphs = { { context = context,
         qas = (function()
            local list = {}
            for i = 1, n do
               list[i] = { id = tostring(i), question = "q",
                  answers = { { text = "\195\169", answer_start = 8 * n - 2 } } }
            end
            return list
         end)() } } } } }
   end, function(text) squad.parse(text, "a.json") end },
   { "a graph of PipeDream", 1000, function(n)
      return text_of("", function(i) return ("node%d -- L -- forward_compute_time=1, "
         .. "backward_compute_time=1, activation_size=1, parameter_size=1\n"):format(i) end)(n)
         .. text_of("", chain(function(a, b)
            return ("\tnode%d -- node%d\n"):format(a, b)
         end))(n)
   end, function(text) graphs.read(text, "a.txt") end },
   { "a cycle", 1000, function(n)
      return text_of("", function(i) return ("node%d -- L -- forward_compute_time=1, "
         .. "backward_compute_time=1, activation_size=1, parameter_size=1\n"):format(i) end)(n)
         .. text_of("", function(i)
            return ("\tnode%d -- node%d\n"):format(i, i % n + 1)
         end)(n)
   end, refuse_cycle },
   { "GraphML", 1000, function(n)
      return text_of('<graphml><graph edgedefault="directed">', function(i)
         return ('<node id="n%d"/>'):format(i)
      end)(n) .. text_of("", chain(function(a, b)
         return ('<edge source="n%d" target="n%d"/>'):format(a, b)
      end), "</graph></graphml>")(n)
   end, function(text) graphs.read(text, "a.graphml") end },
   { "a vocabulary", 4000, text_of("[UNK]\n", function(i) return "w" .. i .. "\n" end),
      function(text) core.data.wordpiece { vocab = text } end },
   { "text for WordPiece", 4000, text_of("", function(i) return "a" .. i % 10 .. " " end),
      encode_long { kind = "wordpiece", files = function()
         return { vocab = "[UNK]\na\n##0\n##1\n" }
      end } },
   { "candidates of a hint", 2000, function(n)
      local names = {}
      for i = 1, n do names[i] = "name number " .. i end
      return names
   end, function(names) suggest.nearest("nome numbre", names) end },
}

--- CPU seconds of a call, or `best` where that is less.
local function seconds(read, input, best)
   collectgarbage()
   local before = os.clock()
   read(input)
   return math.min(best, os.clock() - before)
end

describe("in time proportional to their size are read", function()
   for _, row in ipairs(READERS) do
      local name, n, make, read = row[1], row[2], row[3], row[4]
      it(name, function()
         local short, long, few, many = make(n), make(TIMES * n), math.huge, math.huge
         for round = 1, 12 do -- others on the machine make calls longer, of what is linear not all
            few, many = seconds(read, short, few), seconds(read, long, many)
            if round >= 3 and many < MOST * math.max(few, 1e-3) then return end
         end
         error(("%d: %.1f ms, %d: %.1f ms"):format(n, few * 1e3, TIMES * n, many * 1e3), 0)
      end)
   end
end)

describe("limits", function()
   it("of tensors in a file and in an index", function()
      local parts = { "{" }
      for i = 0, 2 ^ 18 do parts[#parts + 1] = (i > 0 and "," or "") .. '"' .. i .. '":0' end
      parts[#parts + 1] = "}"
      local names = table.concat(parts)
      local problem = files.failure(core.io.archive_bytes, little(#names, 8) .. names, "big")
      assert.equal("big: names 262145 tensors, over the limit of 262144", problem.message)
      files.in_directory(function(dir)
         local path = dir .. "/model.safetensors.index.json"
         core.sys.write_file(path, '{"weight_map":' .. names .. "}")
         problem = files.failure(core.io.archive, dir)
         assert.equal(path .. ": names 262145 tensors, over the limit of 262144", problem.message)
      end)
   end)

   it("of shards of an index", function()
      files.in_directory(function(dir)
         local map = {}
         for i = 1, 513 do
            local name = ("s%03d"):format(i)
            map[name] = name
            core.io.write(dir .. "/" .. name, { { name = name, tensor = core.tensor.zeros { 1 } } })
         end
         local path = dir .. "/model.safetensors.index.json"
         core.sys.write_file(path, core.json.encode { weight_map = map })
         assert.equal(path .. ": names more than 512 shards",
            files.failure(core.io.archive, dir).message)
      end)
   end)

   it("of values in a JSON text", function()
      local text = "[" .. ("0,"):rep(2 ^ 23) .. "0]"
      assert.equal("a.json: holds 8388609 JSON values, over the limit of 8388608",
         files.failure(core.json.decode, text, "a.json").message)
      assert.equal(2 ^ 23 + 10, #core.json.decode('["' .. (","):rep(2 ^ 23 + 10) .. '"]')[1])
   end)
end)
