local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local sys = core.sys

describe("core.sys", function()
   local directory

   setup(function() directory = files.directory() end)
   teardown(function() files.remove(directory) end)

   it("writes, reads and lists files", function()
      sys.mkdir(directory .. "/a/b")
      sys.write_file(directory .. "/a/two", "x\0y")
      sys.write_file(directory .. "/a/one", "")
      assert.equal("x\0y", sys.read_file(directory .. "/a/two"))
      assert.same({ "b", "one", "two" }, sys.list_dir(directory .. "/a"))
      assert.same({ "file", 3 }, { sys.exists(directory .. "/a/two") })
      assert.equal("directory", (sys.exists(directory .. "/a/b")))
      assert.is_nil((sys.exists(directory .. "/none")))
   end)

   it("says which file failed, and why", function()
      for name, call in pairs { read = sys.read_file, list = sys.list_dir } do
         local ok, problem = pcall(call, directory .. "/none")
         assert.is_false(ok, name)
         assert.matches("/none", problem.message)
         assert.equal("not found", problem.status)
      end
      assert.fails_with(function() sys.write_file(directory .. "/none/x", "") end, "/none/x")
   end)

   it("refuses wrong arguments with the line of the caller", function()
      assert.fails_with(function() sys.read_file(7) end, "sys_spec%.lua:%d+: bad argument #1")
      assert.fails_with(function() sys.isatty(2.5) end, "expected an integer, got 2%.5")
      assert.fails_with(function() sys.isatty("2") end, "expected an integer, got string")
   end)

   it("tells time and resources", function()
      local before = sys.time_ns()
      assert.is_true(sys.time_ns() >= before)
      assert.is_true(sys.cores() >= 1)
      local now, most = sys.rss()
      assert.is_true(now > 1e6 and most >= now / 2)
      assert.is_true(sys.getpid() > 0)
      assert.equal("file", (sys.exists(sys.executable())))
   end)

   it("knows its program when that is replaced, and says that it was removed", function()
      local program = directory .. "/program"
      local out, err, code = process.shell(([[
         cp %s %s
         timeout 60 %s -e '
            local sys = require("ftpipe.core").sys
            os.execute("cp %s %s.new; mv %s.new %s")
            print(sys.executable())
            os.remove("%s")
            print(select(2, pcall(sys.executable)).message)']]):format(sys.executable(), program,
         program, program, program, program, program, program))
      assert.equal(0, code, err)
      assert.equal(("%s\n%s: the program was removed while it ran\n"):format(program, program), out)
   end)

   it("has no interrupt pending", function()
      assert.is_nil(sys.interrupted())
      sys.hold_interrupt(true)
      sys.hold_interrupt(false)
   end)
end)

describe("core.process", function()
   local function started(words, file)
      local out, err, code = process.ftpipe { "-e", ([[
         local process = require("ftpipe.core").process
         local pid, code = process.start({ %q }, %s, nil, {})
         repeat
            process.sleep(0.01)
            code = process.poll(pid)
         until code
         os.exit(code)]]):format(words, file and ("%q"):format(file) or "nil") }
      assert.equal("", out)
      return err, code
   end

   it("says what a child cannot open, and which program cannot be started", function()
      assert.same({ "ftpipe: /none/file cannot be opened: No such file or directory\n", 126 },
         { started("/bin/true", "/none/file") })
      assert.same({ "ftpipe: /none/program cannot be started: No such file or directory\n", 127 },
         { started("/none/program") })
   end)
end)

describe("core", function()
   it("raises errors that carry status, message and exit code", function()
      local ok, problem = pcall(core.fail, "plan infeasible", "no room")
      assert.is_false(ok)
      assert.same({ "plan infeasible", "no room", 3, "no room" },
         { problem.status, problem.message, problem.exit, tostring(problem) })
      assert.equal(75, select(2, pcall(core.fail, "cancelled", "stopped", 75)).exit)
      assert.fails_with(function() core.fail("bogus", "x") end, "no status is called 'bogus'")
   end)

   it("lists its assets, and refuses names that are not there", function()
      for _, name in ipairs(core.assets()) do assert.is_true(#core.asset(name) >= 0) end
      assert.fails_with(function() core.asset("none/such") end, "none/such")
   end)

   it("knows its parts", function()
      local ft = require("ftpipe")
      assert.equal(core.json, ft.json)
      assert.fails_with(function() return ft.tensr end,
         "ft has no 'tensr' %(did you mean 'tensor'%?%)")
   end)
end)
