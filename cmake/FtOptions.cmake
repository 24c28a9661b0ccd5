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
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(PkgConfig REQUIRED)
pkg_check_modules(luajit REQUIRED IMPORTED_TARGET luajit)
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(libedit IMPORTED_TARGET libedit)

add_library(ft_options INTERFACE)
target_include_directories(ft_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(ft_options INTERFACE _GNU_SOURCE FTPIPE_VERSION="${PROJECT_VERSION}")
target_compile_options(ft_options INTERFACE
  -funwind-tables -ffp-contract=off
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes
    -Wmissing-prototypes -Wvla -Wundef -Wcast-qual -Wdouble-promotion>)
if(FTPIPE_WERROR)
  target_compile_options(ft_options INTERFACE $<$<COMPILE_LANGUAGE:C>:-Werror>)
endif()
if(FTPIPE_SANITIZE)
  target_compile_options(ft_options INTERFACE -fsanitize=${FTPIPE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(ft_options INTERFACE -fsanitize=${FTPIPE_SANITIZE})
endif()
