--- Weights that are kept ahead by the updates that forwards are late (doc/staleness.md). What a
-- step does is in test/test_optim.c, against a replay in test/test_engine_replay.c.

local core = require("ftpipe.core")
local ft = require("ftpipe")
local files = require("spec.support.files")
local process = require("spec.support.process")

local function recipe(...)
   return process.ftpipe { "recipes/t5_rte.lua", "--profile", "modelled", ... }
end

local function said(...)
   local out, err, exit = recipe("--dry-run", ...)
   assert.equal(0, exit, err)
   return out
end

describe("--look-ahead", function()
   it("is said by stage where weights are late", function()
      local four = said("--schedule", "async", "--devices", "cpu:4")
      assert.matches("\nlook%-ahead: weights are kept 0.75, 0.5, 0.25, 0 updates ahead, by stage\n",
         four)
      assert.matches("\nlook%-ahead: weights are kept 2, 1, 0 updates ahead, by stage\n",
         said("--schedule", "async", "--devices", "cpu:3", "--micro-batches", "1"))
   end)

   it("is not said of runs that do not look ahead", function()
      for _, flags in ipairs { { "--schedule", "1f1b" },
         { "--schedule", "async", "--devices", "cpu:1" },
         { "--schedule", "async", "--look-ahead", "none" },
         { "--schedule", "async", "--optimizer", "adafactor" },
      } do
         assert.is_nil(said(unpack(flags)):find("look-ahead", 1, true))
      end
   end)

   it("goes by a momentum, so with one of 0 nothing is ahead", function()
      local o = {
         model = ft.model "t5-small", buckets = { 16 }, batches = 4,
         lengths = { target = 8 }, batch = 4, micro_batches = 2, devices = "cpu:2",
         schedule = "async", optimizer = "sgd", profile = "modelled",
      }
      local function first_ahead(momentum)
         o.hypers = { momentum = momentum }
         return ft.plan(o).blueprint:stages()[1].ahead
      end
      assert.equal(0.5, first_ahead(0.9))
      assert.equal(0, first_ahead(0))
      o.look_ahead = "lag"
      local _, problem = pcall(first_ahead, 0)
      assert.equal("look_ahead goes by an optimizer's momentum; optimizer = \"sgd\" has none",
         problem.message)
   end)

   it("is refused where it decides nothing", function()
      local function refused(message, ...)
         local _, err, exit = recipe("--dry-run", ...)
         assert.equal(2, exit)
         assert.matches(message, err)
      end
      refused("%-%-look%-ahead is for weights that are late, and those of %-%-schedule 1f1b, "
         .. "which drains, never are: leave it out\n", "--look-ahead", "none")
      refused("%-%-look%-ahead goes by an optimizer's momentum; %-%-optimizer adafactor has none\n",
         "--schedule", "async", "--optimizer", "adafactor", "--look-ahead", "lag")
      refused("%-%-look%-ahead is for the newest weights; %-%-staleness stash says itself which "
         .. "weights it reads\n",
         "--schedule", "async", "--staleness", "stash", "--look-ahead", "lag")
      refused("%-%-look%-ahead is for the newest weights; %-%-schedule 2bw says itself",
         "--schedule", "2bw", "--look-ahead", "lag")
   end)

   it("decides the numbers of an asynchronous run, so a run goes on with its own", function()
      local directory = files.directory()
      local function run(name, ...)
         local out, err, exit = recipe("--schedule", "async", "--steps", "4", "--eval-limit", "8",
            "--out", directory .. "/" .. name, ...)
         return out:match("\nafter: [^\n]*"), err, exit
      end
      local ahead, late = run("ahead"), run("late", "--look-ahead", "none")
      assert.not_equal(ahead, late)
      assert.equal(ahead, (run("named", "--look-ahead", "lag")))
      local summary = core.json.decode(core.sys.read_file(directory .. "/late/summary.json"))
      assert.same({ { 0, 1 }, { 0, 0 } }, summary.staleness_planned)
      assert.same(summary.staleness_planned, summary.staleness_seen)
      local _, err, exit = run("late", "--resume")
      assert.equal(2, exit)
      assert.matches("was made with other arguments: %-%-look%-ahead was none, is lag; "
         .. "%-%-change%-schedule goes on with another schedule\n", err)
      files.remove(directory)
   end)
end)
