std = "luajit"
max_line_length = false -- tools/lint.lua counts columns
files["spec"] = { std = "+busted" }
files["tools/spec.lua"] = { globals = { "arg" } }
