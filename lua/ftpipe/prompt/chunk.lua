--- A piece of text as something to run: statements, an expression, or a question.

local core = require("ftpipe.core")
local globals = require("ftpipe.prompt.globals")
local help = require("ftpipe.prompt.help")
local style = require("ftpipe.prompt.style")
local words = require("ftpipe.prompt.words")

local M = {}

--- Whether a text ended where its chunk did not. LuaJIT also says '<eof>' where it would have been
-- right, as after a stray "end"; a quoted string ends with its line.
local function is_open(problem)
   return problem:find("near '<eof>'$") ~= nil and not problem:find("unfinished string", 1, true)
end

local function load(text)
   local chunk, problem = loadstring(text, "=stdin")
   if chunk then return setfenv(chunk, globals.typed) end
   return nil, problem
end

--- The value of an expression, where x:name is the method itself; nil when it has none.
local function value_of(text)
   local chunk = load("return " .. text:gsub(":([%a_][%w_]*)$", ".%1"))
   local ok, value = true, nil
   if chunk then ok, value = pcall(chunk) end
   if ok then return value end
   return nil
end

--- Whether a text is a variable, or a field or a method of one, and not a name in ft.
local function is_of_variable(text)
   local root = text:match("^([%a_][%w_]*)[%w_.:]*$")
   return root ~= nil and root ~= "ft" and globals.peek(root) ~= nil
end

-- What to say of a question: of a variable what it holds, before a name of the reference.
local ANSWERS = {
   ["?"] = function(text)
      local first = is_of_variable(text) and value_of(text)
      local page = first and help.on_value(first)
      if page then return page .. help.beside(text, page) end
      local value = not help.on_name(text) and value_of(text)
      return help.on_name(text) or value and help.on_value(value)
   end,
   ["??"] = function(text)
      local value = value_of(text)
      if value == nil and help.on_name(text) then
         core.fail("not found", ("'%s' is a name: ?? shows the source of a value, as ??ft.explore "
            .. "or ??p.why"):format(text))
      end
      return help.source(value)
   end,
}

--- Answers "?x": x is a name of the reference, or an expression whose value is looked at.
local function question(mark, text)
   local answer = ANSWERS[mark](text)
   if answer then return answer end
   core.fail("not found", ("there is no help on '%s'%s"):format(text, help.hint(text)))
end

-- Methods that write a file and give their object, which nobody wants to see for that.
local WRITERS = { svg = true, html = true, save = true, draw = true }

--- Whether a text ends with a call of one of them.
local function writes(text)
   local name = text:match(":%s*(%l+)%s*%b()%s*$")
      or text:match(":%s*(%l+)%s*[\"'][^\"']*[\"']%s*$")
   return WRITERS[name] == true
end

--- The chunk of a text: an expression when it is one, else statements, whose outermost locals are
-- globals.
-- @treturn function nil when it is none
-- @treturn table quiet (a semicolon ends it, or it writes a file), had_locals; of what is none, the
--   problem
-- @treturn boolean of what is none: more lines could complete it
function M.compile(text)
   local mark, asked = text:match("^%s*(%?%??)%s*(.-)%s*$")
   if mark and asked ~= "" then
      return function() print(style.as_wide(question(mark, asked))) end, {}
   end
   local expression = text:match("^%s*=(.*)$") or text
   local chunk, of_expression = load("return " .. expression)
   if chunk then return chunk, { quiet = text:find(";%s*$") ~= nil or writes(text) } end
   local problem
   chunk, problem = load(text)
   if not chunk then return nil, problem, is_open(of_expression) or is_open(problem) end
   local kept, had_locals = words.without_locals(text)
   local with_globals = had_locals and load(kept)
   return with_globals or chunk, { had_locals = with_globals and true or nil }
end

return M
