local core = require("ftpipe.core")
local ft = require("ftpipe")
local files = require("spec.support.files")
local process = require("spec.support.process")
local xml = require("ftpipe.text.xml")

local function plan(...) return process.ftpipe { "plan", ... } end

local CHAIN = [[
ftpipe weighted graph 1
node a forward_ns=1000000 backward_ns=2000000 parameter_bytes=1000
node b forward_ns=1000000 backward_ns=2000000 parameter_bytes=1000
node c forward_ns=2000000 backward_ns=4000000 parameter_bytes=1000
edge a b bytes=1000 grad_bytes=1000
edge b c bytes=1000 grad_bytes=1000
]]

local function with_chain(body)
   files.in_directory(function(dir)
      core.sys.write_file(dir .. "/chain.txt", CHAIN)
      body(dir .. "/chain.txt")
   end)
end

describe("ftpipe plan", function()
   it("plans a model that nobody here could hold", function()
      local out, err, exit = plan("t5-3b", "--devices", "sim:4x11GB", "--max-source", "320",
         "--batch", "40", "--micro-batches", "5", "--optimizer", "adafactor", "--mem")
      assert.equal(0, exit, err)
      assert.matches("partition mixed, schedule 1f1b, %d stages on 4 devices", out)
      assert.matches("weights", out)
      assert.matches("predicted: [%d.]+ s a batch, [%d.]+ samples/s", out)
      assert.matches("proved: completes on any timing with %d+ buffers between stages", out)
      assert.matches("critical path: backward %d+ %%, forward %d+ %%", out)
   end)

   it("plans a graph file; balanced stages are as fast as they can be", function()
      with_chain(function(path)
         local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--schedule", "async",
            "--micro-batches", "4", "--batch", "4", "--format", "json")
         assert.equal(0, exit, err)
         local data = core.json.decode(out)
         -- four micro-batches of 6 ms on the slower device
         assert.is_true(math.abs(data.seconds_per_batch - 24e-3) < 0.1e-3)
         assert.equal(2, #data.stages)
         assert.same({ 0, 0, 1 }, { unpack(data.node_stage) })
         assert.equal(4 * 2000, data.moved_bytes)
      end)
   end)

   it("plans a graph file with the staleness that is asked for", function()
      with_chain(function(path)
         local function data_of(...)
            local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--schedule", "async",
               "--partition", "seq", "--micro-batches", "1", "--batch", "1", "--format", "json",
               ...)
            assert.equal(0, exit, err)
            return core.json.decode(out)
         end
         local free, stashed = data_of(), data_of("--staleness", "stash")
         assert.equal(1, free.stages[1].most_staleness)
         assert.equal(free.stages[1].parameter_bytes,
            stashed.devices[1].classes.versions)
         local held = data_of("--max-staleness", "0")
         assert.equal(0, held.stages[1].most_staleness)
         assert.is_true(held.seconds_per_batch > free.seconds_per_batch)
      end)
   end)

   it("says that nothing moves where all is within its budget", function()
      for _, how in ipairs { "auto", "activations" } do
         local out, err, exit = plan("t5-small", "--devices", "sim:2x8GB", "--swap", how)
         assert.equal(0, exit, err)
         assert.matches("\nswaps: none, every device is within its budget\n", out)
      end
   end)

   it("takes costs from a profile, measured or calibrated", function()
      files.in_directory(function(dir)
         local shape = { "--devices", "sim:2x8GB", "--max-source", "16", "--max-target", "4" }
         local function run(...)
            local words = { ... }
            for _, word in ipairs(shape) do words[#words + 1] = word end
            local out, err, exit = process.ftpipe(words)
            assert.equal(0, exit, err)
            return out
         end
         run("profile", "t5-small", "--batch", "2", "--out", dir .. "/p")
         local text = core.sys.read_file(dir .. "/p")
         -- everything takes a millisecond and 4 ns
         core.sys.write_file(dir .. "/p", (text:gsub("(ward %d+) [%d.]+", "%1 1000004.0")))
         local function seconds(...)
            local out = run("plan", "t5-small", "--batch", "8", "--micro-batches", "4",
               "--partition", "seq", "--format", "json", ...)
            return core.json.decode(out).seconds_per_batch
         end
         assert.is_true(seconds("--profile", dir .. "/p") > 20 * seconds())
         assert.matches("\ncosts: modelled on sim:2x8GB %(" .. dir:gsub("%p", "%%%0") .. "/p%)\n",
            run("plan", "t5-small", "--batch", "8", "--micro-batches", "4", "--profile",
               dir .. "/p"))
         local _, err, exit = plan("t5-small", "--devices", "sim:2x8GB", "--profile", dir .. "/p")
         assert.equal(2, exit)
         assert.matches("profile .*/p was measured for another model, batch or length: "
            .. "its micro%-batches have input_ids i32%(2, 16%), these i32%(4, 128%); measure "
            .. "these %(ftpipe profile, ft.profile%), or give none\n$", err)
         core.sys.write_file(dir .. "/m", (text:gsub("source modelled", "source measured")))
         local function costs(optimizer)
            return run("plan", "t5-small", "--batch", "8", "--micro-batches", "4", "--profile",
               dir .. "/m", "--optimizer", optimizer):match("\ncosts: measured on sim:2x8GB "
               .. "%(%S+/m%)([^\n]*)\n")
         end
         assert.equal("", costs("adamw"))
         assert.equal(", updates of adamw in place of sgd", costs("sgd"))
      end)
   end)

   it("gives tables as numbers in JSON", function()
      local out, err, exit = plan("t5-small", "--devices", "sim:2x2GB", "--batch", "8",
         "--schedule", "1f1b", "--search", "--compare", "--format", "json")
      assert.equal(0, exit, err)
      local data, methods = core.json.decode(out), {}
      for i, row in ipairs(data.compare) do
         methods[i] = row.method
         assert.is_true(row.slowest_ns > 0 and row.balance <= 1 and row.memory_bytes > 0)
      end
      assert.equal("seq mixed pipedream greedy best", table.concat(methods, " "))
      for i, row in ipairs(data.search) do
         assert.equal(i == 1, row.chosen)
         assert.is_true(row.over_bytes > 0 or row.seconds_per_batch >= data.seconds_per_batch)
      end
   end)

   it("splits the backwards of a graph file where the schedule does", function()
      with_chain(function(path)
         local seconds = {}
         for _, schedule in ipairs { "1f1b", "zero-bubble" } do
            local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--schedule", schedule,
               "--micro-batches", "4", "--batch", "4", "--partition", "seq", "--format", "json")
            assert.equal(0, exit, err)
            seconds[schedule] = core.json.decode(out).seconds_per_batch
         end
         -- two stages of 6 ms, four micro-batches: 1f1b waits for one more; no schedule is faster
         -- than the work
         assert.is_true(math.abs(seconds["1f1b"] / 30e-3 - 1) < 0.01, seconds["1f1b"])
         assert.is_true(seconds["zero-bubble"] < 29e-3, seconds["zero-bubble"])
         assert.is_true(seconds["zero-bubble"] >= 24e-3, seconds["zero-bubble"])
      end)
   end)

   it("recomputes in a graph file where memory asks for it, and says what does not fit", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/g", "ftpipe weighted graph 1\n"
            .. "node a forward_ns=1e6 backward_ns=2e6 saved_bytes=100e6 parameter_bytes=1e6\n"
            .. "node b forward_ns=1e6 backward_ns=2e6 saved_bytes=100e6 parameter_bytes=1e6\n"
            .. "edge a b bytes=1000 grad_bytes=1000\n")
         local function of(devices, ...)
            return plan(dir .. "/g", "--devices", devices, "--partition", "seq", "--schedule",
               "gpipe", "--micro-batches", "4", "--batch", "4", ...)
         end
         local out = of("sim:2x1GB")
         assert.not_matches("recomputed", out)
         assert.matches("\n  [^\n]*404.0 MB", out) -- 4 x 100 MB, and 4 x 1 MB of parameters
         out = of("sim:2x1GB", "--recompute", "always", "--mem")
         assert.matches("4 micro%-batches, 2 stages recomputed", out)
         assert.equal(2, select(2, out:gsub("\n  %d+ +sim[^\n]* 3.00 +yes ", ""))) -- 1 and 2 ms
         -- one micro-batch at a time; what waits is the input, 1 kB, and of stage 0 from outside
         assert.equal(2, select(2, out:gsub("\n  sim:%d card +104.0 MB ", "")))
         -- forwards until 5 ms, from there 4 x 3 ms in stage 1, and 3 ms more in stage 0
         assert.matches("\npredicted: 20 ms a batch", out)
         local _, err, exit = of("sim:2x300MB", "--recompute", "never")
         assert.equal(3, exit, err)
         out, err, exit = of("sim:2x300MB")
         assert.equal(0, exit, err)
         assert.matches("2 stages recomputed", out)
         out, err, exit = of("sim:2x150MB", "--schedule", "1f1b") -- the last one holds one anyway
         assert.equal(0, exit, err)
         assert.matches("1 stage recomputed", out)
         assert.matches("\n  1 +sim:1 card +1 +1.00 +2.00 +%- +1 ", out)
         _, err, exit = of("sim:2x90MB")
         assert.equal(3, exit)
         assert.matches("device sim:%d card needs 104.0 MB of memory, its budget is 90.0 MB: "
            .. "14.0 MB too much; ", err)
         assert.equal(1, select(2, err:gsub("\n", "")), err)
      end)
   end)

   it("counts frozen weights of a graph file once: they are not trained", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/g", "ftpipe weighted graph 1\n"
            .. "node a forward_ns=1e6 backward_ns=1e6 parameter_bytes=1e9 frozen_bytes=1e9\n"
            .. "node b forward_ns=1e6 backward_ns=1e6 parameter_bytes=1e9 frozen_bytes=9e8\n"
            .. "edge a b\n")
         local function devices_of(...)
            local out, err, exit = plan(dir .. "/g", "--devices", "sim:2x2GB", "--partition",
               "seq", "--format", "json", ...)
            assert.equal(0, exit, err)
            return core.json.decode(out).devices
         end
         local devices = devices_of()
         assert.equal(1e9, devices[1].classes.parameters)
         assert.equal(4 * 1e8 + 9e8, devices[2].classes.parameters) -- AdamW: 4 of what is trained
         devices = devices_of("--schedule", "2bw") -- two versions of what is trained
         assert.same({ 0, 1e8 }, { devices[1].classes.versions, devices[2].classes.versions })
      end)
   end)

   it("cuts a graph file as its stages recompute", function()
      files.in_directory(function(dir)
         local lines = { "ftpipe weighted graph 1" }
         for i = 1, 6 do
            lines[#lines + 1] = ("node n%d forward_ns=1e6 backward_ns=1e6"):format(i)
            lines[#lines + 1] = i > 1 and ("edge n%d n%d"):format(i - 1, i) or nil
         end
         core.sys.write_file(dir .. "/g", table.concat(lines, "\n") .. "\n")
         local out, err, exit = plan(dir .. "/g", "--devices", "sim:2x1GB", "--partition", "seq",
            "--recompute", "always", "--format", "json", "--compare")
         assert.equal(0, exit, err)
         local data = core.json.decode(out)
         -- 3 x 3 ms in both; a last stage that kept its activations would take 4 x 2 ms
         assert.same({ 0, 0, 0, 1, 1, 1 }, { unpack(data.node_stage) })
         for _, row in ipairs(data.compare) do assert.equal(9e6, row.slowest_ns, row.method) end
      end)
   end)

   it("is no slower with --recompute auto than with never or always", function()
      files.in_directory(function(dir)
         -- room for what two micro-batches of one node keep, not of both that keep something
         core.sys.write_file(dir .. "/g", "ftpipe weighted graph 1\n"
            .. "node a forward_ns=1e6 backward_ns=2e6 saved_bytes=100e6\n"
            .. "node b forward_ns=1e6 backward_ns=2e6 saved_bytes=100e6\n"
            .. "node c forward_ns=10e6 backward_ns=20e6\nnode d forward_ns=10e6 backward_ns=20e6\n"
            .. "edge a b\nedge b c\nedge c d\n")
         local seconds = {}
         for _, rule in ipairs { "auto", "never", "always" } do
            seconds[rule] = ft.explore(dir .. "/g", { devices = "sim:2x250MB", partition = "seq",
               recompute = rule, micro_batches = 4, batch = 4, schedule = "1f1b" }).seconds
         end
         assert.is_true(seconds.always < seconds.never)
         assert.is_true(seconds.auto <= seconds.always)
      end)
   end)

   it("has at most two stages for each device where nobody says how many", function()
      files.in_directory(function(dir)
         local lines = { "ftpipe weighted graph 1" }
         for i = 1, 40 do -- longer and longer, so that many short stages balance best
            lines[#lines + 1] = ("node n%d forward_ns=%de5 backward_ns=%de5"):format(i, i, 2 * i)
            lines[#lines + 1] = i > 1 and ("edge n%d n%d"):format(i - 1, i) or nil
         end
         core.sys.write_file(dir .. "/g", table.concat(lines, "\n") .. "\n")
         local function stages_of(...)
            local out, err, exit = plan(dir .. "/g", "--devices", "sim:3x1GB", "--format", "json",
               "--compare", ...)
            assert.equal(0, exit, err)
            local data = core.json.decode(out)
            return #data.stages, data.compare[2].stages, data.compare[2].method
         end
         local most, compared, method = stages_of()
         assert.is_true(most <= 6 and compared <= 6)
         assert.equal("mixed", method)
         most, compared = stages_of("--stages", "20")
         assert.is_true(most > 6 and compared > 6)
      end)
   end)

   it("plays every schedule over a graph file", function()
      with_chain(function(path)
         for _, schedule in ipairs { "gpipe", "zero-bubble", "async", "2bw" } do
            local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--partition", "seq",
               "--schedule", schedule, "--format", "json")
            assert.equal(0, exit, err)
            local seconds = core.json.decode(out).seconds_per_batch
            -- eight micro-batches of 6 ms on both devices, and at most what both take to fill
            assert.is_true(seconds > 48e-3 - 1e-6 and seconds < 48e-3 + 7e-3, schedule)
         end
      end)
   end)

   it("says first that a file is not there", function()
      process.refused(2, "^ftpipe: there is no recipe 'recipes/t5_rtee.lua' %(did you mean "
         .. "'t5_rte.lua'%?%); see", { "plan", "recipes/t5_rtee.lua", "--lr", "1" })
      for _, name in ipairs { "no.graph", "no.json", "no.graphml", "no.txt" } do
         process.refused(2, "^ftpipe: there is no file '" .. name .. "'", { "plan", name,
            "--devices", "sim:2x11GB" })
      end
   end)

   it("refuses tokens of answers that a model has none of, and a search for what is decided",
      function()
         local refusal = "%-%-max%-target is of answers beside their inputs, and bert%-base reads "
            .. "inputs alone: leave it out\n"
         local words = { "plan", "bert-base", "--devices", "sim:2x11GB", "--max-target", "30" }
         process.refused(2, refusal, words)
         words[#words + 1] = "--search"
         process.refused(2, refusal, words)
         process.refused(2, "%-%-plan decides all that is searched for; leave it out, or do not "
            .. "search\n", { "plan", "t5-small", "--plan", "plan.txt", "--search" })
      end)

   it("takes an effort where something is searched for, and in trials that try partitions",
      function()
         local words = { "plan", "t5-small", "--devices", "sim:2x11GB", "--batch", "4",
            "--micro-batches", "2", "--schedule", "1f1b", "--effort", "0.1" }
         local function with(...)
            local all = { unpack(words) }
            for _, word in ipairs { ... } do all[#all + 1] = word end
            return all
         end
         local refusal = "%-%-effort is for partitioners that search %(best, mixed%), and "
            .. "%-%-partition seq does not: leave it out\n"
         process.refused(2, refusal, with("--partition", "seq"))
         process.refused(2, refusal, with("--partition", "seq", "--search"))
         process.refused(2, "%-%-plan decides what %-%-effort says, leave one out", { "plan",
            "t5-small", "--plan", "plan.txt", "--effort", "1" })
         for _, more in ipairs { {}, { "--search" }, { "--partition", "seq", "--compare" } } do
            local _, err, exit = process.ftpipe(with(unpack(more)))
            assert.equal(0, exit, err)
         end
         local _, err, exit = process.trial(with("--partition", "seq"))
         assert.equal(0, exit, err)
      end)

   it("searches what is not given, and prints flags that repeat it", function()
      for _, schedule in ipairs { "gpipe", "data-parallel" } do
         local out, err, exit = plan("t5-small", "--devices", "sim:2x11GB", "--batch", "12",
            "--schedule", schedule, "--search")
         assert.equal(0, exit, err)
         assert.not_matches("1f1b", out)
         local flags = out:match("\nchosen: ([^\n]+)")
         assert.matches("--schedule " .. schedule, flags, 1, true)
         local words = {}
         for word in flags:gmatch("%S+") do words[#words + 1] = word end
         local again = plan("t5-small", "--devices", "sim:2x11GB", "--batch", "12", unpack(words))
         assert.equal(out:match("predicted: [^\n]+"), again:match("predicted: [^\n]+"))
      end
   end)

   it("compares all partitioners", function()
      with_chain(function(path)
         local out, _, exit = plan(path, "--devices", "sim:2x11GB", "--compare")
         assert.equal(0, exit)
         assert.matches(" samples/s of 4 a micro%-batch, [%d.]+ %a+ moved a batch\n", out)
         assert.matches("\n  method .* moved a micro%-batch ", out)
         assert.matches("\n  seq [^\n]* optimal of contiguous  ", out)
         for _, method in ipairs(ft.partition.methods) do
            if method.name == "pack" then -- for devices that swap
               assert.not_matches("\n  pack ", out)
            else
               assert.matches("\n  " .. method.name .. " +6.00 +1.000", out)
            end
         end
      end)
   end)

   it("counts memory of partitioners as plans do, by what the schedule keeps in flight", function()
      local lines = { "ftpipe weighted graph 1" } -- two of the stages do not wait for each other
      for name in ("abcd"):gmatch(".") do
         lines[#lines + 1] = ("node %s forward_ns=1e6 backward_ns=2e6 saved_bytes=1e6"):format(name)
      end
      for _, edge in ipairs { "a b", "a c", "b d", "c d" } do
         lines[#lines + 1] = ("edge %s bytes=10"):format(edge)
      end
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/d.txt", table.concat(lines, "\n") .. "\n")
         for schedule, bytes in pairs { ["1f1b"] = 3e6, gpipe = 8e6 } do
            local data = core.json.decode((plan(dir .. "/d.txt", "--devices", "sim:4x11GB",
               "--partition", "mixed", "--compare", "--schedule", schedule, "--format", "json")))
            local most = 0
            for _, device in ipairs(data.devices) do most = math.max(most, device.bytes) end
            assert.near(bytes, most, 1e3) -- and what passes between stages
            for _, row in ipairs(data.compare) do
               local is_same = row.method == "mixed" or row.method == "seq"
               assert.equal(is_same and most or row.memory_bytes, row.memory_bytes)
            end
         end
      end)
   end)

   it("compares by the cost model that is asked for, pipedream's stages too", function()
      local problem = {
         node_ns = { 10, 10, 10, 10 }, devices = { { bytes_per_s = 1e9 }, { bytes_per_s = 1e9 } },
         edge_from = { 1, 2, 3 }, edge_to = { 2, 3, 4 }, edge_bytes = { 6, 6, 6 },
         fixed_bytes = { 1e3, 1e3, 1e3, 1e3 }, -- to be summed over replicas
      }
      local function pipedream_of(cost)
         for _, row in ipairs(ft.compare(problem, { cost = cost })) do
            if row.method == "pipedream" then return row end
         end
      end
      local row = pipedream_of("sum")
      assert.same({ 26, false }, { row.result.objective_ns, row.own_model })
      problem.fixed_bytes = nil -- both devices have all nodes, and send nothing
      row = pipedream_of("sum")
      assert.same({ 20, true }, { row.result.objective_ns, row.own_model })
      assert.matches("pipedream +0.00 .* of its own model", tostring(ft.compare(problem,
         { cost = "sum" })))
      row = pipedream_of("pipedream")
      assert.same({ 20, false }, { row.result.objective_ns, row.own_model })
   end)

   it("prints every format", function()
      with_chain(function(path)
         local heads = {
            json = "^{", html = "^<!DOCTYPE html>", svg = "^<svg ", dot = "^digraph ",
            graphml = "^<%?xml",
         }
         for format, head in pairs(heads) do
            local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--format", format)
            assert.equal(0, exit, err)
            assert.matches(head, out)
            if format == "html" then -- one page that loads nothing
               assert.is_nil(out:find("src=", 1, true) or out:find("<link", 1, true))
               local svgs = {}
               for svg in out:gmatch("<svg .-</svg>") do
                  svgs[#svgs + 1] = svg
                  assert.has_no.errors(function() xml.read(svg, "page") end)
               end
               assert.equal(2, #svgs) -- in time: forward, backward of 8 micro-batches, update
               assert.equal(2 * 2 * (8 + 8 + 1), select(2, svgs[1]:gsub("<rect [^>]*/>", "")))
            end
         end
      end)
   end)

   it("says what would help when nothing fits: exit 3", function()
      local out, err, exit = plan("t5-3b", "--devices", "sim:2x11GB", "--optimizer", "adamw",
         "--batch", "8", "--micro-batches", "4")
      assert.equal(3, exit)
      assert.matches("stages on 2 devices", out)
      assert.matches("^does not fit: ", out)
      assert.matches("needs [%d.]+ MB of memory, its budget is 11000%.0 MB: [%d.]+ GB too much; "
         .. "no placement fits: .*; what would help", err)
      assert.matches("%-%-optimizer adafactor: saves [%d.]+ GB", err)
      assert.equal(1, select(2, err:gsub("\n", "")))
   end)

   it("marks the partitions that do not fit", function()
      local small = { "t5-small", "--batch", "8", "--compare", "--format", "json", "--devices" }
      local function rows(devices)
         local words = { unpack(small) }
         words[#words + 1] = devices
         local out = plan(unpack(words))
         return core.json.decode(out).compare
      end
      for _, row in ipairs(rows("sim:2x2GB")) do assert.equal(0, row.over_bytes) end
      local tight = rows("sim:2x300MB")
      for _, row in ipairs(tight) do assert.equal(row.memory_bytes - 300e6, row.over_bytes) end
      local out, _, exit = plan("t5-small", "--batch", "8", "--compare", "--devices", "sim:2x300MB")
      assert.equal(3, exit)
      assert.matches("\n  seq [^\n]*no, [%d.]+ [MG]B over", out)
   end)

   it("plans a recipe by its own flags, with its memory by class", function()
      local recipe = { "recipes/t5_rte.lua", "--devices", "sim:2x11GB", "--profile", "modelled" }
      local out, err, exit = plan(unpack(recipe))
      assert.equal(0, exit, err)
      assert.matches("memory:\n  sim:0 card +[%d.]+ of 11000 MB: weights ", out .. err)
      for _, flag in ipairs { "--search", "--mem" } do
         recipe[6] = flag
         out, err, exit = plan(unpack(recipe))
         assert.same({ "", 2 }, { out, exit })
         assert.matches(flag:gsub("%-", "%%-") .. " is for models and graph files; "
            .. "recipes/t5_rte.lua is planned once, by its own flags, with its memory", err)
      end
      recipe[6] = "--search-x" -- none of plan's: the recipe says whether it is its own
      out, err, exit = plan(unpack(recipe))
      assert.same({ "", 2 }, { out, exit })
      assert.matches("unknown flag '%-%-search%-x'", err)
   end)

   it("refuses flags that would be passed over", function()
      local function refused(words, ...)
         process.refused(2, words, { "plan", "t5-small", "--devices", "sim:2x8GB", ... })
      end
      refused("%-%-cost is what %-%-compare counts; leave it out, or give %-%-compare", "--cost",
         "sum")
      for _, format in ipairs { "svg", "dot", "graphml" } do
         for _, flag in ipairs { "--compare", "--mem" } do
            refused(flag:gsub("%-", "%%-") .. " is for formats table, json, html, not for "
               .. format .. "; leave it out, or give another %-%-format", flag, "--format", format)
         end
      end
      for _, format in ipairs { "table", "json" } do
         refused("%-%-depth is for formats html, svg, dot, graphml, not for " .. format
            .. "; leave it out, or give another %-%-format", "--depth", "3", "--format", format)
      end
      with_chain(function(path) -- of a graph file it is what the cut is made by
         local _, err, exit = plan(path, "--devices", "sim:2x11GB", "--cost", "sum")
         assert.equal(0, exit, err)
      end)
   end)

   it("refuses what it cannot plan with one line", function()
      local function refused(code, pattern, ...)
         process.refused(code, pattern, { "plan", ... })
      end
      refused(2, "plan needs a model or a graph file")
      refused(2, "%-%-staleness stash is for async; %-%-schedule 1f1b drains", "t5-small",
         "--staleness", "stash", "--devices", "sim:2x8GB")
      refused(2, "%-%-max%-staleness 1 is for async; %-%-schedule gpipe drains", "t5-small",
         "--max-staleness", "1", "--schedule", "gpipe", "--devices", "sim:2x8GB")
      refused(2, "%-%-batch 100000000 in 8 micro%-batches: node [^\n]*less than 2%^51", "gpt2-xl",
         "--batch", "100000000", "--devices", "sim:4x11GB")
      refused(2, "schedule 2bw: every weight is read one update late, but 0", "t5-small",
         "--max-staleness", "0", "--schedule", "2bw", "--devices", "sim:2x8GB")
      process.refused(2, "profile has a model already, t5%-small; leave %-%-model out",
         { "profile", "t5-small", "--model", "gpt2" })
      refused(2, "%-%-batch 11 is not a multiple", "t5-small", "--batch", "11")
      refused(2, "%-%-cost is what %-%-compare counts; leave it out, or give %-%-compare",
         "t5-small", "--cost", "sum")
      refused(6, "%-%-model t5%-medium is no file or directory, nor in .*, nor a built%-in",
         "t5-medium")
      with_chain(function(path)
         refused(2, "names no devices", path)
         for _, words in ipairs { { "--max-source", "8" }, { "--lora", "4" },
            { "--precision", "bf16" }, { "--swap", "auto" } } do
            refused(2, words[1]:gsub("%-", "%%-") .. " is for models, .* is a graph", path,
               words[1], words[2], "--devices", "sim:2x11GB")
         end
         core.sys.write_file(path, "ftpipe weighted graph 1\nnode a forward_ns=-1\n")
         refused(6, "chain%.txt:2: forward_ns is %-1", path, "--devices", "sim:2x11GB")
         core.sys.write_file(path, "ftpipe weighted graph 1\nnode a forward_ns=1 "
            .. "parameter_bytes=9007199254740992\n")
         refused(2, "chain%.txt: partition: [^\n]*%(a%) needs 36028797018963968 bytes, expected 0 "
            .. "or more, and all nodes less than 2%^51", path, "--devices", "sim:2x11GB")
         core.sys.write_file(path, "ftpipe weighted graph 1\nnode a forward_ns=2e12\n")
         refused(2, "chain%.txt: cost: [^\n]*takes 2000 s, expected 0 to 1000", path,
            "--devices", "sim:1x11GB")
         core.sys.write_file(path, "ftpipe weighted graph 1\nnode a\nnode b\n")
         refused(6, "chain%.txt: a batch takes no time, expected nodes with forward_ns", path,
            "--devices", "sim:2x11GB", "--format", "json")
      end)
   end)
end)

describe("ftpipe plan GRAPHFILE --search", function()
   it("takes the fastest of what is tried, for the file's micro-batches", function()
      with_chain(function(path)
         local out, err, exit = plan(path, "--devices", "sim:2x11GB", "--search", "--micro-batches",
            "4", "--format", "json")
         assert.equal(0, exit, err)
         local data, least, chosen = core.json.decode(out, "plan"), math.huge, nil
         for _, row in ipairs(data.search) do
            assert.equal(4, row.micro_batches)
            if row.chosen then chosen = row end
            if not row.problem then
               -- a row is what ft.explore makes of the same choice
               local subject = ft.explore(path, { devices = "sim:2x11GB", schedule = row.schedule,
                  partition = row.partition, stages = row.stages, micro_batches = 4 })
               assert.near(row.seconds_per_batch, subject.seconds, 1e-9)
               least = math.min(least, row.seconds_per_batch)
            end
         end
         assert.is_true(#data.search > 10)
         assert.equal(least, chosen.seconds_per_batch)
         assert.equal("async", chosen.schedule)
         assert.near(1.05, chosen.worst_seconds_per_batch / least, 1e-3)
      end)
   end)

   it("keeps what is given, and searches from Lua", function()
      with_chain(function(path)
         local found = ft.planner(path, { devices = "sim:2x11GB", schedules = { "gpipe", "1f1b" },
            partition = "seq" })
         assert.equal(2, #found.rows)
         assert.equal(8, found.best.options.micro_batches)
         assert.matches("chosen: micro_batches = 8, schedule = \"gpipe\"", tostring(found))
         assert.matches("ft.planner: the graph names no devices", files.fault(ft.planner, path, {}))
      end)
   end)

   it("says that nothing fits", function()
      with_chain(function(path)
         local _, err, exit = plan(path, "--devices", "sim:2x1kB", "--search")
         assert.equal(3, exit)
         assert.matches("nothing fits\nftpipe: %S+chain.txt: partition: node 1 %(a%) needs", err)
         _, err, exit = plan(path, "--search")
         assert.equal(2, exit)
         assert.matches("names no devices; give %-%-devices", err)
      end)
   end)
end)
