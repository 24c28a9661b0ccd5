--- Plans of graph files: what their devices hold, what passes between them, what is said of it.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local process = require("spec.support.process")

local HEAD = "ftpipe weighted graph 1\n"

local function load(text) return ft.graph.read(HEAD .. text, "my.graph") end

--- What `ftpipe plan` prints of a graph, its complaint, and how it exits.
local function planned(text, ...)
   local directory = files.directory()
   core.sys.write_file(directory .. "/my.graph", HEAD .. text)
   local out, err, exit = process.ftpipe { "plan", directory .. "/my.graph", ... }
   files.remove(directory)
   return out, err, exit
end

describe("a plan of a graph file", function()
   -- Two devices with room for one of the nodes that save much, by recomputing.
   local SAVING = ("device memory_bytes=110e6 bytes_per_s=10e9\n"):rep(2)
   for i, id in ipairs { "a", "b", "c", "d" } do
      SAVING = SAVING .. ("node %s forward_ns=1e6 backward_ns=2e6 parameter_bytes=4e6 "
         .. "saved_bytes=%de6\n"):format(id, i < 3 and 50 or 1)
   end
   SAVING = SAVING .. "edge a b bytes=1e6 grad_bytes=1e6\nedge b c bytes=1e6 grad_bytes=1e6\n"
      .. "edge c d bytes=1e6 grad_bytes=1e6\n"

   it("has a cut with room for what running stages again takes", function()
      for _, how in ipairs { "seq", "greedy", "mixed", "best", "pipedream" } do
         for _, recompute in ipairs { "auto", "always" } do
            local subject = ft.explore(load(SAVING), { partition = how, recompute = recompute })
            assert.is_true(subject.fits, how .. " " .. recompute)
            assert.not_equal(subject.result.device[1], subject.result.device[2])
         end
      end
   end)

   it("stands beside others that are held against the same budgets", function()
      local out, err, exit = planned(SAVING:gsub("50e6", "150e6"), "--compare")
      assert.equal(3, exit, err)
      for _, how in ipairs { "seq", "mixed", "greedy" } do
         assert.matches("\n  " .. how .. " [^\n]+no, %d+%.%d MB over", out)
      end
      assert.matches("\n  seq [^\n]+ yes ", (planned(SAVING, "--compare")))
   end)

   it("updates parameters once a batch, by the kind of its devices", function()
      local function seconds(device)
         local graph = load(("device %s\nnode a forward_ns=1e6 backward_ns=2e6 update1=5e8 "
            .. "update2=2e8\nnode b forward_ns=1e6 backward_ns=2e6 update1=5e8\nedge a b\n")
            :format(device))
         return ft.explore(graph, { partition = "seq", micro_batches = 4 }).seconds
      end
      assert.near(4 * 6e-3 + 1, seconds "kind=1", 1e-9)
      assert.near(3 * (4 * 6e-3 + 1), seconds "slowdown=3", 1e-9)
      assert.near(4 * 6e-3 + 0.2, seconds "kind=2", 1e-9)
      local shared = ft.explore(load("device\ndevice\nnode a forward_ns=1e8 backward_ns=2e8 "
         .. "update1=5e8\n"), { partition = "pipedream", micro_batches = 4 })
      assert.equal(2, shared.stages[1].replicas)
      assert.near(2 * 0.3 + 0.5, shared.seconds, 1e-9) -- each replica updates all of it
   end)

   it("sends a gradient once to a device of which several nodes read it", function()
      for _, name in ipairs { "gpt2", "bert-base" } do
         local o = { devices = "sim:2x11GB", partition = "mixed", stages = 4, batch = 8,
            micro_batches = 8, source = 64 }
         local of_model, sent = ft.explore(name, o), 0
         assert.is_true(#of_model.stages > 2)
         for _, stage in ipairs(of_model.stages) do sent = sent + stage.sends_bytes end
         assert.equal(of_model.moved_bytes, o.micro_batches * sent) -- as its plan has it
      end
   end)

   it("sends a value once to a device that needs it in several stages", function()
      local text = ("device bytes_per_s=1e9\n"):rep(2)
      for i, id in ipairs { "a", "b", "c", "d" } do
         text = text .. ("node %s forward_ns=3e6 backward_ns=6e6 tie=%d\n"):format(id, 2 - i % 2)
      end
      -- the later stage is told first, and is not what the value is sent for
      text = text .. "edge a d bytes=1e6 grad_bytes=1e6\nedge a b bytes=1e6 grad_bytes=1e6\n"
         .. "edge b c bytes=1e3 grad_bytes=1e3\nedge c d bytes=1e3 grad_bytes=1e3\n"
      local graph = load(text)
      local result = { stage = { 1, 2, 3, 4 }, stage_device = { 1, 2, 1, 2 } }
      local cut = ft.stages.of(graph, graph.devices, result)
      local sent = {}
      for _, edge in ipairs(cut.edges) do
         sent[("%d %d"):format(edge.from, edge.to)] = { edge.bytes, edge.grad_bytes, edge.ns }
      end
      assert.same({ 1e6, 1e6, 1e6 }, sent["1 2"])
      assert.same({ 0, 0, 0 }, sent["1 4"])
      local problem = graph:problem()
      local priced = ft.partition.evaluate(problem, { 1, 2, 1, 2 }, { 1, 2, 3, 4 })
      assert.equal(priced.moved_bytes, ft.stages.moved_bytes(cut, 1))
   end)

   it("draws replicas of a stage at their work", function()
      local graph = load(("device bytes_per_s=10e9\n"):rep(3) .. "node a forward_ns=2e6 "
         .. "backward_ns=4e6 saved_bytes=1e6\n"
         .. "node b forward_ns=1e6 backward_ns=2e6 parameter_bytes=1e6\n"
         .. "edge a b bytes=1e6 grad_bytes=1e6\n")
      local subject = ft.explore(graph, { partition = "pipedream", micro_batches = 4 })
      assert.same({ 2, 1 }, subject.result.stage_replicas)
      local rows = {}
      for row in subject:timeline { columns = 60, ascii = true }:gmatch("|(%S+)|") do
         rows[#rows + 1] = row
      end
      assert.matches("F.*B", rows[2])
      assert.equal(rows[1], rows[2])
      local played, counts = subject:play(1, true), { 0, 0, 0 }
      for _, event in ipairs(core.json.decode(played.trace).traceEvents) do
         counts[event.pid + 1] = counts[event.pid + 1] + 1
      end
      assert.equal(counts[1], counts[2])
      assert.equal(2e6, played.memory[2].peak)
   end)

   it("sums gradients of replicas over the links between their hosts", function()
      local graph = load("node a forward_ns=1e6 backward_ns=2e6 parameter_bytes=4e6\n")
      local function plan(network, how)
         local devices = {}
         for d, host in ipairs { "a", "b" } do
            devices[d] = { name = host, host = host, memory = "11GB", flops = 10e12,
               bandwidth = "500GB/s", link = "10GB/s" }
         end
         return ft.explore(graph, { partition = how, micro_batches = 8,
            devices = ft.cluster { devices = devices, network = { bandwidth = network } } })
      end
      -- 4 MB each way around a ring of two, behind eight times the half of 3 ms
      assert.near(0.012 + 4e6 / 10e9, plan("10GB/s", "pipedream").seconds, 1e-4)
      assert.near(0.012 + 4, plan("1MB/s", "pipedream").seconds, 1e-3)
      assert.same({ 2 }, plan("10GB/s", "best").result.stage_replicas)
      assert.same({ 1 }, plan("1MB/s", "best").result.stage_replicas)
   end)

   it("is also cut for links that are slower than those of its devices", function()
      local text = ""
      for i = 1, 4 do
         text = text .. ("node n%d forward_ns=%de6 backward_ns=%de6\n"):format(i, i, 2 * i)
      end
      local graph = load(text .. "edge n1 n2 bytes=1e5 grad_bytes=1e5\n"
         .. "edge n2 n3 bytes=1e4 grad_bytes=1e4\nedge n3 n4 bytes=1e7 grad_bytes=1e7\n")
      local devices = {}
      for d, host in ipairs { "a", "b" } do
         devices[d] = { name = host, host = host, memory = "11GB", flops = 10e12,
            bandwidth = "500GB/s", link = "10GB/s" }
      end
      local function ends(network)
         return ft.explore(graph, { partition = "seq", micro_batches = 8, devices = ft.cluster {
            devices = devices, network = { bandwidth = network } } }).result.stage
      end
      assert.same({ 1, 1, 1, 2 }, ends "10GB/s")
      assert.same({ 1, 1, 2, 2 }, ends "100MB/s")
   end)

   it("knows kinds of devices that a graph was saved with", function()
      local devices = "sim:2x2080ti,2x3090"
      local graph = ft.graph("gpt2", { devices = devices, batch = 1, source = 32 })
      local again = ft.graph.read(graph:format("txt"), "gpt2.txt")
      local o = { devices = devices, micro_batches = 8 }
      assert.same(graph:problem(o).node_ns, again:problem(o).node_ns)
      assert.same(graph:problem(o).devices, again:problem(o).devices)
      -- one with times of two kinds alone has the third as the first, at their ratio
      local third = again:problem { devices = devices .. ",1x1080ti" }.devices[5]
      assert.equal(1, third.kind)
      assert.not_equal(1, third.slowdown)
      -- where the file says nothing of kinds, all are alike
      local plain = load("node a forward_ns=9\n"):problem { devices = devices }
      assert.equal(1, plain.devices[4].kind)
      assert.equal(1, plain.devices[4].slowdown)
   end)

   it("says how to have devices of two kinds", function()
      local graph = load("node a forward_ns=1e6 backward_ns=1e6\n"
         .. "node b forward_ns=1e6 backward_ns=1e6 ns2=1e6 kind2_only=1\nedge a b\n")
      local failure = files.failure(ft.explore, graph, { devices = "sim:2x11GB" })
      assert.matches("^my.graph: node b is kind2_only, and all devices are of kind 1; give devices "
         .. "of two speeds", failure.message)
      local subject = ft.explore(graph, { devices = "sim:1x2080ti,1x3090", partition = "seq" })
      assert.equal(2, subject.result.device[2])
   end)

   it("has replicas share the work of their stage, and each hold the whole", function()
      local problem = load(("device bytes_per_s=10e9\n"):rep(3) .. "node a forward_ns=2e6 "
         .. "backward_ns=4e6 parameter_bytes=1e6\nnode b forward_ns=1e6 backward_ns=2e6 "
         .. "parameter_bytes=1e6\nedge a b bytes=1e6 grad_bytes=1e6\n"):problem()
      local result = ft.partition(problem, { method = "pipedream" })
      assert.same({ 2, 1 }, result.stage_replicas)
      local times, memory = {}, {}
      for d, row in ipairs(result.loads) do
         times[d], memory[d] = row.compute_ns, row.memory_bytes
      end
      assert.same({ 3e6, 3e6, 3e6 }, times)
      assert.same({ 4e6, 4e6, 4e6 }, memory)
      assert.matches("device 1: 3.00 ms in 1 stage, 4.0 MB, sends 0.50 MB", tostring(result))
   end)

   it("says what the best of a comparison is, where a plan by best is another", function()
      local out = planned("node a forward_ns=1e6 backward_ns=2e6 parameter_bytes=4e6\n",
         "--devices", "sim:4x11GB", "--partition", "best", "--compare")
      assert.matches("partition pipedream, schedule 1f1b, 1 stage on 4 devices", out)
      assert.matches("\n  best +3.00 ", out)
      assert.matches("\nbest is that of the lines above with the shortest slowest device by cost "
         .. "model overlap, each stage on one device; %-%-partition best takes the fastest", out)
   end)

   it("counts buffers where what passes is read", function()
      local graph = load(("device memory_bytes=9e6\n"):rep(2) .. "node a forward_ns=1e6 "
         .. "backward_ns=1e6\nnode b forward_ns=1e6 backward_ns=1e6\n"
         .. "edge a b bytes=1e6 grad_bytes=3e5\n")
      local subject = ft.explore(graph, { partition = "seq", micro_batches = 4 })
      assert.matches("with 4 buffers between stages", subject.proof)
      assert.equal(2 * 3e5, subject.memory[1].parts.buffers)
      assert.equal(2 * 1e6, subject.memory[2].parts.buffers)
      assert.equal(2 * 1e6, subject.memory[2].total)
   end)

   it("is cut with room for buffers as well", function()
      -- two values of n2 wait at the second device, beside the state of n3 and n4
      local text = ("device memory_bytes=40e6\n"):rep(2)
      for i = 1, 4 do
         text = text .. ("node n%d forward_ns=1e6 backward_ns=1e6 parameter_bytes=%de6\n"):format(i,
            i < 4 and 2 or 6)
      end
      local graph = load(text .. "edge n1 n2 bytes=8\nedge n2 n3 bytes=6e6\n"
         .. "edge n3 n4 bytes=1e6\n")
      for _, recompute in ipairs { "auto", "never" } do
         local subject = ft.explore(graph,
            { partition = "seq", micro_batches = 4, recompute = recompute })
         assert.is_true(subject.fits)
         assert.same({ 1, 1, 1, 2 }, subject.result.stage)
      end
   end)

   it("names the file that nothing fits, the amount, and what would help", function()
      local text = ("device memory_bytes=60e6\n"):rep(2)
      for _, id in ipairs { "a", "b", "c" } do
         text = text .. ("node %s forward_ns=1e6 backward_ns=2e6 parameter_bytes=8e6\n"):format(id)
      end
      local _, err, exit = planned(text .. "edge a b bytes=1\nedge b c bytes=1\n")
      assert.equal(3, exit)
      assert.matches("my.graph: partition: no placement of 3 nodes on 2 devices keeps memory and "
         .. "the limits on stages; parameters and what training keeps beside them are 96.0 MB, the "
         .. "devices have 120.0 MB together; what would help: more devices; another partition or "
         .. "schedule; %-%-optimizer adafactor", err)
      local failure = files.failure(ft.explore, load(text), { recompute = "never" })
      assert.matches('would help: recompute = "auto"; more devices', failure.message)
   end)
end)

describe("ft.graph", function()
   it("says which flag takes what is a plan or a profile", function()
      for head, word in pairs { ["ftpipe-plan 1"] = "plan", ["ftpipe profile 2"] = "profile" } do
         assert.matches(("^x is no graph but a %s, [^\n]+: the option '%s' takes it, of ftpipe "
            .. "plan MODEL"):format(word, word),
            files.failure(ft.graph.read, head .. "\n", "x").message)
      end
   end)

   it("writes a .graph, which is our own text", function()
      files.in_directory(function(directory)
         local graph = load("node a forward_ns=1\nnode b forward_ns=1\nedge a b bytes=8\n")
         graph:save(directory .. "/copy.graph")
         assert.equal(graph:format("txt"), core.sys.read_file(directory .. "/copy.graph"))
         assert.equal(graph:format("txt"), ft.graph(directory .. "/copy.graph"):format("graph"))
      end)
   end)

   it("takes edges without a number as one value of their node", function()
      local text = "node a forward_ns=1\nnode b forward_ns=1\nnode c forward_ns=1\n"
         .. "edge a b bytes=8 grad_bytes=2\nedge a c bytes=8 grad_bytes=2%s\n"
      for more, bytes in pairs { [""] = 10, [" value=1"] = 20 } do
         local problem = load(text:format(more)):problem { devices = { {}, {} } }
         assert.equal(bytes, ft.partition.evaluate(problem, { 1, 2, 2 }).moved_bytes)
      end
   end)
end)
