--- The sample of RTE: sentence pairs in SuperGLUE's format, made by the generator.
--
-- Examples come in fours that share their words (see facts.lua): two premises, two hypotheses,
-- every pairing. Labels are therefore balanced exactly, over each premise and each hypothesis too.

local facts = require("ftpipe.sample.facts")
local groups = require("ftpipe.sample.groups")

local rte = {
   name = "rte",
   size = 4,
   defaults = { seed = 1, train = 3200, held_out = 400 },
   streams = { train = 1, held_out = 2 },
}

--- Two premises, two hypotheses, every pairing.
function rte.draw(rng, held_out)
   local drawn = facts.draw(rng, held_out)
   -- A statement that repeats its premise word for word asks nothing.
   if drawn.premise == drawn.statement then return nil end
   local rows, roles = {}, { drawn.role, facts.mirror(drawn.role, drawn.swap) }
   for i, premise_role in ipairs(roles) do
      for j, hypothesis_role in ipairs(roles) do
         rows[#rows + 1] = {
            premise = facts.fill(drawn.premise, premise_role),
            hypothesis = facts.fill(drawn.statement, hypothesis_role),
            label = i == j and "entailment" or "not_entailment",
         }
      end
   end
   return rows
end

function rte.key(row)
   return row.premise .. "\n" .. row.hypothesis
end

--- Both splits, see groups.lua.
-- @treturn table of train examples {premise, hypothesis, label, idx}
-- @treturn table of held-out examples
-- @usage local train, held_out = rte.examples { seed = 1 }
function rte.examples(options)
   return groups.examples(rte, options)
end

return rte
