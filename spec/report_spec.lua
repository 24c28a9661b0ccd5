--- Reports of runs and sweeps, and what is known of where flags are from.

local chart = require("ftpipe.page.chart")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local pages = require("spec.support.pages")
local process = require("spec.support.process")
local sweep_report = require("ftpipe.report.sweep")
local units = require("ftpipe.base.units")

local ftpipe = process.ftpipe

describe("a report", function()
   local directory

   setup(function()
      directory = files.directory()
      local _, err, code = ftpipe { "recipes/t5_rte.lua", "--steps", "6", "--eval-every", "3",
         "--eval-limit", "20", "--profile", "modelled", "--out", directory .. "/run", "--lr=0.002" }
      assert.equal(0, code, err)
   end)

   teardown(function() files.remove(directory) end)

   it("of a run has curves, memory, partition, timeline and where flags are from", function()
      local said = ftpipe { "report", directory .. "/run" }
      assert.matches("run/report.html: %d+ kB\n", said)
      local page = core.sys.read_file(directory .. "/run/report.html")
      pages.check(page)
      assert.matches("<td class=\"long\">encoder/embed .. ", page) -- room for what is long
      assert.matches("screen and %(prefers%-color%-scheme:dark%)", page)
      assert.matches("<p>Last started %d+%-%S+ on [^:]+: <code>%S+ recipes/t5_rte.lua "
         .. "%-%-steps 6 ", page)
      for _, word in ipairs { "accuracy", "<figcaption>Loss<", "<h2>Memory<", "<h2>Partition<",
         "<td[^>]*>encoder/embed %.%. encoder/block.%d/%w+</td>",
         "<td[^>]*>encoder/%S+ %.%. head</td>", "stage 1 on cpu:1: %d+ operators",
         "of the last leg", "waits for", "%-%-lr</td><td class=\"n\">0.002</td><td>command line<",
         "%-%-batch</td><td class=\"n\">32</td><td>recipe<", "%-%-seed</td>.->default<" }
      do
         assert.matches(word, page)
      end
      assert.equal(page, (ftpipe { "report", directory .. "/run", "--out", "-" }))
      local best = core.json.read(directory .. "/run/summary.json").best_step
      assert.matches(("%%%%</b> on 20 examples after step %d of 6;"):format(best), page)
   end)

   it("says what was planned of memory as the run does, where classes share places", function()
      local out = directory .. "/swaps"
      local _, err, code = ftpipe { "recipes/t5_rte.lua", "--steps", "2", "--eval-limit", "8",
         "--profile", "modelled", "--devices", "cpu:2/6MB", "--stages", "6", "--micro-batches", "8",
         "--swap", "auto", "--out", out }
      assert.equal(0, code, err)
      local page = ftpipe { "report", out, "--out", "-" }
      local summary = core.json.read(out .. "/summary.json")
      for d, bytes in ipairs(summary.memory_planned_bytes) do
         assert.is_true(bytes <= 6e6)
         assert.matches(("<td>cpu:%d</td><td>%s</td>"):format(d - 1, units.format_bytes(bytes)),
            (page:gsub("<td[^>]*>", "<td>")))
      end
   end)

   it("says how far clocks of other machines are known", function()
      local other = directory .. "/other"
      process.shell(("cp -r %s/run %s"):format(directory, other))
      local path = other .. "/timeline.json"
      core.sys.write_file(path, (core.sys.read_file(path):gsub('"traceEvents":%[', '%0'
         .. '{"ph":"M","pid":1,"name":"process_labels","args":{"labels":"clock to 0.120 ms<"}},')))
      assert.matches("below its budget%. cpu:1: clock to 0%.120 ms&lt;%.</p>",
         (ftpipe { "report", other, "--out", "-" }))
      assert.matches("below its budget%.</p>", (ftpipe { "report", directory .. "/run", "--out",
         "-" }))
   end)

   it("of 10,000 steps stays under 1 MB, whatever its numbers are", function()
      local long = directory .. "/long"
      core.sys.mkdir(long)
      core.sys.write_file(long .. "/run.json", core.sys.read_file(directory .. "/run/run.json"))
      local lines = {}
      for step = 1, 10000 do
         lines[step] = core.json.encode { v = 1, step = step, loss = 1 + math.sin(step) / step,
            loss_mean = 1, lr = 1e-3, gnorm = step % 7, samples_per_second = 40.5,
            tokens_per_second = 900 + step % 13, idle_percent = { 10, 20, 30, 40, 50, 60, 70, 80 } }
      end
      core.sys.write_file(long .. "/plan.txt", (core.sys.read_file(directory .. "/run/plan.txt")
         :gsub("\nstage 0 device 0", "%0,1 replicas round-robin")))
      lines[77] = '{"step":77,"loss":1e999}'
      lines[78] = '{"step":78,"loss":null,"idle_percent":"x"}'
      lines[79] = '{"step":79,"loss"'
      core.sys.write_file(long .. "/metrics.jsonl", table.concat(lines, "\n") .. '\n{"step":1')
      local page = ftpipe { "report", long, "--out", "-" }
      pages.check(page)
      assert.is_true(#page > 20000 and #page < 1e6, #page)
      assert.matches("It has not ended", page)
      assert.not_matches("held%-out", page) -- no curve, no name of one
      assert.matches("<td>cpu:0, cpu:1</td>", page)
      local said = "metrics%.jsonl: 2 lines left out, damaged" -- the last, cut, is none of them
      assert.matches(said, page)
      assert.matches(said, (ftpipe { "runs", "show", long }))
      assert.matches("rows; .*" .. said, (ftpipe { "runs", "events", long }))
   end)

   it("of a run whose plan is no plan says where", function()
      local other = directory .. "/torn"
      process.shell(("cp -r %s/run %s"):format(directory, other))
      local text = core.sys.read_file(other .. "/plan.txt"):gsub("\nmemory 1 w", "%0w")
      core.sys.write_file(other .. "/plan.txt", text)
      local why = "torn/plan.txt: plan, line %d+: found 'wweights', expected a class of memory"
      process.refused(6, why, { "trace", other })
      assert.matches("No plan: [^<]+/torn/plan.txt: plan, line %d+: found",
         ftpipe { "report", other, "--out", "-" })
   end)

   it("of a sweep has its trials, and what matters", function()
      core.sys.write_file(directory .. "/s.lua", [[local ft = require("ftpipe")
         return ft.sweep { run = { "plan", "t5-small", devices = "sim:2x11GB", format = "json" },
            space = { micro_batches = { 1, 4 }, schedule = { "gpipe", "1f1b" } }, method = "grid",
            metric = "seconds_per_batch", goal = "min" }]])
      ftpipe { "sweep", directory .. "/s.lua", "--out", directory .. "/sweep" }
      local page = ftpipe { "report", directory .. "/sweep", "--out", "-" }
      pages.check(page)
      assert.matches("<b>best ", page)
      local _, last = page:find('.*<polyline[^>]- stroke=') -- the best line lies above the others
      assert.equal('"#D55E00"', page:sub(last + 1, last + 9))
      assert.matches("micro_batches</td><td class=\"n\">%d+ %%", page)
      local rows = {}
      for i = 1, 4 do
         rows[i] = { value = i % 2, flags = { a = i % 2, b = i > 2 }, point = { 0.1, 0.9 } }
      end
      assert.equal(1, sweep_report.importance(rows, "a", 1))
      assert.equal(0, sweep_report.importance(rows, "b", 2))
   end)

   it("is refused of what is neither", function()
      process.refused(6, "is neither a run", { "report", directory })
      process.refused(2, "needs the directory", { "report" })
   end)

   it("thins curves without losing their peaks", function()
      local points = {}
      for i = 1, 5000 do points[i] = { i, i == 3333 and 9 or i == 4444 and -9 or 0 } end
      local thin, most, least = chart.thinned(points, 100), 0, 0
      assert.is_true(#thin <= 200)
      for i, point in ipairs(thin) do
         most, least = math.max(most, point[2]), math.min(least, point[2])
         assert.is_true(i == 1 or thin[i - 1][1] < point[1])
      end
      assert.same({ 9, -9 }, { most, least })
   end)
end)

describe("--print-config", function()
   it("says of every flag its value and where it is from", function()
      local out, err, code = ftpipe { "recipes/t5_rte.lua", "--lr=0.002", "--print-config" }
      assert.equal(0, code, err)
      assert.matches("\n%-%-lr 0.002 +command line\n", out)
      assert.matches("\n%-%-batch 32 +recipe\n", "\n" .. out)
      assert.matches("\n%-%-seed 1 +default\n", out)
      out = ftpipe { "recipes/t5_rte.lua", "--model", "t5-small", "--print-config" }
      assert.matches("%-%-batch 40 +recipe, with %-%-model\n", out)
      process.refused(2, "unknown flag '%-%-lrr'", { "recipes/t5_rte.lua", "--lrr=1",
         "--print-config" })
   end)
end)
