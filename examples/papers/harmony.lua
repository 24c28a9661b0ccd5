--- Harmony's tables beside ours: what swapping moves, how long training takes, where 128 GB go, and
-- the times that its scheduler estimates.
--
--    ftpipe examples/papers/harmony.lua
--    ftpipe examples/papers/harmony.lua --write-back dirty     a virtual memory that tracks pages
--    ftpipe examples/papers/harmony.lua --parameters paper     sizes worked back from the slides
--    ftpipe examples/papers/harmony.lua --run                  all four systems, executed on CPUs
--
-- Li, Phanishayee, Murray, Kim: "Doing More with Less: Training Large DNN Models on Commodity
-- Servers for the Masses", HotOS 2021 (slides); Li et al., "Harmony", VLDB 2022 (code).

local ft = require("ftpipe")
local bert96 = require("bert96")
local core = require("ftpipe.core")
local reports = require("report")
local usage = require("ftpipe.base.usage")

local args = ft.args {
   "Harmony's tables beside ours.",
   "ftpipe examples/papers/harmony.lua --write-back dirty",
   write_back = { choices = { "always", "dirty" }, default = "always",
      help = "what devices that swap by themselves write to the host" },
   parameters = { choices = { "ours", "paper" }, default = "ours", help = "sizes of models" },
   fragmentation = { default = 0, min = 0, max = 0.99, type = "number",
      help = "share of memory that nothing can use; 0.297 is worked back from the slide" },
   devices = { default = 4, type = "int", min = 2, help = "N of the table of volumes" },
   micro_batches = { default = 16, type = "int", min = 1, help = "M" },
   layers = { default = 48, type = "int", min = 2, help = "R" },
   run = { default = false, type = "boolean",
      help = "train a BERT of 24 small layers on two devices by each of the four systems" },
}

local report = reports.new()

-- ---------------------------------------------------------------------------------------------
-- Volumes.

-- By schedule: class -> tensors of a layer, as the slide has it, for N devices, M micro-batches and
-- R layers.
local slide = {
   { "dp", "data parallelism, swapping", {
      { "W", function(N, M) return 4 * M + 2 * N end },
      { "dW", function(N, M) return 2 * M + 2 * N end },
      { "K", function(N) return 2 * N end },
      { "X", function(_, M) return 2 * M end },
      { "reduce", function(N) return N end },
   } },
   { "harmony-dp", "Harmony data parallelism", {
      { "W", function(N) return 3 * N end },
      { "dW", function() return 0 end },
      { "K", function(N) return 2 * N end },
      { "X", function(_, M) return 2 * M end },
      { "Y", function(_, M) return 2 * M end },
      { "dX", function(_, M) return 2 * M end },
      { "reduce", function(N) return N end },
   } },
   { "pp", "pipeline, swapping", {
      { "W", function(_, M) return 4 * M + 2 end },
      { "dW", function(_, M) return 2 * M + 2 end },
      { "K", function() return 2 end },
      { "X", function(_, M) return 2 * M end },
      { "send Y", function(N, M, R) return (N - 1) / R * M end },
      { "send dX", function(N, M, R) return (N - 1) / R * M end },
   } },
   { "harmony-pp", "Harmony pipeline", {
      { "W", function() return 3 end },
      { "dW", function() return 0 end },
      { "K", function() return 2 end },
      { "X", function(_, M) return 2 * M end },
      { "send Y", function(_, M) return M end },
      { "send dX", function(_, M) return M end },
   } },
}

local function print_volumes()
   local N, M, R = args.devices, args.micro_batches, args.layers
   report:section(("Volumes: tensors of a layer moved, N=%d M=%d R=%d"):format(N, M, R),
      "HotOS 2021, table \"swap load\"; per layer, whatever is at either end of the model left out")
   for _, schedule in ipairs(slide) do
      local counts = ft.swap.volumes(schedule[1], {
         devices = N, micro_batches = M, layers = R, write_back = args.write_back,
      })
      for _, row in ipairs(schedule[3]) do
         report:row(schedule[2]:gsub("parallelism", "par.") .. ", " .. row[1], row[2](N, M, R),
            counts[row[1]] / R, {
               format = "%.3f",
               why = "a memory that tracks pages writes back what has changed; theirs writes all",
            })
      end
   end
end

-- ---------------------------------------------------------------------------------------------
-- Time of training.

-- What a GTX 1080 Ti does in f32 at most, which the slides take for granted.
local PEAK_FLOPS, DAY_S = 10.609e12, 86400
local WIKITEXT_TOKENS = 5 * 101425658 -- WikiText-103, 5 epochs
local GLUE_TOKENS = 6.0855e8          -- GLUE, 3 epochs

-- Model; parameters, tokens and FLOP of a parameter and token in pre-training; layers, width, width
-- of the feed-forward layer and tokens of a sequence in fine-tuning; FLOP and days as published of
-- pre-training, WikiText-103 and GLUE.
local trainings = {
   { name = "BERT-Large", builtin = "bert-large", parameters = 355e6, tokens = 250e9, each = 6,
      shape = { 24, 1024, 4096, 128 }, pretrain = { 5.33e20, 581 }, wiki = { 1.24e18, 1 },
      glue = { 1.49e18, 2 } },
   { name = "GPT-2", builtin = "gpt2-xl", parameters = 1.32e9, tokens = 300e9, each = 6,
      why = "their FLOP are of 1.32 G parameters, GPT-2 has 1.56 G; the slide does not say which",
      shape = { 48, 1600, 6400, 1024 }, pretrain = { 2.38e21, 2592 }, wiki = { 6.30e18, 7 },
      glue = { 7.56e18, 8 } },
   { name = "T5-11B", builtin = "t5-11b", parameters = 11e9, tokens = 1e12, each = 3,
      why = "their FLOP are those of one stack with attention as wide as the model; T5-11B has two "
         .. "stacks, and 128 heads of 128",
      shape = { 24, 1024, 65536, 512 }, pretrain = { 3.30e22, 36002 }, wiki = { 1.35e19, 15 },
      glue = { 1.62e19, 18 } },
   { name = "GPT-3", builtin = "gpt3-175b", parameters = 3.14e23 / 6 / 300e9, tokens = 300e9,
      each = 6,
      shape = { 96, 12288, 49152, 2048 }, pretrain = { 3.14e23, 342564 }, wiki = { 7.16e20, 781 },
      glue = { 8.59e20, 937 } },
}

local function is_embedding(name)
   return name:match("embed") or name:match("wte") or name:match("wpe") or name == "shared.weight"
end

--- Parameters of a built-in model, and those that are no embedding; from its graph.
local function count(name)
   local model = ft.model.open { model = name, init = "random" }
   local size = { batch = 1, source = 8, target = 8, dropout = 0 }
   local graph = model.family.training(model.config, size)
   local all, inside = 0, 0
   for _, param in ipairs(graph:params()) do
      local n = 1
      for _, dim in ipairs(param.dims) do n = n * dim end
      all = all + n
      if not is_embedding(param.name) then inside = inside + n end
   end
   return all, inside
end

--- Forward, recomputed forward and backward: 8 FLOP for a parameter and token, and as many for
-- each element of the scores of attention and width.
local function finetune_flop(inside, layers, width, length, tokens)
   return 8 * (inside + layers * length * width) * tokens
end

local function days(flop) return flop / PEAK_FLOPS / DAY_S end

local function print_training(row)
   local parameters, inside = count(row.builtin)
   local layers, width, feed, length = unpack(row.shape)
   if args.parameters == "paper" then
      parameters = row.parameters
      inside = 2 * width * layers * (2 * width + feed)
   elseif row.each == 3 then
      inside = inside / 2 -- a token passes the encoder or the decoder
   end
   local fitted = args.parameters == "paper" -- worked back from these very cells
   local note = { format = "%.3g", why = row.why, fitted = fitted }
   local whole = { format = "%.0f", why = row.why, fitted = fitted }
   local function rounded(value) return math.floor(value + .5) end -- as published
   local flop = row.each * parameters * row.tokens
   report:row(row.name .. " pre-training FLOP", row.pretrain[1], flop, note)
   report:row(row.name .. " pre-training days", row.pretrain[2], rounded(days(flop)), whole)
   for _, task in ipairs { { "wiki", WIKITEXT_TOKENS }, { "glue", GLUE_TOKENS } } do
      flop = finetune_flop(inside, layers, width, length, task[2])
      report:row(("%s %s FLOP"):format(row.name, task[1]), row[task[1]][1], flop, note)
      report:row(("%s %s days"):format(row.name, task[1]), row[task[1]][2], rounded(days(flop)),
         whole)
   end
end

local function print_trainings()
   report:section("Days of training on one GTX 1080 Ti at its peak, 10.6 TFLOP/s",
      "HotOS 2021, table \"estimated training time\"; inputs and formula inferred from its cells")
   for _, row in ipairs(trainings) do print_training(row) end
   report:line("--parameters paper, worked back from the cells: GPT-2 of 1.32 G parameters (ours")
   report:line("has 1.56), T5 of one stack")
   report:line("whose attention is as wide as the model (ours 128 heads of 128)")
end

-- ---------------------------------------------------------------------------------------------
-- Footprint.

local function print_footprint()
   report:section("Memory of GPT-2 (1.5 G parameters), 32 sequences of 1024 tokens, GB",
      "HotOS 2021, \"128 GB\"; f16 with Adam's state in f32")
   local n = args.parameters == "paper" and 1.5e9 or count("gpt2-xl")
   local layers, width, length, batch = 48, 1600, 1024, 32
   local rows = {
      { "weights", 3, 2 * n },
      { "gradients", 3, 2 * n },
      { "optimizer and f32 weights", 18, 12 * n },
      { "stashed activations", 60, 2 * 12 * width * batch * length * layers },
      { "buffer of f32 gradients", 6, 4 * n },
   }
   local used = 0
   for _, row in ipairs(rows) do
      used = used + row[3]
      report:row(row[1], row[2], row[3] / 1e9, { format = "%.1f" })
   end
   local total = used / (1 - args.fragmentation)
   local note = {
      format = "%.1f", fitted = args.fragmentation > 0,
      why = "a plan lays memory out and wastes none; their allocator's share is not derived",
   }
   report:row("what nothing can use", 38, (total - used) / 1e9, note)
   report:row("total", 128, total / 1e9, note)
end

-- ---------------------------------------------------------------------------------------------
-- Estimated time of an update.

local GIB = 2 ^ 30
local rates = {
   swap_bytes_per_s = 11.5 * GIB, peer_bytes_per_s = 8.2 * GIB, message_bytes_per_s = 16 * GIB,
   free_s = .04,
}

-- Devices share, how many, backward micro-batch, layers of a pack; seconds serial and with overlap.
local estimates = {
   { "pipeline", 1, 8, 10, 33.662780, 32.669708 }, { "pipeline", 1, 4, 10, 37.272616, 36.273424 },
   { "pipeline", 2, 8, 10, 18.306822, 17.612108 }, { "pipeline", 2, 4, 10, 20.157440, 19.460287 },
   { "pipeline", 4, 8, 10, 11.250854, 10.690707 }, { "pipeline", 4, 4, 10, 12.353933, 11.793786 },
   { "pipeline", 4, 8, 25, 12.255152, 12.192478 }, { "data", 2, 8, 10, 19.822391, 18.432538 },
   { "data", 2, 4, 10, 21.627310, 20.237456 }, { "data", 4, 8, 10, 14.669438, 12.630617 },
   { "data", 4, 4, 10, 15.571897, 13.530356 }, { "data", 4, 8, 25, 13.805623, 12.382188 },
}

local function all_but_last(packs)
   local list = {}
   for i = 1, #packs - 1 do list[i] = packs[i] end
   return list
end

local function estimate(mode, devices, backward_micro, forward_packs, backward_packs, overlap)
   local tasks = ft.swap.compose {
      mode = mode, devices = devices, samples = 32, forward_micro = 8,
      backward_micro = backward_micro, forward_packs = forward_packs,
      backward_packs = backward_packs,
   }
   return ft.swap.estimate(tasks, bert96, rates, overlap).seconds, tasks
end

--- The first n layers packed by `pack`, into 10 GiB of two devices.
local function search(times, bytes, n)
   local problem = {
      node_ns = {}, fixed_bytes = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, swaps = true,
      devices = { { memory_bytes = 10 * GIB }, { memory_bytes = 10 * GIB } },
   }
   for i = 1, n do
      local entering = i > 1 and 8 * bert96.input_bytes[i] or 0
      problem.node_ns[i], problem.fixed_bytes[i] = times[i] * 1e9, bytes[i] - entering
      if i > 1 then
         problem.edge_from[i - 1], problem.edge_to[i - 1] = i - 1, i
         problem.edge_bytes[i - 1] = entering
      end
   end
   return ft.swap.packs_of(ft.partition(problem, { method = "pack" }).stage)
end

local function print_estimates()
   report:section("Seconds of an update: BERT with 96 layers, 32 samples, GTX 1080 Ti",
      "the scheduler of Harmony's code, on its own profile; packs of so many layers")
   for _, row in ipairs(estimates) do
      local packs = ft.swap.constant_packs(100, row[4])
      for i, overlap in ipairs { false, true } do
         local seconds = estimate(row[1], row[2], row[3], all_but_last(packs), packs, overlap)
         report:row(("%s x%d, 8/%d, packs of %d, %s"):format(row[1], row[2], row[3], row[4],
            overlap and "overlap" or "serial"), row[4 + i], seconds, { format = "%.6f" })
      end
   end
   local backward = search(bert96.backward_s[8], bert96.backward_bytes, 100)
   local forward = search(bert96.forward_s[8], bert96.forward_bytes, backward[#backward][1] - 1)
   local three = { format = "%.3f" }
   local seconds, tasks = estimate("pipeline", 2, 8, all_but_last(backward), backward, false)
   report:row("pipeline x2, searched packs", 17.874, seconds, three)
   report:row("data x2, searched packs", 19.421,
      (estimate("data", 2, 8, forward, backward, false)), three)
   for d, mib in ipairs { 10161, 10185 } do
      report:row(("pipeline x2, device %d, MiB"):format(d), mib,
         ft.swap.peak_bytes(tasks, bert96)[d] / 2 ^ 20, { format = "%.1f" })
   end
end

-- ---------------------------------------------------------------------------------------------
-- Executed.

local N, M, R = 2, 8, 24 -- devices, micro-batches, stages
local WARM, STEPS = 2, 10 -- that are not timed, and that are

-- By system: its order of work, and what leaves a device.
local orders = {
   dp = { "data-parallel", "lms" }, ["harmony-dp"] = { "harmony-dp", "task" },
   pp = { "1f1b", "lms" }, ["harmony-pp"] = { "harmony-pp", "task" },
}
local classes = { W = "weights", dW = "gradients", K = "optimizer", X = "activations" }
local why_less = {
   K = "a replica has the optimizer's state of the part of the weights that it updates",
}
-- What passes between stages of a device, through host memory.
local passes = { Y = true, dX = true }

--- What takes the times of a plan: bench/peer.lua, which only the sources have.
local function open_bench()
   local root = arg[0]:match("^(.*)/examples/") or "."
   if not core.sys.exists(root .. "/bench/peer.lua") then
      usage("--run takes times with %s/bench/peer.lua, which is not there: run it in the sources",
         root)
   end
   package.path = root .. "/bench/?.lua;" .. package.path
   return require("peer")
end

local function scaled_bert()
   local dir = os.tmpname()
   os.remove(dir)
   core.sys.mkdir(dir)
   core.sys.write_file(dir .. "/config.json", core.json.encode {
      model_type = "bert", vocab_size = 1000, hidden_size = 128, intermediate_size = 512,
      num_hidden_layers = R, num_attention_heads = 2, max_position_embeddings = 64,
      type_vocab_size = 2,
   })
   local model = ft.model { model = dir, init = "random" }
   os.remove(dir .. "/config.json")
   os.remove(dir)
   return model
end

local function executed_plan(model, schedule, swap, devices)
   return ft.plan {
      model = model, devices = devices or "cpu:" .. N, batch = M, micro_batches = M,
      buckets = { 32 }, partition = "seq", stages = R, schedule = schedule, swap = swap,
      update = "device", recompute = "never", optimizer = "adamw",
      batches = WARM + STEPS, profile = "modelled",
   }
end

--- Bytes of a class that a batch copies, on all devices.
local function copied(plan, class)
   local bytes = 0
   for _, volume in ipairs(plan.volumes) do
      bytes = bytes + volume.bytes_in[class] + volume.bytes_out[class]
   end
   return bytes / plan.options.batches
end

--- How often a batch copies what passes over each boundary between stages, in and out: of values
-- and of their gradients as often.
local function passed(plan)
   local whole = 0
   for bytes in plan:text():gmatch("\nedge [FB]%d+>[FB]%d+ bytes (%d+)") do
      whole = whole + tonumber(bytes)
   end
   return copied(plan, "buffers") / whole
end

local function print_executed(bench)
   report:section(("Executed: BERT of %d layers of width 128, N=%d M=%d R=%d, in sizes of the "
      .. "model"):format(R, N, M, R),
      "HotOS 2021, table \"swap load\"; a step's copies to and from the host")
   local model, lines, least = scaled_bert(), {}, nil
   -- in order, one micro-batch at a time: every class is there once
   local sizes = executed_plan(model, "sequential", "never", "cpu:1").memory[1]
   for _, system in ipairs(slide) do
      local order = orders[system[1]]
      local plan, bytes = executed_plan(model, order[1], order[2]), 0
      for _, row in ipairs(system[3]) do
         local class = classes[row[1]]
         if class then
            report:row(("%s, %s"):format(system[2]:gsub("parallelism", "par."), row[1]),
               row[2](N, M, R), copied(plan, class) / sizes[class],
               { format = "%.2f", why = why_less[row[1]] })
         elseif passes[row[1]] then
            report:row(("%s, %s"):format(system[2]:gsub("parallelism", "par."), row[1]),
               row[2](N, M, R), passed(plan) * (R - 1) / R,
               { format = "%.2f", why = "one boundary less than layers" })
         end
      end
      for _, class in pairs(classes) do bytes = bytes + copied(plan, class) end
      bytes = bytes + copied(plan, "buffers")
      local seconds = bench.step_seconds(plan, STEPS, WARM)
      least = least and math.min(least, seconds) or seconds
      lines[#lines + 1] = { system[2], bytes, seconds, plan }
   end
   for _, line in ipairs(lines) do
      local most = 0
      for _, n in ipairs(line[4]:memory_bytes()) do most = math.max(most, n) end
      report:line(("%-28s %8.1f MB copied, %7.1f ms a step (%.2f of the fastest), %.1f MB held")
         :format(line[1], line[2] / 1e6, 1e3 * line[3], line[3] / least, most / 1e6))
   end
end

local bench = args.run and open_bench()
print_volumes()
if bench then print_executed(bench) end
print_trainings()
print_footprint()
print_estimates()
report:finish()
