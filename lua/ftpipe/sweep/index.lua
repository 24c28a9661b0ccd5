--- The index of a sweep: which trials there are, what they said, how they ended. A SQLite file that
-- the sweep and its trials write at once; what a trial leaves behind is in its own directory.

local core = require("ftpipe.core")
local prune = require("ftpipe.sweep.prune")

local M = {}
local Index = {}
Index.__index = Index

local NAME = "sweep.db"

local TABLES = {
   "CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT)",
   [[CREATE TABLE IF NOT EXISTS trials (number INTEGER PRIMARY KEY, point TEXT, flags TEXT,
      state TEXT, value REAL, step INTEGER, code INTEGER, note TEXT, began REAL, ended REAL)]],
   [[CREATE TABLE IF NOT EXISTS reports (number INTEGER PRIMARY KEY AUTOINCREMENT, trial INTEGER,
      step INTEGER, loss REAL, ends INTEGER, UNIQUE (trial, step))]],
}

--- The index of a sweep's directory.
-- @tparam string path of the directory
-- @tparam[opt] boolean must_exist
function M.open(path, must_exist)
   local file = path .. "/" .. NAME
   if must_exist and not core.sys.exists(file) then
      core.fail("not found", ("'%s' is no sweep: there is no %s in it"):format(path, NAME))
   end
   local index = setmetatable({ path = path, db = core.database.open(file) }, Index)
   for _, statement in ipairs(TABLES) do index.db:run(statement) end
   return index
end

function Index:close() self.db:close() end

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
   self.db:run("INSERT OR REPLACE INTO settings VALUES (?, ?)", name, value)
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
   self.db:run("INSERT OR REPLACE INTO trials (number, point, flags, state, began) "
      .. "VALUES (?, ?, ?, 'running', ?)", number, core.json.encode(core.json.array(point)),
      core.json.encode(flags, { sort = true }), core.sys.unix_time())
end

--- How a trial ended.
function Index:finish(number, result)
   self.db:run("UPDATE trials SET state = ?, value = ?, step = ?, code = ?, note = ?, ended = ? "
      .. "WHERE number = ?", result.state, result.value, result.step, result.code, result.note,
      core.sys.unix_time(), number)
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
      self.db:run("INSERT INTO reports (trial, step, loss, ends) VALUES (?, ?, ?, ?)", trial, step,
         loss == loss and loss or 1e300, ends and 1 or 0)
      return ends
   end)
end

return M
