--- Words in boxes and columns, measured in characters of UTF-8 instead of bytes.

local M = {}

--- How many characters.
function M.width(text) return select(2, text:gsub("[^\128-\191]", "")) end

--- The text, or its beginning and "..." when it has more than `most` characters.
function M.short(text, most)
   if M.width(text) <= most then return text end
   local n = 0
   for at in text:gmatch("()[^\128-\191]") do
      n = n + 1
      if n == most - 2 then return text:sub(1, at - 1) .. "..." end
   end
end

return M
