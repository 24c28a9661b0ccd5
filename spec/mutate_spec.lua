--- Rows of faults that no longer stand for anything are told: they would count as seen else.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local ROWS = [==[
return {
   { "src/base/rng.c", "round < 10", "round < 9", "c/base spec/units", "one that stands" },
   { "src/base/no_such_file.c", "x", "y", "c/base", "its file is gone" },
   { "src/base/rng.c", "no such text", "y", "c/base", "its text is gone" },
   { "src/base/rng.c", "(uint32_t)", "", "c/base", "its text is there twice" },
   { "lua/ftpipe/base/units.lua", "GiB = 2 ^ 30", "GiB = = 1", "spec/units", "it has no syntax" },
   { "src/base/rng.c", "round < 10", "round < 9", "c/base c/no_such", "a test is gone" },
   { "src/base/rng.c", "round < 10", "round < 9", "spec/no_such*", "all tests are gone" },
   { "src/base/rng.c", "round < 10", "round < 9", "", "it has no test" },
   { "src/base/rng.c", "round < 10", "round < 9", "c/base*", "another that stands" },
}
]==]

local WANTED = {
   "room 2: stale: its file is not there (src/base/no_such_file.c; tests c/base)",
   "room 3: stale: its text is not in the file (src/base/rng.c; tests c/base)",
   "room 4: stale: its text is there twice (src/base/rng.c; tests c/base)",
   "room 5: stale: it does not compile (lua/ftpipe/base/units.lua; tests spec/units)",
   "room 6: stale: no test is named 'c/no_such' (src/base/rng.c; tests c/base c/no_such)",
   "room 7: stale: no test is named 'spec/no_such*' (src/base/rng.c; tests spec/no_such*)",
   "room 8: stale: it names no test (src/base/rng.c; tests )",
   "9 faults, 7 stale",
}

describe("tools/mutate.lua --check", function()
   it("tells every row that is stale, and why", function()
      if os.execute("command -v ctest >/dev/null") ~= 0 then return pending("there is no ctest") end
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/room.lua", ROWS)
         local out, err, exit = process.ftpipe {
            "tools/mutate.lua", "--check", "--faults", dir,
         }
         assert.equal(table.concat(WANTED, "\n") .. "\n", out, err)
         assert.equal(1, exit)
      end)
   end)
end)
