--- What would help, of plans whose memory and time are made up here.

local copy = require("ftpipe.base.copy")
local named = require("ftpipe.base.named")
local remedies = require("ftpipe.plan.remedies")

local OPTIONS = named.flags {
   batch = 8, micro_batches = 4, recompute = "auto", partition = "mixed", optimizer = "adamw",
   devices = "sim:3x40MB", schedule = "1f1b",
}

--- Lines for plans of which `over_of` gives the bytes that are too much, or nil when there is no
-- plan, and the seconds.
local function find(over_of, over_bytes, changes)
   local function try(o)
      local over, seconds = over_of(o)
      if not over then return { problem = "no plan" } end
      return { options = o, over_bytes = over, seconds = seconds or 1 }
   end
   return remedies.find(try, copy(OPTIONS, changes or {}), over_bytes)
end

--- Bytes by which the flag of each remedy is too much; what is not listed saves nothing.
local function table_of(by_value)
   return function(o)
      for key, value in pairs(o) do
         local found = value ~= OPTIONS[key] and by_value[key .. " " .. value]
         if found then return found end
      end
      return 100e6
   end
end

describe("remedies", function()
   it("tell what each saves and what is still too much, the most first", function()
      assert.same({
         "--devices sim:6x40MB: saves 80.0 MB, still 20.0 MB too much",
         "--optimizer sgd: saves 60.0 MB, still 40.0 MB too much",
         "--recompute always: saves 10.0 MB, still 90.0 MB too much",
      }, find(table_of {
         ["recompute always"] = 90e6, ["optimizer sgd"] = 40e6, ["devices sim:6x40MB"] = 20e6,
      }, 100e6))
   end)

   it("are at most as slow as what was planned in haste", function()
      local lines = remedies.find(function(o)
         return { options = o, over_bytes = o.optimizer == "sgd" and 0 or 100e6, seconds = 0.25,
            hasty = true }
      end, OPTIONS, 100e6)
      assert.same({ "--optimizer sgd: fits, at most 250 ms a batch" }, lines)
   end)

   it("are told in Lua's words where options came from Lua", function()
      local given = {}
      for name, value in pairs(OPTIONS) do given[name] = value end
      assert.same({ 'optimizer = "sgd": saves 60.0 MB, still 40.0 MB too much' },
         remedies.find(function(o)
            return { options = o, over_bytes = o.optimizer == "sgd" and 40e6 or 100e6, seconds = 1 }
         end, given, 100e6))
   end)

   it("leave out what saves nothing, costs memory or has no plan", function()
      local lines = find(function(o)
         if o.optimizer == "sgd" then return nil end
         if o.optimizer == "adafactor" then return 120e6 end
         return o.recompute == "always" and 99e6 or 100e6
      end, 100e6)
      assert.same({ "--recompute always: saves 1.0 MB, still 99.0 MB too much" }, lines)
      assert.same({}, find(function() return 100e6 end, 100e6))
      assert.equal("what would help: a smaller batch", remedies.words({}))
   end)

   it("leave out a swap that does not help, for what its plan saves otherwise", function()
      local lines = remedies.find(function(o)
         local over = o.stages and 50e6 or o.swap and 60e6 or o.optimizer == "sgd" and 80e6
            or 100e6
         return { options = o, over_bytes = over, seconds = 1, unswapped = not o.stages }
      end, OPTIONS, 100e6)
      assert.same({
         "--swap auto --stages 12: saves 50.0 MB, still 50.0 MB too much",
         "--swap auto --stages 24: saves 50.0 MB, still 50.0 MB too much",
         "--optimizer sgd: saves 20.0 MB, still 80.0 MB too much",
      }, lines)
   end)

   it("are told four at a time, of those that are found", function()
      assert.equal("what would help: a; b", remedies.words { "a", "b" })
      assert.equal("what would help: a; b; c; d", remedies.words { "a", "b", "c", "d", "e" })
   end)

   it("that suffice come first, the fastest of them first", function()
      local lines = find(function(o)
         if o.optimizer == "sgd" then return 0, 3 end
         if o.devices == "sim:6x40MB" then return 0, 2 end
         return o.recompute == "always" and 50e6 or 100e6
      end, 100e6)
      assert.equal(3, #lines)
      assert.matches("^%-%-devices sim:6x40MB: fits, ", lines[1])
      assert.matches("^%-%-optimizer sgd: fits, ", lines[2])
      assert.matches("^%-%-recompute always: saves 50.0 MB, still 50.0 MB too much$", lines[3])
   end)

   it("are added to the one that saves most when none suffices", function()
      local lines = find(function(o)
         local over = 100e6
         if o.recompute == "always" then over = over - 60e6 end
         if o.optimizer == "sgd" then over = over - 30e6 end
         if o.devices ~= OPTIONS.devices then over = over - 20e6 end
         return math.max(0, over)
      end, 100e6)
      assert.matches("^%-%-recompute always %-%-optimizer sgd %-%-devices sim:6x40MB: fits, ",
         lines[1])
      assert.equal("--recompute always --optimizer sgd: saves 90.0 MB, still 10.0 MB too much",
         lines[2])
      assert.equal("--recompute always: saves 60.0 MB, still 40.0 MB too much", lines[3])
      assert.equal("--optimizer sgd: saves 30.0 MB, still 70.0 MB too much", lines[4])
   end)

   it("that are added are compared by fewer cuts, and told with all of them", function()
      local n_whole = 0
      local lines = remedies.find(function(o, quick)
         n_whole = n_whole + (quick and 0 or 1)
         local over = o.recompute == "auto" and 100e6 or o.optimizer == "adamw" and 60e6 or 30e6
         return { options = o, over_bytes = over - (quick and 0 or 10e6), seconds = 1 }
      end, OPTIONS, 90e6)
      assert.same({
         "--recompute always --optimizer adafactor: saves 70.0 MB, still 20.0 MB too much",
         "--recompute always: saves 40.0 MB, still 50.0 MB too much",
      }, lines)
      local n_changes = 0
      find(function() n_changes = n_changes + 1 end, 90e6)
      assert.equal(n_changes + 2, n_whole) -- and the best of each round that adds one
   end)

   it("ask for numbers of micro-batches that divide the batch", function()
      local asked = {}
      find(function(o)
         asked[o.micro_batches] = true
         return 100e6
      end, 100e6, { batch = 48, micro_batches = 3 })
      assert.same({ [3] = true, [6] = true, [12] = true, [24] = true }, asked)
   end)

   it("count stages by device where each device has all of them", function()
      for schedule, stages in pairs { ["1f1b"] = { 12, 24 }, ["data-parallel"] = { 4, 8 } } do
         local tried = {}
         find(function(o)
            if o.stages then tried[#tried + 1] = o.stages end
            return 100e6
         end, 100e6, { schedule = schedule })
         assert.same(stages, tried, schedule)
      end
   end)
end)
