--- Help on names and values, at the prompt and as `ftpipe help`.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local help = require("ftpipe.prompt.help")
local parts = require("ftpipe.parts")
local process = require("spec.support.process")
local reference = require("ftpipe.prompt.reference")

describe("help", function()
   it("is on every part, and on every call of the reference, with its arguments", function()
      local calls = dofile("tools/reference.lua").calls()
      assert.is_true(#calls > 90)
      for _, call in ipairs(calls) do
         local text = help.on_name(call:match("^[^(]*"))
         assert.is_truthy(text and text:find(call, 1, true), call)
      end
      for _, row in ipairs(parts) do
         assert.matches("^ft%." .. row[1] .. "\n", help.on_name(row[1]))
         assert.equal(help.on_name("ft." .. row[1]), help.on_value(ft[row[1]]), row[1])
      end
   end)

   it("is on every function that users reach through ft and are meant to", function()
      local seen, hidden = 0, dofile("tools/reference.lua").hidden()
      for _, row in ipairs(parts) do
         local part = ft[row[1]]
         for name, value in pairs(type(part) == "table" and part or {}) do
            local full = ("ft.%s.%s"):format(row[1], name)
            if type(value) == "function" and not hidden[full] then
               seen = seen + 1
               assert.matches("^ft%S*%(", help.on_value(value) or "", full)
               assert.is_truthy(help.on_value(value):find(full .. "(", 1, true), full)
            end
         end
      end
      assert.is_true(seen > 60, seen)
   end)

   it("is on every method of tensors", function()
      local seen = 0
      for name, method in pairs(core.tensor.methods) do
         if not ft.tensor.ops[name] and name ~= "address" then -- what `pointer` is made of
            seen = seen + 1
            assert.matches("^tensor:" .. name .. "%(", help.on_value(method) or "", name)
         end
      end
      assert.is_true(seen > 20, seen)
      assert.matches("^ft%.tensor%.ops%.NAME%(", help.on_value(ft.tensor.ops.softmax))
      assert.matches("^ft%.task%.NAME%(", help.on_value(ft.task.rte))
   end)

   it("tells a method, and an object's methods", function()
      local model = ft.model("t5-small")
      assert.matches("^model:tokenizer%(%)", help.on_value(model.tokenizer))
      assert.equal("model", class.of(model))
      assert.matches("^methods of a model:\n  model:tokenizer%(%)", help.on_value(model))
      assert.matches("plan:why%(node%)", help.on_name("why"))
   end)

   it("lists options with what they take, defaults and units", function()
      local text = help.on_name("ft.explore")
      assert.matches("\n%- batch %(integer of at least 1%) %[32%]: samples of an update\n", text)
      assert.matches("\n%- schedule %(gpipe, .-%) %[1f1b%]", text:gsub("sequential, ", ""))
      assert.matches("^%-%-micro%-batches, in Lua micro_batches\n", help.on_name("--micro-batches"))
      assert.matches("seconds, as 90s", help.on_name("ft.opts.line") .. require("ftpipe.base.opts")
         .line("wait", { type = "seconds" }))
   end)

   it("says of a call its first sentence, which does not end within braces", function()
      assert.matches("\n      The flags of the running script: ft%.args { %.%.%. }%.$",
         help.brief(ft.args))
      assert.matches("^ft%.tensor%.ops%.NAME%(", help.on_name("ft.tensor.ops"))
   end)

   it("has the pages, and says what a misspelt name may have been", function()
      for _, topic in ipairs(reference.topics()) do
         assert.matches("^# ", reference.topic(topic))
         assert.equal(reference.topic(topic), help.on_name(topic), topic)
      end
      assert.is_nil(help.on_name("schedulez"))
      assert.equal(" (did you mean 'schedules'?)", help.hint("schedulez"))
      assert.equal(" (did you mean 'ft.explore'?)", help.hint("ft.explor"))
   end)

   it("says where a function is, with its text", function()
      local text = help.source(ft.explore.model)
      assert.matches("^lua/ftpipe/planner/explore%.lua:%d+", text)
      assert.matches("^lua/ftpipe/placement/cluster%.lua:%d+", help.source(ft.cluster))
      assert.equal("in C", help.source(print))
      assert.is_nil(help.source(3))
   end)

   it("is there on the command line", function()
      assert.matches("^ft%.graph%.load%(path, options%)\n", (process.ftpipe { "help",
         "ft.graph.load" }))
      assert.matches("^# ", (process.ftpipe { "help", "schedules" }))
      process.refused(2, "there is no help on 'ft.explor' %(did you mean 'ft.explore'%?%)",
         { "help", "ft.explor" })
   end)

   it("is there at the prompt, as a call and with a question mark", function()
      local out, err = process.ftpipe({ "-i" }, 'help(ft.explore)\nhelp "ft.graph.load"\n'
         .. "?ft.cluster\n??ft.cluster.name_of\n?why\nm = ft.model('t5-small')\n?m\n"
         .. "?m.tokenizer\n?nothing_at_all\nhelp\nhelp()\n")
      for _, pattern in ipairs {
         "ft%.explore\n\nA plan to look at",
         "ft%.graph%.load%(path, options%)",
         "ft%.cluster\n\nDevices and links", "lua/ftpipe/placement/cluster.lua:%d+\n.-end\n",
         "plan:why%(node%)", "methods of a model", "model:tokenizer%(%)",
         "A model on devices that need not be here" }
      do
         assert.matches(pattern, out)
      end
      assert.matches("there is no help on 'nothing_at_all'", err)
   end)

   it("is on what a variable holds before a name of the reference", function()
      local function said(lines)
         return process.ftpipe({ "-i", "-q" }, "run = ft.cluster 'cpu:2'\nargs = {}\n"
            .. "x = ft.explore('t5-small', { devices = 'sim:2x11GB', batch = 4, source = 8 })\n"
            .. "t = ft.tensor { 1 }\nload = ft.plan.load\nexplore = ft.explore\n" .. lines .. "\n")
      end
      assert.matches('^methods of a cluster:.*\n\nft%.run: help "ft%.run"\n\n$', (said "?run"))
      assert.matches("^ft%.args\n", (said "?args"))
      assert.matches('^ft%.plan%.load%(path%).*\nft%.graph%.load, .*: help "load"\n\n$',
         (said "?load"))
      assert.equal((said "?ft.explore"), (said "?explore"))
      assert.matches("^subject:why%(node%)\n", (said "?x:why"))
      assert.matches("^tensor:sum%(axis%)\n", (said "?t:sum"))
      assert.matches("^lua/ftpipe/planner/subject%.lua:%d+\n", (said "??x:why"))
   end)

   it("is on help itself, and says of what there is none", function()
      local out, err = process.ftpipe({ "-i", "-q" }, "help(help)\n?help\nhelp(nil)\n"
         .. "??plan:why\n?colour:of\n")
      assert.equal(2, select(2, out:gsub("A model on devices that need not be here", "")))
      assert.not_matches("declaration", out)
      assert.equal("there is no help on nil; help alone is the tour\n"
         .. "'plan:why' is a name: ?? shows the source of a value, as ??ft.explore or ??p.why\n"
         .. "there is no help on 'colour:of'\n", err)
   end)

   it("has a tour of lines that run, and say what they are said to say", function()
      local tour, lines = process.ftpipe({ "-i", "-q" }, "help\n"), {}
      for line in tour:gmatch("\n  ([^\n]*)") do lines[#lines + 1] = line:gsub("   .*", "") end
      assert.is_true(#lines > 12, tour)
      files.in_directory(function(directory)
         local typed = {}
         for i, line in ipairs(lines) do
            typed[i] = ("%s\nprint('end of %d')"):format(line, i):gsub("plan%.html",
               directory .. "/%0")
         end
         local out, err = process.ftpipe({ "-i", "-q" }, table.concat(typed, "\n") .. "\n")
         assert.equal("", err)
         local at = 1
         for i, line in ipairs(lines) do
            local first, last = out:find(("end of %d\n"):format(i), at, true)
            local is_silent = line:find("^[%w.]+ = ") or line:find(":html", 1, true)
            assert.equal(not is_silent, first > at, line)
            at = last + 1
         end
         assert.matches("\n%d[%d.]+\ttrue\t", out) -- it fits
         assert.not_matches("the plans are alike", out)
         assert.equal("file", core.sys.exists(directory .. "/plan.html"))
      end)
   end)
end)
