--- Placements judged by somebody else: the problem as an integer programme, for cbc, in a child
-- process.
--
--    ft.partition(problem, { method = "mixed", cost = "sum", referee = 60 })   -- at most 60 s
--
-- Binary x(u, d) says that unit u (nodes that share a device) is on device d; the time of the
-- slowest device is minimized. It judges placements in any number of stages, so that what it cannot
-- beat is optimal, contiguous or not. Where micro-batches are in flight it counts one of them: then
-- its optimum is a bound alone.

local core = require("ftpipe.core")

local M = {}

local MOST_PAIRS = 20000 -- of units and devices; a larger programme would not even be read in time

local function unsupported(format, ...)
   core.fail("unsupported", "referee: " .. format:format(...), 2)
end

-- ---------------------------------------------------------------------------------------------
-- The problem, by units and values.

--- The unit of every node, and the number of units.
local function units_of(problem, n)
   local of, by_tie, units = {}, {}, 0
   for i = 1, n do
      local tie = problem.tie and problem.tie[i] or -1
      local known = tie >= 0 and by_tie[tie]
      if not known then
         units = units + 1
         known = units
         if tie >= 0 then by_tie[tie] = units end
      end
      of[i] = known
   end
   return of, units
end

--- Values that pass between units: { maker =, users = {unit,...}, bytes =, grad_bytes = }.
local function values_of(problem, unit)
   local values, known = {}, {}
   for e, from in ipairs(problem.edge_from or {}) do
      local key = from .. " " .. (problem.edge_value and problem.edge_value[e] or 0)
      local value = known[key]
      if not value then
         value = {
            maker = unit[from], users = {}, is_user = {}, bytes = problem.edge_bytes[e],
            grad_bytes = problem.edge_grad_bytes and problem.edge_grad_bytes[e] or 0,
         }
         known[key], values[#values + 1] = value, value
      end
      local user = unit[problem.edge_to[e]]
      if user ~= value.maker and not value.is_user[user] then
         value.is_user[user] = true
         value.users[#value.users + 1] = user
      end
   end
   return values
end

local function sum_by_unit(list, unit, n_units)
   local sums = {}
   for u = 1, n_units do sums[u] = 0 end
   for i, x in ipairs(list or {}) do sums[unit[i]] = sums[unit[i]] + x end
   return sums
end

-- ---------------------------------------------------------------------------------------------
-- The programme, in the text form that cbc reads.

local Text = {}
Text.__index = Text

function Text:line(...) self[#self + 1] = table.concat { ... } end

--- A row `sum of terms >= bound`; terms are { factor, variable }.
function Text:at_least(terms, bound)
   local words, length = {}, 0
   for _, term in ipairs(terms) do
      if term[1] ~= 0 then
         words[#words + 1] = ("%+.12g %s"):format(term[1], term[2])
         length = length + #words[#words]
         if length > 400 then -- its reader has lines of limited length
            words[#words], length = words[#words] .. "\n", 0
         end
      end
   end
   self:line(table.concat(words, " "), " >= ", ("%.12g"):format(bound))
end

local function x(u, d) return ("x%d_%d"):format(u, d) end

--- Variables >= 0 that are 1 where value v is needed on device d and made elsewhere.
local function arrivals(text, v, value, d)
   local name = ("a%d_%d"):format(v, d)
   for _, user in ipairs(value.users) do
      text:at_least({ { 1, name }, { -1, x(user, d) }, { 1, x(value.maker, d) } }, 0)
   end
   return name
end

--- Those that are 1 where some, but not all, of what makes and uses the value is on the device.
local function shares(text, v, value, d)
   local name = arrivals(text, v, value, d)
   for _, user in ipairs(value.users) do
      text:at_least({ { 1, name }, { 1, x(user, d) }, { -1, x(value.maker, d) } }, 0)
   end
   return name
end

local function append(list, more, sign)
   for _, term in ipairs(more) do list[#list + 1] = { (sign or 1) * term[1], term[2] } end
   return list
end

-- By cost model: adds rows that hold `t` above what a device's work and transfers come to. `ns` is
-- the time of a byte.
local PRICES = {}

function PRICES.sum(text, p, d, work, ns)
   local terms = {}
   for v, value in ipairs(ns > 0 and p.values or {}) do
      terms[v] = { ns * (value.bytes + value.grad_bytes), shares(text, v, value, d) }
   end
   text:at_least(append(append({ { 1, "t" } }, work, -1), terms, -1), 0)
end

function PRICES.overlap(text, p, d, work, ns)
   local out, back = {}, {}
   for v, value in ipairs(ns > 0 and p.values or {}) do
      back[#back + 1] = { ns * value.grad_bytes, arrivals(text, v, value, d) }
      for to = 1, value.bytes > 0 and p.n_devices or 0 do
         if to ~= d then -- made here and used there
            local name = ("s%d_%d_%d"):format(v, d, to)
            for _, user in ipairs(value.users) do
               text:at_least({ { 1, name }, { -1, x(value.maker, d) }, { -1, x(user, to) } }, -1)
            end
            out[#out + 1] = { ns * value.bytes, name }
         end
      end
   end
   -- C + max(0, out - C) + max(0, back - C) is the largest of C, out, back and out + back - C
   local t = { { 1, "t" } }
   text:at_least(append(append({}, t), work, -1), 0)
   text:at_least(append(append({}, t), out, -1), 0)
   text:at_least(append(append({}, t), back, -1), 0)
   text:at_least(append(append(append(append({}, t), work), out, -1), back, -1), 0)
end

--- Time of every unit on a device, over the scale.
local function work_on(p, problem, d)
   local device, terms = problem.devices[d], {}
   local times = type(problem.node_ns[1]) == "table" and problem.node_ns[device.kind or 1]
      or problem.node_ns
   for u, ns in ipairs(sum_by_unit(times, p.unit, p.n_units)) do
      terms[u] = { ns * (device.slowdown or 1) / p.scale, x(u, d) }
   end
   return terms
end

local function limit_memory(text, p, problem, d)
   local limit = problem.devices[d].memory_bytes or 0
   if limit == 0 then return end
   local fixed = sum_by_unit(problem.fixed_bytes, p.unit, p.n_units)
   local saved, terms = sum_by_unit(problem.saved_bytes, p.unit, p.n_units), {}
   for u = 1, p.n_units do terms[u] = { -(fixed[u] + saved[u]) / limit, x(u, d) } end
   text:at_least(terms, -1)
end

local function fix_places(text, p, problem)
   for i, device in ipairs(problem.pin or {}) do
      if device > 0 then text:at_least({ { 1, x(p.unit[i], device) } }, 1) end
   end
   for f, node in ipairs(problem.forbid_node or {}) do
      text:at_least({ { -1, x(p.unit[node], problem.forbid_device[f]) } }, 0)
   end
end

local function write(p, problem, cost)
   local text = setmetatable({}, Text)
   text:line("Minimize\n obj: t\nSubject To")
   for u = 1, p.n_units do
      local somewhere, once = {}, {}
      for d = 1, p.n_devices do
         somewhere[d], once[d] = { 1, x(u, d) }, { -1, x(u, d) }
      end
      text:at_least(somewhere, 1)
      text:at_least(once, -1)
   end
   fix_places(text, p, problem)
   for d, device in ipairs(problem.devices) do
      local rate = device.bytes_per_s or 0
      limit_memory(text, p, problem, d)
      PRICES[cost](text, p, d, work_on(p, problem, d), rate > 0 and 1e9 / rate / p.scale or 0)
   end
   text:line("Binary")
   for u = 1, p.n_units do
      for d = 1, p.n_devices do text:line(" ", x(u, d)) end
   end
   text:line("End\n")
   return table.concat(text, "\n")
end

-- ---------------------------------------------------------------------------------------------
-- The child.

local function find_cbc()
   local pipe = assert(io.popen("command -v cbc"))
   local path = pipe:read("*l")
   pipe:close()
   if not path then
      unsupported("there is no program cbc here; install it (coinor-cbc on Debian), or leave "
         .. "`referee` out")
   end
end

--- What cbc prints about a programme, and the file of its solution. It is killed when it does not
-- stop by itself, and Ctrl-C reaches it too.
local function run_cbc(programme, seconds)
   local path = os.tmpname()
   local pipe
   local ok, problem = pcall(function()
      core.sys.write_file(path .. ".lp", programme)
      pipe = assert(io.popen(("timeout --foreground -k 2 %d cbc %s.lp sec %d solve solu %s 2>&1")
         :format(seconds + 5, path, seconds, path)))
   end)
   local said = ok and pipe:read("*a")
   if pipe then pipe:close() end
   local solution = ok and core.sys.exists(path) and core.sys.read_file(path) or ""
   os.remove(path)
   os.remove(path .. ".lp")
   if not ok then error(problem, 0) end
   if core.sys.interrupted() then core.fail("cancelled", "referee: stopped before it was done") end
   return said, solution
end

--- Devices by node, from the variables that are 1.
local function read_devices(solution, p, n)
   local on, device = {}, {}
   for u, d, value in solution:gmatch("x(%d+)_(%d+)%s+(%S+)") do
      if tonumber(value) > 0.5 then on[tonumber(u)] = tonumber(d) end
   end
   for i = 1, n do device[i] = on[p.unit[i]] end
   return #device == n and device or nil
end

--- Judges a problem.
-- @tparam table problem of ft.partition, without cheap nodes and times of a last stage
-- @tparam string cost sum or overlap
-- @tparam number known_ns of a placement: what times are measured by
-- @tparam int seconds that cbc has
-- @treturn table bound_ns (no placement is below it), optimal (of its own), device (by node, of the
--   best it found; nil: none), seconds
-- @raise unsupported — there is no cbc, or it cannot judge such problems
function M.judge(problem, cost, known_ns, seconds)
   local times = problem.node_ns[1]
   local n = type(times) == "table" and #times or #problem.node_ns
   if not PRICES[cost] then unsupported("cost model %s, expected sum or overlap", cost) end
   if problem.last_ns then unsupported("times of a last stage (last_ns) are not judged") end
   for _, cheap in ipairs(problem.cheap or {}) do
      if cheap then unsupported("cheap nodes are not judged") end
   end
   find_cbc()
   local p = { n_devices = #problem.devices, scale = math.max(known_ns, 1e-9) }
   p.unit, p.n_units = units_of(problem, n)
   if p.n_units * p.n_devices > MOST_PAIRS then
      unsupported("%d nodes on %d devices are too many, expected at most %d pairs", p.n_units,
         p.n_devices, MOST_PAIRS)
   end
   p.values = values_of(problem, p.unit)
   local start = core.sys.time_ns()
   local said, solution = run_cbc(write(p, problem, cost), seconds)
   local optimal = said:find("Optimal solution found", 1, true) ~= nil
   local bound = said:match("Lower bound:%s+(%S+)")
      or optimal and said:match("Objective value:%s+(%S+)")
   if not tonumber(bound) then
      core.fail("input or output failed", ("referee: cbc gave neither a solution nor a bound in "
         .. "%d s; it said: %s"):format(seconds, said:gsub("%s+", " "):sub(-200)))
   end
   return {
      bound_ns = tonumber(bound) * p.scale, optimal = optimal,
      device = read_devices(solution, p, n),
      seconds = (core.sys.time_ns() - start) / 1e9,
   }
end

return M
