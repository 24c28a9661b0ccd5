local ft = require("ftpipe")
local core = require("ftpipe.core")
local files = require("spec.support.files")

--- A graph with a bit of everything.
local EVERYTHING = [[
ftpipe weighted graph 1
memory_factor 1
device kind=1 memory_bytes=1000000 bytes_per_s=1000000000
device kind=2
node a name="the \"first\" one" op=linear scope=enc/block.0 forward_ns=1.5 parameter_bytes=8 ns2=0
node "b c" forward_ns=0.1 backward_ns=12345678901 saved_bytes=7 tie=3 kind2_only=1
node d scope=enc/block.1 backward_ns=3 tie=3 backward=1
edge a "b c" bytes=10 grad_bytes=10 value=4
edge "b c" d
]]

local PIPEDREAM = table.concat({
   "n1 -- Input0 -- forward_compute_time=9, backward_compute_time=0, activation_size=4, "
      .. "parameter_size=0",
   "n2 -- Linear(a=1, b=2) -- forward_compute_time=0.5, backward_compute_time=1, "
      .. "activation_size=[1.0; 2.0], parameter_size=12",
   "n3 -- ReLU -- forward_compute_time=0.25, backward_compute_time=0.5, activation_size=3, "
      .. "parameter_size=0",
   "\tn1 -- n2", "\tn2 -- n3",
}, "\n")

local PLACEMENT = [[{ "maxFPGAs": 2, "maxCPUs": 1, "maxSizePerFPGA": 100,
 "nodes": [
  {"id": 7, "name": "a", "fpgaLatency": 1, "cpuLatency": 9, "isBackwardNode": 0,
   "supportedOnFpga": 1, "size": 50, "colorClass": 1},
  {"id": 8, "name": "b", "fpgaLatency": 2, "cpuLatency": 9, "isBackwardNode": 0,
   "supportedOnFpga": 1, "size": 60},
  {"id": 9, "name": "ag", "fpgaLatency": 3, "cpuLatency": 9, "isBackwardNode": 1,
   "supportedOnFpga": 1, "size": 0, "colorClass": 1}],
 "edges": [{"sourceId": 7, "destId": 8, "cost": 0.5}, {"sourceId": 8, "destId": 9, "cost": 0.5}] }]]

local GRAPHML = [[<?xml version="1.0"?>
<!-- from elsewhere -->
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
 <key id="k0" for="node" attr.name="forward_ns" attr.type="double"/>
 <key id="k1" for="node" attr.name="name" attr.type="string"/>
 <key id="k2" for="edge" attr.name="bytes" attr.type="double"/>
 <key id="k3" for="node" attr.name="colour" attr.type="string"/>
 <graph edgedefault="directed">
  <node id="x"><data key="k0">10</data><data key="k1">a &lt;b&gt; &#233;</data></node>
  <node id="y"><data key="k0">20</data><data key="k3">red</data></node>
  <edge source="x" target="y"><data key="k2">64</data></edge>
 </graph>
</graphml>
]]

--- Calls body(path) with a file that holds the text.
local function with_file(text, body)
   files.in_directory(function(dir)
      core.sys.write_file(dir .. "/graph", text)
      body(dir .. "/graph")
   end)
end

local function load(text)
   local graph
   with_file(text, function(path) graph = ft.graph.load(path) end)
   return graph
end

describe("ft.graph files", function()
   it("go through our text form without a change", function()
      assert.equal(EVERYTHING, load(EVERYTHING):format("txt"))
   end)

   it("go through JSON and GraphML without losing what those can say", function()
      local graph = load(EVERYTHING)
      assert.equal(EVERYTHING, load(graph:format("json")):format("txt"))
      local again = load(graph:format("graphml"))
      again.devices, again.memory_factor = graph.devices, graph.memory_factor
      assert.equal(EVERYTHING, again:format("txt"))
   end)

   it("are PipeDream's: inputs stay out, several outputs are summed", function()
      local graph = load(PIPEDREAM)
      assert.equal(2, #graph.nodes)
      assert.same({ 5e5, 1e6, 12, 3 }, {
         graph.nodes[1].forward_ns, graph.nodes[1].backward_ns, graph.nodes[1].parameter_bytes,
         graph.nodes[1].output_bytes,
      })
      assert.same({ { from = 1, to = 2, bytes = 3, grad_bytes = 3 } }, graph.edges)
   end)

   it("are device placements: ties, backward nodes, devices of two kinds", function()
      local graph = load(PLACEMENT)
      local problem = graph:problem()
      assert.same({ { 1e6, 2e6, 3e6 }, { 9e6, 9e6, 9e6 } }, problem.node_ns)
      assert.same({ 1, -1, 1 }, problem.tie)
      assert.same({ false, false, true }, problem.backward)
      assert.equal(3, #problem.devices)
      local result = ft.partition(problem, { method = "seq", cost = "sum" })
      assert.equal(result.device[1], result.device[3])
   end)

   it("are GraphML of others: entities, keys by name, what is unknown is passed over", function()
      local graph = load(GRAPHML)
      assert.equal("a <b> \195\169", graph.nodes[1].name)
      assert.equal(20, graph.nodes[2].forward_ns)
      assert.same({ { from = 1, to = 2, bytes = 64, grad_bytes = 0 } }, graph.edges)
   end)

   it("are plans like models are: partitioned, played", function()
      local subject = ft.explore.file(load(PIPEDREAM), {
         devices = "sim:2x11GB", partition = "seq", schedule = "1f1b", micro_batches = 4, batch = 8,
      })
      -- two stages of 1.5 and 0.75 ms, transfers next to nothing: 4 x 1.5 ms and 0.75 of fill
      assert.is_true(math.abs(subject.seconds / 6.75e-3 - 1) < 0.1)
      assert.matches("2 stages on 2 devices", tostring(subject))
   end)

   it("are drawn, nodes of one scope together", function()
      local graph = load(EVERYTHING)
      assert.equal(2, select(2, graph:format("dot", { depth = 1 }):gsub("fillcolor=", "")))
      assert.equal(3, select(2, graph:format("dot"):gsub("fillcolor=", "")))
      local svg = graph:format("svg")
      assert.matches("^<svg ", svg)
      assert.equal(3, select(2, svg:gsub("<rect", "")))
      assert.has_no.errors(function() require("ftpipe.graph.xml").read(svg, "x.svg") end)
   end)
end)

describe("files that are refused name file, place and culprit:", function()
   local function node(text) return "ftpipe weighted graph 1\n" .. text .. "\n" end
   local cases = {
      { "nothing in it", "", "graph: a graph without nodes" },
      { "another version", "ftpipe weighted graph 9\n", "graph:1: 'ftpipe weighted graph 9'" },
      { "an id again", node "node a\nnode a", "graph:3: node a again" },
      { "an edge to nowhere", node "node a\nedge a b", "graph:3: there is no node b" },
      { "a negative cost", node "node a forward_ns=-1", "graph:2: forward_ns is %-1" },
      { "an infinite cost", node "node a forward_ns=inf", "graph:2: forward_ns is inf" },
      { "no number", node "node a forward_ns=x", "graph:2: forward_ns is x" },
      { "a key that is not", node "node a forwards=1", "graph:2: there is no key 'forwards'" },
      { "a quote that is open", node 'node "a', "graph:2: a quote is not closed" },
      { "a cycle", node "node a\nnode b\nnode c\nedge a b\nedge b c\nedge c b",
         "the graph has a cycle: [bc] %-> [bc] %-> [bc]" },
      { "PipeDream: half a line", "n1 -- x", "graph:1: neither a node nor an edge" },
      { "PipeDream: a time missing", "n1 -- x -- forward_compute_time=1",
         "graph:1: backward_compute_time is nil" },
      { "PipeDream: an edge to nowhere", PIPEDREAM .. "\n\tn3 -- n9",
         "graph:6: there is no node n9" },
      { "placement: no list", '{"maxFPGAs": 1, "maxSizePerFPGA": 1}', 'no list "nodes"' },
      { "placement: a negative latency", (PLACEMENT:gsub('"fpgaLatency": 2', '"fpgaLatency": -2')),
         "graph: node 2: fpgaLatency is %-2" },
      { "placement: too many devices", (PLACEMENT:gsub('"maxFPGAs": 2', '"maxFPGAs": 1e9')),
         "maxFPGAs is 1" },
      { "JSON of something else", '{"a": 1}', "neither \"maxFPGAs\"" },
      { "GraphML: an element left open", "<graphml><graph>", "<graph> is not closed" },
      { "GraphML: undirected", '<graphml><graph edgedefault="undirected"/></graphml>',
         "graph:1: the graph is undirected" },
      { "GraphML: entities of its own", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>",
         "graph:1: document types are not read" },
      { "GraphML: an edge to nowhere", (GRAPHML:gsub('target="y"', 'target="z"')),
         "graph:11: there is no node z" },
   }
   for _, case in ipairs(cases) do
      it(case[1], function()
         with_file(case[2], function(path)
            local problem = files.failure(ft.graph.load, path)
            assert.matches(case[3], tostring(problem))
            assert.equal("malformed data", problem.status)
            assert.equal(6, problem.exit)
         end)
      end)
   end
end)

describe("importers", function()
   --- Numbers that look random and are the same every time.
   local function generator(seed)
      local state = seed
      return function(n)
         state = (state * 16807) % 2147483647
         return state % n + 1
      end
   end

   local scraps = { "-1", "nan", "1e999", '"', "<", ">", "\n", "\0", "\\", "=", "{", "]", "", "9",
      "\t", " -- ", "&#x110000;", "\255" }

   --- A text with some bytes cut out, doubled, or replaced.
   local function mutated(text, random)
      for _ = 1, random(4) do
         local at, length = random(#text), random(12) - 1
         local scrap = random(3) == 1 and text:sub(random(#text)):sub(1, random(30))
            or scraps[random(#scraps)]
         text = text:sub(1, at - 1) .. scrap .. text:sub(at + length)
         if text == "" then text = " " end
      end
      return text
   end

   for name, seed in pairs {
      text = EVERYTHING, pipedream = PIPEDREAM, placement = PLACEMENT, graphml = GRAPHML,
   } do
      it("survive a thousand broken files: " .. name, function()
         local random = generator(#seed)
         local json = name == "text" and load(seed):format("json") or seed
         files.in_directory(function(dir)
            for i = 1, 1000 do
               core.sys.write_file(dir .. "/x", mutated(i % 2 == 0 and seed or json, random))
               local ok, problem = pcall(ft.graph.load, dir .. "/x")
               -- what is not refused is a graph that partitioners take
               if ok then
                  problem:format("txt")
               else
                  assert.equal("table", type(problem), tostring(problem))
                  assert.equal("malformed data", problem.status)
               end
            end
         end)
      end)
   end
end)
