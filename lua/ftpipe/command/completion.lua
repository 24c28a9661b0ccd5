--- ftpipe completion bash|zsh|fish: what a shell is to know of ftpipe, for its completion.
--
-- Shells know next to nothing: they ask `ftpipe completion for WORD...` what the last of the words
-- may be, which the tables of flags say.

local args = require("ftpipe.recipe.args")
local choices = require("ftpipe.plan.choices")
local copy = require("ftpipe.base.copy")
local models = require("ftpipe.model")
local modules = require("ftpipe.base.modules")
local options = require("ftpipe.plan.options")
local opts = require("ftpipe.base.opts")
local usage = require("ftpipe.base.usage")

local M = { help = "completion for a shell: bash, zsh, fish" }

local HELP = [[
usage: ftpipe completion bash|zsh|fish
       ftpipe completion for WORD...
Prints what the shell is to know. It then asks what the last of the words behind `for` may be:
commands, their words and flags, those of recipes, what flags may say. The answer is a line "files"
or "words", whether a file may stand there as well, and a line for each word.

  eval "$(ftpipe completion bash)"
  eval "$(ftpipe completion zsh)"
  ftpipe completion fish | source]]

local SHELLS = {}

SHELLS.bash = [==[
_ftpipe() {
    local word=${COMP_WORDS[COMP_CWORD]} said
    said=$(ftpipe completion for "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    [ "$word" = = ] && word=
    local IFS=$'\n' # names of files may have blanks; "files" and "words" are as long
    COMPREPLY=($(compgen -W "${said:6}" -- "$word"))
    [[ $said == files* ]] && COMPREPLY+=($(compgen -f -- "$word"))
}
complete -o filenames -F _ftpipe ftpipe]==]

SHELLS.zsh = [==[
#compdef ftpipe
_ftpipe() {
    local -a said
    local none=1
    said=("${(@f)$(ftpipe completion for "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    [[ $words[CURRENT] == --*=* ]] && compset -P '*='
    (( $#said > 1 )) && compadd -- "${(@)said[2,-1]}" && none=0
    [[ $said[1] == files ]] && _files && none=0
    return none
}
if [[ $funcstack[1] == _ftpipe ]]; then _ftpipe "$@"; else compdef _ftpipe ftpipe; fi]==]

SHELLS.fish = [==[
function __ftpipe_said
    set -l words (commandline -opc)
    set -e words[1]
    set -l word (commandline -ct)
    ftpipe completion for $words "$word" 2>/dev/null
end
function __ftpipe_words
    set -l flag (string match -r -- '^--[^=]+=' (commandline -ct))
    for word in (__ftpipe_said)[2..-1]
        printf '%s\n' "$flag$word"
    end
end
function __ftpipe_takes_files
    test (__ftpipe_said)[1] = files
end
complete -c ftpipe -f
complete -c ftpipe -a '(__ftpipe_words)'
complete -c ftpipe -n __ftpipe_takes_files -F]==]

-- ---------------------------------------------------------------------------------------------
-- What a word may be.

local function is_command(name)
   for _, command in ipairs(modules("ftpipe.command")) do
      if name == command then return true end
   end
   return false
end

--- What all recipes declare, or may declare; they are not run for flags of their own.
local function of_recipes()
   local declared = {}
   for _, row in ipairs(options.rows) do
      if (" " .. row.of .. " "):find(" recipe ", 1, true) or row.of:find("some", 1, true) then
         declared[row[1]] = true
      end
   end
   return declared
end

--- The rules of the flags that may stand behind some words, by their names with dashes.
local function rules_behind(words)
   local command = is_command(words[1]) and require("ftpipe.command." .. words[1])
   local takes_recipe = words[1] == "run" or words[1] == "plan"
   local is_recipe, are_all_its = not command, false
   for i = 2, #words - 1 do
      are_all_its = are_all_its or is_recipe and words[i] == "--" -- what follows is the recipe's
      is_recipe = is_recipe or takes_recipe and words[i]:find("%.lua$") ~= nil
   end
   local rules = { ["--help"] = { type = "boolean" } }
   if is_recipe then rules["--print-config"] = { type = "boolean" } end
   local own = command and command.declared or {}
   local declared = own
   if is_recipe then
      local is_run = words[1] == "run" and not are_all_its
      declared = copy(of_recipes(), is_run and own or nil)
   end
   for _, flag in ipairs(args.flags(declared)) do rules[flag.flag] = flag.rule end
   return rules
end

-- What may stand for a value of any text; and what `value` of a rule names in small letters.
local USUAL = { ["--partition"] = choices.partitions, ["--model"] = models.builtin_names() }

--- What a flag may say, and whether that may be a file.
local function values_of(flag, rule)
   if rule.choices then return rule.choices, false end
   local list = { unpack(USUAL[flag] or {}) }
   for word in (rule.value or ""):gmatch("[^|]+") do
      if word:find("^%l+$") then list[#list + 1] = word end
   end
   return list, opts.type_of(rule) == "string"
end

--- What the words of a command in front of its flags may be.
local function words_of(command)
   if command == "help" then return modules("ftpipe.command") end
   local own = is_command(command) and require("ftpipe.command." .. command).words
   return own and own() or {}
end

--- Words with "--flag", "=" and "value" in one, which bash takes apart.
local function joined(words)
   local list = {}
   for i, word in ipairs(words) do
      local is_parted = list[1] and list[#list]:find("^%-%-")
      if is_parted and (word == "=" or words[i - 1] == "=") then
         list[#list] = list[#list] .. word
      else
         list[#list + 1] = word
      end
   end
   return list
end

--- What the last word may be.
-- @tparam {string,...} words behind "ftpipe"
-- @treturn {string,...} sorted
-- @treturn boolean whether a file may be there as well
-- @local
function M.candidates(words)
   words = joined(words)
   local last = words[#words] or ""
   if #words < 2 then
      local list = modules("ftpipe.command")
      list[#list + 1] = "help"
      table.sort(list)
      return list, true
   end
   local rules = rules_behind(words)
   local flag = last:match("^(%-%-[^=]+)=") or words[#words - 1]
   local rule = rules[flag]
   if rule and opts.type_of(rule) ~= "boolean" then return values_of(flag, rule) end
   if last:find("^%-") then return opts.names(rules), false end
   return #words == 2 and words_of(words[1]) or {}, true
end

function M.words() return opts.names(SHELLS) end

--- @tparam {string,...} argv the words after "completion"
function M.run(argv)
   if argv[1] == "for" then
      local list, takes_files = M.candidates { unpack(argv, 2) }
      return print(table.concat({ takes_files and "files" or "words", unpack(list) }, "\n"))
   end
   if argv[1] == "--help" or argv[1] == "-h" then return print(HELP) end
   local text = SHELLS[argv[1] or ""]
   if not text or argv[2] then usage("completion is for one of bash, zsh, fish") end
   print(text)
end

return M
