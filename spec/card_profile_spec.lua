--- Profiles that are measured on emulated cards.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local stopped = require("spec.support.stopped")

local PROGRAM = core.sys.executable():match("^(.*)/") .. "/ftpipe_emu"

--- What it prints; it has to end well.
local function run(arguments)
   local out, err, exit = process.shell(("'%s' %s </dev/null"):format(PROGRAM, arguments))
   assert.equal(0, exit, err)
   return out
end

describe("a profile of a card", function()
   if core.sys.exists(PROGRAM) ~= "file" then
      return it("is emulated", function() pending("skipped: there is no ftpipe_emu") end)
   end

   local function model(dir)
      core.sys.write_file(dir .. "/config.json", core.json.encode { model_type = "gpt2",
         vocab_size = 67, n_positions = 16, n_ctx = 16, n_embd = 16, n_layer = 1, n_head = 2 })
   end

   it("ends at a signal", function()
      assert.equal("false\tcancelled\tprofile: stopped\n", stopped(PROGRAM, "emu:1"))
   end)

   for _, precision in ipairs { "f32", "bf16" } do
      it("has a time for every node, update and copy of a weight: " .. precision, function()
         files.in_directory(function(dir)
            model(dir)
            local text = run(("profile --model %s --devices emu:1 --precision %s --batch 1 "
               .. "--max-source 8 --recompute-too --out %s/p"):format(dir, precision, dir))
            assert.matches("^profile: measured on emu:1 %(card of ", text)
            local profile = require("ftpipe.profile").load(dir .. "/p")
            assert.equal(precision, profile.head.dtype)
            local packs = 0
            for _, part in ipairs { "forward", "backward", "update" } do
               assert.is_true(#profile.rows[part] > 0)
               for _, row in ipairs(profile.rows[part]) do
                  assert.is_true(row.ns > 0, row.text)
                  if part == "update" then assert.is_true(row.norm_ns > 0, row.text) end
                  if part == "forward" then assert.near(row.ns, row.recompute_ns, 1e-3 * row.ns) end
                  packs = packs + (row.pack_ns or 0)
               end
            end
            assert.equal(precision == "bf16", packs > 0)
         end)
      end)
   end

   it("is what plans of that card count with, where it is asked for", function()
      files.in_directory(function(dir)
         local plan = ("plan %s --devices emu:2 --batch 2 --micro-batches 2 "
            .. "--max-source 8 "):format(dir)
         model(dir)
         local asked, plain = run(plan .. "--profile measured"), run(plan)
         local function rate(text) return tonumber(text:match("([%d.]+) samples/s")) end
         assert.is_true(rate(plain) > 2 * rate(asked), asked) -- emulation takes its time
      end)
   end)

   it("is refused where devices have no such numbers", function()
      local flags = " profile t5-small --max-source 8 --devices "
      for _, case in ipairs { "cpu:1 --precision f16", "cpu:1 --precision tf32",
         "sim:1x2080ti --precision bf16" } do
         local _, err, exit = process.shell("'" .. core.sys.executable() .. "'" .. flags .. case)
         assert.equal(2, exit, case)
         assert.matches("^ftpipe: %-%-precision %w+: .*of %w+", err)
      end
   end)

   it("says what takes more than there is", function()
      files.in_directory(function(dir)
         model(dir)
         local _, err, exit = process.shell(("'%s' profile --model %s --devices emu:1/40kB "
            .. "--max-source 8 </dev/null"):format(PROGRAM, dir))
         assert.is_true(exit ~= 0)
         assert.matches("a node takes [%d.]+ MB, emu:0 has 0%.0 MB", err)
      end)
   end)
end)
