# ft_simd(ROOM): compiles src/ROOM/simd/*.c once per instruction set into the room. Each copy ends its
# global names in FT_ISA_SUFFIX; the room picks one at run time (device.h, ft_cpu_isa).
function(ft_simd room)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/simd/*.c)
  if(NOT sources)
    return()
  endif()
  set(isas base)
  set(flags_base "")
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
    list(APPEND isas avx2 avx512)
    set(flags_avx2 -mavx2 -mfma)
    set(flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mprefer-vector-width=512)
  endif()
  foreach(isa IN LISTS isas)
    set(objects ft_${room}_${isa})
    add_library(${objects} OBJECT ${sources})
    target_link_libraries(${objects} PRIVATE ft_options)
    set_target_properties(${objects} PROPERTIES FT_FUSED ON)
    target_compile_definitions(${objects} PRIVATE FT_ISA_SUFFIX=${isa})
    # Multiplications and additions may fuse; nothing else may differ from what is written, so that
    # NaN and infinities pass through. errno and floating-point traps are not used.
    target_compile_options(${objects} PRIVATE -O3 ${flags_${isa}} -ffp-contract=fast
      -fno-math-errno -fno-trapping-math -Wno-psabi)
    target_sources(ft_${room} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()

ft_simd(ops)
ft_simd(optim)

# A digest of what decides how long operators and updates take, and how that is measured: in the name
# of every measured profile, so that costs of other kernels are not taken for those of these.
file(GLOB kernel_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/base/vec.h
     ${CMAKE_SOURCE_DIR}/src/ops/*.[ch] ${CMAKE_SOURCE_DIR}/src/ops/simd/*.[ch]
     ${CMAKE_SOURCE_DIR}/src/optim/*.[ch] ${CMAKE_SOURCE_DIR}/src/optim/simd/*.[ch]
     ${CMAKE_SOURCE_DIR}/src/launch/*.[ch] ${CMAKE_SOURCE_DIR}/src/profile/*.[ch]
     ${CMAKE_SOURCE_DIR}/kernels/*.*)
set(digest ${CMAKE_BINARY_DIR}/digest)
string(REPLACE ";" "\n" kernel_list "${kernel_sources}")
file(CONFIGURE OUTPUT ${digest}/kernels.list CONTENT "${kernel_list}\n" @ONLY)
add_custom_command(OUTPUT ${digest}/kernels_digest.h
  COMMAND ${CMAKE_COMMAND} -DOUT=${digest}/kernels_digest.h -DLIST=${digest}/kernels.list
          -P ${CMAKE_SOURCE_DIR}/tools/digest.cmake
  DEPENDS ${kernel_sources} ${digest}/kernels.list ${CMAKE_SOURCE_DIR}/tools/digest.cmake
  COMMENT "Taking a digest of the kernels" VERBATIM)
target_sources(ft_profile PRIVATE ${digest}/kernels_digest.h)
target_include_directories(ft_profile PRIVATE ${digest})
