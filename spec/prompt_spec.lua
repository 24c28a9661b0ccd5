--- The prompt as people meet it, on a pseudo-terminal.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local pty = require("spec.support.pty")
local words = require("ftpipe.base.words")

local CTRL_C, CTRL_A, UP, TAB = "\3", "\1", "\27[A", "\t"

describe("the prompt on a terminal", function()
   local directory, terminals

   before_each(function()
      directory, terminals = files.directory(), {}
   end)

   after_each(function()
      for _, terminal in ipairs(terminals) do terminal:close() end
      files.remove(directory)
   end)

   local function open(environment, arguments)
      local all = { HOME = directory, XDG_STATE_HOME = directory .. "/state",
         XDG_CONFIG_HOME = directory .. "/config", NO_COLOR = "1" }
      for key, value in pairs(environment or {}) do all[key] = value end
      local terminal = pty.open(arguments, all)
      terminals[#terminals + 1] = terminal
      terminal.begun = terminal:wait("ft 1> $")
      return terminal
   end

   it("prints values, keeps them and outermost locals", function()
      local t = open()
      assert.matches("\n42\r\n", t:line("6 * 7"))
      assert.matches("\n43\r\n", t:line("_ + 1"))
      assert.matches("\n126\r\n", t:line("Out[1] + _1 + _1"))
      assert.matches("kept for the lines to come", t:line("local x, y = 5"))
      assert.matches("\n5\tnil\r\n", t:line("x, y"))
      assert.not_matches("\n5\r\n", t:line("x;"))
      assert.matches("\n6\r\n", t:line("_ + 1"))
      t:line("colour = 1")
      assert.matches("there is no global 'color' %(did you mean 'colour'%?%)", t:line("color"))
      assert.not_matches("did you mean", t:line("y"))
   end)

   it("says what is here in one line, unless it is to be quiet", function()
      assert.matches("^ftpipe %S+: %d+ cores?[^\n]*, %S+ %a?B, [^\n]*GPUs?; help is help, "
         .. "Ctrl%-D ends\r\n", open().begun)
      assert.not_matches("ftpipe", open({}, "-q").begun)
      assert.not_matches("ftpipe", open({}, "-q -i").begun)
   end)

   it("has colours as it is told to", function()
      assert.not_matches("\27%[31m", open({ NO_COLOR = "" }, "--color=never"):line("error('no')"))
      assert.matches("\27%[31mno\27%[0m", open({}, "--color=always"):line("error('no')"))
      process.refused(2, "expected %-%-color=auto, %-%-color=always or", { "--color=blue" })
   end)

   it("shows the line of a script that was wrong", function()
      core.sys.write_file(directory .. "/x.lua", "local a\n\nreturn a.b\n")
      assert.matches("/x.lua:3: [^\n]*\n  3 | return a%.b\r\n",
         open():line(("dofile('%s/x.lua')"):format(directory)))
   end)

   it("pages what is long", function()
      local t = open { PAGER = "cat -n" }
      t:line("many = {}")
      t:line("for i = 1, 90 do many[i] = 'entry ' .. i end")
      assert.matches("%.%.%. 66 more, page%(x%) has all\r\n", t:line("many"))
      assert.matches("\n +91\t  %[90%] = \"entry 90\"\r\n", t:line("page(many)"))
      t:close()
      t = open { PAGER = "ftpipe-no-such-pager" }
      assert.matches("\n{ 5 }\r\n", t:line("page { 5 }"))
   end)

   it("takes a paste of 200 lines as one chunk, with tabs and what was typed around it", function()
      local t, lines = open(), { "total = 0" }
      for i = 2, 199 do lines[i] = ("\ttotal = total + %d -- line"):format(i) end
      lines[200] = "print('total', total)"
      t:type("print('before') \27[200~" .. table.concat(lines, "\r") .. "\r\27[201~")
      local shown = t:wait("ft 2> $")
      assert.matches("\nbefore\r\ntotal\t19899\r\n", shown)
      t:type("1 +\27[200~ 2\27[201~ + 3\r") -- of one line: as typed
      assert.matches("\n6\r\n", t:wait("ft 3> $"))
      t:type("\27[200~a = 1\rb = 2\ra + b\27[201~\r") -- the last line is still to be edited
      assert.matches("\n3\r\n", t:wait("ft 5> $"))
      t:type("\27[200~c = 1\rc + 1\rc + 2\r\27[201~") -- no chunk as a whole
      assert.matches("\n2\r\n3\r\n", t:wait("ft 8> $"))
   end)

   it("takes lines without marks of a paste", function()
      local t, lines = open(), {}
      for i = 1, 200 do lines[i] = ("n = n + %d"):format(i) end
      t:type("n = 0\r" .. table.concat(lines, "\r") .. "\rprint('sum', n)\r")
      assert.matches("sum\t20100\r\n", t:wait("ft 203> $"))
   end)

   it("completes without running anything of the user's", function()
      local t = open()
      t:line("ran = 0")
      t:line("trap = setmetatable({ apple = 1 }, { __index = function() ran = ran + 1 end, "
         .. "__pairs = function() ran = ran + 1 end })")
      t:type("trap.a" .. TAB .. "\r")
      assert.matches("pple\r?\n1\r\n", t:wait("ft 4> $"))
      t:type("trap.x.y" .. TAB .. "\21")
      t:line("")
      assert.matches("\n0\r\n", t:line("ran"))
      t:type("ft.expl" .. TAB)
      t:wait("ore$")
      t:type("\21m = ft.model('t5-small')\r")
      t:wait("ft %d+> $")
      t:type("m:tok" .. TAB)
      t:wait("enizer$")
      t:type("\21ft.explore('t5-sm" .. TAB)
      t:wait("all$")
      t:type("', { micro" .. TAB)
      t:wait("_batches = $")
      t:type("2, schedule = 'gp" .. TAB)
      t:wait("ipe'$")
      t:type("\21ft.schedule." .. TAB)
      t:wait("interleaves.-splits.-ft%.schedule%.$")
   end)

   it("survives Ctrl-C in a loop of Lua", function()
      if core.sanitized then return pending("ThreadSanitizer holds signals back") end
      local t = open()
      t:line("kept = 7")
      t:type("print('go') while true do end\r")
      t:wait("\ngo\r\n")
      t:type(CTRL_C)
      assert.matches("interrupted", t:wait("ft %d+> $"))
      assert.matches("\n7\r\n", t:line("kept"))
   end)

   it("survives Ctrl-C in a line, and in C", function()
      local t = open()
      t:type("nonsense that is not" .. CTRL_C)
      t:wait("ft 1> $")
      t:type("for i = 1, 2 do\r")
      t:wait("%.> $")
      t:type(CTRL_C)
      t:wait("ft 1> $")
      t:line("kept = 7")
      t:type("p = { node_ns = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, "
         .. "devices = { {}, {}, {} } } for i = 1, 60 do "
         .. "p.node_ns[i] = 1e6 + 12345.6 * (i * i * 7919 % 1009) if i > 1 then "
         .. "p.edge_from[i - 1], p.edge_to[i - 1], p.edge_bytes[i - 1] = i - 1, i, 8 end end\r")
      t:wait("ft %d+> $")
      -- what comes while Lua still looks at the options is said in its words
      local said
      for _, seconds in ipairs { 0.1, 1, 5, 20 } do
         t:type("print('go') ft.partition(p, { method = 'mixed', effort = 1e6 })\r")
         t:wait("\ngo\r\n")
         core.process.sleep(seconds)
         t:type(CTRL_C)
         said = t:wait("ft %d+> $")
         if said:find("stopped", 1, true) then break end
         assert.matches("interrupted", said)
      end
      assert.matches("stopped before it was done", said)
      assert.matches("\n7\r\n", t:line("kept"))
   end)

   it("survives Ctrl-C in a training run", function()
      local t = open()
      t:line("args = ft.args.parse({ preset = 't5', steps = { default = 100000 } }, {})")
      t:type("ft.fine_tune { args = args, task = ft.task.rte { max_source = 64 } }\r")
      t:wait("step %d+/100000")
      t:type(CTRL_C)
      assert.matches("stopped after step %d+ of 100000; nothing was saved", t:wait("ft %d+> $"))
      assert.matches("\n3\r\n", t:line("1 + 2"))
   end)

   it("goes on with a run that Ctrl-C has stopped, and closes it once", function()
      local t = open()
      t:line("args = ft.args { preset = 't5', steps = { default = 100000 }, max_source = "
         .. "{ default = 32 }, eval_limit = { default = 8 } }")
      t:line("model = ft.model(args) task = ft.task.rte {} data = task:open(model, args)")
      t:line("plan = ft.plan { model = model, data = data, args = args }")
      t:line(("args.out = '%s/out'"):format(directory))
      t:line("run = ft.run { plan = plan, task = task, data = data, args = args }")
      assert.matches("\nsteps: for step in run:train%(%) do", t:line("run:train()"))
      assert.matches("run: there is no field 'dona' %(did you mean 'done'%?%)", t:line("run.dona"))
      t:type("for step in run:train() do run:show(step) end\r")
      t:wait("step %d+/100000")
      t:type(CTRL_C)
      assert.matches("saved %S+, resume goes on", t:wait("ft %d+> $"))
      t:line("n = run.done for step in run:train() do if step.step > n + 2 then break end end")
      assert.matches("\n3\r\n", t:line("run.done - n"))
      t:line("s = run:close(run:evaluate())")
      assert.matches("run:close: the run is closed\r\n", t:line("run:close(run:evaluate())"))
      assert.matches("run:train: the run is closed", t:line("run:train()"))
   end)

   it("keeps the lines of prompts beside each other", function()
      local a, b = open(), open()
      for i = 1, 20 do
         a:line(("a%d = %d"):format(i, i))
         b:line(("b%d = %d"):format(i, i))
      end
      b:line(" secret = 1")
      a:close()
      b:close()
      local text = core.sys.read_file(directory .. "/state/ftpipe/history")
      for i = 1, 20 do
         assert.matches(("a%d = %d\n"):format(i, i), text)
         assert.matches(("b%d = %d\n"):format(i, i), text)
      end
      assert.not_matches("secret", text)
      local c = open()
      c:type(UP)
      c:wait("b20 = 20")
   end)

   it("recalls a chunk of several lines as one, in the next prompt, too", function()
      local t = open()
      t:type("for i = 1, 2 do\r")
      t:wait("%.> $")
      t:type("print('x' .. i)\r")
      t:wait("%.> $")
      t:line("end")
      t:line("1 + 1")
      t:type(UP .. UP .. "\r")
      assert.matches("x1\r\nx2\r\n", t:wait("ft 4> $"))
      t:type("\27[200~text = [[a\r\nb]]\r\n#text\r\n\27[201~") -- lines as of DOS
      assert.matches("\n3\r\n", t:wait("ft 6> $"))
      t:close()
      assert.matches("\nfor i = 1, 2 do\rprint%('x' .. i%)\rend\ntext = %[%[a\rb%]%]\n#text\n$",
         core.sys.read_file(directory .. "/state/ftpipe/history"))
      t = open()
      t:type(UP .. UP .. UP .. "\r")
      assert.matches("x1\r\nx2\r\n", t:wait("ft 2> $"))
   end)

   it("follows the width of the terminal", function()
      local t = open()
      t:resize(24, 20)
      t:type("'" .. ("x"):rep(30) .. "'")
      t:resize(24, 60)
      t:type(CTRL_A .. "#" .. "\r")
      assert.matches("\n30\r\n", t:wait("ft 2> $"))
      t:resize(24, 30)
      t:type("ft.schedule." .. TAB)
      local list = t:wait("ft 2> ft%.schedule%.")
      for line in list:gmatch("[^\r\n]+") do assert.is_true(#line < 40, line) end
   end)

   it("wraps pages of help between words", function()
      local t = open()
      t:resize(24, 40)
      local page, prose = t:line("help 'metrics'"), 0
      for line in page:gmatch("[^\r\n]+") do
         if not line:find("^|") and not line:find("^    ") then
            assert.is_true(words.width(line) <= 40, line)
            prose = prose + (#line > 20 and 1 or 0)
         end
      end
      assert.is_true(prose > 20, page)
      t:line("c = ft.cluster 'cpu:2'")
      for _, asked in ipairs { "?c", "compare" } do
         for line in t:line(asked):gmatch("[^\r\n]+") do
            local is_call = line:find("^  %S+%b()$") ~= nil -- as it is
            assert.is_true(is_call or words.width(line) <= 40, line)
         end
      end
   end)

   it("says what a field that is not there may have been", function()
      local t = open()
      t:line("plan = { seconds = 1, inner = { bytes = 2 } }")
      assert.matches("\nnil\r\nthere is no 'second' %(did you mean 'seconds'%?%)\r\n",
         t:line("plan.second"))
      assert.matches("there is no 'byte' %(did you mean 'bytes'", t:line("plan.inner.byte"))
      for _, line in ipairs { "plan.zebra", "plan.seconds", "nil" } do
         assert.not_matches("there is no", t:line(line))
      end
   end)

   it("reads characters whatever the locale says of itself", function()
      for _, locale in ipairs { "C", "POSIX", "C.UTF-8", "nowhere.ISO-8859-1" } do
         local t = open { LC_ALL = locale }
         assert.matches("\n4\r\n", t:line("#'\195\164\195\182'"), locale)
         t:line("'\255\254'") -- no characters: nothing breaks
         assert.matches("\n3\r\n", t:line("1 + 2"), locale)
         t:close()
      end
   end)

   it("runs init.lua first, says what took long, and colours what it may", function()
      core.sys.mkdir(directory .. "/config/ftpipe")
      core.sys.write_file(directory .. "/config/ftpipe/init.lua", "local mine = 12\nown = mine")
      local t = open()
      assert.matches("\n12\r\n", t:line("own"))
      assert.matches("\n%(%d+%.%d%d s%)\r\n", t:line("os.execute('sleep 0.2')"))
      assert.not_matches("\27%[31m", t:line("error('no')"))
      t = open { NO_COLOR = "" }
      assert.matches("\27%[31mno\27%[0m", t:line("error('no')"))
      core.sys.write_file(directory .. "/config/ftpipe/init.lua", "own = = 3")
      t = open()
      assert.matches("\n3\r\n", t:line("1 + 2"))
   end)
end)
