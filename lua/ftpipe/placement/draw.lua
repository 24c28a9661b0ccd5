--- Clusters as pictures: hosts as frames around their devices, links in words.

local colour = require("ftpipe.page.colour")
local units = require("ftpipe.base.units")
local xml = require("ftpipe.text.xml")

local SIZE = { box = 215, height = 58, gap = 12, across = 4, head = 24, margin = 10 }

--- Hosts in the order of their first devices: { name =, devices = (numbers) }.
local function hosts_of(cluster)
   local list, by_name = {}, {}
   for d, device in ipairs(cluster) do
      local host = by_name[device.host]
      if not host then
         host = { name = device.host, devices = {} }
         by_name[device.host], list[#list + 1] = host, host
      end
      host.devices[#host.devices + 1] = d
   end
   return list
end

local function rate(bytes_per_s) return ("%.3g GB/s"):format(bytes_per_s / 1e9) end

--- Devices of one speed have one colour.
local function kinds_of(cluster)
   local numbers, n = {}, 0
   for _, device in ipairs(cluster) do
      local key = ("%g %g %g"):format(device.flops_per_s, device.bytes_per_s, device.memory_bytes)
      if not numbers[key] then numbers[key], n = n + 1, n + 1 end
      numbers[device] = numbers[key]
   end
   return numbers
end

local function device_svg(device, kind, x, y)
   local lines = {
      ("%s"):format(device.name),
      ("%s, %.3g TFLOP/s"):format(units.format_bytes(device.memory_bytes),
         device.flops_per_s / 1e12),
      ("memory %s, link %s"):format(rate(device.bytes_per_s), rate(device.link_bytes_per_s)),
   }
   local texts = {}
   for i, line in ipairs(lines) do
      texts[i] = ('<text x="%d" y="%d" font-size="%d">%s</text>'):format(x + 8, y + 1 + 16 * i,
         i == 1 and 12 or 10, xml.escape(line))
   end
   return ('<rect x="%d" y="%d" width="%d" height="%d" rx="4" fill="%s" fill-opacity="0.35" '
      .. 'stroke="#555"/>%s'):format(x, y, SIZE.box, SIZE.height, colour(kind),
      table.concat(texts))
end

--- A host's frame with its devices, and the height of it.
local function host_svg(cluster, host, kinds, y, width)
   local row = cluster.hosts[host.name]
   local title = ("host %s%s"):format(host.name, row and (", %s%s"):format(rate(row.bytes_per_s),
      row.shared and " shared by all transfers" or "") or "")
   local rows = math.ceil(#host.devices / SIZE.across)
   local height = SIZE.head + rows * (SIZE.height + SIZE.gap)
   local lines = {
      ('<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="none" stroke="#999"/>'):format(
         SIZE.margin, y, width - 2 * SIZE.margin, height),
      ('<text x="%d" y="%d" font-weight="bold">%s</text>'):format(SIZE.margin + SIZE.gap, y + 17,
         xml.escape(title)),
   }
   for i, d in ipairs(host.devices) do
      local column, line = (i - 1) % SIZE.across, math.floor((i - 1) / SIZE.across)
      lines[#lines + 1] = device_svg(cluster[d], kinds[cluster[d]],
         SIZE.margin + SIZE.gap + column * (SIZE.box + SIZE.gap),
         y + SIZE.head + line * (SIZE.height + SIZE.gap))
   end
   return table.concat(lines, "\n"), height
end

--- @tparam cluster cluster
-- @treturn string
return function(cluster)
   local hosts, kinds = hosts_of(cluster), kinds_of(cluster)
   local most = 1
   for _, host in ipairs(hosts) do most = math.max(most, math.min(#host.devices, SIZE.across)) end
   local width = math.max(320,
      2 * SIZE.margin + SIZE.gap + most * (SIZE.box + SIZE.gap))
   local lines, y = {}, SIZE.margin
   for _, host in ipairs(hosts) do
      local text, height = host_svg(cluster, host, kinds, y, width)
      lines[#lines + 1], y = text, y + height + SIZE.gap
   end
   local network = cluster.network
   if network then
      lines[#lines + 1] = ('<text x="%d" y="%d">between hosts %s%s</text>'):format(SIZE.margin,
         y + 12, rate(network.bytes_per_s), network.shared and ", shared by all transfers" or "")
      y = y + 20
   end
   return ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" '
      .. 'font-family="sans-serif" font-size="12">\n%s\n</svg>\n'):format(width, y, width, y,
      table.concat(lines, "\n"))
end
