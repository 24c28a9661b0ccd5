--- The words of a piece of Lua: what the prompt has to know of it without running it.

local M = {}

--- The end of a long bracket that begins at `i`, or nil: "[[" and "[=[".
local function long_end(text, i)
   local level = text:match("^%[(=*)%[", i)
   if not level then return nil end
   local _, last = text:find("]" .. level .. "]", i + #level + 2, true)
   return last or #text, last ~= nil
end

--- The end of a string in quotes, and whether it is closed.
local function quoted_end(text, i)
   local quote, at = text:sub(i, i), i + 1
   while at <= #text do
      local c = text:sub(at, at)
      if c == quote then return at, true end
      if c == "\n" then return at - 1, true end -- an error, and not the prompt's
      at = at + (c == "\\" and 2 or 1)
   end
   return #text, false
end

--- One after the other: the kind ("name", "number", "string", "comment", or the sign itself), the
-- first and the last byte, and of a string whether it is open.
function M.each(text)
   local at = 1
   return function()
      at = text:find("%S", at)
      if not at then return nil end
      local first, closed = at, true
      local kind, last
      if text:find("^%-%-", at) then
         kind, last = "comment", long_end(text, at + 2)
         last = last or (text:find("\n", at, true) or #text + 1) - 1
      elseif text:find("^[%a_]", at) then
         kind, last = "name", select(2, text:find("^[%w_]+", at))
      elseif text:find("^%.?%d", at) then
         kind, last = "number", select(2, text:find("^[%w.]+", at))
      elseif text:find("^[\"']", at) then
         kind, last, closed = "string", quoted_end(text, at)
      elseif text:find("^%[=*%[", at) then
         kind, last, closed = "string", long_end(text, at)
      else
         last = select(2, text:find("^[=~<>]=", at)) or select(2, text:find("^%.%.%.?", at)) or at
         kind = text:sub(at, last)
      end
      at = last + 1
      return kind, first, last, not closed
   end
end

-- What begins and ends blocks; `for` and `while` have a `do`.
local DEPTH = { ["function"] = 1, ["do"] = 1, ["if"] = 1, ["repeat"] = 1, ["end"] = -1,
   ["until"] = -1 }

--- The words without comments, as a list { kind =, first =, last =, text =, depth = }.
local function list_of(text)
   local list, depth = {}, 0
   for kind, first, last in M.each(text) do
      if kind ~= "comment" then
         local word = text:sub(first, last)
         list[#list + 1] = { kind = kind, first = first, last = last, text = word, depth = depth }
         if kind == "name" then depth = depth + (DEPTH[word] or 0) end
      end
   end
   return list
end

--- The same chunk with its outermost locals as globals, so that the next chunk has them: `local` is
-- blanked out, and what has no value gets nil. The second result tells whether there were any.
function M.without_locals(text)
   local list, pieces, at = list_of(text), {}, 1
   for i, word in ipairs(list) do
      if word.kind == "name" and word.text == "local" and word.depth == 0 then
         pieces[#pieces + 1] = text:sub(at, word.first - 1) .. (" "):rep(#word.text)
         at = word.last + 1
         local k = i + 1
         while list[k + 1] and list[k + 1].text == "," do k = k + 2 end
         local next_word = list[k + 1]
         if list[k] and list[k].text ~= "function" and not (next_word and next_word.text == "=")
         then
            pieces[#pieces + 1] = text:sub(at, list[k].last) .. " = nil"
            at = list[k].last + 1
         end
      end
   end
   pieces[#pieces + 1] = text:sub(at)
   return table.concat(pieces), at > 1
end

return M
