--- Runs programs, for specs of the command line.

local argvs = require("ftpipe.base.argv")
local assert = require("luassert")
local core = require("ftpipe.core")
local files = require("spec.support.files")

local M = {}

--- Runs a shell command: what it printed, what it said on stderr, its exit code.
function M.shell(command)
   local directory = files.directory()
   local pipe = assert(io.popen(("{ %s\n} 2>%s/err; echo \"|$?\""):format(command, directory)))
   local out, code = pipe:read("*a"):match("^(.*)|(%d+)\n$")
   pipe:close()
   local err = core.sys.read_file(directory .. "/err")
   files.remove(directory)
   return out, err, tonumber(code)
end

-- What hangs is ended after so many seconds; a machine that does other work as well takes longer.
local SECONDS = 900

--- Runs this program with arguments; stdin is empty, or the given text. It has so many seconds.
function M.ftpipe(arguments, stdin, seconds)
   return M.shell(("printf %%s %s | timeout -k 5 %d %s"):format(argvs.quoted(stdin or ""),
      seconds or SECONDS, argvs.line { core.sys.executable(), unpack(arguments) }))
end

--- Runs this program with arguments that a sweep gives a trial.
function M.trial(arguments)
   return M.shell("FTPIPE_TRIAL=1:/none "
      .. argvs.line { core.sys.executable(), unpack(arguments) })
end

--- Runs this program, which must refuse: with this exit code, and one line that matches.
-- @treturn string what it printed before
function M.refused(code, pattern, arguments, stdin)
   local out, err, exit = M.ftpipe(arguments, stdin)
   assert.equal(code, exit, err)
   assert.matches(pattern, err)
   assert.equal(1, select(2, err:gsub("\n", "")), err)
   return out
end

return M
