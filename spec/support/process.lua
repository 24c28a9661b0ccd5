--- Runs programs, for specs of the command line.

local core = require("ftpipe.core")

local M = {}

local function quote(word)
   return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- A fresh directory under the system's temporary one.
function M.directory()
   local pipe = assert(io.popen("mktemp -d"))
   local path = pipe:read("*l")
   pipe:close()
   return path
end

function M.remove(directory)
   os.execute("rm -rf " .. quote(directory))
end

--- Runs a shell command: what it printed, what it said on stderr, its exit code.
function M.shell(command)
   local directory = M.directory()
   local pipe = assert(io.popen(("{ %s\n} 2>%s/err; echo \"|$?\""):format(command, directory)))
   local out, code = pipe:read("*a"):match("^(.*)|(%d+)\n$")
   pipe:close()
   local err = core.sys.read_file(directory .. "/err")
   M.remove(directory)
   return out, err, tonumber(code)
end

--- Runs this program with arguments; stdin is empty, or the given text. It has so many seconds.
function M.ftpipe(arguments, stdin, seconds)
   local words = { ("timeout -k 5 %d"):format(seconds or 60), quote(core.sys.executable()) }
   for _, word in ipairs(arguments) do words[#words + 1] = quote(word) end
   return M.shell(("printf %%s %s | %s"):format(quote(stdin or ""), table.concat(words, " ")))
end

return M
