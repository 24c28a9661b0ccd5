# embed.cmake - files into the program. Run as a script:
#   cmake -DOUT=FILE.S -DLIST=FILE -P embed.cmake
# LIST has lines "table|name|chunk|path". OUT is an assembler file that includes the bytes of each
# path (.incbin costs nothing, however big the file) and lays out the script_file tables
# app_modules and app_assets: name, chunk (0 for assets), bytes, size; a zero row ends each.
file(STRINGS ${LIST} lines)
set(strings "")
set(rows_modules "")
set(rows_assets "")
set(i 0)
foreach(line IN LISTS lines)
  string(REPLACE "|" ";" fields "${line}")
  list(GET fields 0 table)
  list(GET fields 1 name)
  list(GET fields 2 chunk)
  list(GET fields 3 path)
  string(APPEND strings
    ".Lname${i}: .asciz \"${name}\"\n.Lchunk${i}: .asciz \"${chunk}\"\n"
    ".balign 16\n.Lbytes${i}: .incbin \"${path}\"\n.Lend${i}: .byte 0\n")
  set(chunk_label .Lchunk${i})
  if(chunk STREQUAL "-")
    set(chunk_label 0)
  endif()
  string(APPEND rows_${table}
    "  .quad .Lname${i}, ${chunk_label}, .Lbytes${i}, .Lend${i} - .Lbytes${i}\n")
  math(EXPR i "${i} + 1")
endforeach()
set(text "/* Written by tools/embed.cmake. */\n.section .rodata\n${strings}")
string(APPEND text ".section .data.rel.ro, \"aw\"\n")
foreach(table modules assets)
  string(APPEND text ".balign 8\n.globl app_${table}\napp_${table}:\n${rows_${table}}  .quad 0, 0, 0, 0\n")
endforeach()
string(APPEND text ".section .note.GNU-stack, \"\", @progbits\n")
file(WRITE ${OUT} "${text}")
