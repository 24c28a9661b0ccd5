--- Checkpoints in Hugging Face layout: config.json, weights, tokenizer files.
--
-- Reading goes tensor by tensor, straight into memory that is there already. Saving writes a
-- directory beside its target and exchanges the two, so that there is a whole checkpoint at any
-- moment.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local families = require("ftpipe.model.families")
local forms = require("ftpipe.model.forms")
local peft = require("ftpipe.model.peft")
local replace = require("ftpipe.model.replace")
local shards = require("ftpipe.model.shards")
local small_file = require("ftpipe.base.small_file")
local suggest = require("ftpipe.base.suggest")
local tokenizers = require("ftpipe.text.tokenizer")

local M = {}
local Checkpoint = {}
Checkpoint.__index = Checkpoint

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

-- What a fine-tuned model takes over from its source, byte for byte.
local CARRIED = {
   "generation_config.json", "spiece.model", "tokenizer.json", "tokenizer_config.json",
   "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt", "vocab.txt",
}

local WEIGHTS = core.io.weight_files

local CALLED = { f32 = "float32", bf16 = "bfloat16" } -- in config.json

local MOST_BYTES = 2 ^ 28 -- of a file that is not weights; the largest vocabularies have 2^25

-- ---------------------------------------------------------------------------------------------
-- Where the files are: a directory, or inside the program.

local function directory_files(path)
   local kind = core.sys.exists(path)
   if not kind then fail("not found", "%s: no such directory", path) end
   if kind ~= "directory" then
      fail("invalid argument", "%s: not a directory, expected one in Hugging Face layout", path)
   end
   return {
      path = path, weights = path,
      has = function(name) return core.sys.exists(path .. "/" .. name) == "file" end,
      read = function(name) return small_file(path .. "/" .. name, MOST_BYTES) end,
      archive = function() return core.io.archive(path) end,
   }
end

local function embedded_files(prefix)
   local there, models = {}, {}
   for _, name in ipairs(core.assets()) do
      there[name] = true
      local model = name:match("^(.+)/config%.json$")
      models[#models + 1] = model and "embedded:" .. model
   end
   if not there[prefix .. "/config.json"] then
      fail("not found", "there is no model embedded:%s (there are: %s)", prefix,
         table.concat(models, ", "))
   end
   local function read(name) return core.asset(prefix .. "/" .. name) end
   return {
      path = "embedded:" .. prefix,
      has = function(name) return there[prefix .. "/" .. name] or false end,
      read = read,
      archive = function()
         return core.io.archive_bytes(read(WEIGHTS[1]), "embedded:" .. prefix .. "/" .. WEIGHTS[1])
      end,
   }
end

--- Opens a checkpoint. Weights may be absent; then `load` says so.
-- @tparam string|table source a directory, or { asset = name } for one inside the program
-- @treturn checkpoint with `path`, `config` (config.json as a table, every key)
-- @raise not found, malformed data
-- @usage local ckpt = checkpoint.open("t5-small")
function M.open(source)
   local embedded = type(source) == "table"
   local files = embedded and embedded_files(source.asset) or directory_files(source)
   if not files.has("config.json") then
      fail("not found", "%s: holds no config.json%s", files.path,
         files.has("hf/config.json") and ("; it is a run, whose model is %s/hf"):format(files.path)
         or "")
   end
   local text = files.read("config.json")
   local config = core.json.decode(text, files.path .. "/config.json")
   if type(config) ~= "table" or getmetatable(config) == core.json.array_meta then
      fail("malformed data", "%s/config.json: expected a JSON object", files.path)
   end
   local ckpt = setmetatable({
      path = files.path, files = files, config = config, config_text = text,
   }, Checkpoint)
   for _, name in ipairs(WEIGHTS) do
      if not ckpt.archive and files.has(name) then ckpt.archive = files.archive() end
   end
   return ckpt
end

--- What the tensor of a name is: dtype, dims; nil when there is none.
function Checkpoint:spec(name)
   return self.archive and self.archive:spec(name)
end

--- The names of all tensors, sorted.
function Checkpoint:names()
   return self.archive and self.archive:names() or {}
end

--- The names of its tensors through its family's forms (ftpipe.model.forms).
function Checkpoint:seen()
   if not self.named then
      local family = families[self.config.model_type]
      self.named = forms.names(family and require(family).forms or {}, self:names())
   end
   return self.named
end

--- The name in the file of a parameter; nil when it is not there under a name of its own.
function Checkpoint:name_of(parameter)
   return self:seen():own(parameter)
end

--- Whether two tensors hold the same shape and values; neither is loaded whole.
function Checkpoint:tensors_equal(name, other)
   return self.archive:equal(name, other)
end

--- Reads a tensor into another one of the same shape, converting to its dtype.
function Checkpoint:read(name, tensor)
   return self.archive:read(name, tensor)
end

--- The bytes of a file of the checkpoint, nil when it is not there.
function Checkpoint:file(name)
   return self.files.has(name) and self.files.read(name) or nil
end

--- A digest of every file that the tokenizer may be made of.
function Checkpoint:tokenizer_key()
   local parts = {}
   for _, name in ipairs(CARRIED) do
      local bytes = self:file(name)
      parts[#parts + 1] = bytes and name .. " " .. core.sys.sha256(bytes) or nil
   end
   return core.sys.sha256(table.concat(parts, "\n"))
end

--- The tokenizer that comes with the model (text/tokenizer.lua).
function Checkpoint:tokenizer()
   return tokenizers.open(self)
end

--- Closes its files; what was loaded stays.
function Checkpoint:close()
   if self.archive then self.archive:close() end
   self.archive = nil
end

function Checkpoint:__tostring()
   return ("checkpoint %s: %s"):format(self.path, counted(#self:names(), "tensor"))
end

-- ---------------------------------------------------------------------------------------------
-- Loading.

local function dims_text(dims)
   return "(" .. table.concat(dims, ", ") .. ")"
end

local function same_dims(a, b)
   return dims_text(a) == dims_text(b)
end

--- The names in the file that a parameter may be read from: none that is another one's own.
local function candidates_of(ckpt, found, parameter)
   local list = {}
   for _, name in ipairs(ckpt:seen():candidates(parameter)) do
      local owner = found.owners[name]
      if owner == nil or owner == parameter then list[#list + 1] = name end
   end
   return list
end

--- Notes a parameter's source in the file and what repeats it, or that it is missing.
local function match_one(ckpt, found, param)
   local candidates = candidates_of(ckpt, found, param.name)
   local source = candidates[1]
   if not source then
      found.missing[#found.missing + 1] = param.name
      return
   end
   found.sources[param.name] = source
   found.known[source] = true
   for i = 2, #candidates do
      local equal = ckpt:tensors_equal(candidates[i], source)
      found[equal and "known" or "differing"][candidates[i]] = equal or source
   end
   local dims = ckpt:spec(source).dims
   if not same_dims(dims, param.dims) then
      found.shapes[#found.shapes + 1] = ("%s is %s, expected %s"):format(source, dims_text(dims),
         dims_text(param.dims))
   end
end

--- Takes out of the missing parameters those that may be absent, if all of their kind are.
local function excuse_optional(ckpt, found)
   local names, there, missing = ckpt:seen(), {}, {}
   for parameter in pairs(found.sources) do
      local pattern = names:optional(parameter)
      if pattern then there[pattern] = true end
   end
   for _, name in ipairs(found.missing) do
      local pattern = names:optional(name)
      local list = pattern and not there[pattern] and found.fresh or missing
      list[#list + 1] = name
   end
   found.missing = missing
end

--- Compares what is wanted with what is there.
-- @treturn table sources: name in the file by parameter; owners: parameter by the name in the file
--   that is its own; differing: what it should repeat, by the name of what repeats nothing; fresh:
--   parameters that the file need not hold and does not; missing, shapes, unexpected: lists of
--   texts
local function match(ckpt, params)
   local found = {
      sources = {}, owners = {}, known = {}, differing = {}, fresh = {}, missing = {}, shapes = {},
      unexpected = {},
   }
   for _, param in ipairs(params) do
      local own = ckpt:name_of(param.name)
      if own then found.owners[own] = param.name end
   end
   for _, param in ipairs(params) do match_one(ckpt, found, param) end
   excuse_optional(ckpt, found)
   for _, name in ipairs(ckpt:names()) do
      if not found.known[name] and not ckpt:seen():ignored(name) then
         found.unexpected[#found.unexpected + 1] = name
      end
   end
   return found
end

local MOST_LISTED = 4

--- "5 missing: a, b, c, d and 1 more"; nil for an empty list. `say` makes a text of an item.
local function list_some(what, list, say)
   if #list == 0 then return nil end
   local shown = {}
   for i = 1, math.min(#list, MOST_LISTED) do shown[i] = say and say(list[i]) or list[i] end
   local rest = #list > MOST_LISTED and (" and %d more"):format(#list - MOST_LISTED) or ""
   return ("%d %s: %s%s"):format(#list, what, table.concat(shown, ", "), rest)
end

local function check_faults(ckpt, faults)
   local parts = {}
   parts[#parts + 1] = list_some("missing", faults.missing, function(name)
      local near = suggest.nearest(name, faults.unexpected) or ckpt.archive:nearest(name)
      return name .. (near and (" (nearest in the file: %s)"):format(near) or "")
   end)
   parts[#parts + 1] = list_some("of another shape", faults.shapes)
   parts[#parts + 1] = list_some("unexpected", faults.unexpected, function(name)
      local source = faults.differing[name]
      if not source then return name end
      return ("%s (it is to repeat %s and has other values)"):format(name, source)
   end)
   if #parts == 0 then return end
   local only_shapes = #faults.missing == 0 and #faults.unexpected == 0
   fail(only_shapes and "shape mismatch" or "malformed data",
      "%s: its tensors are not those that config.json describes: %s", ckpt.path,
      table.concat(parts, "; "))
end

--- Raises when there are no weights to load.
-- @tparam checkpoint ckpt
-- @raise not found
function M.check_weights(ckpt)
   if ckpt.archive then return end
   fail("not found", "%s: holds no weights, expected %s", ckpt.path, table.concat(WEIGHTS, " or "))
end

--- Raises what `load` would find wrong, without reading a tensor.
-- @tparam checkpoint ckpt
-- @tparam table params as of `load`
-- @treturn table what `match` gives
-- @raise not found, malformed data, shape mismatch
function M.check(ckpt, params)
   M.check_weights(ckpt)
   local found = match(ckpt, params)
   check_faults(ckpt, found)
   return found
end

--- Reads every parameter into memory that is there.
--
-- Everything is checked before the first byte is read: each parameter is in the file with its
-- shape, and the file holds nothing else but repetitions of tied tensors and what its family's
-- forms ignore.
-- @tparam checkpoint ckpt
-- @tparam table params a list of { name =, dims = }, as graph:params() gives it
-- @tparam function tensor_of (i, param): the contiguous tensor of parameter i
-- @tparam[opt] function read (path, list): reads a list of { name = in the file, number = i }
--   itself where there is a file, and not bytes inside the program
-- @treturn table names of the parameters that the family's forms let a file lack and that this one
--   lacks: their tensors are as they were
-- @raise not found, malformed data, shape mismatch, input or output failed
function M.load(ckpt, params, tensor_of, read)
   local found, list = M.check(ckpt, params), {}
   for i, param in ipairs(params) do
      local source = found.sources[param.name]
      if source then list[#list + 1] = { name = source, number = i } end
   end
   if read and ckpt.files.weights then
      read(ckpt.files.weights, list)
   else
      for _, row in ipairs(list) do
         ckpt:read(row.name, tensor_of(row.number, params[row.number]))
      end
   end
   return found.fresh
end

-- ---------------------------------------------------------------------------------------------
-- Saving.

--- Text of config.json: that of the source with what has changed, so that keys which mean nothing
-- here, and the way numbers are written, stay.
local function config_text(o)
   local config, changes = copy(o.config), {}
   local dtype = CALLED[o.dtype or "f32"]
   for _, key in ipairs { "dtype", "torch_dtype" } do
      if config[key] ~= nil then config[key] = dtype end
   end
   if o.dtype and config.dtype == nil then config.torch_dtype = dtype end
   if not o.source then return core.json.encode(config, { indent = 2 }) .. "\n" end
   for key, value in pairs(config) do
      local old = o.source.config[key]
      if old == nil or core.json.encode { old } ~= core.json.encode { value } then
         changes[key] = value
      end
   end
   if next(changes) == nil then return o.source.config_text end
   return core.json.merge(o.source.config_text, changes, { indent = 2 }) .. "\n"
end

--- Rows of shards.write, by name.
local function rows_of(o)
   local rows = {}
   for name, tensor in pairs(o.tensors) do
      local dtype = o.dtype or tensor:dtype()
      rows[#rows + 1] = {
         name = name, bytes = tensor:count() * (dtype == "bf16" and 2 or 4),
         make = function() return dtype == tensor:dtype() and tensor or tensor:to(dtype) end,
      }
   end
   table.sort(rows, function(a, b) return a.name < b.name end)
   return rows
end

local function write_model(dir, o)
   core.sys.write_file(dir .. "/config.json", config_text(o))
   return shards.write(dir, rows_of(o), o.shard_bytes, o.write_tensors)
end

local function write_files(dir, o)
   core.sys.mkdir(dir)
   for _, name in ipairs(o.source and CARRIED or {}) do
      local bytes = o.source:file(name)
      if bytes then core.sys.write_file(dir .. "/" .. name, bytes) end
   end
   return (o.write or write_model)(dir, o)
end

-- Files that belong to one model alone, besides pieces of its weights.
local OF_ONE_MODEL = { ["config.json"] = true }
for _, name in ipairs(peft.files) do OF_ONE_MODEL[name] = true end

--- Whether a file of a directory that is replaced does not belong to its old model only. Of weights
-- "model.safetensors" neither it nor "model-00001-of-00003.safetensors" does.
local function stays(name)
   for _, file in ipairs(WEIGHTS) do
      local stem, kind = file:match("^([^.]+)(%.[^.]+)")
      if name:sub(1, #stem) == stem and name:find(kind, #stem + 1, true) then return false end
   end
   return not OF_ONE_MODEL[name]
end

--- Whether `save` writes a file of this name, with some tokenizer and some weights.
function M.writes(name)
   for _, carried in ipairs(CARRIED) do
      if name == carried then return true end
   end
   return not stays(name)
end

--- Saves a model as a directory that `open` and Hugging Face transformers read.
--
-- The directory appears whole or not at all; one that is there is replaced, and files in it that
-- are not part of a checkpoint stay. Tensors are written as they are, each once: tied ones have one
-- name.
-- @tparam string dir
-- @tparam table o config (a table), tensors (by name, contiguous), source (the checkpoint that the
--    model came from: its tokenizer files, generation_config.json and unknown keys are taken over);
--    write: function (dir, o) that writes something in place of config.json and weights
--    dtype: "f32" or "bf16" of the weights, which are as they are if absent; shard_bytes: of a file
--    of weights, at most; write_tensors: in place of core.io.write, for tensors that have count and
--    dtype alone
-- @treturn int bytes of the weights; nil where o.write wrote
-- @raise input or output failed
-- @usage checkpoint.save("out/hf", { config = ckpt.config, tensors = params, source = ckpt })
function M.save(dir, o)
   local bytes
   replace.directory(dir, function(beside) bytes = write_files(beside, o) end, stays)
   return bytes
end

--- Makes `dir` the same checkpoint as `from`, a directory on the same file system: its files get a
-- second name there, and no second copy.
-- @treturn boolean false when the file system cannot do that; dir is then as it was
function M.link(dir, from)
   local unable = {}
   local ok, problem = pcall(replace.directory, dir, function(beside)
      core.sys.mkdir(beside)
      for _, name in ipairs(core.sys.list_dir(from)) do
         if not core.io.hard_link(from .. "/" .. name, beside .. "/" .. name) then
            error(unable, 0)
         end
      end
      core.io.sync(beside)
   end, stays)
   if not ok and problem ~= unable then error(problem, 0) end
   return ok
end

return M
