-- Writes man pages into a directory, "man" when none is named: ftpipe tools/man.lua [DIR]
--
-- ftpipe(1) and ftpipe-COMMAND(1) are what --help says, ftpipe-lua(3) and ftpipe-PAGE(7) the pages
-- of doc/, of which doc/lua.md is made from the comments in the source: what `ftpipe help` prints.

local argvs = require("ftpipe.base.argv")
local core = require("ftpipe.core")
local host = require("ftpipe.prompt.host")
local reference = require("ftpipe.prompt.reference")

local M = {}

--- A character of UTF-8 by its number, "\[u2593]".
local function numbered(character)
   local number = character:byte() % (character:byte() >= 240 and 8 or character:byte() >= 224
      and 16 or 32)
   for i = 2, #character do number = number * 64 + character:byte(i) % 64 end
   return ("\\[u%04X]"):format(number)
end

--- A line of text as roff prints it.
local function plain(line)
   line = line:gsub("\\", "\\e"):gsub("%-", "\\-"):gsub("[\192-\247][\128-\191]+", numbered)
   return (line:gsub("^([.'])", "\\&%1"))
end

--- A line of Markdown: `code` in bold, links as their words.
local function marked(line)
   line = line:gsub("!?%[(.-)%]%b()", "%1")
   local parts = {}
   for text, code in (line .. "``"):gmatch("(.-)`(.-)`") do
      parts[#parts + 1] = plain(text)
      if code ~= "" then parts[#parts + 1] = "\\fB" .. plain(code) .. "\\fR" end
   end
   return (table.concat(parts):gsub("^([.'])", "\\&%1"):gsub("%*%*", ""))
end

local function head(name, section, what)
   return { ('.TH "%s" "%d" "" "ftpipe %s" "ftpipe"'):format(name:upper(), section, core.version),
      ".SH NAME", ("%s \\- %s"):format(plain(name), plain(what)) }
end

local function add_code(lines, code)
   lines[#lines + 1] = ".PP\n.nf"
   for _, line in ipairs(code) do lines[#lines + 1] = plain(line) end
   lines[#lines + 1] = ".fi"
end

--- A page of what --help prints.
-- @tparam string name "ftpipe-plan"
-- @tparam string what it is for, in a line
-- @tparam string help
function M.of_help(name, what, help)
   local lines, code = head(name, 1, what), {}
   lines[#lines + 1] = ".SH DESCRIPTION"
   for line in (help:gsub("%s+$", "") .. "\n"):gmatch("(.-)\n") do code[#code + 1] = line end
   add_code(lines, code)
   lines[#lines + 1] = '.SH "SEE ALSO"\nftpipe(1), ftpipe\\-recipes(7), ftpipe\\-lua(3)'
   return table.concat(lines, "\n") .. "\n"
end

-- Lines of Markdown by how they begin: what they become.
local RULES = {
   { "^## +(.*)", function(text) return '.SH "' .. marked(text):gsub('"', "'") .. '"' end },
   { "^###+ +(.*)", function(text) return '.SS "' .. marked(text):gsub('"', "'") .. '"' end },
   { "^%s*[-*] +(.*)", function(text) return ".IP \\(bu 2\n" .. marked(text) end },
   { "^%s*%d+%. +(.*)", function(text) return ".IP \\(bu 2\n" .. marked(text) end },
}

--- A row of a table: its first cell, and what is said of it.
local function row_of(line)
   local cells = {}
   for cell in line:gsub("\\|", "\1"):gmatch("|([^|]*)") do
      cells[#cells + 1] = (cell:gsub("\1", "|"):gsub("^%s+", ""):gsub("%s+$", ""))
   end
   if table.concat(cells):find("^[-:%s]*$") then return nil end
   local first = table.remove(cells, 1)
   local rest = marked((table.concat(cells, "; "):gsub("[; ]+$", "")))
   return (".TP\n%s\n%s"):format(first == "" and "\\&" or marked(first),
      rest == "" and "\\&" or rest)
end

--- A page of Markdown.
-- @tparam string name "ftpipe-schedules"
-- @tparam int section
-- @tparam string text
function M.of_page(name, section, text)
   local title = text:match("^# +([^\n]*)") or name
   local lines, code, fenced = head(name, section, title:lower()), nil, false
   lines[#lines + 1] = ".SH DESCRIPTION"
   local paragraph = false
   for line in (text:gsub("^# [^\n]*\n+", "") .. "\n"):gmatch("(.-)\n") do
      local fence = line:find("^```") ~= nil
      if fence then fenced = not fenced end
      if fence or fenced or not fenced and line:find("^    ") then
         code = code or {}
         if not fence then code[#code + 1] = fenced and line or line:sub(5) end
      elseif code and line == "" then
         code[#code + 1] = ""
      else
         if code then add_code(lines, code) end
         code = nil
         local row, done = line:find("^|") and (row_of(line) or ""), false
         for _, rule in ipairs(row and {} or RULES) do
            local found = line:match(rule[1])
            if found and not done then row, done = rule[2](found), true end
         end
         if row then
            lines[#lines + 1] = row ~= "" and row or nil
         elseif line ~= "" then
            lines[#lines + 1] = (paragraph and ".PP\n" or "") .. marked(line)
         end
         paragraph = line == ""
      end
   end
   if code then add_code(lines, code) end
   return table.concat(lines, "\n") .. "\n"
end

--- What the program prints with these words.
local function printed(...)
   local pipe = assert(io.popen(argvs.line { core.sys.executable(), ... }))
   local text = pipe:read("*a")
   pipe:close()
   return text
end

--- Writes all pages.
function M.write(dir)
   for section = 1, 7, 2 do
      if section ~= 5 then core.sys.mkdir(("%s/man%d"):format(dir, section)) end
   end
   local function put(name, section, text)
      core.sys.write_file(("%s/man%d/%s.%d"):format(dir, section, name, section), text)
   end
   put("ftpipe", 1, M.of_help("ftpipe", "fine-tunes transformers in pipelines", printed("--help")))
   for _, name in ipairs(host.commands()) do
      local what = require("ftpipe.command." .. name).help
      put("ftpipe-" .. name, 1, M.of_help("ftpipe-" .. name, what, printed("help", name, "all")))
   end
   put("ftpipe-lua", 3, M.of_page("ftpipe-lua", 3, core.asset("doc/lua.md")))
   for _, page in ipairs(reference.topics()) do
      put("ftpipe-" .. page, 7, M.of_page("ftpipe-" .. page, 7, reference.topic(page)))
   end
end

if arg and arg[0] and arg[0]:find("man%.lua$") then
   if arg[2] or arg[1] and arg[1]:find("^%-") then
      io.stderr:write("usage: ftpipe tools/man.lua [DIR]\n")
      os.exit(2, true)
   end
   M.write(arg[1] or "man")
end

return M
