--- Functions that say in one line what they are to be given.
--
--    guard("ft.graph", M, {
--       load = "path: string, options?: table",
--       open = "what: string|graph, o?: table",
--    }, "open")                                    -- that is ft.graph(what, o)
--    guard("graph", Graph, { save = "path: string" })   -- methods: graph:save(path)
--
-- Types are those of class.lua; with a question mark the argument may be absent. Of what is wrong
-- the first is said, with the line of the caller outside ftpipe.

local class = require("ftpipe.base.class")
local core = require("ftpipe.core")

--- Arguments of a signature: rows { name =, kinds =, optional = }.
local function parse(signature)
   local takes = {}
   for name, mark, kinds in signature:gmatch("([%w_]+)(%??): ([%w_.|]+)") do
      takes[#takes + 1] = { name = name, optional = mark == "?", kinds = kinds }
   end
   return takes
end

local function fail(format, ...)
   core.fail("invalid argument", core.where() .. format:format(...), 2)
end

local function check_arguments(what, takes, ...)
   for i, row in ipairs(takes) do
      local value = (select(i, ...))
      local fine = value == nil and row.optional or class.is(value, row.kinds)
      if not fine then
         fail("%s: '%s': expected %s, got %s", what, row.name, class.words(row.kinds),
            class.told(value))
      end
   end
end

local function guarded(what, takes, f)
   return function(...)
      check_arguments(what, takes, ...)
      return f(...)
   end
end

local function guarded_method(what, kind, takes, f)
   return function(self, ...)
      if class.of(self) ~= kind then
         fail("%s: called on %s, expected a %s in front of the colon", what, class.told(self), kind)
      end
      check_arguments(what, takes, ...)
      return f(self, ...)
   end
end

--- Puts checks in front of functions of a table. Methods are those of a class: a table whose
-- __name is `prefix`.
-- @tparam string prefix what a user writes in front of the name
-- @tparam table owner
-- @tparam table signatures by name of function
-- @tparam[opt] string called the function that a call of the table itself is
return function(prefix, owner, signatures, called)
   for name, signature in pairs(signatures) do
      local takes, f = parse(signature), owner[name]
      if owner.__name == prefix then
         owner[name] = guarded_method(prefix .. ":" .. name, prefix, takes, f)
      else
         owner[name] = guarded(name == called and prefix or prefix .. "." .. name, takes, f)
      end
   end
end
