local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

describe("a training step", function()
   it("allocates nothing, as an interposed allocator counts", function()
      if core.sanitized then return pending("sanitizers stand before the allocator themselves") end
      local executable = core.sys.executable()
      local library = executable:match("^(.*)/[^/]*$") .. "/libcount_malloc.so"
      if not core.sys.exists(library) then return pending("no " .. library) end
      local directory = files.directory()

      --- Allocations in a run of so many steps: the program's own, and libraries'. Before them so
      -- many tensors are made and files opened.
      local function count(steps, more)
         local report = directory .. "/" .. steps
         local _, err, exit = process.shell(("COUNT_MALLOC=%s LD_PRELOAD=%s %s %s %d %d"):format(
            report, library, executable, "spec/support/train_steps.lua", steps, more or 0))
         assert.equal(0, exit, err)
         local own, libraries = core.sys.read_file(report):match("(%d+) (%d+)")
         return tonumber(own), tonumber(libraries)
      end

      local own, libraries = count(10)
      local own_of_more, libraries_of_more = count(40)
      local own_with, libraries_with = count(10, 1000)
      files.remove(directory)
      print(("30 more steps: %d allocations of our own, %d inside libraries"):format(
         own_of_more - own, libraries_of_more - libraries))
      -- Each thread may allocate once before or behind the count, as time decides. One allocation
      -- in a step would be 30.
      assert.is_true(math.abs(own_of_more - own) < 10)
      -- So the counter does count, on the main thread too.
      assert.is_true(own_with - own >= 1000)
      assert.is_true(libraries_with - libraries >= 1000)
   end)
end)
