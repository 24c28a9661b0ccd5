--- The text form of a weighted graph: a version line, then one line for each thing.
--
--    ftpipe weighted graph 1
--    device kind=1 memory_bytes=11e9 bytes_per_s=12e9
--    node attention.0 scope=encoder/block.0 forward_ns=51200 parameter_bytes=4194304
--    edge embed attention.0 bytes=8388608 grad_bytes=8388608
--
-- Words with blanks or quotes are quoted; zeros are left out; the order is that of the graph, so
-- that what changes in a graph is what changes in its text.

local builder = require("ftpipe.graph.builder")
local number_text = require("ftpipe.base.number_text")

local M = { head = "ftpipe weighted graph 1" }

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n" }

local function word(text)
   if text:find('^[^%s"\\=#%c]+$') then return text end
   return '"' .. text:gsub('["\\\n]', escapes):gsub("%c", function(c)
      return ("\\x%02x"):format(c:byte())
   end) .. '"'
end

local function add_numbers(parts, rows, row)
   for _, entry in ipairs(rows) do
      local key, value = entry[1], row[entry[1]]
      if value and (value ~= 0 or entry.optional) then
         parts[#parts + 1] = key .. "=" .. number_text(value)
      end
   end
end

local function node_line(node)
   local parts = { "node " .. word(node.id) }
   for _, key in ipairs(builder.node_words) do
      if node[key] then parts[#parts + 1] = key .. "=" .. word(node[key]) end
   end
   add_numbers(parts, builder.node_numbers, node)
   if node.tie then parts[#parts + 1] = "tie=" .. number_text(node.tie) end
   for _, key in ipairs(builder.node_flags) do
      if node[key] then parts[#parts + 1] = key .. "=1" end
   end
   return table.concat(parts, " ")
end

--- A device as its line has it: "kind=1 memory_bytes=11000000000".
function M.device_text(device)
   local parts = {}
   add_numbers(parts, builder.device_numbers, device)
   return table.concat(parts, " ")
end

--- @tparam graph graph
-- @treturn string
function M.write(graph)
   local lines = { M.head }
   if graph.memory_factor then
      lines[#lines + 1] = "memory_factor " .. number_text(graph.memory_factor)
   end
   for _, device in ipairs(graph.devices or {}) do
      lines[#lines + 1] = ("device " .. M.device_text(device)):gsub(" $", "")
   end
   for _, node in ipairs(graph.nodes) do lines[#lines + 1] = node_line(node) end
   for _, edge in ipairs(graph.edges) do
      local parts = {
         "edge", word(graph.nodes[edge.from].id), word(graph.nodes[edge.to].id),
      }
      add_numbers(parts, builder.edge_numbers, edge)
      if edge.value then parts[#parts + 1] = "value=" .. number_text(edge.value) end
      lines[#lines + 1] = table.concat(parts, " ")
   end
   return table.concat(lines, "\n") .. "\n"
end

-- ---------------------------------------------------------------------------------------------
-- Reading.

local escaped = { n = "\n", ['"'] = '"', ["\\"] = "\\" }

--- A quoted word from its quote on, and where what follows it begins.
local function quoted(line, at, where)
   local parts, from = {}, at + 1
   while true do
      local stop = line:find('["\\]', from)
      if not stop then builder.malformed("%s: a quote is not closed", where) end
      parts[#parts + 1] = line:sub(from, stop - 1)
      if line:sub(stop, stop) == '"' then return table.concat(parts), stop + 1 end
      local hex, c = line:match("^x(%x%x)", stop + 1), line:sub(stop + 1, stop + 1)
      if not hex and not escaped[c] then
         builder.malformed("%s: '\\%s' is no escape", where, c)
      end
      parts[#parts + 1] = hex and string.char(tonumber(hex, 16)) or escaped[c]
      from = stop + (hex and 4 or 2)
   end
end

--- The word at a place of a line, and where what follows it begins; nil at the end.
local function next_word(line, at, where, stop)
   at = line:find("%S", at)
   if not at then return nil end
   if line:sub(at, at) == '"' then return quoted(line, at, where) end
   local last = line:find(stop, at) or #line + 1
   return line:sub(at, last - 1), last
end

--- key=value pairs of the rest of a line; keys not in `known` are refused.
local function read_pairs(line, at, where, known)
   local row = {}
   while true do
      local key
      key, at = next_word(line, at, where, "[%s=]")
      if not key then return row end
      if line:sub(at, at) ~= "=" then
         builder.malformed("%s: '%s' has no value, expected key=value", where, key)
      end
      builder.check_key(where, key, known)
      if row[key] then builder.malformed("%s: %s again", where, key) end
      local value
      if not line:find("^=%s", at) then value, at = next_word(line, at + 1, where, "%s") end
      if not value then builder.malformed("%s: %s= has no value", where, key) end
      row[key] = value
   end
end

local node_keys = builder.names(builder.node_numbers, builder.node_words, builder.node_flags,
   { "tie" })
local edge_keys = builder.names(builder.edge_numbers, { "value" })
local device_keys = builder.names(builder.device_numbers)

--- A device from its line, from a place on.
function M.read_device(line, at, where)
   return builder.device(where, read_pairs(line, at, where, device_keys))
end

local read_line = {
   node = function(state, line, at, where)
      local id, rest = next_word(line, at, where, "%s")
      if not id then builder.malformed("%s: a node without an id", where) end
      local row = read_pairs(line, rest, where, node_keys)
      row.id = id
      for _, key in ipairs(builder.node_flags) do
         if row[key] and row[key] ~= "1" then
            builder.malformed("%s: %s is '%s', expected 1", where, key, row[key])
         end
         row[key] = row[key] and true
      end
      state.builder:node(where, row)
   end,
   edge = function(state, line, at, where)
      local from, middle = next_word(line, at, where, "%s")
      local to, rest
      if from then to, rest = next_word(line, middle, where, "%s") end
      state.builder:edge(where, from, to, read_pairs(line, rest, where, edge_keys))
   end,
   device = function(state, line, at, where)
      table.insert(state.devices, M.read_device(line, at, where))
   end,
   memory_factor = function(state, line, at, where)
      state.memory_factor = builder.cost(where, "memory_factor", line:sub(at):match("%S+") or "")
   end,
}

--- Whether a text is of this form, of any version.
function M.is(text) return text:find("^ftpipe weighted graph ") ~= nil end

--- @tparam string text
-- @tparam string path for messages
-- @treturn table parts of a graph
function M.read(text, path)
   local state, n = { builder = builder.new(path), devices = {} }, 0
   for line in (text .. "\n"):gmatch("(.-)\r?\n") do
      n = n + 1
      local where = ("%s:%d"):format(path, n)
      local kind, at = line:match("^(%S+)()")
      if n == 1 then
         if line ~= M.head then
            builder.malformed("%s: '%s', expected '%s'", where, line, M.head)
         end
      elseif kind and kind:sub(1, 1) ~= "#" then
         if not read_line[kind] then
            builder.malformed("%s: '%s', expected node, edge, device or memory_factor", where,
               kind)
         end
         read_line[kind](state, line, at, where)
      elseif line:find("%S") and not kind then
         builder.malformed("%s: a line begins with a blank", where)
      end
   end
   local parts = state.builder:finish()
   parts.devices = #state.devices > 0 and state.devices or nil
   parts.memory_factor = state.memory_factor
   return parts
end

return M
