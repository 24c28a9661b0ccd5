--- What every node of a graph costs on a device: measured there, or modelled.
--
--    local profile = ft.profile(graph, "cpu:2", { measure = true })
--    print(profile)                     -- a table by operator, and how well the sum agrees
--    profile:save("t5-small.profile")   -- text; ft.profile.load reads it
--    ft.plan { ..., profile = "t5-small.profile" }
--
-- Nodes with the same row, shapes and attributes share a line of the profile, which holds their
-- mean; so the sum over a graph is what was measured.

local bars = require("ftpipe.page.bars")
local core = require("ftpipe.core")
local cache = require("ftpipe.base.cache")
local class = require("ftpipe.base.class")
local column_of = require("ftpipe.base.column")
local counted = require("ftpipe.base.counted")
local guard = require("ftpipe.base.guard")
local html = require("ftpipe.page.html")
local opts = require("ftpipe.base.opts")
local processor = require("ftpipe.base.processor")
local texts = require("ftpipe.profile.text")
local units = require("ftpipe.base.units")

local M = {}
local Profile = {}
Profile.__index = Profile
Profile.__name = "profile"

local SECONDS = 0.8 -- of measuring, unless told otherwise

-- ---------------------------------------------------------------------------------------------
-- What a profile is of.

--- The processor and how many cores of it there are.
local function hardware()
   return ("%s, %s"):format(processor(), counted(core.sys.cores(), "core"))
end

--- A card: its rates say which kind it is.
local function card_words(device)
   return ("card of %.0f GFLOP/s in f32, %.0f in bf16, memory of %.0f GB/s"):format(
      device.flops_per_s / 1e9, device.bf16_flops_per_s / 1e9, device.bytes_per_s / 1e9)
end

--- What a profile was taken on.
local function hardware_of(device)
   return device.in_host and hardware() or device.measures and card_words(device) or "not here"
end

local function spec_text(param)
   return ("%s(%s)"):format(param.dtype, table.concat(param.dims, ", "))
end

--- Texts of a graph's nodes and parameters: the lines of a profile that they are looked up in.
local function texts_of(graph)
   local params = {}
   for i, param in ipairs(graph:params()) do params[i] = spec_text(param) end
   return { node = core.profile.describe(graph), param = params, forward = graph:counts().forward }
end

--- The inputs of a graph, as people tell micro-batches apart: "source_ids i32(4, 128), ...".
local function inputs_text(graph)
   local words = {}
   for i, input in ipairs(graph:inputs()) do words[i] = input.name .. " " .. spec_text(input) end
   return table.concat(words, ", ")
end

local function digest(t)
   return core.sys.sha256(table.concat(t.node, "\n") .. "\n" .. table.concat(t.param, "\n"))
      :sub(1, 16)
end

-- ---------------------------------------------------------------------------------------------
-- From nodes to lines, and back.

--- Adds up `columns` (name -> list) of the items first .. last that have equal texts; each line
-- gets the mean.
local function gather(names, first, last, columns)
   local rows, by_text = {}, {}
   for i = first, last do
      local row = by_text[names[i]]
      if not row then
         row = { text = names[i], count = 0 }
         by_text[names[i]] = row
         rows[#rows + 1] = row
      end
      row.count = row.count + 1
      for column, list in pairs(columns) do row[column] = (row[column] or 0) + (list[i] or 0) end
   end
   for _, row in ipairs(rows) do
      for column in pairs(columns) do row[column] = row[column] / row.count end
   end
   return rows
end

local function gather_rows(t, raw)
   local columns = {
      ns = raw.node_ns, modelled_ns = raw.modelled_ns, spread = raw.node_spread,
      output_bytes = raw.output_bytes,
      workspace_bytes = raw.workspace_bytes, saved_bytes = raw.saved_bytes,
      recompute_ns = raw.recompute_ns or {}, pack_ns = raw.pack_ns,
   }
   return {
      forward = gather(t.node, 1, t.forward, columns),
      backward = gather(t.node, t.forward + 1, #t.node, columns),
      update = gather(t.param, 1, #t.param, { ns = raw.update_ns, norm_ns = raw.norm_ns }),
   }
end

local function index(rows)
   local by_text = {}
   for _, row in ipairs(rows) do by_text[row.text] = row end
   return by_text
end

--- The first input that a profile's graph has otherwise, in words; nil where there is none.
local function other_input(profile, graph)
   local had = profile.head.inputs or "" -- a profile of an older version does not say them
   for _, input in ipairs(graph:inputs()) do
      local its = (", " .. had):match(", " .. input.name:gsub("%p", "%%%0") .. " (%w+%b())")
      if its and its ~= spec_text(input) then
         return ("its micro-batches have %s %s, these %s; measure these (ftpipe profile, "
            .. "ft.profile), or give none"):format(input.name, its, spec_text(input))
      end
   end
   return nil
end

--- The row of a node or parameter; what it does not find it tells by inputs, if these differ.
local function lookup(profile, by_text, text, what, graph)
   local row = by_text[text]
   if not row then
      core.fail("invalid argument", ("profile %s was measured for another model, batch or length: "
         .. "%s"):format(profile.path or "of " .. profile.head.device, other_input(profile, graph)
         or ("it has no %s '%s'; measure this one (ftpipe profile, ft.profile), or give "
            .. "none"):format(what, text)))
   end
   return row
end

--- Costs of a graph's nodes, as plans take them.
-- @tparam graph graph
-- @tparam[opt] table known times by number of forward nodes that the profile need not have, ns
-- @treturn table node_ns, recompute_ns, pack_ns, update_ns, norm_ns, copy_bytes_per_s, handoff_ns
-- @local
function Profile:costs(graph, known)
   local t = texts_of(graph)
   local forward, backward = index(self.rows.forward), index(self.rows.backward)
   local update = index(self.rows.update)
   local costs = {
      node_ns = {}, pack_ns = {}, update_ns = {}, norm_ns = {},
      recompute_ns = self:has_recompute() and {} or nil,
      copy_bytes_per_s = self.head.copy_bytes_per_s, handoff_ns = self.head.handoff_ns,
   }
   for n, text in ipairs(t.node) do
      local ns = known and known[n]
      local row = ns and { ns = ns, recompute_ns = ns, pack_ns = 0 }
         or lookup(self, n <= t.forward and forward or backward, text, "node", graph)
      costs.node_ns[n] = row.ns
      if n <= t.forward then
         costs.pack_ns[n] = row.pack_ns
         if costs.recompute_ns then costs.recompute_ns[n] = row.recompute_ns end
      end
   end
   for p, text in ipairs(t.param) do
      local row = lookup(self, update, text, "parameter", graph)
      costs.update_ns[p], costs.norm_ns[p] = row.ns, row.norm_ns
   end
   return costs
end

--- Whether forward nodes that are run again were measured as such.
function Profile:has_recompute()
   return (self.head.options or ""):find("recompute", 1, true) ~= nil
end

-- ---------------------------------------------------------------------------------------------
-- Making.

local function options_text(o, device)
   local words = {}
   if device.unpacked then words[#words + 1] = "unpacked" end
   if o.recompute then words[#words + 1] = "recompute" end
   if o.accumulate ~= false then words[#words + 1] = "accumulate" end
   return #words > 0 and table.concat(words, " ") or "none"
end

local function head_of(graph, t, device, devices, o)
   local threads = devices[1].threads
   local name = type(device) == "string" and device or device.name or "described"
   return {
      hardware = hardware_of(devices[1]),
      device = name, dtype = o.dtype,
      versions = ("ftpipe %s, kernels %s"):format(core.version, core.profile.kernels),
      threads = threads,
      busy = devices[1].in_host and math.max(1,
         math.min(#devices, math.floor(core.sys.cores() / threads))) or 1,
      optimizer = o.optimizer, options = options_text(o, devices[1]), graph = digest(t),
      inputs = inputs_text(graph),
   }
end

--- Everything that a measured profile depends on: the name of its file in the cache. What memory
-- the device may use changes no time.
local function cache_path(head, device)
   local dir = cache.directory()
   local parts = { ("device=%s %d"):format(device.kind, device.card) }
   for _, key in ipairs { "hardware", "busy", "threads", "dtype", "versions", "optimizer",
      "options", "graph" } do
      parts[#parts + 1] = ("%s=%s"):format(key, tostring(head[key]))
   end
   return dir and ("%s/profiles/%s.profile"):format(dir,
      core.sys.sha256(table.concat(parts, "\n")):sub(1, 24))
end

--- Of the memory that is there, profiles take at most this part.
local MEMORY_SHARE = 0.4

local function measure(graph, t, head, o)
   local request = {
      device = head.device, busy = head.busy, optimizer = head.optimizer, hypers = o.hypers or {},
      recompute = o.recompute or false, accumulate = o.accumulate ~= false,
      whole = o.whole or false, seconds = o.seconds or SECONDS,
   }
   local device = core.engine.devices(head.device)[1]
   if device.in_host then
      request.memory_bytes = math.floor(core.sys.memory() * MEMORY_SHARE)
   end
   local raw
   while not raw do
      local ok, result = pcall(core.profile.measure, graph, request)
      if ok then
         raw = result
      elseif type(result) == "table" and result.status == "out of memory" and request.busy > 1 then
         request.busy = 1 -- with nobody beside it, if there is no memory for more
      else
         error(result, 0)
      end
   end
   raw.modelled_ns = graph:times(head.device)
   head.busy = request.busy
   head.source = "measured"
   for _, key in ipairs { "rounds", "blocks", "distinct", "pass_ns", "copy_bytes_per_s",
      "handoff_ns" } do
      head[key] = raw[key]
   end
   head.whole_ns = raw.whole_ns > 0 and raw.whole_ns or nil
   return setmetatable({
      head = head, rows = gather_rows(t, raw),
      left_out_bytes = o.whole and not head.whole_ns and raw.whole_bytes or nil,
   }, Profile)
end

local function zeros(n)
   local list = {}
   for i = 1, n do list[i] = 0 end
   return list
end

-- Whose updates are modelled, whichever optimizer is asked for.
local MODELLED_OPTIMIZER = "adamw"

--- By the roofline of the device's row; updates as seven passes over a parameter (what AdamW reads
-- and writes), norms as one.
local function model(graph, t, head, devices, calibration)
   local device = devices[1] -- a row is all that is needed
   local modelled = graph:times({ device })
   local raw = {
      node_ns = modelled, modelled_ns = modelled, node_spread = {},
      output_bytes = {}, workspace_bytes = {},
      saved_bytes = {}, pack_ns = zeros(t.forward), update_ns = {}, norm_ns = {},
   }
   for p, param in ipairs(graph:params()) do
      local bytes = 4
      for _, dim in ipairs(param.dims) do bytes = bytes * dim end
      raw.update_ns[p] = 1e9 * 7 * bytes / device.bytes_per_s
      raw.norm_ns[p] = 1e9 * bytes / device.bytes_per_s
   end
   if calibration then
      raw.node_ns = {}
      for n, ns in ipairs(modelled) do
         raw.node_ns[n] = ns * (calibration[graph:node(n).op] or 1)
      end
   end
   raw.recompute_ns = raw.node_ns -- by a roofline a node takes as long whenever it runs
   head.source = calibration and "modelled, calibrated" or "modelled"
   head.optimizer = MODELLED_OPTIMIZER
   head.copy_bytes_per_s, head.handoff_ns = device.bytes_per_s / 2, device.link_latency_ns
   return setmetatable({ head = head, rows = gather_rows(t, raw) }, Profile)
end

local RULES = {
   measure = { type = "boolean", default = false, help = "measured, else modelled" },
   fresh = { type = "boolean", default = false, help = "measured anew, whatever is cached" },
   whole = { type = "boolean", default = false, help = "the whole step too, to compare" },
   recompute = { type = "boolean", default = false, help = "forward nodes run again, too" },
   accumulate = { type = "boolean", default = true, help = "gradients of several micro-batches" },
   dtype = { type = "string", default = "f32",
      help = "of products: a word in the profile, the graph decides it" },
   optimizer = { choices = column_of(core.engine.optimizers(), "name"),
      default = core.engine.optimizers()[1].name,
      help = "whose updates; of what is modelled, always those of AdamW" },
   calibrate = { type = "table", help = "what :calibration() of a measured profile gives" },
   hypers = { type = "table", help = "of the optimizer" },
   seconds = { type = "number", min = 0, help = "of measuring, about" },
   before = { type = "function",
      help = "called before it is measured, with the seconds of a pass as they are modelled" },
   batch = { type = "int", min = 1, default = 1, help = "samples of a micro-batch" },
   source = { type = "int", min = 1, default = 128, help = "tokens of an input" },
   target = { type = "int", min = 1, default = 8, help = "tokens of an answer" },
   dropout = { type = "number", min = 0, max = 0.99, help = "probability, else the model's" },
}

--- Refuses factors that are none.
local function check_calibration(factors)
   for op, factor in pairs(factors or {}) do
      if type(factor) ~= "number" or not (factor > 0 and factor < math.huge) then
         opts.fail("ft.profile", "option 'calibrate': %s is %s, expected a number above 0",
            tostring(op), class.told(factor))
      end
   end
end

--- The graph itself, or the training graph of a model.
local function graph_of(subject, o)
   if not class.is(subject, "model|graph|ftpipe.graph") then
      opts.fail("ft.profile", "expected what ft.model or ft.graph gives of a model (ft.graph "
         .. "\"t5-small\"), got %s", class.quoted(subject))
   end
   if type(subject) == "userdata" then return subject end
   if class.of(subject) == "graph" then
      return subject.operators or opts.fail("ft.profile", "the graph is not of a model: its nodes "
         .. "have the costs of its file")
   end
   local size = { batch = o.batch, source = o.source, target = o.target,
      dropout = o.dropout or subject.config.dropout_rate }
   return subject.family.training(subject.config, size)
end

local function try_load(path)
   if not path or not core.sys.exists(path) then return nil end
   local ok, profile = pcall(M.load, path)
   return ok and profile or nil -- a file that is cut short is made anew
end

local function store(profile, path)
   if not path then return end
   local ok = pcall(function()
      core.sys.mkdir(path:match("^(.*)/"))
      profile:save(path)
   end)
   if ok then profile.path = path end -- a cache that cannot be written is none
end

local function seconds_of(times)
   local ns = 0
   for _, each in ipairs(times) do ns = ns + each end
   return ns / 1e9
end

local SLOW_SECONDS = 2 -- of a pass over a micro-batch: several are made, and operators one by one

--- What is to be said before work is measured that takes long; nil of other.
-- @tparam int samples of a micro-batch
-- @tparam number seconds of a pass over it
-- @treturn string
-- @local
function M.slow_words(samples, seconds)
   if seconds < SLOW_SECONDS then return nil end
   return ("measuring what operators cost, of which a micro-batch of %d takes about %s"):format(
      samples, units.format_seconds(seconds))
end

--- A profile of a model's training graph, or of a graph.
-- @param subject model (of ft.model), graph of one (ft.graph "t5-small"), or graph with gradients
-- @param device as in --devices, or a cluster; the first one is profiled, and stands for others
-- @tparam[opt] table options measure (else modelled), fresh (not from the cache), whole, recompute,
--   accumulate, optimizer, hypers, seconds, before; calibrate (of what is modelled, see
--   :calibration); of a model: batch, source, target, dropout
-- @treturn profile
function M.new(subject, device, options)
   local o = opts.check("ft.profile", RULES, options or {})
   local devices = core.engine.devices(device)
   for _, name in ipairs { "batch", "source", "target", "dropout" } do
      if (options or {})[name] and not subject.family then
         opts.fail("ft.profile", "option '%s' is of a model; a graph has its own", name)
      end
   end
   check_calibration(o.calibrate)
   local graph = graph_of(subject, o)
   local t = texts_of(graph)
   local head = head_of(graph, t, device, devices, o)
   if not (o.measure or o.fresh) then return model(graph, t, head, devices, o.calibrate) end
   local path = cache_path(head, devices[1])
   local cached = not o.fresh and not o.whole and try_load(path)
   if cached then return cached end
   if o.before then o.before(seconds_of(graph:times(head.device))) end
   local profile = measure(graph, t, head, o)
   store(profile, path)
   return profile
end

--- Reads a profile.
-- @tparam string path
function M.load(path)
   local profile = setmetatable(texts.read(core.sys.read_file(path), path), Profile)
   profile.path = path
   return profile
end

--- The text of the profile, as in its file.
function Profile:text() return texts.write(self) end

--- Writes the profile; the file appears whole or not at all.
function Profile:save(path) core.sys.write_file(path, self:text()) end

-- ---------------------------------------------------------------------------------------------
-- Looking.

local function total(rows, column)
   local sum = 0
   for _, row in ipairs(rows) do sum = sum + row.count * (row[column] or 0) end
   return sum
end

--- Times of one micro-batch and one update, ns: forward, backward, recompute, update (with packing
-- and norms), pass (forward and backward).
function Profile:sums()
   local rows = self.rows
   local forward, backward = total(rows.forward, "ns"), total(rows.backward, "ns")
   return {
      forward = forward, backward = backward, pass = forward + backward,
      recompute = total(rows.forward, "recompute_ns"),
      update = total(rows.update, "ns") + total(rows.forward, "pack_ns"),
   }
end

--- How far the sum of operators is from the whole step, as a part of it; nil when that was not
-- measured (option whole).
function Profile:difference()
   return self.head.whole_ns and self:sums().pass / self.head.whole_ns - 1
end

--- Times by operator, the heaviest first: { op =, count =, ns =, modelled_ns =, share =, spread =
-- (half of what lies between the quartiles, as a part of the time; the mean of its nodes) }.
function Profile:operators()
   local list, by_op, pass = {}, {}, self:sums().pass
   for _, kind in ipairs { "forward", "backward" } do
      for _, row in ipairs(self.rows[kind]) do
         local op = row.text:match("^%S+")
         local entry = by_op[op]
         if not entry then
            entry = { op = op, count = 0, ns = 0, modelled_ns = 0, spread = 0 }
            by_op[op], list[#list + 1] = entry, entry
         end
         entry.count, entry.ns = entry.count + row.count, entry.ns + row.count * row.ns
         entry.modelled_ns = entry.modelled_ns + row.count * row.modelled_ns
         entry.spread = entry.spread + row.count * row.ns * (row.spread or 0)
      end
   end
   for _, entry in ipairs(list) do
      entry.share = pass > 0 and entry.ns / pass or 0
      entry.spread = entry.ns > 0 and entry.spread / entry.ns or 0
   end
   table.sort(list, function(a, b) return a.ns > b.ns or a.ns == b.ns and a.op < b.op end)
   return list
end

--- How much longer each operator takes than modelled: what was measured at one shape corrects what
-- is modelled at others, or on a device of the same kind.
-- @treturn table factor by operator
function Profile:calibration()
   local factors = {}
   for _, entry in ipairs(self:operators()) do
      if entry.modelled_ns > 0 then factors[entry.op] = entry.ns / entry.modelled_ns end
   end
   return factors
end

--- In a word: "measured on DEVICE (FILE)", and whose updates it has where these are not asked for.
-- @tparam[opt] string optimizer of the plan
function Profile:summary(optimizer)
   local head = self.head
   local other = optimizer and head.source == "measured" and head.optimizer
      and head.optimizer ~= optimizer and head.optimizer
   return ("%s on %s%s%s"):format(head.source or "measured", head.device,
      self.path and (" (%s)"):format(self.path) or "",
      other and (", updates of %s in place of %s"):format(other, optimizer) or "")
end

function Profile:__tostring()
   local head, sums = self.head, self:sums()
   local lines = {
      ("profile: %s on %s (%s), %d at once: forward %.2f ms, backward %.2f ms, update %.2f ms")
         :format(head.source or "measured", head.device, head.hardware or "?", head.busy or 1,
            sums.forward / 1e6, sums.backward / 1e6, sums.update / 1e6),
   }
   for _, entry in ipairs(self:operators()) do
      local spread = head.source == "measured" and (", +-%4.1f %%"):format(100 * entry.spread) or ""
      lines[#lines + 1] = ("  %-24s %5d nodes %10.3f ms %5.1f %%%s"):format(entry.op, entry.count,
         entry.ns / 1e6, 100 * entry.share, spread)
   end
   if self:difference() then
      lines[#lines + 1] = ("sum of operators %.2f ms, whole step %.2f ms (%+.1f %%)"):format(
         sums.pass / 1e6, head.whole_ns / 1e6, 100 * self:difference())
   elseif self.left_out_bytes then
      lines[#lines + 1] = ("whole step not measured: a worker would need %s for it"):format(
         units.format_bytes(self.left_out_bytes))
   end
   return table.concat(lines, "\n")
end

local function picture(profile)
   local rows = {}
   for i, entry in ipairs(profile:operators()) do
      rows[i] = { name = entry.op .. ", " .. counted(entry.count, "node"), value = entry.ns,
         words = ("%.3f ms, %.1f %%"):format(entry.ns / 1e6, 100 * entry.share) }
   end
   return bars { { title = "Time of operators, forward and backward", rows = rows } }
end

--- Writes the times of its operators as bars.
-- @tparam string path
function Profile:svg(path)
   core.sys.write_file(path, picture(self))
   return self
end

--- Writes what it says and its bars as a page that needs nothing else.
-- @tparam string path
function Profile:html(path)
   core.sys.write_file(path, html.of(tostring(self), { picture(self) }))
   return self
end

--- Its head, sums and operators as JSON; the whole is its text.
function Profile:json()
   return core.json.encode({ head = self.head, sums_ns = self:sums(),
      operators = core.json.array(self:operators()) }, { sort = true }) .. "\n"
end

M.takes = { ["ft.profile"] = RULES }

guard("ft.profile", M, {
   new = "subject: any, device: string|table, options?: table",
   load = "path: string",
}, "new")
guard("profile", Profile, {
   has_recompute = "", text = "", save = "path: string", sums = "", difference = "",
   operators = "", calibration = "", summary = "optimizer?: string",
   json = "", svg = "path: string",
   html = "path: string",
})

return setmetatable(M, { __call = function(_, ...) return M.new(...) end })
