--- Pages and pictures that the program writes.

local assert = require("luassert")

local M = {}

--- Tags that close, as often as they are opened and in that order.
local function check_tags(text)
   local open = {}
   for close, tag, empty in text:gsub("<!DOCTYPE html>", ""):gmatch("<(/?)(%w+)[^<>]-(/?)>") do
      if close == "/" then
         assert.equal(tag, table.remove(open))
      elseif empty == "" and tag ~= "meta" and tag ~= "br" then
         open[#open + 1] = tag
      end
   end
   assert.same({}, open)
end

--- What a page of its own may have: no address, no script, tags that close.
function M.check(page)
   assert.matches("^<!DOCTYPE html>\n", page)
   for _, word in ipairs { "<script", "src=", "href=", "url%(", "@import", "<link", "<iframe" } do
      assert.is_nil(page:find(word), word)
   end
   assert.is_nil(page:gsub("http://www.w3.org/2000/svg", ""):find("https?:"))
   assert.matches("default%-src 'none'", page)
   assert.is_nil(page:find("nan", 1, true) or page:find("=\"inf", 1, true))
   check_tags(page)
end

--- A drawing by itself.
function M.check_svg(text)
   assert.matches("^<svg [^>]*xmlns=\"http://www.w3.org/2000/svg\" viewBox=", text)
   assert.is_nil(text:find("nan", 1, true) or text:find("=\"%-?inf"))
   check_tags(text)
end

return M
