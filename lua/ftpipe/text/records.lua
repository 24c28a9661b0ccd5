--- Files of records: one JSON object a line, or tab-separated columns under a header line.
--
-- A reader gives a list of rows; the list has `path`. A row is a table of fields, with its line in
-- the file under a key that no field can have. Errors name the file, the line and, for what is
-- inside a line, the column.

local core = require("ftpipe.core")
local counted = require("ftpipe.base.counted")
local shown = require("ftpipe.base.shown")

local M = {}

local LINE = {} -- the key

--- Says which line of its file a row is.
-- @treturn table the row
function M.numbered(row, line)
   row[LINE] = line
   return row
end

--- The line of a row; nil of one that is of no file.
function M.line(row) return row[LINE] end

--- A text without the byte order mark that some editors write in front.
function M.unmarked(text) return (text:gsub("^\239\187\191", "")) end

local function fail(format, ...)
   core.fail("malformed data", format:format(...))
end

--- Iterates over the lines of a text: number, line without its end. Blank lines are left out.
function M.lines(text)
   local position, number = 1, 0
   text = M.unmarked(text)
   return function()
      while position <= #text do
         local stop = text:find("\n", position, true) or #text + 1
         local line = text:sub(position, stop - 1):gsub("\r$", "")
         position, number = stop + 1, number + 1
         if line:find("%S") then return number, line end
      end
      return nil
   end
end

local function check_utf8(path, number, line)
   local at = core.data.utf8_fault(line)
   if at then
      fail("%s:%d:%d: byte 0x%02x is not UTF-8", path, number, at, line:byte(at))
   end
end

local NO_OBJECT = "%s:%d:%d: expected a JSON object a line"

--- The JSON value of one line. The reader of JSON counts lines from the start of what it is given.
local function decode_line(path, number, line)
   local ok, value = pcall(core.json.decode, line, path)
   if ok then return value end
   if type(value) ~= "table" or value.status ~= "malformed data" then error(value, 0) end
   local open = line:match("^%s*()[%[{]%s*{?%s*$") -- as of JSON that is indented
   if open then fail(NO_OBJECT .. ", this one goes on in the next line", path, number, open) end
   local start = path .. ":1:"
   local what = value.message
   if what:sub(1, #start) == start then
      what = what:sub(#start + 1)
   else
      what = " " .. what
   end
   return fail("%s:%d:%s", path, number, what)
end

local function is_object(value)
   return type(value) == "table" and getmetatable(value) ~= core.json.array_meta
end

local function check_some(rows, what)
   if #rows == 0 then fail("%s: holds no rows, expected %s", rows.path, what) end
   return rows
end

--- Reads a file with one JSON object a line.
-- @tparam string path
-- @tparam[opt] string text of the file, when it was read already
-- @treturn {table,...} rows
-- @raise not found; malformed data
-- @usage local rows = records.jsonl("RTE/val.jsonl")
function M.jsonl(path, text)
   local rows = { path = path }
   for number, line in M.lines(text or core.sys.read_file(path)) do
      check_utf8(path, number, line)
      local row = decode_line(path, number, line)
      if not is_object(row) then fail(NO_OBJECT, path, number, 1) end
      rows[#rows + 1] = M.numbered(row, number)
   end
   return check_some(rows, "one JSON object a line")
end

local function split_tabs(line)
   local fields = {}
   for field in (line .. "\t"):gmatch("([^\t]*)\t") do fields[#fields + 1] = field end
   return fields
end

local function read_header(path, number, line)
   local names, seen = split_tabs(line), {}
   for _, name in ipairs(names) do
      if name == "" or seen[name] then
         fail("%s:%d: the header line names a column '%s' %s", path, number, shown(name),
            name == "" and "(without a name)" or "twice")
      end
      seen[name] = true
   end
   return names
end

--- Reads tab-separated values under a line with the names of the columns, as GLUE has them: no
-- quoting, every value a string.
-- @tparam string path
-- @tparam[opt] string text of the file, when it was read already
-- @treturn {table,...} rows
-- @raise not found; malformed data
-- @usage local rows = records.tsv("RTE/dev.tsv")
function M.tsv(path, text)
   local rows, names = { path = path }, nil
   for number, line in M.lines(text or core.sys.read_file(path)) do
      check_utf8(path, number, line)
      if not names then
         names = read_header(path, number, line)
      else
         local fields = split_tabs(line)
         if #fields ~= #names then
            fail("%s:%d: %s, the header line names %d (%s)", path, number,
               counted(#fields, "column"), #names, M.listed(names))
         end
         local row = {}
         for i, name in ipairs(names) do row[name] = fields[i] end
         rows[#rows + 1] = M.numbered(row, number)
      end
   end
   return check_some(rows, "a line with the names of the columns, then one row a line")
end

--- Rows of a text whose name ends in `.tsv`; of any other, one JSON object a line.
function M.parse(path, text)
   if path:find("%.tsv$") then return M.tsv(path, text) end
   return M.jsonl(path, text)
end

--- Reads a file by the end of its name: `.tsv`, or `.jsonl` (`.json`).
-- @tparam string path
-- @treturn {table,...} rows
function M.read(path)
   if path:find("%.tsv$") then return M.tsv(path) end
   if path:find("%.jsonl?$") then return M.jsonl(path) end
   return core.fail("invalid argument",
      ("%s: cannot tell what it holds, expected a name that ends in .jsonl or .tsv"):format(path))
end

--- Where a row comes from, for messages.
function M.where(rows, row)
   return ("%s:%d"):format(rows.path, M.line(row))
end

--- Names as they may stand in a message.
function M.listed(names)
   return shown(table.concat(names, ", "))
end

--- The names of a row's fields, sorted.
function M.names(row)
   local names = {}
   for name in pairs(row) do
      if name ~= LINE then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

local function check_type(rows, row, name, value, expected, have)
   if value == core.json.null then
      fail("%s: field '%s' is null, expected a %s", M.where(rows, row), name, expected)
   end
   if value == nil then
      fail("%s: field '%s' is missing (have: %s)", M.where(rows, row), name,
         M.listed(M.names(have)))
   end
   if type(value) ~= expected then
      fail("%s: field '%s' is a %s, expected a %s", M.where(rows, row), name, type(value), expected)
   end
   return value
end

--- A field that must be there.
-- @tparam table rows the list that the row is of
-- @tparam table row
-- @tparam string name
-- @treturn string
-- @raise malformed data: it is missing, null or not a string
function M.string(rows, row, name)
   return check_type(rows, row, name, row[name], "string", row)
end

--- A field of a table inside a row.
-- @tparam table rows the list that the row is of
-- @tparam table row
-- @tparam table within
-- @tparam string name
-- @tparam string expected its type
-- @tparam[opt] string where `within` is in the row, for messages: "passage.questions[0]"
-- @raise malformed data: it is missing, null or of another type
function M.field(rows, row, within, name, expected, where)
   local full = where and where .. "." .. name or name
   return check_type(rows, row, full, within[name], expected, within)
end

--- Iterates over a field that must be a list of objects: number from 1, object.
-- @raise malformed data: the field is no list, or holds something else
function M.each(rows, row, within, name, where)
   local list = M.field(rows, row, within, name, "table", where)
   local full = where and where .. "." .. name or name
   for i, entry in ipairs(list) do
      check_type(rows, row, ("%s[%d]"):format(full, i - 1), entry, "table", {})
   end
   if is_object(list) then
      fail("%s: field '%s' is an object, expected a list", M.where(rows, row), full)
   end
   return ipairs(list)
end

return M
