--- Weights in files of a limited size, as Hugging Face names them: model.safetensors, or
-- model-00001-of-00003.safetensors and the others with model.safetensors.index.json.

local core = require("ftpipe.core")

local M = {}

local WHOLE, INDEX = unpack(core.io.weight_files)

--- Groups of rows, in their order, of at most so many bytes; a larger row is alone.
-- @tparam table rows each with `bytes`
-- @tparam number most
-- @treturn table list of lists
function M.groups(rows, most)
   local groups, bytes = { {} }, 0
   for _, row in ipairs(rows) do
      if bytes > 0 and bytes + row.bytes > most then
         groups[#groups + 1], bytes = {}, 0
      end
      local group = groups[#groups]
      group[#group + 1], bytes = row, bytes + row.bytes
   end
   return groups
end

local function write_group(path, group, write_tensors)
   local tensors = {}
   for i, row in ipairs(group) do tensors[i] = { name = row.name, tensor = row.make() } end
   write_tensors(path, tensors)
end

--- Writes weights into a directory; the tensors of one file are held at a time.
-- @tparam string dir
-- @tparam table rows { name =, bytes =, make = (gives the tensor) }, in the order of the files
-- @tparam[opt] number most bytes of tensors in a file; one file if absent
-- @tparam[opt] function write_tensors (path, list) in place of core.io.write
-- @treturn int bytes of all tensors
function M.write(dir, rows, most, write_tensors)
   local groups = M.groups(rows, most or math.huge)
   local map, total = {}, 0
   for i, group in ipairs(groups) do
      local name = #groups == 1 and WHOLE
         or WHOLE:gsub("%.", ("-%05d-of-%05d."):format(i, #groups), 1)
      write_group(dir .. "/" .. name, group, write_tensors or core.io.write)
      for _, row in ipairs(group) do map[row.name], total = name, total + row.bytes end
   end
   if #groups > 1 then
      core.sys.write_file(dir .. "/" .. INDEX,
         core.json.encode({ metadata = { total_size = total }, weight_map = map },
            { indent = 2, sort = true }) .. "\n")
   end
   return total
end

return M
