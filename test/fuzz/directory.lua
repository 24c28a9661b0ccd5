--- A new directory, in memory where the system has such files, that goes with the process.
local core = require("ftpipe.core")

local MEMORY = "/dev/shm"

local path = os.tmpname()
os.remove(path)
if core.sys.exists(MEMORY) == "directory" then path = MEMORY .. path:match("/[^/]*$") end
core.sys.mkdir(path)
local remover = newproxy(true)
getmetatable(remover).__gc = function() os.execute("rm -r " .. path) end

return { path = path, remover = remover }
