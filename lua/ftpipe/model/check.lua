--- What families ask of config.json: each fault is one line that names key, value and expectation.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local named = require("ftpipe.base.named")
local shown = require("ftpipe.base.shown")

local M = {}

--- Fails with a message about config.json.
function M.refuse(format, ...)
   core.fail("unsupported", "config.json: " .. format:format(...), 6)
end

function M.is_whole(value)
   return type(value) == "number" and value % 1 == 0 and math.abs(value) <= 2 ^ 31 - 1
end

--- What a key has, or its preset where it is absent or null.
function M.with_presets(raw, presets, required)
   local config = {}
   for key, preset in pairs(presets) do
      local value = raw[key]
      if value == nil or value == core.json.null then value = preset end
      config[key] = value
   end
   for _, key in ipairs(required) do config[key] = raw[key] end
   return config
end

--- A value as messages show it: a string is called one, lest '64' looks like a number.
local function told(value)
   return (type(value) == "string" and "the string '%s'" or "%s"):format(shown(value))
end

--- Each key must be a positive integer.
function M.sizes(config, keys)
   for _, key in ipairs(keys) do
      if not M.is_whole(config[key]) or config[key] < 1 then
         M.refuse("'%s' is %s, expected a positive integer", key, told(config[key]))
      end
   end
end

-- A graph has nodes for every layer; published models have up to some hundred layers.
local MOST_LAYERS = 4096

--- Each key must be a number of layers.
function M.layers(config, keys)
   M.sizes(config, keys)
   for _, key in ipairs(keys) do
      if config[key] > MOST_LAYERS then
         M.refuse("'%s' is %d, expected at most %d layers", key, config[key], MOST_LAYERS)
      end
   end
end

--- Sequences must not be longer than the positions of the model, which the key of config.json says.
-- @tparam table config
-- @tparam string key
-- @tparam int length
-- @tparam string option what makes them shorter, for the message
function M.length(config, key, length, option)
   if length <= config[key] then return end
   core.fail("invalid argument", ("sequences of %d tokens are too long for the model: it has %s "
      .. "(%s in config.json); give fewer with %s"):format(length,
      counted(config[key], "position"), key, option), 2)
end

--- What says how long sequences are, for those who gave it: a recipe's --block, else --max-source;
-- in Lua "source".
-- @tparam table size of a graph
function M.length_option(size)
   if not size.flagged then return "source" end
   return named.name(size, named.origins(size).block and "block" or "max_source")
end

--- Refuses tokens of an answer, of a model that reads none when it is trained.
-- @tparam model model
-- @tparam table size as of `length_option`
function M.answers(model, size)
   for _, each in ipairs(model.family.columns(model.config)) do
      if each.field == "target" then return end
   end
   core.fail("invalid argument", ("%s is of answers beside their inputs, and %s reads inputs "
      .. "alone: leave it out"):format(size.flagged and "--max-target" or "target", model.name), 2)
end

--- Each key must be a number above 0.
-- @tparam table config
-- @tparam table keys
-- @tparam[opt] number most what it may be at most
function M.positive(config, keys, most)
   for _, key in ipairs(keys) do
      local value = config[key]
      if type(value) ~= "number" or not (value > 0 and value < math.huge)
         or most and value > most
      then
         M.refuse("'%s' is %s, expected a number above 0%s", key, told(value),
            most and (", at most %g"):format(most) or "")
      end
   end
end

--- Each key must be a rate of dropout.
function M.rates(config, keys)
   for _, key in ipairs(keys) do
      local value = config[key]
      if type(value) ~= "number" or not (value >= 0 and value < 1) then
         M.refuse("'%s' is %s, expected a number from 0 to below 1", key, told(value))
      end
   end
end

--- Each key must be an id of the vocabulary.
function M.ids(config, keys)
   for _, key in ipairs(keys) do
      local id = config[key]
      if not M.is_whole(id) or id < 0 or id >= config.vocab_size then
         M.refuse("'%s' is %s, expected an id below vocab_size, %d", key, told(id),
            config.vocab_size)
      end
   end
end

--- eos_token_id must be an id of the vocabulary, or a list of them, any of which ends an answer:
-- then config.ends has all, and config.eos_token_id the first, which ends what is trained on.
function M.ends(config)
   local value = config.eos_token_id
   if type(value) ~= "table" then return M.ids(config, { "eos_token_id" }) end
   if #value == 0 then M.refuse("'eos_token_id' is no id and no list of ids") end
   config.ends = {}
   for i, id in ipairs(value) do
      config.ends[i], config.eos_token_id = id, id
      M.ids(config, { "eos_token_id" })
   end
   config.eos_token_id = value[1]
end

--- Each key must be true or false.
function M.flags(config, keys)
   for _, key in ipairs(keys) do
      if type(config[key]) ~= "boolean" then
         M.refuse("'%s' is %s, expected true or false", key, told(config[key]))
      end
   end
end

--- Each key must be false, null or not there: what it asks for is not built.
-- @tparam table raw config.json as decoded
-- @tparam table keys
-- @tparam string wanted what is built, for the message
function M.absent(raw, keys, wanted)
   for _, key in ipairs(keys) do
      local value = raw[key]
      if value ~= nil and value ~= core.json.null and value ~= false then
         M.refuse("'%s' is %s, expected %s", key, shown(value), wanted)
      end
   end
end

return M
