--- Profiles as text: a head of `key value` lines, then one line for each kind of node.
--
--    ftpipe profile 2
--    hardware AMD EPYC 9654 (avx512), 2 cores
--    ...
--    forward COUNT NS MODELLED_NS SPREAD RECOMPUTE_NS PACK_NS OUTPUT SAVED WORKSPACE  linear ...
--    backward COUNT NS MODELLED_NS SPREAD 0 0 OUTPUT 0 WORKSPACE  linear_grad f32(2, 32) ...
--    update COUNT NS NORM_NS  f32(512, 512)
--
-- Lines come sorted, so that two profiles of one graph can be compared line by line.

local core = require("ftpipe.core")
local shown = require("ftpipe.base.shown")
local suggest = require("ftpipe.base.suggest")

local M = {}

local VERSION = "ftpipe profile 2"

--- Keys of the head in their order; numbers or words.
local HEAD = {
   { "hardware", "word" }, { "device", "word" }, { "busy", "number" }, { "threads", "number" },
   { "dtype", "word" }, { "versions", "word" }, { "optimizer", "word" }, { "options", "word" },
   { "graph", "word" }, { "inputs", "word" }, { "source", "word" }, { "rounds", "number" },
   { "blocks", "number" }, { "distinct", "number" }, { "pass_ns", "number" },
   { "whole_ns", "number" }, { "copy_bytes_per_s", "number" }, { "handoff_ns", "number" },
}

--- Columns of the lines, after their first word.
M.COLUMNS = {
   forward = {
      "count", "ns", "modelled_ns", "spread", "recompute_ns", "pack_ns", "output_bytes",
      "saved_bytes", "workspace_bytes",
   },
   update = { "count", "ns", "norm_ns" },
}
M.COLUMNS.backward = M.COLUMNS.forward

--- Kinds of lines, in the order of the file.
M.KINDS = { "forward", "backward", "update" }

--- Times to 1e-4 ns, since a scalar's may be less than one, shares to a thousandth, the rest whole:
-- what is read is written again as it was.
local function column_text(name, value)
   if name:find("ns$") then return ("%.4f"):format(value) end
   return (name == "spread" and "%.3f" or "%.0f"):format(value)
end

local function row_line(kind, row)
   local words = { kind }
   for _, column in ipairs(M.COLUMNS[kind]) do
      words[#words + 1] = column_text(column, row[column] or 0)
   end
   return table.concat(words, " ") .. "  " .. row.text
end

--- The text of a profile: head (by key) and rows (by kind: lists with columns and text).
function M.write(profile)
   local lines = { VERSION }
   for _, entry in ipairs(HEAD) do
      local value = profile.head[entry[1]]
      if value ~= nil then
         lines[#lines + 1] = entry[1] .. " "
            .. (entry[2] == "number" and column_text(entry[1], value) or value)
      end
   end
   for _, kind in ipairs(M.KINDS) do
      local sorted = {}
      for i, row in ipairs(profile.rows[kind]) do sorted[i] = row end
      table.sort(sorted, function(a, b) return a.text < b.text end)
      for _, row in ipairs(sorted) do lines[#lines + 1] = row_line(kind, row) end
   end
   return table.concat(lines, "\n") .. "\n"
end

-- ---------------------------------------------------------------------------------------------
-- Reading.

local function malformed(path, number, format, ...)
   core.fail("malformed data", ("%s, line %d: "):format(path, number) .. format:format(...))
end

local function check_number(path, number, name, word)
   local value = tonumber(word)
   if not value or value ~= value or value < 0 or value == math.huge then
      malformed(path, number, "%s is '%s', expected a number, 0 or more", name, shown(word))
   end
   return value
end

local function read_row(path, number, kind, rest)
   local row = {}
   for _, column in ipairs(M.COLUMNS[kind]) do
      local word, after = rest:match("^%s*(%S+)(.*)$")
      if not word then
         malformed(path, number, "the line ends before %s; expected %s, and the node", column,
            table.concat(M.COLUMNS[kind], " "))
      end
      row[column], rest = check_number(path, number, column, word), after
   end
   row.text = rest:match("^%s*(.-)%s*$")
   if row.text == "" then malformed(path, number, "no node after the numbers") end
   return row
end

local function head_kind(key)
   for _, entry in ipairs(HEAD) do
      if entry[1] == key then return entry[2] end
   end
   return nil
end

local function read_line(path, number, line, profile)
   local key, rest = line:match("^%s*(%S*)%s*(.-)%s*$")
   if M.COLUMNS[key] then
      table.insert(profile.rows[key], read_row(path, number, key, rest))
      return
   end
   local kind = head_kind(key)
   if not kind then
      local names = { "forward", "backward", "update" }
      for _, entry in ipairs(HEAD) do names[#names + 1] = entry[1] end
      malformed(path, number, "unknown key '%s'%s", shown(key), suggest.hint(key, names))
   end
   if profile.head[key] then malformed(path, number, "a second '%s'", key) end
   profile.head[key] = kind == "number" and check_number(path, number, key, rest) or rest
end

--- @tparam string text
-- @tparam string path for messages
-- @treturn table head, rows
function M.read(text, path)
   local profile = { head = {}, rows = { forward = {}, backward = {}, update = {} } }
   local number = 0
   for line in (text:gsub("\n*$", "\n")):gmatch("([^\n]*)\n") do
      number = number + 1
      if number == 1 and line ~= VERSION then
         malformed(path, 1, "'%s', expected '%s'", shown(line:sub(1, 40)), VERSION)
      elseif number > 1 and line ~= "" then
         read_line(path, number, line, profile)
      end
   end
   for _, key in ipairs { "device", "copy_bytes_per_s", "handoff_ns" } do
      if not profile.head[key] then malformed(path, number, "'%s' is missing", key) end
   end
   return profile
end

return M
