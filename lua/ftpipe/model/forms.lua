--- The forms that a checkpoint takes: other names for a model's parameters.
--
-- A family's `forms` is a table of four lists, each of which may be absent:
--
--    names = { { "^wte%.", "transformer.wte." }, { "%.gamma$", ".weight" } }
--       Lua patterns and what replaces them, tried in order on every name in the file: prefixes
--       that are lacking or too many, suffixes of older versions. The three lists below, and the
--       model's parameters, speak of the names that this gives.
--    aliases = { ["shared.weight"] = { "lm_head.weight" } }
--       Other names that may stand for a parameter, or beside it with the same values.
--    ignored = { "%.attn%.masked_bias$" }
--       Patterns of names that mean nothing to the model.
--    optional = { "^qa_outputs%." }
--       Patterns of parameters that get initial values where the file has none of that pattern.

local M = {}
local Names = {}
Names.__index = Names

local function canonical(form, name)
   for _, rule in ipairs(form.names or {}) do name = name:gsub(rule[1], rule[2]) end
   return name
end

--- Whether one of the patterns is in the name.
local function matches(patterns, name)
   for _, pattern in ipairs(patterns or {}) do
      if name:find(pattern) then return pattern end
   end
   return nil
end

--- The names of a file, seen through a form.
-- @tparam table form as above
-- @tparam table names those in the file, sorted
function M.names(form, names)
   local all = {}
   for _, name in ipairs(names) do
      local known = canonical(form, name)
      local list = all[known] or {}
      all[known] = list
      -- The name that needed no rule stands first.
      table.insert(list, name == known and 1 or #list + 1, name)
   end
   return setmetatable({ form = form, all = all }, Names)
end

--- The names in the file under which a parameter's values may be, the best first.
function Names:candidates(parameter)
   local list = {}
   for _, name in ipairs(self.all[parameter] or {}) do list[#list + 1] = name end
   for _, alias in ipairs((self.form.aliases or {})[parameter] or {}) do
      for _, name in ipairs(self.all[alias] or {}) do list[#list + 1] = name end
   end
   return list
end

--- The name in the file of a parameter, aliases apart; nil when it has none.
function Names:own(parameter)
   return (self.all[parameter] or {})[1]
end

--- Whether a name in the file means nothing to the model.
function Names:ignored(name)
   return matches(self.form.ignored, canonical(self.form, name)) ~= nil
end

--- The pattern by which a parameter may be absent, nil when it may not.
function Names:optional(parameter)
   return matches(self.form.optional, parameter)
end

return M
