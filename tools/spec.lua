--- Runs busted on spec files inside ftpipe: ftpipe tools/spec.lua spec/x_spec.lua...
-- Prints failures in full, skipped tests by name, and a closing line that counts. Zero tests is a
-- failure: busted alone would call it a success.

local function describe(entry)
   local message = entry.message
   if type(message) ~= "string" then message = tostring(message or "no message") end
   return ("%s\n   %s"):format(entry.name, message:gsub("\n", "\n   "))
end

--- The output handler that busted loads as "counts".
local function new_handler()
   local busted = require("busted")
   local handler = require("busted.outputHandlers.base")()

   local function report()
      for _, list in ipairs { handler.failures, handler.errors } do
         for _, entry in ipairs(list) do
            print("failed: " .. describe(entry))
            local trace = entry.trace and entry.trace.traceback
            if trace then print("   " .. trace:gsub("^\n", ""):gsub("\n", "\n   ")) end
         end
      end
      for _, entry in ipairs(handler.pendings) do
         print(("pending: %s: %s"):format(entry.name, tostring(entry.message or "no reason given")))
      end
      local failed = handler.failuresCount + handler.errorsCount
      local done = handler.successesCount + failed + handler.pendingsCount
      if done == 0 then
         print("failed: there is no test in these files")
         failed = 1
      end
      print(("%d passed, %d failed, %d skipped"):format(handler.successesCount, failed,
         handler.pendingsCount))
      if done == 0 then os.exit(1, true) end
      return nil, true
   end

   busted.subscribe({ "suite", "end" }, report, { priority = 10 })
   return handler
end

package.preload["busted.outputHandlers.counts"] = function() return new_handler end

local files = arg
local script = arg[0]
arg = { [0] = script, "--ignore-lua", "--output=counts", "--helper=spec/support/helper.lua" }
for _, file in ipairs(files) do arg[#arg + 1] = file end
require("busted.runner")({ standalone = false })
