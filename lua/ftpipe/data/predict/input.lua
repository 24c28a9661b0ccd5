--- What `ftpipe predict` gets: one text, a file of texts, or rows of a task.

local core = require("ftpipe.core")
local records = require("ftpipe.text.records")

local M = {}

local function fail(format, ...) core.fail("malformed data", format:format(...)) end

local function read_text(path)
   if path == "-" then return io.stdin:read("*a"), "stdin" end
   return core.sys.read_file(path), path
end

local function check_utf8(text, path)
   local at = core.data.utf8_fault(text)
   if not at then return end
   local _, line = text:sub(1, at):gsub("\n", "")
   fail("%s:%d: byte 0x%02x is not UTF-8", path, line + 1, text:byte(at))
end

--- Texts, one a line; blank lines are left out.
local function lines_of(text, path)
   local list = {}
   for number, line in records.lines((text:gsub("\r\n?", "\n"))) do
      list[#list + 1] = { text = line, line = number }
   end
   if #list == 0 then fail("%s: holds no text", path) end
   return list
end

--- What a file is: "rows", "document" (SQuAD's JSON) or "lines".
local function form_of(path, text)
   if path:find("%.tsv$") or path:find("%.jsonl$") then return "rows" end
   if not text:find("^%s*{") then return "lines" end
   return text:find('"paragraphs"%s*:') and "document" or "rows"
end

--- Refuses one JSON value that goes over several lines, where each line is to be a row.
local function check_rows(path, text)
   local first = text:match("%S[^\n]*") -- of the lines that are not blank
   if pcall(core.json.decode, first) or not pcall(core.json.decode, text) then return end
   fail("%s: is one JSON value over several lines, expected a JSON object a line, or SQuAD's JSON",
      path)
end

--- The inputs: a list of { text =, context = } or { row = }, of a file with the `line`; and with
-- `path`; and `rows` (the list that rows are of), or `document` (a text) for the kind to read.
-- @tparam table job flags: text, context, file
-- @raise not found, malformed data
function M.read(job)
   local flags = job.flags
   if flags.text then
      check_utf8(flags.text, "--text")
      if flags.context then check_utf8(flags.context, "--context") end
      return { { text = flags.text, context = flags.context }, path = "--text" }
   end
   local text, path = read_text(flags.file)
   check_utf8(text, path)
   text = records.unmarked(text)
   local form = form_of(flags.file, text)
   local items
   if form == "document" then
      items = { document = text }
   elseif form == "lines" then
      items = lines_of(text, path)
   else
      if not path:find("%.tsv$") then check_rows(path, text) end
      items = { rows = records.parse(path, text) }
      for i, row in ipairs(items.rows) do items[i] = { row = row, line = records.line(row) } end
   end
   items.path = path
   return items
end

return M
