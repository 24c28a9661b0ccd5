--- Refuses what somebody asked for, with exit code 2.

local core = require("ftpipe.core")
local named = require("ftpipe.base.named")

local M = {}

--- The same in the words of whoever gave the options `o`: of "{data=%s}" see named.words.
function M.of(o, format, ...) M(named.words(o, format), ...) end

-- Raises `invalid argument`; format and values are those of string.format.
return setmetatable(M, {
   __call = function(_, format, ...) core.fail("invalid argument", format:format(...), 2) end,
})
