--- Where evaluation is cut: through the stages of training where it runs beside it, by itself where
-- there is no training.
--
-- Nodes that use no parameter and give at most half of the bytes that they get, all from one place,
-- stay with what they get: the loss and the likeliest token with the logits, which are never sent.

local contract = require("ftpipe.graph.contract")
local copy = require("ftpipe.base.copy")
local graphs = require("ftpipe.graph")
local placement = require("ftpipe.placement")
local partitions = require("ftpipe.plan.partition")

local M = {}

-- What an operator of training is in a graph without dropout.
local without_dropout = { dropout_add = "add" }

-- What training does not have: it goes with the node before it, the loss.
local added = { argmax = true }

--- Whether training has no such node.
function M.is_added(op) return added[op] ~= nil end

--- Numbers nodes by scope and operator: name(n) is the same in both graphs.
local function namer(graph)
   local seen = {}
   return function(n)
      local node = graph:node(n)
      local key = node.scope .. " " .. (without_dropout[node.op] or node.op)
      seen[key] = (seen[key] or 0) + 1
      return key .. " " .. seen[key]
   end
end

--- Stages of an evaluation graph's nodes: those that the same nodes have in training.
local function trained_stages(training, stage, graph)
   local known, result = {}, {}
   local name = namer(training)
   for n = 1, training:counts().forward do known[name(n)] = stage[n] end
   name = namer(graph)
   for n = 1, graph:counts().forward do
      local key = name(n)
      result[n] = known[key] or added[graph:node(n).op] and result[n - 1]
         or error("evaluation has a node that training has not: " .. key)
   end
   return result
end

--- The group that everything a node reads comes from, and the bytes of it; nil when there are
-- several, or none.
local function origin(edges, leader)
   local group, bytes = nil, 0
   for _, edge in ipairs(edges) do
      if group and leader[edge.from] ~= group then return nil end
      group, bytes = leader[edge.from], bytes + edge.bytes
   end
   return group, bytes
end

--- By forward node, the first node of those that it stays with.
function M.leaders(graph)
   local weights, into, leader = graph:weights(), {}, {}
   for n = 1, graph:counts().forward do into[n] = {} end
   for e, to in ipairs(weights.edge_to) do
      table.insert(into[to], { from = weights.edge_from[e], bytes = weights.edge_bytes[e] })
   end
   for n, edges in ipairs(into) do
      local group, bytes = origin(edges, leader)
      local stays = group and #graph:node(n).params == 0 and 2 * weights.output_bytes[n] <= bytes
      leader[n] = stays and group or n
   end
   return leader
end

--- Stages of an evaluation graph's nodes beside training.
-- @tparam graph training
-- @tparam {int,...} stage by forward node of training
-- @tparam graph graph of ftpipe.data.evaluate, of the same model
function M.stages(training, stage, graph)
   local result = trained_stages(training, stage, graph)
   for n, first in ipairs(M.leaders(graph)) do result[n] = result[first] end
   return result
end

-- Bytes that evaluation keeps for a byte of parameters: the weight, and what is packed of it.
local MEMORY_FACTOR = 2

--- Stages of evaluation alone.
-- @tparam table o options of a plan
-- @tparam table drawn graphs by bucket, of training, and as `evaluation`
-- @treturn table stage = by node of evaluation, device = by stage or nil (in turn), name
function M.partition(o, drawn)
   local training, graph = drawn[#drawn], drawn.evaluation[#drawn]
   if partitions.has_places(o) then
      local spread, stage = partitions.of(graph, o), {}
      for n, first in ipairs(M.leaders(graph)) do stage[n] = spread.stage[first] end
      return copy(spread, { stage = stage })
   end
   if not placement.is(o.partition) then
      local given = partitions.of(training, o)
      return copy(given, { stage = M.stages(training, given.stage, graph) })
   end
   local small, of = contract.by_number(graphs.of(graph, o.devices, o.costs), M.leaders(graph))
   local solved = placement.solve(small, o.partition, copy(o, {
      memory_factor = MEMORY_FACTOR, placements = {}, -- those are of training
   }))
   local stage = {}
   for n, group in ipairs(of) do stage[n] = solved.stage[group] end
   return copy(solved, { stage = stage })
end

return M
