--- Models: a family's graphs, a configuration, and weights if there are any.

local bit = require("bit")

local adapters = require("ftpipe.model.adapters")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local checkpoint = require("ftpipe.model.checkpoint")
local families = require("ftpipe.model.families")
local guard = require("ftpipe.base.guard")
local html = require("ftpipe.page.html")
local hub = require("ftpipe.model.hub")
local keys = require("ftpipe.base.keys")
local named = require("ftpipe.base.named")
local opts = require("ftpipe.base.opts")
local peft = require("ftpipe.model.peft")
local shown = require("ftpipe.base.shown")
local suggest = require("ftpipe.base.suggest")
local tree = require("ftpipe.model.tree")
local usage = require("ftpipe.base.usage")

local M = {}
local Model = {}
Model.__index = Model
Model.__name = "model"

local function fail(status, exit, format, ...)
   core.fail(status, format:format(...), exit)
end

local function family_of(raw, where)
   local name = families[raw.model_type]
   if raw.model_type == nil then
      fail("unsupported", 6, "%s: config.json has no model_type, as files of 2019 have none: add "
         .. "\"model_type\" with one of: %s", where, table.concat(keys(families), ", "))
   end
   if not name then
      fail("unsupported", 6, "%s: model_type is '%s', expected one of: %s", where,
         shown(raw.model_type), table.concat(keys(families), ", "))
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

--- What the family makes of config.json; faults in it begin with the directory.
local function config_of(family, ckpt)
   local ok, config = pcall(family.config, ckpt.config, family.untied and family.untied(ckpt))
   if ok then return config end
   if type(config) ~= "table" or config.status ~= "unsupported" then error(config, 0) end
   return core.fail(config.status, ("%s/%s"):format(ckpt.path, config.message), config.exit)
end

--- A model with files: a directory, or one inside the program.
local function open_files(name, asset, random)
   local ckpt = checkpoint.open(asset and { asset = asset } or name)
   local family = family_of(ckpt.config, name)
   return {
      name = name,
      raw = ckpt.config,
      config = config_of(family, ckpt),
      family = family,
      files = ckpt,
      checkpoint = not random and ckpt or nil,
      embedded = asset ~= nil,
      notes = not random and family.notes and family.notes(ckpt) or {},
   }
end

--- Whether a directory is one that `open` takes: a model, or adapters of one.
function M.is(dir) return core.sys.exists(dir .. "/config.json") == "file" or peft.is(dir) end

--- A model without the adapters that the options name.
local function open_base(o)
   local name, random = o.model, o.init == "random"
   local asset = name:match("^embedded:(.+)$")
   local path = (asset or core.sys.exists(name)) and name or not random and hub.find(name)
   if path then
      local model = open_files(path, asset, random)
      model.flagged = o.flagged
      return setmetatable(model, Model)
   end
   local raw, family = find_builtin(name)
   if not raw then
      local names = M.builtin_names()
      local hint = suggest.hint(name, names)
      fail("not found", 6, "%s is no file or directory, nor in %s, nor a built-in configuration%s",
         named.value(o, "model", name), hub.place(name),
         hint ~= "" and hint or (" (%s)"):format(table.concat(names, ", ")))
   end
   return setmetatable({
      name = name, raw = raw, config = family.config(raw), family = family, weightless = not random,
      notes = {}, flagged = o.flagged,
   }, Model)
end

--- The model that adapters say they are for, with them.
local function open_adapted(o, dir)
   local lora = peft.open(dir)
   local base = o.adapter and o.model or lora.base
   if base and core.sys.exists(base) == "directory" and peft.is(base) then
      fail("invalid argument", 2, "%s: holds adapters itself, expected the model that those of %s "
         .. "are for", base, dir)
   end
   local here = base and (core.sys.exists(base) or base:find("^embedded:") or hub.find(base))
   if not o.adapter and not here then
      fail("not found", 6, "%s: holds adapters of the model '%s', which is not here: give its "
         .. "directory as %s and this one as %s", dir, tostring(base), named.name(o, "model"),
         named.name(o, "adapter"))
   end
   local model = open_base(copy(o, { model = base }))
   if not model.checkpoint then
      usage("%s: adapters are for weights, %s has none", dir, named.value(o, "model", base))
   end
   lora.base = lora.base or base
   return peft.attach(model, lora)
end

-- Options of a model; flags of a recipe have these and others.
local RULES = {
   model = { type = "string", required = true, help = "a name or a directory, as t5-small" },
   adapter = { type = "string", help = "a directory of adapters for it" },
   init = { choices = { "weights", "random" }, default = "weights",
      help = "where weights come from" },
}

--- Opens a model.
-- @param o model: a directory in Hugging Face layout, or of adapters as peft saves them, the name
--   of one in the cache of Hugging Face ("google/flan-t5-base"; nothing is downloaded), a built-in
--   configuration, or "embedded:NAME" for one inside the program; adapter: a directory of adapters
--   for it; init = "random": initial values instead of weights; or the first alone, as a text
-- @treturn model .raw (config.json), .config, .family, .files, .checkpoint (nil: initial values),
--   .notes (lines: what a user should know of the checkpoint), .lora (its adapters; nil:
--   it has no adapters)
function M.open(o)
   if type(o) == "string" then o = { model = o } end
   if type(o) ~= "table" then
      opts.fail("ft.model", "expected a name or a directory, as \"t5-small\" or { model = DIR }")
   end
   if not named.are_flags(o) then o = opts.check("ft.model", RULES, o) end
   if not o.model and not o.adapter then
      usage.of(o, "nothing says which model, give {model=DIR}; of recipes some presets name one")
   end
   local dir = o.adapter or core.sys.exists(o.model) == "directory" and peft.is(o.model) and o.model
   local model = dir and open_adapted(o, dir) or open_base(o)
   model.asked = o.model
   return model
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

--- Raises when there is nothing to train: a built-in configuration that is not random, or a
-- directory without weights.
-- @tparam[opt=false] boolean resumed the weights come from a run's own checkpoint
function Model:check_trainable(resumed)
   if self.checkpoint and not resumed then checkpoint.check_weights(self.checkpoint) end
   if self.weightless then
      fail("not found", 6, "%s is a built-in configuration without weights, and there are "
         .. "none in ./%s or %s: give a directory%s, or plan only, on devices like sim:8x11GB%s",
         named.value(self, "model", self.name), self.name, hub.place(self.name),
         self.flagged and "" or ' or init = "random"', -- recipes need a tokenizer, too
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

--- How a parameter is drawn: normal numbers of the family's scale, zeros where that is 0 (biases),
-- ones where there is none (norms).
-- @treturn string law, as run:draw takes it
-- @treturn number scale
local function initial(model, name, dims)
   if adapters.is(name) then return adapters.initial(name, dims) end
   local scale = model.family.init_scale(model.config, name)
   if scale and scale > 0 then return "normal", scale end
   return "constant", scale or 1
end

local function fill_tensor(model, name, tensor, seed)
   local law, scale = initial(model, name, tensor:shape())
   tensor:draw(law, scale, seed, name_stream(name))
end

--- Fills parameters with initial values, which depend on the seed and the name alone.
-- @tparam table params tensors by name
-- @tparam int seed
-- @local
function Model:initialize(params, seed)
   for name, tensor in pairs(params) do fill_tensor(self, name, tensor, seed) end
end

--- Fills the parameters with these numbers of a list with initial values, see `fill`.
local function draw(model, list, numbers, into)
   for _, i in ipairs(numbers) do
      local param = list[i]
      if into.draw then
         local law, scale = initial(model, param.name, param.dims)
         into.draw(i, law, scale, into.seed, name_stream(param.name))
      else
         fill_tensor(model, param.name, into.tensor_of(i), into.seed)
      end
   end
end

--- Fills the parameters with these numbers of a model, which are none of adapters, see `fill`.
-- @treturn table numbers of those that its checkpoint lacked
local function fill_base(model, list, numbers, into)
   if not model.checkpoint then
      draw(model, list, numbers, into)
      return {}
   end
   local params, number, lacked = {}, {}, {}
   for k, i in ipairs(numbers) do params[k], number[list[i].name] = list[i], i end
   local function renumbered(path, rows)
      for k, row in ipairs(rows) do rows[k] = { name = row.name, number = numbers[row.number] } end
      into.read(path, rows)
   end
   local fresh = checkpoint.load(model.checkpoint, params,
      function(k) return into.tensor_of(numbers[k]) end, into.read and renumbered)
   for k, name in ipairs(fresh) do lacked[k] = number[name] end
   draw(model, list, lacked, into)
   return lacked
end

--- Fills parameters: from the checkpoint if there is one, with initial values where it has none;
-- those of adapters from their files, if they have any.
-- @tparam table list as graph:params() gives it
-- @tparam table into tensor_of (i: the contiguous tensor of parameter i); seed (0) of initial
--   values; of a run, which does it itself: read, as checkpoint.load takes it, and draw (i, law,
--   scale, seed, stream), as run:draw
-- @treturn table names of the parameters that a checkpoint lacked and may lack (a new head)
-- @local
function Model:fill(list, into)
   local base, own, fresh = {}, {}, {}
   into = copy({ seed = 0 }, into)
   for i, param in ipairs(list) do
      local numbers = adapters.is(param.name) and own or base
      numbers[#numbers + 1] = i
   end
   local lacked = fill_base(self, list, base, into)
   local filled = self.lora and self.lora.archive and peft.fill(self.lora, list, into.tensor_of)
      or {}
   if not next(filled) then draw(self, list, own, into) end
   for _, i in ipairs(lacked) do
      fresh[#fresh + 1] = not filled[list[i].name] and list[i].name or nil
   end
   return fresh
end

--- Fills parameters with what a run has saved of them.
-- @tparam string dir where `save` wrote
-- @tparam table list as graph:params() gives it
-- @tparam table into as of `fill`
-- @local
function Model:restore(dir, list, into)
   if not self.lora then
      return checkpoint.load(checkpoint.open(dir), list, into.tensor_of, into.read)
   end
   copy(self, { lora = peft.attach(self, peft.open(dir)).lora }):fill(list, into)
end

--- Raises what `restore` would find wrong, without reading a tensor.
-- @tparam string dir where `save` wrote
-- @tparam table list as graph:params() gives it
-- @local
function Model:check_saved(dir, list)
   if self.lora then return peft.attach(self, peft.open(dir)) end
   local saved = checkpoint.open(dir)
   checkpoint.check(saved, list)
   saved:close()
end

--- What adapters say of the model that they are for: a path from the root, or a name.
local function base_name(model)
   return model.lora.base or core.sys.real_path(model.asked) or model.asked
end

--- Saves the model as a Hugging Face directory: all of it, or, of one with adapters, these alone.
-- @tparam string dir
-- @tparam table tensors by name
-- @tparam table with list (as graph:params() gives it), modules (names of what was trained whole
--   beside adapters, or nil), write_tensors (in place of core.io.write, for such tensors)
-- @local
function Model:save(dir, tensors, with)
   local o = {
      config = self:saved_config(), tensors = tensors, source = self.files,
      write_tensors = with.write_tensors,
   }
   if self.lora then
      function o.write(beside)
         local named_base = copy(self, { lora = copy(self.lora, { base = base_name(self) }) })
         peft.write(beside, named_base, tensors, with)
      end
   end
   checkpoint.save(dir, o)
end

--- Adds adapters to the weights that they are beside, W + (alpha / r) B A; the model has none
-- afterwards.
-- @tparam table params tensors by name, filled; those of adapters are gone afterwards
-- @treturn int how many there were
-- @local
function Model:merge(params)
   local n = self.lora and adapters.merge(self, params) or 0
   self.config = copy(self.config)
   self.lora, self.config.lora = nil, nil
   return n
end

--- Raises what `fill` would find wrong with the checkpoint, without reading a tensor.
-- @tparam table list as graph:params() gives it
-- @local
function Model:check_files(list)
   if not self.checkpoint then return end
   local base = {}
   for _, param in ipairs(list) do
      base[#base + 1] = not adapters.is(param.name) and param or nil
   end
   checkpoint.check(self.checkpoint, base)
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
   if self.lora and self.lora.path then
      words[#words + 1] = "adapters of " .. self.lora.path
   end
   return table.concat(words, ": ")
end

-- Options of a tree.
local SIZE = {
   source = { type = "int", min = 1, default = 128, help = "tokens of the input" },
   target = { type = "int", min = 1, default = 8, help = "tokens of an answer" },
}

--- Its blocks in the order of the graph, with their parameters and the arithmetic of a forward of
-- one sample; weights are not read. The prompt shows models so.
-- @tparam[opt] table o those options that are not as they are below
-- @treturn string
function Model:tree(o) return tree.text(self, opts.check("model:tree", SIZE, o)) end

--- Writes its blocks as bars, of parameters and of arithmetic.
-- @tparam string path
-- @tparam[opt] table o as of tree
function Model:svg(path, o)
   core.sys.write_file(path, tree.svg(self, opts.check("model:svg", SIZE, o)))
   return self
end

--- Writes the tree and its bars as a page that needs nothing else.
-- @tparam string path
-- @tparam[opt] table o as of tree
function Model:html(path, o)
   local size = opts.check("model:html", SIZE, o)
   core.sys.write_file(path, html.of(tree.text(self, size), { tree.svg(self, size) }))
   return self
end

--- The tree as JSON.
-- @tparam[opt] table o as of tree
function Model:json(o) return tree.json(self, opts.check("model:json", SIZE, o)) end

Model.__shown = Model.tree

guard("model", Model, {
   tokenizer = "", check_trainable = "resumed?: boolean", tree = "o?: table", json = "o?: table",
   svg = "path: string, o?: table", html = "path: string, o?: table",
})
guard("ft.model", M, { is = "dir: string" })

M.takes = { ["ft.model"] = RULES, ["model:tree"] = SIZE }

return setmetatable(M, { __call = function(_, o) return M.open(o) end })
