--- How trials end: what an exit code means, what a trial said, and when all of a sweep end alike.

local core = require("ftpipe.core")
local short = require("ftpipe.base.words").short

local M = {}

-- What an exit code means for a trial that was not asked to stop. `stays`: what was tried is to
-- blame, so that it would end so again; all else may be mended.
local ENDS = {
   [2] = { note = "it refused its flags" },
   [3] = { note = "its plan does not fit", stays = true },
   [4] = { note = "it diverged", stays = true },
   [5] = { note = "a device was lost" },
   [6] = { note = "files could not be read or written" },
   [75] = { note = "it was stopped" },
   [126] = { note = "the program could not be started" },
   [127] = { note = "the program could not be started" },
}

local MOST_SAID = 160 -- characters of a trial's own words in its note

local FEWEST = 3 -- trials that have to end alike before a sweep is given up

--- The error that a trial has printed, after ": "; nothing where there is none.
local function said(log)
   local last = ""
   if core.sys.exists(log) == "file" then
      for line in core.sys.read_file(log):gmatch("[^\r\n]+") do
         last = line:match("^ftpipe: (.+)") or last
      end
   end
   return last ~= "" and ": " .. short(last:gsub("%c", "?"):gsub('"', "'"), MOST_SAID) or ""
end

--- How a trial ended, in words, its own behind them.
-- @tparam int code not 0
-- @tparam string log path of what it printed
function M.note(code, log)
   if code > 128 then return ("signal %d ended it"):format(code - 128) end
   return (ENDS[code] and ENDS[code].note or "exit code " .. code) .. said(log)
end

--- Whether a failed trial would end so again: by what it tried.
function M.stays(row) return (ENDS[row.code] or {}).stays == true end

--- What a trial said, without where it said it.
local function words_of(row)
   return ((row.note or ""):gsub(("trials/%04d"):format(row.number), "trials/N"))
end

--- The trials that have failed, where none has ended otherwise, none by what it tried, and all said
-- the same; else an empty list.
-- @tparam {table,...} rows of index:trials()
function M.alike(rows)
   local list = {}
   for _, row in ipairs(rows) do
      if row.state == "failed" then list[#list + 1] = row end
      local other = row.state == "done" or row.state == "pruned"
      if other or M.stays(row) or list[1] and words_of(list[#list]) ~= words_of(list[1]) then
         return {}
      end
   end
   return list
end

local function has_changed(name, rows)
   for _, row in ipairs(rows) do
      if row.flags[name] ~= rows[1].flags[name] then return true end
   end
   return false
end

--- Whether what no trial so far has come past is not what they try: some have failed alike, and
-- each parameter that changes has had two values among them.
-- @tparam {table,...} rows
-- @tparam {table,...} parameters of the sweep
-- @treturn ?{table,...} the trials
function M.hopeless(rows, parameters)
   local list = M.alike(rows)
   if #list < FEWEST then return nil end
   for _, parameter in ipairs(parameters) do
      local may_change = parameter.range or #parameter.values > 1
      if may_change and not has_changed(parameter.name, list) then return nil end
   end
   return list
end

return M
