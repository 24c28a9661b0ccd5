--- The index of a sweep: which trials there are, what they said, how they ended. A SQLite file that
-- the sweep and its trials write at once; what a trial leaves behind is in its own directory.
--
-- Every change is a line of sweep.jsonl, too, of which the index can be made anew.

local core = require("ftpipe.core")
local copy = require("ftpipe.base.copy")
local prune = require("ftpipe.sweep.prune")

local M = {}
local Index = {}
Index.__index = Index

local NAME, JOURNAL = "sweep.db", "sweep.jsonl"

local MOST_LOSS = 1e300 -- in the place of what is not a number

local TABLES = {
   "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT)",
   [[CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, point TEXT, flags TEXT,
      state TEXT, value REAL, step INTEGER, code INTEGER, note TEXT, began REAL, ended REAL)]],
   [[CREATE TABLE IF NOT EXISTS reports (number INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER,
      step INTEGER, loss REAL, ends INTEGER, UNIQUE (trial, step))]],
}

-- ---------------------------------------------------------------------------------------------
-- Changes: what each does to the tables. `begins` is the first line of a journal.

local CHANGES = {}

function CHANGES.begins() end

function CHANGES.set(db, o)
   db:run("INSERT OR REPLACE INTO settings VALUES (?, ?)", o.name, o.value)
end

function CHANGES.begin(db, o)
   db:run("INSERT OR REPLACE INTO trials (number, point, flags, state, began) "
      .. "VALUES (?, ?, ?, 'running', ?)", o.number, core.json.encode(core.json.array(o.point)),
      core.json.encode(o.flags, { sort = true }), o.time)
end

function CHANGES.finish(db, o)
   db:run("UPDATE trials SET state = ?, value = ?, step = ?, code = ?, note = ?, ended = ? "
      .. "WHERE number = ?", o.state, o.value, o.step, o.code, o.note, o.time, o.number)
end

function CHANGES.report(db, o)
   db:run("INSERT INTO reports (trial, step, loss, ends) VALUES (?, ?, ?, ?)", o.trial, o.step,
      o.loss, o.ends and 1 or 0)
end

--- Adds a line to a file, behind one that was cut by a full disk as well.
local function append(path, line)
   local file, problem = io.open(path, "a+")
   local size = file and file:seek("end")
   if size and size > 0 then
      file:seek("set", size - 1)
      if file:read(1) ~= "\n" then line = "\n" .. line end
      file:seek("end")
   end
   local written = file
   if written then written, problem = file:write(line, "\n") end
   if written then written, problem = file:flush() end
   if file then file:close() end
   if not written then core.fail("input or output failed", ("%s: %s"):format(path, problem)) end
end

--- Changes the tables and says so in the journal; within a transaction. What ends in between leaves
-- a journal that is ahead by what was about to be.
local function record(index, what, o)
   CHANGES[what](index.db, o)
   append(index.path .. "/" .. JOURNAL, core.json.encode(copy(o, { what = what }),
      { sort = true }))
end

-- ---------------------------------------------------------------------------------------------
-- Files.

--- A database of that name with the tables.
local function open_file(path, name)
   local index = setmetatable({ path = path, db = core.database.open(path .. "/" .. name) }, Index)
   for _, statement in ipairs(TABLES) do index.db:run(statement) end
   return index
end

--- The index of a sweep's directory.
-- @tparam string path of the directory
-- @tparam[opt] boolean must_exist
-- @raise not found; malformed data: it is lost or damaged, and can be made anew
function M.open(path, must_exist)
   local there = core.sys.exists(path .. "/" .. NAME)
   local journal = core.sys.exists(path .. "/" .. JOURNAL)
   if not there and journal then
      core.fail("malformed data", ("%s: there is no %s; ftpipe runs reindex %s makes it anew")
         :format(path, NAME, path))
   elseif not there and must_exist then
      core.fail("not found", ("'%s' is no sweep: there is no %s in it"):format(path, NAME))
   end
   local ok, index = pcall(open_file, path, NAME)
   if ok then
      if not there then index:change(function() record(index, "begins", {}) end) end
      return index
   end
   if not journal or type(index) ~= "table" then error(index, 0) end
   return core.fail("malformed data", ("%s; ftpipe runs reindex %s makes it anew"):format(
      index.message, path))
end

--- Refuses a directory in which the sweep or one of its trials runs.
local function check_free(path)
   local holders = { path .. "/lock" }
   local trials = path .. "/trials"
   for _, name in ipairs(core.sys.exists(trials) and core.sys.list_dir(trials) or {}) do
      if core.sys.exists(trials .. "/" .. name) == "directory" then
         holders[#holders + 1] = ("%s/%s/lock"):format(trials, name)
      end
   end
   for _, lock in ipairs(holders) do
      if core.io.lock_holder(lock) then
         core.fail("invalid argument", ("%s: a process is running there"):format(
            lock:gsub("/lock$", "")), 2)
      end
   end
end

--- The changes that a journal says, and how many of its lines say none: those that were cut, or
-- damaged.
local function read_journal(file)
   if not core.sys.exists(file) then
      core.fail("not found", file .. ": there is none, of which the index could be made")
   end
   local list, n_lost = {}, 0
   for line in io.lines(file) do
      local ok, o = pcall(core.json.decode, line)
      local says = ok and type(o) == "table" and CHANGES[o.what]
      if says then list[#list + 1] = o else n_lost = n_lost + 1 end
   end
   if not list[1] or list[1].what ~= "begins" then
      core.fail("malformed data", file .. ": does not begin where the sweep began")
   end
   return list, n_lost
end

--- Makes the index of a directory anew, of its journal.
-- @treturn int trials
-- @treturn int reports
-- @treturn int lines of the journal that say no change, and were left out
-- @raise invalid argument: the sweep is running; not found, malformed data: there is no journal, or
--   one of a part of the sweep
function M.rebuild(path)
   local changes, n_lost = read_journal(path .. "/" .. JOURNAL)
   check_free(path)
   local file = path .. "/" .. NAME
   for _, ending in ipairs { "", "-wal", "-shm" } do os.remove(file .. ending) end
   local index = open_file(path, NAME)
   index:change(function()
      for _, o in ipairs(changes) do CHANGES[o.what](index.db, o) end
   end)
   local trials, reports = #index:trials(), #index:reports()
   index:close()
   return trials, reports, n_lost
end

function Index:close() self.db:close() end

-- ---------------------------------------------------------------------------------------------
-- What is in it.

--- Runs body in a transaction, which waits for those of others.
function Index:change(body)
   self.db:run("BEGIN IMMEDIATE")
   local ok, result = pcall(body)
   if ok then
      self.db:run("COMMIT")
      return result
   end
   pcall(self.db.run, self.db, "ROLLBACK")
   error(result, 0)
end

--- A setting, as text; nil when it was never set.
function Index:get(name)
   local row = self.db:run("SELECT value FROM settings WHERE name = ?", name)[1]
   return row and row.value
end

function Index:set(name, value)
   self:change(function() record(self, "set", { name = name, value = value }) end)
end

--- The trials by number: point and flags as tables, state ("running", "done", "pruned", "failed",
-- "waiting"), value, step, code, note, began, ended.
function Index:trials()
   local rows = self.db:run("SELECT * FROM trials ORDER BY number")
   for _, row in ipairs(rows) do
      row.point = core.json.decode(row.point)
      row.flags = core.json.decode(row.flags)
   end
   return rows
end

--- A new trial, or one that begins again.
function Index:begin(number, point, flags)
   self:change(function()
      record(self, "begin", { number = number, point = core.json.array(point), flags = flags,
         time = core.sys.unix_time() })
   end)
end

--- How a trial ended.
function Index:finish(number, result)
   self:change(function()
      record(self, "finish", copy(result, { number = number, time = core.sys.unix_time() }))
   end)
end

function Index:reports()
   return self.db:run("SELECT trial, step, loss, ends FROM reports ORDER BY number")
end

--- What a trial says of itself at a step, which decides whether it goes on. A trial that was
-- resumed and says it again gets the same answer.
-- @treturn boolean whether the trial is to end
function Index:report(trial, step, loss)
   return self:change(function()
      local row = self.db:run("SELECT ends FROM reports WHERE trial = ? AND step = ?", trial,
         step)[1]
      if row then return row.ends == 1 end
      local text = self:get("prune")
      local rule = text and core.json.decode(text)
      local ends = rule and rule.kind and prune.ends(rule, self:reports(),
         { trial = trial, step = step, loss = loss }) or false
      record(self, "report", { trial = trial, step = step, ends = ends,
         loss = loss == loss and loss or MOST_LOSS })
      return ends
   end)
end

return M
