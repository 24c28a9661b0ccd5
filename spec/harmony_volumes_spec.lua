--- The table of Harmony's volumes: what four systems move, counted, planned and executed.

local assert_judged = require("spec.support.judged")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local pipeline = require("spec.support.pipeline")
local traffic = require("spec.support.traffic")
local with = require("ftpipe.base.copy")

-- Where stages begin, by how many there are: residuals of one width pass between them.
local CUTS = {
   [2] = { "encoder/block.1/ff" },
   [4] = { "encoder/block.0/ff", "encoder/block.1/ff", "encoder/block.2/ff" },
}

--- By stage, of R: its device, or devices.
local places = {}

function places.everywhere(R, N)
   local all, list = {}, {}
   for d = 1, N do all[d] = d end
   for s = 1, R do list[s] = all end
   return list
end

function places.in_turn(R, N)
   local list = {}
   for s = 1, R do list[s] = (s - 1) % N + 1 end
   return list
end

function places.together(R, N)
   local list = {}
   for s = 1, R do list[s] = math.floor((s - 1) * N / R) + 1 end
   return list
end

-- Of ft.swap.volumes a name and what is written back; --schedule, --swap, and where stages are.
local systems = {
   { "dp", "always", "data-parallel", "lms", "everywhere" },
   { "dp", "dirty", "data-parallel", "clean", "everywhere" },
   { "harmony-dp", "always", "harmony-dp", "task", "everywhere" },
   { "pp", "always", "1f1b", "lms", "together" },
   { "pp", "dirty", "gpipe", "clean", "together" },
   { "harmony-pp", "always", "harmony-pp", "task", "in_turn" },
}

local base = {
   family = "bert", batch = 1, steps = 1, update = "device", longest = true, trace = true,
}

--- A run of R stages, one for each layer, on N devices.
local function train(R, N, M, system)
   local o = with(base, { batch = M, micro_batches = M })
   local cut = pipeline.plan(with(o, { partition = CUTS[R], stages = R })).partition.stage
   local run
   files.in_directory(function(dir)
      local path = dir .. "/plan.txt"
      core.sys.write_file(path, pipeline.partition_text(cut, places[system[5]](R, N), N))
      run = pipeline.train(with(o, {
         partition = path, devices = "cpu:" .. N, schedule = system[3], swap = system[4],
      }))
   end)
   return run
end

--- How often each class is loaded and saved in a plan's text, and values that pass forward, Y, and
-- back, dX, through host memory; actions by letter.
local function moves_of(text)
   local counts, letters, kinds = {}, { L = 0, O = 0, D = 0, S = 0, V = 0 }, {}
   for kind in text:gmatch("\nedge (%u)") do kinds[#kinds + 1] = kind == "F" and "Y" or "dX" end
   for letter, first, last, item in
      text:gmatch(" ([LODSV])%d+%.%d+%.(%d+)%-?(%d*):(%w+)") do
      local n = last == "" and 1 or last - first + 1
      local key = kinds[(tonumber(item) or -1) + 1] or item
      letters[letter] = letters[letter] + n
      if letter ~= "D" then counts[key] = (counts[key] or 0) + n end
   end
   return counts, letters
end

--- Actions that a run has executed, by letter.
local function executed(run)
   local letters = { L = 0, O = 0, D = 0, S = 0, V = 0 }
   for letter in run.timeline.trace:gmatch("\"name\":%s*\"([LODSV]) stage") do
      letters[letter] = letters[letter] + 1
   end
   return letters
end

--- Bytes of the hidden states of a micro-batch, which pass between stages.
local function hidden_bytes(plan)
   local o = plan.options
   return 4 * o.batch / o.micro_batches * o.buckets[#o.buckets] * o.model.raw.hidden_size
end

--- Bytes of all parameters.
local function parameter_bytes(plan)
   local bytes = 0
   for _, param in ipairs(plan.graphs[1]:params()) do
      local count = 4
      for _, n in ipairs(param.dims) do count = count * n end
      bytes = bytes + count
   end
   return bytes
end

--- Bytes of all gradients that a replica with so many micro-batches of a batch has: of an embedding
-- it sends the rows that these may read, with their numbers, where that is less than all.
local function gradient_bytes(plan, micro_batches)
   local o, bytes = plan.options, parameter_bytes(plan)
   local rows = micro_batches * o.batch / o.micro_batches * o.buckets[#o.buckets]
   for _, param in ipairs(plan.graphs[1]:params()) do
      local count, width = param.dims[1], param.dims[2]
      local picked = math.ceil(4 * rows / 64) * 64 + 4 * rows * (width or 0)
      local by_ids = param.name:find("word_embeddings", 1, true)
         or param.name:find("token_type_embeddings", 1, true)
      if by_ids and picked < 4 * count * width then
         bytes = bytes - 4 * count * width + picked
      end
   end
   return bytes
end

describe("Harmony's table of volumes", function()
   for _, system in ipairs(systems) do
      local name, write_back, schedule, swap = unpack(system)
      local parallel = system[5] == "everywhere"
      --- Times that one layer's tensor of each class moves, of all R layers.
      local function counts_of(R, N, M)
         return ft.swap.volumes(name, {
            devices = N, micro_batches = M, layers = R, write_back = write_back,
         })
      end

      local function check(R, N, M, once)
         local run, table_ = train(R, N, M, system), counts_of(R, N, M)
         local one = counts_of(R, 1, 1)
         local moves, letters = moves_of(run.plan:text())
         for class, key in pairs { weights = "W", gradients = "dW", activations = "X" } do
            assert.equal(table_[key], moves[class] or 0, key)
            local model = one[key] > 0 and R * traffic.planned(once, class) / one[key] or 0
            assert.equal(table_[key] * model / R, traffic.planned(run.plan, class), key)
         end
         -- a replica has the optimizer's state of the part of the weights that it updates
         assert.equal(table_.K, moves.optimizer)
         assert.equal(table_.Y, moves.Y or 0)
         assert.equal(table_.dX, moves.dX or 0)
         local hidden = hidden_bytes(run.plan)
         assert.equal((table_.Y + table_.dX) * hidden, traffic.planned(run.plan, "buffers"))
         assert.equal(table_["send Y"] * hidden, traffic.sent(run, "forward"))
         assert.equal(table_["send dX"] * hidden, traffic.sent(run, "backward"))
         -- of replicas what a ring would: gradients, then weights
         local others = parallel and N - 1 or 0
         assert.equal(others * gradient_bytes(run.plan, M / N), traffic.sent(run, "exchange"))
         assert.equal(others * parameter_bytes(run.plan), traffic.sent(run, "update"))
         assert.same(letters, executed(run)) -- what was planned
         traffic.assert_copied(run)
         traffic.assert_sent(run)
         local judge = pipeline.train(with(base, {
            batch = M, micro_batches = M, devices = parallel and "cpu:" .. N or "cpu:1",
            schedule = parallel and "data-parallel" or "sequential", stages = 1,
         }))
         assert_judged(judge, run)
      end

      it(("is executed: %s, --swap %s"):format(schedule, swap), function()
         for R in pairs(CUTS) do
            local once = train(R, 1, 1, system).plan
            for _, N in ipairs { 1, 2, 4 } do
               for _, M in ipairs(parallel and { N, 3 * N } or { 1, 2, 3 }) do
                  if R % N == 0 then check(R, N, M, once) end
               end
            end
         end
      end)
   end
end)

--- Bytes of what passes forward where a forward pack of so many stages ends, and over all
-- boundaries.
local function boundaries(plan, packs)
   local ends, all = 0, 0
   for from, bytes in plan:text():gmatch("\nedge F(%d+)>F%d+ bytes (%d+)") do
      all = all + bytes
      if (tonumber(from) + 1) % packs == 0 then ends = ends + bytes end
   end
   return ends, all
end

describe("Harmony's volumes of packs", function()
   local R = 4

   --- Backward packs are stages, the last of which goes forward and back at once; forward packs are
   -- `packs` of them. Gradients leave for updates in host memory.
   local function check(packs, N, M)
      local o = with(base, { batch = M, micro_batches = M, recompute = "always" })
      local run
      local cut = pipeline.plan(with(o, { partition = CUTS[R], stages = R })).partition.stage
      files.in_directory(function(dir)
         local path = dir .. "/plan.txt"
         core.sys.write_file(path, pipeline.partition_text(cut, places.everywhere(R, N), N))
         run = pipeline.train(with(o, {
            partition = path, devices = "cpu:" .. N, schedule = "harmony-dp", swap = "task",
            update = "host", packs = packs .. "/1",
         }))
      end)
      local moves, letters = moves_of(run.plan:text())
      -- what another replica has updated comes and goes once more: no host memory is shared
      local adopted = N > 1 and 2 * R or 0
      assert.equal(N * (2 * R - 1 + adopted), moves.weights)
      assert.equal(N * R, moves.gradients)
      assert.is_nil(moves.optimizer)
      -- what enters a backward pack leaves and comes back, but for the batch and the last pack
      assert.equal(2 * M * (R - 2), moves.activations)
      local ends, all = boundaries(run.plan, packs)
      assert.equal(2 * M * (ends + all), traffic.planned(run.plan, "buffers"))
      assert.equal(0, traffic.sent(run, "forward"))
      assert.equal(0, traffic.sent(run, "backward"))
      assert.same(letters, executed(run))
      traffic.assert_copied(run)
      traffic.assert_sent(run)
   end

   it("are executed where all devices have all of them", function()
      for _, packs in ipairs { 1, 3 } do
         for _, N in ipairs { 1, 2, 4 } do
            for _, m in ipairs { 1, 3 } do check(packs, N, m * N) end
         end
      end
   end)
end)
