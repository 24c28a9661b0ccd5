--- Weighted graphs made from rows whose source can be named: what importers share.
--
--    local b = builder.new("x.txt")
--    b:node("x.txt:3", { id = "a", forward_ns = 5 })
--    b:edge("x.txt:9", "a", "b", { bytes = 10 })
--    local parts = b:finish()      -- { nodes =, edges = }, acyclic, everything checked

local core = require("ftpipe.core")

local M = {}
local Builder = {}
Builder.__index = Builder

--- What nodes and edges may weigh: numbers, 0 or more; 0 when absent, unless `optional`.
M.node_numbers = {
   { "forward_ns" }, { "backward_ns" }, { "parameter_bytes" }, { "saved_bytes" },
   { "output_bytes" }, { "flops" },
   { "ns2", optional = true }, { "ns3", optional = true }, { "ns4", optional = true },
}
M.edge_numbers = { { "bytes" }, { "grad_bytes" } }

--- What nodes say beside numbers.
M.node_words = { "name", "op", "scope" }

-- Bytes are whole numbers that a double holds.
local MOST = 2 ^ 53

function M.malformed(format, ...)
   core.fail("malformed data", format:format(...))
end

--- A number that a cost can be, or an error that names the row and the key.
function M.cost(where, key, value)
   local number = type(value) == "string" and tonumber(value) or value
   if type(number) ~= "number" or not (number >= 0 and number <= MOST) then
      M.malformed("%s: %s is %s, expected a number from 0 to 2^53", where, key, tostring(value))
   end
   return number
end

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
   local id = row.id
   if id == nil or id == "" then M.malformed("%s: a node without an id", where) end
   id = tostring(id)
   if self.index[id] then M.malformed("%s: node %s again", where, id) end
   local node = read_numbers(where, M.node_numbers, row, { id = id })
   for _, key in ipairs(M.node_words) do node[key] = row[key] and tostring(row[key]) or nil end
   if row.tie ~= nil then
      node.tie = M.cost(where, "tie", row.tie)
      if node.tie % 1 ~= 0 or node.tie >= 2 ^ 31 then
         M.malformed("%s: tie is %s, expected a whole number", where, tostring(row.tie))
      end
   end
   node.backward = row.backward and true or nil
   node.kind2_only = row.kind2_only and true or nil
   self.nodes[#self.nodes + 1] = node
   self.index[id] = #self.nodes
end

--- Adds an edge by ids; its ends may come later. `value`: edges of one maker and one number carry
-- one value.
function Builder:edge(where, from, to, row)
   local edge = read_numbers(where, M.edge_numbers, row, { where = where })
   edge.from, edge.to = tostring(from), tostring(to)
   if row.value ~= nil then
      edge.value = M.cost(where, "value", row.value)
      if edge.value % 1 ~= 0 or edge.value >= 2 ^ 31 then
         M.malformed("%s: value is %s, expected a whole number", where, tostring(row.value))
      end
   end
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
   local names, at = { nodes[node].id }, node
   repeat
      at = before[at]
      table.insert(names, 1, nodes[at].id)
   until at == node
   if #names > 8 then
      names = { names[1], names[2], names[3], "...", names[#names - 1], names[#names] }
   end
   return table.concat(names, " -> ")
end

--- The nodes and edges; raises for a graph without nodes, or with a cycle.
function Builder:finish()
   if #self.nodes == 0 then M.malformed("%s: a graph without nodes", self.path) end
   resolve(self)
   local order, missing = M.order(self.nodes, self.edges)
   if #order < #self.nodes then
      M.malformed("%s: the graph has a cycle: %s", self.path,
         find_cycle(self.nodes, self.edges, missing))
   end
   for _, edge in ipairs(self.edges) do edge.where = nil end
   return { nodes = self.nodes, edges = self.edges }
end

return M
