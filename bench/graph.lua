--- Graphs of published models from a configuration alone, in operators: how long they take to build,
-- with gradients, and to weigh, and what files of graphs take to read.
--
--    ftpipe bench/graph.lua
--
-- Times are CPU times, the least of five. There is no peer that builds such graphs; what is held
-- against something is the time of a node, against that of the smallest graph, which shows growth.

local graphs = require("ftpipe.graph")
local models = require("ftpipe.model")

local ROWS = {
   { "t5-small", { batch = 1, source = 512, target = 4 } },
   { "t5-3b", { batch = 1, source = 512, target = 4 } },
   { "t5-11b", { batch = 1, source = 512, target = 4 } },
   { "bert-large", { batch = 1, source = 512 } },
   { "gpt2-xl", { batch = 1, source = 1024 } },
   { "gpt3-175b", { batch = 1, source = 2048 } },
}

--- Least seconds of five, and the last result.
local function least(body)
   local best, result = math.huge, nil
   for _ = 1, 5 do
      collectgarbage()
      local start = os.clock()
      result = body()
      best = math.min(best, os.clock() - start)
   end
   return best, result
end

local first
for _, row in ipairs(ROWS) do
   local model = models.open { model = row[1], init = "random" }
   local built, graph = least(function() return model.family.training(model.config, row[2]) end)
   local weighed, weighted = least(function() return graphs.of(graph, "sim:8x2080ti") end)
   local text = weighted:format("txt")
   local read = least(function() return graphs.read(text, "text") end)
   local nodes = graph:counts().nodes
   local each = (built + weighed) / nodes
   first = first or each
   print(("%-11s %6d nodes: built %5.1f ms, weighed %5.1f ms, %7.0f nodes/s (a node %.2f x that of "
      .. "%s); %d kB of text read in %5.1f ms"):format(row[1], nodes, built * 1e3, weighed * 1e3,
      1 / each, each / first, ROWS[1][1], #text / 1e3, read * 1e3))
end
