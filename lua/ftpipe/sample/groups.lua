--- Splits of a sample task: examples that come in groups, so that labels are balanced exactly, over
-- each part of an example too.
--
-- A task's module has `name`, `size` (rows of a group), `defaults` = { seed =, train =, held_out =
-- } (rows of the splits), `streams` = { train =, held_out = } (of the seed), `draw(rng, held_out)`
-- (a group, or nil when what was drawn is of no use) and `key(row)` (a text that no two rows may
-- share).

local random = require("ftpipe.base.random")

local M = {}

local function is_new(keys, seen)
   for _, key in ipairs(keys) do
      if seen[key] then return false end
   end
   return true
end

local function make_split(task, rng, count, held_out)
   local rows, seen = {}, {}
   while #rows < count do
      local group, keys = task.draw(rng, held_out) or {}, {}
      for i, row in ipairs(group) do keys[i] = task.key(row) end
      if is_new(keys, seen) then
         for i, row in ipairs(group) do
            seen[keys[i]] = true
            rows[#rows + 1] = row
         end
      end
   end
   rng:shuffle(rows)
   for i, row in ipairs(rows) do row.idx = i - 1 end
   return rows
end

--- Makes both splits.
-- @tparam table task as above
-- @tparam[opt] table options `seed`, and the numbers of rows `train` and `held_out`, multiples of
--    the group's size
-- @treturn table of train rows
-- @treturn table of held-out rows, whose people meet only things and actions that they meet in no
--    train sentence
function M.examples(task, options)
   options = options or {}
   local seed = options.seed or task.defaults.seed
   local function split(name, held_out)
      local count = options[name] or task.defaults[name]
      if count % task.size ~= 0 then
         error(("%s: %s is %d, expected a multiple of %d"):format(task.name, name, count,
            task.size), 4)
      end
      return make_split(task, random.new(seed, task.streams[name]), count, held_out)
   end
   return split("train", false), split("held_out", true)
end

return M
