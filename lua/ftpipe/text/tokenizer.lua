--- The tokenizer of a checkpoint, from the files that are there.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")

local M = {}

-- Digits of an integer that may be past 2^53. These files tell of endless inputs by such.
local MANY_DIGITS = "%f[%w%.]" .. ("%d"):rep(16) .. "+%f[^%w%.]"

--- The text of tokenizer_config.json, nil without; integers of many digits are reals.
local function settings_text(ckpt)
   local text = ckpt:file("tokenizer_config.json")
   return text and (text:gsub(MANY_DIGITS, "%0.0"))
end

--- What tokenizer_config.json says, every key.
local function settings_of(ckpt)
   local text = settings_text(ckpt)
   if not text then return {} end
   local path = ckpt.path .. "/tokenizer_config.json"
   local settings = core.json.decode(text, path)
   if type(settings) ~= "table" or getmetatable(settings) == core.json.array_meta then
      core.fail("malformed data", path .. ": expected a JSON object")
   end
   return settings
end

--- A value of a table if it is of this type, else nil.
local function typed(table, key, kind)
   if type(table[key]) == kind then return table[key] end
   return nil
end

--- A text of tokenizer_config.json, or else of config.json; nil where there is none.
local function text_setting(ckpt, settings, key)
   return typed(settings, key, "string") or typed(ckpt.config, key, "string")
end

--- A tokenizer with the tokens that are named in files beside its own. (tokenizer.json has them.)
local function with_others(ckpt, tokenizer)
   return tokenizer:add_files {
      settings = settings_text(ckpt), added = ckpt:file("added_tokens.json"),
      map = ckpt:file("special_tokens_map.json"), name = ckpt.path,
   }
end

--- A tokenizer of spiece.model; `extra` sentinels follow its pieces where nothing else is said.
local function open_spiece(extra, ckpt, settings)
   return with_others(ckpt, core.data.tokenizer {
      bytes = ckpt:file("spiece.model"),
      extra_ids = typed(settings, "extra_ids", "number") or extra,
   })
end

local function open_bytes(ckpt, settings)
   return with_others(ckpt, core.data.bytes {
      extra_ids = typed(settings, "extra_ids", "number"),
   })
end

--- What settings say of how BERT cuts texts.
local function basic_of(settings)
   return {
      lower = typed(settings, "do_lower_case", "boolean"),
      strip_accents = typed(settings, "strip_accents", "boolean"),
      split_han = typed(settings, "tokenize_chinese_chars", "boolean"),
   }
end

local function prefix_space_of(settings) return typed(settings, "add_prefix_space", "boolean") end

-- Classes of transformers that take tokenizer.json as it is. All others put what
-- tokenizer_config.json says in place of what it has.
local OF_THE_FILE = { PreTrainedTokenizerFast = true, TokenizersBackend = true }

local function open_json(ckpt, settings)
   local said = {}
   if not OF_THE_FILE[text_setting(ckpt, settings, "tokenizer_class")] then
      said = copy(basic_of(settings), { prefix_space = prefix_space_of(settings) })
   end
   return core.data.tokenizer_json(copy(said, {
      bytes = ckpt:file("tokenizer.json"), name = ckpt.path .. "/tokenizer.json",
   }))
end

--- The text of a token that the files beside a vocabulary name, nil where none does.
local function token_of(ckpt, settings, key)
   local path = ckpt.path .. "/special_tokens_map.json"
   local map = ckpt:file("special_tokens_map.json")
   map = map and core.json.decode(map, path)
   local token = type(map) == "table" and map[key] or settings[key]
   if type(token) == "table" then token = token.content end
   return type(token) == "string" and token or nil
end

local function open_wordpiece(ckpt, settings)
   return with_others(ckpt, core.data.wordpiece(copy(basic_of(settings), {
      vocab = ckpt:file("vocab.txt"), name = ckpt.path .. "/vocab.txt",
      unknown = token_of(ckpt, settings, "unk_token"),
   })))
end

--- Refuses what a text has around it by a setting alone: that is read from tokenizer.json.
local function check_bare(ckpt, settings)
   for _, key in ipairs { "add_bos_token", "add_eos_token" } do
      if settings[key] == true then
         core.fail("unsupported", ("%s/tokenizer_config.json: %s is supported with tokenizer.json, "
            .. "whose post_processor says where the token stands: save the tokenizer as one, or "
            .. "set it to false"):format(ckpt.path, key))
      end
   end
end

local function open_byte_bpe(ckpt, settings)
   check_bare(ckpt, settings)
   return with_others(ckpt, core.data.byte_bpe {
      vocab = ckpt:file("vocab.json"), merges = ckpt:file("merges.txt"), name = ckpt.path,
      prefix_space = prefix_space_of(settings),
   })
end

-- What a tokenizer can be read from: its files, and what tokenizer_class has to say, if anything.
-- tokenizer.json says most, so it goes before the others; but T5's is a translation of
-- spiece.model, which is what the model was made with.
local bytes = { class = "ByT5Tokenizer", files = {}, open = open_bytes }
local spiece = {
   files = { "spiece.model" }, open = function(...) return open_spiece(100, ...) end,
}
local spiece_of_mt5 = {
   files = { "spiece.model" }, open = function(...) return open_spiece(0, ...) end,
}
local json = { files = { "tokenizer.json" }, open = open_json }
local wordpiece = { files = { "vocab.txt" }, open = open_wordpiece }
local byte_bpe = { files = { "vocab.json", "merges.txt" }, open = open_byte_bpe }

-- By model_type, in the order in which they are looked for.
local FORMS = {
   t5 = { bytes, spiece, json },
   mt5 = { spiece_of_mt5, json },
   bert = { json, wordpiece },
   gpt2 = { json, byte_bpe },
}
local ANY = { bytes, spiece, json, wordpiece, byte_bpe }

-- Settings of tokenizer_config.json that say how texts are cut: what is executed, and what to do
-- where it is something else.
local CUTS = {
   { key = "word_tokenizer_type", executed = "basic",
      advice = 'cut the texts into words with that program, put spaces between them, and set it to '
         .. '"basic"' },
   { key = "subword_tokenizer_type", executed = "wordpiece",
      advice = "take a checkpoint whose vocabulary has pieces of words" },
}

--- Refuses tokenizers whose texts would be cut otherwise than their models learned.
local function check_cuts(ckpt, settings)
   for _, row in ipairs(CUTS) do
      local value = text_setting(ckpt, settings, row.key)
      if value and value ~= row.executed then
         core.fail("unsupported", ('%s/tokenizer_config.json: %s "%s" is not supported: %s'):format(
            ckpt.path, row.key, value, row.advice))
      end
   end
end

--- Whether a form is what the directory holds.
local function fits(ckpt, settings, form)
   for _, name in ipairs(form.files) do
      if not ckpt.files.has(name) then return false end
   end
   return not form.class or text_setting(ckpt, settings, "tokenizer_class") == form.class
end

local function expected(forms)
   local names = {}
   for _, form in ipairs(forms) do
      names[#names + 1] = form.class and ("tokenizer_class \"%s\""):format(form.class)
         or table.concat(form.files, " with ")
   end
   return table.concat(names, " or ")
end

--- The tokenizer that comes with a model.
-- @tparam checkpoint ckpt
-- @treturn tokenizer
-- @raise not found; malformed data; unsupported; shape mismatch: it has more ids than the model
function M.open(ckpt)
   local forms = FORMS[ckpt.config.model_type] or ANY
   local settings = settings_of(ckpt)
   check_cuts(ckpt, settings)
   for _, form in ipairs(forms) do
      if fits(ckpt, settings, form) then
         local tokenizer = form.open(ckpt, settings)
         local vocabulary = ckpt.config.vocab_size
         if type(vocabulary) ~= "number" then return tokenizer end
         if tokenizer:size() > vocabulary then
            core.fail("shape mismatch", ("%s: the tokenizer (%s) has %d ids, the model's "
               .. "vocab_size is %d"):format(ckpt.path,
               form.class or table.concat(form.files, ", "), tokenizer:size(), vocabulary))
         end
         return tokenizer:reserve(vocabulary)
      end
   end
   core.fail("not found", ("%s: holds no tokenizer, expected %s"):format(ckpt.path,
      expected(forms)))
end

return M
