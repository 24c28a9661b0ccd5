# Compiler options and the libraries that the rooms are built on.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_CXX_STANDARD 17)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Asserts state what callers guarantee; -O2 with vectorisation is asked for where it matters.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(luajit REQUIRED luajit)
pkg_check_modules(jansson REQUIRED jansson)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(utf8proc REQUIRED libutf8proc)
pkg_check_modules(pcre2 REQUIRED libpcre2-8)
pkg_check_modules(sqlite REQUIRED sqlite3)
pkg_check_modules(zlib REQUIRED zlib)
pkg_check_modules(libedit QUIET libedit)

# ft_library(NAME ARCHIVE PREFIX SYSTEM...): an interface target over the static archive when there is
# one, so that the program can be copied, else over the shared library that pkg-config named.
function(ft_library name archive prefix)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${${prefix}_INCLUDE_DIRS})
  find_library(FTPIPE_${name}_ARCHIVE ${archive} HINTS ${${prefix}_LIBRARY_DIRS})
  mark_as_advanced(FTPIPE_${name}_ARCHIVE)
  if(FTPIPE_${name}_ARCHIVE)
    target_link_libraries(${name} INTERFACE ${FTPIPE_${name}_ARCHIVE} ${ARGN})
  else()
    target_link_libraries(${name} INTERFACE ${${prefix}_LINK_LIBRARIES})
  endif()
endfunction()

ft_library(ft_luajit libluajit-5.1.a luajit m ${CMAKE_DL_LIBS})
set(FTPIPE_LUAJIT_ARCHIVE ${FTPIPE_ft_luajit_ARCHIVE})
ft_library(ft_jansson libjansson.a jansson)
ft_library(ft_utf8proc libutf8proc.a utf8proc)
ft_library(ft_pcre2 libpcre2-8.a pcre2)
ft_library(ft_sqlite libsqlite3.a sqlite m ${CMAKE_DL_LIBS})
ft_library(ft_zlib libz.a zlib)
if(libedit_FOUND)
  find_library(FTPIPE_TINFO NAMES libtinfo.a tinfo)
  find_library(FTPIPE_BSD NAMES libbsd.a bsd)
  find_library(FTPIPE_MD NAMES libmd.a md)
  mark_as_advanced(FTPIPE_TINFO FTPIPE_BSD FTPIPE_MD)
  ft_library(ft_libedit libedit.a libedit ${FTPIPE_TINFO} ${FTPIPE_BSD} ${FTPIPE_MD})
endif()

add_library(ft_options INTERFACE)
target_include_directories(ft_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(ft_options INTERFACE _GNU_SOURCE FTPIPE_VERSION="${PROJECT_VERSION}")
target_compile_options(ft_options INTERFACE
  -funwind-tables
  # Products and sums are fused in the vector kernels only, which say so (FtKernels.cmake).
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:FT_FUSED>>>:-ffp-contract=off>
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
    -Wno-missing-field-initializers -Wmissing-prototypes -Wvla -Wundef -Wcast-qual -Wdouble-promotion>)
if(FTPIPE_WERROR)
  target_compile_options(ft_options INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()
if(FTPIPE_SANITIZE)
  target_compile_options(ft_options INTERFACE -fsanitize=${FTPIPE_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(FTPIPE_SANITIZE STREQUAL "thread") # see FtRoom
    target_compile_options(ft_options INTERFACE
      $<$<BOOL:$<TARGET_PROPERTY:FT_PURE>>:-fno-sanitize=thread>)
  endif()
  target_link_options(ft_options INTERFACE -fsanitize=${FTPIPE_SANITIZE})
endif()
if(FTPIPE_FUZZ)
  target_compile_options(ft_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
