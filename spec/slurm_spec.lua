--- Runs under Slurm: a cluster of two nodes on this machine, each with a network and a directory
-- of its own (tools/netns.sh).

local core = require("ftpipe.core")
local files = require("spec.support.files")
local process = require("spec.support.process")
local several = require("spec.support.several")

describe("two tasks of Slurm on two nodes", function()
   local missing = several.no_slurm()
   if missing then
      pending("cannot be tried here: " .. missing)
      return
   end

   local set, scratch
   setup(function()
      set, scratch = several.set_of_machines(), files.directory()
      local said, up = several.machines_up(set, 2)
      assert.equal(0, up, said)
      said, up = several.slurm_up(set, scratch)
      assert.equal(0, up, said)
   end)
   teardown(function()
      several.machines_down(set, 2)
      files.remove(scratch)
   end)

   local function command(out, steps)
      return several.on_slurm(scratch, several.flags("--devices", "hosts:2xcpu:1", "--out", out,
         "--steps", steps, "--save-every", "3"))
   end

   it("compute what one process does, to the bit", function()
      local one, two = scratch .. "/one", scratch .. "/two"
      local _, err, code = process.ftpipe(several.flags("--devices", "cpu:2", "--out", one,
         "--steps", "6", "--save-every", "3"))
      assert.equal(0, code, err)
      _, err, code = process.shell(command(two, 6))
      assert.equal(0, code, err)
      assert.same(several.kept(one, 6), several.kept(two, 6))
   end)

   it("go on from a directory that only the first of them sees", function()
      local _, err, code = process.shell(command(scratch .. "/own/run", 3))
      assert.equal(0, code, err)
      local words = several.flags("--devices", "hosts:2xcpu:1", "--out",
         scratch .. "/own/run", "--steps", "6",
         "--save-every", "3", "--resume")
      _, err, code = process.shell(several.on_slurm(scratch, words))
      assert.equal(0, code, err)
      assert.matches("goes on from %S+/own/run/checkpoints/step%-3, after step 3 of 6", err)
      local found = process.shell(("SLURM_CONF=%s/slurm.conf srun -N 2 -n 2 "
         .. "sh -c 'test -d %s/own/run && hostname'"):format(scratch, scratch))
      assert.equal("node0\n", found)
   end)

   it("save and stop when Slurm tells them that the time is over", function()
      local out = scratch .. "/stopped"
      local _, err, code = process.shell(([[
         export SLURM_CONF=%s/slurm.conf
         %s >/dev/null 2>%s.err & step=$!
         until test -e %s/checkpoints/latest || ! kill -0 $step; do sleep 0.1; done
         scancel --signal=TERM $(squeue -h -o %%A)
         wait $step]]):format(scratch, command(out, 100000), out, out))
      assert.equal(75, code, err .. core.sys.read_file(out .. ".err"))
      assert.matches("stopped after step %d+ of 100000; saved .*, %-%-resume goes on",
         core.sys.read_file(out .. ".err"))
   end)

   it("name the node whose link was cut", function()
      local out = scratch .. "/cut"
      process.shell(([[
         export SLURM_CONF=%s/slurm.conf
         %s >/dev/null 2>%s.err & step=$!
         until test -e %s/checkpoints/latest || ! kill -0 $step; do sleep 0.1; done
         tools/netns.sh cut %d 1
         until grep -q resume %s.err || ! kill -0 $step; do sleep 0.1; done
         kill -9 $step
         ip netns pids ft%d-1 | xargs -r kill -9]]):format(scratch, command(out, 100000), out, out,
         set, out, set))
      local err = core.sys.read_file(out .. ".err")
      assert.matches("ftpipe: rank 1 %(host node1%) has %l+", err)
      assert.matches("the checkpoint of step %d+ is whole, %-%-resume goes on from it", err)
   end)
end)
