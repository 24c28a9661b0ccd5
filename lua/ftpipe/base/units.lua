--- Quantities as people write them: "11GB", "10 GiB", "30 s", "12 GB/s", "3e-4".
-- GB is 10^9 bytes, GiB 2^30. Each reader takes a number in base units or a string, and gives the
-- number, or nil and what was expected.

local class = require("ftpipe.base.class")
local guard = require("ftpipe.base.guard")

local M = {}

local BYTES = {
   [""] = 1, B = 1,
   kB = 1e3, KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12,
   KiB = 2 ^ 10, MiB = 2 ^ 20, GiB = 2 ^ 30, TiB = 2 ^ 40,
}

local SECONDS = {
   [""] = 1, s = 1, ms = 1e-3, us = 1e-6, ns = 1e-9, min = 60, m = 60, h = 3600, d = 86400,
}

--- Splits "12.5 GB" into 12.5 and "GB"; nil when there is no number in front.
local function split(text)
   local number, unit = text:match("^%s*([%d.]+[eE][+-]?%d+)%s*(%S*)%s*$")
   if not number then number, unit = text:match("^%s*([%d.]+)%s*(%S*)%s*$") end
   return tonumber(number), unit
end

local function read(value, units, suffix, expected)
   local number, factor
   if type(value) == "number" then
      number, factor = value, 1
   elseif type(value) == "string" then
      local unit
      number, unit = split(value)
      if unit and unit ~= "" then unit = unit:match("^(.-)" .. suffix .. "$") end
      factor = unit and units[unit]
   end
   if number and factor and number == number and number >= 0 and number < math.huge then
      return number * factor
   end
   return nil, ("expected %s, got %s"):format(expected, class.quoted(value))
end

--- Bytes: "11GB", "10 GiB", "512MB", 1024. Whole numbers only.
function M.bytes(value)
   local bytes, problem = read(value, BYTES, "", "a size such as 11GB or 10GiB")
   if not bytes then return nil, problem end
   if bytes < 1e3 and bytes % 1 ~= 0 then
      return nil, ("expected whole bytes, got %s"):format(class.quoted(value))
   end
   return math.floor(bytes + 0.5)
end

--- Seconds: "30 s", "5min", "2h", "10 ms", 1.5.
function M.seconds(value)
   return read(value, SECONDS, "", "a time such as 30s, 5min or 2h")
end

--- Bytes a second: "12 GB/s".
function M.bytes_per_second(value)
   return read(value, BYTES, "/s", "a rate such as 12GB/s")
end

--- A number: "3e-4", "0.1", 7. Hexadecimal and infinities are refused.
function M.number(value)
   local number = value
   if type(value) == "string" then
      number = value:match("^%s*[+-]?[%d.]+[eE]?[+-]?%d*%s*$") and tonumber(value)
   end
   if type(number) == "number" and number == number and math.abs(number) < math.huge then
      return number
   end
   return nil, ("expected a number, got %s"):format(class.quoted(value))
end

local BYTE_STEPS = { { 1e12, "TB" }, { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "kB" } }

--- 11811160064 as "11.8 GB".
function M.format_bytes(bytes)
   if bytes - bytes ~= 0 then return ("%g B"):format(bytes) end -- infinite, or no number
   for _, step in ipairs(BYTE_STEPS) do
      local n = bytes / step[1]
      -- 999,960 is "1.0 MB" rather than "1000.0 kB"
      if math.abs(n) >= 0.99995 then return ("%.1f %s"):format(n, step[2]) end
   end
   return ("%d B"):format(bytes)
end

--- 4.2 as "4.2 s", 95 as "1:35", 3700 as "1:01:40".
function M.format_seconds(seconds)
   if seconds - seconds ~= 0 then return ("%g s"):format(seconds) end -- infinite, or no number
   if seconds < 0 then return "-" .. M.format_seconds(-seconds) end
   if seconds == 0 then return "0 s" end
   if seconds < 0.9995e-3 then return ("%.0f us"):format(seconds * 1e6) end
   if seconds < 0.9995 then return ("%.0f ms"):format(seconds * 1e3) end
   if seconds < 59.95 then return ("%.1f s"):format(seconds) end
   local whole = math.floor(seconds + 0.5)
   local hours, minutes = math.floor(whole / 3600), math.floor(whole / 60) % 60
   if hours > 0 then return ("%d:%02d:%02d"):format(hours, minutes, whole % 60) end
   return ("%d:%02d"):format(minutes, whole % 60)
end

--- Of what is counted in a second: 23.42 as "23.4", 0.03531 as "0.0353".
function M.format_rate(per_second)
   return (per_second < 1 and "%.3g" or "%.1f"):format(per_second)
end

guard("ft.units", M, {
   format_bytes = "bytes: number", format_seconds = "seconds: number",
   format_rate = "per_second: number",
})

return M
