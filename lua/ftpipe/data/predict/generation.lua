--- What a model says of its answers: generation_config.json, or config.json where there is none,
-- as Hugging Face transformers reads them. Decoding is greedy: what asks for another search would
-- have other answers, and is refused.

local check = require("ftpipe.model.check")
local choice = require("ftpipe.data.choice")
local core = require("ftpipe.core")
local shown = require("ftpipe.base.shown")

local M = {}

local FILE = "generation_config.json"

-- Keys that would change an answer and are not built, with the value that changes nothing; those
-- that are lists or objects change nothing when they are empty.
local REFUSED = {
   { "num_beams", 1 }, { "num_beam_groups", 1 }, { "do_sample", false }, { "penalty_alpha", 0 },
   { "encoder_repetition_penalty", 1 }, { "encoder_no_repeat_ngram_size", 0 },
   { "guidance_scale", 1 }, { "token_healing", false }, { "bad_words_ids" },
   { "force_words_ids" }, { "constraints" }, { "sequence_bias" }, { "forced_bos_token_id" },
   { "forced_eos_token_id" }, { "forced_decoder_ids" }, { "suppress_tokens" },
   { "begin_suppress_tokens" }, { "exponential_decay_length_penalty" }, { "dola_layers" },
   { "stop_strings" }, { "watermarking_config" },
}

local function is_absent(value) return value == nil or value == core.json.null end

local function is_neutral(value, neutral)
   if is_absent(value) or value == neutral then return true end
   return type(value) == "table" and next(value) == nil
end

--- The keys, and the file that they are from.
local function read(model)
   local text = model.files and model.files:file(FILE)
   if not text then return model.raw, "config.json" end
   local path = model.files.path .. "/" .. FILE
   local keys = core.json.decode(text, path)
   if type(keys) ~= "table" or getmetatable(keys) == core.json.array_meta then
      core.fail("malformed data", path .. ": expected a JSON object")
   end
   return keys, path
end

local function refuse(path, key, value, expected)
   core.fail("unsupported", ("%s: '%s' is %s, expected %s"):format(path, key, shown(value),
      expected), 6)
end

--- A whole number of a key; nil where it is not there.
local function count(keys, path, key, least)
   local value = keys[key]
   if is_absent(value) then return nil end
   if not check.is_whole(value) or value < least then
      refuse(path, key, value, ("an integer from %d on"):format(least))
   end
   return value
end

local function id(path, key, value, config)
   if check.is_whole(value) and value >= 0 and value < config.vocab_size then return value end
   return refuse(path, key, value, ("an id below vocab_size, %d"):format(config.vocab_size))
end

local function ends_of(keys, path, config)
   local value, set = keys.eos_token_id, {}
   for _, one in ipairs(type(value) == "table" and value or { value }) do
      set[id(path, "eos_token_id", one, config)] = true
   end
   return set
end

local function penalty_of(keys, path)
   local value = keys.repetition_penalty
   if is_absent(value) then return 1 end
   if type(value) ~= "number" or not (value > 0 and value < math.huge) then
      refuse(path, "repetition_penalty", value, "a number above 0")
   end
   return value
end

--- What only another search than the likeliest token could follow.
local function add_search(rules, keys, path)
   for _, row in ipairs(REFUSED) do
      if not is_neutral(keys[row[1]], row[2]) then
         refuse(path, row[1], keys[row[1]], ("%s: answers are decoded greedily; --greedy leaves "
            .. "aside what this file asks"):format(row[2] == nil and "null" or tostring(row[2])))
      end
   end
   rules.penalty = penalty_of(keys, path)
   rules.ngram = count(keys, path, "no_repeat_ngram_size", 0) or 0
   rules.least = count(keys, path, "min_new_tokens", 0)
   rules.shortest = rules.least and 0 or count(keys, path, "min_length", 0) or 0
   rules.least = rules.least or 0
end

--- The rules of a model's answers (data/choice.lua), with
--    most, longest   new tokens, and tokens with those before the answer, at most; nil: not said
-- @tparam model model
-- @tparam boolean greedy leave aside what is not the likeliest token
-- @raise unsupported: the file asks for another search, or for something impossible
function M.rules(model, greedy)
   local keys, path = read(model)
   local config = model.config
   local rules = choice.plain(config)
   rules.path = path
   if not is_absent(keys.eos_token_id) then rules.ends = ends_of(keys, path, config) end
   if rules.start and not is_absent(keys.decoder_start_token_id) then
      rules.start = id(path, "decoder_start_token_id", keys.decoder_start_token_id, config)
   end
   rules.most = count(keys, path, "max_new_tokens", 1)
   rules.longest = not rules.most and count(keys, path, "max_length", 1) or nil
   if not greedy then add_search(rules, keys, path) end
   return rules
end

--- New tokens of an answer at most; nil where the rules do not say.
-- @tparam table rules
-- @tparam int before tokens that `longest` counts and that are there already
-- @tparam string flag which says it otherwise, for the message
-- @raise invalid argument: there is no room for one
function M.most(rules, before, flag)
   if not rules.longest then return rules.most end
   if rules.longest > before then return rules.longest - before end
   return core.fail("invalid argument", ("%s: 'max_length' is %d, and %d tokens are there before "
      .. "the answer: give %s"):format(rules.path, rules.longest, before, flag), 2)
end

return M
