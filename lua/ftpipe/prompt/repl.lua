--- The prompt: lines in, values out.
-- The JIT compiler is off here, since compiled loops do not see Ctrl-C.

local chunks = require("ftpipe.prompt.chunk")
local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local globals = require("ftpipe.prompt.globals")
local help = require("ftpipe.prompt.help")
local history = require("ftpipe.prompt.history")
local show = require("ftpipe.prompt.show")
local style = require("ftpipe.prompt.style")
local units = require("ftpipe.base.units")
local words = require("ftpipe.base.words")

local M = {}

M.compile = chunks.compile

local TOUR = [[
A model on devices that need not be here; an expression prints its value:
  o = { devices = "sim:4x11GB", batch = 40, source = 320, optimizer = "adafactor" }
  p = ft.explore("t5-3b", o)
  p                                   stages, memory, prediction
  p.seconds, p.fits, p.stages[1]      the same as values
  p:why("decoder/block.3")            what it would be on each other device
  q = p:move("decoder/block.3", 2)
  p.plan:diff(q.plan)                 what is then different
  compare(p, q)
  p:timeline()                        each device in time
  p:html("plan.html")                 a page of all that
  o.devices = "sim:8x11GB"
  compare(p, ft.explore("t5-3b", o))
What is fastest, what else there is, and what would help when nothing fits:
  ft.planner("t5-3b", { devices = "sim:4x11GB", batch = 40, source = 320 })
All partitioners on one graph:
  g = ft.graph("gpt2-xl", { devices = "sim:8x2080ti", batch = 1, source = 1024 }):by_scope(2)
  ft.compare(g:problem { devices = "sim:8x2080ti" })
  ft.partition(g:problem { devices = "sim:8x2080ti" }, { method = "mixed", blocks = 16 })
Devices: ft.cluster "2xh200+4x3090". Everything there is: ft
Help on it: help(ft.explore), help "plan:why", help "schedules", ?x, and ??x for the source.
page(x) shows all of a value, time(f) and bench(f) say how long a function takes.
_ is the last value, _2 and Out[2] that of ft 2>; a semicolon at the end prints nothing; tab
completes.]]

--- `help` at the prompt: a value that shows the tour, and a function.
local HELP = setmetatable({}, {
   __help = TOUR,
   __tostring = function() return TOUR end,
   __call = function(_, ...)
      if select("#", ...) == 0 then return print(TOUR) end
      local value = (...)
      local answer = value ~= nil and help.on_value(value)
      if answer then return print(style.as_wide(answer)) end
      core.fail("not found", ("there is no help on %s%s"):format(value ~= nil and
         class.quoted(value) or "nil; help alone is the tour",
         type(value) == "string" and help.hint(value) or ""))
   end,
})

-- ---------------------------------------------------------------------------------------------
-- Running.

local LONGEST_LINE = 90 -- of a script, below a message

--- The line of a script that a message begins with, "x.lua:3: ...", to stand below it; "" of other
-- messages.
local function quoted_line(problem)
   local path, number = problem:match("^([^\n:]+%.lua):(%d+): ")
   if not path or core.sys.exists(path) ~= "file" then return "" end
   local n = 0
   for line in io.lines(path) do
      n = n + 1
      if n == tonumber(number) then
         return ("\n  %s | %s"):format(number, words.short((line:gsub("%c", " ")), LONGEST_LINE))
      end
   end
   return ""
end

local function traceback(problem)
   local text = type(problem) == "table" and show.value(problem) or tostring(problem)
   text = text .. quoted_line(text)
   if type(problem) ~= "string" then return text end
   local frames = debug.traceback("", 2):gsub("\n%s*%[C%]: in function 'xpcall'.*$", "")
      :gsub("\n%s*%[C%]: in function 'error'", ""):gsub("\n%s*lua/ftpipe/prompt/[^\n]*", "")
   -- what went wrong in the line itself has no way there
   return frames:find("\n[^\n]*\n[^\n]*\n") and text .. frames or text
end

--- The values of a chunk as text, or nil when there are none; and the values.
local function collect(ok, ...)
   if not ok then return false, (...) end
   local n, texts = select("#", ...), {}
   if n == 0 then return true end
   for i = 1, n do texts[i] = show.value((select(i, ...))) end
   return true, table.concat(texts, "\t"), { n = n, ... }
end

--- Runs a chunk: true, what to print (nil for nothing) and its values, or false and what went
-- wrong.
function M.evaluate(chunk)
   return collect(xpcall(chunk, traceback))
end

--- Evaluates, and may be interrupted meanwhile.
local function interruptible(chunk)
   local results
   local ok, problem = pcall(function()
      core.sys.hold_interrupt(false)
      results = { M.evaluate(chunk) }
      core.sys.hold_interrupt(true)
   end)
   core.sys.hold_interrupt(true)
   if ok then return unpack(results, 1, 3) end
   return false, tostring(problem) -- interrupted just before or after the chunk
end

-- ---------------------------------------------------------------------------------------------
-- Reading.

local Prompt = {}
Prompt.__index = Prompt

--- Keeps a chunk, but for those that begin with a blank.
local function remember(prompt, text)
   if text:find("^%s") or text == "" then return end
   prompt.terminal:remember(text .. "\n")
   if not prompt.keeps then return end
   local problem = history.append(text)
   if not problem then return end
   prompt.keeps = false
   io.stderr:write(("the history is not kept: %s\n"):format(problem))
end

--- The next line: of a paste that was no chunk as a whole, or of the terminal. A paste comes as it
-- is, with true.
local function read_line(prompt, text)
   local queued = table.remove(prompt.queue, 1)
   if queued then return queued, false end
   local line, pasted = prompt.terminal:read(style.prompt(text))
   return line, pasted
end

--- Reads one chunk, over several lines when the first is not complete; nil at the end of input,
-- false and the problem of what is none.
local function read_chunk(prompt)
   local name = ("ft %d"):format(prompt.number)
   local text, pasted = read_line(prompt, name .. "> ")
   while text do
      local chunk, about, more = chunks.compile(text)
      if chunk then
         about.text = text
         remember(prompt, text)
         return chunk, about
      end
      if pasted and not more then -- expressions among statements: one after the other
         for line in text:gmatch("[^\n]+") do table.insert(prompt.queue, line) end
         text, pasted = table.remove(prompt.queue, 1), false
      elseif not more then
         remember(prompt, text)
         return false, about
      else
         local line = read_line(prompt, (" "):rep(#name - 1) .. ".> ")
         if line == false then return false end
         if line == nil then
            remember(prompt, text)
            return false, about
         end
         text = text .. "\n" .. line
      end
   end
   return text
end

-- ---------------------------------------------------------------------------------------------
-- The loop.

local SIGTERM = 15
local LONG_SECONDS = 0.1 -- what takes so long says how long

--- Keeps the first value of a chunk: _, _n and Out[n].
local function keep(prompt, values)
   if not values then return end
   globals.own._ = values[1]
   globals.own["_" .. prompt.number] = values[1]
   prompt.out[prompt.number] = values[1]
end

--- " (did you mean 'x'?)" of a field or a method in a line that was nothing; "" of other problems.
local function meant(line, problem)
   local name = problem:match("^stdin:%d+: attempt to %l+ %l+ '([%w_]+)' %(a nil value%)$")
   return name and line and require("ftpipe.prompt.complete").meant(line, name) or ""
end

--- Says what a field may have been meant to be, of a line that is but a field and gave nil.
local function note_nil(line, values)
   local name = values and values.n == 1 and values[1] == nil
      and line:match("^[%a_][%w_.]*%.([%a_][%w_]*)%s*$")
   local hint = name and require("ftpipe.prompt.complete").meant(line, name) or ""
   if hint ~= "" then style.note(("there is no '%s'%s"):format(name, hint)) end
end

local function run_chunk(prompt, chunk, about)
   local start_ns = core.sys.time_ns()
   local ok, text, values = interruptible(chunk)
   local seconds = (core.sys.time_ns() - start_ns) / 1e9
   if core.sys.interrupted() == SIGTERM then core.fail("cancelled", "terminated", 143) end
   core.sys.clear_interrupt()
   if not ok then return text .. meant(about.text, text) end
   keep(prompt, values)
   if text and not about.quiet then print(text) end
   if about.text then note_nil(about.text, values) end
   if about.had_locals and not prompt.told then
      prompt.told = true
      style.note("local: kept for the lines to come, as a global")
   end
   if seconds >= LONG_SECONDS then style.note(("(%.2f s)"):format(seconds)) end
   return nil
end

--- What a user wants at every start: $XDG_CONFIG_HOME/ftpipe/init.lua, else that of ~/.config.
local function run_own(prompt)
   local config, home = os.getenv("XDG_CONFIG_HOME"), os.getenv("HOME")
   local path = (config and config:find("^/") and config or (home or "") .. "/.config")
      .. "/ftpipe/init.lua"
   if core.sys.exists(path) ~= "file" then return end
   local chunk, problem = loadfile(path)
   if chunk then problem = run_chunk(prompt, globals.adopt(chunk), {}) end
   if problem then style.problem(problem) end
end

local function new(terminal)
   local prompt = setmetatable({
      terminal = terminal, queue = {}, number = 1, out = {}, keeps = core.sys.isatty(0),
   }, Prompt)
   local ft = require("ftpipe")
   local names = { ft = ft, help = HELP, Out = prompt.out, compare = ft.compare,
      page = ft.tools.page, time = ft.tools.time, bench = ft.tools.bench }
   for name, value in pairs(names) do
      rawset(_G, name, value)
   end
   if prompt.keeps then
      for _, line in ipairs(history.read()) do terminal:remember(line .. "\n") end
      terminal:complete(function(line) return require("ftpipe.prompt.complete").tab(line) end)
   end
   return prompt
end

--- "2 cores with bf16, 12.1 GB, no GPU": what is here. Cards by their files, since their
-- driver takes longer to begin than the prompt.
local function here()
   local cards = 0
   local found, names = pcall(core.sys.list_dir, "/dev")
   for _, name in ipairs(found and names or {}) do
      if name:find("^nvidia%d+$") then cards = cards + 1 end
   end
   return ("%s%s, %s, %s"):format(counted(core.sys.cores(), "core"),
      core.sys.has_bf16() and " with bf16" or "", units.format_bytes(core.sys.memory()),
      cards == 0 and "no GPU" or counted(cards, "GPU"))
end

--- Reads, runs and prints until the end of input, or SIGTERM.
-- @tparam userdata terminal of src/app/line.c
-- @tparam[opt=false] boolean quiet without a first line
function M.run(terminal, quiet)
   if jit then jit.off() end
   local prompt = new(terminal)
   if not quiet then
      print(("ftpipe %s: %s; help is help, Ctrl-D ends"):format(core.version, here()))
   end
   core.sys.hold_interrupt(true)
   run_own(prompt)
   while true do
      local chunk, about = read_chunk(prompt)
      if chunk == nil then return end
      if core.sys.interrupted() == SIGTERM then core.fail("cancelled", "terminated", 143) end
      local problem = about
      if chunk then problem = run_chunk(prompt, chunk, about) end
      if problem then style.problem(problem) end
      if chunk then prompt.number = prompt.number + 1 end
   end
end

return M
