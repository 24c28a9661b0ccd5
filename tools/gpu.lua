--- What a machine with a card is asked to show, in ten minutes:
--
--    ftpipe tools/gpu.lua OUT [--seconds N] [ROW...]
--
-- Run by `./dev gpu` in the program that is tried; what it needs besides is beside that: ftpipe has
-- ftpipe_cards, cards_rows and cards_steps, ftpipe_emu the same of emulated cards. Runs the rows of
-- the table below, each with a limit of its own, for at most N seconds together (nine and a half
-- minutes): first those that check something, side by side as cores and memory of the card allow,
-- then those that take times, in turn, for each of which some seconds are kept. Prints what came of
-- them, and writes it all to OUT/CARD.json: the card, its driver, clocks and versions, what passed
-- and failed, losses on the CPU and on the card, times of steps beside PyTorch's. ROW chooses those
-- that begin with it. Exit code 1 when something failed.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local files = core.sys

local LEAST = 12 -- seconds that are kept for each row to come that takes times
local seconds_of_all, wanted = 570, {}
do
   local i = 2
   while arg[i] do
      if arg[i] == "--seconds" then
         seconds_of_all, i = assert(tonumber(arg[i + 1]), "--seconds N: a number is missing"), i + 1
      else
         wanted[#wanted + 1] = arg[i]
      end
      i = i + 1
   end
end
local start = core.sys.time_ns()
local function left() return seconds_of_all - (core.sys.time_ns() - start) / 1e9 end

local program = core.sys.executable()
local here = program:match("^(.*)/")
local emulates = program:match("[^/]+$") == "ftpipe_emu"
local own = { specs = "ftpipe_cards", rows = "cards_rows", steps = "cards_steps" }
if emulates then
   own = { specs = "ftpipe_emu", rows = "test_cuda_rows", steps = "test_cuda_steps" }
end
local card = emulates and "emu:1" or "cuda:0"
local several = emulates and "emu:%d" or "cuda:0/%dx1GB"
local quoted = argvs.quoted
local tiny -- a directory with a model that emulated cards can take

local CLOCK = "date +%s%N"

--- Begins a command, which is killed after so many seconds: a program and its arguments, since what
-- ends it is told to nobody else. The function that is returned waits for its end and gives what it
-- said, as lines, how it ended, and its seconds.
local function begin(command, limit)
   local pipe = assert(io.popen(("began=$(%s); timeout -k 5 %d %s </dev/null 2>&1; "
      .. "echo \"ended: $? $(( $(%s) - began ))\""):format(CLOCK, math.max(1, math.floor(limit)),
      command, CLOCK)))
   return function()
      local lines, code, ns = {}, nil, 0
      for line in pipe:lines() do
         local ended, took = line:match("^ended: (%d+) (%d+)$")
         if ended then code, ns = tonumber(ended), tonumber(took) else lines[#lines + 1] = line end
      end
      pipe:close()
      return lines, code, ns / 1e9
   end
end

local function run(command, limit) return begin(command, limit)() end

local function beside(name, arguments)
   return quoted(here .. "/" .. name) .. " " .. (arguments or "")
end

-- What the machine is -----------------------------------------------------------------------------

local FACTS = { "name", "driver_version", "vbios_version", "compute_cap", "memory.total",
   "clocks.max.sm", "clocks.max.mem", "clocks.sm", "clocks.mem", "power.limit", "temperature.gpu" }

local function facts()
   local found = { name = "emulated card" }
   if emulates then return found end
   local lines = run(("nvidia-smi -i 0 --query-gpu=%s --format=csv,noheader"):format(
      table.concat(FACTS, ",")), 30)
   local values = {}
   for value in ((lines[1] or "") .. ","):gmatch("%s*(.-),") do values[#values + 1] = value end
   for i, fact in ipairs(FACTS) do found[(fact:gsub("%.", "_"))] = values[i] end
   return found
end

local function peer()
   local python = os.getenv("FTPIPE_PEER_PYTHON")
   if not python then return "FTPIPE_PEER_PYTHON is not set" end
   local lines = run(python .. " -c 'import torch, transformers; print(torch.__version__,"
      .. " torch.version.cuda, transformers.__version__)'", 60)
   return lines[#lines] -- behind what it warns of
end

--- The file of cuBLASLt that programs find; or that there is none.
local function cublas()
   if emulates then return "emulated" end
   local places = (os.getenv("LD_LIBRARY_PATH") or "") .. ":/usr/local/cuda/lib64"
   for place in places:gmatch("[^:]+") do
      for _, name in ipairs(files.exists(place) == "directory" and files.list_dir(place) or {}) do
         if name:find("^libcublasLt%.so") then return place .. "/" .. name end
      end
   end
   local known = run("sh -c \"ldconfig -p | grep -o '/.*libcublasLt[.]so.*'\"", 10)
   return known[1] or "none: products are by a kernel of ours"
end

-- What is run -------------------------------------------------------------------------------------

--- Prepared what others need.
local function prepared(row, lines, code)
   row.helps = true
   if code ~= 0 then row.said = table.concat(lines, "\n", math.max(1, #lines - 20)) end
   return code == 0
end

--- Says what it found, in full.
local function described(row, lines, code)
   row.found = lines
   if code ~= 0 then row.said = table.concat(lines, "\n") end
   row.summary = lines[1]
   return code == 0
end

--- By compute-sanitizer: its own summary.
local function sanitized(row, lines, code)
   for _, line in ipairs(lines) do
      row.summary = line:match("[EHR%w]+ SUMMARY: .*") or row.summary
   end
   if code ~= 0 then row.said = table.concat(lines, "\n", math.max(1, #lines - 60)) end
   return code == 0
end

--- Checks: a closing line "N passed, N failed[, N skipped]".
local function checked(row, lines, code)
   row.passed, row.failed, row.skipped = (lines[#lines] or ""):match(
      "^(%d+) passed, (%d+) failed,? ?(%d*)")
   for _, key in ipairs { "passed", "failed", "skipped" } do row[key] = tonumber(row[key] or "") end
   if code ~= 0 or not row.passed then row.failed = math.max(row.failed or 0, 1) end
   if row.failed > 0 then row.said = table.concat(lines, "\n", math.max(1, #lines - 60)) end
   return row.failed == 0
end

--- A training: its losses and metric, to be compared.
local function trained(row, lines, code)
   for _, line in ipairs(lines) do
      local metric, loss = line:match("^after: accuracy ([%d.]+) %%.* loss ([%d.]+)")
      if metric then row.accuracy, row.loss = tonumber(metric), tonumber(loss) end
   end
   if code ~= 0 or not row.loss then row.said = table.concat(lines, "\n") end
   return code == 0 and row.loss ~= nil
end

--- A line of JSON behind "card ".
local function timed(row, lines, code)
   for _, line in ipairs(lines) do
      local json = line:match("^card (.*)$")
      if json then row.step = core.json.decode(json) end
   end
   if not row.step then row.said = table.concat(lines, "\n") end
   return code == 0 and row.step ~= nil
end


local function step(model, batch, source, target, devices, precision, limit)
   local name = emulates and tiny or model
   if emulates then batch, source, target = 4, 8, 2 end
   return { "step " .. model .. " " .. devices .. " " .. precision, quoted(program)
      .. " bench/card.lua " .. table.concat({ devices, precision, name, batch, source, target },
      " "), limit or 90, timed }
end

local function spec(name, limit)
   return { "spec " .. name, beside(own.specs, ("tools/spec.lua spec/%s_spec.lua"):format(name)),
      limit, checked, beside = true }
end

local function training(devices)
   local flags = ("--devices %s --profile modelled %s"):format(devices,
      emulates and "--steps 2 --eval-limit 4 --batch 8" or "--steps 300")
   return { "train " .. devices, quoted(program) .. " recipes/t5_rte.lua " .. flags, 60, trained,
      beside = true }
end

--- Steps that are timed, of a size that a fine-tuning has.
local function steps()
   return {
      step("bert-large", 24, 384, 4, card, "bf16"), step("gpt2", 4, 1024, 4, card, "bf16"),
      step("t5-3b", 4, 512, 4, card, "bf16", 150), step("gpt2-xl", 4, 1024, 4, card, "bf16", 120),
      step("t5-base", 8, 320, 8, card, "bf16"), step("t5-base", 8, 320, 8, card, "f32"),
      step("t5-base", 8, 320, 8, several:format(2):gsub("1GB", "16GB"), "f32"),
      step("bert-large", 24, 384, 4, card, "f32"), step("gpt2", 4, 1024, 4, card, "f32"),
   }
end

--- What every operator costs on the card, as a profile of it says.
local function profiling(model, batch, source, target)
   local flags = "profile --model %s --devices %s --precision bf16 --batch %d --max-source %d "
      .. "--max-target %d"
   return { "profile " .. model, quoted(program) .. " " .. flags:format(emulates and tiny or model,
      card, emulates and 1 or batch, emulates and 8 or source, emulates and 2 or target), 60,
      described }
end

--- Has PyTorch compile what it will be asked for, beside the checks: its cache has it then.
local function compiling(model, ...)
   local python = os.getenv("FTPIPE_PEER_PYTHON")
   local line = "echo warm | %s bench/peers/step_torch.py %s %s cuda bf16"
   return python and not emulates and { "compile " .. model, "sh -c " .. quoted(line:format(
      python, model, table.concat({ ... }, " "))), 150, prepared, beside = true } or nil
end

--- NVIDIA's compute-sanitizer over a program, or over a part of what it does, where the machine
-- has it.
local function sanitizing(tool, name, part)
   local there = not emulates and run("sh -c 'command -v compute-sanitizer'", 10)[1]
   local command = "compute-sanitizer --tool %s --error-exitcode 9 %s %s"
   part = part or ""
   return there and { (tool .. " " .. name .. " " .. part):gsub(" $", ""),
      command:format(tool, beside(name), part), 150, sanitized, beside = true } or nil
end

local ALL_AT_ONCE_GB = 130 -- memory in which PyTorch compiles all models at once

local function rows(memory_gb)
   local list = {}
   local function add(row) if row then list[#list + 1] = row end end
   local sizes = { { "bert-large", 24, 384, 4 }, { "gpt2", 4, 1024, 4 }, { "t5-base", 8, 320, 8 } }
   if memory_gb >= ALL_AT_ONCE_GB then
      table.insert(sizes, 1, { "t5-3b", 4, 512, 4 })
      table.insert(sizes, 2, { "gpt2-xl", 4, 1024, 4 })
   end
   for _, size in ipairs(sizes) do add(compiling(unpack(size))) end
   add(sanitizing("memcheck", own.rows))
   add(sanitizing("memcheck", own.steps))
   add(sanitizing("racecheck", own.steps))
   for _, part in ipairs { "attention", "linear matmul", "-attention -linear -matmul" } do
      add(sanitizing("racecheck", own.rows, part))
   end
   add { "rows against f64", beside(own.rows), 60, checked, beside = true }
   add { "optimizers against the CPU", beside(own.steps), 60, checked, beside = true }
   add { "pipelines on the card", ("env FTPIPE_CARDS=%s %s tools/spec.lua "
      .. "spec/cards_spec.lua"):format(quoted(several), quoted(program)), 120, checked,
      beside = true }
   add(training("cpu:1"))
   add(training(card))
   add(training(several:format(2)))
   for _, name in ipairs { "golden", "equality", "resume", "replicas", "versions", "harmony",
      "finite", "evaluate" } do
      add(spec(name, 120))
   end
   local keeps = core.sanitized -- a sanitizer, what is freed
   add(not keeps and { "growth over 2,000 steps", ("%s bench/growth.lua %s bf16 %s %d"):format(
      quoted(program), card, emulates and quoted(tiny) or "t5-small", emulates and 20 or 2000), 60,
      described } or nil)
   for _, size in ipairs { { "bert-large", 24, 384, 4 }, { "gpt2", 4, 1024, 4 },
      { "t5-3b", 4, 512, 4 } } do
      add(profiling(unpack(size)))
   end
   for _, row in ipairs(steps()) do add(row) end
   return list
end

--- Those that the arguments name, or all.
local function chosen(memory_gb)
   local list = {}
   for _, row in ipairs(rows(memory_gb)) do
      local named = #wanted == 0
      for _, name in ipairs(wanted) do named = named or row[1]:sub(1, #name) == name end
      if named then list[#list + 1] = row end
   end
   return list
end

--- How many rows are run side by side: by cores, and by what each may take of the card.
local function width(gb)
   local GB_EACH, CORES_EACH = 6, 2
   return math.max(1, math.min(math.floor(core.sys.cores() / CORES_EACH),
      math.floor(gb / GB_EACH)))
end

-- All of it ---------------------------------------------------------------------------------------

local out = arg[1] or "bench/results"
files.mkdir(out) -- now, not when all has been run
local found = { card = facts(), peer = peer(), cublas = cublas(), ftpipe = core.version,
   rows = {} }
print(("%s, driver %s; PyTorch: %s; cuBLASLt: %s"):format(found.card.name,
   found.card.driver_version or "none", found.peer, found.cublas))
if emulates then
   tiny = os.tmpname()
   os.remove(tiny)
   files.mkdir(tiny)
   files.write_file(tiny .. "/config.json", core.json.encode { model_type = "t5", vocab_size = 64,
      d_model = 16, d_kv = 4, d_ff = 32, num_layers = 2, num_heads = 4,
      feed_forward_proj = "relu" })
end

local bad, slow, timed_left = 0, 0, 0
local memory_gb = (tonumber((found.card.memory_total or ""):match("^%d+")) or 0) * 2 ^ 20 / 1e9
local all = chosen(memory_gb)
for _, row in ipairs(all) do timed_left = timed_left + (row.beside and 0 or 1) end

--- Begins a row; what ends it, or nil where there is no time for it.
local function begin_row(row)
   if not row.beside then timed_left = timed_left - 1 end
   if left() < 15 then return nil end
   return begin(row[2], math.min(row[3], left() - 8 - LEAST * timed_left))
end

local function say(name, result)
   local of = result.step
   local function ms(seconds) return seconds and ("%.2f ms"):format(1e3 * seconds) or "absent" end
   local figure = of and ("%s a step, %.1f TFLOP/s; PyTorch eager %s, compiled %s"):format(
      ms(of.seconds), of.flops_per_s / 1e12, ms(of.eager), ms(of.compile))
      or result.loss and ("loss %.4f, accuracy %.1f %%"):format(result.loss, result.accuracy)
      or result.passed and ("%d passed, %d failed"):format(result.passed, result.failed)
      or result.summary or ""
   print(("%-34s %6.1f s  %-20s %s"):format(name, result.seconds or 0, result.state, figure))
   if result.said then print("   " .. result.said:gsub("\n", "\n   ")) end
   io.stdout:flush()
end

--- Waits for a row that was begun, and notes what came of it.
local function end_row(row, finish)
   local command = row[2]:gsub(here:gsub("%p", "%%%0") .. "/", "") -- wherever it was unpacked
   local result = { name = row[1], command = command, state = "not run: no time was left" }
   found.rows[#found.rows + 1] = result
   if finish then
      local lines, code, seconds = finish()
      local good = row[4](result, lines, code)
      local late = code == 124 or code == 137
      result.seconds = seconds
      result.state = good and "good" or late and "ran past its limit" or "bad"
      bad = bad + ((good or result.helps or late and emulates) and 0 or 1)
      slow = slow + (late and 1 or 0)
   end
   say(row[1], result)
end

local begun, at_once = {}, width(memory_gb)
local function end_first()
   local first = table.remove(begun, 1)
   end_row(first.row, first.finish)
end
for _, row in ipairs(all) do
   local alone = not row.beside or begun[1] and not begun[1].row.beside
   while #begun >= (alone and 1 or at_once) do end_first() end
   begun[#begun + 1] = { row = row, finish = begin_row(row) }
end
while #begun > 0 do end_first() end
if tiny then
   os.remove(tiny .. "/config.json")
   os.remove(tiny)
end

local slug = found.card.name:lower():gsub("%W+", "-")
local path = ("%s/%s.json"):format(out, slug)
files.write_file(path, core.json.encode(found, { indent = 2, sort = true }) .. "\n")
print(("%d of %d rows failed, %d ran past their limits; written: %s"):format(bad, #found.rows, slow,
   path))
os.exit(bad == 0 and #found.rows > 0 and 0 or 1, true)
