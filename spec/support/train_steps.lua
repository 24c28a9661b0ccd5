--- Trains the small T5 of spec/support/pipeline.lua for as many steps as the argument says.
package.path = "./?.lua;" .. package.path
require("spec.support.pipeline").train { devices = "cpu:2", steps = tonumber(arg[1]) }
