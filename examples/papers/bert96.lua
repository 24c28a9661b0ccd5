--- BERT with 96 layers, 512 tokens, f32, on a GTX 1080 Ti: the profile that Harmony's authors
-- published with their code (msr-fiddle/harmony, results/bert_96, MIT), in five classes of layers.

-- Parameters, bytes of a sample that enters the layer, and seconds of an update on the CPU.
local classes = {
   { count = 1, weight = 127131648, input = 10240, update = .09857841249322519 },
   { count = 96, weight = 50384896, input = 2099200, update = .024158048210665584 },
   { count = 1, weight = 4198400, input = 2097152, update = .0012680547661148012 },
   { count = 1, weight = 8200, input = 4096, update = .00036242074565961957 },
   { count = 1, weight = 0, input = 8, update = 0 },
}

-- By class, for micro-batches of 4 and of 8: seconds forward; seconds of recomputation and backward
-- together; peak bytes of either.
local times = {
   forward = {
      [4] = { .001211097, .011893859, .000206419, .000136583, .000128229 },
      [8] = { .001795775, .020367909, .000212392, .000141682, .000129501 },
   },
   backward = {
      [4] = { .007363561, .035723271, .001346255, .000826446, .000696198 },
      [8] = { .009055944, .062132794, .001523736, .000850067, .000695865 },
   },
}
local peaks = {
   forward = { 245501952, 419500032, 21041152, 41984, 2560 },
   backward = { 308101632, 1073856512, 58793984, 83968, 3584 },
}

local function by_layer(value_of)
   local list = {}
   for c, class in ipairs(classes) do
      for _ = 1, class.count do list[#list + 1] = value_of(class, c) end
   end
   return list
end

local function by_micro(rows)
   local out = {}
   for micro, row in pairs(rows) do out[micro] = by_layer(function(_, c) return row[c] end) end
   return out
end

return {
   weight_bytes = by_layer(function(class) return class.weight end),
   update_s = by_layer(function(class) return class.update end),
   input_bytes = by_layer(function(class) return class.input end),
   forward_s = by_micro(times.forward),
   backward_s = by_micro(times.backward),
   -- Of micro-batches of 8.
   forward_bytes = by_layer(function(_, c) return peaks.forward[c] end),
   backward_bytes = by_layer(function(_, c) return peaks.backward[c] end),
}
