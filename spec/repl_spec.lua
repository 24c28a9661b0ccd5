--- What the prompt reads, runs and shows.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local repl = require("ftpipe.prompt.repl")

describe("repl", function()
   it("takes expressions and statements", function()
      local function evaluate(text)
         local ok, shown = repl.evaluate((repl.compile(text)))
         return ok, shown
      end
      assert.same({ true, "3" }, { evaluate("1 + 2") })
      assert.same({ true, "3" }, { evaluate("= 1 + 2") })
      assert.same({ true, "1\tnil\tx" }, { evaluate("1, nil, 'x'") })
      assert.same({ true }, { evaluate("local x = 1") })
      assert.same({ true }, { evaluate("return") })
   end)

   it("shows what is in a plain table", function()
      local function shown(text)
         local _, result = repl.evaluate((repl.compile(text)))
         return result
      end
      assert.equal("{}", shown("{}"))
      assert.equal('{ a = "x", b = { 1 } }', shown("{ a = 'x', b = { 1 } }"))
      assert.equal("{ a = {}, [1] = 5, [2] = { x = {} } }", shown("{ 5, { x = {} }, a = {} }"))
      assert.equal("{ a = { b = { c = { 1 } } } }", shown("{ a = { b = { c = { 1 } } } }"))
      assert.equal("{ a = { b = { c = { d = {...} } } } }\n... page(x) has all",
         shown("{ a = { b = { c = { d = { 1 } } } } }"))
      assert.matches("^{\n  a = { 1, .*, 19, %.%.%. }\n  b = 1\n}\n%.%.%. page%(x%) has all$",
         shown("(function() local t = {} for i = 1, 40 do t[i] = i end "
            .. "return { a = t, b = 1 } end)()"))
      local x = ("x"):rep(60)
      assert.equal(('{\n  a = {\n    [1] = "%s"\n    [2] = { 1, 2 }\n    [3] = "%s"\n  }\n'
         .. '  b = 1\n}'):format(x, x),
         shown("{ a = { ('x'):rep(60), { 1, 2 }, ('x'):rep(60) }, b = 1 }"))
      assert.equal("{ again = <cycle>, x = { <cycle>, 2 } }",
         shown("(function() local t = {} t.again, t.x = t, { t, 2 } return t end)()"))
      assert.matches("^{\n  .*\n  %.%.%. 76 more, page%(x%) has all\n}$", shown(
         "(function() local t = {} for i = 1, 100 do t[i] = ('y'):rep(9) end return t end)()"))
      assert.matches("^ftpipe .*: ft%.args, ", shown("require('ftpipe')"))
   end)

   it("answers ?x as wide as the terminal, as help(x) does", function()
      local style = require("ftpipe.prompt.style")
      local as_wide, told = style.as_wide, nil
      finally(function() style.as_wide = as_wide end)
      function style.as_wide(text)
         told = text
         return ""
      end
      repl.evaluate((repl.compile("?ft.explore")))
      assert.matches("^ft.explore\n", told)
   end)

   it("shows all of a value when it is asked to", function()
      local whole = require("ftpipe.prompt.show").whole
      assert.equal("text", whole("text"))
      assert.equal('{ a = { b = { c = "x" } }, ["d-e"] = 1 }',
         whole { a = { b = { c = "x" } }, ["d-e"] = 1 })
      local many = {}
      for i = 1, 90 do many[i] = { i } end
      assert.matches("^{\n  %[1%] = { 1 },\n.*\n  %[90%] = { 90 }\n}$", whole(many))
      local round = { 1 }
      round.again = { round }
      assert.equal("{ again = { <cycle> }, [1] = 1 }", whole(round))
      local tensor = require("ftpipe").tensor
      assert.matches(" 1000, 1001,", whole(tensor.arange(2000)))
   end)

   it("has rows of characters for lists of numbers", function()
      local spark = require("ftpipe.base.spark")
      assert.equal("", spark({}))
      assert.equal("_#", spark({ 1, 2 }, 40, true))
      assert.equal("▁▁█", spark({ 1, 1, 5 }, 40, false))
      assert.equal("___", spark({ 3, 3, 3 }, 40, true))
      local falling = {}
      for i = 1, 1000 do falling[i] = -i end
      assert.equal("#*+=-:._", spark(falling, 8, true))
   end)

   it("measures how long calls take", function()
      local tools = require("ftpipe").tools
      local calls = 0
      local measured = tools.bench(function() calls = calls + 1 end, { seconds = 0.01 })
      assert.equal(calls - 1, measured.runs)
      assert.is_true(0 < measured.low and measured.low <= measured.median
         and measured.median <= measured.high)
      assert.matches("^median %S+ [num]?s, half of them %S+ [num]?s to %S+ [num]?s, %d+ runs$",
         tostring(measured))
      local out = process.ftpipe { "-e",
         "local ft = require('ftpipe') print(ft.tools.time(function(a) return a, 8 end, 7))" }
      assert.matches("^%S+ [num]?s\n7\t8\n$", out)
      assert.fails_with(function() tools.bench(3) end, "'f': expected a function, got 3")
      assert.fails_with(function() tools.bench(print, { second = 1 }) end, "did you mean 'seconds'")
   end)

   it("shows functions and parts by how they are called, models as trees", function()
      local function shown(text)
         local _, result = repl.evaluate((repl.compile(text)))
         return result
      end
      local ft = "require('ftpipe')."
      assert.equal("  ft.graph.load(path, options)\n      Reads a graph from a file.",
         shown(ft .. "graph.load"))
      assert.matches("^  ft%.explore%(what, o%)\n      Plans a model", shown(ft .. "explore"))
      assert.matches("^  ft%.units%.bytes%(value%)\n .-\n  ft%.units%.seconds",
         shown(ft .. "units"))
      assert.matches("^  model:tokenizer%(%)\n", shown(ft .. "model('gpt2').tokenizer"))
      assert.matches("^model gpt2 %(gpt2%), .*\n  block%.0 %.%. 11 +12 x 7%.09 ",
         shown(ft .. "model('gpt2')"))
      assert.matches("^function: ", shown("print"))
   end)

   it("keeps what users assign apart from the program", function()
      files.in_directory(function(directory)
         core.sys.write_file(directory .. "/own.lua", "seen = n\nn = 3\n")
         core.sys.write_file(directory .. "/first.lua", "k = 1 function get() return k end")
         local words = { "-i", "-q", "-e", "told = 8", directory .. "/first.lua" }
         local out, err = process.ftpipe(words, "table = { 1, 2 }\nprint = 3\n"
            .. "tostring = nil\npcall = nil\nos = nil\nio = nil\nselect = { 1 }\n"
            .. "type = 't5'\nft.cluster 'cpu:2'\ntable\ntostring\n"
            .. "f = function() return later end\nlater = 9\nf()\nn = 2\n"
            .. ("dofile('%s/own.lua')\nseen, n, _G.n, _G.nope\n"):format(directory)
            .. "loadstring('return n')()\nk = 5\nget(), told\nnil\n_\nprnt\n")
         assert.matches("^cluster cpu:2.*\n{[^\n]*1[^\n]*2 }\nnil\n9\n2\t3\t3\tnil\n3\n5\t8\n"
            .. "nil\nnil\n", out)
         assert.equal("stdin:1: there is no global 'prnt' (did you mean 'print'?)\n", err)
      end)
   end)

   it("offers what may stand there: choices, devices, names, methods for users", function()
      local complete = require("ftpipe.prompt.complete")
      local globals, ft = require("ftpipe.prompt.globals"), require("ftpipe")
      globals.own.p = ft.explore("t5-small", { devices = "sim:2x11GB", batch = 4,
         partition = "seq" })
      globals.own.ft, globals.own.help = ft, print
      finally(function()
         for _, name in ipairs { "p", "ft", "help" } do globals.own[name] = nil end
      end)
      local function expect(line, with, without)
         local names = " " .. table.concat((complete.candidates(line)), " ") .. " "
         for name in with:gmatch("%S+") do
            assert.is_truthy(names:find(" " .. name .. " ", 1, true), line .. name .. ":" .. names)
         end
         for name in (without or ""):gmatch("%S+") do
            assert.is_nil(names:find(" " .. name .. " ", 1, true), line .. name)
         end
      end
      expect('ft.cluster "', "cpu:2 sim:4x11GB", "t5-small README.md")
      expect('ft.explore("t5-3b", { devices = "', "cpu:2 sim:8x2080ti", "t5-small README.md")
      expect('x = { devices = "', "cpu:2", "README.md")
      expect('ft.partition(x, { method = "', "best mixed seq", "README.md")
      expect('ft.args { preset = "', "fine_tune t5", "README.md")
      expect('help "', "ft.explore plan:why schedules", "README.md")
      expect('ft.explore("', "t5-small README.md", "cpu:2")
      expect('ft.graph.load("', "README.md", "t5-small")
      expect('p:html("', "README.md", "t5-small")
      expect('ft.units.bytes("', "", "README.md")
      expect('p.plan:save("', "README.md")
      expect("p:timeline { ", "batches ascii")
      expect("p.plan:timeline({ ", "batches ascii")
      expect("ft.fine_tune{ ", "args task")
      expect("ft.task.", "rte wic load")
      expect("p:", "why timeline", "__tostring made_of lasts plays")
      expect("p.", "seconds stages", "__index __name takes")
      expect("p.__", "__name")
      expect("ft.graph.", "load", "takes open")
   end)

   it("asks for more when a chunk is not complete", function()
      local chunk, _, more = repl.compile("for i = 1, 2 do")
      assert.is_nil(chunk)
      assert.is_true(more)
      for text, wanted in pairs {
         ["for i = = 2 do"] = false, ["end"] = false, ["x = 1 end"] = false, ["1 +"] = true,
         ["{1,"] = true, ["{1,\n2"] = true, ["= {"] = true, ["x = {"] = true, ["[[a"] = true,
         ["f("] = true, ["'a"] = false, ["if x then"] = true, ["}"] = false, ["1 2"] = false,
      } do
         chunk, _, more = repl.compile(text)
         assert.same({ nil, wanted }, { chunk, more }, text)
      end
   end)

   it("shows numbers as they are", function()
      local function shown(text) return select(2, repl.evaluate((repl.compile(text)))) end
      assert.equal("9007199254740992", shown("2^53"))
      assert.equal("{ a = 9007199254740991 }", shown("{ a = 2^53 - 1 }"))
      assert.equal("0.1\t0.30000000000000004\t1e+300\t14", shown("0.1, 0.1 + 0.2, 1e300, 14"))
      assert.equal("nan\tnan\tinf\t-inf", shown("0/0, -(0/0), 1/0, -1/0"))
   end)

   it("shows control characters as they are written, so that the terminal does not obey", function()
      local function shown(text) return select(2, repl.evaluate((repl.compile(text)))) end
      assert.equal("a\\27[31m\n\tb", shown([["a\27[31m\n\tb"]]))
      assert.equal([[{ "a\27[31m\n\"\\\194\155" }]], shown([[{ "a\27[31m\n\"\\\194\155" }]]))
      assert.equal("\195\182 a\\13", shown([["ö a\r"]]):gsub("\\r", "\\13"))
      assert.equal([[{ "\27" }]], require("ftpipe.prompt.show").whole { "\27" })
   end)

   it("reads chunks over lines, and says what is none", function()
      local out, err = process.ftpipe({ "-i" }, "end\n{1,\n2}\n2^53\n")
      assert.matches("{ 1, 2 }\n", out)
      assert.matches("9007199254740992\n", out)
      assert.matches("near 'end'\n", err)
   end)

   it("does not show what only wrote a file, and shows tables that were raised", function()
      for text, quiet in pairs {
         ["p:html('x.html')"] = true, ["a.b:svg 'x.svg'"] = true, ["p:save(f(1) .. 'x')"] = true,
         ["p:html('x').seconds"] = false, ["p:text('x')"] = false, ["p.html"] = false,
      } do
         local _, about = repl.compile(text)
         assert.equal(quiet, about.quiet, text)
      end
      local ok, shown = repl.evaluate((repl.compile("error { code = 3 }")))
      assert.same({ false, "{ code = 3 }" }, { ok, shown })
   end)

   it("says what a field or a method that is not there may have been", function()
      local _, err = process.ftpipe({ "-i" }, "fruit = { apple = {} }\n"
         .. "fruit.aple.size = 1\nm = ft.model('t5-small')\nm:tokeniser()\nfruit.cherry.size = 1\n")
      assert.matches("'aple' %(a nil value%) %(did you mean 'apple'%?%)\n", err)
      assert.matches("'tokeniser' %(a nil value%) %(did you mean 'tokenizer'%?%)\n", err)
      assert.matches("'cherry' %(a nil value%)\n", err)
   end)

   it("reports errors and goes on", function()
      local ok, problem = repl.evaluate((repl.compile("error('bad', 0)")))
      assert.is_false(ok)
      assert.matches("^bad", problem)
      ok, problem = repl.evaluate((repl.compile("require('ftpipe.core').fail('diverged', 'no')")))
      assert.is_false(ok)
      assert.equal("no", problem)
   end)
end)
