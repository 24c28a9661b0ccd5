--- The processor, in words: what times, and the last bits of numbers, depend on.
--
-- Virtual machines give many processors one name, so the kernels that run on it are said, too.

local core = require("ftpipe.core")

local function name()
   local file = io.open("/proc/cpuinfo")
   local text = file and file:read("*a") or ""
   if file then file:close() end
   return text:match("model name%s*:%s*([^\n]+)") or "CPU"
end

--- "AMD EPYC 9654 (avx512)".
-- @treturn string
return function() return ("%s (%s)"):format(name(), core.sys.kernels()) end
