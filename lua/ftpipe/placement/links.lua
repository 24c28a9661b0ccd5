--- The links between the processes of a run: measured when a plan asks for them, kept for a day.
--
-- What is measured becomes a description of ft.cluster, so that a plan can be made for it anywhere;
-- here it is planned by the same description. Of every two hosts the first processes measure the
-- way between them, of every host the first two, in rounds: in one, each process is in one pair at
-- most, and all pairs measure at the same time. The slowest way between hosts stands for the
-- network, with a row of its own for each that is clearly better.

local cache = require("ftpipe.base.cache")
local clusters = require("ftpipe.placement.cluster")
local column = require("ftpipe.base.column")
local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = {}

-- What rank 0 tells the others to do, while it measures.
M.JOB = "links"

M.FORMAT = 3 -- of files of ways
local DAY = 24 * 3600
local MOST_BYTES = 2 ^ 20 -- of a file of ways

-- What is known of a way, all of it above 0.
local OF_A_WAY = { "latency_ns", "to_bytes_per_s", "from_bytes_per_s" }

-- What says, besides the MPI that there is, over which network it goes.
local SETTINGS = { "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_btl_tcp_if_include",
   "OMPI_MCA_btl_tcp_if_exclude", "OMPI_MCA_btl_tcp_eager_limit",
   "UCX_NET_DEVICES", "UCX_RNDV_THRESH" }

-- ---------------------------------------------------------------------------------------------
-- Who measures what.

--- Two ranks, the lower one first.
local function pair_of(a, b) return { from = math.min(a, b), to = math.max(a, b) } end

--- All pairs of members, in rounds in which each is in one pair at most: all but the first move on
-- by one place from round to round.
local function tournament(members)
   local rounds, n = {}, #members + #members % 2
   local at = {}
   for i = 1, n do at[i] = members[i] or false end
   for round = 1, n - 1 do
      rounds[round] = {}
      for i = 1, n / 2 do
         local a, b = at[i], at[n + 1 - i]
         if a and b then table.insert(rounds[round], pair_of(a, b)) end
      end
      table.insert(at, 2, table.remove(at))
   end
   return rounds
end

--- Rounds of pairs of processes that measure the way between them.
-- @tparam {string,...} hosts of each process
-- @treturn {table,...} by round, pairs { from =, to = } of ranks from 0 on, the lower one first
-- @local
function M.rounds(hosts)
   local first, second, heads, near = {}, {}, {}, {}
   for i, host in ipairs(hosts) do
      if not first[host] then
         first[host], heads[#heads + 1] = i - 1, i - 1
      elseif not second[host] then
         second[host], near[#near + 1] = i - 1, pair_of(first[host], i - 1)
      end
   end
   local rounds = tournament(heads)
   if #near > 0 then table.insert(rounds, 1, near) end
   return rounds
end

local function by_ranks(x, y) return x.from < y.from or x.from == y.from and x.to < y.to end

--- The pairs of all rounds, in the order of their ranks.
local function pairs_of(hosts)
   local list = {}
   for _, round in ipairs(M.rounds(hosts)) do
      for _, pair in ipairs(round) do list[#list + 1] = pair end
   end
   table.sort(list, by_ranks)
   return list
end

-- ---------------------------------------------------------------------------------------------
-- Measuring.

--- All that the ways depend on, as one text.
local function key_of(hosts)
   local parts = { core.version, core.ranks.library() }
   for _, name in ipairs(SETTINGS) do parts[#parts + 1] = os.getenv(name) or "" end
   for _, host in ipairs(hosts) do parts[#parts + 1] = host end
   return table.concat(parts, "\n")
end

local function path_of(key)
   local dir = cache.directory()
   return dir and ("%s/links/%s.json"):format(dir, core.sys.sha256(key):sub(1, 24))
end

local function is_finite(x) return type(x) == "number" and x > -math.huge and x < math.huge end

--- The first thing that is wrong with ways that were read; nil: nothing.
local function fault(found, hosts)
   if not is_finite(found.measured) or found.measured < 0 then return "'measured' is no time" end
   for i, host in ipairs(hosts) do
      if type(found.hosts) ~= "table" or found.hosts[i] ~= host then
         return "'hosts' are not those of the processes"
      end
   end
   for i, pair in ipairs(pairs_of(hosts)) do
      local way = type(found.ways) == "table" and found.ways[i]
      local what = ("of the way between ranks %d and %d"):format(pair.from, pair.to)
      if type(way) ~= "table" or way.from ~= pair.from or way.to ~= pair.to then
         return "there is nothing " .. what
      end
      for _, name in ipairs(OF_A_WAY) do
         if not is_finite(way[name]) or way[name] <= 0 then
            return ("'%s' %s is not above 0"):format(name, what)
         end
      end
      if not is_finite(way.eager_bytes) or way.eager_bytes < 0 or way.eager_bytes % 1 ~= 0 then
         return ("'eager_bytes' %s is no number of bytes"):format(what)
      end
   end
   return nil
end

--- What a file of ways holds, of this format or another one.
local function decode(path)
   local found = core.json.decode(small_file(path, MOST_BYTES), path)
   if type(found) ~= "table" or type(found.format) ~= "number" or type(found.key) ~= "string" then
      core.fail("malformed data", path .. ": expected an object with 'format' and 'key'")
   end
   return found
end

--- The ways that are kept; nil where there are none, or they are a day old. A file that is damaged
-- is said to be.
-- @tparam string path of the file; nil: there is none
-- @tparam string key of the processes
-- @tparam {string,...} hosts of each
-- @local
function M.read(path, key, hosts)
   if not path or core.sys.exists(path) ~= "file" then return nil end
   local ok, found = pcall(decode, path)
   if ok and (found.format ~= M.FORMAT or found.key ~= key) then return nil end
   local problem = not ok and tostring(found) or fault(found, hosts)
   if problem then
      io.stderr:write(("links are measured anew: %s\n"):format(
         ok and path .. ": " .. problem or problem))
      return nil
   end
   local age = os.time() - found.measured
   return age >= 0 and age < DAY and found or nil
end

local function write(path, found)
   if not path then return end
   pcall(function() -- a cache that cannot be written is none
      core.sys.mkdir(path:match("^(.*)/"))
      core.sys.write_file(path, core.json.encode(found))
   end)
end

--- The part of a process in all rounds: the ways of which it is the lower rank.
local function play(rank, hosts)
   local ways = {}
   for _, round in ipairs(M.rounds(hosts)) do
      for _, pair in ipairs(round) do
         if pair.from == rank or pair.to == rank then
            local way = core.ranks.measure(pair.from == rank and pair.to or pair.from)
            ways[#ways + 1] = way and copy(pair, way)
         end
      end
   end
   return ways
end

--- At processes besides rank 0: does what measure asks for.
-- @local
function M.take_part(rank)
   local ways = play(rank, column(core.ranks.all(), "host"))
   core.ranks.report(core.json.encode(core.json.array(ways)))
end

local function measure(hosts, key)
   core.ranks.tell(M.JOB)
   local ways = play(0, hosts)
   for line in core.ranks.gather():gmatch("[^\n]+") do
      for _, way in ipairs(core.json.decode(line)) do ways[#ways + 1] = way end
   end
   table.sort(ways, by_ranks)
   return { format = M.FORMAT, key = key, measured = os.time(), hosts = hosts, ways = ways }
end

--- The ways between processes.
-- @tparam boolean fresh measured anew, whatever is kept
-- @treturn table hosts (of each process), ways (of each pair of `rounds`, in the order of their
--   ranks: from, to, latency_ns, of a word, one way, to_bytes_per_s, from_bytes_per_s, eager_bytes:
--   larger messages take two latencies more, 0: none does), measured (when: os.time)
-- @raise invalid argument: this process was started alone
function M.find(fresh)
   local all = core.ranks.all()
   if not all then
      usage("links are between processes, and this one was started alone: start one on "
         .. "each machine, by mpirun")
   end
   local hosts = column(all, "host")
   local key = key_of(hosts)
   local path = path_of(key)
   local kept = not fresh and M.read(path, key, hosts)
   if kept then return kept end
   local found = measure(hosts, key)
   write(path, found)
   return found
end

-- ---------------------------------------------------------------------------------------------
-- Describing.

--- Of some ways the worst of each figure; nil of none.
local function worst_of(ways)
   local worst = { bytes_per_s = math.huge, latency_ns = 0 }
   for _, way in ipairs(ways) do
      worst.bytes_per_s = math.min(worst.bytes_per_s, way.to_bytes_per_s, way.from_bytes_per_s)
      worst.latency_ns = math.max(worst.latency_ns, way.latency_ns)
      if way.eager_bytes > 0 then
         worst.eager = math.min(worst.eager or math.huge, way.eager_bytes)
      end
   end
   return ways[1] and worst
end

--- A row of ft.cluster.
local function row_of(way)
   return way and { bandwidth = ("%.4gMB/s"):format(way.bytes_per_s / 1e6),
      latency = ("%.4gus"):format(way.latency_ns / 1e3), eager = way.eager }
end

-- By which factor a way is clearly better than the worst one.
local BETTER = 1.25

local function is_better(way, worst)
   return way.bytes_per_s > BETTER * worst.bytes_per_s
      or way.latency_ns * BETTER < worst.latency_ns
end

--- What ft.cluster takes for such processes.
-- @tparam string devices as in --devices: hosts:2xcpu:4
-- @tparam table found of `find`
function M.description(devices, found)
   local o = { devices = devices, at = found.hosts, hosts = {} }
   local far, between = {}, {}
   for _, way in ipairs(found.ways) do
      local a, b = found.hosts[way.from + 1], found.hosts[way.to + 1]
      if a == b then
         o.hosts[a] = row_of(worst_of { way })
      else
         far[#far + 1] = way
      end
   end
   local worst = worst_of(far)
   o.network = row_of(worst)
   for _, way in ipairs(far) do
      local own = worst_of { way }
      if is_better(own, worst) then
         local row = row_of(own)
         row.from, row.to = found.hosts[way.from + 1], found.hosts[way.to + 1]
         between[#between + 1] = row
      end
   end
   o.between = between[1] and between
   return o
end

local function row_text(row)
   return ('{ %sbandwidth = "%s", latency = "%s"%s }'):format(
      row.from and ("from = %q, to = %q, "):format(row.from, row.to) or "", row.bandwidth,
      row.latency, row.eager and (", eager = %d"):format(row.eager) or "")
end

--- A description as what is written in Lua.
function M.text(o)
   local at, hosts, seen = {}, {}, {}
   for i, host in ipairs(o.at) do
      at[i] = ("%q"):format(host)
      if o.hosts[host] and not seen[host] then
         seen[host] = true
         hosts[#hosts + 1] = ("[%q] = %s"):format(host, row_text(o.hosts[host]))
      end
   end
   local parts = {
      ("devices = %q"):format(o.devices), ("at = { %s }"):format(table.concat(at, ", ")),
   }
   if #hosts > 0 then parts[#parts + 1] = ("hosts = { %s }"):format(table.concat(hosts, ", ")) end
   if o.network then parts[#parts + 1] = "network = " .. row_text(o.network) end
   local between = {}
   for i, row in ipairs(o.between or {}) do between[i] = row_text(row) end
   if between[1] then
      parts[#parts + 1] = ("between = { %s }"):format(table.concat(between, ", "))
   end
   return ("ft.cluster { %s }"):format(table.concat(parts, ", "))
end

local function cluster_of(devices, found)
   local cluster = clusters(M.description(devices, found))
   cluster.measured = found.measured
   return cluster
end

--- Devices with the links between their processes, where these have been started.
-- @param devices a text as in --devices, or a cluster
-- @tparam[opt] string how as --profile: nothing is measured for costs that are modelled
-- @return a cluster, or what was given
function M.join(devices, how)
   local all = core.ranks.all()
   if not all or #all == 1 or how == nil or how == "modelled" or type(devices) ~= "string" then
      return devices
   end
   local list = core.engine.devices(devices)
   if list[#list].rank + 1 ~= #all then return devices end -- refused where it is run
   return cluster_of(devices, M.find(how == "fresh"))
end

--- What is said of messages that are announced first; nothing where none are.
-- @tparam int eager_bytes the largest that is not; 0: none are
-- @local
function M.asks(eager_bytes)
   return eager_bytes > 0 and (", three times that above %.0f bytes"):format(eager_bytes) or ""
end

--- The links that devices were planned with, in a line; nil where none were measured.
-- @param devices what `join` gave
function M.words(devices)
   if type(devices) ~= "table" or not devices.measured then return nil end
   local parts = {}
   local function add(what, row)
      parts[#parts + 1] = ("%s %.4g MB/s, %.4g us%s"):format(what, row.bytes_per_s / 1e6,
         row.latency_ns / 1e3, M.asks(row.eager_bytes))
   end
   if devices.network then add("network", devices.network) end
   for _, row in ipairs(devices.between) do add(row.from .. " and " .. row.to, row) end
   for _, host in ipairs(keys(devices.hosts)) do add("in " .. host, devices.hosts[host]) end
   return ("links: %s; measured %s"):format(table.concat(parts, "; "),
      os.date("%Y-%m-%d %H:%M", devices.measured))
end

--- What a file of ways says, in a line; nil where it is of another format.
local function line_of(path)
   local found = decode(path)
   local hosts = found.hosts
   if found.format ~= M.FORMAT or fault(found, hosts) then return nil end
   local cluster = cluster_of(("hosts:%dxcpu:1"):format(#hosts), found)
   return ("%s: %s"):format(table.concat(hosts, ", "), (M.words(cluster):gsub("^links: ", "")))
end

--- The links that are kept of all processes of which rank 0 was here. What is damaged is left out.
-- @treturn {string,...} a line for each
function M.kept()
   local lines, dir = {}, (cache.directory() or "") .. "/links"
   if core.sys.exists(dir) ~= "directory" then return lines end
   for _, name in ipairs(core.sys.list_dir(dir)) do
      local ok, line = pcall(line_of, dir .. "/" .. name)
      lines[#lines + 1] = ok and line or nil
   end
   return lines
end

return M
