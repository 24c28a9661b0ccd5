--- ftpipe report RUN|SWEEP: one HTML file that needs nothing else.

local args = require("ftpipe.recipe.args")
local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local directories = require("ftpipe.store.directory")
local records = require("ftpipe.store.record")
local usage = require("ftpipe.base.usage")

local M = { help = "a run or a sweep as one HTML page" }

M.declared = {
   "Writes what a run or a sweep left in its directory as one page, which needs no network:\n"
      .. "curves, memory planned and measured, partition, some batches in time, configuration.",
   "ftpipe report out/rte",
   "ftpipe report out/t5_rte --out sweep.html",
   out = { value = "FILE", help = "the page (report.html in the directory); - is stdout" },
}

--- @tparam {string,...} argv the words after "report"
function M.run(argv)
   local path = argvs.word(argv)
   local flags = args.read(M.declared, argv, "report RUN|SWEEP")
   if not path then
      usage("report needs the directory of a run or a sweep, as ftpipe report out/rte")
   end
   local page
   if core.sys.exists(path .. "/sweep.db") then
      page = require("ftpipe.report.sweep").page(path)
   elseif core.sys.exists(records.path(path)) then
      page = require("ftpipe.report.run").page(path)
   else
      core.fail("not found", ("'%s' is neither a run (run.json) nor a sweep (sweep.db)"):format(
         path))
   end
   local out = flags.out or path .. "/report.html"
   if out == "-" then return io.stdout:write(page) end
   directories.check_file(path, out)
   core.sys.write_file(out, page)
   print(("%s: %d kB"):format(out, math.ceil(#page / 1000)))
end

return M
