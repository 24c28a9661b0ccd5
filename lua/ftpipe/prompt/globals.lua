--- The globals of what is typed. They lie over those of the program: what somebody assigns is seen
-- by what he types and by his files alone, so that `table = {}` or `type = nil` breaks nothing.

local suggest = require("ftpipe.base.suggest")

local M = {}

local PROGRAM = _G
local assigned = {} -- by name, also what is nil since

--- A global as it is, without an error; nil of one that is not there.
function M.peek(name)
   local value = rawget(M.own, name)
   if value ~= nil or assigned[name] then return value end
   return rawget(PROGRAM, name)
end

-- What files see, and what _G is at the prompt.
M.own = setmetatable({}, {
   __index = function(_, name) return M.peek(name) end,
   __newindex = function(own, name, value)
      if name == "arg" then return rawset(PROGRAM, name, value) end -- ft.args reads it
      assigned[name] = true
      rawset(own, name, value)
   end,
})

--- The names of all globals, as they are found.
function M.names()
   local names = {}
   for _, globals in ipairs { M.own, PROGRAM } do
      for name in next, globals do
         if type(name) == "string" and M.peek(name) ~= nil then names[#names + 1] = name end
      end
   end
   return names
end

-- What chunks see: one that was never assigned is an error.
M.typed = setmetatable({}, {
   __index = function(_, name)
      local value = M.peek(name)
      if value ~= nil or assigned[name] then return value end
      error(("there is no global '%s'%s"):format(tostring(name),
         suggest.hint(tostring(name), M.names())), 2)
   end,
   __newindex = function(_, name, value) M.own[name] = value end,
})

--- Gives a chunk the globals of files; what is none goes through, with its problem.
function M.adopt(chunk, ...)
   if not chunk then return nil, ... end
   return setfenv(chunk, M.own)
end

-- Code that somebody loads is his own.
local LOADERS = { _G = M.own }

for _, name in ipairs { "load", "loadfile", "loadstring" } do
   local load = PROGRAM[name]
   LOADERS[name] = function(...) return M.adopt(load(...)) end
end

function LOADERS.dofile(path)
   local chunk, problem = LOADERS.loadfile(path)
   if not chunk then error(problem, 0) end
   return chunk()
end

for name, value in pairs(LOADERS) do rawset(M.own, name, value) end

return M
