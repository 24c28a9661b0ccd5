--- What objects are as pictures, pages and JSON.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local pages = require("spec.support.pages")
local ft = require("ftpipe")

--- Checks what an object writes; what it is as JSON.
local function check(object, words)
   files.in_directory(function(dir)
      assert.equal(object, object:svg(dir .. "/x.svg"))
      local svg = core.sys.read_file(dir .. "/x.svg")
      pages.check_svg(svg)
      assert.equal(object, object:html(dir .. "/x.html"))
      local page = core.sys.read_file(dir .. "/x.html")
      pages.check(page)
      for _, word in ipairs(words) do
         assert.is_not_nil(svg:find(word, 1, true), word .. " in\n" .. svg:sub(1, 2000))
         assert.is_not_nil(page:find(word, 1, true), word)
      end
   end)
   return core.json.decode(object:json())
end

describe("pictures", function()
   it("of a model are bars of its blocks", function()
      local data = check(ft.model("t5-small"), { "encoder/block.1 .. 5", "Parameters", " GFLOP, " })
      assert.equal(60506624, data.parameters)
      local n = 0
      for _, row in ipairs(data.blocks) do n = n + row.n * row.parameters end
      assert.equal(data.parameters, n)
   end)

   it("of a graph are its blocks and edges, with its heaviest nodes in words", function()
      local graph = ft.graph("t5-small", { devices = "sim:2x11GB", batch = 2, source = 32 })
      local data = check(graph, { "decoder/block.0" })
      assert.equal(#graph.nodes, #data.nodes)
      local lines = graph:summary()
      assert.equal(1 + 1 + 5, select(2, lines:gsub("[^\n]+", "")))
      assert.equal(tostring(graph), lines:match("^[^\n]*"))
   end)

   it("of a graph can be had for Graphviz", function()
      local graph = ft.graph("t5-small", { devices = "sim:2x11GB", batch = 2, source = 32 })
      assert.matches("^digraph ", graph:dot())
      assert.equal(graph:format("dot"), graph:dot())
   end)

   it("of a schedule that was played are its batches in time", function()
      local stages = { { forward_ns = 1e6, backward_ns = 2e6 }, { forward_ns = 1e6,
         backward_ns = 2e6 } }
      local played = ft.schedule.play { stages = stages, micro_batches = 2, batches = 1,
         schedule = "gpipe" }
      files.in_directory(function(dir)
         assert.equal(played, played:svg(dir .. "/x.svg"))
         local svg = core.sys.read_file(dir .. "/x.svg")
         pages.check_svg(svg)
         assert.is_nil(svg:find("nan", 1, true))
      end)
      local shown = require("ftpipe.prompt.show").value(played)
      assert.equal(tostring(played), shown:match("^[^\n]*"))
      assert.matches("^device 0 |FF%.%.%.BBBB|  33 %%\ndevice 1 |%.FFBBBB%.%.|  33 %%\n",
         played:timeline { columns = 9, ascii = true })
      local idle = ft.schedule.play { stages = { {}, {} }, micro_batches = 1, batches = 1,
         schedule = "gpipe" }
      assert.fails_with(function() idle:svg("/tmp/x.svg") end, "no stage has a cost")
   end)

   it("of a profile are bars of its operators", function()
      local profile = ft.profile(ft.model("t5-small"), "cpu", { batch = 2, source = 32 })
      local data = check(profile, { "linear, ", " ms, " })
      assert.equal(profile:sums().forward, data.sums_ns.forward)
      assert.equal(#profile:operators(), #data.operators)
   end)

   it("of a cluster are its hosts and devices", function()
      local cluster = ft.cluster {
         devices = { { card = "2080ti", count = 5, host = "a" }, { card = "v100", host = "b" } },
         hosts = { a = { bandwidth = "12GB/s", shared = true } },
         network = { bandwidth = "1.2GB/s" },
      }
      local data = check(cluster, { "host a", "sim:5 v100" })
      assert.equal(6, #data.devices)
      assert.equal(1.2e9, data.network.bytes_per_s)
      check(ft.cluster "sim:2x11GB", { "sim:1" })
   end)

   it("of a placement are bars of its devices", function()
      local problem = ft.graph("t5-small", { devices = "sim:2x11GB", batch = 2, source = 32 })
         :by_scope(2):problem { devices = "sim:2x11GB" }
      local result = ft.partition(problem, { method = "seq" })
      local data = check(result, { "device 1", "Time", "Memory" })
      assert.same(result.device, data.device)
      assert.equal(result.objective_ns, data.objective_ns)
   end)

   it("of a plan are its first batches in time", function()
      local plan = ft.plan { model = ft.model("t5-small"), devices = "sim:2x11GB", batch = 8,
         micro_batches = 2, buckets = { 64 }, lengths = { target = 8 }, batches = 2 }
      local data = check(plan, { "sim:1", "B stage 1 mb 0" })
      assert.equal(plan:memory_bytes()[2], data.devices[2].bytes)
      assert.equal(plan:span(1), data.stages[1].span)
   end)
end)
