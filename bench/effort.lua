--- How far `mixed` by default stays behind itself with a larger effort, on graphs that are recorded
-- nowhere: models of other depths, random layered graphs, devices from 2 to 8, memory tight or not.
--
--    ftpipe bench/effort.lua [TIMES [NAME]]      4, all
--
-- TIMES is the factor of the larger effort; NAME picks the cases that have it in theirs. Work is
-- counted in steps, so that results are the same on all machines.

local ft = require("ftpipe")

local TIMES = tonumber(arg[1]) or 4
local NAME = arg[2] or ""
local STEPS_A_NODE, MOST_STEPS = 2000000, 3e8 -- as problem/problem.h says

-- ---------------------------------------------------------------------------------------------
-- Graphs.

local CONFIGS = {
   bert = '{"model_type":"bert","vocab_size":30522,"hidden_size":%d,"num_hidden_layers":%d,'
      .. '"num_attention_heads":%d,"intermediate_size":%d,"max_position_embeddings":512}',
   gpt2 = '{"model_type":"gpt2","vocab_size":50257,"n_embd":%d,"n_layer":%d,"n_head":%d,'
      .. '"n_inner":%d,"n_positions":1024}',
   t5 = '{"model_type":"t5","vocab_size":32128,"d_model":%d,"num_layers":%d,"num_heads":%d,'
      .. '"d_ff":%d,"d_kv":64,"num_decoder_layers":%d,"feed_forward_proj":"relu"}',
}

--- A directory with the configuration of a model of that size.
local function config(family, width, layers, decoder_layers)
   local dir = os.tmpname()
   os.remove(dir)
   assert(os.execute("mkdir " .. dir) == 0)
   local file = assert(io.open(dir .. "/config.json", "w"))
   file:write(CONFIGS[family]:format(width, layers, width / 64, 4 * width, decoder_layers))
   file:close()
   return dir
end

--- A problem of a model, on n cards; memory is so many times what a
-- device's share or the largest node takes, nil: no limit.
local function of_model(family, width, layers, decoder_layers, shape)
   return function(n, memory)
      local devices = ("sim:%dx2080ti"):format(n)
      local dir = config(family, width, layers, decoder_layers)
      local graph = ft.graph(dir, { devices = devices, batch = shape.batch,
         source = shape.source, target = 8 })
      os.execute("rm -r " .. dir)
      local problem = graph:problem { devices = devices, recompute = shape.recompute,
         memory_factor = 4, in_flight = shape.in_flight, micro_batches = shape.in_flight }
      local bytes, largest = 0, 0
      for i, fixed in ipairs(problem.fixed_bytes) do
         local own = fixed + (problem.saved_bytes and problem.saved_bytes[i] or 0)
         bytes, largest = bytes + own, math.max(largest, own)
      end
      for _, device in ipairs(problem.devices) do
         device.memory_bytes = memory and math.ceil(memory * math.max(bytes / n, largest)) or 0
      end
      return problem
   end
end

--- Layers of so many nodes, edges from each to some of the layer before it and now and then one
-- further back; forward alone or with the gradients' bytes.
local function layered(seed, n_layers, width, training)
   return function(n, memory)
      local state = seed * 7919 % 2147483647
      local function draw(most)
         state = state * 16807 % 2147483647
         return state % most + 1
      end
      local p = {
         node_ns = {}, edge_from = {}, edge_to = {}, edge_bytes = {}, edge_grad_bytes = {},
         fixed_bytes = {}, devices = {},
      }
      local layers, total, bytes = { [0] = {} }, 0, {}
      local function edge(from, to)
         local e = #p.edge_from + 1
         p.edge_from[e], p.edge_to[e] = from, to
         p.edge_bytes[e] = bytes[from]
         p.edge_grad_bytes[e] = training and bytes[from] or 0
      end
      for l = 1, n_layers do
         layers[l] = {}
         for _ = 1, draw(width) do
            local i = #p.node_ns + 1
            p.node_ns[i] = 1e4 * 2 ^ (draw(60) / 10)
            p.fixed_bytes[i] = 1e5 * draw(100)
            bytes[i] = 2 ^ (9 + draw(12))
            total = total + p.fixed_bytes[i]
            layers[l][#layers[l] + 1] = i
            local before = layers[l - 1]
            for _ = 1, math.min(draw(3), #before) do edge(before[draw(#before)], i) end
            if l > 4 and draw(6) == 1 then edge(layers[l - 3][draw(#layers[l - 3])], i) end
         end
      end
      for d = 1, n do
         p.devices[d] = { kind = 1, slowdown = 1, bytes_per_s = 1e9 * 8,
            memory_bytes = memory and math.ceil(memory * total / n) or 0 }
      end
      return p
   end
end

local LONG = { batch = 4, source = 512, recompute = "but-last", in_flight = 4 }
local SHORT = { batch = 8, source = 64, recompute = "never", in_flight = 1 }

-- Name, graph, devices, memory.
local CASES = {
   { "bert-6", of_model("bert", 768, 6, 0, SHORT), 4 },
   { "bert-6 long", of_model("bert", 768, 6, 0, LONG), 3 },
   { "bert-6 tight", of_model("bert", 768, 6, 0, SHORT), 4, 1.2 },
   { "bert-12", of_model("bert", 768, 12, 0, SHORT), 8 },
   { "bert-12 tight", of_model("bert", 1024, 12, 0, LONG), 6, 1.15 },
   { "gpt2-3", of_model("gpt2", 768, 3, 0, SHORT), 2 },
   { "gpt2-5", of_model("gpt2", 512, 5, 0, LONG), 4 },
   { "gpt2-9", of_model("gpt2", 768, 9, 0, SHORT), 7 },
   { "gpt2-16 tight", of_model("gpt2", 1024, 16, 0, SHORT), 8, 1.2 },
   { "t5 2:6", of_model("t5", 512, 2, 6, SHORT), 4 },
   { "t5 6:2", of_model("t5", 512, 6, 2, LONG), 5 },
   { "t5 8:3 tight", of_model("t5", 768, 8, 3, SHORT), 6, 1.2 },
   { "layers 10x4", layered(1, 10, 4, false), 2 },
   { "layers 20x5", layered(2, 20, 5, true), 4 },
   { "layers 20x5 tight", layered(3, 20, 5, true), 4, 1.1 },
   { "layers 40x6", layered(4, 40, 6, false), 6 },
   { "layers 40x6 training", layered(5, 40, 6, true), 6 },
   { "layers 60x8", layered(6, 60, 8, true), 8 },
   { "layers 60x8 tight", layered(7, 60, 8, false), 8, 1.1 },
}

-- ---------------------------------------------------------------------------------------------
-- Efforts.

local function solve(problem, cost, effort)
   local start = os.clock()
   local result = ft.partition(problem, { method = "mixed", cost = cost, effort = effort })
   return result, os.clock() - start
end

print(("%-28s %7s %6s %8s %12s %12s %8s %7s"):format("case", "devices", "nodes", "cost",
   "default ms", TIMES .. " times", "above", "s"))
local worst = 0
for _, case in ipairs(CASES) do
   local name, make, n, memory = case[1], case[2], case[3], case[4]
   if name:find(NAME, 1, true) then
      local problem = make(n, memory)
      local nodes = type(problem.node_ns[1]) == "table" and #problem.node_ns[1] or #problem.node_ns
      for _, cost in ipairs { "overlap", "sum" } do
         local usual, seconds = solve(problem, cost)
         local most = solve(problem, cost, TIMES * math.min(STEPS_A_NODE * nodes, MOST_STEPS) / 1e6)
         local above = usual.objective_ns / most.objective_ns - 1
         worst = math.max(worst, above)
         print(("%-28s %7d %6d %8s %12.4f %12.4f %7.2f%% %7.2f"):format(name, n, nodes, cost,
            usual.objective_ns / 1e6, most.objective_ns / 1e6, 100 * above, seconds))
         io.stdout:flush()
      end
   end
end
print(("gate effort-worst %.5f"):format(worst))
