local core = require("ftpipe.core")
local files = require("spec.support.files")

local function filled(dims, first, dtype)
   return core.tensor.zeros(dims, dtype):fill_range(first, 1)
end

describe("an archive", function()
   it("writes to a file what it reads back, of every dtype", function()
      files.in_directory(function(dir)
         local list = {}
         for _, dtype in ipairs { "f32", "f64", "f16", "bf16", "i32", "i64", "u8" } do
            list[#list + 1] = { name = dtype, tensor = filled({ 3, 2 }, 1, dtype) }
         end
         core.io.write(dir .. "/x.safetensors", list)
         local bytes = core.sys.read_file(dir .. "/x.safetensors")
         for _, archive in ipairs {
            core.io.archive(dir .. "/x.safetensors"), core.io.archive_bytes(bytes, "x"),
         } do
            assert.equal(7, #archive)
            for _, entry in ipairs(list) do
               local back = core.tensor.zeros({ 3, 2 }, entry.name)
               assert.is_true(entry.tensor:equals(archive:read(entry.name, back)))
            end
            archive:close()
            archive:close()
            assert.has_error(function() archive:names() end)
         end
      end)
   end)

   it("refuses what Lua should not give it", function()
      files.in_directory(function(dir)
         local path = dir .. "/x.safetensors"
         local one = filled({ 1 }, 0)
         for _, list in ipairs {
            1, { 1 }, { {} }, { { name = "a" } }, { { name = "a", tensor = 1 } },
            { { name = 1, tensor = one } }, { { name = "a\0", tensor = one } },
         } do
            assert.has_error(function() core.io.write(path, list) end)
         end
         local freed = filled({ 1 }, 0)
         freed:free()
         assert.has_error(function() core.io.write(path, { { name = "a", tensor = freed } }) end)
         assert.is_nil(core.sys.exists(path))
         assert.has_error(function() core.io.archive(dir .. "\0") end)
         assert.has_error(function() core.io.archive_bytes(3, "x") end)
         core.io.write(path, {})
         local archive = core.io.archive(path)
         assert.equal(0, #archive)
         assert.is_nil(archive:nearest("a"))
         assert.has_error(function() archive:read("a", filled({ 1 }, 0)) end)
         assert.has_error(function() archive.names(filled({ 1 }, 0)) end)
      end)
   end)
end)
