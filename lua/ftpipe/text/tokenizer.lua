--- The tokenizer of a checkpoint, from the files that are there.

local core = require("ftpipe.core")

local M = {}

--- A setting of tokenizer_config.json.
-- Not through JSON: these files tell of endless inputs by integers that no number holds.
local function setting(ckpt, key)
   local text = ckpt:file("tokenizer_config.json") or ""
   local value = text:match('"' .. key .. '"%s*:%s*([%w_]+)')
   if value == "true" then return true end
   if value == "false" then return false end
   return tonumber(value)
end

--- A text of tokenizer_config.json, or else of config.json; nil where there is none.
local function text_setting(ckpt, key)
   local text = ckpt:file("tokenizer_config.json") or ""
   local value = text:match('"' .. key .. '"%s*:%s*"([^"]*)"') or ckpt.config[key]
   return type(value) == "string" and value or nil
end

--- A tokenizer with the tokens that are named in files beside its own. (tokenizer.json has them.)
local function with_others(ckpt, tokenizer)
   return tokenizer:add_files {
      added = ckpt:file("added_tokens.json"), map = ckpt:file("special_tokens_map.json"),
      name = ckpt.path,
   }
end

--- A tokenizer of spiece.model; `extra` sentinels follow its pieces where nothing else is said.
local function open_spiece(ckpt, extra)
   return with_others(ckpt, core.data.tokenizer {
      bytes = ckpt:file("spiece.model"), extra_ids = setting(ckpt, "extra_ids") or extra,
   })
end

--- Bytes. What ends a text takes the blanks around it away, unless the files say more about it than
-- its name.
local function open_bytes(ckpt)
   local text = ckpt:file("tokenizer_config.json") or ""
   local ending = text:match('"eos_token"%s*:%s*(%b{})')
   return core.data.bytes {
      extra_ids = setting(ckpt, "extra_ids"),
      strip = not (ending and ending:find('"lstrip"%s*:%s*false')),
   }:add_files { added = ckpt:file("added_tokens.json"), name = ckpt.path }
end

local function open_json(ckpt)
   return core.data.tokenizer_json {
      bytes = ckpt:file("tokenizer.json"), name = ckpt.path .. "/tokenizer.json",
   }
end

local function open_wordpiece(ckpt)
   return with_others(ckpt, core.data.wordpiece {
      vocab = ckpt:file("vocab.txt"), name = ckpt.path .. "/vocab.txt",
      lower = setting(ckpt, "do_lower_case"), strip_accents = setting(ckpt, "strip_accents"),
      split_han = setting(ckpt, "tokenize_chinese_chars"),
   })
end

local function open_byte_bpe(ckpt)
   return with_others(ckpt, core.data.byte_bpe {
      vocab = ckpt:file("vocab.json"), merges = ckpt:file("merges.txt"), name = ckpt.path,
      prefix_space = setting(ckpt, "add_prefix_space"),
   })
end

-- What a tokenizer can be read from: its files, and what tokenizer_class has to say, if anything.
-- tokenizer.json says most, so it goes before the others; but T5's is a translation of
-- spiece.model, which is what the model was made with.
local bytes = { class = "ByT5Tokenizer", files = {}, open = open_bytes }
local spiece = {
   files = { "spiece.model" }, open = function(ckpt) return open_spiece(ckpt, 100) end,
}
local spiece_of_mt5 = {
   files = { "spiece.model" }, open = function(ckpt) return open_spiece(ckpt, 0) end,
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
local function check_cuts(ckpt)
   for _, row in ipairs(CUTS) do
      local value = text_setting(ckpt, row.key)
      if value and value ~= row.executed then
         core.fail("unsupported", ('%s/tokenizer_config.json: %s "%s" is not supported: %s'):format(
            ckpt.path, row.key, value, row.advice))
      end
   end
end

--- Whether a form is what the directory holds.
local function fits(ckpt, form)
   for _, name in ipairs(form.files) do
      if not ckpt.files.has(name) then return false end
   end
   return not form.class or text_setting(ckpt, "tokenizer_class") == form.class
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
   check_cuts(ckpt)
   for _, form in ipairs(forms) do
      if fits(ckpt, form) then
         local tokenizer = form.open(ckpt)
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
