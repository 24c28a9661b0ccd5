--- Refuses what somebody asked for, with exit code 2.

local core = require("ftpipe.core")

--- Raises `invalid argument`; format and values are those of string.format.
return function(format, ...)
   core.fail("invalid argument", format:format(...), 2)
end
