--- Clusters: devices with their rates and memory, and the links between them.
--
--    ft.cluster "cpu:2"                     -- devices of this machine; option measure: their rates
--    ft.cluster "8x2080ti"                  -- described: cards by name, or sizes as in 4x11GB
--    ft.cluster "2xh200+4x3090/20GB"
--    ft.cluster {                           -- in full
--       devices = {
--          { card = "2080ti", count = 4, host = "a" },
--          { name = "old", memory = "6GB", flops = 4e12, bandwidth = "200GB/s", link = "6GB/s",
--            host = "b" },
--       },
--       hosts = { a = { bandwidth = "12GB/s", shared = true } },
--       network = { bandwidth = "1.2GB/s", latency = "30us" },
--       between = { { from = "a", to = "b", bandwidth = "5GB/s" } }, -- hosts, past the network
--       links = { { from = 1, to = 2, bandwidth = "50GB/s" } },   -- both ways, unless one_way
--    }
--    ft.cluster { devices = "hosts:2xcpu:4", at = { "a", "b" }, network = { ... } }
--
-- A cluster is a list of device rows, as core.engine.devices gives them, with `hosts` by name, and
-- `machine`: the links that plans for it share, as schedule_plan:simulate takes them, each with a
-- name. Devices are linked to their host, hosts to the network, both directions at once; what is
-- `shared` lets through one transfer at a time. Plans take it as `devices`.

local column = require("ftpipe.base.column")
local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local draw = require("ftpipe.placement.draw")
local guard = require("ftpipe.base.guard")
local html = require("ftpipe.page.html")
local keys = require("ftpipe.base.keys")
local opts = require("ftpipe.base.opts")
local suggest = require("ftpipe.base.suggest")
local units = require("ftpipe.base.units")

local M = {}
local Cluster = {}
Cluster.__index = Cluster
Cluster.__name = "cluster"

local MOST = core.engine.most_devices
local LATENCY_NS = 10000 -- of a link between cards, unless told otherwise

local function fail(format, ...) opts.fail("ft.cluster", format, ...) end

-- ---------------------------------------------------------------------------------------------
-- Rows.

local DEVICE = {
   name = { type = "string", help = "for people" },
   card = { type = "string", help = "a card whose row gives what is not said here" },
   count = { type = "int", min = 1, max = MOST, default = 1, help = "devices like this" },
   memory = { type = "bytes", help = "of each" },
   flops = { type = "number", help = "f32 operations a second that work reaches" },
   bf16_flops = { type = "number", help = "the same of products of bf16 with f32 sums" },
   f16_flops = { type = "number", help = "the same of products of f16 with f32 sums" },
   tf32_flops = { type = "number", help = "the same of products of tf32" },
   bandwidth = { type = "rate", help = "of memory, as work reaches it" },
   link = { type = "rate", help = "to another device of its host" },
   latency = { type = "seconds", help = "of that link" },
   host = { type = "string", default = "host", help = "which machine it is in" },
}

local LINK = {
   from = { type = "int", min = 1, required = true, help = "device" },
   to = { type = "int", min = 1, required = true, help = "device" },
   bandwidth = { type = "rate", required = true, help = "of the link" },
   latency = { type = "seconds", help = "of the link" },
   one_way = { type = "boolean", default = false, help = "not from `to` to `from`" },
}

local ROUTE = { -- of a host, or of the network between hosts
   bandwidth = { type = "rate", required = true, help = "of the link" },
   latency = { type = "seconds", help = "of the link" },
   eager = { type = "bytes",
      help = "larger messages are announced and asked for first: two latencies more" },
   shared = { type = "boolean", default = false, help = "by all transfers at once" },
}

local BETWEEN = {
   from = { type = "string", required = true, help = "host" },
   to = { type = "string", required = true, help = "host" },
   bandwidth = ROUTE.bandwidth, latency = ROUTE.latency, eager = ROUTE.eager,
}

local WHOLE = {
   name = { type = "string", help = "for people" },
   devices = { type = "table|string", required = true,
      help = "list of devices, or a text as in --devices" },
   at = { type = "table", items = "string", help = "of a text: the host of each process" },
   hosts = { type = "table", help = "links through a host, by its name" },
   network = { type = "table", help = "link between hosts" },
   between = { type = "table", help = "links of pairs of hosts, in place of the network" },
   links = { type = "table", help = "links of pairs" },
}

--- Options of one row, with its place in messages.
local function check_row(what, rules, row)
   return opts.check("ft.cluster: " .. what, rules, row)
end

local function find_card(name, what)
   local names = {}
   for _, card in ipairs(core.engine.cards()) do
      if card.name == name then return card end
      names[#names + 1] = card.name
   end
   fail("%s: there is no card '%s'%s (cards: %s)", what, name, suggest.hint(name, names),
      table.concat(names, ", "))
end

--- A number above 0 from the row, else from the card.
local function rate(row, key, preset, what)
   local value = row[key] or preset
   if not value then fail("%s: '%s' is missing, and no card says it", what, key) end
   if not (value > 0 and value < math.huge) then
      fail("%s: '%s' is %g, expected more than 0", what, key, value)
   end
   return value
end

local function latency_ns(seconds, default)
   return seconds and math.floor(1e9 * seconds + 0.5) or default or LATENCY_NS
end

local function add_devices(cluster, number, given)
   local what = ("devices[%d]"):format(number)
   local row = check_row(what, DEVICE, given)
   local card = row.card and find_card(row.card, what) or {}
   for _ = 1, row.count do
      local n = #cluster + 1
      cluster[n] = {
         kind = "sim", threads = 1, host = row.host,
         name = ("sim:%d %s"):format(n - 1, row.name or row.card or "device"),
         memory_bytes = rate(row, "memory", card.memory_bytes, what),
         flops_per_s = rate(row, "flops", card.flops_per_s, what),
         bf16_flops_per_s = row.bf16_flops and rate(row, "bf16_flops", nil, what)
            or card.bf16_flops_per_s or 0,
         f16_flops_per_s = row.f16_flops and rate(row, "f16_flops", nil, what)
            or card.f16_flops_per_s or 0,
         tf32_flops_per_s = row.tf32_flops and rate(row, "tf32_flops", nil, what)
            or card.tf32_flops_per_s or 0,
         bytes_per_s = rate(row, "bandwidth", card.bytes_per_s, what),
         link_bytes_per_s = rate(row, "link", card.link_bytes_per_s, what),
         link_latency_ns = latency_ns(row.latency),
      }
   end
end

--- Devices of a text, each in the host of its process.
local function add_listed(cluster, o)
   local ranks = 1
   for d, device in ipairs(core.engine.devices(o.devices)) do
      ranks = device.rank + 1
      device.host = o.at and o.at[ranks] or "host"
      cluster[d] = device
   end
   if o.at and #o.at ~= ranks then
      fail("'at' names the hosts of %d processes, %s is of %d", #o.at, o.devices, ranks)
   end
end

-- ---------------------------------------------------------------------------------------------
-- Links.

local function check_route(what, rules, given)
   local row = check_row(what, rules, given)
   return {
      bytes_per_s = rate(row, "bandwidth", nil, what), shared = row.shared,
      latency_ns = latency_ns(row.latency, 0), eager_bytes = row.eager or 0,
      from = row.from, to = row.to,
   }
end

--- Links of pairs of hosts, of which `seen` are there.
local function read_between(given, seen)
   local rows, known = {}, {}
   for i, row in ipairs(given or {}) do
      local what = ("between %d"):format(i)
      rows[i] = check_route(what, BETWEEN, row)
      local a, b = rows[i].from, rows[i].to
      for _, name in ipairs { a, b } do
         if not seen[name] then fail("%s: no device is in host '%s'", what, name) end
      end
      if a == b then fail("%s: from host '%s' to itself", what, a) end
      local pair = core.json.encode(a < b and { a, b } or { b, a })
      if known[pair] then fail("%s: the link of '%s' and '%s' is said twice", what, a, b) end
      known[pair] = true
   end
   return rows
end

local function count_hosts(cluster)
   local seen, n = {}, 0
   for _, device in ipairs(cluster) do
      if not seen[device.host] then seen[device.host], n = true, n + 1 end
   end
   return n, seen
end

--- Hosts and network, checked.
local function read_routes(cluster, o)
   local n, seen = count_hosts(cluster)
   cluster.hosts = {}
   for name, given in pairs(o.hosts or {}) do
      if not seen[name] then fail("host '%s': no device is in it", tostring(name)) end
      cluster.hosts[name] = check_route(("host '%s'"):format(name), ROUTE, given)
   end
   if n > 1 and not o.network then
      fail("devices are in %d hosts, and 'network' does not say how they are linked", n)
   end
   cluster.network = o.network and check_route("network", ROUTE, o.network)
   cluster.between = read_between(o.between, seen)
end

local Wiring = {}
Wiring.__index = Wiring

function Wiring:place()
   self.places = self.places + 1
   return self.places
end

--- A row has bytes_per_s and latency_ns, and eager_bytes where it is above 0.
function Wiring:link(name, from, to, row, one_way)
   self.links[#self.links + 1] = {
      name = name, from = from, to = to, bytes_per_s = row.bytes_per_s,
      latency_ns = math.floor(row.latency_ns + .5), eager_bytes = row.eager_bytes or 0,
      duplex = not one_way, one_way = one_way,
   }
end

--- Where links end and where they begin: one place, or two with what is shared between them.
function Wiring:hub(name, row)
   local inlet = self:place()
   if not (row and row.shared) then return { inlet = inlet, outlet = inlet } end
   local outlet = self:place()
   self:link(name, inlet, outlet, row, true)
   return { inlet = inlet, outlet = outlet }
end

--- The place of a host's memory: where its links meet, or behind what they share, which swaps
-- share with all else.
function Wiring:memory(name, hub, row)
   if hub.inlet == hub.outlet then return hub.inlet end
   local memory = self:place()
   local copies = { bytes_per_s = row.bytes_per_s, latency_ns = 0 }
   self:link("memory of " .. name, hub.outlet, memory, copies, true)
   self:link("memory of " .. name, memory, hub.inlet, copies, true)
   return memory
end

--- Links of one end with a hub, which may itself be one.
function Wiring:join(name, from, to, hub, row)
   if hub.inlet == hub.outlet and from == to then
      self:link(name, from, hub.inlet, row)
   else
      self:link(name, from, hub.inlet, row, true)
      self:link(name, hub.outlet, to, row, true)
   end
end

--- Half of a link's latency is at each of its ends; a host that is not shared is a part of the
-- links of its devices.
local function join_device(wiring, number, device, row, hub)
   local own = { bytes_per_s = device.link_bytes_per_s, latency_ns = device.link_latency_ns / 2 }
   if row and not row.shared then
      own = {
         bytes_per_s = math.min(own.bytes_per_s, row.bytes_per_s),
         latency_ns = own.latency_ns + row.latency_ns / 2, eager_bytes = row.eager_bytes,
      }
   end
   wiring:join("link of " .. device.name, number, number, hub, own)
end

local function join_hosts(wiring, network, hubs, order)
   if #order < 2 then return end
   local hub = wiring:hub("network", network)
   local half = {
      bytes_per_s = network.bytes_per_s, eager_bytes = network.eager_bytes,
      latency_ns = network.shared and 0 or network.latency_ns / 2,
   }
   for _, name in ipairs(order) do
      wiring:join("network of host " .. name, hubs[name].outlet, hubs[name].inlet, hub, half)
   end
end

--- Devices of one process pass values through its memory, whatever processes of the host do.
local function join_process(wiring, cluster, number)
   local device = cluster[number]
   for other = number + 1, #cluster do
      if cluster[other].rank == device.rank then
         wiring:link("memory of " .. device.name, number, other,
            { bytes_per_s = device.link_bytes_per_s, latency_ns = device.link_latency_ns })
      end
   end
end

--- Links of devices with hosts, and of hosts with the network.
local function wire(cluster)
   local wiring = setmetatable({ places = #cluster, links = {}, homes = {} }, Wiring)
   local hubs, memories, order = {}, {}, {}
   for d, device in ipairs(cluster) do
      local host = device.host
      local row = cluster.hosts[host]
      if not hubs[host] then
         hubs[host], order[#order + 1] = wiring:hub("host " .. host, row), host
         memories[host] = wiring:memory("host " .. host, hubs[host], row)
      end
      wiring.homes[d] = memories[host]
      join_device(wiring, d, device, row, hubs[host])
      if row and device.executes then join_process(wiring, cluster, d) end
   end
   join_hosts(wiring, cluster.network, hubs, order)
   for _, row in ipairs(cluster.between) do
      local from = hubs[row.from]
      wiring:join(("link of host %s and host %s"):format(row.from, row.to), from.outlet, from.inlet,
         hubs[row.to], row)
   end
   return wiring
end

--- Refuses a link where one is already that goes the same way.
local function check_not_joined(links, i, row)
   for k, other in ipairs(links) do
      local same = row.from == other.from and row.to == other.to
      local back = row.from == other.to and row.to == other.from
      if same or back and not (row.one_way and other.one_way) then
         fail("link %d joins devices %d and %d as link %d does: leave one out, or give each "
            .. "one_way = true and a way of its own", i, row.from, row.to, k)
      end
   end
end

local function add_links(cluster, o)
   cluster.links = {}
   for i, given in ipairs(o.links or {}) do
      local what = ("link %d"):format(i)
      local row = check_row(what, LINK, given)
      for _, key in ipairs { "from", "to" } do
         if row[key] > #cluster then
            fail("%s: '%s' is %d, expected 1 to %d", what, key, row[key], #cluster)
         end
      end
      if row.from == row.to then fail("%s: 'from' and 'to' are both %d", what, row.from) end
      check_not_joined(cluster.links, i, row)
      local link = {
         from = row.from, to = row.to, bytes_per_s = rate(row, "bandwidth", nil, what),
         latency_ns = latency_ns(row.latency), eager_bytes = 0, one_way = row.one_way,
      }
      cluster.links[i] = link
      cluster.machine:link(what, row.from, row.to, link, row.one_way)
   end
end

-- ---------------------------------------------------------------------------------------------
-- Making.

local function described(o)
   o = opts.check("ft.cluster", WHOLE, o)
   local listed = type(o.devices) == "string"
   local cluster = setmetatable({ name = o.name or listed and o.devices or "described" }, Cluster)
   if listed then
      add_listed(cluster, o)
   else
      if o.at then fail("'at' is of devices in a text, those of a list say their host") end
      for i, given in ipairs(o.devices) do add_devices(cluster, i, given) end
   end
   if #cluster == 0 then fail("there is no device, expected at least one") end
   if #cluster > MOST then fail("%d devices, expected at most %d", #cluster, MOST) end
   read_routes(cluster, o)
   cluster.machine = wire(cluster)
   add_links(cluster, o)
   return cluster
end

--- Devices of a text: "cpu:2", "sim:8x11GB", or "8x11GB" for the latter.
local function from_text(text, measure)
   local full = text:find("^%d") and "sim:" .. text or text
   local cluster = setmetatable({ name = full, hosts = {}, between = {}, links = {} }, Cluster)
   for i, device in ipairs(core.engine.devices(full)) do
      device.host = "host"
      cluster[i] = device
   end
   if not cluster[1].executes then cluster.machine = wire(cluster) end
   if measure then
      for key, value in pairs(core.profile.rates(full)) do
         for _, device in ipairs(cluster) do device[key] = math.max(value, 1) end
      end
   end
   return cluster
end

--- A cluster.
-- @param what a text as in --devices (without "sim:" where it begins with a number), or a table
-- @tparam[opt] table options measure: rates of CPU devices as they are, while all of them work
function M.new(what, options)
   local o = opts.check("ft.cluster",
      { measure = { type = "boolean", default = false, help = "rates of CPU devices" } }, options)
   if type(what) == "string" then return from_text(what, o.measure) end
   if type(what) ~= "table" then
      fail("expected a text such as 8x2080ti or a table, got a %s", type(what))
   end
   return described(what)
end

-- ---------------------------------------------------------------------------------------------
-- Asking.

--- Devices in a word: the text, or the name of a cluster.
function M.name_of(devices)
   return type(devices) == "string" and devices or devices.name or "described"
end

--- Devices with the links that a plan for them shares, where they are described.
-- @param devices a text as in --devices, or a cluster
-- @return the cluster, or what was given when its devices are here
function M.wired(devices)
   if type(devices) == "string" and devices:find("^sim:") then return from_text(devices) end
   return devices
end

--- As cluster:neighbour_rates, of devices in any form.
function M.neighbour_rates(devices)
   local wired = M.wired(devices)
   return type(wired) == "table" and wired.neighbour_rates and wired:neighbour_rates() or nil
end

--- What a transfer from one device to another gets when nothing else moves: { bytes_per_s =,
-- latency_ns = }; nil from one to itself.
function Cluster:link(from, to)
   for _, d in ipairs { from, to } do
      if d < 1 or d > #self then fail("expected a device from 1 to %d, got %d", #self, d) end
   end
   if from == to then return nil end
   local device = self[to]
   local bytes, latency = device.link_bytes_per_s, device.link_latency_ns
   if self.machine then
      local latencies, ns_per_byte = core.schedule.ways { machine = self.machine, devices = #self }
      local way = (from - 1) * #self + to
      bytes, latency = 1e9 / ns_per_byte[way], latencies[way]
   end
   return { bytes_per_s = bytes, latency_ns = latency }
end

--- Devices one behind the other, each the one that the device before it reaches fastest.
local function chain(per_byte, n)
   local order, taken, at = { 1 }, { true }, 1
   while #order < n do
      local best
      for d = 2, n do
         local ns = per_byte[(at - 1) * n + d]
         if not taken[d] and (not best or ns < per_byte[(at - 1) * n + best]) then best = d end
      end
      order[#order + 1], taken[best], at = best, true, best
   end
   return order
end

--- What passes between neighbours of a pipeline that has them on good links: by device, the bytes
-- per second of the slower of its two ways.
-- @return nil where that is the device's own link for all of them
function Cluster:neighbour_rates()
   local rates, slower, n = column(self, "link_bytes_per_s"), false, #self
   if not self.machine then return nil end
   local _, per_byte = core.schedule.ways { machine = self.machine, devices = n }
   local order = chain(per_byte, n)
   for i = 2, n do
      local a, b = order[i - 1], order[i]
      local way = 1e9 / math.max(per_byte[(a - 1) * n + b], per_byte[(b - 1) * n + a])
      slower = slower or way < .999 * math.min(self[a].link_bytes_per_s, self[b].link_bytes_per_s)
      rates[a], rates[b] = math.min(rates[a], way), math.min(rates[b], way)
   end
   return slower and rates or nil
end

--- Bytes of all devices.
function Cluster:memory_bytes()
   local sum = 0
   for _, device in ipairs(self) do sum = sum + device.memory_bytes end
   return sum
end

--- "sim:0" of "sim:0 2080ti".
local function short(device) return device.name:match("^%S+") end

--- Of devices that follow each other and are alike.
local function device_line(device, count, last)
   local host = device.host ~= "host" and (" in " .. device.host) or ""
   return ("  %-28s %s, %.3g TFLOP/s, memory %.0f GB/s, link %.3g GB/s%s"):format(
      count > 1 and ("%s to %s: %d x %s"):format(short(device), short(last), count,
         device.name:match("%s(.*)$") or device.kind) or device.name,
      units.format_bytes(device.memory_bytes), device.flops_per_s / 1e12, device.bytes_per_s / 1e9,
      device.link_bytes_per_s / 1e9, host)
end

local function alike(a, b)
   for _, key in ipairs { "kind", "host", "memory_bytes", "flops_per_s", "bytes_per_s",
      "link_bytes_per_s", "bf16_flops_per_s", "f16_flops_per_s", "tf32_flops_per_s" } do
      if a[key] ~= b[key] then return false end
   end
   return (a.name:match("%s(.*)$") or "") == (b.name:match("%s(.*)$") or "")
end

local function route_line(name, row)
   return ("  %-28s %.3g GB/s%s%s"):format(name, row.bytes_per_s / 1e9,
      (row.latency_ns > 0 and (", %.3g us"):format(row.latency_ns / 1e3) or "")
         .. (row.eager_bytes > 0 and (", three times that above %.0f bytes"):format(row.eager_bytes)
            or ""),
      row.shared and ", shared by all transfers" or "")
end

function Cluster:__tostring()
   local lines = {
      ("cluster %s: %s, %s"):format(self.name, counted(#self, "device"),
         units.format_bytes(self:memory_bytes())),
   }
   local first = 1
   for i = 1, #self do
      if i == #self or not alike(self[i], self[i + 1]) then
         lines[#lines + 1] = device_line(self[first], i - first + 1, self[i])
         first = i + 1
      end
   end
   for _, name in ipairs(keys(self.hosts)) do
      lines[#lines + 1] = route_line("host " .. name, self.hosts[name])
   end
   if self.network then lines[#lines + 1] = route_line("network", self.network) end
   for _, row in ipairs(self.between) do
      lines[#lines + 1] = route_line(row.from .. " and " .. row.to, row)
   end
   for _, row in ipairs(self.links) do
      lines[#lines + 1] = route_line(("%s %s %s"):format(short(self[row.from]),
         row.one_way and "to" or "and", short(self[row.to])), row)
   end
   return table.concat(lines, "\n")
end

--- Writes a picture: hosts with their devices, those of one speed in one colour.
-- @tparam string path
function Cluster:svg(path)
   core.sys.write_file(path, draw(self))
   return self
end

--- Writes what it says and its picture as a page that needs nothing else.
-- @tparam string path
function Cluster:html(path)
   core.sys.write_file(path, html.of(tostring(self), { draw(self) }))
   return self
end

--- Its devices, and the links of hosts, between them and of pairs of devices, as JSON.
function Cluster:json()
   local devices = {}
   for d, device in ipairs(self) do devices[d] = device end
   return core.json.encode({ name = self.name, devices = core.json.array(devices),
      hosts = self.hosts, network = self.network, between = core.json.array(self.between),
      links = core.json.array(self.links),
   }, { sort = true }) .. "\n"
end

M.takes = { ["ft.cluster"] = WHOLE }

guard("ft.cluster", M, {
   name_of = "devices: string|table", wired = "devices: string|table",
   neighbour_rates = "devices: string|table",
})
guard("cluster", Cluster, {
   link = "from: int, to: int", memory_bytes = "", neighbour_rates = "", json = "",
   svg = "path: string", html = "path: string",
})

return setmetatable(M, { __call = function(_, ...) return M.new(...) end })
