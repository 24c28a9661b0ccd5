--- What moves cost, of volumes and times that are given.

local swaps = require("ftpipe.plan.swaps")

local NONE = { weights = 0, optimizer = 0 }

local function volume(bytes_in, bytes_out)
   return { loads = 4, saves = 4, drops = 0, bytes_in = bytes_in, bytes_out = bytes_out }
end

-- A leg of four batches, of which two are played.
local plan = {
   options = { batches = 4, swap_dir = "disk" },
   devices = { { name = "sim:0" }, { name = "sim:1" }, { name = "sim:2" } },
   volumes = {
      volume({ weights = 60e6, optimizer = 20e6 }, { weights = 12e6, optimizer = 28e6 }),
      volume({ weights = 8e6, optimizer = 0 }, { weights = 0, optimizer = 0 }),
      { loads = 0, saves = 0, drops = 0, bytes_in = NONE, bytes_out = NONE },
   },
   simulate = function(_, batches) return { seconds = 2 * batches } end,
}
local played = {
   copies = {
      { weights = { ns = 3e9, exposed_ns = 0.3e9 }, optimizer = { ns = 1e9, exposed_ns = 0.7e9 } },
      { weights = { ns = 4e9, exposed_ns = 4e9 } },
      {},
   },
   stalls = { { ["swap-in"] = 2e9, ["swap-out"] = 1e9 }, { ["swap-out"] = 4e9 }, {} },
}

describe("what moves", function()
   it("costs bytes of a batch of the leg, and seconds of one that is played", function()
      assert.same({ bytes_in = 20e6, bytes_out = 10e6, seconds = 2, hidden = 0.75, waits = 1.5 },
         swaps.cost(plan, 1, played, 2))
      assert.same({ bytes_in = 2e6, bytes_out = 0, seconds = 2, hidden = 0, waits = 2 },
         swaps.cost(plan, 2, played, 2))
      assert.is_nil(swaps.cost(plan, 3, played, 2))
   end)

   it("is that of all devices together", function()
      assert.same({ 32e6, 0.375 }, { swaps.total(plan, played, 2) })
   end)

   it("is told by device, those first that are waited for longest", function()
      local lines = swaps.lines(plan, played, 2)
      assert.equal(4, #lines)
      assert.equal("swaps of sim:0: 20.0 MB in and 10.0 MB out for each batch, 75 % hidden; "
         .. "computing waits 1.5 s for them", lines[1])
      assert.equal("  optimizer 12.0 MB, 30 % hidden; weights 18.0 MB, 90 % hidden", lines[2])
   end)

   it("is told of a disk where that is slower than the rest of a step", function()
      assert.is_nil(swaps.slow_disk(plan, 0))
      assert.is_nil(swaps.slow_disk(plan, 15e6)) -- 30 MB in the 2 s that a step takes
      assert.matches("^disk: written at 14.0 MB/s when it was tried; a step reads and writes "
         .. "30.0 MB there, which takes 2.1 s, and 2.0 s without that$",
         swaps.slow_disk(plan, 14e6))
   end)
end)
