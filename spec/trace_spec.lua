--- ftpipe trace: a window of a timeline that keeps the rules of viewers.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")

local ftpipe = process.ftpipe

describe("ftpipe trace", function()
   it("prints some batches, whose slices nest on each thread", function()
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
         process.refused(6, "has no batch 90 to 99", { "trace", run, "--batches", "90-99" })
         process.refused(2, "expected one, as 3", { "trace", run, "--batches", "5-3" })
         process.refused(2, "needs the directory", { "trace" })
         core.sys.write_file(run .. "/timeline.json", "[1]")
         process.refused(6, "has no traceEvents", { "trace", run })
      end)
   end)
end)
