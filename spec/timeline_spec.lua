--- State that moves, in pictures of plans and of runs.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local xml = require("ftpipe.text.xml")

local function options_of(devices)
   return {
      family = "gpt2", devices = devices, schedule = "1f1b", partition = "seq", stages = 12,
      steps = 4, batch = 2, micro_batches = 2, d_model = 96, d_ff = 384, swap = "always",
      trace = true, longest = true,
   }
end

-- Of a page's table of copies: a class, bytes in and out.
local ROW = "<td>%l+</td><td class=\"n\">[%d.]+ %a+</td><td class=\"n\">[%d.]+ %a+</td>"

local function count(text, pattern) return select(2, text:gsub(pattern, "")) end

--- Copies in a picture, by the letter of their action.
local function drawn(svg)
   local copy = "<title>%s stage %%d+ %%l+[^,<]*,"
   return { L = count(svg, copy:format("L")), O = count(svg, copy:format("O")) }
end

--- The most of a counter in a trace, by device.
local function most_held(trace)
   local most = {}
   for _, event in ipairs(core.json.decode(trace).traceEvents) do
      if event.ph == "C" then
         assert.equal("memory", event.name)
         most[event.pid + 1] = math.max(most[event.pid + 1] or 0, event.args.bytes)
      end
   end
   return most
end

describe("a picture of a plan whose state moves", function()
   it("has its copies in rows of their own, and what is held against the budget", function()
      local least = pipeline.plan(options_of("cpu:1")).memory[1].total
      local budget = math.ceil(1.2 * least)
      local plan = pipeline.plan(options_of(("cpu:1/%dB"):format(budget)))
      local played = plan.blueprint:simulate(4, true)
      files.in_directory(function(dir)
         plan:draw(dir .. "/plan.svg", 4)
         local svg = core.sys.read_file(dir .. "/plan.svg")
         assert.has_no.errors(function() xml.read(svg, "plan.svg") end)
         assert.same({ L = plan.volumes[1].loads, O = plan.volumes[1].saves }, drawn(svg))
         for _, row in ipairs { "in", "out" } do
            assert.equal(1, count(svg, 'class="w">' .. row .. "</text>"))
         end
         for _, class in ipairs { "weights", "gradients", "optimizer", "packed", "turned" } do
            assert.equal(1, count(svg, '"w">' .. class .. "</text>"))
         end
         assert.matches("<title>L stage %d+ weights, batch %d: [%d.]+ kB, [%d.]+ ms</title>", svg)
         assert.matches("<title>budget [%d.]+ MB</title>", svg)
         assert.matches("<title>memory, at most [%d.]+ MB</title>", svg)
      end)
      -- What it says of memory is what places were made for, less holes between them.
      local peak = played.memory[1].peak
      assert.is_true(peak <= least and peak > .9 * least)
      assert.same({ peak }, most_held(played.trace))
      -- Volumes of the picture are those of the plan.
      for class, sum in pairs(played.copies[1]) do
         assert.equal(plan.volumes[1].bytes_in[class], sum.bytes_in, class)
         assert.equal(plan.volumes[1].bytes_out[class], sum.bytes_out, class)
      end
   end)

   it("shows no such rows where nothing moves", function()
      local o = options_of("cpu:1")
      o.swap = "never"
      files.in_directory(function(dir)
         pipeline.plan(o):draw(dir .. "/plan.svg", 2)
         local svg = core.sys.read_file(dir .. "/plan.svg")
         assert.same({ L = 0, O = 0 }, drawn(svg))
         assert.equal(0, count(svg, "budget"))
         assert.matches("<title>activations, at most", svg)
      end)
   end)

   it("is in the page of ftpipe plan, with a table of its copies", function()
      local page
      files.in_directory(function(dir)
         ft.explore(pipeline.model { family = "bert", d_model = 96, d_ff = 384 }, {
            devices = "sim:2x3MB", batch = 8, source = 16, micro_batches = 4, stages = 12,
            partition = "seq", swap = "auto",
         }):html(dir .. "/plan.html")
         page = core.sys.read_file(dir .. "/plan.html")
      end)
      assert.matches("<h2>Copies</h2>", page)
      assert.matches(ROW, page)
      assert.is_true(drawn(page).L > 0 and drawn(page).O > 0)
   end)
end)

describe("a timeline of a run whose state moves", function()
   it("has its copies when they were made, and carries what was planned", function()
      local rate = 200e6
      local run = pipeline.train(options_of("cpu:1@200MB/s"))
      local planned, timeline = run.plan.volumes[1], run.timeline
      local bytes = { ["swap-in"] = 0, ["swap-out"] = 0 }
      local us = { ["swap-in"] = 0, ["swap-out"] = 0 }
      for _, event in ipairs(core.json.decode(timeline.trace).traceEvents) do
         if bytes[event.cat] then
            bytes[event.cat] = bytes[event.cat] + event.args.bytes
            us[event.cat] = us[event.cat] + event.dur
         end
      end
      for way, key in pairs { ["swap-in"] = "bytes_in", ["swap-out"] = "bytes_out" } do
         local sum = 0
         for class, of_class in pairs(planned[key]) do
            sum = sum + of_class
            local copied = timeline.copies[1][class]
            assert.equal(of_class, copied and copied[key] or 0, class)
         end
         assert.equal(sum, bytes[way])
         -- no faster than the link, but for what it catches up
         assert.is_true(us[way] / 1e6 > .5 * sum / rate, way)
      end
      local held = most_held(timeline.trace)[1]
      assert.is_true(held <= run.plan.memory[1].total and held > .9 * run.measured[1].total)
      -- This link is slower than the work: computing waits for copies, and says so.
      assert.is_true(timeline.waits[1].copies > 0)
      local exposed = 0
      for _, sum in pairs(timeline.copies[1]) do exposed = exposed + sum.exposed_ns end
      assert.is_true(exposed > 0)
   end)

   it("has what passes through host memory among them, in its plan too", function()
      local o = options_of("cpu:1")
      o.schedule, o.swap, o.stages = "harmony-pp", "task", 6
      local run = pipeline.train(o)
      local planned, bytes = run.plan.volumes[1], { send = 0, receive = 0 }
      for _, event in ipairs(core.json.decode(run.timeline.trace).traceEvents) do
         if bytes[event.cat] then
            assert.equal("buffers", event.args.class)
            assert.matches("^[FB]%d>[FB]%d$", event.args.edge)
            bytes[event.cat] = bytes[event.cat] + event.args.bytes
         end
      end
      assert.is_true(bytes.send > 0)
      assert.same({ send = planned.bytes_out.buffers, receive = planned.bytes_in.buffers }, bytes)
      files.in_directory(function(dir)
         run.plan:draw(dir .. "/plan.svg", 4)
         local svg = core.sys.read_file(dir .. "/plan.svg")
         local boundaries = count(run.plan:text(), "\nedge [FB]%d+>[FB]%d+ bytes")
         for _, letter in ipairs { "S", "V" } do -- of two micro-batches, four times
            local title = "<title>%s stage %%d+ mb %%d along [FB]%%d+&gt;[FB]%%d+, batch"
            assert.equal(8 * boundaries, count(svg, title:format(letter)))
         end
         assert.equal(1, count(svg, '"w">buffers</text>'))
      end)
   end)

   it("is in its report, with what was copied", function()
      files.in_directory(function(dir)
         local _, err, code = process.ftpipe { "recipes/t5_rte.lua", "--steps", "4", "--eval-limit",
            "4", "--devices", "cpu:2", "--stages", "6", "--swap", "always", "--profile", "modelled",
            "--out", dir .. "/run" }
         assert.equal(0, code, err)
         assert.matches("\n  device +copies of a batch +in +out +take +hidden\n"
            .. "  cpu:0 +%l+ +[%d.]+ ", err)
         local copied = core.json.read(dir .. "/run/summary.json").copies
         assert.equal(4, copied.batches)
         assert.is_true(copied.devices[1].optimizer.bytes_in > 0)
         process.ftpipe { "report", dir .. "/run" }
         local page = core.sys.read_file(dir .. "/run/report.html")
         assert.is_true(drawn(page).L > 0 and drawn(page).O > 0)
         assert.matches("<title>memory, at most", page)
         assert.matches(ROW, page)
         assert.matches("<th>copies</th>", page)
      end)
   end)
end)
