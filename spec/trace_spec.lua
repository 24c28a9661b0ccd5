--- ftpipe trace: a window of a timeline that keeps the rules of viewers.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local pty = require("spec.support.pty")
local window = require("ftpipe.schedule.window")

local ftpipe = process.ftpipe

describe("ftpipe trace", function()
   it("prints some batches: slices nest on each thread, arrows have two ends", function()
      files.in_directory(function(directory)
         local run = directory .. "/a"
         local _, err, code = ftpipe { "recipes/t5_rte.lua", "--steps", "4", "--eval-limit", "8",
            "--devices", "cpu:2", "--profile", "modelled", "--out", run }
         assert.equal(0, code, err)
         local whole = core.json.decode(core.sys.read_file(run .. "/timeline.json")).traceEvents
         local out = ftpipe { "trace", run, "--batches", "1-2" }
         local seen, ends, batches = 0, {}, {}
         local events = core.json.decode(out).traceEvents
         table.sort(events, function(a, b) return (a.ts or 0) < (b.ts or 0) end)
         for _, event in ipairs(events) do
            if event.ph == "X" then
               local thread = event.pid .. " " .. event.tid
               assert.is_true(event.ts >= (ends[thread] or 0) - 0.002) -- three decimals each
               ends[thread] = event.ts + event.dur
               if event.args.batch then
                  seen, batches[event.args.batch] = seen + 1, true
               end
            end
         end
         assert.same({ [1] = true, [2] = true }, batches)
         local wanted = 0
         for _, event in ipairs(whole) do
            local batch = event.ph == "X" and event.args.batch
            if batch == 1 or batch == 2 then wanted = wanted + 1 end
         end
         assert.equal(wanted, seen)
         -- arrows: pairs, each from within a slice to the beginning of another that is not earlier
         local pairs_of = {}
         for _, event in ipairs(events) do
            if event.ph == "s" or event.ph == "f" then
               pairs_of[event.id] = pairs_of[event.id] or {}
               assert.is_nil(pairs_of[event.id][event.ph])
               pairs_of[event.id][event.ph] = event
            end
         end
         local function slice_at(at)
            for _, event in ipairs(events) do
               if event.ph == "X" and event.pid == at.pid and event.tid == at.tid
                  and event.ts - 0.002 <= at.ts and at.ts <= event.ts + event.dur
               then
                  return event
               end
            end
         end
         local arrows = 0
         for _, arrow in pairs(pairs_of) do
            arrows = arrows + 1
            assert.is_true(arrow.s.ts <= arrow.f.ts + 0.002)
            local from, to = arrow.s.name:match("^(%u%d+)>(%u%d+)$")
            for at, name in pairs { [arrow.s] = from, [arrow.f] = to } do
               assert.equal(name, (slice_at(at).name:gsub("^(%u) stage (%d+) .*", "%1%2")))
            end
         end
         assert.is_true(arrows >= 16, arrows) -- 4 micro-batches there and back, of two batches
         assert.same({ pairs_of[1].s.name }, { pairs_of[1].f.name })
         out = ftpipe { "trace", run, "--batches", "1", "--text" }
         for d = 0, 1 do assert.matches(("cpu:%d |[^|]+| +%%d+ %%%%\n"):format(d), out) end
         assert.matches("\nbetween devices: 8 values, [^\n]+ each from made to taken, %d+ %% of it "
            .. "while the taker computes\n$", out)
         local terminal = pty.open("trace '" .. run .. "'") -- nobody reads JSON there
         terminal:wait("cpu:1 |[^|]+| +%d+ %%\r\n")
         terminal:close()
         out = ftpipe { "trace", run, "--out", run .. "/window.json" }
         assert.matches("window.json: %d+ events, %d+ kB\n$", out)
         local packed = run .. "/window.json.gz"
         ftpipe { "trace", run, "--out", packed }
         assert.equal("\31\139", core.sys.read_file(packed):sub(1, 2))
         assert.equal(core.sys.read_file(run .. "/window.json"),
            (process.shell("gzip -dc " .. packed)))
         for _, name in ipairs { "plan.txt", "hf/config.json", "checkpoints/../timeline.json" } do
            local before = core.sys.read_file(run .. "/" .. name)
            for _, command in ipairs { "trace", "report" } do
               process.refused(2, "is a file of the run itself: write to another path",
                  { command, run, "--out", run .. "/" .. name })
            end
            assert.equal(before, core.sys.read_file(run .. "/" .. name))
         end
         for _, command in ipairs { "report", "trace" } do
            process.refused(2, "ftpipe: " .. directory .. " is a directory, expected a file",
               { command, run, "--out", directory })
            process.refused(2, "ftpipe: no/x: there is no directory no/", { command, run, "--out",
               "no/x" })
         end
         process.refused(6, "has no batch 90 to 99, expected some of 0 to %d+\n$", { "trace", run,
            "--batches", "90-99" })
         process.refused(6, "has no batch 1000+ to 1000+, expected", { "trace", run, "--batches",
            "1" .. ("0"):rep(20) })
         process.refused(2, "expected one, as 3", { "trace", run, "--batches", "5-3" })
         process.refused(2, "needs the directory", { "trace" })
         core.sys.write_file(run .. "/timeline.json",
            '{"traceEvents":[1,"x",{"ph":"X","args":{"batch":0}},{"ph":"M","pid":"y"}]}')
         process.refused(6, "has no batch 0 to 9", { "trace", run })
         assert.matches("report.html: ", (ftpipe { "report", run }))
         core.sys.write_file(run .. "/timeline.json", "[1]")
         process.refused(6, "timeline.json: not what a run writes", { "trace", run })
      end)
   end)
end)

describe("what passes between devices", function()
   local passages = require("ftpipe.schedule.passages")

   local function slice(pid, letter, stage, micro, ts, dur)
      return { name = ("%s stage %d mb %s"):format(letter, stage, micro), cat = "work", pid = pid,
         ts = ts, dur = dur, args = { batch = 0, micro = micro } }
   end

   it("is hidden while its taker computes", function()
      local edges = { { kind = "F", from = 1, to_kind = "F", to = 2 },
         { kind = "B", from = 2, to_kind = "B", to = 1 },
         { kind = "R", from = 1, to_kind = "U", to = 2 } }
      local list = {
         slice(0, "F", 0, 0, 0, 10), slice(0, "F", 0, 1, 10, 10), -- made at 10 and at 20
         slice(1, "F", 1, 0, 30, 12), slice(1, "F", 1, 1, 50, 10), -- taken at 30 and at 50
         slice(1, "B", 1, 0, 60, 5), slice(0, "B", 0, 0, 65, 5), -- taken when it is made
         slice(0, "R", 0, nil, 70, 1), slice(1, "U", 1, nil, 80, 1), -- no value of a micro-batch
      }
      local function computes(event) return event.cat == "work" end
      assert.same({ 3, 20 + 30 + 0, 12 }, { passages.overlap(list, edges, computes) })
      assert.matches("^between devices: 3 values, 17 us each from made to taken, 24 %% of it while",
         passages.words(list, edges, computes))
      assert.is_nil(passages.words(list, {}, computes))
      for _, event in ipairs(list) do event.pid = 0 end
      assert.is_nil(passages.words(list, edges, computes))
   end)
end)

describe("memory between two moments", function()
   it("begins with what was held last before them", function()
      local events = {}
      for i, bytes in ipairs { 8, 5, 7, 3 } do
         events[i] = { ph = "C", pid = 0, ts = 10 * i, name = "memory", args = { bytes = bytes } }
      end
      local list = window.memory(events, 1, 25, 35)
      assert.same({ { is_all = true, peak = 7, points = { { 0, 5 }, { 5e3, 7 } } } }, list)
   end)
end)
