--- The prompt: lines in, values out.
-- The JIT compiler is off here, since compiled loops do not see Ctrl-C.

local core = require("ftpipe.core")

local M = {}

--- The chunk of a text: an expression when it is one, else statements. The third result tells that
-- more lines could complete it.
function M.compile(text)
   local expression = text:match("^%s*=(.*)$") or text
   local chunk = loadstring("return " .. expression, "=stdin")
   if chunk then return chunk end
   local problem
   chunk, problem = loadstring(text, "=stdin")
   return chunk, problem, not chunk and problem:find("'<eof>'", 1, true) ~= nil
end

--- The values of a chunk as one line of text, or nil when there are none.
local function show(n, ...)
   if n == 0 then return nil end
   local texts = {}
   for i = 1, n do texts[i] = tostring((select(i, ...))) end
   return table.concat(texts, "\t")
end

local function traceback(problem)
   if type(problem) ~= "string" then return tostring(problem) end
   return (debug.traceback(problem, 2):gsub("\n%s*%[C%]: in function 'xpcall'.*$", ""))
end

local function collect(ok, ...)
   if not ok then return false, (...) end
   return true, show(select("#", ...), ...)
end

--- Runs a chunk: true and what to print (nil for nothing), or false and what went wrong.
function M.evaluate(chunk)
   return collect(xpcall(chunk, traceback))
end

--- Reads one chunk, over several lines when the first is not complete; nil at the end of input.
local function read_chunk(read_line)
   local text = read_line("> ")
   while text do
      local chunk, problem, more = M.compile(text)
      if chunk then return chunk end
      if not more then return false, problem end
      local line = read_line(">> ")
      if line == false then return false end
      if line == nil then return false, problem end
      text = text .. "\n" .. line
   end
   return text
end

--- Reads, runs and prints until the end of input.
function M.run(read_line)
   if jit then jit.off() end
   rawset(_G, "ft", require("ftpipe"))
   print(("ftpipe %s, %d cores; ft is loaded, Ctrl-D ends"):format(core.version, core.sys.cores()))
   while true do
      local chunk, problem = read_chunk(read_line)
      if chunk == nil then return end
      if chunk then
         local ok, text = M.evaluate(chunk)
         core.sys.clear_interrupt()
         if not ok then problem = text elseif text then print(text) end
      end
      if problem then io.stderr:write(problem, "\n") end
   end
end

return M
