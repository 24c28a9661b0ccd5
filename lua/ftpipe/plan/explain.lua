--- What a plan is for and how it differs from another, in words.

local class = require("ftpipe.base.class")
local counted = require("ftpipe.base.counted")
local edit = require("ftpipe.plan.edit")
local groups = require("ftpipe.trained.groups")
local options = require("ftpipe.plan.options")
local over = require("ftpipe.placement.over")
local playing = require("ftpipe.schedule.played")
local units = require("ftpipe.base.units")

local M = {}

--- Seconds of a batch in the long run, without warm-up and drain.
-- @tparam plan plan
-- @tparam[opt] table factors by stage: so many times as long it takes
function M.seconds(plan, factors)
   local o = plan.options
   local short, long = playing.legs(o.synchronous, o.micro_batches, plan.n_stages, o.batches)
   return playing.steady(short, long, function(batches)
      return plan.blueprint:simulate(batches, false, factors)
   end)
end

local function rate(plan) return plan.options.batch / M.seconds(plan) end

--- "sim:1 would need 7.7 GB more than its 11.0 GB", of the device that is furthest over; nil: all
-- fits.
local function excess(plan)
   local memory = over.memory(plan)
   local most, d = over.worst(memory)
   return most > 0 and ("%s would need %s more than its %s"):format(plan.devices[d].name,
      units.format_bytes(most), units.format_bytes(memory[d].budget)) or nil
end

--- The stages that nodes of the set are in, "stage 2 on cpu:1", and the device of all of them,
-- nil when they have several.
local function whereabouts(plan, set)
   local seen, parts, only = {}, {}, nil
   local stages = plan.blueprint:stages()
   for node, s in ipairs(plan.partition.stage) do
      if set[node] and not seen[s] then
         seen[s] = true
         only = #parts == 0 and stages[s].device or only == stages[s].device and only or nil
         parts[#parts + 1] = ("stage %d on %s"):format(s - 1, plan.devices[stages[s].device].name)
      end
   end
   return table.concat(parts, ", "), only
end

local function alternative(plan, what, d, here)
   local name = plan.devices[d].name
   local ok, moved = pcall(plan.move, plan, what, d)
   if not ok then
      if type(moved) ~= "table" or moved.status == "cancelled" then error(moved, 0) end
      return ("  on %s: not possible: %s"):format(name, tostring(moved))
   end
   local why = excess(moved)
   if why then return ("  on %s: does not fit, %s"):format(name, why) end
   local there = rate(moved)
   return ("  on %s: %s samples/s (%+.1f %%), %s"):format(name, units.format_rate(there),
      100 * (there / here - 1), counted(moved.n_stages, "stage"))
end

--- Why a node, or everything in a scope, is where it is: what it would be elsewhere.
-- @treturn string several lines
function M.why(plan, what)
   local set, n = edit.find(plan, what)
   local here, place, home_device = rate(plan), whereabouts(plan, set)
   local lines = {
      ("%s (%s) is in %s"):format(tostring(what), counted(n, "node"), place),
      ("  here: %s samples/s, %s"):format(units.format_rate(here),
         counted(plan.n_stages, "stage")),
   }
   for d in ipairs(plan.devices) do
      if d ~= home_device then lines[#lines + 1] = alternative(plan, what, d, here) end
   end
   return table.concat(lines, "\n")
end

-- Of what a function or a table says nothing can be said.
local OWN = { ["function"] = "one's own", table = "one's own", ["nil"] = "not given" }

--- An option in words, a list as its text would be; and what it is, to be told from others that
-- have the same words.
local function told(value)
   if type(value) == "table" and (type(value[1]) == "string" or type(value[1]) == "number") then
      value = table.concat(value, ",")
   end
   return OWN[type(value)] or tostring(value), value
end

-- What plans may differ in: names, and what a plan has: in words, and itself where words may be the
-- same.
local TRAITS = {
   { "model", function(plan) return plan.options.model.name end },
   { "source", function(plan) return table.concat(plan.options.buckets, " ") end },
   { "target", function(plan) return told((plan.options.lengths or {}).target) end },
   { "devices", function(plan)
      local devices = plan.options.devices
      return plan.devices_name, class.of(devices) == "cluster" and devices:json() or nil
   end },
   { "groups", function(plan)
      local own = {} -- the others are those of train_only and freeze
      for _, group in ipairs(plan.options.groups or {}) do
         own[#own + 1] = not group.option and group or nil
      end
      return told(groups.text(own))
   end },
}
local SAID, LOOKED_AT = { devices = true, groups = true }, options.rules("explore")
for _, row in ipairs(options.taken_by("plan")) do
   local name = row[1]
   if (row.plans or LOOKED_AT[name]) and not SAID[name] then
      TRAITS[#TRAITS + 1] = { name, function(plan) return told(plan.options[name]) end }
   end
end

--- The texts with a number behind those that are the same of things that are not: "described 2".
local function numbered(texts, things)
   local counts, numbers, result = {}, {}, {}
   for i, text in ipairs(texts) do
      local of_text, thing = numbers[text] or {}, things[i] == nil and text or things[i]
      numbers[text] = of_text
      if not of_text[thing] then
         counts[text] = (counts[text] or 0) + 1
         of_text[thing] = counts[text]
      end
      result[i] = of_text[thing]
   end
   for i, text in ipairs(texts) do
      result[i] = counts[text] > 1 and ("%s %d"):format(text, result[i]) or text
   end
   return result
end

--- What plans differ in: { name =, texts = (by plan) } of each.
-- @tparam {plan,...} plans
function M.traits(plans)
   local differing = {}
   for _, row in ipairs(TRAITS) do
      local texts, things, differs = {}, {}, false
      for i, plan in ipairs(plans) do texts[i], things[i] = row[2](plan) end
      texts = numbered(texts, things)
      for _, text in ipairs(texts) do differs = differs or text ~= texts[1] end
      if differs then differing[#differing + 1] = { name = row[1], texts = texts } end
   end
   return differing
end

--- "encoder/block.3" of a longer scope: as far as blocks are numbered.
local function block_of(scope)
   return scope:match("^(.-%d+)/") or scope:match("^[^/]*/?[^/]*")
end

local function home(plan, stages, node)
   local s = plan.partition.stage[node]
   return ("stage %d on %s"):format(s - 1, plan.devices[stages[s].device].name), s, stages[s].device
end

--- Blocks whose nodes are on another device; how many are in another stage of the same one.
local function differing_nodes(a, b, lines)
   local graph, from, to = a.graphs[#a.graphs], a.blueprint:stages(), b.blueprint:stages()
   local counts, order, stayed = {}, {}, 0
   for node = 1, #a.partition.stage do
      local x, sx, dx = home(a, from, node)
      local y, sy, dy = home(b, to, node)
      if dx == dy then
         stayed = stayed + (sx ~= sy and 1 or 0)
      else
         local key = ("%s: %s -> %s"):format(block_of(graph:node(node).scope), x, y)
         if not counts[key] then order[#order + 1] = key end
         counts[key] = (counts[key] or 0) + 1
      end
   end
   for _, key in ipairs(order) do
      lines[#lines + 1] = ("%s (%s)"):format(key, counted(counts[key], "node"))
   end
   if stayed > 0 then
      lines[#lines + 1] = ("in stages of other numbers, on the same devices: %s"):format(
         counted(stayed, "node"))
   end
end

local function differing_memory(a, b, lines)
   for d = 1, math.max(#a.devices, #b.devices) do
      local x, y = a.memory[d] and a.memory[d].total or 0, b.memory[d] and b.memory[d].total or 0
      if x ~= y then
         local device = a.devices[d] or b.devices[d]
         lines[#lines + 1] = ("memory of %s: %.1f -> %.1f MB"):format(device.name, x / 1e6, y / 1e6)
      end
   end
end

--- How another plan of the same model differs: options, places of blocks, memory, prediction.
-- @treturn table list of lines, empty when nothing differs; its tostring has one on each line
function M.diff(a, b)
   local lines = {}
   for _, trait in ipairs(M.traits { a, b }) do
      lines[#lines + 1] = ("%s: %s -> %s"):format(trait.name, trait.texts[1], trait.texts[2])
   end
   if #a.partition.stage == #b.partition.stage then
      differing_nodes(a, b, lines)
   else
      lines[#lines + 1] = ("forward nodes: %d -> %d"):format(#a.partition.stage,
         #b.partition.stage)
   end
   differing_memory(a, b, lines)
   local x, y = rate(a), rate(b)
   if x ~= y then
      lines[#lines + 1] = ("predicted: %s -> %s samples/s (%+.1f %%)"):format(
         units.format_rate(x), units.format_rate(y), 100 * (y / x - 1))
   end
   return setmetatable(lines, { __tostring = function(list)
      return #list == 0 and "the plans are alike" or table.concat(list, "\n")
   end })
end

return M
