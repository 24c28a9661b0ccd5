--- What is done with any text as a graph file: it is refused in one line, or it is a graph that
-- comes back from every form, is drawn, and is taken by a partitioner.

local graphs = require("ftpipe.graph")
local partition = require("ftpipe.placement.partition")

local check_refusal = dofile("test/fuzz/refusal.lua")

-- A partitioner's turn comes for graphs up to this size.
local MOST_NODES = 24

local function check_partition(graph)
   local devices = graph.devices or { { memory_bytes = 1e9, bytes_per_s = 1e9 }, {} }
   local ok, result = pcall(function()
      return partition(graph:problem { devices = devices, micro_batches = 2 },
         { method = "seq", max_down_sets = 1000 })
   end)
   if not ok then check_refusal(result, "invalid argument", "plan infeasible") end
end

--- Takes a text; raises for what may not be.
return function(text)
   local ok, graph = pcall(graphs.read, text, "file")
   if not ok then
      check_refusal(graph, "malformed data")
      return
   end
   local plain = graph:format("txt")
   for _, form in ipairs { "txt", "json", "graphml" } do
      local again = graphs.read(graph:format(form), form)
      if again:format("txt") ~= plain then error(form .. ": another graph comes back", 0) end
   end
   graph:format("dot")
   graph:format("svg")
   if #graph.nodes <= MOST_NODES and #(graph.devices or {}) <= 4 then check_partition(graph) end
end
