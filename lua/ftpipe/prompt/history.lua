--- The chunks that were typed, kept for the next time: $XDG_STATE_HOME/ftpipe/history, else
-- ~/.local/state/ftpipe/history. A chunk is a line there, with \r for each newline in it. It is
-- appended at once, so that prompts beside each other lose nothing; a file that has grown large
-- becomes history.1, from which is read on.

local core = require("ftpipe.core")

local M = {}

local MOST_LINES = 10000 -- that the arrow keys reach
local MOST_BYTES = 2 ^ 21 -- of a file

--- The path of the file; nil without a home.
function M.path()
   local state, home = os.getenv("XDG_STATE_HOME"), os.getenv("HOME")
   if state and state:find("^/") then return state .. "/ftpipe/history" end
   return home and home ~= "" and home .. "/.local/state/ftpipe/history" or nil
end

--- The last chunks of all prompts, the newest last.
function M.read()
   local path, lines = M.path(), {}
   for _, name in ipairs(path and { path .. ".1", path } or {}) do
      local file = io.open(name)
      for line in file and file:lines() or function() return nil end do
         lines[#lines + 1] = line:gsub("\r", "\n")
      end
      if file then file:close() end
   end
   return { unpack(lines, math.max(1, #lines - MOST_LINES + 1)) }
end

--- Appends a chunk.
-- @treturn string what went wrong, nil when nothing did
function M.append(text)
   local line = text:gsub("\r?\n", "\r")
   local path = M.path()
   if not path then return "there is no home directory" end
   local made, problem = pcall(core.sys.mkdir, (path:match("^(.*)/")))
   if not made then return tostring(problem) end
   local _, bytes = core.sys.exists(path)
   if (bytes or 0) > MOST_BYTES then os.rename(path, path .. ".1") end
   local file
   file, problem = io.open(path, "a")
   if not file then return problem end
   file:setvbuf("full", #line + 64) -- one write, which the system appends whole
   local written
   written, problem = file:write(line, "\n")
   if written then written, problem = file:flush() end
   file:close()
   return not written and problem or nil
end

return M
