--- ftpipe completion bash|zsh|fish: what a shell is to know of ftpipe, for its completion.

local modules = require("ftpipe.base.modules")
local options = require("ftpipe.plan.options")
local usage = require("ftpipe.base.usage")

local M = { help = "completion for a shell: bash, zsh, fish" }

local HELP = [[
usage: ftpipe completion bash|zsh|fish
Prints what the shell is to know: commands, flags of commands and of recipes, files.

  eval "$(ftpipe completion bash)"
  eval "$(ftpipe completion zsh)"
  ftpipe completion fish | source]]

-- Flags of a command are those that it says itself; recipes are not run for theirs.
local BASH = [==[
_ftpipe() {
    local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "@commands@" -- "$word") $(compgen -f -- "$word"))
    elif [[ $word == --* ]]; then
        local flags="@flags@"
        case " @commands@ " in
        *" $command "*)
            flags=$(ftpipe "$command" --help all 2>/dev/null |
                grep -o -- '--[a-z][a-z-]*' | sort -u)
            ;;
        esac
        COMPREPLY=($(compgen -W "$flags" -- "$word"))
    else
        COMPREPLY=($(compgen -f -- "$word"))
    fi
}
complete -o filenames -F _ftpipe ftpipe]==]

local FISH = [==[
complete -c ftpipe -n '__fish_is_first_arg' -a '@commands@'
function __ftpipe_flags
    set -l command (commandline -opc)[2]
    if contains -- "$command" @commands@
        ftpipe $command --help all 2>/dev/null | string match -ar -- '--[a-z][a-z-]*'
    else
        string split ' ' -- '@flags@'
    end
end
complete -c ftpipe -n 'not __fish_is_first_arg' -a '(__ftpipe_flags)']==]

local SHELLS = {
   bash = BASH, fish = FISH,
   zsh = "autoload -Uz bashcompinit && bashcompinit\n" .. BASH,
}

local function commands()
   return "help " .. table.concat(modules("ftpipe.command"), " ")
end

local function flags()
   local names = { "--help", "--print-config" }
   for _, row in ipairs(options.rows) do
      if (" " .. row.of .. " "):find(" recipe ", 1, true) or row.of:find("some", 1, true) then
         names[#names + 1] = "--" .. row[1]:gsub("_", "-")
      end
   end
   return table.concat(names, " ")
end

--- @tparam {string,...} argv the words after "completion"
function M.run(argv)
   if argv[1] == "--help" or argv[1] == "-h" then return print(HELP) end
   local text = SHELLS[argv[1] or ""]
   if not text or argv[2] then usage("completion is for one of bash, zsh, fish") end
   local words = { commands = commands(), flags = flags() }
   io.stdout:write((text:gsub("@(%l+)@", words)), "\n")
end

return M
