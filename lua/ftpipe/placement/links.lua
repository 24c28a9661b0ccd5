--- The links between the processes of a run: measured when a plan asks for them, kept for a day.
--
-- What is measured becomes a description of ft.cluster, so that a plan can be made for it anywhere;
-- here it is planned by the same description. Ways are measured between rank 0 and each of the
-- others, when nothing else passes. The slowest of those to other hosts stands for the network, the
-- slowest of those to processes of the same host for what these pass to each other.

local cache = require("ftpipe.base.cache")
local clusters = require("ftpipe.placement.cluster")
local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local small_file = require("ftpipe.base.small_file")
local usage = require("ftpipe.base.usage")

local M = {}

-- What rank 0 tells the others to do, while it measures.
M.JOB = "links"

M.FORMAT = 2 -- of files of ways
local DAY = 24 * 3600
local MOST_BYTES = 2 ^ 20 -- of a file of ways

-- What is known of a way, all of it above 0.
local OF_A_WAY = { "latency_ns", "to_bytes_per_s", "from_bytes_per_s" }

-- What says, besides the MPI that there is, over which network it goes.
local SETTINGS = { "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_btl_tcp_if_include",
   "OMPI_MCA_btl_tcp_eager_limit", "UCX_NET_DEVICES", "UCX_RNDV_THRESH" }

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
   for rank = 1, #hosts - 1 do
      local way = type(found.ways) == "table" and found.ways[rank]
      for _, name in ipairs(OF_A_WAY) do
         if type(way) ~= "table" or not is_finite(way[name]) or way[name] <= 0 then
            return ("'%s' of the way to rank %d is not above 0"):format(name, rank)
         end
      end
      if not is_finite(way.eager_bytes) or way.eager_bytes < 0 or way.eager_bytes % 1 ~= 0 then
         return ("'eager_bytes' of the way to rank %d is no number of bytes"):format(rank)
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

local function measure(hosts, key)
   local found = { format = M.FORMAT, key = key, measured = os.time(), hosts = hosts, ways = {} }
   core.ranks.tell(M.JOB)
   for rank = 1, #hosts - 1 do found.ways[rank] = core.ranks.measure(rank) end
   return found
end

--- The ways between rank 0 and the others.
-- @tparam boolean fresh measured anew, whatever is kept
-- @treturn table hosts (of each process), ways (by rank from 1 on: latency_ns, of a word, one way,
--   to_bytes_per_s, from_bytes_per_s, eager_bytes: larger messages take two latencies more, 0: none
--   does), measured (when: os.time)
-- @raise invalid argument: this process was started alone
function M.find(fresh)
   local all = core.ranks.all()
   if not all then
      usage("links are between processes, and this one was started alone: start one on "
         .. "each machine, by mpirun")
   end
   local hosts = {}
   for i, process in ipairs(all) do hosts[i] = process.host end
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

--- The slowest of the ways to processes on rank 0's host, or on others, as a row of ft.cluster; nil
-- where there are none.
local function slowest(found, near)
   local bytes_per_s, latency_ns, eager = math.huge, 0, nil
   for rank, way in ipairs(found.ways) do
      if (found.hosts[rank + 1] == found.hosts[1]) == near then
         bytes_per_s = math.min(bytes_per_s, way.to_bytes_per_s, way.from_bytes_per_s)
         latency_ns = math.max(latency_ns, way.latency_ns)
         if way.eager_bytes > 0 then eager = math.min(eager or math.huge, way.eager_bytes) end
      end
   end
   if bytes_per_s == math.huge then return nil end
   return { bandwidth = ("%.4gMB/s"):format(bytes_per_s / 1e6),
      latency = ("%.4gus"):format(latency_ns / 1e3), eager = eager }
end

--- What ft.cluster takes for such processes.
-- @tparam string devices as in --devices: hosts:2xcpu:4
-- @tparam table found of `find`
function M.description(devices, found)
   local near, hosts, n = slowest(found, true), {}, {}
   for _, host in ipairs(found.hosts) do
      n[host] = (n[host] or 0) + 1
      if n[host] == 2 then hosts[host] = near end
   end
   return { devices = devices, at = found.hosts, hosts = hosts, network = slowest(found, false) }
end

local function row_text(row)
   return ('{ bandwidth = "%s", latency = "%s"%s }'):format(row.bandwidth, row.latency,
      row.eager and (", eager = %d"):format(row.eager) or "")
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
