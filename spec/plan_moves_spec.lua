--- Plans that move state between a device and host memory: a state of many times the device's
-- memory trains, with the same numbers.

local with = require("ftpipe.base.copy")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local traffic = require("spec.support.traffic")

--- Stages whose weights a stage uses where they are, by its number.
local function lenders_of(text)
   local lenders = {}
   for from, to in text:gmatch("\nedge U(%d+)>W(%d+)") do
      lenders[to] = lenders[to] or {}
      table.insert(lenders[to], from)
   end
   return lenders
end

--- Nothing is on the device but what the action under way needs.
local function tight(text)
   local lenders = lenders_of(text)
   local function around(kind, stage, batch, micro, lag)
      local list = {}
      local function move(letter, of, class)
         list[#list + 1] = ("%s%s.%s.0:%s"):format(letter, of, batch, class)
      end
      local reads, updates = kind ~= "R", kind == "U"
      local begins = kind == "B" and micro == 0
      local grads = updates or kind == "R" or kind == "B"
      local users = reads and not updates and lenders[stage] or {}
      local copies = kind == "F" and { "packed" } or reads and { "packed", "turned" } or {}
      if reads then move("L", stage, "weights") end
      for _, class in ipairs(copies) do move("L", stage, class) end
      for _, owner in ipairs(users) do move("L", owner, "weights") end
      if grads and not begins then move("L", stage, "gradients") end
      if updates then move("L", stage, "optimizer") end
      list[#list + 1] = ("%s%s.%s"):format(kind, stage, batch) .. (micro and "." .. micro or "")
         .. (lag or "")
      local writes = (updates or kind == "W") and "O" or "D"
      if reads then move(writes, stage, "weights") end
      for _, class in ipairs(copies) do move(writes, stage, class) end
      for _, owner in ipairs(users) do move("D", owner, "weights") end
      if grads then move(updates and "D" or "O", stage, "gradients") end
      if updates then move("O", stage, "optimizer") end
      return " " .. table.concat(list, " ")
   end
   return (text:gsub(" ([FBRUW])(%d+)%.(%d+)%.?(%d*)%-?(%d*)(~?%d*)%f[%s]",
      function(kind, stage, batch, first, last, lag)
         if first == "" then return around(kind, stage, batch) end
         local list = {}
         for micro = tonumber(first), tonumber(last) or first do
            list[#list + 1] = around(kind, stage, batch, tonumber(micro), lag)
         end
         return table.concat(list)
      end))
end

--- What units of a plan's stages take if all stay.
local function state_bytes(memory)
   return memory.weights + memory.gradients + memory.optimizer + memory.packed + memory.turned
end

local function options_of(family, schedule)
   return {
      family = family, devices = "cpu:1", schedule = schedule, partition = "seq", stages = 12,
      steps = 4, batch = 2, micro_batches = 2, d_model = 96, d_kv = 32, recompute = "always",
      d_ff = 384, precision = pipeline.packing(),
   }
end

describe("a plan that moves state to host memory and back", function()
   for _, case in ipairs { { "gpt2", "1f1b" }, { "t5", "gpipe" }, { "bert", "async" } } do
      it("trains what is larger than the device: " .. table.concat(case, ", "), function()
         local o = options_of(unpack(case))
         local judge = pipeline.train(o)
         local plan = judge.plan:edit(tight)
         local memory = plan.memory[1]
         assert.is_true(state_bytes(judge.planned[1]) > 4 * state_bytes(memory))
         -- the whole device is smaller than two fifths of the state, and not a byte is over
         assert.is_true(state_bytes(judge.planned[1]) > 2.5 * memory.total)
         local budget = ("cpu:1/%dB"):format(memory.total)
         local given = require("ftpipe").schedule.parse(plan:text())
         for _, threaded in ipairs { true, false } do
            local run = pipeline.train(with(o, {
               devices = budget, plan = given, threaded = threaded,
            }))
            assert.same(judge.losses, run.losses)
            assert.same(judge.params, run.params)
            assert.equal(memory.total, run.planned[1].total)
            assert.is_true(run.measured[1].total <= memory.total)
            for _, class in ipairs { "weights", "gradients", "optimizer", "packed", "turned" } do
               assert.equal(memory[class], run.measured[1][class], class)
            end
         end
         local less = files.failure(function()
            pipeline.train(with(o, {
               devices = ("cpu:1/%dB"):format(memory.total - 64), plan = given,
            }))
         end)
         assert.matches("needs .* of memory, its budget is", less.message)
      end)
   end

   it("goes on from leg to leg, shorter ones too, as does what stays", function()
      local o = options_of("gpt2", "1f1b")
      local function legs(plan)
         local whole = pipeline.with_presets(o)
         return pipeline.legs(pipeline.open(plan, whole), plan, whole,
            { { 1, 1 }, { 2, 2 }, { 4, 3 } })
      end
      local plan = pipeline.plan(o)
      assert.same(legs(plan), legs(plan:edit(tight)))
   end)

   it("is refused where something would be missing or lost", function()
      local o = options_of("gpt2", "1f1b")
      local plan = pipeline.plan(o)
      local function refused(pattern, from, to)
         local problem = files.failure(function()
            plan:edit(function(text)
               local edited, n = tight(text):gsub(from, to)
               assert(n > 0, "nothing was edited")
               return edited
            end)
         end)
         assert.matches(pattern, problem.message)
      end
      refused("B0.0.0 needs its weights on the device",
         "L0%.0%.0:weights (L0%.0%.0:packed L0%.0%.0:turned B0)", "%1")
      refused("B0.1.0 needs its turned on the device", "L0%.0%.0:turned (B0)", "%1")
      refused("F10.0.0 needs weights that it shares on the device, where their owner has them not",
         "L0%.0%.0:weights F10", "F10")
      refused("D0.0.0:optimizer drops what is nowhere else", "O0%.0%.0:optimizer",
         "D0.0.0:optimizer")
      refused("D0.0.0:gradients drops what is nowhere else", "(B0%.0%.0 .-)O(0%.0%.0:gradients)",
         "%1D%2")
   end)

   it("is made where the devices have less than the state: --swap", function()
      local cases = {
         { family = "gpt2", schedule = "1f1b", devices = 1 },
         { family = "t5", schedule = "gpipe", devices = 2 },
         { family = "bert", schedule = "async", devices = 2 },
      }
      for _, case in ipairs(cases) do
         local o = options_of(case.family, case.schedule)
         o.devices, o.stages = "cpu:" .. case.devices, 12
         local judge = pipeline.train(o)
         local least = pipeline.train(with(o, { swap = "always" }))
         assert.same(judge.params, least.params)
         assert.matches("\npredicted: .*\nswaps of cpu:0: [%d.]+ MB in and [%d.]+ MB out for each "
            .. "batch, [%d.]+ %% hidden; computing waits [%d.]+ %l+ for them\n  [%l]+ [%d.]+ %a+, ",
            tostring(least.plan))
         assert.not_matches("\nswaps of ", tostring(judge.plan))
         local all, few = 0, 0
         for d = 1, case.devices do
            all = math.max(all, judge.planned[d].total)
            few = math.max(few, least.planned[d].total)
         end
         assert.is_true(few < (case.devices == 1 and .4 or .7) * all)
         local before = math.huge
         for _, share in ipairs { .1, .5, 1 } do
            local budget = math.ceil(few + share * (all - few))
            local run = pipeline.train(with(o, {
               devices = ("cpu:%d/%dB"):format(case.devices, budget), swap = "auto", trace = true,
            }))
            assert.same(judge.losses, run.losses)
            assert.same(judge.params, run.params)
            local room = (" of %.1f MB: "):format(budget / 1e6)
            assert.is_truthy(tostring(run.plan):find(room, 1, true))
            local moved = 0
            for d, row in ipairs(run.measured) do
               assert.is_true(row.total <= budget)
               assert.is_true(row.total <= run.planned[d].total)
               local volume = run.plan.volumes and run.plan.volumes[d]
               for _, bytes in pairs(volume and volume.bytes_in or {}) do moved = moved + bytes end
            end
            local counts = { L = 0, O = 0, D = 0 }
            for letter in run.timeline.trace:gmatch("\"name\":%s*\"([LOD]) stage") do
               counts[letter] = counts[letter] + 1
            end
            for _, volume in ipairs(run.plan.volumes or {}) do
               counts.L, counts.O = counts.L - volume.loads, counts.O - volume.saves
               counts.D = counts.D - volume.drops
            end
            assert.same({ L = 0, O = 0, D = 0 }, counts) -- planned and executed
            traffic.assert_copied(run)
            assert.is_true(moved <= before) -- more memory, no more copies
            before = moved
         end
         assert.equal(0, before)
      end
   end)

   it("leaves no holes between places where a device has no more than they need", function()
      for _, case in ipairs { { "gpt2", "1f1b" }, { "t5", "gpipe" }, { "bert", "harmony-pp" } } do
         local o = options_of(unpack(case))
         local least = pipeline.plan(with(o, { swap = "always" }))
         local bytes = least.memory[1].total
         assert.equal(least.blueprint:simulate(4, true).memory[1].peak, bytes)
         local within = pipeline.plan(with(o, {
            swap = "auto", devices = ("cpu:1/%dB"):format(bytes),
         }))
         assert.is_true(within.memory[1].total <= bytes)
         assert.is_true(within.volumes[1].loads <= least.volumes[1].loads)
      end
   end)

   it("leaves on a device what there is room for, beside one that has none", function()
      local o = with(options_of("gpt2", "gpipe"), {
         devices = "cpu:2", update = "host", profile = "modelled", recompute = "never",
      })
      local least = pipeline.plan(with(o, { swap = "always" }))
      local needs = { least.memory[1].total, least.memory[2].total }
      assert.is_true(needs[1] > 1.1 * needs[2])
      local run = pipeline.train(with(o, {
         swap = "auto", devices = ("cpu:2/%dB"):format(needs[1]),
      }))
      assert.is_true(run.planned[2].total > needs[2])
      assert.is_true(run.plan.volumes[2].loads < least.volumes[2].loads)
      assert.is_true(run.plan:simulate(4).seconds < 0.95 * least:simulate(4).seconds)
      for d, row in ipairs(run.measured) do
         assert.is_true(row.total <= needs[1])
         assert.is_true(run.plan.volumes[d].loads <= least.volumes[d].loads)
      end
      traffic.assert_copied(run)
      assert.same(pipeline.train(with(o, { update = "device" })).params, run.params)
   end)

   it("moves activations of micro-batches too, under every schedule", function()
      for _, case in ipairs { { "gpt2", "gpipe" }, { "bert", "1f1b" }, { "t5", "zero-bubble" },
         { "bert", "interleaved" }, { "gpt2", "async" }, { "t5", "harmony-pp" } } do
         local o = {
            family = case[1], schedule = case[2], devices = "cpu:2", stages = 6, steps = 2,
            batch = 16, micro_batches = 8,
         }
         local judge = pipeline.train(o)
         local least = pipeline.train(with(o, { swap = "always" }))
         assert.same(judge.losses, least.losses)
         assert.same(judge.params, least.params)
         traffic.assert_copied(least)
         local full, few = 0, 0
         for d, row in ipairs(least.measured) do
            full = math.max(full, judge.planned[d].total)
            few = math.max(few, least.planned[d].total)
            assert.is_true(row.total <= least.planned[d].total)
            assert.is_true(least.plan.volumes[d].bytes_out.activations > 0 or case[2] == "async")
         end
         assert.is_true(few < .8 * full, table.concat(case, " "))
         local budget = math.floor(1.1 * few)
         local run = pipeline.train(with(o, {
            swap = "auto", devices = ("cpu:2/%dB"):format(budget),
         }))
         assert.same(judge.params, run.params)
         for _, row in ipairs(run.measured) do assert.is_true(row.total <= budget) end
      end
   end)

   it("moves what is asked for alone: --swap activations,optimizer", function()
      local o = options_of("gpt2", "gpipe")
      local all = pipeline.plan(with(o, { recompute = "never", batch = 16, micro_batches = 8 }))
      local budget = math.floor(.8 * all.memory[1].total)
      local run = pipeline.train(with(o, {
         recompute = "never", batch = 16, micro_batches = 8, swap = "activations,optimizer",
         devices = ("cpu:1/%dB"):format(budget),
      }))
      local volume = run.plan.volumes[1]
      for _, class in ipairs { "weights", "gradients", "packed", "turned" } do
         assert.equal(0, volume.bytes_in[class] + volume.bytes_out[class])
      end
      assert.is_true(volume.bytes_in.activations + volume.bytes_in.optimizer > 0)
      assert.is_true(run.measured[1].total <= budget)
      local problem = files.failure(function() pipeline.plan(with(o, { swap = "wheights" })) end)
      assert.matches('swap = "wheights": expected never, auto, always, task, clean, lms, or '
         .. "classes of weights,gradients,optimizer,packed,turned,activations", problem.message)
   end)

   it("makes packed copies where that takes less than bringing them", function()
      for _, case in ipairs { { "gpt2", "1f1b", 1 }, { "t5", "harmony-pp", 2 },
         { "bert", "gpipe", 1 } } do
         local o = with(options_of(case[1], case[2]), {
            profile = "modelled", devices = "cpu:" .. case[3], stages = 12,
         })
         local judge = pipeline.train(o)
         local least = pipeline.plan(with(o, { swap = "always" }))
         local budget = math.ceil(1.3 * least.memory[1].total)
         for _, update in ipairs { "device", "host" } do
            local run = pipeline.train(with(o, {
               swap = "auto", devices = ("cpu:%d/%dB@20MB/s"):format(case[3], budget),
               update = case[2] ~= "1f1b" and update or nil,
            }))
            assert.same(judge.losses, run.losses)
            assert.same(judge.params, run.params)
            traffic.assert_copied(run)
            for d, row in ipairs(run.measured) do
               local volume = run.plan.volumes[d]
               assert.is_true(row.total <= budget)
               assert.is_true(volume.makes > 0)
               for _, class in ipairs { "packed", "turned" } do
                  assert.equal(0, volume.bytes_in[class] + volume.bytes_out[class])
               end
            end
         end
      end
   end)

   it("makes packed copies by hand, of weights that are there", function()
      local judge = pipeline.train(options_of("bert", "async"))
      local function made(text)
         text = tight(text)
         for _, class in ipairs { "packed", "turned" } do
            text = text:gsub("O(%d+%.%d+%.0:" .. class .. ")", "D%1"):gsub("L(%d+%.%d+%.0:"
               .. class .. ")", "M%1")
         end
         return text
      end
      local given = require("ftpipe").schedule.parse(judge.plan:edit(made):text())
      local run = pipeline.train(with(options_of("bert", "async"), { plan = given }))
      assert.same(judge.losses, run.losses)
      assert.same(judge.params, run.params)
      assert.equal(0, run.plan.volumes[1].bytes_in.packed)
      local function refused(words, from, to)
         assert.fails_with(function()
            judge.plan:edit(function(text)
               local edited, n = made(text):gsub(from, to, 1)
               assert.equal(1, n)
               return edited
            end)
         end, words)
      end
      local make = " M0%.0%.0:packed"
      refused("M0.0.0:packed needs its weights on the device",
         "( L0%.0%.0:weights)(" .. make .. ")", "%2%1")
      refused("M0.0.0:packed makes again what is on the device", make, "%1%1")
      refused("M0.0.0:optimizer makes what is not made of others: expected packed or turned",
         make,
         "%1 M0.0.0:optimizer")
      refused("L0.0.0:packed moves what is not in host memory", "(" .. make .. " F0.0.0.-)"
         .. " M(0%.%d%.%d:packed)", "%1 L%2")
   end)

   it("is of classes and scopes that there are", function()
      local blueprint = pipeline.plan(options_of("gpt2", "1f1b")).blueprint
      for _, case in ipairs {
         { { classes = { "weights", "wheights" } }, "'classes' has 'wheights' at 2, expected" },
         { { classes = { true } }, "'classes' has 'boolean' at 1, expected" },
         { { scope = "stage" }, "'scope' is 'stage', expected 'task', 'group' or" },
      } do
         local problem = files.failure(blueprint.fit, blueprint, case[1])
         assert.matches(case[2], problem.message)
      end
   end)

   it("that cannot be names what needs more than there is", function()
      local function refused(budget, ...)
         local o = with(options_of("gpt2", "1f1b"), { swap = "auto", devices = "cpu:1/" .. budget })
         local problem = files.failure(function() pipeline.plan(o):check() end)
         for _, pattern in ipairs { ... } do assert.matches(pattern, problem.message) end
      end
      refused("1.2MB", "swapping does not help: device cpu:0: [UBF]%d+%.[%d.]+ alone needs",
         "cut the model into more stages")
      refused("0.8MB", "swapping does not help: what does not move on device cpu:0 is .* over")
   end)
end)

describe("what swaps cost", function()
   local function plan(devices, changes)
      return pipeline.plan(with(with(options_of("gpt2", "1f1b"), changes or {}),
         { swap = changes and changes.swap or "always", devices = devices }))
   end

   it("is in the prediction: all of a slow link, none of what hides behind computing", function()
      local free = plan("cpu:1", { swap = "never" }):simulate(4).seconds
      local before = free
      for _, rate in ipairs { "100GB/s", "1GB/s", "100MB/s", "10MB/s" } do
         local p = plan("cpu:1@" .. rate)
         local bytes = 0
         for _, part in ipairs { "bytes_in", "bytes_out" } do
            local sum = 0
            for _, of_class in pairs(p.volumes[1][part]) do sum = sum + of_class end
            bytes = math.max(bytes, sum)
         end
         local seconds = p:simulate(4).seconds
         -- no faster than the busier direction, nor than computing alone
         local number, unit = rate:match("(%d+)(%u)")
         local per_second = tonumber(number) * (unit == "G" and 1e9 or 1e6)
         assert.is_true(seconds >= before and seconds >= bytes / per_second)
         before = seconds
      end
      assert.is_true(before > 50 * free)
   end)

   it("is waited for by what computes, and by nothing else", function()
      local p = plan("cpu:1@1GB/s")
      local played = p.blueprint:simulate(4)
      local waits = 0
      for _, ns in pairs(played.stalls[1]) do waits = waits + ns end
      local last = 0 -- copies that end behind the last action
      assert.is_true(played.busy_ns[1] + waits <= played.end_ns)
      for class, times in pairs(played.copies[1]) do
         assert.is_true(times.exposed_ns <= times.ns, class)
         last = last + times.ns
      end
      assert.is_true(played.end_ns <= played.busy_ns[1] + last)
      assert.equal(p:simulate(4).seconds, played.end_ns / 1e9)
   end)

   it("is weighed against recomputing", function()
      local o = { recompute = "auto", swap = "auto", micro_batches = 4, batch = 64 }
      -- a budget that recomputing everything would keep
      local all, less = plan("cpu:1", with(o, { recompute = "never", swap = "never" })),
         plan("cpu:1", with(o, { recompute = "always", swap = "never" }))
      local budget = math.floor((all.memory[1].total + less.memory[1].total) / 2)
      local function seconds(rate, changes)
         local p = plan(("cpu:1/%dB@%s"):format(budget, rate), with(o, changes or {}))
         assert.is_true(p.memory[1].total <= budget)
         return p:simulate(4).seconds, p
      end
      local slow, kept = seconds("1MB/s")
      assert.is_nil(kept.volumes)
      local fast, moved = seconds("1000GB/s")
      assert.is_true(fast < slow)
      assert.is_truthy(moved.volumes)
   end)

   it("is seen in ftpipe plan, in searches and remedies", function()
      local ft = require("ftpipe")
      local model = pipeline.model { family = "bert", d_model = 96, d_ff = 384 }
      local o = { devices = "sim:2x3MB", batch = 8, source = 16, micro_batches = 4, stages = 12,
         partition = "seq", swap = "auto" }
      local subject = ft.explore(model, o)
      assert.matches("\nswaps of sim:0 card: ", tostring(subject))
      assert.is_true(subject.fits and subject.swapped_bytes > 0)
      assert.equal(subject.swapped_bytes, subject:data().swapped_bytes)
      local found = ft.planner(model, { devices = o.devices, batch = 8, source = 16, counts = { 4 },
         schedules = { "1f1b" }, partitions = { "seq" }, swap = "auto" })
      assert.is_true(found.best.swapped_bytes > 0)
      assert.matches("swapped .*%% hidden", tostring(found))
      local grouped = ft.planner(model, { devices = o.devices, batch = 8, source = 16,
         counts = { 4 }, schedules = { "harmony-pp" }, partitions = { "seq" }, swap = "auto" })
      local tried = {}
      for i, row in ipairs(grouped:data()) do
         tried[row.packs or "alone"] = not row.problem and grouped.rows[i].options
      end
      assert.is_truthy(tried.alone)
      for _, sizes in ipairs { "2/2", "4/4" } do
         assert.is_truthy(tried[sizes])
         assert.matches("harmony%-pp, packs " .. sizes .. " ", tostring(grouped))
         assert.equal(sizes, ft.explore(model, tried[sizes]).options.packs)
      end
      local without = ft.explore(model, with(o, { swap = "never", stages = 2 }))
      assert.is_false(without.fits)
      local lines = ft.planner.remedies(model, without.options,
         (require("ftpipe.placement.over").worst(without.memory)))
      assert.matches('swap = "auto", stages = 8: fits, ', table.concat(lines, "\n"))
   end)

   it("is advised for a run with the speed that it has at least", function()
      local over = pipeline.plan { devices = "sim:2x300kB", batch = 8, micro_batches = 4 }
      local lines = table.concat(over:remedies(), "\n")
      assert.matches('swap = "auto": fits, at most [%d.]+ ms a batch\n', lines)
      assert.not_matches("saves [^\n]*at most", lines)
   end)
end)

describe("what swapping leaves free for places that have holes between them", function()
   it("is no more than that: with more room a plan is no slower", function()
      local explore = require("ftpipe.planner.explore")
      local function seconds(devices)
         return explore.model("gpt2", { devices = devices, swap = "auto", stages = 8 }).seconds
      end
      assert.is_true(seconds("sim:4x800MB") <= seconds("sim:4x700MB"))
   end)
end)
