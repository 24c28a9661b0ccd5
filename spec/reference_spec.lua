--- doc/lua.md is what tools/reference.lua makes of the comments in the source.

local core = require("ftpipe.core")

describe("doc/lua.md", function()
   it("is up to date: ftpipe tools/reference.lua makes it anew", function()
      local page = dofile("tools/reference.lua").page()
      assert.is_true(core.sys.read_file("doc/lua.md") == page)
   end)

   it("has a section for every part of ft, and says of each function what it is for", function()
      local page = core.sys.read_file("doc/lua.md")
      for _, row in ipairs(require("ftpipe.parts")) do
         assert.is_truthy(page:find("\n## ft." .. row[1] .. "\n", 1, true), row[1])
      end
      assert.is_nil(page:find("\n### [^\n]*\n\n###"))
   end)
end)
