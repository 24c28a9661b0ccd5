--- Timelines in characters.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local rows = require("ftpipe.schedule.rows")

local function slice(pid, cat, ts, dur)
   return { ph = "X", pid = pid, tid = pid, cat = cat, ts = ts, dur = dur, name = cat, args = {} }
end

local EVENTS = {
   { ph = "M", pid = 0, name = "process_name", args = {} },
   slice(0, "forward", 100, 200), slice(0, "wait", 300, 400), slice(0, "backward", 700, 300),
   slice(1, "forward", 300, 200), slice(1, "backward", 500, 200), slice(1, "update", 700, 100),
   slice(2, "transfer", 100, 900), -- a link, beneath the devices
}

describe("a timeline in characters", function()
   it("has a column for each equal part, what took most of it, and what was idle", function()
      assert.equal("a    |FF....BBB|  44 %\nlong |..FFBB#..|  44 %\n"
         .. "F forward  B backward  # other  . nothing; 0.900 ms; behind each row: idle",
         rows.text(EVENTS, { "a", "long" }, { columns = 9, ascii = true }))
   end)

   it("is of as many characters in any alphabet", function()
      local text = rows.text(EVENTS, { "a", "b" }, { columns = 12, ascii = false })
      local row = text:match("^a |(.-)|")
      assert.equal(12, select(2, row:gsub("[^\128-\191]", "")))
      assert.is_nil(row:gsub("▓", ""):gsub("░", ""):gsub("·", ""):find("."))
   end)

   it("shows a plan to look at, which writes itself as JSON, drawing and page, beside another",
      function()
         local function explore(partition)
            return ft.explore("t5-small", { devices = "sim:2x11GB", batch = 4, micro_batches = 2,
               partition = partition })
         end
         local a, b = explore("seq"), explore("mixed")
         local text = a:timeline { columns = 20, ascii = true }
         assert.matches("^sim:0 card |" .. ("[FB#.]"):rep(20) .. "| +%d+ %%\nsim:1 card |", text)
         assert.equal(text, a.plan:timeline { columns = 20, ascii = true })
         assert.equal(2, #core.json.decode(a:json()).stages)
         files.in_directory(function(dir)
            a:svg(dir .. "/a.svg"):html(dir .. "/a.html")
            assert.matches("^<svg", core.sys.read_file(dir .. "/a.svg"))
            assert.matches("<h2>Stages</h2>", core.sys.read_file(dir .. "/a.html"))
         end)
         local beside = tostring(ft.compare(a, b))
         assert.matches("^  plan +schedule +stages .-\n  seq +1f1b +2 .-\n  mixed +1f1b +%d",
            beside)
         assert.equal(1, select(2, beside:gsub("best", "")))
         local moved = a:move("decoder/block.3", 1) -- as `ft.explore` gives them, and as plans
         assert.matches("on sim:0 card", a:why("decoder/block.3"))
         assert.equal(tostring(ft.compare(a, moved)), tostring(ft.compare(a.plan, moved.plan)))
         assert.not_equal(a.seconds, moved.seconds)
         assert.matches("plan 2: expected what ft.explore or ft.plan gives, got 3",
            files.failure(ft.compare, a, 3).message)
      end)

   it("compares plans by what they differ in, and by one prediction", function()
      local function explore(given)
         return ft.explore("t5-small", copy({ devices = "sim:2x11GB", batch = 4, partition = "seq",
            micro_batches = 2 }, given))
      end
      local a = explore { schedule = "async" }
      local b = explore { schedule = "async", devices = "sim:2xa100", optimizer = "sgd" }
      local other = ft.explore("gpt2", { devices = "sim:2x11GB", batch = 4, micro_batches = 2 })
      local beside = tostring(ft.compare { a, b })
      assert.matches("^  plan +devices +optimizer +schedule ", beside)
      assert.matches("\n  seq +sim:2x11GB +adamw +async .*\n  seq +sim:2xa100 +sgd +async ", beside)
      assert.is_nil(tostring(ft.compare(a, a:move("decoder/block.3", 1))):find("devices", 1, true))
      assert.matches("plan +model .*\n  seq +t5%-small .*\n  mixed +gpt2 ",
         tostring(ft.compare(a, other)))
      -- what a block's place costs is said of the same prediction
      local here, there = a:why("decoder/block.0"):match("here: ([%d.]+).*on sim:0 card: ([%d.]+)")
      local moved = a:move("decoder/block.0", 1)
      assert.equal(("%.1f"):format(a.samples_per_second), here)
      assert.equal(("%.1f"):format(moved.samples_per_second), there)
      local diff = tostring(a.plan:diff(moved.plan))
      assert.truthy(diff:find(("predicted: %s -> %s samples/s"):format(here, there), 1, true), diff)
      diff = "\n" .. tostring(a.plan:diff(b.plan))
      assert.truthy(diff:find("\ndevices: sim:2x11GB -> sim:2xa100\noptimizer: adamw -> sgd\n", 1,
         true), diff)
   end)

   it("compares plans by what is trained, by lengths, and by clusters without a name", function()
      local function explore(given)
         return ft.explore("t5-small", copy({ devices = "sim:2x11GB", batch = 4, partition = "seq",
            micro_batches = 2 }, given))
      end
      local function cluster(memory)
         local card = { card = "2080ti", memory = memory }
         return ft.cluster { devices = { card, card } }
      end
      local plain = explore {}
      assert.matches("^  plan  schedule  stages ", tostring(ft.compare(plain, explore {})))
      local cases = {
         { "lora", "not given", "4", { lora = 4 } },
         { "target", "8", "16", { target = 16 } },
         { "freeze", "not given", "encoder.*,shared.*", { freeze = { "encoder.*", "shared.*" } } },
         { "groups", "not given", "encoder.*: frozen", { groups = "encoder.*: frozen" } },
         { "devices", "described 1", "described 2", { devices = cluster("8GB") },
            explore { devices = cluster("11GB") } },
         { "lora-alpha", "8", "16", { lora = 4, lora_alpha = 16 },
            explore { lora = 4, lora_alpha = 8 } },
         { "freeze", "encoder.*", "decoder.*", { freeze = { "decoder.*" } },
            explore { freeze = { "encoder.*" } } },
      }
      for _, case in ipairs(cases) do
         local name, one, other, given, first = unpack(case)
         local lines = {}
         for line in tostring(ft.compare(first or plain, explore(given))):gmatch("[^\n]+") do
            lines[#lines + 1] = line:gsub("^ +", ""):gsub("  +", "|")
         end
         for i, word in ipairs { "plan|" .. name, "seq|" .. one, "seq|" .. other } do
            assert.equal(word .. "|", lines[i]:sub(1, #word + 1))
         end
      end
      local same = tostring(ft.compare(explore { devices = cluster("8GB") },
         explore { devices = cluster("8GB") }))
      assert.is_nil(same:find("described", 1, true))
      local function of_graph(devices) return ft.explore(plain.graph, { devices = devices }) end
      assert.matches("^  plan +devices .*\n  mixed +described .*\n  mixed +sim:2xa100 ",
         tostring(ft.compare(of_graph(cluster("8GB")), of_graph("sim:2xa100"))))
   end)

   it("says what a move changes, and not each stage that has another number behind it", function()
      local function explore(devices)
         return ft.explore("t5-small", { devices = devices, batch = 4, partition = "seq",
            micro_batches = 2 })
      end
      local plan = explore("sim:2x11GB").plan
      local moved = plan:move("decoder/block.3", 1)
      local diff = tostring(plan:diff(moved))
      assert.matches("^decoder/block.3: stage 1 on sim:1 card %-> stage 2 on sim:0 card", diff)
      local moves, stayed = select(2, diff:gsub(" on sim", "")),
         tonumber(diff:match("\nin stages of other numbers, on the same devices: (%d+) nodes\n"))
      assert.equal(2, moves)
      local n = 0
      for node, stage in ipairs(moved.partition.stage) do
         local other = plan.partition.stage[node]
         n = n + (stage ~= other and moved.blueprint:stages()[stage].device
            == plan.blueprint:stages()[other].device and 1 or 0)
      end
      assert.equal(n, stayed)
      assert.matches("on sim:1 card: does not fit, sim:%d card would need [%d.]+ MB more than its",
         explore("sim:2x200MB"):why("encoder/block.0"))
   end)

   it("says when there is nothing", function()
      assert.equal("nothing was computed", rows.text({}, { "a" }))
   end)
end)
