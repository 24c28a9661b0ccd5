--- doc/lua.md is what tools/reference.lua makes of the comments in the source.

local core = require("ftpipe.core")
local opts = require("ftpipe.base.opts")
local reference = require("ftpipe.prompt.reference")

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

   it("has the options of every call that takes some, under the call", function()
      local text_of, seen = {}, 0
      for _, entry in ipairs(reference.entries()) do
         if entry.call then text_of[entry.name] = entry.text end
      end
      for _, row in ipairs(require("ftpipe.parts")) do
         local part = row[2] and require(row[2])
         for call, rules in pairs(type(part) == "table" and part.takes or {}) do
            assert.is_truthy(text_of[call], call)
            for _, name in ipairs(opts.names(rules)) do
               local line = "\n- " .. opts.line(name, rules[name])
               assert.is_truthy((text_of[call] .. "\n"):find(line .. "\n", 1, true), call .. line)
               seen = seen + 1
            end
         end
      end
      assert.is_true(seen > 150, seen)
   end)
end)
