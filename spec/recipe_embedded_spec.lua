--- What recipes do without flags: the model and the data inside the program, and what is learnt.

local core = require("ftpipe.core")
local process = require("spec.support.process")

-- What always giving the best answer scores, and what is scored at least after training. One of
-- them learns with both schedules; all of them, with ten seeds, are in
-- bench/results/2026-11-22-staleness.txt.
local RECIPES = {
   { task = "rte", metric = "accuracy", majority = 50, least = 80, "gpipe", "async" },
   { task = "wic", metric = "accuracy", majority = 50, least = 90, "async" },
   { task = "boolq", metric = "accuracy", majority = 50, least = 75, "gpipe" },
   { task = "multirc", metric = "average", majority = 35.6, least = 65, "async" },
}

for _, recipe in ipairs(RECIPES) do
   local file = ("recipes/t5_%s.lua"):format(recipe.task)

   local function run(...)
      local out, err, exit = process.ftpipe({ file, ... })
      assert.equal(0, exit, err)
      return out
   end

   describe(file .. " without flags", function()
      it("says in its first line that model and data are embedded", function()
         assert.matches("^" .. recipe.task .. ": the tiny model inside the program .*; embedded "
            .. "train data of task " .. recipe.task .. " %(%d+ examples%) and embedded eval data",
            run("--dry-run"))
      end)

      for _, schedule in ipairs(recipe) do
         it("learns, with schedule " .. schedule, function()
            if core.sanitized then return pending("takes minutes under sanitizers") end
            -- a profile measured beside other work may cut elsewhere, which async results depend on
            local out = run("--schedule", schedule, "--profile", "modelled")
            local figure = recipe.metric .. " ([%d.]+) %%[^\n]- on %d+ held%-out examples "
               .. "%(majority ([%d.]+) %%%)"
            local before, majority = out:match("before: " .. figure)
            local after = out:match("after: " .. figure)
            assert.near(recipe.majority, tonumber(majority), 1)
            assert.near(tonumber(majority), tonumber(before), 8)
            assert.is_true(tonumber(after) >= recipe.least, after)
         end)
      end
   end)
end
