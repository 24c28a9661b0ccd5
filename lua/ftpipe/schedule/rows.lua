--- A timeline in characters: a row for each device, as wide as the terminal.

local core = require("ftpipe.core")
local words = require("ftpipe.base.words")

local M = {}

--- Options of a timeline in characters, for opts.check.
M.options = {
   batches = { type = "int", min = 1, default = 1 },
   columns = { type = "int", min = 1, max = 10000, help = "of a row; as the terminal is wide" },
   ascii = { type = "boolean", help = "no other characters; as the locale says" },
}

local NARROWEST, WIDEST, PRESET = 10, 400, 80 -- columns of a row, without its name

-- Marks of kinds of actions; of what else computes, the last; of nothing, a dot.
local MARKS = {
   unicode = { forward = "▓", backward = "░", ["backward-input"] = "░", ["backward-weight"] = "▒",
      recompute = "▚", other = "█", nothing = "·" },
   ascii = { forward = "F", backward = "B", ["backward-input"] = "B", ["backward-weight"] = "W",
      recompute = "R", other = "#", nothing = "." },
}

-- What is on its way or waited for is not computed.
local NOT_COMPUTED = { send = true, receive = true, wait = true }

--- Whether an event of a trace is work of one of the devices.
function M.computes(event, n_devices)
   return event.ph == "X" and type(event.cat) == "string" and event.pid < n_devices
      and not NOT_COMPUTED[event.cat] and not event.cat:find("^swap")
end

--- Microseconds of each kind in each column, by device.
local function fill(events, n_devices, first, per_column, columns)
   local rows = {}
   for d = 1, n_devices do
      rows[d] = {}
      for c = 1, columns do rows[d][c] = {} end
   end
   for _, event in ipairs(events) do
      if M.computes(event, n_devices) then
         local from, till = event.ts - first, event.ts + event.dur - first
         for c = math.floor(from / per_column), math.min(math.floor(till / per_column), columns - 1)
         do
            local cell = rows[event.pid + 1][c + 1]
            local part = math.min(till, (c + 1) * per_column) - math.max(from, c * per_column)
            cell[event.cat] = (cell[event.cat] or 0) + math.max(part, 0)
         end
      end
   end
   return rows
end

--- The kind that a column shows: what took most of it, unless nothing did.
local function kind_of(cell, per_column)
   local most, kind, sum = 0, "nothing", 0
   for name, us in pairs(cell) do
      sum = sum + us
      if us > most or us == most and name < kind then most, kind = us, name end
   end
   return 2 * sum >= per_column and kind or "nothing"
end

local function extent(events, n_devices)
   local first, last = math.huge, -math.huge
   for _, event in ipairs(events) do
      if M.computes(event, n_devices) then
         first, last = math.min(first, event.ts), math.max(last, event.ts + event.dur)
      end
   end
   return first, last
end

--- The rows, with the share of the time that each device computes nothing, and below them what the
-- marks are.
-- @tparam table events of a trace: ph, pid (device, from 0), cat, ts and dur in microseconds
-- @tparam {string,...} names of the devices
-- @tparam[opt] table o columns (of a row; what the terminal has), ascii (the terminal's, if absent)
-- @treturn string
function M.text(events, names, o)
   o = o or {}
   local longest = 0
   for _, name in ipairs(names) do longest = math.max(longest, words.width(name)) end
   local room = (core.sys.columns() or PRESET) - longest - 12
   local columns = o.columns or math.max(NARROWEST, math.min(room, WIDEST))
   local ascii = o.ascii
   if ascii == nil then ascii = not words.is_unicode() end
   local marks = ascii and MARKS.ascii or MARKS.unicode
   local first, last = extent(events, #names)
   if first >= last then return "nothing was computed" end
   local per_column = (last - first) / columns
   local lines, seen = {}, {}
   for d, row in ipairs(fill(events, #names, first, per_column, columns)) do
      local cells, busy = {}, 0
      for c, cell in ipairs(row) do
         for _, us in pairs(cell) do busy = busy + us end
         local kind = kind_of(cell, per_column)
         seen[marks[kind] and kind or "other"] = true
         cells[c] = marks[kind] or marks.other
      end
      local idle = math.max(0, 100 * (1 - busy / (last - first)))
      lines[d] = ("%s%s |%s| %3.0f %%"):format(names[d], (" "):rep(longest - words.width(names[d])),
         table.concat(cells), idle)
   end
   local legend = {}
   for _, kind in ipairs { "forward", "backward", "backward-input", "backward-weight", "recompute",
      "other", "nothing" }
   do
      if seen[kind] then legend[#legend + 1] = marks[kind] .. " " .. kind end
   end
   lines[#lines + 1] = ("%s; %.3f ms; behind each row: idle"):format(table.concat(legend, "  "),
      (last - first) / 1e3)
   return table.concat(lines, "\n")
end

return M
