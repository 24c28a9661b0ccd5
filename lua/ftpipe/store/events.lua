--- Scalars as event files, which TensorBoard reads: of a run that is there, and, with --events,
-- while it goes on.
--
-- A file is a list of records: the length of the data (8 bytes), the masked CRC-32C of these
-- (4 bytes), the data, their masked CRC-32C; numbers are little-endian. The data is a message Event
-- of protocol buffers: wall_time (1, double), step (2, varint), file_version (3, the first record
-- has "brain.Event:2") or summary (5), whose values (1) have a tag (1) and a simple_value (2,
-- float).

local bit = require("bit")
local ffi = require("ffi")

local M = {}

local POLYNOMIAL = 0x82F63B78 -- Castagnoli's, reflected
local MASK = 0xA282EAD8

local function crc_table()
   local rows = {}
   for i = 0, 255 do
      local crc = i
      for _ = 1, 8 do
         local shifted = bit.rshift(crc, 1)
         crc = bit.band(crc, 1) == 1 and bit.bxor(shifted, POLYNOMIAL) or shifted
      end
      rows[i] = crc
   end
   return rows
end

local TABLE = crc_table()

--- CRC-32C of a text, from 0 to 2^32 - 1.
function M.crc(text)
   local crc = bit.bnot(0)
   for i = 1, #text do
      crc = bit.bxor(bit.rshift(crc, 8), TABLE[bit.band(bit.bxor(crc, text:byte(i)), 255)])
   end
   return bit.bnot(crc) % 2 ^ 32
end

--- The bytes of a number of a C type.
local function bytes_of(kind, value)
   return ffi.string(ffi.new(kind .. "[1]", value), ffi.sizeof(kind))
end

local function varint(number)
   local parts = {}
   while number >= 128 do
      parts[#parts + 1] = string.char(128 + number % 128)
      number = math.floor(number / 128)
   end
   parts[#parts + 1] = string.char(number)
   return table.concat(parts)
end

-- Tags of fields: the number times 8, and 0 for a varint, 1 for 8 bytes, 2 for a text, 5 for 4.
local function text_field(number, text)
   return string.char(number * 8 + 2) .. varint(#text) .. text
end

local function masked(text)
   local crc = M.crc(text)
   local turned = bit.ror(crc, 15) % 2 ^ 32
   return bytes_of("uint32_t", (turned + MASK) % 2 ^ 32)
end

--- A record of a file.
function M.record(data)
   local length = bytes_of("uint64_t", #data)
   return length .. masked(length) .. data .. masked(data)
end

--- The first record of a file.
-- @tparam number time in seconds since 1970
function M.head(time)
   return M.record("\9" .. bytes_of("double", time) .. text_field(3, "brain.Event:2"))
end

--- A record with scalars of a step.
-- @tparam number time in seconds since 1970
-- @tparam int step
-- @tparam table scalars { { "loss", 0.5 }, ... }
function M.scalars(time, step, scalars)
   local values = {}
   for i, row in ipairs(scalars) do
      values[i] = text_field(1, text_field(1, row[1]) .. "\21" .. bytes_of("float", row[2]))
   end
   return M.record("\9" .. bytes_of("double", time) .. "\16" .. varint(step)
      .. text_field(5, table.concat(values)))
end

M.NAME = "events.out.tfevents.ftpipe" -- in a run's directory

-- What says when a row is, and not what was measured.
local NO_SCALARS = { v = true, step = true, time = true }

--- The scalars of a row of metrics.jsonl, by name: numbers, and those of lists by their place, as
-- idle_percent/0; of an evaluation its metric, as eval/accuracy.
-- @tparam table row
function M.of_row(row)
   local list = {}
   for key, value in pairs(row) do
      if type(value) == "number" and not NO_SCALARS[key] then
         local name = key == "value" and "eval/" .. tostring(row.metric) or key
         list[#list + 1] = { name, value }
      elseif type(value) == "table" then
         for i, inner in ipairs(value) do
            if type(inner) == "number" then
               list[#list + 1] = { ("%s/%d"):format(key, i - 1), inner }
            end
         end
      end
   end
   table.sort(list, function(a, b) return a[1] < b[1] end)
   return list
end

--- The record of a row of metrics.jsonl, as store/left.lua reads it.
function M.record_of(row) return M.scalars(row.time, row.step, M.of_row(row)) end

--- Rows of metrics.jsonl as the text of a file.
-- @tparam table rows
-- @tparam number time in seconds since 1970 of one without rows
-- @treturn string
-- @treturn int how many of them say when they are
function M.text(rows, time)
   local parts, n = {}, 0
   for _, row in ipairs(rows) do
      if row.time then
         n, time = n + 1, n == 0 and row.time or time
         parts[n] = M.record_of(row)
      end
   end
   return M.head(time) .. table.concat(parts), n
end

return M
