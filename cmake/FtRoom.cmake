# ft_room(NAME USES ROOM... TESTS ROOM... PURE): a static library of src/NAME/*.c(pp), and a test of
# every test/test_NAME*.c(pp) that links this room alone (with what it uses) and the rooms of TESTS.
# ThreadSanitizer has nothing to see in a PURE room, where the suite would spend most of its time
# with it.
# Seconds, after which a test hangs: on one core beside eight busy processes it takes 20 times what it
# takes on two idle ones, and the longest takes minutes there.
set(FT_TEST_TIMEOUT 5400)

function(ft_room name)
  cmake_parse_arguments(ARG "PURE" "" "USES;TESTS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.c
       ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  add_library(ft_${name} STATIC ${sources})
  target_link_libraries(ft_${name} PUBLIC ft_options)
  set_target_properties(ft_${name} PROPERTIES FT_PURE "${ARG_PURE}")
  foreach(room IN LISTS ARG_USES)
    target_link_libraries(ft_${name} PUBLIC ft_${room})
  endforeach()
  string(REPLACE ";" " " uses "${ARG_USES}")
  file(APPEND ${CMAKE_BINARY_DIR}/rooms.txt "${name}: ${uses}\n") # read by tools/lint.lua

  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/test/test_${name}.c
       ${CMAKE_SOURCE_DIR}/test/test_${name}_*.c ${CMAKE_SOURCE_DIR}/test/test_${name}_*.cpp)
  foreach(test IN LISTS tests)
    get_filename_component(stem ${test} NAME_WE)
    add_executable(${stem} ${test})
    target_include_directories(${stem} PRIVATE ${CMAKE_SOURCE_DIR}/test)
    target_link_libraries(${stem} PRIVATE ft_${name})
    foreach(room IN LISTS ARG_TESTS)
      target_link_libraries(${stem} PRIVATE ft_${room})
    endforeach()
    string(REPLACE "test_" "c/" ctest_name ${stem})
    add_test(NAME ${ctest_name} COMMAND ${stem} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set_tests_properties(${ctest_name} PROPERTIES TIMEOUT ${FT_TEST_TIMEOUT})
  endforeach()
endfunction()
file(WRITE ${CMAKE_BINARY_DIR}/rooms.txt "")
