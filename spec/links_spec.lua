--- Links between processes: what is measured becomes a description of ft.cluster, by which plans
-- are cut, there and at home.

local clusters = require("ftpipe.placement.cluster")
local core = require("ftpipe.core")
local files = require("spec.support.files")
local ft = require("ftpipe")
local links = require("ftpipe.placement.links")
local pipeline = require("spec.support.pipeline")
local process = require("spec.support.process")
local several = require("spec.support.several")

local FOUND = {
   hosts = { "anna", "anna", "berta" },
   ways = {
      { from = 0, to = 1, latency_ns = 2000, to_bytes_per_s = 4e9, from_bytes_per_s = 5e9,
         eager_bytes = 0 },
      { from = 0, to = 2, latency_ns = 31500, to_bytes_per_s = 1.3e8,
         from_bytes_per_s = 1.172e8, eager_bytes = 65408 },
   },
}

describe("links that were measured", function()
   it("are written as ft.cluster reads them", function()
      local text = links.text(links.description("hosts:3xcpu:2", FOUND))
      assert.equal('ft.cluster { devices = "hosts:3xcpu:2", at = { "anna", "anna", "berta" }, '
         .. 'hosts = { ["anna"] = { bandwidth = "4000MB/s", latency = "2us" } }, '
         .. 'network = { bandwidth = "117.2MB/s", latency = "31.5us", eager = 65408 } }', text)
      local read = assert(loadstring("local ft = ...; return " .. text))(ft)
      local row = core.engine.devices("hosts:3xcpu:2")[1]
      local function link(from, to)
         local found = read:link(from, to)
         return { math.floor(found.bytes_per_s / 1e5 + .5), found.latency_ns }
      end
      local own = row.link_latency_ns
      assert.same({ math.floor(row.link_bytes_per_s / 1e5 + .5), own }, link(1, 2))
      assert.same({ 40000, own + 2000 }, link(2, 3))
      assert.same({ 1172, own + 31500 + 1000 }, link(1, 5))
      assert.same({ 1172, own + 31500 + 1000 }, link(5, 2))
   end)

   it("are measured by every two hosts once, each process in one pair at a time", function()
      for n = 1, 9 do
         local hosts = {}
         for i = 1, n do hosts[i] = "host " .. i end
         hosts[n + 1], hosts[n + 2] = "host 1", "host 1" -- and two processes more on one of them
         local met, rounds = {}, links.rounds(hosts)
         assert.is_true(#rounds <= n + 1)
         for _, round in ipairs(rounds) do
            local busy = {}
            for _, pair in ipairs(round) do
               assert.is_true(pair.from < pair.to and not busy[pair.from] and not busy[pair.to])
               busy[pair.from], busy[pair.to] = true, true
               local name = ("%d %d"):format(pair.from, pair.to)
               assert.is_nil(met[name])
               met[name] = true
            end
         end
         for a = 0, n - 1 do
            for b = a + 1, n - 1 do
               assert.is_true(met[("%d %d"):format(a, b)])
               met[("%d %d"):format(a, b)] = nil
            end
         end
         assert.same({ [("0 %d"):format(n)] = true }, met)
      end
   end)

   it("have rows of their own where they are better than the network", function()
      local function way(a, b, mb, us)
         return { from = a, to = b, latency_ns = us * 1e3, to_bytes_per_s = mb * 1e6,
            from_bytes_per_s = mb * 1.1e6, eager_bytes = 0 }
      end
      local text = links.text(links.description("hosts:3xcpu:1", { hosts = { "a", "b", "c" },
         ways = { way(0, 1, 1000, 20), way(0, 2, 110, 90), way(1, 2, 100, 100) } }))
      assert.equal('ft.cluster { devices = "hosts:3xcpu:1", at = { "a", "b", "c" }, '
         .. 'network = { bandwidth = "100MB/s", latency = "100us" }, between = { '
         .. '{ from = "a", to = "b", bandwidth = "1000MB/s", latency = "20us" } } }', text)
      local read = assert(loadstring("local ft = ...; return " .. text))(ft)
      local own = core.engine.devices("hosts:3xcpu:1")[1].link_latency_ns
      for _, case in ipairs { { 1, 2, 1e9, 20e3 }, { 2, 1, 1e9, 20e3 }, { 1, 3, 1e8, 100e3 },
         { 3, 2, 1e8, 100e3 } } do
         local found = read:link(case[1], case[2])
         assert.same({ case[3], own + case[4] },
            { math.floor(found.bytes_per_s / 1e5 + .5) * 1e5, found.latency_ns })
      end
      assert.matches("\n  a and b +1 GB/s, 20 us\n?$", tostring(read))
      assert.equal("b", core.json.decode(read:json()).between[1].to)
      -- a pipeline of two stages has them where the link is good
      local plan = pipeline.plan { steps = 4, d_model = 48, d_ff = 96, devices = read,
         partition = "mixed", stages = 2 }
      local used = {}
      for _, stage in ipairs(plan.blueprint:stages()) do used[stage.device] = true end
      assert.is_nil(used[3])
   end)

   it("say what is wrong with the hosts of processes", function()
      local function refusal(o)
         local ok, problem = pcall(clusters, o)
         return not ok and problem.message
      end
      assert.matches("'at' names the hosts of 1 processes, hosts:2xcpu:1 is of 2",
         refusal { devices = "hosts:2xcpu:1", at = { "a" } })
      assert.matches("devices are in 2 hosts, and 'network' does not say how they are linked",
         refusal { devices = "hosts:2xcpu:1", at = { "a", "b" } })
      for rows, said in pairs {
         [{ { from = "a", to = "c" } }] = "between 1: no device is in host 'c'",
         [{ { from = "a", to = "a" } }] = "between 1: from host 'a' to itself",
         [{ { from = "a", to = "b" }, { from = "b", to = "a" } }] =
            "between 2: the link of 'b' and 'a' is said twice",
      } do
         for _, row in ipairs(rows) do row.bandwidth = "1GB/s" end
         assert.matches(said, refusal { devices = "hosts:2xcpu:1", at = { "a", "b" },
            network = { bandwidth = "1MB/s" }, between = rows })
      end
      assert.matches("'at' is of devices in a text", refusal {
         devices = { { card = "t4" } }, at = { "a" },
      })
   end)

   --- The last scope of the first of two stages.
   local function cut(bandwidth, at)
      local plan = pipeline.plan { steps = 4, d_model = 48, d_ff = 96, devices = clusters {
         devices = "hosts:2xcpu:1", at = at,
         network = { bandwidth = bandwidth, latency = "100us" },
      } }
      return plan:span(1), plan
   end

   it("take two latencies more for messages that are announced first", function()
      local plans, cluster = {}
      for i, eager in ipairs { "1GB", "1B" } do
         cluster = clusters {
            devices = "hosts:2xcpu:1", at = { "a", "b" },
            network = { bandwidth = "1GB/s", latency = "10ms", eager = eager },
         }
         plans[i] = pipeline.plan { steps = 4, schedule = "sequential", devices = cluster }
      end
      assert.equal(plans[1]:span(1), plans[2]:span(1))
      for _, stage in ipairs { 0, 9 } do
         assert.fails_with(function() plans[1]:span(stage) end,
            "plan:span: 'stage': expected one from 1 to 2, got " .. stage)
      end
      -- forwards and backwards of each micro-batch pass once, one behind the other
      local passes = (plans[2]:simulate(4).seconds - plans[1]:simulate(4).seconds) / .020
      assert.is_true(passes >= 8 and math.abs(passes - math.floor(passes + .5)) < .01, passes)
      assert.matches("network +1 GB/s, 1e%+04 us, three times that above 1 bytes",
         tostring(cluster))
   end)

   it("move the cut where they are slow", function()
      local fast, slow = cut("8GB/s", { "a", "b" }), cut("10MB/s", { "a", "b" })
      assert.not_equal(fast, slow)
      assert.equal(fast, (cut("10MB/s", { "a", "a" }))) -- nothing passes over the network
   end)
end)

describe("links that are kept", function()
   -- a value for another, and a word of what is said of it
   local WRONG = { "x", true, {}, { 1 }, -1, core.json.null }

   local function whole()
      return core.json.decode(core.json.encode { format = links.FORMAT, key = "k",
         measured = os.time(), hosts = FOUND.hosts, ways = FOUND.ways })
   end

   --- Calls change(found, wrong) for each wrong value: what came of it is not read, and that is
   -- said once.
   local function damage(change)
      files.in_directory(function(dir)
         local path, stderr = dir .. "/k.json", io.stderr
         for _, wrong in ipairs(WRONG) do
            local said, found = "", change(whole(), wrong)
            core.sys.write_file(path, type(found) == "string" and found or core.json.encode(found))
            io.stderr = { write = function(_, text) said = said .. text end } -- luacheck: ignore
            local ok, ways = pcall(links.read, path, "k", FOUND.hosts)
            io.stderr = stderr -- luacheck: ignore
            assert.same({ true }, { ok, ways })
            assert.matches("^links are measured anew: /[^\n]+\n$", said)
         end
      end)
   end

   it("are read as they were written", function()
      files.in_directory(function(dir)
         core.sys.write_file(dir .. "/k.json", core.json.encode(whole()))
         assert.same(FOUND.ways, links.read(dir .. "/k.json", "k", FOUND.hosts).ways)
         assert.is_nil(links.read(dir .. "/k.json", "other", FOUND.hosts))
         assert.is_nil(links.read(dir .. "/none.json", "k", FOUND.hosts))
         assert.is_nil(links.read(nil, "k", FOUND.hosts))
      end)
   end)

   it("are told by doctor, but for those that are damaged", function()
      files.in_directory(function(dir)
         local cache = dir .. "/ftpipe/links"
         core.sys.mkdir(cache)
         core.sys.write_file(cache .. "/k.json", core.json.encode(whole()))
         local slow, nameless = whole(), whole()
         slow.ways[2].latency_ns, nameless.hosts[3] = -1, {}
         for i, text in ipairs { "{", '{"format":1}', core.json.encode(slow),
            core.json.encode(nameless) } do
            core.sys.write_file(("%s/%d.json"):format(cache, i), text)
         end
         local out, err, code = process.shell(("env XDG_CACHE_HOME=%s %s doctor --quick"):format(
            dir, core.sys.executable()))
         assert.same({ "", 0 }, { err, code })
         assert.equal(1, select(2, out:gsub("\nlinks ", "")))
         assert.matches("\nlinks     anna, anna, berta: network 117.2 MB/s, 31.5 us, three times "
            .. "that above 65408 bytes; in anna 4000 MB/s, 2 us; measured %d+%-", out)
      end)
   end)

   for _, key in ipairs { "measured", "hosts", "ways" } do
      it("are measured anew when this is damaged: " .. key, function()
         damage(function(found, wrong) found[key] = wrong return found end)
      end)
   end

   for key in pairs(FOUND.ways[1]) do
      it("are measured anew when this is damaged in a way: " .. key, function()
         damage(function(found, wrong) found.ways[2][key] = wrong return found end)
      end)
   end

   it("are measured anew when a way, or all of the file, is damaged", function()
      damage(function(found, wrong) found.ways[2] = wrong return found end)
      damage(function(_, wrong)
         return wrong == -1 and "{" or core.json.encode { wrong }:match("^%[%s*(.-)%s*%]$")
      end)
   end)
end)

describe("links between processes", function()
   local missing = several.missing()
   if missing then
      pending("cannot be measured here: " .. missing)
      return
   end

   local scratch
   setup(function() scratch = files.directory() end)
   teardown(function() files.remove(scratch) end)

   --- What rank 0 of two prints when it does what a text of Lua says.
   local function both(text)
      local out, err, code = process.shell(("env XDG_CACHE_HOME=%s %s </dev/null"):format(scratch,
         several.command(2, { "-e", text })))
      assert.equal(0, code, err)
      return out
   end

   it("are kept for a day", function()
      assert.equal("true\tfalse\ttrue\ttrue\n", both [[
         local core, links = require("ftpipe.core"), require("ftpipe.placement.links")
         local function key(found) return core.json.encode(found.ways) end
         local first, again, fresh = links.find(), links.find(), links.find(true)
         local path = core.sys.list_dir(os.getenv("XDG_CACHE_HOME") .. "/ftpipe/links")[1]
         path = os.getenv("XDG_CACHE_HOME") .. "/ftpipe/links/" .. path
         local old = core.json.decode(core.sys.read_file(path))
         old.measured = old.measured - 24 * 3600
         core.sys.write_file(path, core.json.encode(old))
         local later = links.find()
         core.sys.write_file(path, "{")
         local mended = links.find()
         print(key(first) == key(again), key(again) == key(fresh), key(later) ~= key(fresh),
            key(mended) ~= key(later))]])
   end)

   it("are part of plans with costs that are measured", function()
      assert.matches("^links: in [^\n]+ MB/s, [^\n]+ us[^\n]*; measured %d+%-%d+%-%d+ %d+:%d+\n"
         .. "nil\n$", both [[
         local pipeline = require("spec.support.pipeline")
         for _, profile in ipairs { "measured", "modelled" } do
            local plan = pipeline.plan { devices = "hosts:2xcpu:1", steps = 2, profile = profile }
            print(tostring(plan):match("links: [^\n]+"))
         end]])
   end)

   it("let a plan that was made at home run", function()
      local path = scratch .. "/home.plan"
      local home = pipeline.plan { steps = 4, devices = clusters {
         devices = "hosts:2xcpu:1", at = { "a", "b" }, network = { bandwidth = "10MB/s" },
      } }
      home:save(path)
      local here = pipeline.train { devices = "cpu:2", steps = 4, plan = path }
      assert.equal(table.concat(here.losses, " ") .. "\n", both(([[
         local pipeline = require("spec.support.pipeline")
         local o = { devices = "hosts:2xcpu:1", steps = 4, plan = %q, profile = "measured" }
         print(table.concat(pipeline.train(o).losses, " "))]]):format(path)))
   end)
end)

describe("ftpipe profile --links", function()
   local missing = several.missing()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   it("takes devices of the processes that were started, and says how many each has", function()
      local function links_of(devices)
         return several.run(2, { "profile", "--links", "--devices", devices })
      end
      local cores = #core.engine.devices("cpu")
      for devices, described in pairs { cpu = "hosts:2xcpu:" .. cores, ["cpu:3"] = "hosts:2xcpu:3",
         ["hosts:2xcpu"] = "hosts:2xcpu:" .. cores } do
         local out, err, code = links_of(devices)
         assert.equal(0, code, err)
         assert.equal(described, out:match('ft%.cluster { devices = "([^"]+)", at = '))
      end
      for devices, expected in pairs { ["hosts:3xcpu:1"] = " is of 3 processes, and 2 were started",
         ["sim:2x11GB"] = " are not here, .*: expected what each has, as cpu:1" } do
         local out, err, code = links_of(devices)
         assert.equal(2, code)
         assert.equal("", out)
         assert.matches("%-%-devices " .. devices .. expected, err)
      end
   end)
end)

describe("links over a network", function()
   local DELAY_MS, TRIES = 5, 4
   local why = several.no_machines("1e9", DELAY_MS)
   if why then
      pending("cannot be measured here: " .. why)
      return
   end

   --- What is said of links on which MPI asks before it sends what is larger than a limit: a
   -- latency in us, and the size, if it is seen.
   local function measured(set, limit)
      local out, err, code = process.shell(("env OMPI_MCA_btl_tcp_eager_limit=%d %s"):format(
         limit, several.on_machines(set, { "profile", "--links" })))
      assert.equal(0, code, err)
      local found = out:match("three times that above (%d+) bytes")
      if found then assert.matches("network = { [^\n]*, eager = " .. found .. " }", out) end
      return tonumber(out:match(": ([%d.]+) us, ")), tonumber(found)
   end

   it("show above which size MPI asks before it sends", function()
      local set = several.set_of_machines()
      local said, up = several.machines_up(set, 2, "1e9", DELAY_MS)
      finally(function() several.machines_down(set, 2) end)
      assert.equal(0, up, said)
      for _, limit in ipairs { 16384, 131072 } do
         -- the size is seen by time: where a link takes longer than it should, others have the core
         local calm, right = 0, false
         for _ = 1, TRIES do
            local latency_us, found = measured(set, limit)
            calm = calm + (latency_us < 1.5e3 * DELAY_MS and 1 or 0)
            -- what MPI puts in front of a message counts
            right = found and found <= limit and found > .98 * limit
            if right then break end
         end
         if not right and calm < 2 then return pending("the machine is busy") end
         assert.is_true(right)
      end
   end)
end)
