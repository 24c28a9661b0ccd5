--- Makes a plan fit the budgets of its devices by moving state to host memory and back.

local copy = require("ftpipe.base.copy")
local core = require("ftpipe.core")
local draw = require("ftpipe.plan.draw")
local feasible = require("ftpipe.base.feasible")
local fit = require("ftpipe.plan.fit")
local named = require("ftpipe.base.named")
local units = require("ftpipe.base.units")
local usage = require("ftpipe.base.usage")

local M = {}

-- Plans that are drawn, each with what the one before it was over by left free, twice as often as
-- that one, since what is left free may be less than the smallest that leaves: places of different
-- sizes do not always lie next to each other without holes. Behind the first for which that is
-- enough, or more than there is, it is halfway between too little and enough.
local TRIES = 8

--- Adds the bytes by which devices are over their budgets to `spare` so many times: these devices,
-- as a set, or nil where none is.
local function add_over(plan, spare, times)
   local marked
   for d, device in ipairs(plan.devices) do
      local over = plan.memory[d].total - device.memory_bytes
      if over > 0 then
         spare[d] = spare[d] + times * over
         marked = marked or {}
         marked[d] = true
      end
   end
   return marked
end

-- What --swap may say besides classes: whether it waits until a device is over its budget, and how
-- much leaves. The last two are what Harmony is compared with: memory that is moved for each device
-- by somebody who knows what is clean, or does not.
local MODES = {
   { name = "never" },
   { name = "auto", help = "where a device is over its budget", over = true },
   { name = "always", help = "as much as can be", least = true },
   { name = "task", least = true, scope = "group" },
   { name = "clean", least = true, scope = "action" },
   { name = "lms", least = true, scope = "action", writes_back = true },
}

local mode_names, mode_helps = {}, {}
for i, row in ipairs(MODES) do
   mode_names[i] = row.name
   mode_helps[i] = row.help and row.name .. ": " .. row.help or row.name
end

-- How what leaves is chosen where there is a choice, as blueprint:fit takes it: what is needed
-- furthest in the future, with loads near what needs them; or with some room for loads further
-- ahead, where what leaves may be spread over the batch; with packed copies that are made on the
-- device where that takes less than bringing them. Which of them waits least depends on the
-- order of work, on sizes and on the link: those behind the first are simulated beside it.
local CHOICES = {
   {},
   { makes = true },
   { far_ahead = true, room = 1 / 8 },
   { far_ahead = true, room = 1 / 8, spreads = true },
   { far_ahead = true, room = 1 / 3, spreads = true },
   { far_ahead = true, room = 1 / 3, spreads = true, makes = true },
}

-- Share of the time for which a device may wait for copies before other choices are tried.
local MAY_WAIT = 0.01

-- Numbers of stages of each device that are tried where state may be swapped: a stage's is what
-- comes and goes.
M.STAGES = { 4, 8 }

local CLASSES = {}
for _, class in ipairs(core.schedule.memory_classes()) do
   if class.moves then CLASSES[#CLASSES + 1] = class.name end
end

--- What --swap may say, in words.
M.help = ("to host memory: %s; classes, as activations,optimizer: auto, of these alone"):format(
   table.concat(mode_helps, "; "))

--- What --swap asks for, as blueprint:fit takes it, with `over`: where a device is over its budget.
-- @tparam table o options of a plan
-- @treturn table
function M.mode(o)
   local said = o.swap or "never"
   for _, row in ipairs(MODES) do
      if row.name == said then return row end
   end
   local mode = { over = true, classes = {} }
   for name in (said .. ","):gmatch("([^,]*),") do
      local known = false
      for _, class in ipairs(CLASSES) do known = known or class == name end
      if not known then
         usage("%s: expected %s, or classes of %s", named.value(o, "swap", said),
            table.concat(mode_names, ", "), table.concat(CLASSES, ","))
      end
      table.insert(mode.classes, name)
   end
   return mode
end

--- Whether something may be swapped.
function M.may(o)
   local mode = M.mode(o)
   return mode.over or mode.least or false
end

--- The plan with the orders and places of a text.
local function redrawn(plan, text)
   local partition = copy(plan.partition, { plan = core.schedule.parse(text) })
   return draw.blueprint(plan.options, plan.graphs, partition, plan.recompute)
end

--- The plan with replicas that pass gradients, and weights, of one stage after the other through
-- one place of each device; nil where none can.
local function shared(plan)
   local text = plan.blueprint:share()
   return text and redrawn(plan, text)
end

--- The plan with moves; nil and why where there is none.
-- @tparam plan plan
-- @tparam table mode of M.mode
-- @tparam boolean least as little memory as there can be
-- @tparam {int,...} spare by device: bytes to be left of its budget
-- @tparam table choice of CHOICES, with home: stages update in host memory
-- @tparam ?string scope of what leaves, though there is room
local function drawn(plan, mode, least, spare, choice, scope)
   local text, failure = feasible(plan.blueprint.fit, plan.blueprint, {
      least = least, spare = spare, classes = mode.classes, scope = scope,
      writes_back = mode.writes_back, updates_at_home = choice.home,
      far_ahead = choice.far_ahead, room = choice.room, spreads = choice.spreads,
      makes = choice.makes,
      tasks = plan.tasks,
   })
   if text then return redrawn(plan, text) end
   if least and mode.least then error(failure, 0) end
   return nil, failure.message
end

--- Halfway between two lists of bytes.
local function halfway(a, b)
   local list = {}
   for i in ipairs(a) do list[i] = math.floor((a[i] + b[i]) / 2) end
   return list
end

local function sum(by_class, key)
   local total = 0
   for _, value in pairs(by_class) do total = total + (key and value[key] or value) end
   return total
end

--- The plan with as little memory as there can be, or, with a budget, that little; nil and why.
-- What leaves as late as there is room for it may leave holes between places: then it leaves as
-- soon as its task has ended, where that is less.
local function smallest(plan, mode, spare, choice)
   local late, why = drawn(plan, mode, true, spare, choice, mode.scope)
   local enough = late and mode.over and fit.worst_over(late) == 0
   if not late or mode.scope or enough then return late, why end
   local early = drawn(plan, mode, true, spare, choice, "task")
   local less = early and sum(early.memory, "total") < sum(late.memory, "total")
   return less and early or late
end

--- The fastest plan that fits of those that were drawn, with moves by one choice of what leaves,
-- and the least on the devices that are marked so; nil and the devices that were over when the last
-- one was drawn.
local function search(plan, mode, choice, kept_least)
   local spare, little, enough, best, marked = {}, nil, nil, nil, nil
   for d in ipairs(plan.devices) do spare[d] = kept_least[d] and -1 or 0 end
   for try = 1, TRIES do
      local moved, why = drawn(plan, mode, false, spare, choice)
      plan.unswapped = plan.unswapped or why
      local left = copy(spare)
      local over = moved and add_over(moved, spare, 2 ^ (try - 1))
      if moved and not over then best = best and fit.better(best, moved) or moved end
      if over then
         little, marked = left, over
         for d in pairs(kept_least) do
            if over[d] then return best, marked end
         end
      elseif not little then
         break
      else
         enough = left
      end
      if enough then spare = halfway(little, enough) end
   end
   return best, marked
end

--- A plan with as many moves as it needs, by one choice of what leaves. Where it needs the least on
-- some devices, the others have what there is room for, where that is faster.
local function fitted(plan, mode, choice)
   local none = {}
   for d in ipairs(plan.devices) do none[d] = 0 end
   if mode.least then return (smallest(plan, mode, none, choice)) end
   local moved, marked = search(plan, mode, choice, {})
   if moved then return moved end
   local least, why = smallest(plan, mode, none, choice)
   if least and fit.worst_over(least) == 0 then
      local some = marked and search(plan, mode, choice, marked)
      return some and fit.better(least, some) or least
   end
   plan.unswapped = plan.unswapped or why or "the places of what moves leave holes between them"
   return plan
end

--- Whether a device of a plan waits for copies.
local function waits(plan)
   local batches = fit.compared(plan)
   local played = plan.blueprint:simulate(batches)
   for d in ipairs(plan.devices) do
      local cost = M.cost(plan, d, played, batches)
      if cost and cost.waits * batches > MAY_WAIT * played.end_ns / 1e9 then return true end
   end
   return false
end

--- Of plans that fit, the one with shorter batches, but for what a leg begins and ends with; else
-- the one that is closer to fitting; of equals the first.
local function steadier(a, b)
   local x, y = fit.worst_over(a), fit.worst_over(b)
   if x > 0 or y > 0 then return y < x and b or a end
   local batches = fit.compared(a)
   local function ns(plan)
      local all = plan.blueprint:simulate(batches).end_ns
      return batches == 1 and all or all - plan.blueprint:simulate(1).end_ns
   end
   return ns(b) < ns(a) and b or a
end

--- The plan with moves and stages that update where --update says; with auto the faster one.
local function placed(plan, mode)
   local place = plan.options.update_place
   local moved = fitted(plan, mode, { home = place == "host" })
   if place == "auto" then moved = fit.better(moved, fitted(plan, mode, { home = true })) end
   moved.unmoved = plan
   return moved
end

--- The plan with moves, as --swap asks for: within the budgets with as few as are found, or, where
-- what is left between places of different sizes is too much, with as little memory as there can
-- be. What cannot be made to fit stays as it is, with `unswapped` saying why. Replicas share places
-- where that is less memory, or, within a budget, faster: they wait for them, and leave more room.
-- It goes through `settle` then.
function M.fit(plan)
   local mode = M.mode(plan.options)
   if not mode.least and (not mode.over or fit.worst_over(plan) == 0) then return plan end
   local other = not mode.scope and shared(plan)
   if mode.least then
      return fitted(other or plan, mode, { home = plan.options.update_place == "host" })
   end
   local moved = placed(plan, mode)
   return other and fit.better(moved, placed(other, mode)) or moved
end

--- A plan of M.fit, or where computing waits for copies the best of the choices of what leaves.
function M.settle(moved)
   local plan = moved.unmoved
   if not plan then return moved end
   local mode, place = M.mode(plan.options), plan.options.update_place
   local homes = place == "auto" and { false, true } or { place == "host" }
   for i = 2, #CHOICES do
      if not waits(moved) then break end
      for _, home in ipairs(homes) do
         moved = steadier(moved, fitted(plan, mode, copy(CHOICES[i], { home = home })))
      end
   end
   moved.unmoved = nil
   return moved
end

--- What the moves of a device cost in a simulation: bytes_in and bytes_out of a batch, seconds of
-- copies of a batch, hidden (the share of these while it computes, or waits for something else),
-- waits (seconds of a batch in which it computes nothing because of them); nil where nothing moves.
-- @tparam plan plan
-- @tparam int d
-- @tparam table played of blueprint:simulate
-- @tparam int batches that it was of
function M.cost(plan, d, played, batches)
   local row = plan.volumes and plan.volumes[d]
   if not row or row.loads + row.saves + row.drops == 0 then return nil end
   local leg = plan.options.batches
   local ns, stalls = sum(played.copies[d], "ns"), played.stalls[d]
   return {
      bytes_in = sum(row.bytes_in) / leg, bytes_out = sum(row.bytes_out) / leg,
      seconds = ns / 1e9 / batches,
      hidden = ns > 0 and 1 - sum(played.copies[d], "exposed_ns") / ns or 1,
      waits = ((stalls["swap-in"] or 0) + (stalls["swap-out"] or 0)) / 1e9 / batches,
   }
end

--- Bytes that a device reads and writes in a batch, at most, of what has its home in a directory.
local function disk_bytes(plan)
   local most = 0
   for _, volume in ipairs(plan.volumes or {}) do
      local bytes = 0
      for _, class in ipairs { "weights", "optimizer" } do
         bytes = bytes + volume.bytes_in[class] + volume.bytes_out[class]
      end
      most = math.max(most, bytes / plan.options.batches)
   end
   return most
end

--- Refuses a directory of swaps beside a plan that is given and moves nothing that would lie there,
-- or updates it in host memory. The plan that a run has recorded may move none: --swap auto found
-- that it needs none.
function M.check_dir(plan)
   local o = plan.options
   if not o.swap_dir or not o.given or o.given.recorded then return end
   if disk_bytes(plan) == 0 then
      usage.of(o, "{swap_dir=%s} is for weights and optimizer state that move, and %s moves none: "
         .. "leave it out", o.swap_dir, o.given.title)
   elseif sum(plan.volumes, "updates_at_home") > 0 then
      usage.of(o, "%s updates in host memory, and with {swap_dir} the state is on disk: leave one "
         .. "out", o.given.title)
   end
end

--- Refuses a directory of swaps that is not there, or not to be written to.
-- @tparam table o options of the plan that runs
function M.check_there(o)
   if not o.swap_dir then return end
   if core.sys.exists(o.swap_dir) ~= "directory" then
      usage.of(o, "{swap_dir=%s}: expected a directory that is there", o.swap_dir)
   elseif not core.sys.may_write(o.swap_dir) then
      usage.of(o, "{swap_dir=%s}: cannot be written to", o.swap_dir)
   end
end

--- What a step takes at least where its swap directory is slower than the rest of it; nil where it
-- is not.
-- @tparam plan plan
-- @tparam number rate of the directory, bytes per second; 0: there is none
function M.slow_disk(plan, rate)
   local bytes, batches = disk_bytes(plan), fit.compared(plan)
   local rest = plan:simulate(batches).seconds / batches
   if rate == 0 or bytes / rate <= rest then return nil end
   return ("%s: written at %s/s when it was tried; a step reads and writes %s there, which takes "
      .. "%s, and %s without that"):format(plan.options.swap_dir, units.format_bytes(rate),
      units.format_bytes(bytes), units.format_seconds(bytes / rate), units.format_seconds(rest))
end

--- Of all devices: bytes that a batch copies to and from host memory, and the share of the time of
-- these copies for which computing does not wait.
function M.total(plan, played, batches)
   local bytes, seconds, hidden = 0, 0, 0
   for d in ipairs(plan.devices) do
      local cost = M.cost(plan, d, played, batches)
      if cost then
         bytes = bytes + cost.bytes_in + cost.bytes_out
         seconds, hidden = seconds + cost.seconds, hidden + cost.seconds * cost.hidden
      end
   end
   return bytes, seconds > 0 and hidden / seconds or 1
end

--- Which classes a device's copies are of, those first that it waits for longest.
local function class_words(plan, d, played)
   local rows, parts = {}, {}
   for class, times in pairs(played.copies[d]) do
      rows[#rows + 1] = { class = class, ns = times.ns, exposed_ns = times.exposed_ns }
   end
   table.sort(rows, function(a, b)
      return a.exposed_ns > b.exposed_ns or a.exposed_ns == b.exposed_ns and a.class < b.class
   end)
   local volume = plan.volumes[d]
   for i, row in ipairs(rows) do
      local bytes = (volume.bytes_in[row.class] + volume.bytes_out[row.class])
         / plan.options.batches
      parts[i] = ("%s %s, %.0f %% hidden"):format(row.class, units.format_bytes(bytes),
         100 * (1 - row.exposed_ns / row.ns))
   end
   return table.concat(parts, "; ")
end

--- That nothing moves, in a line, where it may and need not; else nil.
function M.none(plan, lines)
   local none = #lines == 0 and M.may(plan.options) and not plan.unswapped
   return none and "swaps: none, every device is within its budget" or nil
end

--- What a batch moves and what that costs, in two lines for each device that moves something.
-- @tparam plan plan
-- @tparam table played of blueprint:simulate
-- @tparam int batches that it was of
function M.lines(plan, played, batches)
   local lines = {}
   for d, device in ipairs(plan.devices) do
      local cost = M.cost(plan, d, played, batches)
      if cost then
         lines[#lines + 1] = ("swaps of %s: %.1f MB in and %.1f MB out for each batch, "
            .. "%.0f %% hidden; computing waits %s for them"):format(device.name,
            cost.bytes_in / 1e6, cost.bytes_out / 1e6, 100 * cost.hidden,
            units.format_seconds(cost.waits))
         lines[#lines + 1] = "  " .. class_words(plan, d, played)
      end
   end
   return lines
end

return M
