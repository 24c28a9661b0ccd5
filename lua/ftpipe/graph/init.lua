--- Weighted graphs: models and profiles of other systems as one thing.
--
--    local g = ft.graph("t5-3b", { devices = "sim:8x2080ti", batch = 4, source = 512, target = 4 })
--    local h = ft.graph("gnmt.txt")         -- PipeDream, device placement, GraphML, or our own
--    print(g)
--    local result = ft.partition(g:problem { devices = "sim:8x2080ti" }, { method = "mixed" })
--    g:save("t5.svg", { result = result })  -- .graph .txt .json .graphml .dot .svg
--
-- Nodes are rows { id =, name =, op =, scope =, forward_ns =, backward_ns =, ns2 .. ns4 (both, on
-- devices of kind 2 to 4), update1 .. update4 (by kind: ns of a batch, not of a micro-batch),
-- parameter_bytes =, frozen_bytes = (of these, what is not trained), saved_bytes = (for the
-- backward), output_bytes =, flops =, tie =, backward =, kind2_only = }; edges { from =, to =
-- (numbers of nodes), bytes =, grad_bytes =, value = }. doc/partitions.md says what each of them
-- means, and how a file has them (ftpipe help partitions).

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local builder = require("ftpipe.graph.builder")
local class = require("ftpipe.base.class")
local contract = require("ftpipe.graph.contract")
local draw = require("ftpipe.graph.draw")
local graphml = require("ftpipe.graph.graphml")
local html = require("ftpipe.page.html")
local json_form = require("ftpipe.graph.json")
local pipedream = require("ftpipe.graph.pipedream")
local placement = require("ftpipe.graph.placement")
local recompute = require("ftpipe.graph.recompute")
local records = require("ftpipe.text.records")
local text_form = require("ftpipe.graph.text")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")
local words = require("ftpipe.base.words")

local M = {}
local Graph = {}
Graph.__index = Graph
Graph.__name = "graph"

-- ---------------------------------------------------------------------------------------------
-- Files.

local function read_json(text, path, options)
   local root = builder.object(core.json.decode(text, path), path)
   for _, form in ipairs { placement, json_form } do
      if form.is(root) then return form.read(root, path, options) end
   end
   builder.malformed("%s: the JSON is no graph that is known here: device placement has a key "
      .. "\"maxFPGAs\", ftpipe's own files have \"format\": \"" .. json_form.format .. "\"", path)
end

-- How files of ftpipe begin that are no graphs, and what they are.
local OTHERS = {
   { "^ftpipe%-plan ", "plan", "the stages and orders of a model" },
   { "^ftpipe profile ", "profile", "what the work of a model costs" },
}

local function refuse_others(text, path)
   for _, row in ipairs(OTHERS) do
      if text:find(row[1]) then
         builder.malformed("%s is no graph but a %s, %s: the option '%s' takes it, of ftpipe plan "
            .. "MODEL, of ft.plan and of recipes", path, row[2], row[3], row[2])
      end
   end
end

--- Reads a graph from a text: our own, JSON and GraphML, PipeDream's profiles, device-placement
-- JSON.
-- @tparam string text
-- @tparam string path for messages
-- @tparam[opt] table options transfer_scale, of device placement
-- @treturn graph .path
-- @raise malformed data — with file, line or row, and the culprit
function M.read(text, path, options)
   text = records.unmarked(text)
   refuse_others(text, path)
   local read = text_form.is(text) and text_form.read or text:find("^%s*[%[{]") and read_json
      or graphml.is(text) and graphml.read or pipedream.read
   local parts = read(text, path, options)
   parts.path, parts.title = path, path
   return setmetatable(parts, Graph)
end

--- Reads a graph from a file.
function M.load(path, options) return M.read(core.sys.read_file(path), path, options) end

-- Ending of a file, and what is written there.
local writers = {
   txt = function(graph) return text_form.write(graph) end,
   json = function(graph, o) return json_form.write(graph, o.result) end,
   graphml = function(graph, o) return graphml.write(graph, o.result) end,
   dot = function(graph, o) return draw.dot(graph, o) end,
   svg = function(graph, o) return draw.svg(graph, o) end,
}
writers.graph = writers.txt

--- The graph in a form: "txt", "json", "graphml", "dot" or "svg".
-- @tparam string form also "graph", which is "txt"
-- @tparam[opt] table o result (of ft.partition); in pictures names (of its devices), depth (of
--   scopes; 2)
function Graph:format(form, o)
   if not writers[form] then
      usage("graph: there is no form '%s', expected one of: dot, graph, graphml, json, svg, "
         .. "txt", form)
   end
   o = o or {}
   if o.result and #o.result.device ~= #self.nodes then
      usage("graph: the result is of a graph of %s, this one has %d",
         counted(#o.result.device, "node"), #self.nodes)
   end
   return writers[form](self, o)
end

--- Writes a file; its ending says the form.
function Graph:save(path, o)
   core.sys.write_file(path, self:format(path:match("%.(%w+)$") or "", o))
   return self
end

-- ---------------------------------------------------------------------------------------------
-- Graphs of operators with modelled times.

local MOST_KINDS = 4

--- Devices of one speed are of one kind. Gives, by kind, the number of one of its devices, and by
-- device its kind and how much slower it is: what is left of more kinds than there may be (`most`)
-- is priced as the first, at the ratio of their rates.
local function kinds_of(devices, most)
   local kinds, by_speed, of_device = {}, {}, {}
   for d, device in ipairs(devices) do
      local speed = device.flops_per_s .. " " .. device.bytes_per_s
      if not by_speed[speed] and #kinds < (most or MOST_KINDS) then
         kinds[#kinds + 1] = d
         by_speed[speed] = #kinds
      end
      of_device[d] = {
         kind = by_speed[speed] or 1,
         slowdown = by_speed[speed] and 1 or devices[1].flops_per_s / device.flops_per_s,
      }
   end
   return kinds, of_device
end

--- Forward and backward times by forward node, from those of all nodes and, by backward node, the
-- number of the one that it belongs to.
local function times_of(node_ns, origins)
   local forward, backward, n_forward = {}, {}, #node_ns - #origins
   for i = 1, n_forward do forward[i], backward[i] = node_ns[i], 0 end
   for i, origin in ipairs(origins) do
      backward[origin] = backward[origin] + node_ns[n_forward + i]
   end
   return forward, backward
end

--- Nodes and edges, of a graph's weights.
local function rows_of(weights)
   local nodes, edges = {}, {}
   for i, op in ipairs(weights.op) do
      local scope, frozen = weights.scope[i], weights.frozen_bytes[i]
      nodes[i] = {
         id = ("%d:%s"):format(i, op), op = op, scope = scope ~= "" and scope or nil,
         parameter_bytes = weights.parameter_bytes[i], saved_bytes = weights.saved_bytes[i],
         output_bytes = weights.output_bytes[i], flops = weights.flops[i],
         frozen_bytes = frozen > 0 and frozen or nil,
      }
   end
   for e, from in ipairs(weights.edge_from) do
      edges[e] = {
         from = from, to = weights.edge_to[e], bytes = weights.edge_bytes[e],
         grad_bytes = weights.edge_grad_bytes[e], value = weights.edge_value[e],
      }
   end
   return nodes, edges
end

--- The weights of a graph of operators.
-- @tparam graph graph of ft.model families
-- @tparam string devices whose times are modelled
-- @tparam[opt] table costs of a profile: times on devices of the first kind
-- @treturn graph .operators: the given one
-- @local
function M.of(graph, devices, costs)
   local weights = graph:weights()
   local nodes, edges = rows_of(weights)
   local kinds = kinds_of(core.engine.devices(devices))
   for k, device in ipairs(kinds) do
      local measured = k == 1 and costs or nil
      local node_ns = measured and measured.node_ns or graph:times(devices, device)
      local forward, backward = times_of(node_ns, weights.origin)
      local update = graph:update_times(devices, device, measured)
      local both_ns, update_ns = "ns" .. k, "update" .. k
      for i, node in ipairs(nodes) do
         node[update_ns] = update[i]
         if k == 1 then
            node.forward_ns, node.backward_ns = forward[i], backward[i]
         else
            node[both_ns] = forward[i] + backward[i]
         end
      end
   end
   return setmetatable({
      nodes = nodes, edges = edges, operators = graph, title = tostring(graph),
   }, Graph)
end

local FROM = {
   devices = { type = "string|table", default = "cpu" },
   batch = { type = "int", default = 8, min = 1 },
   source = { type = "int", default = 128, min = 1 },
   target = { type = "int", default = 8, min = 1 },
   dropout = { type = "number|table" }, transfer_scale = { type = "number" },
}

--- A graph of a model, a file, or a graph of operators.
-- @param what a path, a built-in configuration, the directory of a model, a model, or a graph
-- @tparam[opt] table o devices ("cpu"), batch (8), source (128), target (8): of the micro-batch
-- @treturn graph
function M.from(what, o)
   o = opts.check("ft.graph", FROM, o)
   local devices = o.devices
   if class.of(what) == "ftpipe.graph" then return M.of(what, devices) end
   if type(what) ~= "string" and not (type(what) == "table" and what.family) then
      usage('ft.graph: expected a file, a model, its name or directory, as "t5-small", got %s',
         class.told(what))
   end
   if type(what) == "string" then
      if core.sys.exists(what) == "file" then return M.load(what, o) end
      what = require("ftpipe.model") { model = what }
   end
   local size = {
      batch = o.batch, source = o.source, target = o.target, dropout = o.dropout,
   }
   local graph = M.of(what.family.training(what.config, size), devices)
   graph.title = ("%s, micro-batches of %d x %d"):format(what.name, size.batch, size.source)
   return graph
end

-- ---------------------------------------------------------------------------------------------
-- Problems.

--- Kinds of devices that nodes have times for; 1: what they take is said of one kind alone, which
-- all devices are then.
local function kinds_in(self)
   if self.operators then return MOST_KINDS end
   for k = MOST_KINDS, 2, -1 do
      for _, node in ipairs(self.nodes) do
         if node["ns" .. k] or node["update" .. k] or k == 2 and node.kind2_only then return k end
      end
   end
   return 1
end

local function device_rows(self, o)
   local given = o.devices or self.devices
   if not given then usage("graph:problem needs devices; the file has none") end
   local is_cluster = type(given) == "table" and type(given[1]) == "table" and given[1].flops_per_s
   if type(given) == "table" and not is_cluster then
      for d, row in ipairs(given) do
         if type(row) ~= "table" then
            usage("graph:problem: devices[%d] is %s, expected a table", d, class.told(row))
         end
      end
      return given
   end
   local devices = core.engine.devices(given)
   local most, rows = kinds_in(self), {}
   local _, kinds = kinds_of(devices, most)
   for d, device in ipairs(devices) do
      rows[d] = {
         kind = kinds[d].kind, slowdown = most > 1 and kinds[d].slowdown or 1,
         memory_bytes = device.memory_bytes, bytes_per_s = device.link_bytes_per_s,
      }
   end
   return rows
end

-- Weights, gradients and two moments.
local MEMORY_FACTOR = 4

--- Times of kind k by node, or those of one phase alone. Recomputing repeats the forward, as a part
-- of the backward; what a batch costs is shared by its micro-batches, where `o` has their number.
local function kind_times(self, k, again, o)
   local micro_batches, phase, list = o.micro_batches, o.phase, {}
   for i, node in ipairs(self.nodes) do
      local own = node.forward_ns + node.backward_ns
      local ns = k == 1 and own or node["ns" .. k] or own
      if again and own > 0 then ns = ns * (1 + node.forward_ns / own) end
      if phase and own > 0 then
         local forward = node.forward_ns / (own + (again and node.forward_ns or 0))
         ns = ns * (phase == "forward" and forward or 1 - forward)
      end
      list[i] = ns + (micro_batches and node["update" .. k] or 0) / (micro_batches or 1)
   end
   return list
end

--- Keeps a node off devices of kind 1; raises where there are no others.
local function forbid_first(problem, i)
   local n = #problem.forbid_node
   for d, device in ipairs(problem.devices) do
      if (device.kind or 1) == 1 then
         table.insert(problem.forbid_node, i)
         table.insert(problem.forbid_device, d)
      end
   end
   if #problem.forbid_node - n == #problem.devices then
      usage("node %s is kind2_only, and all devices are of kind 1; give devices of two speeds, "
         .. "those of kind 1 first, as sim:2x2080ti,2x3090, or lines 'device kind=2 ...' in the "
         .. "file",
         problem.names[i])
   end
end

local function node_lists(self, problem, o)
   local factor = o.memory_factor or self.memory_factor or MEMORY_FACTOR
   for i, node in ipairs(self.nodes) do
      problem.names[i] = node.name or node.scope or node.id
      local frozen = node.frozen_bytes or 0
      problem.fixed_bytes[i] = math.floor((node.parameter_bytes - frozen) * factor
         + frozen * (o.frozen_factor or 1))
      problem.saved_bytes[i] = o.recompute == "never" and node.saved_bytes or 0
      problem.tie[i] = node.tie or -1
      problem.backward[i] = node.backward or false
      if node.kind2_only then forbid_first(problem, i) end
   end
end

local function edge_lists(self, problem)
   for e, edge in ipairs(self.edges) do
      problem.edge_from[e], problem.edge_to[e] = edge.from, edge.to
      problem.edge_bytes[e], problem.edge_grad_bytes[e] = edge.bytes, edge.grad_bytes
      problem.edge_value[e] = edge.value or 0
   end
end

local PROBLEM = {
   devices = { type = "string|table" }, micro_batches = { type = "int", min = 1 },
   recompute = { choices = recompute.rules, default = "never" },
   memory_factor = { type = "number", min = 0 },
   frozen_factor = { type = "number", min = 0 },
   in_flight = { type = "int", min = 1 }, flat = { type = "boolean" },
   phase = { choices = { "forward", "backward" } },
}

--- What ft.partition solves.
-- @tparam table o devices (as in --devices, a cluster, or a list of { kind =, slowdown =,
--   memory_bytes =, bytes_per_s = }; those of the file when absent), micro_batches (of a batch;
--   without them, what a batch costs beside them is left out), recompute (never; always: every
--   stage; but-last: every one but the last, as FTPipe does), memory_factor (4: bytes that training
--   keeps for a byte of parameters), frozen_factor (1: for one of those that are not trained),
--   in_flight, flat, phase (forward or backward: of the times of nodes this part alone)
-- @treturn table problem
function Graph:problem(o)
   o = opts.check("graph:problem", PROBLEM, o)
   local problem = {
      names = {}, fixed_bytes = {}, saved_bytes = {}, tie = {}, backward = {},
      forbid_node = {}, forbid_device = {},
      edge_from = {}, edge_to = {}, edge_bytes = {}, edge_grad_bytes = {}, edge_value = {},
      in_flight = o.in_flight, flat = o.flat,
   }
   problem.devices = device_rows(self, o)
   node_lists(self, problem, o)
   edge_lists(self, problem)
   local kinds = 1
   for _, device in ipairs(problem.devices) do kinds = math.max(kinds, device.kind or 1) end
   problem.node_ns = {}
   for k = 1, kinds do problem.node_ns[k] = kind_times(self, k, o.recompute ~= "never", o) end
   if o.recompute == "but-last" then
      problem.last_ns = {}
      for k = 1, kinds do problem.last_ns[k] = kind_times(self, k, false, o) end
   end
   return problem
end

-- ---------------------------------------------------------------------------------------------
-- Asking.

--- The graph with the nodes of each scope as one; nil where that has a cycle.
-- @tparam[opt] int depth names of a scope that count: 2 makes blocks of "encoder/block.3/attn"
-- @treturn[opt] graph
-- @treturn[opt] {int,...} its node, by node of this one
function Graph:by_scope(depth) return contract.by_scope(self, depth) end

--- Sums over the nodes: forward_ns, backward_ns, parameter_bytes, saved_bytes, output_bytes, flops.
function Graph:totals()
   local sums = {}
   for _, row in ipairs(builder.node_numbers) do
      if not row.optional then sums[row[1]] = 0 end
   end
   for _, node in ipairs(self.nodes) do
      for key, sum in pairs(sums) do sums[key] = sum + node[key] end
   end
   return sums
end

--- Writes a drawing, as save does.
-- @tparam string path
-- @tparam[opt] table o as of format
function Graph:svg(path, o)
   core.sys.write_file(path, self:format("svg", o))
   return self
end

--- Writes what it says and its drawing as a page that needs nothing else.
-- @tparam string path
-- @tparam[opt] table o as of format
function Graph:html(path, o)
   core.sys.write_file(path, html.of(self:summary(), { self:format("svg", o) }))
   return self
end

--- The graph for Graphviz, as in a file of that form.
-- @tparam[opt] table o as of format
function Graph:dot(o) return self:format("dot", o) end

--- The graph as JSON, as in a file of that form.
-- @tparam[opt] table o as of format
function Graph:json(o) return self:format("json", o) end

local HEAVIEST = 5 -- nodes that are named

--- In a line, and the nodes that take longest.
-- @treturn string
function Graph:summary()
   local order, cells = {}, { { "longest", "forward ms", "backward ms", "scope" } }
   for i, node in ipairs(self.nodes) do order[i] = node end
   table.sort(order, function(a, b)
      local of_a, of_b = a.forward_ns + a.backward_ns, b.forward_ns + b.backward_ns
      return of_a > of_b or of_a == of_b and a.id < b.id
   end)
   for i = 1, math.min(HEAVIEST, #order) do
      local node = order[i]
      cells[i + 1] = { words.short(node.name or node.id, 30),
         ("%.2f"):format(node.forward_ns / 1e6), ("%.2f"):format(node.backward_ns / 1e6),
         node.scope or "" }
   end
   return tostring(self) .. "\n" .. words.columns(cells)
end

function Graph:__tostring()
   local sums = self:totals()
   return ("%s: %s, %s, forward %.2f ms, backward %.2f ms, parameters %s"):format(self.title,
      counted(#self.nodes, "node"), counted(#self.edges, "edge"), sums.forward_ns / 1e6,
      sums.backward_ns / 1e6, units.format_bytes(sums.parameter_bytes))
end

Graph.__shown = Graph.summary

M.takes = { ["ft.graph"] = FROM, ["graph:problem"] = PROBLEM }

guard("ft.graph", M, {
   read = "text: string, path: string, options?: table", load = "path: string, options?: table",
})
guard("graph", Graph, {
   format = "form: string, o?: table", save = "path: string, o?: table", problem = "o?: table",
   by_scope = "depth?: int", totals = "", summary = "", json = "o?: table", dot = "o?: table",
   svg = "path: string, o?: table", html = "path: string, o?: table",
})

return setmetatable(M, { __call = function(_, what, o) return M.from(what, o) end })
