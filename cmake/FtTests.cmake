# What runs besides the C tests of rooms: specs, examples, fuzz corpora and lint, in the program.

# ft_test(NAME COMMAND...): a ctest in the root of the sources, with a time limit.
function(ft_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${FT_TEST_TIMEOUT}
                       ENVIRONMENT XDG_CACHE_HOME=${CMAKE_BINARY_DIR}/cache) # not in a home directory
endfunction()

file(GLOB_RECURSE specs CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}
     ${CMAKE_SOURCE_DIR}/spec/*_spec.lua)
foreach(spec IN LISTS specs)
  string(REGEX REPLACE "_spec\\.lua$" "" name ${spec})
  ft_test(${name} ftpipe tools/spec.lua ${spec})
endforeach()

# The program with a list of drivers of its own, in which cpu is the device that checks its users.
ft_program(ftpipe_check ${CMAKE_SOURCE_DIR}/test/check_program.c)
target_include_directories(ftpipe_check PRIVATE ${CMAKE_SOURCE_DIR}/test)
foreach(name pipeline placement evaluate)
  ft_test(check/${name} ftpipe_check tools/spec.lua spec/${name}_spec.lua)
endforeach()

# The same with cards that are emulated on the host.
ft_program(ftpipe_emu ${CMAKE_SOURCE_DIR}/test/emulation/program.c)
target_link_libraries(ftpipe_emu PRIVATE ft_emulated)

# And with those of this machine (./dev gpu), and what its kernels are held to.
if(FTPIPE_HAS_CUDA)
  set(card_lists ${CMAKE_SOURCE_DIR}/test/emulation/cards.c)
  ft_program(ftpipe_cards)
  ft_cards(ftpipe_cards ${card_lists})
  foreach(name rows steps)
    add_executable(cards_${name} ${CMAKE_SOURCE_DIR}/test/test_cuda_${name}.c)
    target_include_directories(cards_${name} PRIVATE ${CMAKE_SOURCE_DIR}/test)
    ft_cards(cards_${name} ${card_lists})
    target_compile_definitions(cards_${name} PRIVATE FT_ON_CARDS)
  endforeach()
  ft_test(check/kernels ftpipe tools/kernels.lua ${CMAKE_BINARY_DIR}/kernels)
endif()

ft_test(check/cards ftpipe_emu tools/spec.lua spec/cards_spec.lua)
ft_test(check/host_updates ftpipe_emu tools/spec.lua spec/harmony_spec.lua
        "--filter=give the bits of those on the device: gpt2")
ft_test(check/scaling ftpipe_emu tools/spec.lua spec/scaling_spec.lua "--filter=a scaled loss")
ft_test(check/gpu ftpipe_emu tools/gpu.lua ${CMAKE_BINARY_DIR} optimizers "train emu:2" growth
        "profile gpt2" "step t5-base emu:2")
ft_test(check/cuda ftpipe_emu tools/spec.lua spec/cuda_spec.lua)
ft_test(check/clip ftpipe_emu tools/spec.lua spec/versions_spec.lua "--filter=and clips what is left")

file(GLOB examples CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/examples/*.lua)
foreach(example IN LISTS examples)
  get_filename_component(name ${example} NAME_WE)
  ft_test(example/${name} ftpipe tools/example.lua ${example})
endforeach()

# A fuzz target reads test/fuzz/corpus/NAME: with libFuzzer when fuzzing, else by a plain main. It
# links the rooms whose headers it includes.
file(GLOB fuzz_targets CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/fuzz/fuzz_*.c)
foreach(source IN LISTS fuzz_targets)
  get_filename_component(stem ${source} NAME_WE)
  string(REPLACE "fuzz_" "" name ${stem})
  add_executable(${stem} ${source})
  file(STRINGS ${source} includes REGEX "^#include \"[a-z_]+/")
  foreach(include IN LISTS includes)
    string(REGEX REPLACE "^#include \"([a-z_]+)/.*" "ft_\\1" library "${include}")
    target_link_libraries(${stem} PRIVATE ${library})
  endforeach()
  target_include_directories(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/test)
  if(FTPIPE_FUZZ)
    target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/test/fuzz/replay.c)
    ft_test(fuzz/${name} ${stem} test/fuzz/corpus/${name})
  endif()
endforeach()

# Sanitizers add mutable objects of their own, and the sources are the same.
if(NOT FTPIPE_SANITIZE)
  file(STRINGS tools/lint.lua rules REGEX "^function rules\\.")
  list(TRANSFORM rules REPLACE "^function rules\\.([a-z_]+).*" "\\1")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS tools/lint.lua)
  foreach(rule IN LISTS rules)
    ft_test(lint/${rule} ftpipe tools/lint.lua ${CMAKE_BINARY_DIR} ${rule})
    set_tests_properties(lint/${rule} PROPERTIES LABELS lint)
  endforeach()
endif()

# Benchmarks: built by `./dev bench` only.
add_custom_target(bench)
file(GLOB benches CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.c)
foreach(source IN LISTS benches)
  get_filename_component(stem ${source} NAME_WE)
  add_executable(${stem} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${stem} PRIVATE ft_core)
  add_dependencies(bench ${stem})
endforeach()
target_link_libraries(bench_matmul PRIVATE dnnl gomp) # its peer, and the threads of that

# Stands before the allocator in spec/allocations_spec.lua; sanitizers stand there themselves.
if(NOT FTPIPE_SANITIZE)
  add_library(count_malloc MODULE ${CMAKE_SOURCE_DIR}/test/preload/count_malloc.c)
  target_compile_options(count_malloc PRIVATE -Wall -Wextra)
  target_link_libraries(count_malloc PRIVATE ${CMAKE_DL_LIBS})
endif()
