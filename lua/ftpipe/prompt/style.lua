--- Colours, where they are wanted: on a terminal, unless NO_COLOR is set or the terminal is dumb.

local core = require("ftpipe.core")
local words = require("ftpipe.base.words")

local M = {}

--- Whether what goes to a file of the process (1: stdout, 2: stderr) has colours.
local function is_coloured(fd)
   local off, force = os.getenv("NO_COLOR"), os.getenv("CLICOLOR_FORCE")
   if off and off ~= "" then return false end
   if force and force ~= "" and force ~= "0" then return true end
   return core.sys.isatty(fd) and os.getenv("TERM") ~= "dumb"
end

local function coloured(fd, code, text)
   return is_coloured(fd) and ("\27[%sm%s\27[0m"):format(code, text) or text
end

--- A prompt in bold; libedit counts what is between two \1 as no column.
function M.prompt(text)
   if not is_coloured(1) then return text end
   return ("\1\27[1m\1%s\1\27[0m\1"):format(text)
end

--- Text as the terminal is wide, without so many characters in front of each line; as it is where
-- stdout is none.
function M.as_wide(text, taken)
   local columns = core.sys.isatty(1) and core.sys.columns()
   return columns and words.wrapped(text, math.max(1, columns - (taken or 0))) or text
end

--- Says what went wrong, on stderr.
function M.problem(text) io.stderr:write(coloured(2, "31", text), "\n") end

--- Says something beside what was asked for, to people only.
function M.note(text)
   if core.sys.isatty(1) then print(coloured(1, "2", text)) end
end

return M
