--- A program on a pseudo-terminal: what is typed goes in, what it shows comes out.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local ffi = require("ffi")

ffi.cdef [[
   int posix_openpt(int flags);
   int grantpt(int fd);
   int unlockpt(int fd);
   char *ptsname(int fd);
   int close(int fd);
   long read(int fd, void *bytes, size_t n);
   long write(int fd, const void *bytes, size_t n);
   int ioctl(int fd, unsigned long request, ...);
   int kill(int pid, int number);
   struct ft_spec_pollfd { int fd; short events, revents; };
   int poll(struct ft_spec_pollfd *fds, unsigned long n, int timeout);
   struct ft_spec_winsize { unsigned short rows, columns, x, y; };
]]

local O_RDWR_NOCTTY, POLLIN, TIOCSWINSZ = 2 + 256, 1, 0x5414
local SECONDS = 600 -- for an answer; a loaded machine takes longer than a quiet one
local LEAVE_SECONDS = 60 -- to end by itself

local M = {}
local Terminal = {}
Terminal.__index = Terminal

--- Starts this program there, or another one, with arguments as a shell has them and variables of
-- its environment.
function M.open(arguments, environment, program)
   local fd = ffi.C.posix_openpt(O_RDWR_NOCTTY)
   assert(fd >= 0 and ffi.C.grantpt(fd) == 0 and ffi.C.unlockpt(fd) == 0)
   local name = ffi.string(ffi.C.ptsname(fd))
   local variables = {}
   for key, value in pairs(environment or {}) do
      variables[#variables + 1] = key .. "=" .. value
   end
   local terminal = setmetatable({ fd = fd, seen = "" }, Terminal)
   terminal:resize(24, 80)
   -- a session of its own, whose terminal is the first that it opens
   local inner = ("echo $$; exec env TERM=vt100 %s %s %s <>%s >&0 2>&0"):format(
      argvs.line(variables), argvs.quoted(program or core.sys.executable()), arguments or "", name)
   terminal.pipe = assert(io.popen("exec " .. argvs.line { "setsid", "sh", "-c", inner }))
   terminal.pid = tonumber(terminal.pipe:read("*l"))
   return terminal
end

function Terminal:resize(rows, columns)
   local size = ffi.new("struct ft_spec_winsize", rows, columns, 0, 0)
   assert(ffi.C.ioctl(self.fd, TIOCSWINSZ, size) == 0)
end

--- Reads what there is within so many milliseconds; whether there was something.
local function take(terminal, ms)
   local fds = ffi.new("struct ft_spec_pollfd[1]")
   fds[0].fd, fds[0].events = terminal.fd, POLLIN
   if ffi.C.poll(fds, 1, ms) <= 0 then return false end
   local bytes = ffi.new("char[4096]")
   local n = tonumber(ffi.C.read(terminal.fd, bytes, 4096))
   if n <= 0 then return false end
   terminal.seen = (terminal.seen .. ffi.string(bytes, n)):gsub("\27%[%?2004[hl]", "")
   return true
end

--- Types: takes what is shown meanwhile, since nobody else does.
function Terminal:type(text)
   for at = 1, #text, 512 do
      local part = text:sub(at, at + 511)
      assert(tonumber(ffi.C.write(self.fd, part, #part)) == #part)
      while take(self, 1) do end
   end
end

--- Waits until a pattern is shown, behind what earlier calls have waited for; what was shown to its
-- end.
function Terminal:wait(pattern)
   local deadline = core.sys.time_ns() + SECONDS * 1e9
   while true do
      local _, last = self.seen:find(pattern)
      if last then
         local shown = self.seen:sub(1, last)
         self.seen = self.seen:sub(last + 1)
         return shown
      end
      if core.sys.time_ns() > deadline then
         error(("'%s' was not shown, but:\n%s"):format(pattern, self.seen), 2)
      end
      take(self, 100)
   end
end

--- Types a line and waits for the next prompt; what was shown.
function Terminal:line(text)
   self:type(text .. "\r")
   return self:wait("ft %d+> $")
end

--- Sends it a signal.
function Terminal:signal(number) ffi.C.kill(self.pid, number) end

--- Whether a process goes on: it may have ended, but still be listed until its parent asks.
local function is_running(pid)
   local file = io.open("/proc/" .. pid .. "/stat")
   local state = file and file:read("*a"):match("%) (%a)")
   if file then file:close() end
   return state and state ~= "Z"
end

--- Ends it by Ctrl-D, without what is in its line: what it showed at last. Fails when it goes on.
function Terminal:close()
   if not self.fd then return self.seen end
   ffi.C.write(self.fd, "\21\4", 2)
   local deadline = core.sys.time_ns() + LEAVE_SECONDS * 1e9
   while is_running(self.pid) and core.sys.time_ns() < deadline do take(self, 20) end
   local ended = not is_running(self.pid)
   if not ended then ffi.C.kill(self.pid, 9) end
   ffi.C.close(self.fd)
   self.fd = nil
   self.pipe:close()
   if not ended then error("Ctrl-D did not end it, which showed:\n" .. self.seen, 2) end
   return self.seen
end

return M
