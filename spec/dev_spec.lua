--- What ./dev makes of the log of its tests.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local LOG = [[
test 31
    Start 31: c/optim

31: Test command: /build/test_optim
31: Working Directory: /
31: Environment variables:
31:  XDG_CACHE_HOME=/build/cache
31:  ASAN_OPTIONS=detect_leaks=1
31: Test timeout computed to be: 400
31: test_optim.c:486: failed: x == y
31:  AT_FAULT=this line is the test's own
31: 7 passed, 1 failed
1/2 Test #31: c/optim ..........................***Failed    3.17 sec
32: Test command: /build/test_graph
32: Environment variables:
32:  XDG_CACHE_HOME=/build/cache
32: 5 passed, 0 failed, 2 skipped
2/2 Test #32: c/graph ..........................   Passed    0.10 sec
]]

describe("the summary of ./dev test", function()
   it("says of a failed test what that said, and nothing of how it was started", function()
      local dir = files.directory()
      core.sys.write_file(dir .. "/log", LOG)
      local out = process.shell(([[bash -c 'eval "$(sed -n "/^tally() {/,/^}/p" dev)"; tally %s']])
         :format(dir .. "/log"))
      files.remove(dir)
      assert.equal("failed tests:\nc/optim ..........................***Failed    3.17 sec\n"
         .. "    test_optim.c:486: failed: x == y\n"
         .. "     AT_FAULT=this line is the test's own\n"
         .. "    7 passed, 1 failed\n"
         .. "12 passed, 1 failed, 2 skipped\n", out)
   end)
end)
