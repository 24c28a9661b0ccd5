--- Which files hold a task's data, and in which of its layouts.
--
-- A layout is { name =, train =, eval =, ... }: the names of its files in a data directory, and
-- what the task's kind wants to know of it. `read`, optional, is a function path -> rows; without
-- it the end of the name decides (text/records.lua). `columns`, optional, is a list of fields by
-- which a row of this layout is told from one of another whose files end alike.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")
local named = require("ftpipe.base.named")
local records = require("ftpipe.text.records")

local M = {}

local function fail(status, format, ...)
   core.fail(status, format:format(...))
end

local function exists(path)
   return core.sys.exists(path) == "file"
end

--- Refuses what is no file to read rows from.
local function check_file(o, name, path)
   local kind = core.sys.exists(path)
   if not kind then fail("not found", "%s: no such file", named.value(o, name, path)) end
   if kind == "directory" then
      fail("invalid argument", "%s: is a directory: give a file in it, or %s",
         named.value(o, name, path), named.value(o, "data", path))
   elseif kind ~= "file" then
      fail("invalid argument", "%s: is no ordinary file, which can be read more than once",
         named.value(o, name, path))
   end
end

local function expected_files(layouts)
   local lines = {}
   for i, layout in ipairs(layouts) do
      lines[i] = ("%s and %s (%s)"):format(layout.train, layout.eval, layout.name)
   end
   return table.concat(lines, " or ")
end

--- The names in a directory, as text.
local function list_names(dir)
   local names = core.sys.list_dir(dir)
   local most = 20
   local rest = #names > most and (" and %d more"):format(#names - most) or ""
   return table.concat(names, ", ", 1, math.min(#names, most)) .. rest
end

--- A directory's name without the slashes that a shell's completion puts behind it.
local function without_slash(dir) return #dir > 1 and dir:gsub("(.)/+$", "%1") or dir end

--- The layout of a directory: the first of which the most files are there.
local function find_layout(task, o)
   local dir = without_slash(o.data)
   local kind = core.sys.exists(dir)
   if not kind then fail("not found", named.words(o, "{data=%s}: no such directory"), dir) end
   if kind ~= "directory" then
      fail("invalid argument",
         named.words(o, "{data=%s}: not a directory ({train_file} and {eval_file} take files)"),
         dir)
   end
   local best, most = nil, 0
   for _, layout in ipairs(task.definition.layouts) do
      local n = (exists(dir .. "/" .. layout.train) and 1 or 0)
         + (exists(dir .. "/" .. layout.eval) and 1 or 0)
      if n > most then best, most = layout, n end
   end
   if best then return best end
   return fail("not found", "%s: holds no data of task %s, expected %s; it holds: %s", dir,
      task.name, expected_files(task.definition.layouts), list_names(dir))
end

local function ending_of(path)
   local ending = path:match("%.[^./]*$")
   return ending == ".json" and ".jsonl" or ending
end

--- The layout of a file, by the end of its name.
local function layout_of_file(task, path)
   local endings, seen = {}, {}
   for _, layout in ipairs(task.definition.layouts) do
      local ending = ending_of(layout.train)
      if ending == ending_of(path) then return layout end
      if not seen[ending] then endings[#endings + 1] = ending end
      seen[ending] = true
   end
   return fail("invalid argument", "%s: cannot tell its layout, expected a name that ends in %s",
      path, table.concat(endings, " or "))
end

--- Where a split of the data is.
-- @tparam task task
-- @tparam table o data (a directory), train_file, eval_file
-- @tparam string split "train" or "eval"
-- @treturn table layout by name; what the rows say may be another, see `read`
-- @treturn string path
function M.find(task, o, split)
   local file = o[split .. "_file"]
   if file then
      check_file(o, split .. "_file", file)
      return layout_of_file(task, file), file
   end
   if not o.data then
      fail("invalid argument", "task %s: no %s data, give %s or %s", task.name, split,
         named.name(o, "data"), named.name(o, split .. "_file"))
   end
   local layout = find_layout(task, o)
   local path = without_slash(o.data) .. "/" .. layout[split]
   if not exists(path) then
      fail("not found", "%s: no such file (task %s, layout %s); %s takes one of another name", path,
         task.name, layout.name, named.name(o, split .. "_file"))
   end
   return layout, path
end

local function has_columns(layout, row)
   for _, name in ipairs(layout.columns) do
      if row[name] == nil then return false end
   end
   return true
end

--- The layout whose columns the first row has; the one that was found by name without such.
local function layout_of_rows(task, found, rows)
   for _, layout in ipairs(task.definition.layouts) do
      if layout.columns and ending_of(layout.train) == ending_of(found.train)
         and has_columns(layout, rows[1]) then
         return layout
      end
   end
   return found
end

--- The layout of rows that come from anywhere: of a name that says nothing they are JSON.
-- @tparam task task
-- @tparam {table,...} rows with .path
function M.layout_of(task, rows)
   local ending = rows.path:find("%.tsv$") and ".tsv" or ".jsonl"
   for _, layout in ipairs(task.definition.layouts) do
      if ending_of(layout.train) == ending then return layout_of_rows(task, layout, rows) end
   end
   return fail("invalid argument", "%s: task %s has no layout of %s files", rows.path, task.name,
      ending)
end

--- What a layout's own `read` gave, each row with a number for messages: its line, or its place.
local function read_own(task, found, path)
   local rows = found.read(path)
   local function refuse(what, value)
      fail("malformed data", "%s: task %s: 'read' of its layout gives %s%s, expected a list of "
         .. "rows, which are tables", path, task.name, what, class.told(value))
   end
   if type(rows) ~= "table" then refuse("", rows) end
   for i, row in ipairs(rows) do
      if type(row) ~= "table" then refuse("as row " .. i .. " ", row) end
      if not records.line(row) then records.numbered(row, i) end
   end
   rows.path = rows.path or path
   return rows
end

--- Reads a file.
-- @tparam task task
-- @tparam table found layout by name
-- @tparam string path
-- @treturn {table,...} rows with .path, as text/records.lua gives them
-- @treturn table layout
-- @raise not found, malformed data
function M.read(task, found, path)
   if found.read then return read_own(task, found, path), found end
   local rows = records.read(path)
   return rows, layout_of_rows(task, found, rows)
end

return M
