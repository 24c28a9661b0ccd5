--- Globals of the prompt, beside ft: page(x), time(f), bench(f). Scripts have them as ft.tools.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local opts = require("ftpipe.base.opts")
local show = require("ftpipe.prompt.show")

local M = {}

-- A sample of a benchmark takes at least so long, so that the clock is fine enough for it.
local SAMPLE_NS = 1e6
local FEWEST, MOST = 3, 1000 -- samples

local NOT_FOUND = 127 * 256 -- what os.execute gives of a command that is not there

local UNITS = { { 1, "s" }, { 1e-3, "ms" }, { 1e-6, "us" }, { 1e-9, "ns" } }

--- 0.00123456 as "1.23 ms".
local function duration(seconds)
   for _, unit in ipairs(UNITS) do
      if seconds >= unit[1] then return ("%.3g %s"):format(seconds / unit[1], unit[2]) end
   end
   return ("%.2f ns"):format(seconds * 1e9)
end

--- Shows a value with nothing left out, a screen at a time: through the program in $PAGER, or less.
-- Where standard output is no terminal it is printed.
-- @param x any value
function M.page(x)
   local text = show.whole(x)
   if not core.sys.isatty(1) then return print(text) end
   local path = os.tmpname()
   core.sys.write_file(path, text .. "\n")
   -- less ends by itself when the text fits, shows colours, and leaves the text on the screen
   local code = os.execute(("LESS=${LESS-FRX} ${PAGER:-less} <'%s'"):format(path))
   os.remove(path)
   if code == NOT_FOUND then print(text) end
end

local function said(start_ns, ...)
   print(duration((core.sys.time_ns() - start_ns) / 1e9))
   return ...
end

--- Calls a function, prints how long it took, and gives what it gives.
-- @tparam function f
-- @param ... its arguments
function M.time(f, ...) return said(core.sys.time_ns(), f(...)) end

-- ---------------------------------------------------------------------------------------------
-- Benchmarks.

local Measured = { __name = "measured" }

--- "median 1.23 ms, half of them 1.2 ms to 1.31 ms, 812 runs".
function Measured:__tostring()
   return ("median %s, half of them %s to %s, %s"):format(duration(self.median),
      duration(self.low), duration(self.high), counted(self.runs, "run"))
end

--- Seconds of one call, when n of them are made.
local function sample(f, n)
   local start_ns = core.sys.time_ns()
   for _ = 1, n do f() end
   return (core.sys.time_ns() - start_ns) / 1e9 / n
end

--- The value below which a share of a sorted list is.
local function quantile(sorted, share)
   local at = 1 + share * (#sorted - 1)
   local below = math.floor(at)
   local low, high = sorted[below], sorted[math.min(below + 1, #sorted)]
   return low + (at - below) * (high - low)
end

local BENCH = {
   seconds = { type = "seconds", default = 1, help = "for all of it, after a first call" },
}

--- Calls a function again and again, and says how long a call takes. The JIT compiler is off at the
-- prompt: what is slow in Lua itself is faster in a script.
-- @tparam function f called without arguments
-- @tparam[opt] table o
-- @treturn measured median, low and high (quartiles), in seconds; runs (calls that were timed)
function M.bench(f, o)
   o = opts.check("ft.tools.bench", BENCH, o)
   local n = math.max(1, math.ceil(SAMPLE_NS / 1e9 / math.max(sample(f, 1), 1e-9)))
   local samples, spent = {}, 0
   while #samples < FEWEST or spent < o.seconds and #samples < MOST do
      samples[#samples + 1] = sample(f, n)
      spent = spent + samples[#samples] * n
   end
   table.sort(samples)
   return setmetatable({
      median = quantile(samples, 0.5), low = quantile(samples, 0.25),
      high = quantile(samples, 0.75), runs = n * #samples,
   }, Measured)
end

M.takes = { ["ft.tools.bench"] = BENCH }

guard("ft.tools", M, { time = "f: function", bench = "f: function, o?: table" })

return M
