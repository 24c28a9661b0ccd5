local ft = require("ftpipe")
local builder = require("ftpipe.graph.builder")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local random = require("ftpipe.base.random")

local function corpus(name)
   return core.sys.read_file("test/fuzz/corpus/graph_files/" .. name)
end

local EVERYTHING = corpus("everything.txt") -- a bit of all that there is
local PIPEDREAM = corpus("pipedream.txt")
local PLACEMENT = corpus("placement.json")
local GRAPHML = corpus("foreign.graphml")

local function load(text) return ft.graph.read(text, "graph") end

describe("ft.graph files", function()
   it("go through our text form without a change", function()
      assert.equal(EVERYTHING, load(EVERYTHING):format("txt"))
   end)

   it("are as doc/partitions.md shows them, with every key", function()
      local page = core.sys.read_file("doc/partitions.md")
      local text = page:match("\n    (ftpipe weighted graph 1\n.-)\n\n"):gsub("\n    ", "\n")
      local graph = load(text .. "\n")
      assert.equal(3, #graph.nodes)
      assert.is_true(ft.explore(graph).fits)
      for name, value in pairs { lora = 8, source = 320, freeze = "x", replicas = "2,1" } do
         local ok, problem = pcall(ft.explore, graph, { [name] = value })
         assert.is_false(ok)
         assert.matches("ft.explore: option '" .. name .. "' is for models", problem.message)
      end
      assert.is_true(ft.explore(graph, { source = 128, precision = "f32" }).fits) -- as by default
      local tables = page:match("\n| of a node | is |.*$")
      for _, rows in ipairs { builder.node_numbers, builder.edge_numbers, builder.device_numbers,
         builder.node_words, builder.node_flags, { "tie", "value" } } do
         for _, row in ipairs(rows) do
            local key = type(row) == "table" and row[1] or row
            local shown = key:gsub("^update[23]$", "update1")
            assert.is_truthy(tables:find("`" .. shown .. "%f[^%w_]"), key)
         end
      end
   end)

   it("go through JSON and GraphML without a change", function()
      local graph = load(EVERYTHING)
      assert.equal(EVERYTHING, load(graph:format("json")):format("txt"))
      assert.equal(EVERYTHING, load(graph:format("graphml")):format("txt"))
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

   it("have a best partition that ends no later than the others, nor than fewer stages", function()
      local text = { "ftpipe weighted graph 1\n" }
      local times = { 4, 1, 7, 2, 9, 3, 5, 1, 6 }
      for i, ms in ipairs(times) do
         text[#text + 1] = ("node n%d forward_ns=%de6 backward_ns=%de6\n"):format(i, ms, 2 * ms)
      end
      for i = 2, #times do
         text[#text + 1] = ("edge n%d n%d bytes=%de6 grad_bytes=1e6\n"):format(i - 1, i, 8 * i)
      end
      local graph = load(table.concat(text))
      local function seconds(partition, stages)
         return ft.explore.file(graph, { devices = "sim:3x2080ti", partition = partition,
            stages = stages, effort = (partition == "mixed" or nil) and 1 }).seconds
      end
      local best, mixed = seconds("best"), seconds("mixed")
      for _, how in ipairs { "seq", "greedy", "pipedream", "pipedream-straight", "mixed" } do
         assert.is_true(best <= seconds(how), how)
      end
      for stages = 3, 6 do assert.is_true(mixed <= seconds("mixed", stages), stages) end
   end)

   it("are also cut as if nothing hid transfers, where a batch ends sooner so", function()
      -- The even cut hides 50 ms each way in 90 ms of work. With two micro-batches in flight one
      -- takes 140 ms there all the same, and 120 ms where four of the nodes are before the cut.
      local text = { "ftpipe weighted graph 1\n" }
      for i = 1, 6 do text[i + 1] = ("node n%d forward_ns=1e7 backward_ns=2e7\n"):format(i) end
      for i = 1, 5 do
         local bytes = i == 3 and 6e8 or 8
         text[#text + 1] = ("edge n%d n%d bytes=%d grad_bytes=%d\n"):format(i, i + 1, bytes, bytes)
      end
      local graph = load(table.concat(text))
      local function explore(partition)
         return ft.explore.file(graph, { devices = "sim:2x11GB", partition = partition, stages = 2,
            micro_batches = 8, batch = 8 })
      end
      local mixed, best, replicas = explore("mixed"), explore("best"), "tries stages on several"
      assert.near(8 * 0.140, explore("seq").seconds, 0.1)
      assert.near(8 * 0.120, mixed.seconds, 0.1)
      -- what is faster still, as all six nodes on each of two devices are, it says where to find
      assert.near(8 * 0.090, best.seconds, 0.1)
      assert.matches('partition = "best" also ' .. replicas, tostring(mixed))
      assert.is_nil(tostring(best):find(replicas, 1, true))
   end)

   it("sum the gradients of replicas once a batch, around a ring", function()
      local graph = load("ftpipe weighted graph 1\n"
         .. "node a forward_ns=30e6 backward_ns=60e6 parameter_bytes=8e6 frozen_bytes=2e6\n"
         .. "node b forward_ns=10e6 backward_ns=20e6\nedge a b bytes=0\n")
      local devices = {}
      for d, rate in ipairs { 4e9, 1e9, 2e9, 9e9 } do devices[d] = { bytes_per_s = rate } end
      local result = { stage = { 1, 2 }, stage_device = { 1, 4 }, stage_replicas = { 3, 1 } }
      local cut = ft.stages.of(graph, devices, result)
      local played = ft.stages.play(cut, { schedule = "gpipe", micro_batches = 2, batches = 1 })
      -- a third of `a` takes as long as `b`, so three passes are one behind the other; the link of
      -- the second replica carries 1 byte in 1 ns
      local sums_ns = 2 * 6e6 * 2 / 3
      assert.near(3 * 30e6 + sums_ns, played.end_ns, 10)
      for _, key in ipairs { "busy_ns", "waits", "stalls" } do
         assert.same(played[key][1], played[key][2])
         assert.same(played[key][1], played[key][3])
      end
      assert.near(60e6 + sums_ns, played.busy_ns[2], 10)
      assert.equal(3 * 2 * 6e6 * 2 / 3, ft.stages.moved_bytes(cut, 2))
      assert.equal(0, ft.stages.of(graph, devices, { stage = { 1, 1 }, stage_device = { 1 } })
         .stages[1].sum_ns)
   end)

   it("are cut by the partition that is asked for, on any number of devices", function()
      local text = { "ftpipe weighted graph 1\n" }
      for i = 1, 8 do text[i + 1] = ("node n%d forward_ns=1e7 backward_ns=2e7\n"):format(i) end
      for i = 1, 7 do text[#text + 1] = ("edge n%d n%d bytes=1e9\n"):format(i, i + 1) end
      local graph = load(table.concat(text))
      for _, how in ipairs { "seq", "greedy", "pipedream-straight" } do
         assert.equal(how, ft.explore(graph, { devices = "sim:4x11GB", partition = how }).options
            .partition)
      end
      for _, schedule in ipairs { "interleaved", "zb-v" } do
         local s = ft.explore(graph, { devices = "sim:4x11GB", partition = "seq",
            schedule = schedule })
         assert.equal(8, #s.stages)
      end
      local first = ft.explore(graph, { devices = "sim:4x11GB" })
      assert.equal(first.seconds, ft.explore(graph, first.options).seconds)
   end)

   it("take turns in an order in which their nodes can run, by time where there is room", function()
      local graph = load("ftpipe weighted graph 1\nnode c forward_ns=3e6 parameter_bytes=1.5e9\n"
         .. "node d forward_ns=4e6 backward_ns=1e6\nnode a forward_ns=1e6\n"
         .. "node b forward_ns=2e6\nedge a b bytes=8\nedge b c bytes=8\nedge c d bytes=8\n")
      local s = ft.explore(graph, { devices = "sim:2x11GB", partition = "seq",
         schedule = "interleaved" })
      assert.same({ 3, 4, 1, 2 }, s.result.stage)
      assert.same({ 1, 2, 1, 2 }, s.result.device)
      assert.is_true(s.fits) -- 6 GB are more than half of a device
      assert.matches("^graph: partition: node 1 %(c%) needs 6.0 GB, the largest device it may be",
         files.failure(ft.explore, graph, { devices = "sim:2x5GB", partition = "seq",
            schedule = "interleaved" }).message)
   end)

   it("lie where their schedule has them, whatever the links", function()
      local function places(text, o)
         local directory = files.directory()
         local path = directory .. "/my.graph"
         core.sys.write_file(path, "ftpipe weighted graph 1\n" .. text)
         local ok, subject = pcall(ft.explore, path, o)
         files.remove(directory)
         if not ok then return subject.message end
         return table.concat(subject.result.stage_device, " "), subject
      end
      local slow = "device bytes_per_s=12e9\ndevice bytes_per_s=6e9\n"
      local chain = slow
      for n = 1, 5 do
         chain = chain .. ("node n%d forward_ns=%de6 backward_ns=4e6 parameter_bytes=1e6\n")
            :format(n, n)
         if n > 1 then chain = chain .. ("edge n%d n%d bytes=1e5\n"):format(n - 1, n) end
      end
      local on, planned = places(chain, { schedule = "interleaved" })
      assert.equal("1 2 1 2", on)
      assert.equal("seq", planned.method)
      for i, stage in ipairs(planned.result.stage) do
         assert.equal(planned.result.stage_device[stage], planned.result.device[i])
      end
      assert.equal("1 2 2 1", places(chain, { schedule = "zb-v" }))
      assert.equal("1 2", places(chain, { schedule = "interleaved", stages = 2 }))
      assert.equal("1 1", places(chain, { schedule = "zb-v", devices = "sim:1x11GB" }))
      -- too few nodes for two stages each
      local few = slow .. "node a forward_ns=9 backward_ns=9\nnode b forward_ns=9\nedge a b\n"
      assert.equal("1 2", places(few, { schedule = "interleaved" }))
      assert.matches("my.graph: partition: 4 stages of a graph of 2 nodes, expected no more",
         places(few, { schedule = "zb-v" }))
      assert.matches('my.graph: schedule = "interleaved" needs partition = "seq", whose stages',
         places(chain, { schedule = "interleaved", partition = "mixed" }))
   end)

   it("refuse what is for models, and say what there is instead", function()
      files.in_directory(function(directory)
         local path = directory .. "/my.graph"
         core.sys.write_file(path, "ftpipe weighted graph 1\nnode a forward_ns=9 backward_ns=9\n")
         local function refused(o, pattern)
            o.devices = o.devices or "sim:2x11GB"
            assert.fails_with(function() ft.explore(path, o) end, "my.graph: " .. pattern)
         end
         for _, schedule in ipairs { "data-parallel", "harmony-dp" } do
            refused({ schedule = schedule, partition = "pipedream" }, 'schedule = "'
               .. schedule:gsub("%-", "%%-") .. '" is for models; for replicas of stages of a '
               .. 'graph give partition = "pipedream" with another schedule$')
         end
         assert.is_true(ft.explore(path, { schedule = "data-parallel",
            devices = "sim:1x11GB" }).fits)
         for _, partition in ipairs { "pack", "e.plan" } do
            refused({ partition = partition }, 'partition = "' .. partition .. '" is none of best, '
               .. "greedy, mixed, pipedream, pipedream%-straight, seq; stages of a plan are for "
               .. "models$")
         end
      end)
   end)

   it("have forwards that wait for no backward where there is none", function()
      local graph = load("ftpipe weighted graph 1\nnode a forward_ns=2e7\nnode b forward_ns=2e7\n"
         .. "node c forward_ns=2e7\nedge a b bytes=8\nedge b c bytes=8\n")
      for _, schedule in ipairs { "1f1b", "gpipe", "2bw" } do
         local subject = ft.explore.file(graph, { devices = "sim:3x11GB", partition = "seq",
            schedule = schedule, micro_batches = 4, batch = 8 })
         assert.near(4 * 20e-3, subject.seconds, 1e-3)
         assert.matches("schedule evaluate, 3 stages", tostring(subject))
      end
   end)

   it("are GraphML with defaults of keys, for nodes and edges at once", function()
      local graph = load([[<graphml><key id="f" attr.name="forward_ns"><default>3</default></key>
         <key id="b" for="all" attr.name="bytes"/><key id="k" for="node" attr.name="kind2_only"
         attr.type="boolean"><default>true</default></key><graph edgedefault="directed">
         <node id="x"/><node id="y"><data key="f">4</data><data key="k">false</data></node>
         <edge source="x" target="y"><data key="b">5</data></edge></graph></graphml>]])
      assert.same({ id = "x", f = 3, k = true }, {
         id = graph.nodes[1].id, f = graph.nodes[1].forward_ns, k = graph.nodes[1].kind2_only,
      })
      assert.same({ 4, 5 }, { graph.nodes[2].forward_ns, graph.edges[1].bytes })
      assert.is_nil(graph.nodes[2].kind2_only)
   end)

   it("are read from disk, whatever mark of byte order they begin with", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/g", "\239\187\191" .. EVERYTHING)
         local graph = ft.graph(dir .. "/g")
         assert.equal(EVERYTHING, graph:format("txt"))
         graph:save(dir .. "/g.json")
         assert.equal(EVERYTHING, ft.graph.load(dir .. "/g.json"):format("txt"))
         assert.matches("no form 'png'", files.failure(graph.save, graph, dir .. "/g.png").message)
      end)
   end)

   it("of models are contracted by scope without a value that is sent twice", function()
      local small = ft.graph("t5-small", { devices = "sim:1x2080ti", batch = 1 }):by_scope()
      local seen = {}
      for _, edge in ipairs(small.edges) do
         local arrival = ("%d %d %d"):format(edge.from, edge.to, edge.value)
         assert.is_nil(seen[arrival])
         seen[arrival] = true
      end
   end)

   it("are contracted by scope; values of several makers stay several", function()
      local graph = load("ftpipe weighted graph 1\nnode a scope=s parameter_bytes=3 "
         .. "frozen_bytes=2\nnode b scope=s parameter_bytes=4 frozen_bytes=4\nnode c\n"
         .. "edge a c bytes=5 value=1\n"
         .. "edge b c bytes=7 value=1\nedge b c bytes=7 value=1\n")
      local small = graph:by_scope()
      assert.same({ 7, 0 }, { small.nodes[1].parameter_bytes, small.nodes[2].parameter_bytes })
      assert.same({ 6 }, { small.nodes[1].frozen_bytes, small.nodes[2].frozen_bytes })
      assert.same({ 5, 7 }, { small.edges[1].bytes, small.edges[2].bytes })
      assert.equal(2, #small.edges)
      assert.not_equal(small.edges[1].value, small.edges[2].value)
      assert.matches("node b c is tied to others", files.failure(graph.by_scope,
         load(EVERYTHING)).message)
   end)

   it("are drawn, nodes of one scope together", function()
      local graph = load(EVERYTHING)
      assert.equal(2, select(2, graph:format("dot", { depth = 1 }):gsub("fillcolor=", "")))
      assert.equal(3, select(2, graph:format("dot"):gsub("fillcolor=", "")))
      local svg = graph:format("svg")
      assert.matches("^<svg ", svg)
      assert.equal(3, select(2, svg:gsub("<rect", "")))
      assert.has_no.errors(function() require("ftpipe.text.xml").read(svg, "x.svg") end)
   end)
end)

describe("files that are refused name file, place and culprit:", function()
   local function node(text) return "ftpipe weighted graph 1\n" .. text .. "\n" end
   local function ours(row)
      return ('{"format": "ftpipe weighted graph 1", "nodes": [%s], "edges": []}'):format(row)
   end
   local cases = {
      { "nothing in it", "", "graph: a graph without nodes" },
      { "another version", "ftpipe weighted graph 9\n", "graph:1: 'ftpipe weighted graph 9'" },
      { "an id again", node "node a\nnode a", "graph:3: node a again" },
      { "an edge to nowhere", node "node a\nedge a b", "graph:3: there is no node b" },
      { "a negative cost", node "node a forward_ns=-1", "graph:2: forward_ns is %-1" },
      { "more frozen than there is", node "node a parameter_bytes=2 frozen_bytes=3",
         "graph:2: frozen_bytes is 3, expected a part of parameter_bytes" },
      { "an infinite cost", node "node a forward_ns=inf", "graph:2: forward_ns is inf" },
      { "no number", node "node a forward_ns=x", "graph:2: forward_ns is x" },
      { "a key that is not", node "node a forwards=1", "graph:2: there is no key 'forwards'" },
      { "a quote that is open", node 'node "a', "graph:2: a quote is not closed" },
      { "a word for true", node "node a backward=yes", "graph:2: backward is 'yes', expected 1" },
      { "a name that is no text", node 'node a name="\\xff"', "name '%?' is not text in UTF%-8" },
      { "a device of no kind", "ftpipe weighted graph 1\ndevice kind=9\nnode a",
         "graph:2: kind is 9, expected 1 to 4" },
      { "a device that stands still", "ftpipe weighted graph 1\ndevice slowdown=0\nnode a",
         "graph:2: slowdown is 0" },
      { "a cycle", node "node a\nnode b\nnode c\nedge a b\nedge b c\nedge c b",
         "the graph has a cycle: [bc] %-> [bc] %-> [bc]" },
      { "PipeDream: half a line", "n1 -- x", "graph:1: neither a node, 'id .*', nor an edge" },
      { "PipeDream: a time missing", "n1 -- x -- forward_compute_time=1",
         "graph:1: backward_compute_time is missing" },
      { "PipeDream: a time without a number", (PIPEDREAM:gsub("time=0.25", "time=")),
         "graph:3: forward_compute_time is , expected a number" },
      { "PipeDream: an edge to nowhere", PIPEDREAM .. "\n\tn3 -- n9",
         "graph:6: there is no node n9" },
      { "placement: no list", '{"maxFPGAs": 1, "maxSizePerFPGA": 1}', 'no list "nodes"' },
      { "placement: a negative latency", (PLACEMENT:gsub('"fpgaLatency": 2', '"fpgaLatency": -2')),
         "graph: node 2: fpgaLatency is %-2" },
      { "placement: no devices", (PLACEMENT:gsub('s": 2, "maxCPUs": 1', 's": 0')),
         "graph: maxFPGAs is 0 and there are no CPUs" },
      { "placement: too many devices", (PLACEMENT:gsub('"maxFPGAs": 2', '"maxFPGAs": 1e9')),
         "maxFPGAs is 1" },
      { "placement: a word for a flag",
         (PLACEMENT:gsub('"supportedOnFpga": 1', '"supportedOnFpga": "yes"')),
         "graph: node 1: supportedOnFpga is yes, expected 0 or 1" },
      { "placement: a colour that is none", (PLACEMENT:gsub('Class": 1}', 'Class": "red"}')),
         "graph: node [13]: tie is red" },
      { "JSON: a list", "[1]", "graph: expected an object" },
      { "JSON: a key that is not", ours '{"id": "a", "forwad_ns": 1}',
         "node 1: there is no key 'forwad_ns' %(did you mean 'forward_ns'%?%)" },
      { "JSON: a number for true", ours '{"id": "a", "backward": 0}',
         "node 1: backward is 0, expected true or false" },
      { "JSON: an id that is a list", ours '{"id": [1]}', "node 1: id is a list, expected text" },
      { "JSON: no id", ours '{"id": null}', "node 1: id is null, expected text" },
      { "JSON of something else", '{"a": 1}', "no graph that is known here: device placement has" },
      { "GraphML: an element left open", "<graphml><graph>", "<graph> is not closed" },
      { "GraphML: undirected", '<graphml><graph edgedefault="undirected"/></graphml>',
         "graph:1: the graph is undirected" },
      { "GraphML: a graph in a node",
         '<graphml><graph><node id="a"><graph/></node></graph></graphml>',
         "graph:1: a graph in a node, expected a flat graph" },
      { "GraphML: a device of no kind",
         (load(EVERYTHING):format("graphml"):gsub("kind=2", "kind=7")),
         "graph:%d+: kind is 7, expected 1 to 4" },
      { "GraphML: an edge with one end", '<graphml><graph><edge source="a"/></graph></graphml>',
         "graph:1: an edge without two ends" },
      { "GraphML: entities of its own", "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>",
         "graph:1: document types are not read" },
      { "GraphML: an edge to nowhere", (GRAPHML:gsub('target="y"', 'target="z"')),
         "graph:11: there is no node z" },
   }
   for _, case in ipairs(cases) do
      it(case[1], function()
         local problem = files.failure(load, case[2])
         assert.matches(case[3], tostring(problem))
         assert.equal("malformed data", problem.status)
         assert.equal(6, problem.exit)
      end)
   end
end)

describe("importers", function()
   local scraps = { "-1", "nan", "1e999", '"', "<", ">", "\n", "\0", "\\", "=", "{", "]", "", "9",
      "\t", " -- ", "&#x110000;", "\255" }

   --- A text with some bytes cut out, doubled, or replaced.
   local function mutated(text, draws)
      for _ = 1, draws:integer(4) do
         local at, length = draws:integer(#text), draws:integer(12) - 1
         local scrap = draws:pick(scraps)
         if draws:integer(3) == 1 then
            scrap = text:sub(draws:integer(#text)):sub(1, draws:integer(30))
         end
         text = text:sub(1, at - 1) .. scrap .. text:sub(at + length)
         if text == "" then text = " " end
      end
      return text
   end

   local check = dofile("test/fuzz/graph_files.lua")

   it("refuse edges of one value in two sizes, and take those of two values", function()
      local text = "ftpipe weighted graph 1\nnode a\nnode b\nnode c\nedge a b bytes=10%s%s\n"
         .. "edge a c bytes=%d%s\n"
      assert.fails_with(function() load(text:format("", "", 20, "")) end,
         "^graph:6: bytes of the edge from a to c is 20, of that to b %(graph:5%) 10: .* value=1")
      assert.fails_with(function() load(text:format("", " grad_bytes=3", 10, "")) end,
         "^graph:6: grad_bytes of the edge from a to c is 0, of that to b %(graph:5%) 3: ")
      assert.equal(2, #load(text:format("", " value=1", 20, " value=2")).edges)
   end)

   it("have stages and devices of a result, counted from 0", function()
      local graph = load("ftpipe weighted graph 1\nnode a forward_ns=5\n")
      local o = { result = { stage = { 1 }, device = { 2 } } }
      local node = core.json.decode(graph:format("json", o)).nodes[1]
      assert.same({ 0, 1 }, { node.stage, node.device })
      assert.matches('"node_stage">0<.*"node_device">1<', graph:format("graphml", o))
   end)

   it("refuse results of another graph", function()
      local other = { result = { device = { 1, 1, 1, 1 } } }
      assert.fails_with(function() load(PIPEDREAM):format("svg", other) end,
         "the result is of a graph of 4 nodes, this one has 2")
   end)

   for name, seed in pairs {
      text = EVERYTHING, json = load(EVERYTHING):format("json"), pipedream = PIPEDREAM,
      placement = PLACEMENT, graphml = GRAPHML,
   } do
      it("refuse or understand a thousand broken files: " .. name, function()
         local draws = random.new(#seed)
         for _ = 1, 1000 do check(mutated(seed, draws)) end
      end)
   end
end)

describe("layers of a graph", function()
   it("are one more than the highest before them", function()
      local edges = { { from = 1, to = 2 }, { from = 2, to = 4 }, { from = 3, to = 4 } }
      assert.same({ 1, 2, 1, 3 },
         require("ftpipe.graph.collapse").layers({ nodes = { {}, {}, {}, {} }, edges = edges }))
   end)
end)
