--- Help on a name or a value, from the reference inside the program.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local reference = require("ftpipe.prompt.reference")
local style = require("ftpipe.prompt.style")
local suggest = require("ftpipe.base.suggest")

local M = {}

local BELOW = (" "):rep(6) -- what is said of a call, under it

local DEPTH = { ["("] = 1, ["{"] = 1, [")"] = -1, ["}"] = -1 }

--- Where the first sentence of a paragraph ends: at a period that is none of "...", nor within
-- quotes or braces. Nil where there is none.
local function sentence_end(line)
   local depth, is_quoted = 0, false
   for at, sign in line:gmatch("()([\"(){}.])") do
      if sign == '"' then is_quoted = not is_quoted end
      if not is_quoted then depth = depth + (DEPTH[sign] or 0) end
      local ends = sign == "." and depth == 0 and not is_quoted
      if ends and line:find("^[^.]%.%f[%z%s]", at - 1) then return at end
   end
   return nil
end

--- The first sentence of a text.
local function first_sentence(text)
   local line = text:match("^(.-)\n\n") or text
   line = line:gsub("\n", " ")
   local last = sentence_end(line)
   return last and line:sub(1, last) or line:match("^(.-)[.:]?$") .. "."
end

--- Lines of calls with what each does, as wide as the terminal.
local function listed(calls)
   local lines = {}
   for i, entry in ipairs(calls) do
      local said = style.as_wide(first_sentence(entry.text), #BELOW):gsub("\n", "\n" .. BELOW)
      lines[i] = ("  %s\n%s%s"):format(entry.call, BELOW, said)
   end
   return table.concat(lines, "\n")
end

--- An entry as text; of a part, with what can be called in it.
local function shown(entry)
   local text = entry.text == "" and "" or "\n\n" .. entry.text
   if entry.call then return entry.call .. text end
   local calls = reference.calls(entry.name .. ".")
   return entry.name .. text .. (calls[1] and "\n\ncalls:\n" .. listed(calls) or "")
end

local function joined(entries)
   local texts = {}
   for i, entry in ipairs(entries) do texts[i] = shown(entry) end
   return table.concat(texts, "\n\n")
end

--- The methods of a class.
local function of_class(name)
   local calls = reference.calls(name .. ":")
   if not calls[1] then return nil end
   return ("methods of a %s:\n%s"):format(name, listed(calls))
end

--- What `help "NAME"` prints: a part of ft, a call, a class, an option, a page of doc/.
-- @treturn string nil when nothing is called so
function M.on_name(name)
   local page = reference.topic(name) -- before methods of that name
   if page then return page end
   local entries = reference.find(name)
   if not entries[1] then entries = reference.find(name .. ".NAME") end -- ft.tensor.ops
   if entries[1] then return joined(entries) end
   return of_class(name) or M.on_option(name)
end

--- What else is called as a variable whose own page is shown: 'ft.run: help "ft.run"'; "" when
-- nothing is.
-- @tparam string name
-- @tparam string page
function M.beside(name, page)
   if (M.on_name(name) or page) == page then return "" end
   local names, seen = {}, {}
   for _, entry in ipairs(reference.topic(name) and {} or reference.find(name)) do
      if not seen[entry.name] then names[#names + 1] = entry.name end
      seen[entry.name] = true
   end
   if #names == 1 then name = names[1] end
   local what = names[1] and table.concat(names, ", ") or "the name"
   return ('\n\n%s: help "%s"'):format(what, name)
end

--- An option by its name in Lua or as a flag.
function M.on_option(name)
   local options, opts = require("ftpipe.plan.options"), require("ftpipe.base.opts")
   local plain = name:gsub("^%-%-", ""):gsub("%-", "_")
   for _, row in ipairs(options.rows) do
      if row[1] == plain or row.lua == plain then
         return ("--%s, in Lua %s\n\n%s"):format((row[1]:gsub("_", "-")), row.lua or row[1],
            opts.line(row.lua or row[1], row))
      end
   end
   return nil
end

--- Names near one that nothing has.
local function names()
   local list = reference.topics()
   for _, entry in ipairs(reference.entries()) do list[#list + 1] = entry.name end
   for _, part in ipairs(reference.parts()) do list[#list + 1] = part.name:sub(4) end
   return list
end

--- " (did you mean 'x'?)", or "".
function M.hint(name)
   return M.on_name(name) and "" or suggest.hint(name, names())
end

--- The upvalue of that name; nil of functions that have none.
local function upvalue(f, name)
   for i = 1, math.huge do
      local found, value = debug.getupvalue(f, i)
      if found == name or not found then return value end
   end
end

--- Whether a function checks the arguments of another one (base/guard.lua).
local function is_guard(value)
   return type(value) == "function"
      and debug.getinfo(value, "S").source:find("base/guard", 1, true) ~= nil
end

--- "tensor:view" of a method of tensors, which has no guard; operators that are methods are those
-- of ft.tensor.ops, and tasks those of ft.task. Nil of others.
local function name_in_lists(value)
   for name, method in pairs(core.tensor.methods) do
      if method == value and reference.find("tensor:" .. name)[1] then return "tensor:" .. name end
   end
   for _, operator in pairs(require("ftpipe").tensor.ops) do
      if operator == value then return "ft.tensor.ops.NAME" end
   end
   for _, name in ipairs(require("ftpipe").task.names()) do
      if package.loaded["ftpipe.task." .. name] == value then return "ft.task.NAME" end
   end
   return nil
end

--- "ft.graph.load", "ft.graph" for the function or table, "plan:why" of a method; nil of what is
-- none of ft's.
-- @tparam any value
-- @treturn string
-- @treturn string the part it is of, where it is of one
function M.name_of(value)
   if is_guard(value) then
      local what = upvalue(value, "what")
      return what, what:match("^ft%.[%w_]+")
   end
   local ft = require("ftpipe")
   for _, entry in ipairs(reference.parts()) do
      local name = entry.name
      local part = rawget(ft, name:sub(4))
      if part ~= nil then
         if part == value then return name, name end
         for key, inner in pairs(type(part) == "table" and part or {}) do
            if inner == value and type(key) == "string" then return name .. "." .. key, name end
         end
      end
   end
   return type(value) == "function" and name_in_lists(value) or nil
end

--- A function of ft, or a part, in a few lines: how it is called, and what that does.
-- @treturn string nil of anything else
function M.brief(value)
   if type(value) ~= "function" and type(value) ~= "table" then return nil end
   local name = M.name_of(value)
   if not name then return nil end
   local calls = {}
   for _, entry in ipairs(reference.find(name)) do
      if entry.call then calls[#calls + 1] = entry end
   end
   if not calls[1] then calls = reference.calls(name .. ".") end
   return calls[1] and listed(calls) or nil
end

--- What `help(x)` prints of a value: a function of ft, a part, an object.
-- @treturn string nil when there is nothing to say
function M.on_value(value)
   if type(value) == "string" then return M.on_name(value) end
   if value == require("ftpipe") then return M.overview() end
   local meta = debug.getmetatable(value)
   local own = type(meta) == "table" and rawget(meta, "__help")
   if own then return own end
   local name, part = M.name_of(value)
   if name then return M.on_name(name) or part and M.on_name(part) end
   return class.of(value) and of_class((class.of(value):gsub("^ftpipe%.", "")))
end

--- The parts of ft, a line each, and the pages.
function M.overview()
   local lines = {}
   for _, part in ipairs(reference.parts()) do
      lines[#lines + 1] = ("  %-14s %s"):format(part.name, first_sentence(part.text))
   end
   return ("%s\n\npages: %s"):format(table.concat(lines, "\n"),
      table.concat(reference.topics(), ", "))
end

--- Where a function is written, and its text when the program has it.
function M.source(value)
   if type(value) == "table" then value = (getmetatable(value) or {}).__call end
   if type(value) ~= "function" then return nil end
   if is_guard(value) then value = upvalue(value, "f") end
   local info = debug.getinfo(value, "S")
   if info.what == "C" then return "in C" end
   local text = ("%s:%d"):format(info.short_src, info.linedefined)
   local module = info.source:match("^@lua/(.*)%.lua$")
   local source = module and (core.source((module:gsub("/", ".")))
      or core.source((module:gsub("/", "."):gsub("%.init$", ""))))
   local lines, number = { text }, 0
   for line in ((source or "") .. "\n"):gmatch("(.-)\n") do
      number = number + 1
      if number >= info.linedefined and number <= info.lastlinedefined then
         lines[#lines + 1] = line
      end
   end
   return table.concat(lines, "\n")
end

return M
