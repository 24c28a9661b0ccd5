local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local ftpipe = process.ftpipe

describe("the program", function()
   local directory

   setup(function()
      directory = files.directory()
      core.sys.write_file(directory .. "/show", "print(#arg, arg[0], arg[-1] ~= nil, ...)")
   end)

   teardown(function() files.remove(directory) end)

   it("runs code, modules and standard input", function()
      assert.equal("1\n", (ftpipe { "-e", "print(1)" }))
      assert.equal("1\n2\n", (ftpipe { "-e", "print(1)", "-e", "print(2)" }))
      assert.equal("table\n",
         (ftpipe { "-l", "ftpipe", "-e", "print(type(package.loaded.ftpipe))" }))
      assert.equal("7\n", (ftpipe({}, "print(7)")))
      assert.equal("7\tx\n", (ftpipe({ "-", "x" }, "print(7, ...)")))
   end)

   it("runs a file of any name, with arg as lua has it", function()
      local path = directory .. "/show"
      assert.equal(("2\t%s\ttrue\ta\t-b\n"):format(path), (ftpipe { path, "a", "-b" }))
   end)

   it("says that standard input is a script, of what is none", function()
      local _, err = ftpipe({}, "help")
      assert.matches("^ftpipe: stdin:1: [^\n]*\nstandard input is a script where it is no "
         .. "terminal; ftpipe %-i reads it as the prompt does\n", err)
      _, err = ftpipe({}, "error 'no'")
      assert.not_matches("standard input", err)
   end)

   it("takes none of its own options for flags of a recipe", function()
      local code = "local ft = require('ftpipe') print(ft.args({ preset = 't5' }).batch, #arg)"
      assert.equal("32\t0\n", (ftpipe { "-e", code }))
      local out, err = ftpipe({ "-q", "-i", "--color=never" }, "args = ft.args { preset = 't5' }\n"
         .. "args.batch, #arg\narg = { '--batch', '7' }\nft.args({ preset = 't5' }).batch\n")
      assert.same({ "32\t0\n7\n\n", "" }, { out, err })
   end)

   it("finds modules beside the script", function()
      core.sys.write_file(directory .. "/beside.lua", "return 'found'")
      core.sys.write_file(directory .. "/main.lua", "print(require('beside'))")
      assert.equal("found\n", (ftpipe { directory .. "/main.lua" }))
   end)

   it("works as a copy in an empty directory", function()
      local command = [[cp '%s' '%s/copy' && cd '%s' &&
         ./copy -e 'print(require("ftpipe").version)']]
      local out = process.shell(command:format(core.sys.executable(), directory, directory))
      assert.equal(core.version .. "\n", out)
   end)

   -- How long it takes to start is a gate of ./dev bench; this is what it takes it for.
   it("starts with none of its modules, and has those that are used", function()
      local count = "local n = 0 for name in pairs(package.loaded) do "
         .. "n = n + (name:find('^ftpipe') and 1 or 0) end print(n)"
      assert.equal("0\n", (ftpipe { "-e", count }))
      local used = tonumber((ftpipe { "-l", "ftpipe", "-e", "ft = ftpipe " .. count }))
      assert.is_true(used > 0 and used <= 10, used) -- of some 200
   end)

   it("prints help in at most 40 lines, and the version", function()
      local help, _, code = ftpipe { "--help" }
      assert.equal(0, code)
      assert.is_true(select(2, help:gsub("\n", "")) <= 40)
      assert.matches("^ftpipe " .. core.version:gsub("%.", "%%."), (ftpipe { "-v" }))
   end)

   it("has help on commands by word and by flag", function()
      assert.equal((ftpipe { "--help" }), (ftpipe { "help" }))
      assert.equal((ftpipe { "plan", "--help", "all" }), (ftpipe { "help", "plan", "all" }))
      process.refused(2, "a script has its own help: ftpipe %S*/show %-%-help",
         { "help", directory .. "/show" })
      process.refused(2, "there is no help on 'plam' %(did you mean 'plan'%?%)",
         { "help", "plam" })
   end)

   it("refuses what it does not know with one line and code 2", function()
      local function refused(arguments, pattern)
         assert.equal("", process.refused(2, pattern, arguments))
      end
      refused({ "--hlep" }, "unknown option '%-%-hlep' %(did you mean '%-%-help'%?%)")
      refused({ "-e" }, "needs a value")
      refused({ directory .. "/shwo" }, "did you mean '" .. directory .. "/show'")
      refused({ directory }, "is a directory")
   end)

   it("reports errors of Lua with a traceback, and code 1", function()
      local _, err, code = ftpipe { "-e", "local x = nil; x.y = 1" }
      assert.matches("^ftpipe: %(command line%):1: attempt to index", err)
      assert.matches("stack traceback", err)
      assert.equal(1, code)
   end)

   it("ends silently with code 1 when the error is nil", function()
      local out, err, code = ftpipe { "-e", "error()" }
      assert.same({ "", "", 1 }, { out, err, code })
   end)

   it("ends with code 1 and a line when the error has no text", function()
      local raises = "error(setmetatable({}, { __tostring = function() error('x') end }))"
      for _, chunk in ipairs { "error({})", raises } do
         local out, err, code = ftpipe { "-e", chunk }
         assert.same({ "", "ftpipe: (the error is not a string)\n", 1 }, { out, err, code })
      end
   end)

   it("gives each status its exit code, and one line", function()
      local codes = {
         ["invalid argument"] = 2, ["plan infeasible"] = 3, diverged = 4, ["lost worker"] = 5,
         ["malformed data"] = 6, ["not found"] = 6, ["input or output failed"] = 6, cancelled = 130,
         ["out of memory"] = 1,
      }
      for status, wanted in pairs(codes) do
         local _, err, code = ftpipe { "-e",
            ("require('ftpipe.core').fail('%s', 'what happened')"):format(status) }
         assert.equal("ftpipe: what happened\n", err)
         assert.equal(wanted, code)
      end
   end)

   it("fails when what it prints cannot be written", function()
      if not core.sys.exists("/dev/full") then return pending("there is no /dev/full") end
      local out, err, code = process.shell(("'%s' -e 'print(1)' >/dev/full; echo $?; "
         .. "'%s' plan t5-small --format json --devices sim:2x11GB >/dev/full"):format(
         core.sys.executable(), core.sys.executable()))
      local line = "ftpipe: standard output cannot be written: No space left on device\n"
      assert.same({ "6\n", line:rep(2), 6 }, { out, err, code })
   end)

   it("uses no better kernels than FTPIPE_KERNELS names", function()
      local command = [[FTPIPE_KERNELS=%s '%s' -e 'print(require("ftpipe.core").sys.kernels())']]
      local function kernels(name)
         return process.shell(command:format(name, core.sys.executable()))
      end
      assert.equal("base\n", (kernels("base")))
      assert.equal(core.sys.kernels() .. "\n", (kernels("avx512+amx")))
      local out, err, code = kernels("sse")
      assert.same({ "", "ftpipe: FTPIPE_KERNELS is 'sse', expected one of base, avx2, avx512, "
         .. "avx512+bf16, avx512+amx\n", 2 }, { out, err, code })
   end)

   it("reads the length of a table after another reference has added to it", function()
      -- LuaJIT's issue 843: compiled code gave the length of an earlier time.
      local out = ftpipe { "-e", [[
         local function sum_of_lengths()
            local list, sum = {}, 0
            local same = list
            for i = 1, 1000 do same[i] = i sum = sum + #list end
            return sum
         end
         print(sum_of_lengths())
         require("jit").flush()
         require("jit.opt").start(3)
         print(sum_of_lengths())]] }
      assert.equal("500500\n500500\n", out)
   end)

   it("prefers modules of FTPIPE_LUA", function()
      core.sys.mkdir(directory .. "/modules/ftpipe/base")
      core.sys.write_file(directory .. "/modules/ftpipe/base/units.lua", "return 'mine'")
      local command = [[FTPIPE_LUA='%s/modules' '%s' -e 'print(require("ftpipe.base.units"))']]
      local out = process.shell(command:format(directory, core.sys.executable()))
      assert.equal("mine\n", out)
   end)

   it("stops plain Lua on Ctrl-C with code 130, on SIGTERM with 143", function()
      -- the loop calls into C, since ThreadSanitizer holds signals back until then
      local loop = [[jit.off() local sys = require("ftpipe.core").sys
         io.popen("sleep 0.2; kill -%s " .. sys.getpid())
         while true do sys.time_ns() end]]
      local out, err, code = ftpipe { "-e", loop:format("INT") }
      assert.same({ "", "ftpipe: interrupted\n", 130 }, { out, err, code })
      out, err, code = ftpipe { "-e", loop:format("TERM") }
      assert.same({ "", "ftpipe: terminated\n", 143 }, { out, err, code })
   end)

   it("stops a long solve in C on SIGTERM, with code 143", function()
      local out, err, code = ftpipe { "-e", [[local ft = require("ftpipe")
         local n = 60
         local p = { node_ns = {}, edge_from = {}, edge_to = {}, edge_bytes = {},
            devices = { {}, {}, {} } }
         for i = 1, n do
            p.node_ns[i] = 1e6 + 12345.6 * (i * i * 7919 % 1009)
            if i > 1 then
               p.edge_from[i - 1], p.edge_to[i - 1], p.edge_bytes[i - 1] = i - 1, i, 8
            end
         end
         io.popen("sh spec/support/send.sh " .. ft.sys.getpid() .. " busy TERM")
         ft.partition(p, { method = "mixed", effort = 1e6 })]] }
      -- on a busy machine the signal may come while Lua still prepares the problem
      local stopped = err == "ftpipe: terminated\n"
         or err == "ftpipe: partition: stopped before it was done\n"
      assert.same({ "", true, 143 }, { out, stopped, code }, err)
   end)

   it("lets a handler of another error finish, then stops", function()
      local out, err, code = ftpipe { "-e", [[local sys = require("ftpipe.core").sys
         jit.off()
         print(xpcall(function() error("first", 0) end, function(problem)
            os.execute("kill -TERM " .. sys.getpid())
            for _ = 1, 1000 do sys.time_ns() end
            return "handled " .. problem
         end))
         for _ = 1, 1000 do sys.time_ns() end]] }
      assert.matches("^ftpipe: terminated", err)
      assert.equal(143, code)
      assert.not_matches("error in error", out)
   end)

   it("leaves the interrupt to a script that holds it", function()
      local out, _, code = ftpipe { "-e", [[jit.off() local sys = require("ftpipe.core").sys
         sys.hold_interrupt(true) io.popen("sleep 0.2; kill -INT " .. sys.getpid())
         while not sys.interrupted() do sys.time_ns() end print("saved") os.exit(75)]] }
      assert.same({ "saved\n", 75 }, { out, code })
   end)
end)
