--- Task data in temporary files, for specs of tasks.

local core = require("ftpipe.core")
local files = require("spec.support.files")
local task = require("ftpipe.task")

local M = {}

--- The tokenizer inside the program.
function M.tokenizer()
   return core.data.tokenizer { bytes = core.asset("t5_tiny/spiece.model") }
end

--- Calls body(load, dir), where load(options) loads the task from a directory with these files.
-- @tparam string|task name of the task, or one
-- @tparam table contents text by file name
function M.with(name, contents, body)
   files.in_directory(function(dir)
      for file, text in pairs(contents) do core.sys.write_file(dir .. "/" .. file, text) end
      body(function(options)
         options = options or {}
         options.tokenizer = options.tokenizer or M.tokenizer()
         local given = options.train_file or options.eval_file or options.data
         if not given then options.data = dir end
         for _, key in ipairs { "train_file", "eval_file" } do
            if options[key] then options[key] = dir .. "/" .. options[key] end
         end
         return (type(name) == "string" and task[name]() or name):load(options)
      end, dir)
   end)
end

--- What loading these files fails with: message without directories, status.
function M.fault(name, contents, options)
   local message, status
   M.with(name, contents, function(load) message, status = files.fault(load, options) end)
   return message, status
end

--- The loaded evaluation split of one file of rows.
function M.eval_of(name, text, options)
   local split
   M.with(name, { ["val.jsonl"] = text }, function(load)
      options = options or {}
      options.eval_file, options.eval_only = "val.jsonl", true
      split = load(options).eval
      local _ = split.examples[1].source -- texts are made when asked for; the file is there now
   end)
   return split
end

--- The score of predictions that are all there.
function M.score(of, split, predictions)
   local scorer = of:scorer(split)
   for i, prediction in ipairs(predictions) do scorer:add(i, prediction) end
   return scorer:result()
end

return M
