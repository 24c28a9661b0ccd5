--- Weighted graphs made from rows whose source can be named: what importers share.
--
--    local b = builder.new("x.txt")
--    b:node("x.txt:3", { id = "a", forward_ns = 5 })
--    b:edge("x.txt:9", "a", "b", { bytes = 10 })
--    local parts = b:finish()      -- { nodes =, edges = }, acyclic, everything checked

local core = require("ftpipe.core")
local keys = require("ftpipe.base.keys")
local malformed = require("ftpipe.base.malformed")
local number_text = require("ftpipe.base.number_text")
local shown = require("ftpipe.base.shown")
local suggest = require("ftpipe.base.suggest")

local M = {}
local Builder = {}
Builder.__index = Builder

--- What nodes and edges may weigh: numbers, 0 or more; 0 when absent, unless `optional`.
M.node_numbers = {
   { "forward_ns" }, { "backward_ns" }, { "parameter_bytes" }, { "saved_bytes" },
   { "output_bytes" }, { "flops" }, { "frozen_bytes", optional = true },
   { "ns2", optional = true }, { "ns3", optional = true }, { "ns4", optional = true },
   { "update1", optional = true }, { "update2", optional = true }, { "update3", optional = true },
   { "update4", optional = true },
}
M.edge_numbers = { { "bytes" }, { "grad_bytes" } }

--- What nodes say beside numbers, and what is true or false of them.
M.node_words = { "name", "op", "scope" }
M.node_flags = { "backward", "kind2_only" }

M.device_numbers = { { "kind" }, { "slowdown" }, { "memory_bytes" }, { "bytes_per_s" } }

-- Bytes are whole numbers that a double holds.
local MOST = 2 ^ 53
local MOST_KINDS = 4

-- ---------------------------------------------------------------------------------------------
-- Refusing.

M.malformed = malformed

--- A number that a cost can be, or an error that names the row and the key.
function M.cost(where, key, value)
   local number = type(value) == "string" and tonumber(value) or value
   if type(number) ~= "number" or not (number >= 0 and number <= MOST) then
      M.malformed("%s: %s is %s, expected a number from 0 to 2^53", where, key, shown(value))
   end
   return number + 0 -- -0 is 0, as whoever writes it says
end

local function whole(where, key, value)
   local number = M.cost(where, key, value)
   if number % 1 ~= 0 or number >= 2 ^ 31 then
      M.malformed("%s: %s is %s, expected a whole number", where, key, shown(value))
   end
   return number
end

--- What can stand in every form: text in UTF-8 without control characters but blanks; numbers, that
-- JSON has as ids, become text.
local function word(where, key, value)
   if type(value) == "number" then value = number_text(value) end
   if type(value) ~= "string" then
      M.malformed("%s: %s is %s, expected text", where, key, shown(value))
   end
   if value:find("[%z\1-\8\11\12\14-\31\127]") or core.data.utf8_fault(value) then
      M.malformed("%s: %s '%s' is not text in UTF-8", where, key,
         (value:gsub("[^%w%p ]", "?")))
   end
   return value
end

local function flag(where, key, value)
   if value ~= nil and type(value) ~= "boolean" then
      M.malformed("%s: %s is %s, expected true or false", where, key, shown(value))
   end
   return value or nil
end

--- A set of the names of such lists: of names, or of rows with a name first.
function M.names(...)
   local set = {}
   for _, list in ipairs { ... } do
      for _, entry in ipairs(list) do set[type(entry) == "table" and entry[1] or entry] = true end
   end
   return set
end

--- Refuses keys that are not in the set.
function M.check_key(where, key, known)
   if known[key] then return end
   M.malformed("%s: there is no key '%s'%s", where, key, suggest.hint(shown(key), keys(known)))
end

--- The list `key` of a decoded JSON file.
function M.list(root, key, path)
   if type(root[key]) ~= "table" or getmetatable(root[key]) ~= core.json.array_meta then
      M.malformed("%s: no list \"%s\"", path, key)
   end
   return root[key]
end

--- An item of such a list, which has to be an object.
function M.object(row, where)
   if type(row) ~= "table" or getmetatable(row) == core.json.array_meta then
      M.malformed("%s: expected an object", where)
   end
   return row
end

local device_keys = M.names(M.device_numbers)

--- A device that a file names.
function M.device(where, given)
   local device = {}
   for key, value in pairs(given) do
      M.check_key(where, key, device_keys)
      device[key] = M.cost(where, key, value)
   end
   local kind = device.kind or 1
   if kind % 1 ~= 0 or kind < 1 or kind > MOST_KINDS then
      M.malformed("%s: kind is %s, expected 1 to %d", where, kind, MOST_KINDS)
   end
   if device.slowdown == 0 then M.malformed("%s: slowdown is 0, expected more", where) end
   return device
end

-- ---------------------------------------------------------------------------------------------
-- Building.

local function read_numbers(where, rows, given, into)
   for _, row in ipairs(rows) do
      local key, value = row[1], given[row[1]]
      if value ~= nil then
         value = M.cost(where, key, value)
         into[key] = key:find("bytes$") and math.floor(value) or value
      elseif not row.optional then
         into[key] = 0
      end
   end
   return into
end

--- An empty graph of that file.
function M.new(path)
   return setmetatable({ path = path, nodes = {}, index = {}, edges = {} }, Builder)
end

--- Adds a node. Beside its numbers and words it has an id, and may have tie (nodes of one number
-- share a device), backward (it follows its tie) and kind2_only (not on devices of kind 1).
function Builder:node(where, row)
   if row.id == nil or row.id == "" then M.malformed("%s: a node without an id", where) end
   local id = word(where, "id", row.id)
   if self.index[id] then M.malformed("%s: node %s again", where, id) end
   local node = read_numbers(where, M.node_numbers, row, { id = id })
   if (node.frozen_bytes or 0) > node.parameter_bytes then
      M.malformed("%s: frozen_bytes is %s, expected a part of parameter_bytes", where,
         shown(node.frozen_bytes))
   end
   for _, key in ipairs(M.node_words) do
      if row[key] ~= nil then node[key] = word(where, key, row[key]) end
   end
   if row.tie ~= nil then node.tie = whole(where, "tie", row.tie) end
   for _, key in ipairs(M.node_flags) do node[key] = flag(where, key, row[key]) end
   self.nodes[#self.nodes + 1] = node
   self.index[id] = #self.nodes
end

--- Adds an edge by ids; its ends may come later. `value`: edges of one maker and one number carry
-- one value.
function Builder:edge(where, from, to, row)
   if from == nil or to == nil then M.malformed("%s: an edge without two ends", where) end
   local edge = read_numbers(where, M.edge_numbers, row, { where = where })
   edge.from, edge.to = word(where, "source", from), word(where, "target", to)
   if row.value ~= nil then edge.value = whole(where, "value", row.value) end
   self.edges[#self.edges + 1] = edge
end

local function resolve(self)
   for _, edge in ipairs(self.edges) do
      for _, key in ipairs { "from", "to" } do
         local id = edge[key]
         edge[key] = self.index[id] or M.malformed("%s: there is no node %s", edge.where, id)
      end
   end
end

--- Refuses edges that carry one value in two sizes.
local function check_values(self)
   local first = {}
   for _, edge in ipairs(self.edges) do
      local key = ("%d %s"):format(edge.from, edge.value or "")
      local other = first[key] or edge
      first[key] = other
      for _, row in ipairs(M.edge_numbers) do
         local name = row[1]
         if edge[name] ~= other[name] then
            M.malformed("%s: %s of the edge from %s to %s is %s, of that to %s (%s) %s: edges of "
               .. "one value have one size; those of several need a number each, as value=1 and "
               .. "value=2",
               edge.where, name, self.nodes[edge.from].id, self.nodes[edge.to].id,
               number_text(edge[name]), self.nodes[other.to].id, other.where,
               number_text(other[name]))
         end
      end
   end
end

--- Numbers of the nodes in an order in which they can run, and how many that were: fewer than all
-- where there is a cycle. Of those that can run the first goes first.
function M.order(nodes, edges)
   local missing, users, ready, order = {}, {}, {}, {}
   for i = 1, #nodes do missing[i], users[i] = 0, {} end
   for _, edge in ipairs(edges) do
      missing[edge.to] = missing[edge.to] + 1
      table.insert(users[edge.from], edge.to)
   end
   for i = 1, #nodes do
      if missing[i] == 0 then ready[#ready + 1] = i end
   end
   while #order < #ready do
      local node = ready[#order + 1]
      order[#order + 1] = node
      for _, user in ipairs(users[node]) do
         missing[user] = missing[user] - 1
         if missing[user] == 0 then ready[#ready + 1] = user end
      end
   end
   return order, missing
end

--- A cycle as "a -> b -> a", among nodes that wait for something.
local function find_cycle(nodes, edges, missing)
   local before = {}
   for _, edge in ipairs(edges) do
      if missing[edge.from] > 0 and missing[edge.to] > 0 then before[edge.to] = edge.from end
   end
   local node = select(2, next(before))
   local seen = {}
   while not seen[node] do seen[node], node = true, before[node] end
   local backwards, at = { nodes[node].id }, node
   repeat
      at = before[at]
      backwards[#backwards + 1] = nodes[at].id
   until at == node
   local names, n = {}, #backwards
   for i = 1, n do
      if n <= 8 or i <= 3 or i >= n - 1 then names[#names + 1] = backwards[n + 1 - i] end
      if n > 8 and i == 4 then names[#names + 1] = "..." end
   end
   return table.concat(names, " -> ")
end

--- The nodes and edges; raises for a graph without nodes, or with a cycle.
function Builder:finish()
   if #self.nodes == 0 then M.malformed("%s: a graph without nodes", self.path) end
   resolve(self)
   check_values(self)
   local order, missing = M.order(self.nodes, self.edges)
   if #order < #self.nodes then
      M.malformed("%s: the graph has a cycle: %s", self.path,
         find_cycle(self.nodes, self.edges, missing))
   end
   for _, edge in ipairs(self.edges) do edge.where = nil end
   return { nodes = self.nodes, edges = self.edges }
end

return M
