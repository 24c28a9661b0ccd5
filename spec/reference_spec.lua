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

   it("stands without the source: it names no file of it", function()
      local page = core.sys.read_file("doc/lua.md"):gsub("^.-\n## ", "")
      for path in page:gmatch("[%w_/.]+%.[%l]+%f[^%w]") do
         local is_source = path:find("%.lua$") or path:find("%.[ch]$")
         assert.is_true(not is_source or path == "FILE.lua" or path == "recipe.lua"
            or path:find("^examples/") ~= nil or path:find("^recipes/") ~= nil, path)
      end
      assert.is_nil(page:find("ftpipe%.%l+%.%l") or page:find("see judge", 1, true))
   end)

   it("says what the tables of plans and simulations have", function()
      local ft = require("ftpipe")
      local subject = ft.explore("t5-small", { devices = "sim:2x11GB", batch = 4, swap = "auto",
         micro_batches = 2, partition = "seq" })
      local stage = { device = 1, forward_ns = 1, backward_ns = 2 }
      local played = ft.schedule.play { stages = { stage, stage }, micro_batches = 1, batches = 1,
         schedule = "gpipe" }
      local silent = { -- of its own use
         made_of = true, plays = true, lasts = true, beside = true, groups = true, scales = true,
         said = true, devices_name = true, machine = true, unmoved = true,
      }
      local tables = {
         { "ft.explore", subject }, { "ft.explore", subject.stages[1] },
         { "ft.explore", subject.memory[1] }, { "ft.explore", subject.result },
         { "ft.plan", subject.plan }, { "ft.plan", subject.plan.partition },
         { "played:simulate", played:simulate { trace = true } },
         { "played:simulate", played:simulate().waits[1] },
      }
      for _, case in ipairs(tables) do
         local name, fields = unpack(case)
         local text = ""
         for _, entry in ipairs(reference.find(name)) do text = text .. "\n" .. entry.text end
         for key in pairs(fields) do
            if not silent[key] then
               local said = text:find("%f[%w_]" .. key:gsub("^least_s", "mean_s")
                  :gsub("^most_s", "mean_s") .. "%f[^%w_]") -- "least_, most_ and mean_staleness"
               assert.is_truthy(said, name .. ": " .. key)
            end
         end
      end
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
