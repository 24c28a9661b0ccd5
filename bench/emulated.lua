--- Specs of runs on emulated cards: in build/release/ftpipe_emu "cpu" counts cards, so that what
-- they say of devices holds of cards too. check/cards runs some of it in every test.
--
--    ftpipe bench/emulated.lua [SPEC...]
--
-- Bits do not depend on how busy a machine is. Some tests are of the CPU alone and skip there.

local core = require("ftpipe.core")

-- What each shows.
local specs = {
   { "cards", "bits of 1, 2 and 4 cards; replays; replicas" },
   { "golden", "outputs of another framework: f32 within 1e-4, losses of 16 bits within 2e-2" },
   { "loss", "bf16: bits of 1, 2 and 3 cards, near f32" },
   { "scaling", "f16: losses that are scaled, steps that are skipped" },
   { "equality", "some of the table of synchronous runs" },
   { "pipeline", "schedules, stages, devices, memory" },
   { "recompute", "recomputation" },
   { "replicas", "replicas" },
   { "ties", "shared weights on any cut" },
   { "versions", "late weights by their formulas; prediction; gap-aware; replays" },
   { "zb_v", "halves of backwards, folded" },
   { "harmony", "swaps, updates on either side" },
   { "plan_moves", "what moves to host memory and back, by hand and by --swap" },
   { "late_places", "late weights of stages that share a device" },
   { "placement", "partitions by hand" },
   { "groups", "groups of parameters, frozen ones" },
   { "closed_forms", "closed forms" },
   { "evaluate", "evaluation" },
   { "finite", "numbers that are not finite" },
   { "resume", "resuming after failures" },
   { "run_directory", "run directories" },
   { "watchdog", "runs that stand still" },
}

local chosen = {}
for _, name in ipairs(arg) do chosen[name] = true end

local program = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"
local failed, passed, skipped = 0, 0, 0
io.stdout:setvbuf("line")
for _, spec in ipairs(specs) do
   if not next(chosen) or chosen[spec[1]] then
      local pipe = assert(io.popen(("'%s' tools/spec.lua spec/%s_spec.lua </dev/null 2>&1"):format(
         program, spec[1])))
      local lines, last = {}, ""
      for line in pipe:lines() do
         if line ~= "" then
            lines[#lines + 1] = line
            last = line
         end
      end
      pipe:close()
      local p, f, s = last:match("^(%d+) passed, (%d+) failed, (%d+) skipped$")
      if not p then p, f, s = 0, 1, 0 end -- it did not come to its end
      passed, failed, skipped = passed + p, failed + f, skipped + s
      print(("%-14s %4d passed, %d failed, %d skipped: %s"):format(spec[1], p, f, s, spec[2]))
      if tonumber(f) > 0 then print("   " .. table.concat(lines, "\n   ")) end
   end
end
print(("%d tests passed on emulated cards, %d failed, %d are of the CPU alone"):format(passed,
   failed, skipped))
print(("gate emulated-failed %d"):format(failed))
os.exit(failed == 0 and passed > 0 and 0 or 1, true)
