--- GraphML (graphml.graphdrawing.org): graphs for yEd, Gephi and networkx, and from them.
--
-- What nodes and edges weigh are data keys by the names that our text form has; other keys of a
-- file are passed over.

local builder = require("ftpipe.graph.builder")
local xml = require("ftpipe.graph.xml")

local M = {}

--- Rows: name, what it belongs to, type in the file.
local function rows()
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
   add("node", "boolean", { "backward", "kind2_only" })
   add("edge", "double", builder.edge_numbers)
   add("edge", "int", { "value" })
   return list
end

local function number(value)
   local short = ("%.15g"):format(value)
   return tonumber(short) == value and short or ("%.17g"):format(value)
end

local function add_data(lines, of, row)
   for _, key in ipairs(rows()) do
      local value = key.of == of and row[key.name]
      if value and not (key.zero and value == 0) then
         lines[#lines + 1] = ('      <data key="%s_%s">%s</data>'):format(of, key.name,
            type(value) == "number" and number(value) or xml.escape(value))
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
   for _, key in ipairs(rows()) do
      lines[#lines + 1] = ('  <key id="%s_%s" for="%s" attr.name="%s" attr.type="%s"/>'):format(
         key.of, key.name, key.of, key.name, key.kind)
   end
   lines[#lines + 1] = '  <graph edgedefault="directed">'
   for i, node in ipairs(graph.nodes) do
      lines[#lines + 1] = ('    <node id="%s">'):format(xml.escape(node.id))
      local row = setmetatable({
         stage = result and result.stage[i], device = result and result.device[i],
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

local readers = {
   boolean = function(text)
      local word = text:match("^%s*(%w+)%s*$")
      return word == "true" or word == "1" or nil
   end,
   string = function(text) return text end,
   double = function(text) return text end,
   int = function(text) return text end,
}

--- The row of data of a node or edge, by the keys of the file.
local function data_of(element, keys)
   local row = {}
   for _, child in ipairs(element.children) do
      local key = child.name == "data" and keys[child.attributes.key]
      if key then row[key.name] = readers[key.kind](child.text) end
   end
   return row
end

--- Keys of the file that we know, by their ids.
local function known_keys(root)
   local by_name, keys = {}, {}
   for _, key in ipairs(rows()) do by_name[key.of .. " " .. key.name] = key end
   for _, child in ipairs(root.children) do
      if child.name == "key" then
         local a = child.attributes
         local name = a["attr.name"] or a.id or ""
         local key = by_name[(a["for"] or "node") .. " " .. name]
            or a["for"] == "all" and by_name["node " .. name]
         if key and a.id then keys[a.id] = key end
      end
   end
   return keys
end

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
   for _, child in ipairs(graph.children) do
      if child.name == "node" then
         local row = data_of(child, keys)
         row.id = child.attributes.id
         b:node(where(child), row)
      elseif child.name == "edge" then
         local a = child.attributes
         if not a.source or not a.target then
            builder.malformed("%s: an edge without two ends", where(child))
         end
         b:edge(where(child), a.source, a.target, data_of(child, keys))
      elseif child.name ~= "data" and child.name ~= "desc" then
         builder.malformed("%s: <%s> is not read, expected nodes and edges", where(child),
            child.name)
      end
   end
   return b:finish()
end

return M
