--- Groups of parameters: what is trained, at which rate, with which decay, by patterns of names.
--
--    --groups "encoder.*: frozen; lm_head.*: rate 10, decay 0"
--    groups = { { "encoder.*", frozen = true }, { "lm_head.*", rate = 10, decay = 0 } }
--
-- --train-only NAMES stands for "*: frozen" and "NAME: trained" before these, --freeze NAMES for
-- "NAME: frozen".
--
-- A pattern is a whole name, as a checkpoint has it, in which * stands for any characters and ? for
-- one. Of several groups that a parameter is in, the last one that says something of its rate, its
-- decay, or whether it is frozen decides that.

local adapters = require("ftpipe.model.adapters")
local class = require("ftpipe.base.class")
local layers = require("ftpipe.model.layers")
local named = require("ftpipe.base.named")
local number_text = require("ftpipe.base.number_text")
local opts = require("ftpipe.base.opts")
local patterns = require("ftpipe.base.pattern")
local suggest = require("ftpipe.base.suggest")
local usage = require("ftpipe.base.usage")

local M = {}

-- ---------------------------------------------------------------------------------------------
-- What is given.

-- What a group may say, in the order in which it is told.
local RULES = {
   { "frozen", type = "boolean", help = "not trained: no gradient, no state, no update" },
   { "rate", type = "number", min = 0, help = "what the learning rate is multiplied by" },
   { "decay", type = "number", min = 0, max = 10, help = "weight decay, in place of all others" },
}

local by_name, names = {}, {}
for i, rule in ipairs(RULES) do by_name[rule[1]], names[i] = rule, rule[1] end

-- Words that are no number.
local WORDS = { frozen = { "frozen", true }, trained = { "frozen", false } }

local function fail(o, format, ...)
   usage("%s: " .. format, named.name(o, "groups"), ...)
end

--- Groups of names that are all frozen, or all trained, by the option that lists them.
local function add_listed(list, o, option, frozen)
   if o[option] == nil then return end
   local names_given = patterns.list(o[option])
   if #names_given == 0 then usage.of(o, "{" .. option .. "}: there is no name in it") end
   for _, name in ipairs(names_given) do
      list[#list + 1] = { name, frozen = frozen, option = option }
   end
end

--- Groups that stand before those of --groups.
local function listed(o)
   local list = {}
   if o.train_only then
      if o.lora or o.model and o.model.lora then
         usage.of(o, "{train_only} and adapters both say what is trained; with adapters, {groups} "
            .. "\"NAME: trained\" trains more than these")
      end
      list[1] = { "*", frozen = true, option = "train_only" }
      add_listed(list, o, "train_only", false)
   end
   add_listed(list, o, "freeze", true)
   return list
end

--- Notes what a group says; raises what is wrong with it.
local function say(o, group, name, value)
   local rule = by_name[name]
   if not rule then
      fail(o, "%s of '%s' is not known%s (expected one of: %s)", class.quoted(name), group[1],
         suggest.hint(tostring(name), names), table.concat(names, ", "))
   end
   local converted, problem = opts.convert(rule, value)
   if problem then fail(o, "'%s' of '%s': %s", name, group[1], problem) end
   if group[name] ~= nil then fail(o, "'%s' of '%s' is said twice", name, group[1]) end
   group[name] = converted
end

local function parse_word(o, group, word)
   local known = WORDS[word]
   if known then return say(o, group, known[1], known[2]) end
   local name, value = word:match("^(%S+)%s+(%S+)$")
   if not name then
      fail(o, "'%s' of '%s' is none of: frozen, trained, rate NUMBER, decay NUMBER", word, group[1])
   end
   say(o, group, name, value)
end

local function trim(text) return (text:gsub("^%s+", ""):gsub("%s+$", "")) end

local function parse_text(o, text)
   local list = {}
   for part in (text .. ";"):gmatch("([^;]*);") do
      local pattern, words = part:match("^%s*(%S+)%s*:%s*(.-)%s*$")
      if pattern then
         local group = { pattern }
         for word in (words .. ","):gmatch("([^,]*),") do parse_word(o, group, trim(word)) end
         list[#list + 1] = group
      elseif part:find("%S") then
         fail(o, "'%s' is not PATTERN: WHAT, as \"encoder.*: frozen\"", trim(part))
      end
   end
   return list
end

local function check_table(o, given)
   local list = {}
   for i, entry in ipairs(given) do
      if type(entry) ~= "table" or type(entry[1]) ~= "string" then
         fail(o, "entry %d is not { PATTERN, ... }, as { \"encoder.*\", frozen = true }", i)
      end
      local group = { entry[1] }
      for name, value in pairs(entry) do
         if name ~= 1 then say(o, group, name, value) end
      end
      list[i] = group
   end
   return list
end

--- The groups that a text or a table says, as a list of { PATTERN, frozen =, rate =, decay = }; nil
-- where there are none.
-- @tparam table o options: groups, train_only, freeze; model, lora
function M.of(o)
   local list, given = listed(o), o.groups
   if given == nil then return list[1] and list end
   local own = type(given) == "string" and parse_text(o, given) or check_table(o, given)
   if #own == 0 then fail(o, "there is no group in it") end
   for _, group in ipairs(own) do
      if next(group, 1) == nil then fail(o, "'%s' says nothing", group[1]) end
      list[#list + 1] = group
   end
   return list
end

--- Words of a group in a text, by what they say.
local TEXTS = {
   { "frozen", function(value) return value and "frozen" or "trained" end },
   { "rate", function(value) return "rate " .. number_text(value) end },
   { "decay", function(value) return "decay " .. number_text(value) end },
}

--- The groups as a text, the same for the same groups; nil where there are none.
-- @tparam table list of `of`, or nil
-- @tparam[opt] table only what is told, { rate = true }; else all
function M.text(list, only)
   local parts = {}
   for _, group in ipairs(list or {}) do
      local words = {}
      for _, row in ipairs(TEXTS) do
         local value = group[row[1]]
         if value ~= nil and (not only or only[row[1]]) then words[#words + 1] = row[2](value) end
      end
      if words[1] then parts[#parts + 1] = group[1] .. ": " .. table.concat(words, ", ") end
   end
   return parts[1] and table.concat(parts, "; ") or nil
end

--- Texts of all that groups say, of their rates alone, and of the rest.
function M.texts(list)
   return {
      all = M.text(list), rates = M.text(list, { rate = true }),
      others = M.text(list, { frozen = true, decay = true }),
   }
end

-- ---------------------------------------------------------------------------------------------
-- Names.

--- Pieces between dots that have no * or ?.
local function pieces_of(pattern)
   local list = {}
   for piece in pattern:gmatch("[^.]+") do
      if not piece:find("[*?]") then list[#list + 1] = piece end
   end
   return list
end

-- Names that a message lists, at most.
local LISTED = 4

--- Names near a pattern that stands for none: those with the most of its pieces, or of pieces that
-- are nearly the same.
local function near(pattern, params)
   local known, seen = {}, {}
   for _, param in ipairs(params) do
      for _, piece in ipairs(pieces_of(param.name)) do
         if not seen[piece] then known[#known + 1], seen[piece] = piece, true end
      end
   end
   local wanted = {}
   for _, piece in ipairs(pieces_of(pattern)) do
      wanted[#wanted + 1] = seen[piece] and piece or suggest.nearest(piece, known)
   end
   local rows = {}
   for i, param in ipairs(params) do
      local count, has = 0, {}
      for _, piece in ipairs(pieces_of(param.name)) do has[piece] = true end
      for _, piece in pairs(wanted) do count = count + (has[piece] and 1 or 0) end
      rows[i] = { name = param.name, count = count, number = i }
   end
   table.sort(rows, function(a, b)
      return a.count > b.count or a.count == b.count and a.number < b.number
   end)
   local list = {}
   for i = 1, math.min(LISTED, #rows) do list[i] = rows[i].name end
   return table.concat(list, ", ")
end

--- Raises where a pattern stands for no parameter.
local function check_patterns(o, params)
   for _, group in ipairs(o.groups or {}) do
      local found = false
      for _, param in ipairs(params) do found = found or patterns.matches(group[1], param.name) end
      if not found then
         usage("%s: '%s' is the name of no parameter; near it are %s",
            named.name(o, group.option or "groups"), group[1], near(group[1], params))
      end
   end
end

--- What the last group that says it says of a parameter; nil where none does.
local function said(list, name, what)
   for i = #(list or {}), 1, -1 do
      if list[i][what] ~= nil and patterns.matches(list[i][1], name) then return list[i][what] end
   end
   return nil
end

-- ---------------------------------------------------------------------------------------------
-- What follows.

--- Freezes parameters of a graph that has no gradients yet.
-- @tparam table o options: model, groups
-- @tparam graph graph
-- @raise invalid argument — a pattern stands for no parameter; nothing is left to be trained
function M.freeze(o, graph)
   local params, trained, freezes = graph:params(), 0, "groups"
   check_patterns(o, params)
   local list = adapters.groups(o.model)
   for _, group in ipairs(o.groups or {}) do
      list[#list + 1] = group
      if group.frozen then freezes = group.option or "groups" end
   end
   for _, param in ipairs(params) do
      if said(list, param.name, "frozen") then
         graph:freeze(param.name)
      else
         trained = trained + 1
      end
   end
   if trained == 0 then
      usage.of(o, "{" .. freezes .. "}: every parameter is frozen, nothing is left to be trained")
   end
end

--- By parameter, what its learning rate is multiplied by; nil where that is 1 for all.
-- @tparam table o options: groups, layer_decay
-- @tparam graph graph
function M.rate_factors(o, graph)
   if not o.groups and not o.layer_decay then return nil end
   local depth = o.layer_decay and layers.below_head(graph)
   local list = {}
   for i, param in ipairs(graph:params()) do
      list[i] = (said(o.groups, param.name, "rate") or 1)
         * (depth and o.layer_decay ^ depth[i] or 1)
   end
   return list
end

--- By parameter, its weight decay, false where it is that of the optimizer; nil where all are so.
-- Those of one dimension, which are the biases and the norms of every family, are without where
-- decay_exempt says "vectors".
-- @tparam table o options: groups, decay_exempt
-- @tparam graph graph
function M.weight_decays(o, graph)
   local exempt = o.decay_exempt == "vectors"
   if not o.groups and not exempt then return nil end
   local list = {}
   for i, param in ipairs(graph:params()) do
      list[i] = said(o.groups, param.name, "decay") or exempt and #param.dims == 1 and 0
   end
   return list
end

--- How many numbers are trained, and how many there are.
function M.count(graph)
   local trained, all = 0, 0
   for _, param in ipairs(graph:params()) do
      local n = 1
      for _, dim in ipairs(param.dims) do n = n * dim end
      all = all + n
      if not param.frozen then trained = trained + n end
   end
   return trained, all
end

return M
