--- The flags of a recipe, from declarations.
--
--    local args = ft.args {
--       "Fine-tune T5 on RTE.",                       -- what --help says first
--       "ftpipe SCRIPT --devices cpu:2",               -- examples, any number
--       preset = "fine_tune",                         -- all that one of those below declares
--       devices = true,                               -- a common flag as it is
--       steps = { default = 400 },                    -- a common flag with another default
--       max_target = { default = false },             -- or with none
--       beams = { default = 1, min = 1, help = "width" },   -- one of its own
--       with = { model = { steps = 4200 } },          -- defaults that hold when --model is given
--    }
--
-- SCRIPT in an example is the script's own name. --micro-batches is args.micro_batches. Rules are
-- those of ft.opts. A flag of type "boolean" takes no value. A wrong flag or value ends the
-- program with one line and exit code 2.

local argparse = require("argparse")
local class = require("ftpipe.base.class")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local guard = require("ftpipe.base.guard")
local named = require("ftpipe.base.named")
local number_text = require("ftpipe.base.number_text")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local run_name = require("ftpipe.store.name")
local suggest = require("ftpipe.base.suggest")
local trial = require("ftpipe.base.trial")

local M = {}

--- Declarations that a recipe, or another preset, may begin from.
local PRESETS = {
   fine_tune = options.flags("recipe"),
   -- What the recipes of T5 have in common: the tiny one inside the program learns with AdamW; one
   -- that was given, with FTPipe's Adafactor (Eliad et al., USENIX ATC 2021).
   t5 = {
      [2] = "ftpipe SCRIPT",
      [3] = "ftpipe SCRIPT --model DIR --data DIR --devices cpu:2 --schedule async",
      [4] = "ftpipe SCRIPT --model t5-3b --devices sim:8x11GB",
      preset = "fine_tune",
      model = { default = "embedded:t5_tiny" },
      devices = { default = "cpu:2" },
      batch = { default = 32 },
      lr = { default = 1e-3 },
      clip = { default = 0 },
      max_source = true,
      max_target = { min = 2 }, -- one of which is </s>
      with = { model = { optimizer = "adafactor", lr = 1e-3 } },
   },
}

--- Keys of a declaration that are no flags.
local NO_FLAGS = { preset = true, with = true }

local function merged(rule, changes)
   local result = copy(rule, changes)
   if result.default == false and opts.type_of(result) ~= "boolean" then result.default = nil end
   return result
end

--- Two declarations of a flag as one.
local function joined(base, own)
   if type(base) == "table" and own == true then return base end
   if type(base) == "table" and type(own) == "table" then return merged(base, own) end
   return own
end

-- What a rule may say.
local RULE = {}
for _, key in ipairs { "default", "help", "type", "choices", "min", "max", "above", "required",
   "items", "remedy", "follows", "value", "short", "rare", "decides", "trains" }
do
   RULE[key] = true
end

--- Refuses a rule that says what none does.
local function check_rule(name, rule)
   for key in pairs(rule) do
      if not RULE[key] then
         local known = opts.names(RULE)
         opts.fail("ft.args", "the rule of '%s' has a key %s%s (expected some of: %s)", name,
            class.quoted(key), suggest.hint(tostring(key), known), table.concat(known, ", "))
      end
   end
end

--- Refuses a declaration whose help is no text, or whose flags are no rules.
local function check_declaration(declared)
   for key, own in pairs(declared) do
      local fine = key == "preset" or type(key) == "number" and type(own) == "string"
         or type(key) == "string" and (type(own) == "table" or own == true or own == false)
      if not fine then
         opts.fail("ft.args", type(key) == "number"
            and "line %s of the help is a %s, expected a text"
            or "'%s' is a %s, expected true, false or a rule, { default =, help = }",
            tostring(key), type(own))
      end
      if type(own) == "table" and not NO_FLAGS[key] then check_rule(key, own) end
   end
end

--- The names of the presets.
-- @local
function M.presets() return opts.names(PRESETS) end

--- A declaration with what its preset declares.
local function with_preset(declared)
   check_declaration(declared)
   local name = declared.preset
   if not name then return declared end
   if not PRESETS[name] then
      opts.fail("ft.args", "no preset is called '%s' (there are: %s)", tostring(name),
         table.concat(opts.names(PRESETS), ", "))
   end
   local base = with_preset(PRESETS[name])
   local all = copy(base)
   for key, own in pairs(declared) do all[key] = joined(base[key], own) end
   all.with = {}
   for _, part in ipairs { base.with or {}, declared.with or {} } do
      for flag, defaults in pairs(part) do
         all.with[flag] = merged(all.with[flag] or {}, defaults)
      end
   end
   return all
end

--- The declared flags as a list of { name =, flag =, rule = }: common ones first.
local function flags_of(declared)
   local flags, seen = {}, {}
   local function add(name, rule)
      seen[name] = true
      flags[#flags + 1] = { name = name, flag = "--" .. name:gsub("_", "-"), rule = rule }
   end
   for _, row in ipairs(options.rows) do -- what every recipe may declare with `name = true`
      local own = declared[row[1]]
      if own then add(row[1], own == true and row or merged(row, own)) end
   end
   for _, name in ipairs(opts.names(declared)) do
      local own = declared[name]
      if own and not seen[name] and not NO_FLAGS[name] then
         if type(own) ~= "table" then
            opts.fail("ft.args", "'%s' is no common flag; expected { default =, help = }", name)
         end
         add(name, own)
      end
   end
   return flags
end

--- The flags of a declaration: { name =, flag = "--micro-batches", rule = }, common ones first.
-- @tparam table declaration
-- @local
function M.flags(declaration) return flags_of(with_preset(declaration)) end

local function value_name(rule)
   if opts.type_of(rule) == "boolean" then return "" end
   if rule.value then return " " .. rule.value end
   if rule.choices then return " " .. table.concat(rule.choices, "|") end
   return opts.type_of(rule) == "string" and " TEXT" or " N"
end

--- " [32; 40 with --model]": the default, and those that come with other flags.
local function default_note(flag, with)
   local default, notes = flag.rule.default, {}
   if default ~= nil and default ~= false then notes[1] = tostring(default) end
   for _, other in ipairs(opts.names(with or {})) do
      local value = with[other][flag.name]
      if value ~= nil and value ~= default then
         notes[#notes + 1] = ("%s with --%s"):format(tostring(value), (other:gsub("_", "-")))
      end
   end
   return notes[1] and (" [%s]"):format(table.concat(notes, "; ")) or ""
end

local COLUMN, WIDTH = 34, 100 -- where what flags are for begins, and where lines end

--- A text behind a line's beginning, in lines that are not too long; those behind the first begin
-- with so many blanks.
local function wrapped(line, text, indent)
   local lines = {}
   for word in text:gmatch("%S+") do
      if #line + #word > WIDTH then
         lines[#lines + 1], line = line:gsub("%s+$", ""), (" "):rep(indent)
      end
      line = line .. word .. " "
   end
   lines[#lines + 1] = line:gsub("%s+$", "")
   return table.concat(lines, "\n")
end

local function flag_line(flag, with)
   local rule = flag.rule
   local left = "  " .. (rule.short and rule.short .. ", " or "") .. flag.flag .. value_name(rule)
   return wrapped(left .. (" "):rep(math.max(COLUMN - #left, 2)),
      (rule.help or "") .. default_note(flag, with), COLUMN)
end

-- What `read` knows besides the declared flags.
local PRINT_CONFIG = { name = "print_config", flag = "--print-config", rule = { type = "boolean",
   help = "the flags with their values, and where they are from; runs nothing" } }

--- A line with as many names of rare flags as it has room for.
local function rare_line(rare)
   local line, n = "  --help all: also " .. rare[1], 1
   while rare[n + 1] and #line + #rare[n + 1] + #",  and 99 more" <= WIDTH do
      n = n + 1
      line = line .. ", " .. rare[n]
   end
   return rare[n + 1] and ("%s and %d more"):format(line, #rare - n) or line
end

--- The text of --help. Flags with one choice only are left out, there is nothing to choose; rare
-- ones are named, as many as a line holds, unless `all` is asked for.
-- @tparam table declaration
-- @tparam string script its name, for people
-- @tparam[opt] boolean all
function M.help(declaration, script, all)
   local declared, rare = with_preset(declaration), {}
   local lines = { ("usage: ftpipe %s [--flag VALUE ...]"):format(script) }
   lines[#lines + 1] = declared[1]
   lines[#lines + 1] = declared[1] and ""
   for _, flag in ipairs(flags_of(declared)) do
      local words = flag.rule.choices
      if flag.rule.rare and not all then
         rare[#rare + 1] = flag.flag
      elseif not words or #words > 1 then
         lines[#lines + 1] = flag_line(flag, declared.with)
      end
   end
   if all then
      lines[#lines + 1] = flag_line(PRINT_CONFIG)
   else
      rare[#rare + 1] = PRINT_CONFIG.flag
   end
   if rare[1] then
      lines[#lines + 1] = rare_line(rare)
   end
   if declared[2] then lines[#lines + 1] = "" end
   for i = 2, #declared do
      lines[#lines + 1] = "  " .. declared[i]:gsub("SCRIPT", function() return script end)
   end
   return table.concat(lines, "\n")
end

local function build_parser(flags)
   local parser = argparse("ftpipe"):add_help(false)
   for _, flag in ipairs(flags) do
      local names = (flag.rule.short and flag.rule.short .. " " or "") .. flag.flag
      if opts.type_of(flag.rule) == "boolean" then
         parser:flag(names):target(flag.name)
      else
         parser:option(names):target(flag.name):convert(function(text)
            local value, problem = opts.convert(flag.rule, text)
            if value ~= nil then return value end
            return nil, ("%s: %s"):format(flag.flag, problem)
         end)
      end
   end
   return parser
end

--- Flags that are followed by a value: { ["--steps"] = true }.
local function flags_with_value(flags)
   local takes_value = {}
   for _, flag in ipairs(flags) do
      takes_value[flag.flag] = opts.type_of(flag.rule) ~= "boolean"
   end
   return takes_value
end

--- The words with "--lr -1" as "--lr=-1" and "--out -" as "--out=-", and so a word with a space,
-- which is no flag: argparse takes what begins with "-" for one.
local function with_joined_values(argv, flags)
   local words, takes_value = {}, flags_with_value(flags)
   for i, word in ipairs(argv) do
      local value = word == "-" or word:find("^%-%.?%d") or word:find("^%-.*%s")
      if value and takes_value[argv[i - 1]] then
         words[#words] = words[#words] .. "=" .. word
      else
         words[#words + 1] = word
      end
   end
   return words
end

--- The first word that is neither a flag nor its value.
local function find_stray(argv, flags)
   local takes_value = flags_with_value(flags)
   for i, word in ipairs(argv) do
      if not word:find("^%-.") and not takes_value[argv[i - 1]] then return word end
   end
end

--- Makes one line of what argparse found wrong, with our own hint for unknown flags.
local function one_line(message, flags, argv)
   local lacking = message:match("^option '(.-)' requires an argument")
   for _, flag in ipairs(lacking and flags or {}) do
      if lacking == flag.flag or lacking == flag.rule.short then
         return ("%s has no value, expected %s%s"):format(lacking, lacking, value_name(flag.rule))
      end
   end
   local full = message:match("^option '(.-)' does not take arguments")
   if full then return full .. " takes no value; see --help" end
   local wrong = message:match("^unknown option '(.-)'")
   local stray = message == "too many arguments" and find_stray(argv, flags)
   if stray then
      return ("unexpected word '%s', it is behind no flag (words of a command come in front of its "
         .. "flags); see --help"):format(stray)
   end
   if not wrong then return (message:gsub("%s*\n%s*", "; ")) end
   return ("unknown flag '%s'%s; see --help"):format(wrong,
      suggest.hint(wrong, column(flags, "flag")))
end

--- Defaults that come with flags that were given; of several for one name that of the last flag
-- by the alphabet, as `origins_of` says.
local function defaults_with(declared, result)
   local defaults = {}
   for _, flag in ipairs(opts.names(declared.with or {})) do
      local values = declared.with[flag]
      if result[flag] ~= nil then
         for name, value in pairs(values) do defaults[name] = value end
      end
   end
   return defaults
end

--- Flags that say the same in two ways: one that is given goes before the other's default.
local INSTEAD = { steps = "epochs", epochs = "steps" }

--- Names of flags whose default does not hold, since another one is given in their place.
local function replaced(result)
   local names = {}
   for name, other in pairs(INSTEAD) do
      if result[name] ~= nil then names[other] = true end
   end
   if names.steps and names.epochs then
      core.fail("invalid argument", "--steps and --epochs say the same in two ways, give one", 2)
   end
   return names
end

local NAMED = { DIR = "a directory", FILE = "a file", ["FILE.lua"] = "a file", NAME = "a name" }

--- Refuses a file or directory without a name, as a variable leaves it that a shell does not know.
local function check_named(flags, result)
   for _, flag in ipairs(flags) do
      local kinds, value = {}, flag.rule.value or ""
      for kind in value:gmatch("[^|]+") do kinds[#kinds + 1] = NAMED[kind] end
      local is_path = value:find("%f[%u]DIR%f[%U]") or value:find("%f[%u]FILE%f[%U]")
      if is_path and result[flag.name] == "" then
         core.fail("invalid argument", ("%s is empty: give it %s"):format(flag.flag,
            table.concat(kinds, " or ")), 2)
      end
   end
end

--- Refuses flags beside one that decides what they say.
local function check_decided(flags, given)
   for _, flag in ipairs(flags) do
      for _, other in ipairs(given[flag.name] and flag.rule.decides or {}) do
         if given[other] then
            core.fail("invalid argument", ("%s decides what --%s says, leave one out"):format(
               flag.flag, (other:gsub("_", "-"))), 2)
         end
      end
   end
end

--- Refuses flags of training where there is none; beside --resume the run directory says more.
local function check_trains(flags, given, values)
   local trains = values.resume or not values.eval_only
   for _, flag in ipairs(trains and {} or flags) do
      if flag.rule.trains and given[flag.name] then
         core.fail("invalid argument", ("%s is for training, and --eval-only does not train, leave "
            .. "one out"):format(flag.flag), 2)
      end
   end
end

--- By name of a flag, where its value is from.
local function origins_of(declared, flags, result, given)
   local origins, common = {}, {}
   for _, row in ipairs(options.rows) do common[row[1]] = row end
   for _, flag in ipairs(flags) do
      local name, row = flag.name, common[flag.name]
      origins[name] = row and row.default == flag.rule.default and "default" or "recipe"
      for _, other in ipairs(opts.names(declared.with or {})) do
         if result[other] ~= nil and declared.with[other][name] ~= nil then
            origins[name] = "recipe, with --" .. other:gsub("_", "-")
         end
      end
      if given[name] then origins[name] = trial.own() and named.SWEEP or named.COMMAND_LINE end
   end
   return origins
end

--- Refuses defaults beside a flag of what is no flag.
local function check_with(declaration, flags)
   local names, known = column(flags, "name"), {}
   for _, name in ipairs(names) do known[name] = true end
   for beside, defaults in pairs(declaration.with or {}) do
      for name in pairs(defaults) do
         if not known[name] then
            opts.fail("ft.args", "with.%s: there is no flag '%s'%s", beside, tostring(name),
               suggest.hint(tostring(name), names))
         end
      end
   end
end

--- What a flag is when it was not given: the default of what was given beside it, else its own.
local function default_of(flag, defaults)
   local default = defaults[flag.name]
   if default == nil then default = flag.rule.default end
   if default == nil then return nil end
   local value, problem = opts.convert(flag.rule, default)
   if problem then opts.fail("ft.args", "default of '%s': %s", flag.name, problem) end
   return value
end

--- Reads flags.
-- @tparam table declaration
-- @tparam table argv list of strings
-- @treturn table the values, with defaults
-- @treturn table which names were given: { steps = true }
function M.parse(declaration, argv)
   local declared = with_preset(declaration)
   local flags = flags_of(declared)
   check_with(declaration, flags)
   for i, word in ipairs(argv) do
      if type(word) ~= "string" then
         opts.fail("ft.args", "word %d of the command line is a %s, expected a text", i, type(word))
      end
   end
   local ok, result = build_parser(flags):pparse(with_joined_values(argv, flags))
   if not ok then core.fail("invalid argument", one_line(result, flags, argv), 2) end
   check_named(flags, result)
   local values, given, defaults = {}, {}, defaults_with(declared, result)
   local without_default = replaced(result)
   for _, flag in ipairs(flags) do
      local name, rule = flag.name, flag.rule
      given[name] = result[name] ~= nil or nil
      values[name] = result[name]
      if values[name] == nil and not without_default[name] then
         values[name] = default_of(flag, defaults)
      end
      if values[name] == nil and rule.required then
         core.fail("invalid argument", ("%s is missing%s; see --help"):format(flag.flag,
            rule.help and " (" .. rule.help .. ")" or ""), 2)
      end
   end
   check_decided(flags, given)
   check_trains(flags, given, values)
   local origins = origins_of(declared, flags, result, given)
   for _, flag in ipairs(flags) do
      if opts.follow(flag.rule, flag.name, values, given) then
         origins[flag.name] = named.FOLLOWS
      end
   end
   return named.flags(values, origins), given
end

--- Flags that were read, a line each: "--lr 0.001", and where the value is from.
-- @tparam table args of ft.args
function M.config(args)
   local names, lines, origins = {}, {}, named.origins(args)
   for name in pairs(args) do names[#names + 1] = type(name) == "string" and name or nil end
   table.sort(names)
   for i, name in ipairs(names) do
      local value = args[name]
      lines[i] = ("--%s %s"):format((name:gsub("_", "-")), type(value) == "number"
         and number_text(value) or tostring(value))
      lines[i] = ("%-36s %s"):format(lines[i], origins[name] or ""):gsub("%s+$", "")
   end
   return table.concat(lines, "\n")
end

--- Whether help is asked for, and whether for all flags.
local function wants_help(argv)
   for i, word in ipairs(argv) do
      if word == "--" then return false end
      if word == "-h" or word == "--help" then return true, argv[i + 1] == "all" end
   end
   return false
end

--- The flags among `argv`; --help prints what there is for `script` and ends the program, and so
-- does --print-config with the values and where they are from. What is printed from then on appears
-- line by line, also where stdout is a file.
function M.read(declared, argv, script)
   io.stdout:setvbuf("line")
   local wanted, all = wants_help(argv)
   if wanted then
      print(M.help(declared, script, all))
      os.exit(0, true)
   end
   local words, print_config = {}, false
   for _, word in ipairs(argv) do
      if word == PRINT_CONFIG.flag then print_config = true else words[#words + 1] = word end
   end
   if not print_config then return M.parse(declared, argv) end
   print(M.config((M.parse(declared, words))))
   os.exit(0, true)
end

guard("ft.args", M, {
   help = "declaration: table, script: string, all?: boolean",
   parse = "declaration: table, argv: table", config = "args: table",
   read = "declared: table, argv: table, script: string",
})

--- The flags of the running script: ft.args { ... }. One that is to be something else than a recipe
-- has a `refusal` among its words, which it is told.
-- @tparam table declared
-- @treturn table values by name
return setmetatable(M, { __call = function(_, declared)
   if type(declared) ~= "table" then
      opts.fail("ft.args", 'expected a table of flags, as { preset = "fine_tune" }, got a %s',
         type(declared))
   end
   local argv = rawget(_G, "arg") or {}
   if argv.refusal then core.fail("invalid argument", argv.refusal, 2) end
   local values, given = M.read(declared, argv, argv[0] or "FILE")
   if values.out == run_name.AUTO then
      local origins = named.origins(values)
      values.out = run_name.directory(values)
      named.flags(values, origins)
   end
   if not run_name.script() and #argv == 0 then named.flags(values, named.origins(values), true) end
   return values, given
end })
