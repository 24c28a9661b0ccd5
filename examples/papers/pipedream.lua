--- PipeDream's tables beside ours, from its own profiles.
--
--    ftpipe examples/papers/pipedream.lua --profiles DIR
--    ftpipe examples/papers/pipedream.lua --profiles DIR --levels two --faster 2
--
-- DIR holds the graph.txt of the models, as NAME.txt or NAME/graph.txt (profiler/*/profiles of
-- msr-fiddle/pipedream). A model without one is skipped.
--
-- Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019.
-- Published speed-ups are of measured training; ours are what the optimizer's cost model says, over
-- its estimate of data parallelism. The profiles do not say which GPU they are of: --faster S takes
-- GPUs S times as fast, which makes transfers weigh S times as much. Its data parallelism computes
-- and then sums gradients twice over a ring; --overlap does both at once, and sums once.

local ft = require("ftpipe")
local reports = require("report")

local args = ft.args {
   "PipeDream's tables beside ours, from its own profiles.",
   "ftpipe examples/papers/pipedream.lua --profiles profiles",
   profiles = { type = "string", value = "DIR", help = "where NAME.txt or NAME/graph.txt are" },
   levels = { choices = { "flat", "two" }, default = "flat",
      help = "flat: all GPUs on the network of the servers; two: servers and what is inside" },
   faster = { type = "number", default = 1, min = 1e-6, help = "GPUs than those of the profiles" },
   only = { type = "string", default = "", value = "NAME", help = "one model of table 1" },
   free_transfers = { type = "boolean", help = "activations cost nothing" },
   overlap = { type = "boolean", help = "data parallelism sums gradients while it computes them" },
}

local report = reports.new()

-- ---------------------------------------------------------------------------------------------
-- Profiles.

local problems = {}

local function find_profile(name)
   if not args.profiles then return nil, "no --profiles" end
   for _, form in ipairs { "%s/%s.txt", "%s/%s/graph.txt" } do
      local path = form:format(args.profiles, name)
      if ft.sys.exists(path) then return path end
   end
   return nil, ("no %s.txt in %s"):format(name, args.profiles)
end

--- The problem of a profile on levels of machines, { { count, bytes per second }, ... }, innermost
-- first; nil, and why.
local function problem_of(name, levels, faster)
   local path, why = find_profile(name)
   if not path then return nil, why end
   -- placed on one device until the levels are known; the bytes of parameters as they are
   problems[name] = problems[name] or ft.graph(path):problem { devices = { {} }, memory_factor = 1 }
   local problem, n_devices = {}, 1
   for key, value in pairs(problems[name]) do problem[key] = value end
   problem.node_ns, problem.level_devices, problem.level_bytes_per_s = { {} }, {}, {}
   for i, ns in ipairs(problems[name].node_ns[1]) do problem.node_ns[1][i] = ns / faster end
   for i, level in ipairs(levels) do
      problem.level_devices[i], problem.level_bytes_per_s[i] = level[1], level[2]
      n_devices = n_devices * level[1]
   end
   problem.devices = {}
   for d = 1, n_devices do problem.devices[d] = { bytes_per_s = levels[1][2] } end
   return problem
end

-- ---------------------------------------------------------------------------------------------
-- PipeDream's cost model.

--- Time of a minibatch with data parallelism: level by level, compute and the all-reduce.
local function data_parallel_ns(problem, levels, overlap)
   local ns, bytes, inside = 0, 0, 1
   for _, node_ns in ipairs(problem.node_ns[1]) do ns = ns + node_ns end
   for _, fixed in ipairs(problem.fixed_bytes) do bytes = bytes + fixed end
   for _, level in ipairs(levels) do
      local n, bytes_per_s = level[1], level[2]
      local ring = 1e9 * 2 * (n - 1) * bytes / (bytes_per_s * n) / inside
      ns = (overlap and math.max(ns, ring) or ns + 2 * ring) / n
      inside = n
   end
   return ns
end

--- What the optimizer finds. o: faster (1), free_transfers, overlap.
local function solve(name, levels, o)
   local problem, why = problem_of(name, levels, o.faster or 1)
   if not problem then return nil, why end
   local result = ft.partition(problem, {
      method = "pipedream", free_transfers = o.free_transfers or nil,
   })
   return {
      ms = result.objective_ns / 1e6,
      speed_up = data_parallel_ns(problem, levels, o.overlap) / result.objective_ns,
      replicas = result.stage_replicas,
   }
end

--- "15-1", or "straight" when every GPU is a stage of its own.
local function describe(replicas)
   if #replicas == 1 then return ("data parallel on %d"):format(replicas[1]) end
   for _, n in ipairs(replicas) do
      if n > 1 then return table.concat(replicas, "-") end
   end
   return ("straight, %d stages"):format(#replicas)
end

-- ---------------------------------------------------------------------------------------------
-- What its optimizer finds.

-- Profile, and by number of GPUs: slowest stage, ms, and speed-up over data parallelism, at 1 GB/s.
local optimized = {
   { "alexnet", { [4] = { 34.22, 5.98 }, [16] = { 18.87, 3.32 } } },
   { "vgg16", { [4] = { 205.52, 2.84 }, [16] = { 56.53, 3.04 } } },
   { "resnet18", { [4] = { 100.00, 1.00 }, [16] = { 25.69, 1.06 } } },
   { "squeezenet1_0", { [4] = { 74.41, 1.01 }, [16] = { 18.88, 1.01 } } },
   { "resnet50", { [4] = { 162.88, 1.15 }, [16] = { 47.80, 1.08 } } },
   { "resnext50", { [4] = { 201.41, 1.11 }, [16] = { 55.75, 1.08 } } },
   { "resnet101", { [4] = { 116.56, 2.03 }, [16] = { 51.38, 1.31 } } },
   { "resnext101", { [4] = { 154.14, 1.76 }, [16] = { 56.03, 1.36 } } },
   { "densenet121", { [4] = { 89.98, 1.17 }, [16] = { 24.55, 1.14 } } },
   { "gnmt", { [4] = { 25.87, 23.34 }, [16] = { 19.28, 9.71 } } },
   { "gnmt_large", { [4] = { 137.13, 7.02 }, [16] = { 58.97, 4.97 } } },
}

local function print_optimized()
   report:section("Its optimizer: slowest stage in ms, and speed-up over data parallelism, 1 GB/s",
      "what optimizer_graph_hierarchical.py gives for these profiles")
   for _, row in ipairs(optimized) do
      for _, gpus in ipairs { 4, 16 } do
         local name, published = ("%s, %d GPUs"):format(row[1], gpus), row[2][gpus]
         local found, why = solve(row[1], { { gpus, 1e9 } }, {})
         if found then
            report:row(name .. ", ms", published[1], found.ms, { format = "%.2f" })
            report:row(name .. ", speed-up", published[2], found.speed_up, { format = "%.2f" })
         else
            report:skip(name, why)
         end
      end
   end
end

-- ---------------------------------------------------------------------------------------------
-- Table 1.

-- Bandwidths, bytes per second: of the network between servers, and inside of one.
local clusters = {
   A = { name = "V100 on PCIe, 10 Gb/s", network = 1.25e9, inside = 12e9 },
   B = { name = "V100 on NVLink, 25 Gb/s", network = 3.125e9, inside = 30e9 },
   C = { name = "Titan X, 40 Gb/s", network = 5e9, inside = 12e9 },
}

-- Model, profile, servers x GPUs of each, cluster, configuration and speed-up as published.
local table_1 = {
   { "VGG-16", "vgg16", 4, 4, "A", "15-1", 5.28 },
   { "VGG-16", "vgg16", 2, 8, "B", "15-1", 2.98 },
   { "ResNet-50", "resnet50", 4, 4, "A", "data parallel on 16", 1 },
   { "ResNet-50", "resnet50", 2, 8, "B", "data parallel on 16", 1 },
   { "AlexNet", "alexnet", 4, 4, "A", "15-1", 4.92 },
   { "AlexNet", "alexnet", 2, 8, "B", "15-1", 2.04 },
   { "GNMT-16", "gnmt_large", 1, 4, "A", "straight", 1.46 },
   { "GNMT-16", "gnmt_large", 4, 4, "A", "straight", 2.34 },
   { "GNMT-16", "gnmt_large", 2, 8, "B", "straight", 3.14 },
   { "GNMT-8", "gnmt", 1, 4, "A", "straight", 1.50 },
   { "GNMT-8", "gnmt", 3, 4, "A", "straight", 2.95 },
   { "GNMT-8", "gnmt", 2, 8, "B", "data parallel on 16", 1 },
   { "AWD LM", "awd_lm", 1, 4, "A", "straight", 4.25 },
   { "S2VT", "s2vt", 4, 1, "C", "2-1-1", 3.01 },
}

local function levels_of(servers, gpus, cluster)
   local rates = clusters[cluster]
   if servers == 1 then return { { gpus, rates.inside } } end
   if gpus == 1 or args.levels == "flat" then return { { servers * gpus, rates.network } } end
   return { { gpus, rates.inside }, { servers, rates.network } }
end

local WHY_TABLE_1 = "the profiles do not say which GPU and batch they are of, and theirs is "
   .. "measured training, in which data parallelism hides part of its sums; no one rate of GPUs "
   .. "gives all rows"

local function print_row(row)
   local levels = levels_of(row[3], row[4], row[5])
   local name = ("%s, %dx%d %s"):format(row[1], row[3], row[4], row[5])
   if #levels > 1 and row[2] == "gnmt_large" then
      report:skip(name, "its 1495 states on two levels take half a minute")
      return
   end
   local found, why = solve(row[2], levels, args)
   if not found then
      report:skip(name, why)
      return
   end
   report:row(name .. ", speed-up", row[7], found.speed_up,
      { format = "%.2f", why = WHY_TABLE_1 })
   report:line("   replicas of stages: published %s; ours %s", row[6], describe(found.replicas))
end

local function print_table_1()
   report:section(("Speed-up over data parallelism (--levels %s, --faster %g)"):format(args.levels,
      args.faster), "SOSP 2019, table 1")
   for _, key in ipairs { "A", "B", "C" } do
      report:line("cluster %s: %s", key, clusters[key].name)
   end
   for _, row in ipairs(table_1) do
      if args.only == "" or args.only == row[1] then print_row(row) end
   end
end

if args.only == "" then print_optimized() end
print_table_1()
report:finish()
