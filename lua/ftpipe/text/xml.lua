--- The part of XML that GraphML needs: elements, attributes and text, with line numbers. No
-- document type definitions, hence no entities but the five of XML and numbers.

local malformed = require("ftpipe.base.malformed")

local M = {}

local ENTITIES = { lt = "<", gt = ">", amp = "&", quot = '"', apos = "'" }
local MOST_DEPTH = 64

local Reader = {}
Reader.__index = Reader

function Reader:where(at)
   -- lines are counted from where they were counted last
   if at < self.counted then self.counted, self.line = 1, 1 end
   self.line = self.line + select(2, self.text:sub(self.counted, at - 1):gsub("\n", ""))
   self.counted = at
   return ("%s:%d"):format(self.path, self.line)
end

function Reader:fail(at, format, ...)
   malformed("%s: " .. format, self:where(at), ...)
end

local function utf8(code)
   if code < 0x80 then return string.char(code) end
   local bytes, first = {}, code < 0x800 and 0xC0 or code < 0x10000 and 0xE0 or 0xF0
   local n = first == 0xC0 and 1 or first == 0xE0 and 2 or 3
   for i = n, 1, -1 do
      bytes[i] = string.char(0x80 + code % 64)
      code = math.floor(code / 64)
   end
   return string.char(first + code) .. table.concat(bytes)
end

function Reader:decode(text, at)
   return (text:gsub("&([^;&]*);?", function(name)
      local code = tonumber(name:match("^#(%d+)$")) or tonumber(name:match("^#x(%x+)$") or "", 16)
      if code and code > 0 and code < 0x110000 then return utf8(code) end
      return ENTITIES[name] or self:fail(at, "there is no entity '&%s;'", name)
   end))
end

--- Attributes of a tag: { name = value }.
function Reader:attributes(text, at)
   local found, from = {}, 1
   while text:find("%S", from) do
      local key, quote, rest = text:match("^%s*([%w_:.%-]+)%s*=%s*([\"'])()", from)
      local close = key and text:find(quote, rest, true)
      if not close then self:fail(at, "not an attribute: '%s'", text:sub(from):sub(1, 40)) end
      if found[key] then self:fail(at, "attribute %s again", key) end
      found[key] = self:decode(text:sub(rest, close - 1), at)
      from = close + 1
   end
   return found
end

-- Openings of what is skipped, and their ends.
local skipped = { { "<!--", "-->" }, { "<?", "?>" } }

--- Where what stands at `at` ends, when it is to be skipped.
function Reader:skip(at)
   for _, pair in ipairs(skipped) do
      if self.text:sub(at, at + #pair[1] - 1) == pair[1] then
         local _, close = self.text:find(pair[2], at + #pair[1], true)
         return close or self:fail(at, "'%s' without '%s'", pair[1], pair[2])
      end
   end
   return nil
end

--- The end of a tag: the first '>' that is in no quotes.
function Reader:tag_end(at)
   local from, quote = at, nil
   while true do
      local stop = self.text:find(quote or "[>\"']", from + 1)
      if not stop then self:fail(at, "a tag is not closed") end
      local c = self.text:sub(stop, stop)
      if not quote and c == ">" then return stop end
      quote, from = not quote and c or nil, stop
   end
end

--- Enters or leaves an element; `element` is the one that is open.
function Reader:tag(element, at, stop)
   local body = self.text:sub(at + 1, stop - 1)
   local closing = body:match("^/%s*([%w_:.%-]+)%s*$")
   if closing then
      if closing ~= element.name or not element.parent then
         self:fail(at, "</%s> closes no <%s>", closing, closing)
      end
      element.text, element.texts = table.concat(element.texts), nil
      return element.parent
   end
   local name, rest, slash = body:match("^([%a_][%w_:.%-]*)(.-)(/?)$")
   if not name then self:fail(at, "not a tag: '<%s>'", body:sub(1, 40)) end
   local child = {
      name = name, attributes = self:attributes(rest, at), children = {}, text = "", at = at,
      parent = element, depth = element.depth + 1, texts = {},
   }
   if child.depth > MOST_DEPTH then self:fail(at, "elements are nested too deep") end
   table.insert(element.children, child)
   return slash == "/" and element or child
end

--- Reads a document.
-- @tparam string text
-- @tparam string path for messages
-- @treturn table the outermost element: name, attributes, children, text; and a function that gives
--   "path:line" of an element
function M.read(text, path)
   local reader = setmetatable({ text = text, path = path, counted = 1, line = 1 }, Reader)
   local root = { name = "", children = {}, texts = {}, depth = 0 }
   local element, at = root, 1
   while true do
      local open = text:find("<", at, true)
      table.insert(element.texts, reader:decode(text:sub(at, (open or #text + 1) - 1), at))
      if not open then break end
      if text:sub(open, open + 8) == "<![CDATA[" then
         local close = text:find("]]>", open, true) or reader:fail(open, "CDATA without an end")
         table.insert(element.texts, text:sub(open + 9, close - 1))
         at = close + 3
      elseif text:sub(open, open + 1) == "<!" and not reader:skip(open) then
         reader:fail(open, "document types are not read")
      else
         local stop = reader:skip(open)
         if not stop then
            stop = reader:tag_end(open)
            element = reader:tag(element, open, stop)
         end
         at = stop + 1
      end
   end
   if element ~= root then reader:fail(element.at, "<%s> is not closed", element.name) end
   if #root.children ~= 1 then reader:fail(1, "expected one outermost element") end
   return root.children[1], function(e) return reader:where(e.at) end
end

--- Text as it stands in a document.
function M.escape(text)
   return (tostring(text):gsub('[<>&"]', {
      ["<"] = "&lt;", [">"] = "&gt;", ["&"] = "&amp;", ['"'] = "&quot;",
   }):gsub("[%z\1-\8\11\12\14-\31]", " "):gsub("[\t\r\n]", function(c)
      return ("&#%d;"):format(c:byte()) -- readers make blanks of those in attributes
   end))
end

return M
