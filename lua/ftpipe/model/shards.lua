--- Weights in files of a limited size, as Hugging Face names them: model.safetensors, or
-- model-00001-of-00003.safetensors and the others with model.safetensors.index.json.

local core = require("ftpipe.core")

local M = {}

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

local function write_group(path, group)
   local tensors = {}
   for i, row in ipairs(group) do tensors[i] = { name = row.name, tensor = row.make() } end
   core.io.write(path, tensors)
end

--- Writes weights into a directory; the tensors of one file are held at a time.
-- @tparam string dir
-- @tparam table rows { name =, bytes =, make = (gives the tensor) }, in the order of the files
-- @tparam[opt] number most bytes of tensors in a file; one file if absent
function M.write(dir, rows, most)
   local groups = M.groups(rows, most or math.huge)
   if #groups == 1 then return write_group(dir .. "/" .. core.io.weight_files[1], groups[1]) end
   local map, total = {}, 0
   for i, group in ipairs(groups) do
      local name = ("model-%05d-of-%05d.safetensors"):format(i, #groups)
      write_group(dir .. "/" .. name, group)
      for _, row in ipairs(group) do map[row.name], total = name, total + row.bytes end
   end
   core.sys.write_file(dir .. "/model.safetensors.index.json",
      core.json.encode({ metadata = { total_size = total }, weight_map = map },
         { indent = 2, sort = true }) .. "\n")
end

return M
