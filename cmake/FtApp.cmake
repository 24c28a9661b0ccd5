# The program: src/app, with lua/, argparse, assets/ and the pages of doc/ inside it.
find_file(FTPIPE_ARGPARSE argparse.lua PATHS /usr/share/lua/5.1 /usr/local/share/lua/5.1 REQUIRED)

# Lines "table|name|chunk|path" for tools/embed.cmake.
set(embed_lines "modules|argparse|@argparse.lua|${FTPIPE_ARGPARSE}\n")
file(GLOB_RECURSE modules CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/lua
     ${CMAKE_SOURCE_DIR}/lua/*.lua)
foreach(path IN LISTS modules)
  string(REGEX REPLACE "(/init)?\\.lua$" "" name ${path})
  string(REPLACE "/" "." name ${name})
  string(APPEND embed_lines "modules|${name}|@lua/${path}|${CMAKE_SOURCE_DIR}/lua/${path}\n")
endforeach()
file(GLOB_RECURSE assets CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/assets
     ${CMAKE_SOURCE_DIR}/assets/*)
foreach(path IN LISTS assets)
  string(APPEND embed_lines "assets|${path}|-|${CMAKE_SOURCE_DIR}/assets/${path}\n")
endforeach()
# What `ftpipe new` begins a project with, beside assets/new.
set(new_task examples/tasks/colour.lua)
string(APPEND embed_lines "assets|new/task.lua|-|${CMAKE_SOURCE_DIR}/${new_task}\n")
file(GLOB pages CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/doc/*.md)
foreach(path IN LISTS pages)
  string(APPEND embed_lines "assets|${path}|-|${CMAKE_SOURCE_DIR}/${path}\n")
endforeach()
set(embed_list ${CMAKE_BINARY_DIR}/embed.txt)
file(CONFIGURE OUTPUT ${embed_list} CONTENT "${embed_lines}" @ONLY)

list(TRANSFORM modules PREPEND ${CMAKE_SOURCE_DIR}/lua/)
list(TRANSFORM assets PREPEND ${CMAKE_SOURCE_DIR}/assets/)
list(TRANSFORM pages PREPEND ${CMAKE_SOURCE_DIR}/)
set(embedded ${CMAKE_BINARY_DIR}/embedded.s)
add_custom_command(OUTPUT ${embedded}
  COMMAND ${CMAKE_COMMAND} -DOUT=${embedded} -DLIST=${embed_list}
          -P ${CMAKE_SOURCE_DIR}/tools/embed.cmake
  DEPENDS ${modules} ${assets} ${CMAKE_SOURCE_DIR}/${new_task} ${pages} ${embed_list} ${FTPIPE_ARGPARSE}
          ${CMAKE_SOURCE_DIR}/tools/embed.cmake
  COMMENT "Embedding lua/ and assets/" VERBATIM)

enable_language(ASM)
file(GLOB app_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/app/*.c)
# ft_program(NAME SOURCE...): the program, with further sources.
function(ft_program name)
  add_executable(${name} ${app_sources} ${embedded} ${ARGN})
  # C modules for Lua (lfs, term: busted uses them) look for Lua's functions in the program.
  set_target_properties(${name} PROPERTIES ENABLE_EXPORTS ON)
  target_link_libraries(${name} PRIVATE ft_core)
  if(FTPIPE_LUAJIT_ARCHIVE)
    target_link_options(${name} PRIVATE
      "LINKER:--whole-archive,${FTPIPE_LUAJIT_ARCHIVE},--no-whole-archive")
  endif()
  if(TARGET ft_libedit)
    target_link_libraries(${name} PRIVATE ft_libedit)
    target_compile_definitions(${name} PRIVATE FTPIPE_HAVE_LIBEDIT)
  endif()
  if(FTPIPE_LUA_DIR)
    target_compile_definitions(${name} PRIVATE FTPIPE_LUA_DIR="${FTPIPE_LUA_DIR}")
  endif()
endfunction()

ft_program(ftpipe)
ft_cards(ftpipe ${CMAKE_SOURCE_DIR}/src/channels/card/lists.c)
