local arrange = require("ftpipe.placement.arrange")
local core = require("ftpipe.core")
local cluster = require("ftpipe.placement.cluster")
local explore = require("ftpipe.planner.explore")
local files = require("spec.support.files")
local pipeline = require("spec.support.pipeline")
local plans = require("ftpipe.plan")
local playing = require("ftpipe.schedule.played")
local schedules = require("ftpipe.schedule")

local function refused(pattern, ...)
   local problem = files.failure(cluster, ...)
   assert.matches(pattern, problem.message)
   assert.equal(2, problem.exit)
end

describe("a cluster from a text", function()
   it("is cards by name, joined by plus signs", function()
      local c = cluster "2xh200+4x3090/20GB"
      assert.equal(6, #c)
      assert.equal(141e9, c[2].memory_bytes)
      assert.equal(20e9, c[3].memory_bytes)
      assert.equal("sim:2 3090", c[3].name)
      assert.equal(2 * 141e9 + 4 * 20e9, c:memory_bytes())
   end)

   it("is sizes, or what --devices takes", function()
      assert.equal(4, #cluster "4x11GB")
      assert.equal(8, #cluster "sim:8x2080ti")
      assert.equal("cpu", (cluster "cpu:2")[1].kind)
   end)

   it("prints equal devices on one line", function()
      local text = tostring(cluster "2xh200+4x3090")
      assert.matches("^cluster sim:2xh200%+4x3090: 6 devices, 378.0 GB\n", text)
      assert.matches("\n  sim:0 to sim:1: 2 x h200 +141.0 GB, 50.9 TFLOP/s, "
         .. "memory 4080 GB/s, link 450 GB", text)
      assert.matches("\n  sim:2 to sim:5: 4 x 3090 ", text)
   end)

   it("has measured rates when asked for", function()
      local c = cluster("cpu:2", { measure = true })
      local keys = { "flops_per_s", "bytes_per_s", "link_bytes_per_s", "link_latency_ns" }
      for _, key in ipairs(keys) do
         assert.is_true(c[1][key] > 0)
         assert.equal(c[1][key], c[2][key])
      end
   end)

   it("names the nearest card, and what else is wrong", function()
      assert.matches("did you mean 2080ti%?", files.failure(cluster, "8x2080tj").message)
      assert.matches("a card: 1080ti 2080ti", files.failure(cluster, "8xgadget").message)
      assert.matches("number of devices", files.failure(cluster, "0x2080ti").message)
      assert.matches("only cpu:N can", files.failure(cluster, "2xv100", { measure = true }).message)
      refused("got a number", 7)
   end)
end)

describe("a cluster from a table", function()
   local function two_hosts()
      return cluster {
         name = "shed",
         devices = {
            { card = "2080ti", count = 2, host = "a" },
            { name = "old", memory = "6GB", flops = 4e12, bandwidth = "200GB/s", link = "6GB/s",
               host = "b" },
         },
         hosts = { a = { bandwidth = "10GB/s", latency = "2us", shared = true } },
         network = { bandwidth = "1.2GB/s", latency = "30us" },
         links = { { from = 1, to = 2, bandwidth = "50GB/s", latency = "1us" } },
      }
   end

   it("is what the reference's example in full says", function()
      local page = core.sys.read_file("doc/lua.md")
      local code = page:match("\n    (ft%.cluster {%s+%-%- in full\n.-\n    })")
      local c = setfenv(loadstring("return " .. code), { ft = { cluster = cluster } })()
      assert.equal(5, #c)
      assert.equal(6e9, c[5].memory_bytes)
      assert.equal(50e9, c:link(2, 1).bytes_per_s)
      assert.equal(5e9, c:link(1, 5).bytes_per_s)
   end)

   it("takes from a card what its row does not say", function()
      local c = two_hosts()
      assert.equal(3, #c)
      assert.equal(11e9, c[2].memory_bytes)
      assert.equal(6e9, c[3].memory_bytes)
      assert.equal(4e12, c[3].flops_per_s)
      assert.equal("sim:2 old", c[3].name)
   end)

   it("has the narrowest part of each way, and all latencies", function()
      local c = two_hosts()
      assert.equal(50e9, c:link(1, 2).bytes_per_s)
      assert.is_true(math.abs(c:link(2, 1).latency_ns - 1000) < 1e-6)
      assert.equal(1.2e9, c:link(1, 3).bytes_per_s)
      assert.is_true(math.abs(c:link(3, 2).latency_ns - (10000 + 2000 + 30000)) < 1e-6)
      assert.is_nil(c:link(2, 2))
   end)

   it("has links of pairs in one direction or both", function()
      local c = cluster {
         devices = { { card = "2080ti", count = 3 } },
         links = { { from = 1, to = 2, bandwidth = "50GB/s", one_way = true },
            { from = 2, to = 3, bandwidth = "60GB/s" } },
      }
      local usual = c[1].link_bytes_per_s
      assert.equal(50e9, c:link(1, 2).bytes_per_s)
      assert.equal(usual, c:link(2, 1).bytes_per_s)
      assert.equal(60e9, c:link(3, 2).bytes_per_s)
      assert.equal(usual, c:link(1, 3).bytes_per_s) -- not through device 2
   end)

   it("prints hosts and network", function()
      local text = tostring(two_hosts())
      assert.matches("^cluster shed: 3 devices, 28.0 GB\n", text)
      assert.matches("\n  sim:0 to sim:1: 2 x 2080ti .* in a\n", text)
      assert.matches("\n  host a +10 GB/s, 2 us, shared by all transfers\n", text)
      assert.matches("\n  network +1.2 GB/s, 30 us\n", text)
   end)

   it("prints links of pairs", function()
      local c = two_hosts()
      assert.matches("\n  sim:0 and sim:1 +50 GB/s, 1 us$", tostring(c))
      assert.equal(50e9, core.json.decode(c:json()).links[1].bytes_per_s)
      assert.matches("\n  sim:0 to sim:1 +9 GB/s, 10 us$", tostring(cluster {
         devices = { { card = "2080ti", count = 2 } },
         links = { { from = 1, to = 2, bandwidth = "9GB/s", one_way = true } },
      }))
   end)

   it("is what plans are made for, links included", function()
      local model = pipeline.model_of {
         model_type = "gpt2", vocab_size = 60, n_embd = 16, n_layer = 2, n_head = 2,
         n_positions = 16, n_ctx = 16,
      }
      local function seconds(bandwidth)
         local plan = plans.new {
            model = model, batch = 4, micro_batches = 2,
            devices = cluster {
               devices = { { card = "t4", latency = 0 }, { card = "v100" } },
               links = { { from = 1, to = 2, bandwidth = bandwidth } },
            },
            buckets = { 16 }, partition = "seq", schedule = "gpipe", recompute = "never",
            optimizer = "sgd", hypers = {}, clip = 0, seed = 1, dropout = 0, steps = 2, batches = 2,
         }
         assert.is_true(plan.only)
         assert.matches("2 devices %(described%)", tostring(plan):match("^[^\n]*"))
         return plan:simulate(2).seconds
      end
      assert.is_true(seconds("1MB/s") > 2 * seconds("10GB/s"))
   end)

   it("is what partitioners place stages on", function()
      local function stages(how)
         return pipeline.plan {
            devices = cluster { devices = { { card = "t4" }, { card = "v100" } } }, partition = how,
            steps = 2,
         }.blueprint:stages()
      end
      for _, how in ipairs { "mixed", "greedy", "best" } do
         assert.is_true(#stages(how) >= 2, how)
      end
   end)

   it("has neighbours in the pipeline on devices with a good link, where they are alike", function()
      local function plan_of(order, partition)
         local rows = {}
         for d, host in ipairs(order) do
            rows[d] = { card = "2080ti", host = host, latency = 0 }
         end
         return pipeline.plan {
            devices = cluster { devices = rows, network = { bandwidth = "1MB/s" } },
            partition = partition or "seq", steps = 4,
         }
      end
      local function hosts_of(plan, order)
         local list = {}
         for s, stage in ipairs(plan.blueprint:stages()) do list[s] = order[stage.device] end
         return table.concat(list)
      end
      local together, mixed = { "a", "a", "b", "b" }, { "a", "b", "a", "b" }
      local best = plan_of(together)
      local found = plan_of(mixed)
      assert.is_true(hosts_of(found, mixed) == hosts_of(best, together))
      assert.is_true(math.abs(found:simulate(4).seconds / best:simulate(4).seconds - 1) < 1e-6)
      files.in_directory(function(dir) -- what a person chose stays
         local path = dir .. "/plan.txt"
         core.sys.write_file(path, (best:text():gsub("(stage %d+ device )(%d)", function(words, d)
            return words .. ({ ["0"] = "0", ["1"] = "2", ["2"] = "1", ["3"] = "3" })[d]
         end)))
         local kept = plan_of(together, path)
         assert.is_true(kept:simulate(4).seconds > 1.05 * best:simulate(4).seconds)
      end)
   end)

   it("lets devices change places where they are alike alone", function()
      -- stages 1 and 2, and 3 and 4, pass much to each other; hosts are in turns
      local function arranged(memory)
         local rows = {}
         for d, host in ipairs { "a", "b", "a", "b" } do
            rows[d] = { card = "2080ti", host = host, latency = 0, memory = memory[d] }
         end
         local c = cluster { devices = rows, network = { bandwidth = "1MB/s" } }
         return arrange.devices {
            machine = c.machine, devices = core.engine.devices(c),
            blueprint = {
               stages = function()
                  local list = {}
                  for d = 1, 4 do list[d] = { device = d, devices = { d } } end
                  return list
               end,
               transfers = function()
                  return {
                     { from = 1, to = 2, messages = 1, bytes = 1e6 },
                     { from = 3, to = 4, messages = 1, bytes = 1e6 },
                  }
               end,
            },
         }
      end
      local on = arranged {}
      assert.equal(on[1] % 2, on[2] % 2)
      assert.equal(on[3] % 2, on[4] % 2)
      assert.is_nil(arranged { "9GB", "9GB", "8GB", "8GB" }) -- swaps that help are of unlike ones
      on = arranged { "9GB", "8GB", "8GB", "9GB" }
      assert.equal(on[1] % 2, on[2] % 2)
      assert.is_true((on[1] == 1 or on[1] == 4) and (on[2] == 2 or on[2] == 3))
   end)

   it("makes transfers wait for each other where they share a host's link", function()
      -- 1 MB takes 1 ms; of one micro-batch six values pass between the four devices
      local function batch_ms(shared)
         local c = cluster {
            devices = { { card = "2080ti", count = 4, link = "1GB/s", latency = 0 } },
            hosts = { host = { bandwidth = "1GB/s", shared = shared } },
         }
         local stages = {}
         for s = 1, 4 do stages[s] = { device = s, forward_ns = 2e6, backward_ns = 3e6 } end
         local function end_ms(batches)
            local plan = schedules.play {
               stages = stages, micro_batches = 1, batches = batches, bytes = 1e6, slots = 20,
               schedule = schedules { name = "ahead", next = function(s)
                  return s.forwards - s.backwards <= 5 * s.depth and "F" or "B"
               end },
            }
            local played = plan:simulate { machine = c.machine }
            if shared and batches > 100 then
               local name, share = playing.busiest_link(played, c.machine)
               assert.equal("host host", name)
               assert.is_true(share > 0.9)
            end
            return played.end_ns / 1e6
         end
         return (end_ms(150) - end_ms(50)) / 100
      end
      assert.is_true(math.abs(batch_ms(false) - 5) < 1e-9) -- the slowest device
      assert.is_true(math.abs(batch_ms(true) - 6) < 1e-9) -- the link
   end)

   it("is what plans are simulated on", function()
      local function plan_of(shared)
         local model = pipeline.model_of {
            model_type = "gpt2", vocab_size = 60, n_embd = 64, n_layer = 4, n_head = 2,
            n_positions = 16, n_ctx = 16,
         }
         return plans.new {
            model = model, batch = 16, micro_batches = 8,
            devices = cluster {
               devices = { { card = "v100", count = 4, link = "1GB/s" } },
               hosts = { host = { bandwidth = "1GB/s", shared = shared } },
            },
            buckets = { 16 }, partition = "seq", schedule = "1f1b", recompute = "never",
            optimizer = "sgd", hypers = {}, clip = 0, seed = 1, dropout = 0, steps = 4, batches = 4,
         }
      end
      local own, shared = plan_of(false), plan_of(true)
      assert.equal(own:text(), shared:text())
      assert.is_true(shared:simulate(4).seconds > 1.05 * own:simulate(4).seconds)
      assert.matches("; busiest link: host host, %d+ %%", tostring(shared))
      assert.matches("; busiest link: link of sim:%d v100, %d+ %%", tostring(own))
   end)

   it("has as many as 1,024 devices", function()
      local c = cluster { devices = { { card = "t4", count = 512, host = "a" },
         { card = "t4", count = 512, host = "b" } }, network = { bandwidth = "1GB/s" } }
      assert.equal(1e9, c:link(1, 1024).bytes_per_s)
      assert.is_true(c:link(1, 512).bytes_per_s > 1e9)
      refused("1025 devices, expected at most 1024", { devices = {
         { card = "t4", count = 1024 }, { card = "t4" } } })
      local plan = pipeline.plan { devices = c, replicas = "512-512", batch = 512,
         micro_batches = 512, steps = 1 }
      assert.matches("\n  stage 1 on sim:512 t4 to sim:1023 t4 %(512 devices%): ", tostring(plan))
      assert.is_true(plan:simulate(1).seconds > 0)
   end)

   it("is placed by every partitioner, each device by its rates", function()
      local devices = cluster {
         devices = { { card = "3090" }, { card = "2080ti", count = 2, memory = "9GB" } },
      }
      for _, how in ipairs { "mixed", "greedy", "seq" } do
         local subject = explore("bert-base-uncased", { devices = devices, partition = how })
         assert.is_true(subject.fits)
         assert.equal(9e9, subject.memory[3].budget)
         local on = {}
         for _, stage in ipairs(subject.stages) do
            on[stage.device] = (on[stage.device] or 0) + stage.parameter_bytes
         end
         -- the faster card has more of the model, where the partitioner knows of it
         if how ~= "seq" then assert.is_true(on["sim:0 3090"] > on["sim:1 2080ti"], how) end
      end
   end)

   it("says which row is wrong and how", function()
      refused("there is no device", { devices = {} })
      refused("option 'devices' is missing", {})
      refused("devices%[2%]: there is no card 'v10' %(did you mean 'v100'%?%)",
         { devices = { { card = "t4" }, { card = "v10" } } })
      refused("devices%[1%]: 'flops' is %-1, expected more than 0",
         { devices = { { card = "t4", flops = -1 } } })
      refused("devices%[1%]: 'memory' is missing, and no card says it", { devices = { {} } })
      refused("devices%[1%]: option 'bandwidth': expected a rate such as 12GB/s, got '5 m'",
         { devices = { { card = "t4", bandwidth = "5 m" } } })
      refused("devices%[1%]: unknown option 'flop' %(did you mean 'flops'%?%)",
         { devices = { { card = "t4", flop = 1 } } })
      refused("devices are in 2 hosts, and 'network' does not say",
         { devices = { { card = "t4", host = "a" }, { card = "t4", host = "b" } } })
      refused("host 'c': no device is in it",
         { devices = { { card = "t4" } }, hosts = { c = { bandwidth = 1 } } })
      refused("link 1: 'to' is 3, expected 1 to 2", { devices = { { card = "t4", count = 2 } },
         links = { { from = 1, to = 3, bandwidth = 1 } } })
      for _, second in ipairs { { from = 2, to = 1 }, { from = 1, to = 2, one_way = true } } do
         second.bandwidth = "5GB/s"
         refused("link 2 joins devices %d and %d as link 1 does: leave one out", {
            devices = { { card = "t4", count = 2 } },
            links = { { from = 1, to = 2, bandwidth = "50GB/s" }, second } })
      end
      refused("link 1: 'from' and 'to' are both 2", { devices = { { card = "t4", count = 2 } },
         links = { { from = 2, to = 2, bandwidth = 1 } } })
      refused("option 'count': expected 1 to 1024, got 0",
         { devices = { { card = "t4", count = 0 } } })
   end)

   it("has rows that say what their kind can do", function()
      local function has(devices)
         local row = core.engine.devices(devices)[1]
         return { row.executes, row.in_host, row.measures, row.gaps }
      end
      assert.same({ true, true, true, true }, has("cpu:1"))
      assert.same({ false, false, false, true }, has("sim:1x8GB"))
      assert.same({ false, false, false, true }, has(cluster { devices = { { card = "t4" } } }))
   end)

   it("is checked again by the engine", function()
      assert.matches("devices%[1%]: 'flops_per_s' is %-1, expected a number above 0",
         files.failure(core.engine.devices, { { memory_bytes = 1, flops_per_s = -1 } }))
      local function wrong(key, value, expected)
         local row = { memory_bytes = 1, flops_per_s = 1, bytes_per_s = 1, link_bytes_per_s = 1 }
         row[key] = value
         local said = tostring(files.failure(core.engine.devices, { row }))
         assert.matches(("devices%%[1%%]: '%s' is .*, expected a%s"):format(key, expected), said)
      end
      for _, key in ipairs { "threads", "card", "rank" } do
         wrong(key, 1.5, " whole number from [01] to 32767$")
         wrong(key, 1e300, " whole number")
      end
      wrong("threads", 0.5, " whole number from 1 ")
      wrong("memory_bytes", 0.5, " number from 1 to 9007199254740992$")
      for _, key in ipairs { "memory_bytes", "library_bytes", "link_latency_ns" } do
         wrong(key, 1e300, " number from [01] to 9007199254740992$")
      end
      assert.matches("a cluster of 0 devices", files.failure(core.engine.devices, {}))
   end)
end)
