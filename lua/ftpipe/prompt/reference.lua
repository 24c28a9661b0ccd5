--- The reference inside the program: the pages of doc/, of which doc/lua.md is made from the
-- comments in the source (tools/reference.lua).

local core = require("ftpipe.core")

local M = {}

local PAGES = "doc/(.*)%.md$" -- names of the embedded ones

--- The names of the pages, sorted: what `ftpipe help` knows besides functions.
function M.topics()
   local names = {}
   for _, name in ipairs(core.assets()) do
      local page = name:match(PAGES)
      if page and page ~= "lua" then names[#names + 1] = page end
   end
   return names
end

--- The text of a page; nil when there is none of that name.
function M.topic(name)
   for _, known in ipairs(M.topics()) do
      if known == name then return core.asset(("doc/%s.md"):format(name)) end
   end
   return nil
end

--- "ft.graph.load" of "ft.graph.load(path, options)".
local function name_of(call) return call:match("^[^(]*") end

local function trimmed(lines)
   return (table.concat(lines, "\n"):gsub("^\n+", ""):gsub("\n+$", ""))
end

--- Reads doc/lua.md.
local function read()
   local entries, lines = {}, nil
   local function begin(call, name)
      if entries[1] then entries[#entries].text = trimmed(lines) end
      lines = {}
      entries[#entries + 1] = { name = name, call = call }
   end
   for line in (core.asset("doc/lua.md") .. "\n"):gmatch("(.-)\n") do
      local part, call = line:match("^## (ft%.[%w_]+)$"), line:match("^### `(.*)`$")
      if part then
         begin(nil, part)
      elseif call then
         begin(call, name_of(call))
      elseif entries[1] then
         lines[#lines + 1] = line
      end
   end
   entries[#entries].text = trimmed(lines)
   return entries
end

local known

--- What doc/lua.md says: entries { name =, call = (nil of a whole part), text = }, in its order.
function M.entries()
   known = known or read()
   return known
end

--- The entry of a call by its whole name; nil when there is none.
function M.call(name)
   for _, entry in ipairs(M.entries()) do
      if entry.call and entry.name == name then return entry end
   end
   return nil
end

--- The entries of that name: a part, a call, or both; "explore" is ft.explore, and "why" the
-- methods of that name.
function M.find(name)
   local found = {}
   for _, wanted in ipairs { name, "ft." .. name } do
      for _, entry in ipairs(M.entries()) do
         if entry.name == wanted then found[#found + 1] = entry end
      end
      if found[1] then return found end
   end
   for _, entry in ipairs(M.entries()) do
      if entry.call and entry.name:match("[%w_]+$") == name then found[#found + 1] = entry end
   end
   return found
end

--- The entries of whole parts.
function M.parts()
   local parts = {}
   for _, entry in ipairs(M.entries()) do
      if not entry.call then parts[#parts + 1] = entry end
   end
   return parts
end

--- The calls whose names begin so: of a part "ft.plan.", of a class "plan:".
function M.calls(prefix)
   local calls = {}
   for _, entry in ipairs(M.entries()) do
      if entry.call and entry.name:sub(1, #prefix) == prefix then calls[#calls + 1] = entry end
   end
   return calls
end

return M
