--- What a text within quotes may say: a choice of an option, a model, devices, a name that has
-- help; and whether it may be a file.

local choices = require("ftpipe.plan.choices")
local reference = require("ftpipe.prompt.reference")

local M = {}

local function models() return require("ftpipe").model.builtin_names() end

-- Examples: lists of devices have no end.
local function devices()
   return { "cpu", "cpu:2", "cuda", "hosts:2xcpu:4", "sim:4x11GB", "sim:8x2080ti",
      "sim:2xh200+4x3090" }
end

local function methods()
   local names = {}
   for i, row in ipairs(require("ftpipe").partition.methods) do names[i] = row.name end
   return names
end

local function presets() return require("ftpipe").args.presets() end

local function tasks() return require("ftpipe").task.names() end

local function partitions() return choices.partitions end

--- The names that have help.
local function helped()
   local names = reference.topics()
   for _, entry in ipairs(reference.entries()) do names[#names + 1] = entry.name end
   return names
end

-- Of an option, whatever takes it; and of the first argument of a call, by the call or by how the
-- reference calls the argument.
local OF_OPTION = { devices = devices, method = methods, model = models, partition = partitions,
   preset = presets }
local OF_CALL = { help = helped, ["ft.cluster"] = devices, ["ft.task.named"] = tasks }
local OF_ARGUMENT = { what = models, o = models }
local OF_FILES = { what = true, o = true, path = true, dir = true }

--- The words in small letters that an option's values are written as: "DIR|embedded".
local function words_of(rule)
   local words = {}
   for word in (rule.value or ""):gmatch("[^|]+") do
      if word:find("^%l+$") then words[#words + 1] = word end
   end
   return words
end

--- Of an option.
-- @tparam string name
-- @tparam[opt] table rule nil where no call is known that takes it
-- @treturn {string,...}
-- @treturn boolean whether it may be a file
function M.of_option(name, rule)
   if rule and rule.choices then return rule.choices, false end
   local list = rule and words_of(rule) or {}
   for _, word in ipairs(OF_OPTION[name] and OF_OPTION[name]() or {}) do list[#list + 1] = word end
   local value = rule and rule.value
   if value then return list, value:find("FILE") ~= nil or value:find("DIR") ~= nil end
   return list, name == "model" or not rule and not list[1]
end

--- Of an argument of a call.
-- @tparam string call "ft.explore", "plan:html"; nil of what is none of ft's
-- @tparam boolean is_first
-- @treturn {string,...}
-- @treturn boolean whether it may be a file
function M.of_argument(call, is_first)
   if OF_CALL[call] then return is_first and OF_CALL[call]() or {}, false end
   local entry = call and reference.call(call)
   if not entry then return {}, true end
   local argument = is_first and entry.call:match("%(([%w_]*)") or ""
   return OF_ARGUMENT[argument] and OF_ARGUMENT[argument]() or {}, OF_FILES[argument] == true
end

return M
