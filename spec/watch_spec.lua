local core = require("ftpipe.core")
local files = require("spec.support.files")
local watch = require("ftpipe.base.watch")

--- What watch.next gives for a run of which `moved` says after so many seconds how much is done,
-- and `result` what its next batch is; the seconds that it took.
local function wait(moved, result)
   local clock, real = 0, core.sys.time_ns
   core.sys.time_ns = function() return clock end
   local engine = {
      progress = function() return moved(clock / 1e9) end,
      next = function(_, seconds)
         clock = clock + seconds * 1e9
         return result(clock / 1e9)
      end,
      describe = function() return "cpu:0: action 3 waits for batch 0\n" end,
      give_up = function(_, seconds) assert(seconds > 0) end,
   }
   local guard = watch.new { engine = engine, lost = function() return "saved" end }
   local ok, found = pcall(guard.next, guard)
   core.sys.time_ns = real
   if not ok then error(found, 0) end
   return found, clock / 1e9
end

describe("waiting for a run", function()
   it("ends when nothing moves anywhere for minutes, and says where everything is", function()
      local problem = files.failure(wait, function() return 7 end, function() end)
      assert.equal("lost worker", problem.status)
      assert.equal(5, problem.exit)
      assert.equal("nothing moved for 300 s:\ncpu:0: action 3 waits for batch 0\nsaved",
         problem.message)
   end)

   it("goes on as long as something moves", function()
      local found, seconds = wait(function(now) return math.floor(now / 250) end,
         function(now) return now > 2000 and "the batch" or nil end)
      assert.equal("the batch", found)
      assert.is_true(seconds > 2000)
   end)
end)
