--- GraphML (graphml.graphdrawing.org): graphs for yEd, Gephi and networkx, and from them.
--
-- What nodes and edges weigh are data keys by the names that our text form has; other keys of a
-- file are passed over. Of a graph there are its memory_factor and its devices, in lines as the
-- text form has them.

local builder = require("ftpipe.graph.builder")
local number_text = require("ftpipe.base.number_text")
local text_form = require("ftpipe.graph.text")
local xml = require("ftpipe.text.xml")

local M = {}

--- Keys: name, what it belongs to, type in the file.
local function known()
   local list = {}
   local function add(for_what, kind, names)
      for _, entry in ipairs(names) do
         local name = type(entry) == "table" and entry[1] or entry
         -- what is 0 when it is absent is left out when it is 0
         local zero = type(entry) == "table" and not entry.optional
         list[#list + 1] = { name = name, of = for_what, kind = kind, zero = zero }
      end
   end
   add("node", "string", builder.node_words)
   add("node", "double", builder.node_numbers)
   add("node", "int", { "tie", "stage", "device" })
   add("node", "boolean", builder.node_flags)
   add("graph", "double", { "memory_factor" })
   add("graph", "string", { "devices" })
   add("edge", "double", builder.edge_numbers)
   add("edge", "int", { "value" })
   return list
end

local KEYS = known()

local function add_data(lines, of, row)
   for _, key in ipairs(KEYS) do
      local value = key.of == of and row[key.name]
      if value and not (key.zero and value == 0) then
         lines[#lines + 1] = ('<data key="%s_%s">%s</data>'):format(of, key.name,
            type(value) == "number" and number_text(value) or xml.escape(value))
      end
   end
end

--- @tparam graph graph
-- @tparam[opt] table result of ft.partition, to put stage and device in
-- @treturn string
function M.write(graph, result)
   local lines = {
      '<?xml version="1.0" encoding="UTF-8"?>',
      '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
   }
   for _, key in ipairs(KEYS) do
      lines[#lines + 1] = ('  <key id="%s_%s" for="%s" attr.name="%s" attr.type="%s"/>'):format(
         key.of, key.name, key.of, key.name, key.kind)
   end
   lines[#lines + 1] = '  <graph edgedefault="directed">'
   local devices = {}
   for d, device in ipairs(graph.devices or {}) do devices[d] = text_form.device_text(device) end
   add_data(lines, "graph", {
      memory_factor = graph.memory_factor,
      devices = graph.devices and table.concat(devices, "\n"),
   })
   for i, node in ipairs(graph.nodes) do
      lines[#lines + 1] = ('    <node id="%s">'):format(xml.escape(node.id))
      local row = setmetatable({
         stage = result and result.stage[i] - 1, device = result and result.device[i] - 1,
      }, { __index = node })
      add_data(lines, "node", row)
      lines[#lines + 1] = "    </node>"
   end
   for _, edge in ipairs(graph.edges) do
      lines[#lines + 1] = ('    <edge source="%s" target="%s">'):format(
         xml.escape(graph.nodes[edge.from].id), xml.escape(graph.nodes[edge.to].id))
      add_data(lines, "edge", edge)
      lines[#lines + 1] = "    </edge>"
   end
   lines[#lines + 1] = "  </graph>\n</graphml>\n"
   return table.concat(lines, "\n")
end

-- ---------------------------------------------------------------------------------------------
-- Reading.

local BOOLEANS = { ["true"] = true, ["1"] = true, ["false"] = false, ["0"] = false }

--- What a text says; what it cannot say is refused where the row is checked.
local function value_of(key, text)
   if key.kind ~= "boolean" then return text end
   local value = BOOLEANS[text:match("^%s*(%w+)%s*$")]
   if value == nil then return text end
   return value
end

--- The row of data of a "graph", "node" or "edge", by the keys of the file.
local function data_of(element, of, keys)
   local row = {}
   for _, key in pairs(keys) do
      if key.of == of then row[key.name] = key.default end
   end
   for _, child in ipairs(element.children) do
      local key = child.name == "data" and keys[child.attributes.key]
      if key and key.of == of then row[key.name] = value_of(key, child.text) end
   end
   return row
end

--- Keys of the file that we know, by their ids, each with its default.
local function known_keys(root)
   local by_name, keys = {}, {}
   for _, key in ipairs(KEYS) do by_name[key.of .. " " .. key.name] = key end
   for _, child in ipairs(root.children) do
      if child.name == "key" then
         local a = child.attributes
         local name, of = a["attr.name"] or a.id or "", a["for"] or "all"
         local key = by_name[of .. " " .. name]
            or of == "all" and (by_name["node " .. name] or by_name["edge " .. name])
         if key and a.id then
            keys[a.id] = { name = key.name, of = key.of, kind = key.kind }
            for _, default in ipairs(child.children) do
               if default.name == "default" then
                  keys[a.id].default = value_of(key, default.text)
               end
            end
         end
      end
   end
   return keys
end

local read_element = {
   node = function(b, element, where, keys)
      for _, child in ipairs(element.children) do
         if child.name == "graph" then
            builder.malformed("%s: a graph in a node, expected a flat graph", where(child))
         end
      end
      local row = data_of(element, "node", keys)
      row.id = element.attributes.id
      b:node(where(element), row)
   end,
   edge = function(b, element, where, keys)
      local a = element.attributes
      b:edge(where(element), a.source, a.target, data_of(element, "edge", keys))
   end,
   data = function() end,
   desc = function() end,
}

--- Whether a text is of this form.
function M.is(text) return text:find("^%s*<") ~= nil end

--- @tparam string text
-- @tparam string path for messages
-- @treturn table parts of a graph
function M.read(text, path)
   local root, where = xml.read(text, path)
   local b, graph = builder.new(path), nil
   for _, child in ipairs(root.children) do
      if child.name == "graph" then
         if graph then builder.malformed("%s: a second graph", where(child)) end
         graph = child
      end
   end
   if not graph then builder.malformed("%s: there is no <graph>", path) end
   if graph.attributes.edgedefault == "undirected" then
      builder.malformed("%s: the graph is undirected, expected a directed one", where(graph))
   end
   local keys = known_keys(root)
   local of_graph, devices = data_of(graph, "graph", keys), nil
   for line in (of_graph.devices and of_graph.devices .. "\n" or ""):gmatch("(.-)\n") do
      devices = devices or {}
      table.insert(devices, text_form.read_device(line, 1, where(graph)))
   end
   for _, child in ipairs(graph.children) do
      local read = read_element[child.name] or builder.malformed(
         "%s: <%s> is not read, expected nodes and edges", where(child), child.name)
      read(b, child, where, keys)
   end
   local parts = b:finish()
   parts.devices = devices
   parts.memory_factor = of_graph.memory_factor
      and builder.cost(where(graph), "memory_factor", of_graph.memory_factor)
   return parts
end

return M
