--- What the program says about itself: help, version, and usage errors; and its sub-commands.
-- src/app/main.c calls these; nothing here is loaded by a script that runs.
--
-- A sub-command is a module command/NAME.lua: a table with `help`, a line for --help, and
-- `run(argv)`, which gets the words after its name.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local help = require("ftpipe.prompt.help")
local modules = require("ftpipe.base.modules")
local shared = require("ftpipe.base.shared")
local style = require("ftpipe.prompt.style")
local suggest = require("ftpipe.base.suggest")

local M = {}

local USAGE = [==[
usage: ftpipe [options] [FILE [arguments]]
       ftpipe COMMAND [arguments]
       ftpipe help [COMMAND|NAME|PAGE]    as: help plan, help ft.explore, help schedules

Runs the Lua script FILE, as a recipe for fine-tuning. Without FILE: a prompt on a terminal,
else the script is read from standard input. Commands, each with a --help of its own:

%s

  -e CODE      run CODE
  -l MODULE    require MODULE
  -i, -q       prompt after running; a prompt that begins without a word
  --color=WHEN colours: always, never, or auto, on terminals alone
  -, --        run standard input; end of options
  -v, -h       print the version; print this, as --help does

A recipe has its own flags: ftpipe recipes/t5_rte.lua --help

  ftpipe recipes/t5_rte.lua --devices cpu:2
  ftpipe recipes/t5_rte.lua --model DIR --data DIR --out out/rte
  ftpipe -e 'print(require("ftpipe").tensor.arange(5))'

signals:     TERM, INT save a run and end it (twice: at once); USR1 saves, USR2 traces, QUIT reports
environment: FTPIPE_LUA=DIR   Lua modules that come before those inside the program
             FTPIPE_KERNELS   the best kernels on CPUs, as "avx2" (ftpipe help hardware)
             XDG_CACHE_HOME   what is kept goes to ftpipe/ in it, instead of ~/.cache
exit codes:  0 done, 1 error, 2 usage, 3 plan does not fit, 4 diverged, 5 lost worker,
             6 bad data or checkpoint, 75 stopped and saved, 130 interrupted, 143 terminated]==]

local OPTIONS = { "-e", "-l", "-i", "-q", "-v", "-h", "--help", "--version", "--color=auto",
   "--color=always", "--color=never", "-", "--" }

local function usage_error(format, ...)
   core.fail("invalid argument", format:format(...), 2)
end

--- The names of the sub-commands, sorted.
function M.commands() return modules("ftpipe.command") end

function M.help()
   local lines = {}
   for i, name in ipairs(M.commands()) do
      lines[i] = ("  %-12s %s"):format(name, require("ftpipe.command." .. name).help)
   end
   print((USAGE:gsub("%%s", function() return table.concat(lines, "\n") end)))
end

function M.version()
   local runtime = type(jit) == "table" and jit.version or _VERSION
   print(("ftpipe %s (%s, %s)"):format(core.version, runtime, counted(core.sys.cores(), "core")))
end

function M.bad_option(option)
   if option == "-e" or option == "-l" then
      usage_error("option %s needs a value; see ftpipe --help", option)
   end
   if option:find("^%-%-color") then
      usage_error("option %s: expected --color=auto, --color=always or --color=never", option)
   end
   usage_error("unknown option '%s'%s; see ftpipe --help", option, suggest.hint(option, OPTIONS))
end

--- Files near the wanted one: of its own directory, with the directory in front.
local function neighbours(path)
   local directory, name = path:match("^(.*/)([^/]*)$")
   local found, names = pcall(core.sys.list_dir, directory or ".")
   if not found then return nil end
   return suggest.nearest(name or path, names), directory or ""
end

-- What people type of what recipes do.
local TRAINS = { train = true, finetune = true, ["fine-tune"] = true, fit = true, eval = true,
   evaluate = true }

local function no_script(path)
   local is_name = path:find("^[%w_]+$") ~= nil
   if core.sys.exists(path) then
      usage_error("'%s' is a directory; expected a Lua script", path)
   end
   if TRAINS[path] then
      usage_error("there is no file or command '%s': a recipe does that, as ftpipe %s; see ftpipe "
         .. "--help", path, shared("recipes/t5_rte.lua") or "recipes/t5_rte.lua")
   end
   local installed = shared(path)
   if installed then
      usage_error("there is no file '%s' here, but ftpipe %s", path, installed)
   end
   local name, directory = neighbours(path)
   if is_name and not name then name, directory = suggest.nearest(path, M.commands()), "" end
   local hint = name and (" (did you mean '%s%s'?)"):format(directory, name) or ""
   usage_error("there is no file %s'%s'%s; see ftpipe --help", is_name and "or command " or "",
      path, hint)
end

local function is_command(name)
   for _, known in ipairs(M.commands()) do
      if name == known then return true end
   end
   return false
end

--- ftpipe help [COMMAND [all]], or on what Lua has, an option, or a page.
local function help_on(topic, ...)
   if not topic then return M.help() end
   if is_command(topic) then return M.command(topic, "--help", ...) end
   if core.sys.exists(topic) == "file" then
      usage_error("a script has its own help: ftpipe %s --help", topic)
   end
   local text = help.on_name(topic)
   if not text then
      local hint = suggest.hint(topic, M.commands())
      usage_error("there is no help on '%s'%s; see ftpipe --help", topic,
         hint ~= "" and hint or help.hint(topic))
   end
   io.stdout:write(style.as_wide(text), "\n")
end

--- What is not a file: a sub-command with its arguments, help on one, or an error.
function M.command(name, ...)
   if name == "help" then return help_on(...) end
   if is_command(name) then return require("ftpipe.command." .. name).run { ... } end
   return no_script(name)
end

--- Of a process that a launcher started with others: meets them; rank 0 goes on, the others serve.
function M.allow_kernels(name) core.sys.allow_kernels(name) end

function M.join() require("ftpipe.run.ranks").join() end

function M.repl(terminal, quiet)
   require("ftpipe.prompt.repl").run(terminal, quiet)
end

return M
