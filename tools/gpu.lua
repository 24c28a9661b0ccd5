--- What a machine with a card is asked to show, in ten minutes: ftpipe tools/gpu.lua OUT [ROW...]
--
-- Run by `./dev gpu` in the program that is tried; what it needs besides is beside that: ftpipe has
-- ftpipe_cards, cards_rows and cards_steps, ftpipe_emu the same of emulated cards. Runs the rows of
-- the table below in turn, each with a limit of its own, for at most nine and a half minutes
-- together, of which each row has some seconds left. Prints what came of them, and writes it all to
-- OUT/CARD.json: the card, its driver, clocks and versions, what passed and failed, losses on the
-- CPU and on the card, times of steps beside PyTorch's. ROW chooses those that begin with it. Exit
-- code 1 when something failed.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local files = core.sys

local ALL, LEAST = 570, 12 -- seconds: of all rows; that are kept for each one to come
local start = core.sys.time_ns()
local function left() return ALL - (core.sys.time_ns() - start) / 1e9 end

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

--- What a command says, as lines, and how it ended; killed after so many seconds. The command is a
-- program and its arguments: what ends it is told to nobody else.
local function run(command, limit)
   local pipe = assert(io.popen(("timeout -k 5 %d %s </dev/null 2>&1; echo \"ended: $?\""):format(
      math.max(1, math.floor(limit)), command)))
   local lines, code = {}, nil
   for line in pipe:lines() do
      code = tonumber(line:match("^ended: (%d+)$")) or code
      if not line:find("^ended: ") then lines[#lines + 1] = line end
   end
   pipe:close()
   return lines, code
end

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

local tiny -- a directory with a model that emulated cards can take

local function step(model, batch, source, target, devices, precision, limit)
   local name = emulates and tiny or model
   if emulates then batch, source, target = 4, 8, 2 end
   return { "step " .. model .. " " .. devices .. " " .. precision, program .. " bench/card.lua "
      .. table.concat({ devices, precision, name, batch, source, target }, " "), limit or 90,
      timed }
end

local function spec(name, limit)
   return { "spec " .. name, beside(own.specs, ("tools/spec.lua spec/%s_spec.lua"):format(name)),
      limit, checked }
end

local function training(devices)
   local flags = ("--devices %s --profile modelled %s"):format(devices,
      emulates and "--steps 2 --eval-limit 4 --batch 8" or "--steps 300")
   return { "train " .. devices, quoted(program) .. " recipes/t5_rte.lua " .. flags, 60, trained }
end

local function rows()
   return {
      { "rows against f64", beside(own.rows), 60, checked },
      { "optimizers against the CPU", beside(own.steps), 60, checked },
      { "pipelines on the card", ("env FTPIPE_CARDS=%s %s tools/spec.lua "
         .. "spec/cards_spec.lua"):format(quoted(several), quoted(program)), 120, checked },
      training("cpu:1"), training(card), training(several:format(2)),
      spec("golden", 90),
      step("t5-base", 8, 320, 8, card, "bf16"), step("t5-base", 8, 320, 8, card, "f32"),
      step("bert-large", 24, 384, 4, card, "bf16"), step("gpt2", 4, 1024, 4, card, "bf16"),
      step("t5-3b", 4, 512, 4, card, "bf16", 150), -- 2.85 billion weights are drawn first
      step("t5-base", 8, 320, 8, several:format(2):gsub("1GB", "16GB"), "f32"),
      spec("equality", 90), spec("resume", 90), spec("replicas", 90), spec("versions", 90),
      spec("harmony", 90), spec("finite", 90), spec("evaluate", 60),
      step("bert-large", 24, 384, 4, card, "f32"), step("gpt2", 4, 1024, 4, card, "f32"),
   }
end

--- Those that the arguments name, or all.
local function chosen()
   local list = {}
   for _, row in ipairs(rows()) do
      local wanted = #arg < 2
      for i = 2, #arg do wanted = wanted or row[1]:sub(1, #arg[i]) == arg[i] end
      if wanted then list[#list + 1] = row end
   end
   return list
end

-- All of it ---------------------------------------------------------------------------------------

local out = arg[1] or "bench/results"
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

local bad, slow = 0, 0
local all = chosen()
for i, row in ipairs(all) do
   local name, command, limit, judge = unpack(row)
   local result = { name = name, command = command }
   found.rows[#found.rows + 1] = result
   if left() < 15 then
      result.state = "not run: no time was left"
   else
      local began = core.sys.time_ns()
      local lines, code = run(command, math.min(limit, left() - 8 - LEAST * (#all - i)))
      result.seconds = (core.sys.time_ns() - began) / 1e9
      local good = judge(result, lines, code)
      local late = code == 124 or code == 137
      result.state = good and "good" or late and "ran past its limit" or "bad"
      bad = bad + ((good or late and emulates) and 0 or 1)
      slow = slow + (late and 1 or 0)
   end
   local figure = result.step and ("%.2f ms a step; PyTorch eager %s, compiled %s"):format(
      1e3 * result.step.seconds, result.step.eager and ("%.2f ms"):format(1e3 * result.step.eager)
      or "absent", result.step.compile and ("%.2f ms"):format(1e3 * result.step.compile)
      or "absent") or result.loss and ("loss %.4f, accuracy %.1f %%"):format(result.loss,
      result.accuracy) or result.passed and ("%d passed, %d failed"):format(result.passed,
      result.failed) or ""
   print(("%-34s %6.1f s  %-20s %s"):format(name, result.seconds or 0, result.state, figure))
   if result.said then print("   " .. result.said:gsub("\n", "\n   ")) end
   io.stdout:flush()
end
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
