--- Links between namespaces of a network that are as slow, as long and as bad as is asked for,
-- where the kernel has no netem: tools/netns.sh starts it.
--
--    ftpipe tools/relay.lua SET N BITS_PER_S DELAY_MS FILE
--
-- Each of the namespaces ftSET-0, ... and the first one has a device of its own (TUN) whose packets
-- come here and go where they are addressed: 10.77.SET.I is that of namespace I - 1, all other
-- addresses are the first one's. What a namespace sends passes its link one packet after the other,
-- BITS_PER_S, and is there after DELAY_MS. FILE holds the percentage that is lost, read anew ten
-- times a second. Ends when FILE is gone.

local bit = require("bit")
local core = require("ftpipe.core")
local ffi = require("ffi")

ffi.cdef [[
   int open(const char *path, int flags);
   int close(int fd);
   int setns(int fd, int kind);
   int ioctl(int fd, unsigned long request, ...);
   long read(int fd, void *bytes, size_t n);
   long write(int fd, const void *bytes, size_t n);
   struct ft_relay_request { char name[16]; short flags; char rest[22]; };
   struct ft_relay_poll { int fd; short events, revents; };
   struct ft_relay_time { long s, ns; };
   int ppoll(struct ft_relay_poll *fds, unsigned long n, const struct ft_relay_time *limit,
             const void *signals);
   typedef struct { double at; int to, bytes; unsigned char data[9216]; } ft_relay_packet;
]]

local O_RDWR, O_NONBLOCK, NEWNET = 2, 2048, 0x40000000
local TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454ca, 1, 0x1000
local POLLIN = 1
local SLOTS = 256 -- packets on the way from a namespace
local LOOK_NS = 1e8

local set, n, rate, delay_ns, file = arg[1], tonumber(arg[2]), tonumber(arg[3]),
   tonumber(arg[4]) * 1e6, arg[5]

local function check(result, what)
   if result < 0 then error(("relay: %s failed, errno %d"):format(what, ffi.errno()), 0) end
   return result
end

--- The device of that name in a namespace.
local function open_device(namespace, name)
   local fd = check(ffi.C.open(namespace, 0), namespace)
   check(ffi.C.setns(fd, NEWNET), "setns")
   ffi.C.close(fd)
   local device = check(ffi.C.open("/dev/net/tun", O_RDWR + O_NONBLOCK), "/dev/net/tun")
   local request = ffi.new("struct ft_relay_request")
   request.name, request.flags = name, IFF_TUN + IFF_NO_PI
   check(ffi.C.ioctl(device, ffi.cast("unsigned long", TUNSETIFF), request), name)
   return device
end

--- A link: its device, and a ring of packets on the way.
local function open_link(namespace, name)
   return { fd = open_device(namespace, name), free_at = 0, first = 0, last = 0,
      ring = ffi.new("ft_relay_packet[?]", SLOTS) }
end

local links, home = {}, "/proc/self/ns/net"
links[0] = open_link(home, "ftt" .. set)
for i = 1, n do links[i] = open_link(("/run/netns/ft%s-%d"):format(set, i - 1), "eth0") end

local fds = ffi.new("struct ft_relay_poll[?]", n + 1)
for i = 0, n do fds[i].fd = links[i].fd end

local lost, next_look = 0, 0

--- Takes what a namespace sends, as far as its ring has room.
local function take(link, now)
   while link.last - link.first < SLOTS do
      local packet = link.ring[link.last % SLOTS]
      local bytes = tonumber(ffi.C.read(link.fd, packet.data, 9216))
      if bytes < 20 then return end
      local to = packet.data[19]
      packet.to, packet.bytes = to <= n and to or 0, bytes
      link.free_at = math.max(link.free_at, now) + bytes * 8e9 / rate
      packet.at = link.free_at + delay_ns
      local is_one = bit.rshift(packet.data[0], 4) == 4
      if is_one and math.random() >= lost then link.last = link.last + 1 end
   end
end

--- Hands out what has arrived; when the next one does.
local function give(link, now)
   while link.first < link.last do
      local packet = link.ring[link.first % SLOTS]
      if packet.at > now then return packet.at end
      ffi.C.write(links[packet.to].fd, packet.data, packet.bytes)
      link.first = link.first + 1
   end
   return math.huge
end

local limit = ffi.new("struct ft_relay_time")
io.stdout:write("ready\n")
io.stdout:flush()
while true do
   local now, next_at = core.sys.time_ns(), math.huge
   if now >= next_look then
      local found = io.open(file)
      if not found then break end
      lost = (tonumber(found:read("*a")) or 0) / 100
      found:close()
      next_look = now + LOOK_NS
   end
   for i = 0, n do next_at = math.min(next_at, give(links[i], now)) end
   for i = 0, n do
      fds[i].events = links[i].last - links[i].first < SLOTS and POLLIN or 0
   end
   local wait = math.max(0, math.min(next_at, next_look) - core.sys.time_ns())
   limit.s, limit.ns = math.floor(wait / 1e9), wait % 1e9
   ffi.C.ppoll(fds, n + 1, limit, nil)
   now = core.sys.time_ns()
   for i = 0, n do
      if fds[i].revents ~= 0 then take(links[i], now) end
   end
end
