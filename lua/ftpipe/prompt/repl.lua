--- The prompt: lines in, values out.
-- The JIT compiler is off here, since compiled loops do not see Ctrl-C.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local help = require("ftpipe.prompt.help")

local M = {}

--- Whether a text ended where its chunk did not. LuaJIT also says '<eof>' where it would have been
-- right, as after a stray "end"; a quoted string ends with its line.
local function is_open(problem)
   return problem:find("near '<eof>'$") ~= nil and not problem:find("unfinished string", 1, true)
end

-- What to say of a question: the name or the expression behind "?".
local ANSWERS = {
   ["?"] = function(value) return help.on_value(value) end,
   ["??"] = function(value) return help.source(value) end,
}

--- Answers "?x": x is a name of the reference, or an expression whose value is looked at.
local function question(mark, text)
   local known = mark == "?" and help.on_name(text)
   local chunk = not known and loadstring("return " .. text, "=stdin")
   local ok, value = true, nil
   if chunk then ok, value = pcall(chunk) end
   local answer = known or ok and value ~= nil and ANSWERS[mark](value)
   if answer then return answer end
   core.fail("not found", ("there is no help on '%s'%s"):format(text, help.hint(text)))
end

--- The chunk of a text: an expression when it is one, else statements. The third result tells that
-- more lines could complete it.
function M.compile(text)
   local mark, asked = text:match("^%s*(%?%??)%s*(.-)%s*$")
   if mark and asked ~= "" then
      return function() print(question(mark, asked)) end
   end
   local expression = text:match("^%s*=(.*)$") or text
   local chunk, of_expression = loadstring("return " .. expression, "=stdin")
   if chunk then return chunk end
   local problem
   chunk, problem = loadstring(text, "=stdin")
   if chunk then return chunk end
   return nil, problem, is_open(of_expression) or is_open(problem)
end

-- What is shown of a plain table, and of one in it.
local MOST_ENTRIES, LONGEST_LINE, LONGEST_ENTRY = 24, 96, 80

--- Names before numbers, each in its order.
local function comes_first(a, b)
   if type(a) ~= type(b) then return type(a) == "string" end
   if type(a) == "string" or type(a) == "number" then return a < b end
   return tostring(a) < tostring(b)
end

local function is_plain(value)
   return type(value) == "table" and not (getmetatable(value) or {}).__tostring
end

local function in_braces(entries)
   return #entries > 0 and "{ " .. table.concat(entries, ", ") .. " }" or "{}"
end

local entries_of

--- A value as `tostring` has it; a number in the fewest digits that are it and no other.
local function text_of(value)
   if type(value) ~= "number" then return tostring(value) end
   for digits = 14, 16 do
      local text = ("%." .. digits .. "g"):format(value)
      if tonumber(text) == value then return text end
   end
   return value == value and ("%.17g"):format(value) or tostring(value)
end

--- A value in a part of a line.
local function short(value)
   local text = is_plain(value) and in_braces(entries_of(value))
      or type(value) == "string" and ("%q"):format(value) or text_of(value)
   local line = text:match("^[^\n]*")
   return line == text and #text <= LONGEST_ENTRY and text or line:sub(1, LONGEST_ENTRY) .. " ..."
end

--- "a = 1" and "[1] = 5" of a plain table; tables in it as {...}, unless they are asked for.
function entries_of(value, deep)
   local keys, entries = {}, {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, comes_first)
   for i = 1, math.min(#keys, MOST_ENTRIES) do
      local key, inner = keys[i], value[keys[i]]
      local name = type(key) == "string" and key:match("^[%a_][%w_]*$")
         or ("[%s]"):format(tostring(key))
      entries[i] = ("%s = %s"):format(name, is_plain(inner) and not deep and "{...}"
         or short(inner))
   end
   if #keys > MOST_ENTRIES then
      entries[#entries + 1] = ("... %d more"):format(#keys - MOST_ENTRIES)
   end
   return entries
end

--- A list of tables with one of them on each line; of others the entries, on one line if they fit.
local function show_table(value)
   local entries = entries_of(value, #value > 0)
   local line = in_braces(entries)
   return #line <= LONGEST_LINE and line or "{\n  " .. table.concat(entries, "\n  ") .. "\n}"
end

local function show_value(value)
   return is_plain(value) and show_table(value) or text_of(value)
end

--- The values of a chunk as text, or nil when there are none.
local function show(n, ...)
   if n == 0 then return nil end
   local texts = {}
   for i = 1, n do texts[i] = show_value((select(i, ...))) end
   return table.concat(texts, "\t")
end

local function traceback(problem)
   if type(problem) ~= "string" then return tostring(problem) end
   local frames = debug.traceback("", 2):gsub("\n%s*%[C%]: in function 'xpcall'.*$", "")
   -- what went wrong in the line itself has no way there
   return frames:find("\n[^\n]*\n[^\n]*\n") and problem .. frames or problem
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

local TOUR = [[
A model on devices that need not be here; an expression prints its value:
  p = ft.explore("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
  p                                   stages, memory, prediction
  p.seconds, p.fits, p.stages[1]      the same as values
  p.plan:why("decoder/block.3")       what it would be on each other device
  q = p.plan:move("decoder/block.3", 2)
  p.plan:diff(q)                      what is then different
What is fastest, what else there is, and what would help when nothing fits:
  ft.planner("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
All partitioners on one graph:
  g = ft.graph("gpt2-xl", { devices = "sim:8x2080ti", batch = 1, source = 1024 }):by_scope(2)
  ft.compare(g:problem { devices = "sim:8x2080ti" })
  ft.partition(g:problem { devices = "sim:8x2080ti" }, { method = "mixed", blocks = 16 })
Devices: ft.cluster "2xh200+4x3090". Everything there is: ft
Help on it: help(ft.explore), help "plan:why", help "schedules", ?x, and ??x for the source.]]

--- `help` at the prompt: a value that shows the tour, and a function.
local HELP = setmetatable({}, {
   __tostring = function() return TOUR end,
   __call = function(_, value)
      if value == nil then return print(TOUR) end
      local answer = help.on_value(value)
      if answer then return print(answer) end
      core.fail("not found", ("there is no help on %s%s"):format(class.quoted(value),
         type(value) == "string" and help.hint(value) or ""))
   end,
})

--- Evaluates, and may be interrupted meanwhile.
local function interruptible(chunk)
   local ok, done, text = pcall(function()
      core.sys.hold_interrupt(false)
      local done, text = M.evaluate(chunk)
      core.sys.hold_interrupt(true)
      return done, text
   end)
   core.sys.hold_interrupt(true)
   if ok then return done, text end
   return false, tostring(done) -- interrupted just before or after the chunk
end

local SIGTERM = 15

--- Reads, runs and prints until the end of input, or SIGTERM.
function M.run(read_line)
   if jit then jit.off() end
   rawset(_G, "ft", require("ftpipe"))
   rawset(_G, "help", HELP)
   print(("ftpipe %s, %d cores; ft is loaded, help is help, Ctrl-D ends"):format(core.version,
      core.sys.cores()))
   core.sys.hold_interrupt(true)
   while true do
      local chunk, problem = read_chunk(read_line)
      if chunk == nil then return end
      local ok, text
      if chunk then ok, text = interruptible(chunk) end
      if core.sys.interrupted() == SIGTERM then core.fail("cancelled", "terminated", 143) end
      if chunk then
         core.sys.clear_interrupt()
         if not ok then problem = text elseif text then print(text) end
      end
      if problem then io.stderr:write(problem, "\n") end
   end
end

return M
