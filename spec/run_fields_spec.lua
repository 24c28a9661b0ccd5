--- The state of a run: declared in one table, which the source keeps to.

local core = require("ftpipe.core")
local fields = require("ftpipe.run.fields")

local ROOMS = { "run", "store" }

--- Calls visit(file without ending, name) for every `run.name = ` and `self.name = ` in the methods
-- of runs, and functions that are given one.
local function each_write(visit)
   for _, room in ipairs(ROOMS) do
      local dir = "lua/ftpipe/" .. room
      for _, name in ipairs(core.sys.list_dir(dir)) do
         local file = room .. "/" .. name:gsub("%.lua$", "")
         for line in core.sys.read_file(dir .. "/" .. name):gmatch("[^\n]+") do
            local targets = line:match("^%s*([^=(]-)%s=%s[^=]")
            for owner, field in (targets or ""):gmatch("([%w_]+)%.([%w_]+)") do
               local of_run = owner == "run"
                  or owner == "self" and (file == "run/init" or file == "run/training")
               if of_run then visit(file, field) end
            end
         end
      end
   end
end

describe("a run's state", function()
   it("has a declared type for every field, and refuses others", function()
      local run = fields.new({ method = function() return 1 end }, { done = 3, losses = {} })
      assert.same({ 3, 1 }, { run.done, run.method() })
      run.done = run.done + 1
      assert.equal(4, run.done)
      assert.is_nil(run.leg)
      run.leg = {}
      run.leg = nil
      for name, value in pairs { doen = 1, done = "4", losses = 3, seconds = {}, leg = true } do
         assert.has_error(function() run[name] = value end)
         assert.has_error(function() fields.new({}, { [name] = value }) end)
      end
      assert.has_error(function() return run.doen end)
      assert.same({ 4 }, { run.done })
   end)

   it("is written by the files that the table names, and by no other", function()
      local written = {}
      each_write(function(file, name)
         written[name] = written[name] or {}
         written[name][file] = true
      end)
      local declared = {}
      for _, row in ipairs(fields.rows) do
         declared[row[1]] = true
         for file in pairs(written[row[1]] or {}) do
            assert.is_truthy((" " .. row[3] .. " "):find(" " .. file .. " ", 1, true),
               ("%s is written in %s"):format(row[1], file))
         end
         for file in row[3]:gmatch("%S+") do -- run/init makes a run, with values of any field
            assert.is_true(file == "run/init" or (written[row[1]] or {})[file] == true,
               ("%s is not written in %s"):format(row[1], file))
         end
         assert.is_true(#row[4] > 0)
      end
      for name in pairs(written) do assert.is_true(declared[name], name) end
      assert.is_truthy(written.leg and written.numbers and written.loss_mean)
   end)
end)
