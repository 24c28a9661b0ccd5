--- What the compiler made of the kernels: ftpipe tools/kernels.lua build/release/kernels
--
-- Prints for each kernel and architecture its registers, shared memory and occupancy: the part of a
-- multiprocessor's threads that can be there at once. Exit code 1 when a register is spilled, or a
-- kernel of cuda/kernels.h was not compiled for an architecture that another one was compiled for.

local core = require("ftpipe.core")

-- By compute capability, of a multiprocessor: threads, blocks, bytes of shared memory (CUDA C++
-- programming guide, technical specifications). Each has 65536 registers, given in units of 256 to
-- a warp; a block needs 1024 bytes of shared memory more from 8.0 on.
local LIMITS = {
   [75] = { threads = 1024, blocks = 16, shared = 65536, own = 0 },
   [80] = { threads = 2048, blocks = 32, shared = 167936, own = 1024 },
   [86] = { threads = 1536, blocks = 16, shared = 102400, own = 1024 },
   [89] = { threads = 1536, blocks = 24, shared = 102400, own = 1024 },
   [90] = { threads = 2048, blocks = 32, shared = 233472, own = 1024 },
   [100] = { threads = 2048, blocks = 32, shared = 233472, own = 1024 },
}

--- Kernels in the order of their table, with threads of a block.
local function kernels()
   local list = {}
   local text = core.sys.read_file("src/cuda/kernels.h")
   text = text:match("#define FT_CUDA_KERNELS(%(X%).-)\n\n")
   for name, threads in text:gmatch("X%([%w_]+, ([%w_]+), (%d+)%)") do
      list[#list + 1] = { name = name, threads = tonumber(threads) }
   end
   return list
end

--- { registers =, shared =, spilled = } by kernel, then architecture; and all architectures.
local function usage(directory)
   local found, archs = {}, {}
   for _, file in ipairs(core.sys.list_dir(directory)) do
      local at
      for line in file:find("%.usage%.txt$")
         and core.sys.read_file(directory .. "/" .. file):gmatch("[^\n]+") or function() end do
         local name, arch = line:match("entry function 'ft_([%w_]+)' for 'sm_(%d+)a?'")
         if name then
            at, archs[tonumber(arch)] = { spilled = 0, shared = 0 }, true
            found[name] = found[name] or {}
            found[name][tonumber(arch)] = at
         elseif at then
            local stores, loads = line:match("(%d+) bytes spill stores, (%d+) bytes spill loads")
            if stores then at.spilled = stores + loads end
            at.registers = tonumber(line:match("Used (%d+) registers")) or at.registers
            at.shared = tonumber(line:match("(%d+) bytes smem")) or at.shared
         end
      end
   end
   local list = {}
   for arch in pairs(archs) do list[#list + 1] = arch end
   table.sort(list)
   return found, list
end

local function occupancy(kernel, use, limits)
   local warps = kernel.threads / 32
   local by_registers = math.floor(65536 / (math.ceil(use.registers * 32 / 256) * 256) / warps)
   local by_shared = math.floor(limits.shared / math.max(1, use.shared + limits.own))
   local blocks = math.min(limits.blocks, math.floor(limits.threads / kernel.threads), by_registers,
      by_shared)
   return blocks * kernel.threads / limits.threads
end

local found, archs = usage(arg[1])
local bad, checked = {}, 0
local heading = { ("%-26s %7s %7s"):format("kernel", "threads", "shared") }
for _, arch in ipairs(archs) do heading[#heading + 1] = ("%12s"):format("sm_" .. arch) end
print(table.concat(heading))
for _, kernel in ipairs(kernels()) do
   local cells, shared = {}, 0
   for _, arch in ipairs(archs) do
      local use = found[kernel.name] and found[kernel.name][arch]
      if not use or not use.registers then
         bad[#bad + 1] = ("%s was not compiled for sm_%d"):format(kernel.name, arch)
      else
         checked, shared = checked + 1, math.max(shared, use.shared)
         cells[#cells + 1] = ("%5d %4.0f %%"):format(use.registers,
            100 * occupancy(kernel, use, LIMITS[arch] or LIMITS[90]))
         if use.spilled > 0 then
            bad[#bad + 1] = ("%s spills registers on sm_%d: %d bytes"):format(kernel.name, arch,
               use.spilled)
         end
      end
   end
   print(("%-26s %7d %7d  %s"):format(kernel.name, kernel.threads, shared,
      table.concat(cells, "  ")))
end
for _, what in ipairs(bad) do print(what) end
print(("%d passed, %d failed"):format(checked, #bad + (checked == 0 and 1 or 0)))
os.exit(#bad == 0 and checked > 0 and 0 or 1, true)
