--- What devices waited for: of simulations, worked out by hand; of runs, in what they leave behind.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local process = require("spec.support.process")
local timeline = require("ftpipe.schedule.timeline")
local waits = require("ftpipe.schedule.waits")

--- Two stages of forwards of 1 and backwards of 2 on two devices, in units of 1 ns.
local function play(o)
   local stages = {}
   for s = 1, 2 do stages[s] = { device = s, forward_ns = 1, backward_ns = 2 } end
   return ft.schedule.play {
      stages = stages, micro_batches = o.micro_batches, batches = 1, schedule = o.schedule,
      slots = o.slots or 4,
   }:simulate { trace = o.trace }
end

describe("what devices waited for", function()
   it("is told by the causes of a simulation", function()
      -- device 1: F........B..   device 2: .FB..
      local played = play { micro_batches = 1, schedule = "gpipe" }
      assert.equal(6, played.end_ns)
      assert.same({ { name = "B1>B0", data = 3, slots = 0 } }, played.waits[1].edges)
      assert.same({ { name = "F0>F1", data = 1, slots = 0 } }, played.waits[2].edges)
      assert.same({ 3, 0, 1, 2 }, { played.waits[1].data, played.waits[1].over,
         played.waits[2].data, played.waits[2].over })
   end)

   it("is a slot where the receiver is behind", function()
      local stages = { { device = 1, forward_ns = 1, backward_ns = 1 },
         { device = 2, forward_ns = 5, backward_ns = 5 } }
      local played = ft.schedule.play {
         stages = stages, micro_batches = 3, batches = 1, schedule = "gpipe", slots = 1,
      }:simulate()
      -- the slot is taken until F1.0, from 1 to 6, and F1.1, from 7 to 12, have ended
      local edge = played.waits[1].edges
      local found
      for _, row in ipairs(edge) do found = row.name == "F0>F1" and row or found end
      assert.equal(10, found.slots) -- from 1 to 6, from 7 to 12
   end)

   it("fills the time of every device together with what it computed", function()
      for _, schedule in ipairs { "gpipe", "1f1b", "async" } do
         local played = play { micro_batches = 5, schedule = schedule, slots = 1 }
         for _, shares in ipairs(waits.percent(waits.add(nil, played))) do
            local sum = 0
            for _, share in pairs(shares) do sum = sum + (tonumber(share) or 0) end
            assert.near(100, sum, 1e-9)
         end
      end
   end)

   it("is a table in which columns of nothing are left out", function()
      local sums = waits.add(nil, play { micro_batches = 1, schedule = "gpipe" })
      sums = waits.add(sums, play { micro_batches = 1, schedule = "gpipe" })
      assert.equal([[
  device  computed    data    over  most
  cpu:0     50.0 %  50.0 %   0.0 %  data of B1>B0, 50.0 %
  cpu:1     50.0 %  16.7 %  33.3 %  data of F0>F1, 16.7 %]], waits.text(sums, { "cpu:0", "cpu:1" }))
   end)

   it("is in the documentation, kind by kind", function()
      local said = core.sys.read_file("doc/metrics.md"):match("\n| `shares_percent` |([^\n]*)")
      for kind in pairs(play({ micro_batches = 1, schedule = "gpipe" }).waits[1]) do
         assert.is_truthy(said:find("`" .. kind .. "`", 1, true), kind)
      end
   end)

   it("is a bar in a drawing", function()
      local played = play { micro_batches = 1, schedule = "gpipe", trace = true }
      for d = 1, 2 do assert.same({}, played.memory[d].points[9] or {}) end
      local svg = timeline.svg(played, { "cpu:0", "cpu:1" })
      assert.matches("<title>waits for data B1>B0: 0.000 ms</title>", (svg:gsub("&gt;", ">")))
      assert.equal(2, select(2, svg:gsub("waits for", "")))
   end)

   it("is in what a run leaves behind, for every leg and for all", function()
      local dir = files.directory()
      local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--steps", "6", "--save-every",
         "3", "--eval-limit", "8", "--batch", "8", "--out", dir .. "/run" }
      assert.equal(0, code, err)
      assert.matches("\n  device +computed +[^\n]*most\n  cpu:0 +[%d.]+ %%[^\n]*\n  cpu:1 ", err)
      local legs = {}
      for line in core.sys.read_file(dir .. "/run/metrics.jsonl"):gmatch("[^\n]+") do
         local row = core.json.decode(line)
         if row.leg_steps then legs[#legs + 1] = row end
      end
      assert.same({ 3, 6 }, { legs[1].step, legs[2].step })
      local summary = core.json.read(dir .. "/run/summary.json")
      for d = 1, 2 do
         local all, weighed, seconds = summary.shares_percent[d], 0, 0
         for _, leg in ipairs(legs) do
            assert.equal(3, leg.leg_steps)
            weighed = weighed + leg.leg_s * leg.shares_percent[d].computed
            seconds = seconds + leg.leg_s
         end
         assert.near(weighed / seconds, all.computed, 1e-6)
         assert.is_true(all.computed > 0)
      end
      -- which edges are waited for is up to the machine
      local trace, n_edges = core.sys.read_file(dir .. "/run/timeline.json"), 0
      for d, shares in ipairs(legs[2].shares_percent) do
         for edge, waited in pairs(shares.edges) do
            if waited.data > 0 then
               n_edges = n_edges + 1
               assert.truthy(trace:find('"cat":"wait","name":"data ' .. edge .. '"', 1, true))
               assert.is_true(summary.shares_percent[d].edges[edge].data > 0)
            end
         end
      end
      assert.is_true(n_edges > 0)
      files.remove(dir)
   end)
end)
