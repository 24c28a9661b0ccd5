--- Models: a family's graphs, a configuration, and weights if there are any.

local bit = require("bit")

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local families = require("ftpipe.model.families")
local guard = require("ftpipe.base.guard")
local hub = require("ftpipe.model.hub")
local keys = require("ftpipe.base.keys")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")

local M = {}
local Model = {}
Model.__index = Model
Model.__name = "model"

local function fail(status, exit, format, ...)
   core.fail(status, format:format(...), exit)
end

local function family_of(raw, where)
   local name = families[raw.model_type]
   if not name then
      fail("unsupported", 6, "%s: model_type is '%s', expected one of: %s", where,
         tostring(raw.model_type), table.concat(keys(families), ", "))
   end
   return require(name)
end

--- A built-in configuration of that name, and its family.
local function find_builtin(name)
   for _, module in pairs(families) do
      local family = require(module)
      local raw = family.builtin(name)
      if raw then return raw, family end
   end
   return nil
end

--- The names of configurations inside the program, sorted.
function M.builtin_names()
   local names = {}
   for _, module in pairs(families) do
      for _, name in ipairs(require(module).builtin_names()) do names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

--- A model with files: a directory, or one inside the program.
local function open_files(name, asset, random)
   local ckpt = checkpoint.open(asset and { asset = asset } or name)
   local family = family_of(ckpt.config, name)
   return {
      name = name,
      raw = ckpt.config,
      config = family.config(ckpt.config, family.untied and family.untied(ckpt)),
      family = family,
      files = ckpt,
      checkpoint = not random and ckpt or nil,
      embedded = asset ~= nil,
      notes = not random and family.notes and family.notes(ckpt) or {},
   }
end

--- Opens a model.
-- @param o model: a directory in Hugging Face layout, the name of one in the cache of Hugging Face
--   ("google/flan-t5-base"; nothing is downloaded), a built-in configuration, or "embedded:NAME"
--   for one inside the program; init = "random": initial values instead of weights; or the first
--   alone, as a text
-- @treturn model .raw (config.json), .config, .family, .files, .checkpoint (nil: initial values),
--   .notes (lines: what a user should know of the checkpoint)
function M.open(o)
   if type(o) == "string" then o = { model = o } end
   if type(o) ~= "table" or type(o.model) ~= "string" then
      opts.fail("ft.model", "expected a name or a directory, as \"t5-small\" or { model = DIR }")
   end
   local name, random = o.model, o.init == "random"
   local asset = name:match("^embedded:(.+)$")
   if asset or core.sys.exists(name) then
      local model = open_files(name, asset, random)
      model.flagged = o.flagged
      return setmetatable(model, Model)
   end
   local cached = not random and hub.find(name)
   if cached then
      local model = open_files(cached, nil, false)
      model.flagged = o.flagged
      return setmetatable(model, Model)
   end
   local raw, family = find_builtin(name)
   if not raw then
      fail("not found", 6, "%s is neither a directory, nor in %s, nor a built-in configuration "
         .. "(%s)", named.value(o, "model", name), hub.place(name),
         table.concat(M.builtin_names(), ", "))
   end
   return setmetatable({
      name = name, raw = raw, config = family.config(raw), family = family, weightless = not random,
      notes = {}, flagged = o.flagged,
   }, Model)
end

--- The model's tokenizer, opened once.
function Model:tokenizer()
   if not self.files then
      fail("invalid argument", 2, "%s is a built-in configuration and has no tokenizer; "
         .. "give a directory", named.value(self, "model", self.name))
   end
   self.opened = self.opened or self.files:tokenizer()
   return self.opened
end

--- Raises when there is nothing to train: a built-in configuration without --init random.
function Model:check_trainable()
   if self.weightless then
      fail("not found", 6, "%s is a built-in configuration without weights, and there are "
         .. "none in ./%s or %s: give a directory or %s, or plan only, on devices like "
         .. "sim:8x11GB%s", named.value(self, "model", self.name), self.name,
         hub.place(self.name), named.value(self, "init", "random"),
         self.flagged and " or with --dry-run" or "")
   end
end

--- A number below 2^32 that depends on every byte of a name (FNV-1a).
local function name_stream(name)
   local hash = 2166136261
   for i = 1, #name do
      hash = bit.bxor(hash, name:byte(i)) % 2 ^ 32
      -- times 16777619 = 2^24 + 403, modulo 2^32, in parts that a double holds exactly
      hash = (hash % 256 * 2 ^ 24 + hash * 403) % 2 ^ 32
   end
   return hash
end

--- Fills parameters with initial values: normal numbers of the family's scale, zeros where that is
-- 0 (biases), ones where there is none (norms). Values depend on the seed and the name alone.
-- @tparam table params tensors by name
-- @tparam int seed
-- @local
function Model:initialize(params, seed)
   for name, tensor in pairs(params) do
      local scale = self.family.init_scale(self.config, name)
      if scale and scale > 0 then
         tensor:fill_normal(seed, scale, name_stream(name))
      else
         tensor:fill(scale or 1)
      end
   end
end

--- Fills parameters: from the checkpoint if there is one, with initial values where it has none.
-- @tparam table list as graph:params() gives it
-- @tparam function tensor_of (i): the contiguous tensor of parameter i
-- @tparam int seed of initial values
-- @treturn table names of the parameters that a checkpoint lacked and may lack (a new head)
-- @local
function Model:fill(list, tensor_of, seed)
   local tensors = {}
   for i, param in ipairs(list) do tensors[param.name] = tensor_of(i) end
   if not self.checkpoint then
      self:initialize(tensors, seed)
      return {}
   end
   local fresh, initial = checkpoint.load(self.checkpoint, list, tensor_of), {}
   for _, name in ipairs(fresh) do initial[name] = tensors[name] end
   self:initialize(initial, seed)
   return fresh
end

--- config.json of the model as it is saved: a family that puts a head of its own on any checkpoint
-- names it.
-- @local
function Model:saved_config()
   local raw = copy(self.raw)
   if self.family.architecture then raw.architectures = { self.family.architecture } end
   return raw
end

function Model:__tostring()
   local words = {
      self.embedded and ("the tiny model inside the program (%s for a real one)"):format(
         named.value(self, "model", "DIR"))
         or ("model %s (%s)"):format(self.name, self.raw.model_type),
   }
   for _, note in ipairs(self.notes) do words[#words + 1] = note end
   return table.concat(words, ": ")
end

guard("model", Model, { tokenizer = "", check_trainable = "" })

return setmetatable(M, { __call = function(_, o) return M.open(o) end })
