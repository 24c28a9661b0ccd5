--- Colours of what is numbered: devices, curves, classes of memory.

-- Okabe and Ito's, which people see apart whatever their colour vision.
local COLOURS = {
   "#56B4E9", "#E69F00", "#009E73", "#F0E442", "#CC79A7", "#0072B2", "#D55E00", "#BBBBBB",
}

--- The colour of a number, from 1 on; grey without one.
return function(number)
   return number and COLOURS[(number - 1) % #COLOURS + 1] or "#DDDDDD"
end
