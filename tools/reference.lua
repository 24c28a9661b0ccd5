--- Writes doc/lua.md, the reference of what recipes and the prompt call, from the comments in front
-- of functions: ftpipe tools/reference.lua [FILE]
--
-- A comment begins with "---"; @tparam and @treturn lines say what goes in and comes out. What has
-- no such comment, or one with @local, is not for users. @function says what is called where the
-- code behind the comment does not. In C a binding's comment begins as it is called: "t:view(dims):
-- ...".

local core = require("ftpipe.core")
local opts = require("ftpipe.base.opts")
local parts = require("ftpipe.parts")

local M = {}

local HEAD = [[
# Lua reference

`local ft = require("ftpipe")`. This page is made by `tools/reference.lua` from the comments in the
source. `print(x)` shows what an object has to say. The language is that of LuaJIT: Lua 5.1 with
some of 5.2; numbers are doubles, and there is no `//`.
]]

--- The file of a module.
local function file_of(module)
   local base = "lua/" .. module:gsub("%.", "/")
   local path = base .. ".lua"
   return core.sys.exists(path) and path or base .. "/init.lua"
end

--- Items of a file: { comment = (lines), code = (the line behind them) }.
local function items_of(text)
   local items, comment = {}, nil
   for line in (text .. "\n"):gmatch("(.-)\n") do
      if line:find("^%-%-%-") then
         comment = { (line:gsub("^%-%-%- ?", "")) }
      elseif comment and line:find("^%-%-") then
         comment[#comment + 1] = line:gsub("^%-%- ?", "")
      elseif comment then
         items[#items + 1] = { comment = comment, code = line }
         comment = nil
      end
   end
   return items
end

--- Splits a comment into its text and its tags, each with the lines that go on with it.
local function split(comment)
   local text, tags = {}, {}
   for _, line in ipairs(comment) do
      local tag, rest = line:match("^@(%l+)%S*%s+(.*)$")
      if tag then
         tags[#tags + 1] = { tag = tag, head = line:match("^@%S+"), text = rest }
      elseif tags[1] and line ~= "" then
         tags[#tags].text = tags[#tags].text .. " " .. line:gsub("^%s+", "")
      elseif line ~= "" or text[1] then
         text[#text + 1] = line
      end
   end
   return text, tags
end

local TAGS = {}

--- "@tparam[opt=2] int batches of a leg" as "- `batches`: int, 2 when absent; of a leg".
function TAGS.tparam(tag)
   local kind, name, rest = tag.text:match("^(%b{})%s+(%S+)%s*(.*)$")
   if not kind then kind, name, rest = tag.text:match("^(%S+)%s+(%S+)%s*(.*)$") end
   if not kind then return "- " .. tag.text end
   local default = tag.head:match("%[opt=(.-)%]")
   local notes = { kind }
   if default then
      notes[2] = default .. " when absent"
   elseif tag.head:find("[opt]", 1, true) then
      notes[2] = "may be absent"
   end
   if rest ~= "" then rest = ": " .. rest end
   return ("- `%s` (%s)%s"):format(name, table.concat(notes, ", "), rest)
end

function TAGS.param(tag)
   local name, rest = tag.text:match("^(%S+)%s*(.*)$")
   return ("- `%s`: %s"):format(name, rest)
end

function TAGS.treturn(tag) return "- gives " .. tag.text end

function TAGS.raise(tag) return "- raises " .. tag.text end

--- The lines of an item under its heading.
local function body(comment)
   local text, tags = split(comment)
   local lines = {}
   for _, line in ipairs(text) do lines[#lines + 1] = (line:gsub("^   ", "    ")) end
   if tags[1] then lines[#lines + 1] = "" end
   for _, tag in ipairs(tags) do
      lines[#lines + 1] = TAGS[tag.tag] and TAGS[tag.tag](tag) or nil
   end
   return lines
end

--- Whether users meet objects of a class: it is the part's own, or prints itself.
local function is_met(class, part, text)
   return class:lower() == part:gsub("_", "") or text:find("function " .. class .. "[.:]__tostring")
end

--- What a user writes to call the function of this line of code; nil when it is for nobody.
local function call_of(part, code, called, text)
   local owner, mark, name, arguments = code:match("^function (%w+)([.:])([%w_]+)(%b())")
   if not owner then
      arguments = code:match("^return function(%b())")
      local of_table = code:match("__call = function(%b())$")
      arguments = arguments or of_table and of_table:gsub("^%(_, ", "(")
      return arguments and ("ft.%s%s"):format(part, arguments)
   end
   if name:find("^__") or owner ~= "M" and not is_met(owner, part, text) then return nil end
   if owner == "M" then
      return ("ft.%s%s%s"):format(part, name == called and "" or "." .. name, arguments)
   end
   return owner:lower() .. mark .. name .. arguments
end

--- The call that a comment names itself, by @function, with its parameters; nil of others.
local function named_call(comment)
   local name, arguments = nil, {}
   for _, tag in ipairs((select(2, split(comment)))) do
      if tag.tag == "function" then name = tag.text end
      if tag.tag == "tparam" or tag.tag == "param" then
         local text = tag.tag == "tparam" and tag.text:gsub("^%S+%s+", "") or tag.text
         arguments[#arguments + 1] = text:match("^%S+")
      end
   end
   return name and ("%s(%s)"):format(name, table.concat(arguments, ", ")) or nil
end

--- What a C file binds: the comments right in front of its functions that begin with a call. "t:"
-- is a method of the part's objects.
local function entries_of_c(part, path)
   local text, entries = core.sys.read_file(path), {}
   for comment, at in text:gmatch("/%*%s(.-)%s*%*/()") do
      local call, said = comment:match("^([%w_:]+%b()): (.*)$")
      if call and text:find("^\nstatic int ", at) then
         entries[#entries + 1] = {
            call = call:find("^t:") and part .. call:sub(2) or ("ft.%s.%s"):format(part, call),
            comment = { (said:gsub("\n%s*%*%s*", " "):gsub("^%l", string.upper)) },
         }
      end
   end
   return entries
end

--- Whether a comment says that a function is for the program itself.
local function is_local(comment)
   for _, line in ipairs(comment) do
      if line == "@local" then return true end
   end
   return false
end

--- What a user can call of a part, each with the comment in front of it; first, without a call, the
-- comment of the whole, and then the call of the part itself.
local function entries_of(row)
   local part, module, also = row[1], row[2], row.also
   local of_c = row.c and entries_of_c(part, row.c) or {}
   if not module then return of_c end
   local text = core.sys.read_file(file_of(module))
   local called = text:match("__call = function%(_, .-%) return M%.([%w_]+)")
   local more = also and core.sys.read_file(file_of(also)) or ""
   local entries, items = {}, items_of(text)
   for _, item in ipairs(items_of(more)) do items[#items + 1] = item end
   text = text .. more
   for i, item in ipairs(items) do
      local call = not is_local(item.comment)
         and (named_call(item.comment) or call_of(part, item.code, called, text))
      local is_head = i == 1 and item.code == ""
      if call or is_head then
         local is_first = call and call:find("ft." .. part .. "(", 1, true) == 1 and entries[1]
         table.insert(entries, is_first and 2 or #entries + 1,
            { call = call, comment = item.comment })
      end
   end
   for _, entry in ipairs(of_c) do entries[#entries + 1] = entry end
   return entries
end

--- Every call of the page: { "ft.graph.load(path, options)", ... }.
function M.calls()
   local calls = {}
   for _, row in ipairs(parts) do
      for _, entry in ipairs(entries_of(row)) do
         calls[#calls + 1] = entry.call or nil
      end
   end
   return calls
end

--- By name, functions of parts that are for the program itself: with @local, or without a comment;
-- and those that the part itself is called as, "ft.plan.new" of ft.plan.
function M.hidden()
   local hidden, shown = {}, {}
   for _, call in ipairs(M.calls()) do shown[call:match("^[^(]*")] = true end
   for _, row in ipairs(parts) do
      local text = row[2] and core.sys.read_file(file_of(row[2])) or ""
      for name in text:gmatch("\nfunction M%.([%w_]+)%(") do
         local full = ("ft.%s.%s"):format(row[1], name)
         hidden[full] = not shown[full] or nil
      end
   end
   return hidden
end

--- The lines of the options that a call takes: a module says them in `takes`, rules by call.
local function options_of(module, call)
   local loaded = module and require(module)
   local rules = type(loaded) == "table" and rawget(loaded, "takes")
   rules = rules and rules[call:match("^[^(]*")]
   if not rules then return {} end
   local lines = { "", "Options:", "" }
   for _, name in ipairs(opts.names(rules)) do
      lines[#lines + 1] = "- " .. opts.line(name, rules[name])
   end
   return lines
end

--- The section of a part.
local function section(row)
   local lines = { ("## ft.%s"):format(row[1]), "", row[3]:gsub("^%l", string.upper) .. ".", "" }
   for _, entry in ipairs(entries_of(row)) do
      if entry.call then
         lines[#lines + 1] = ("### `%s`"):format(entry.call)
         lines[#lines + 1] = ""
      end
      for _, line in ipairs(body(entry.comment)) do lines[#lines + 1] = line end
      for _, line in ipairs(entry.call and options_of(row[2], entry.call) or {}) do
         lines[#lines + 1] = line
      end
      lines[#lines + 1] = ""
   end
   return table.concat(lines, "\n")
end

--- The whole page.
function M.page()
   local sections = { HEAD }
   for _, row in ipairs(parts) do sections[#sections + 1] = section(row) end
   return (table.concat(sections, "\n"):gsub("\n+$", "\n"))
end

if arg and arg[0] and arg[0]:find("reference%.lua$") then
   core.sys.write_file(arg[1] or "doc/lua.md", M.page())
end

return M
