--- Adapters in files, as the Python package peft writes and reads them.
--
--    DIR/adapter_config.json          rank, factor, which products, which model they are for
--    DIR/adapter_model.safetensors    A and B of each product, and what was trained beside them
--
-- A tensor has the name of the parameter with "base_model.model." before it.

local adapters = require("ftpipe.model.adapters")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local forms = require("ftpipe.model.forms")
local keys = require("ftpipe.base.keys")
local shown = require("ftpipe.base.shown")
local small_file = require("ftpipe.base.small_file")

local M = {}

local CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
local PREFIX = "base_model.model."
local MOST_BYTES = 2 ^ 24 -- of adapter_config.json

--- Whether a directory holds adapters.
function M.is(dir) return core.sys.exists(dir .. "/" .. CONFIG) == "file" end

--- The names of its files.
M.files = { CONFIG, WEIGHTS }

-- ---------------------------------------------------------------------------------------------
-- Reading.

local function is_null(value) return value == nil or value == core.json.null end

local function is_empty(value)
   return is_null(value) or value == false or type(value) == "table" and next(value) == nil
end

local function is_whole(value)
   return type(value) == "number" and value % 1 == 0 and value >= 1 and value < 2 ^ 31
end

-- Values of 'init_lora_weights' after which the model's own weights are what they were.
local PLAIN_STARTS = { gaussian = true, orthogonal = true, eva = true }

--- Keys that decide what adapters compute: whether a value is one that is built here, and which
-- that is, in words.
local KEYS = {
   { "peft_type", function(value) return value == "LORA" end, "\"LORA\"" },
   { "r", is_whole, "a positive integer" },
   { "lora_alpha", function(value) return type(value) == "number" and value > 0 end,
      "a number above 0" },
   { "lora_dropout", function(value)
      return is_null(value) or type(value) == "number" and value >= 0 and value < 1
   end, "a number from 0 to below 1" },
   { "bias", function(value) return is_null(value) or value == "none" end, "\"none\"" },
   { "init_lora_weights", function(value)
      return is_null(value) or type(value) == "boolean" or PLAIN_STARTS[value] ~= nil
   end, "true, false, \"gaussian\", \"orthogonal\" or \"eva\"" },
   { "base_model_name_or_path", function(value)
      return is_null(value) or type(value) == "string"
   end, "a text" },
}

-- Keys of kinds of adapters that are not built here: null, false or empty in those that are.
for _, key in ipairs {
   "use_dora", "use_qalora", "use_bdlora", "lora_bias", "rank_pattern", "alpha_pattern",
   "target_parameters", "trainable_token_indices", "layer_replication", "alora_invocation_tokens",
   "arrow_config", "kasa_config", "velora_config", "monteclora_config",
} do
   KEYS[#KEYS + 1] = { key, is_empty, "nothing" }
end

local function read_config(dir)
   local path = dir .. "/" .. CONFIG
   local config = core.json.decode(small_file(path, MOST_BYTES), path)
   if type(config) ~= "table" then
      core.fail("malformed data", path .. ": expected a JSON object")
   end
   for _, row in ipairs(KEYS) do
      local key, fits, wanted = unpack(row)
      if not fits(config[key]) then
         core.fail("unsupported", ("%s: '%s' is %s, expected %s"):format(path, key,
            config[key] == nil and "missing" or shown(config[key]), wanted), 6)
      end
   end
   return config
end

--- Opens the adapters of a directory: what adapters.attach takes, with path, base (the model that
-- they say they are for; nil when they do not) and archive.
-- @tparam string dir
-- @raise not found, malformed data; unsupported: they are of a kind that is not built here
function M.open(dir)
   if not core.sys.exists(dir) then
      core.fail("not found", dir .. ": no such directory, expected one with " .. CONFIG)
   end
   if not M.is(dir) then
      core.fail("not found", ("%s: holds no %s"):format(dir, CONFIG))
   end
   local config = read_config(dir)
   local rank, alpha = config.r, config.lora_alpha
   return {
      rank = rank, alpha = alpha, dropout = is_null(config.lora_dropout) and 0
         or config.lora_dropout,
      scale = alpha / (config.use_rslora == true and rank ^ 0.5 or rank),
      base = not is_null(config.base_model_name_or_path) and config.base_model_name_or_path or nil,
      path = dir, archive = core.io.archive(dir .. "/" .. WEIGHTS), config = config,
   }
end

--- The names of tensors through the family's forms, as parameters are called.
local function seen(lora, family)
   local names = {}
   for i, name in ipairs(lora.archive:names()) do
      if name:sub(1, #PREFIX) ~= PREFIX then
         core.fail("malformed data", ("%s/%s: '%s' does not begin with '%s'"):format(lora.path,
            WEIGHTS, name, PREFIX))
      end
      names[i] = name:sub(#PREFIX + 1)
   end
   return forms.names(family.forms or {}, names)
end

--- A model with the adapters of a directory.
-- @tparam model model without
-- @tparam table lora of `open`
function M.attach(model, lora)
   lora.names = seen(lora, model.family)
   lora.targets = {}
   for name in pairs(lora.names.all) do
      if name:find("%.lora_A%.weight$") then
         lora.targets[#lora.targets + 1] = adapters.product_of(name)
      end
   end
   if #lora.targets == 0 then
      core.fail("malformed data", ("%s/%s: holds no adapter (*.lora_A.weight)"):format(lora.path,
         WEIGHTS))
   end
   table.sort(lora.targets)
   return adapters.attach(model, lora)
end

local function dims_text(dims) return "(" .. table.concat(dims, ", ") .. ")" end

--- Fills parameters with what files hold of them.
-- @tparam table lora of `open`, attached
-- @tparam table list as graph:params() gives it
-- @tparam function tensor_of (i): the contiguous tensor of parameter i
-- @treturn table set of the names that were filled
-- @raise malformed data: one of an adapter is missing, or the model has no such parameter; shape
--   mismatch
function M.fill(lora, list, tensor_of)
   local filled, file = {}, lora.path .. "/" .. WEIGHTS
   for i, param in ipairs(list) do
      local own = lora.names:own(param.name)
      if own then
         local dims = lora.archive:spec(PREFIX .. own).dims
         if dims_text(dims) ~= dims_text(param.dims) then
            core.fail("shape mismatch", ("%s: %s is %s, expected %s"):format(file, own,
               dims_text(dims), dims_text(param.dims)))
         end
         lora.archive:read(PREFIX .. own, tensor_of(i))
         filled[param.name] = true
      elseif adapters.is(param.name) then
         core.fail("malformed data", ("%s: %s%s is missing"):format(file, PREFIX, param.name))
      end
   end
   for _, name in ipairs(keys(lora.names.all)) do
      if not filled[name] then
         core.fail("malformed data", ("%s: %s is of no parameter of the model"):format(file, name))
      end
   end
   return filled
end

-- ---------------------------------------------------------------------------------------------
-- Writing.

--- Names of products: as they were asked for, where peft takes these as they are.
local function target_modules(lora, list)
   local plain = true
   for _, pattern in ipairs(lora.targets) do plain = plain and not pattern:find("[*?]") end
   if plain then return lora.targets end
   local names = {}
   for _, param in ipairs(list) do
      if param.name:find("%.lora_A%.weight$") then
         names[#names + 1] = adapters.product_of(param.name)
      end
   end
   return names
end

local function list_or_null(list) return list[1] and list or core.json.null end

local function config_text(model, list, modules)
   local lora, form = model.lora, model.family.lora
   local config = copy(lora.config or {}, {
      peft_type = "LORA", task_type = form.task, base_model_name_or_path = lora.base,
      r = lora.rank, lora_alpha = lora.alpha, lora_dropout = lora.dropout,
      target_modules = target_modules(lora, list), modules_to_save = list_or_null(modules),
      fan_in_fan_out = form.transposed or false, bias = "none", inference_mode = true,
      init_lora_weights = true,
   })
   return core.json.encode(config, { indent = 2, sort = true }) .. "\n"
end

--- Writes the files of a model's adapters into a directory that is there.
-- @tparam string dir
-- @tparam model model
-- @tparam table tensors by name
-- @tparam table o list (as graph:params() gives it), modules (names of what was trained whole),
--   write_tensors (in place of core.io.write, for such tensors)
function M.write(dir, model, tensors, o)
   local list = {}
   for _, param in ipairs(o.list) do
      if adapters.saves(param) then
         list[#list + 1] = { name = PREFIX .. param.name, tensor = tensors[param.name] }
      end
   end
   table.sort(list, function(a, b) return a.name < b.name end)
   core.sys.write_file(dir .. "/" .. CONFIG, config_text(model, o.list, o.modules))
   o.write_tensors(dir .. "/" .. WEIGHTS, list)
end

return M
