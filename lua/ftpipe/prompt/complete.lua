--- What a line at the prompt may go on with. Looks at values without calling anything of a user's:
-- tables by their own keys and by __index tables, never by functions.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local globals = require("ftpipe.prompt.globals")
local help = require("ftpipe.prompt.help")
local keys = require("ftpipe.base.keys")
local quoted = require("ftpipe.prompt.quoted")
local reference = require("ftpipe.prompt.reference")
local suggest = require("ftpipe.base.suggest")
local words = require("ftpipe.prompt.words")

local M = {}

local KEYWORDS = { "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if",
   "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while" }
local MOST_PARENTS = 8 -- of a chain of __index
local MOST_SHOWN = 200

local function ANY() end -- a function that has help

--- The table of a metatable's __index; nil of what is a function.
local function parent_of(value)
   local meta = debug.getmetatable(value)
   local index = type(meta) == "table" and rawget(meta, "__index")
   return type(index) == "table" and index or nil
end

--- Whether a name is a part of ft, loaded or not.
local function is_part(name)
   for _, part in ipairs(reference.parts()) do
      if part.name == "ft." .. name then return true end
   end
   return false
end

--- What value.name is, as far as it can be seen.
local function field(value, name)
   if value == package.loaded.ftpipe and is_part(name) then return value[name] end
   if value == globals.own then return globals.peek(name) end
   for _ = 1, MOST_PARENTS do
      if type(value) == "table" then
         local found = rawget(value, name)
         if found ~= nil then return found end
      end
      value = parent_of(value)
      if not value then return nil end
   end
end

--- Whether a value is ft, a part of it or an object of its classes, whose functions have help when
-- they are for users.
local function is_ours(value)
   local kind = class.of(value)
   if kind and reference.calls(kind:gsub("^ftpipe%.", "") .. ":")[1] then return true end
   for _, part in ipairs(reference.parts()) do
      if rawget(require("ftpipe"), part.name:sub(4)) == value then return true end
   end
   return false
end

local has_help = setmetatable({}, { __mode = "k" }) -- by function

--- Whether a function is one for users.
local function is_for_users(f)
   if has_help[f] == nil then
      local name = help.name_of(f)
      has_help[f] = name ~= nil and reference.call(name) ~= nil
   end
   return has_help[f]
end

--- Calls see(name, value) for every name that can stand behind a value and a dot.
local function each_field(value, see)
   if value == nil then return end
   if value == package.loaded.ftpipe then
      for _, part in ipairs(reference.parts()) do see(part.name:sub(4), {}) end
   end
   if value == globals.own then
      for _, name in ipairs(globals.names()) do see(name, globals.peek(name)) end
   end
   if value == package.loaded["ftpipe.task"] then
      for _, name in ipairs(value.names()) do see(name, {}) end
   end
   local owner = class.of(value)
   for _, entry in ipairs(owner and reference.calls(owner:gsub("^ftpipe%.", "") .. ":") or {}) do
      see(entry.name:match("[%w_]+$"), ANY) -- a function, whichever
   end
   for _ = 1, MOST_PARENTS do
      if value == nil then return end
      if type(value) == "table" then
         for key, inner in next, value do see(key, inner) end
      end
      value = parent_of(value)
   end
end

--- Sorted, each once, of those that begin so.
local function chosen(names, prefix)
   local list, seen = {}, {}
   for _, name in ipairs(names) do
      if name:sub(1, #prefix) == prefix and not seen[name] then
         seen[name] = true
         list[#list + 1] = name
      end
   end
   table.sort(list)
   return list
end

--- The value of { "a", "b" } for a.b; nil when it cannot be seen.
local function resolve(chain)
   local value = globals.peek(chain[1])
   for i = 2, #chain do
      if value == nil then return nil end
      value = field(value, chain[i])
   end
   return value
end

-- ---------------------------------------------------------------------------------------------
-- Where in a line it stands.

--- The names a.b in front of word i of the list, that one included; nil when it is none.
local function chain_before(list, i)
   local chain = {}
   while list[i] and list[i].kind == "name" do
      table.insert(chain, 1, list[i].text)
      local sign = list[i - 1] and list[i - 1].text
      if sign ~= "." and sign ~= ":" then return chain end
      i = i - 2
   end
   return nil
end

--- The words of a line, and the open brackets, each { sign =, call = (what is called), at = }.
local function read(line)
   local list, open = {}, {}
   for kind, first, last, is_open in words.each(line) do
      local word = { kind = kind, text = line:sub(first, last), first = first, open = is_open }
      list[#list + 1] = word
      if word.text == "(" or word.text == "{" or word.text == "[" then
         local outer = word.text == "{" and list[#list - 1] and list[#list - 1].text == "("
            and open[#open]
         open[#open + 1] = { sign = word.text, at = #list,
            call = outer and outer.call or chain_before(list, #list - 1) }
         -- f("x", { ... }: the table is of the call, too
         local around = open[#open - 1]
         if word.text == "{" and list[#list - 1] and list[#list - 1].text == "," and around
            and around.sign == "("
         then
            open[#open].call = around.call
         end
      elseif word.text == ")" or word.text == "}" or word.text == "]" then
         open[#open] = nil
      end
   end
   return list, open
end

--- What the reference calls it: "ft.explore", "plan:timeline" of p.timeline; nil of what is none of
-- ft's.
local function called(chain)
   if not chain then return nil end
   if chain[1] == "ft" then return table.concat(chain, ".") end
   if #chain == 1 and chain[1] == "help" then return "help" end
   local owner = #chain > 1 and class.of(resolve { unpack(chain, 1, #chain - 1) })
   if owner then return owner:gsub("^ftpipe%.", "") .. ":" .. chain[#chain] end
   local value = resolve(chain)
   local may_be_called = type(value) == "function" or type(value) == "table"
   return may_be_called and help.name_of(value) or nil
end

--- The rules of the options of a call of ft; nil when there are none.
local function rules_of(chain)
   local name = called(chain)
   local own = name and name:match("^ft%.([%w_]+)")
   if own then field(require("ftpipe"), own) end -- loads the part
   for module, loaded in pairs(name and package.loaded or {}) do
      local takes = module:find("^ftpipe%.") and type(loaded) == "table" and rawget(loaded, "takes")
      if type(takes) == "table" and takes[name] then return takes[name] end
   end
   return nil
end

-- ---------------------------------------------------------------------------------------------
-- Candidates: a list of whole words, the part of them that is typed, and what a single one ends
-- with.

local function files(text)
   local directory, prefix = text:match("^(.*/)([^/]*)$")
   local found, names = pcall(core.sys.list_dir, directory or ".")
   local list = {}
   for _, name in ipairs(found and names or {}) do
      if name:sub(1, 1) ~= "." or (prefix or text):sub(1, 1) == "." then
         local path = (directory or "") .. name
         list[#list + 1] = core.sys.exists(path) == "directory" and path .. "/" or path
      end
   end
   return list
end

--- Inside quotes: keys of t["...; what an option or an argument may be; files.
local function in_string(list, open)
   local word, before = list[#list], list[#list - 1]
   local typed, bracket = word.text:sub(2), open[#open]
   if bracket and bracket.sign == "[" and bracket.at == #list - 1 and bracket.call then
      local names, value = {}, resolve(bracket.call)
      each_field(value, function(key)
         if type(key) == "string" then names[#names + 1] = key end
      end)
      return names, typed, word.text:sub(1, 1) .. "]"
   end
   local names, takes_files
   local option = bracket and bracket.sign == "{" and before.text == "=" and list[#list - 2]
   if option then
      local rules = rules_of(bracket.call)
      names, takes_files = quoted.of_option(option.text, rules and rules[option.text])
   else
      local direct = chain_before(list, #list - 1)
      local call = direct or bracket and bracket.call
      names, takes_files = quoted.of_argument(called(call),
         direct ~= nil or bracket and bracket.at == #list - 1)
   end
   if not takes_files then return names, typed, word.text:sub(1, 1) end
   names = { unpack(names) }
   for _, name in ipairs(files(typed)) do names[#names + 1] = name end
   return names, typed, ""
end

--- Names of fields: of what begins with "__" when that is typed, of ft's functions those for users.
local function names_of(value, only_functions, prefix)
   local names, ours = {}, value ~= nil and is_ours(value)
   each_field(value, function(key, inner)
      local fits = type(key) == "string" and key:find("^[%a_][%w_]*$")
         and (key:sub(1, 2) ~= "__" or prefix:sub(1, 2) == "__") and not (ours and key == "takes")
      if fits and ours and type(inner) == "function" and inner ~= ANY then
         fits = is_for_users(inner)
      end
      if fits and (not only_functions or type(inner) == "function") then
         names[#names + 1] = key
      end
   end)
   return names
end

--- Names: fields behind a dot or a colon, options inside braces, globals and keywords.
local function in_code(list, open, line)
   local last = list[#list]
   local typing = last and last.kind == "name" and last.first + #last.text - 1 == #line
   local prefix, i = typing and last.text or "", typing and #list - 1 or #list
   local sign = list[i] and list[i].text
   if sign == "." or sign == ":" then
      local chain = chain_before(list, i - 1)
      return chain and names_of(resolve(chain), sign == ":", prefix) or {}, prefix, ""
   end
   local bracket = open[#open]
   local rules = bracket and bracket.sign == "{" and (sign == "{" or sign == ",")
      and rules_of(bracket.call)
   if rules then
      return keys(rules), prefix, " = "
   end
   local names = globals.names()
   for _, word in ipairs(KEYWORDS) do names[#names + 1] = word end
   return prefix ~= "" and names or {}, prefix, ""
end

--- What a name in a line that turned out to be nothing may have been meant to be.
-- @tparam string line
-- @tparam string name behind a dot or a colon
-- @treturn string " (did you mean 'x'?)", or ""
function M.meant(line, name)
   local list = read(line)
   for i, word in ipairs(list) do
      local sign = list[i - 1] and list[i - 1].text
      if word.text == name and (sign == "." or sign == ":") then
         local chain = chain_before(list, i - 2)
         local hint = chain and suggest.hint(name,
            names_of(resolve(chain), sign == ":", name)) or ""
         if hint ~= "" then return hint end
      end
   end
   return ""
end

--- What a line may go on with: whole words, sorted; what is typed of them; what follows if there is
-- but one.
function M.candidates(line)
   local list, open = read(line)
   local last = list[#list]
   local names, prefix, ending
   if last and last.open then
      names, prefix, ending = in_string(list, open)
   else
      names, prefix, ending = in_code(list, open, line)
   end
   return chosen(names, prefix), prefix, ending
end

local function common_start(names)
   local start = names[1] or ""
   for _, name in ipairs(names) do
      while name:sub(1, #start) ~= start do start = start:sub(1, -2) end
   end
   return start
end

--- Names in columns of a terminal that is so wide.
function M.columns(names, width)
   local longest = 0
   for _, name in ipairs(names) do longest = math.max(longest, #name) end
   local across = math.max(1, math.floor(width / (longest + 2)))
   local n = math.min(#names, MOST_SHOWN)
   local down = math.ceil(n / across)
   local lines = {}
   for row = 1, down do
      local cells = {}
      for k = row, n, down do cells[#cells + 1] = ("%-" .. longest .. "s"):format(names[k]) end
      lines[row] = table.concat(cells, "  "):gsub("%s+$", "")
   end
   if #names > n then lines[#lines + 1] = ("... %d more"):format(#names - n) end
   return table.concat(lines, "\n")
end

--- What the tab key does: a text to insert, or one to show.
-- @tparam string line up to the cursor
function M.tab(line)
   if not line:find("%S") then return "   " end
   local names, prefix, ending = M.candidates(line)
   if #names == 0 then return nil end
   local more = common_start(names):sub(#prefix + 1)
   if #names == 1 then return more .. (names[1]:sub(-1) == "/" and "" or ending) end
   if more ~= "" then return more end
   return nil, M.columns(names, core.sys.columns() or 80)
end

return M
