# The kernels of kernels/*.cu: for the emulation of the tests, always; for cards, where nvcc is there.
file(GLOB cuda_kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.cu)
file(GLOB cuda_headers CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/*.h
     ${CMAKE_SOURCE_DIR}/src/cuda/*args.h ${CMAKE_SOURCE_DIR}/src/cuda/kernels.h
     ${CMAKE_SOURCE_DIR}/src/optim/element.h ${CMAKE_SOURCE_DIR}/src/optim/step.h)

# What tests link to have cards on the host: the driver "emu".
add_library(ft_emulated OBJECT ${cuda_kernels} ${CMAKE_SOURCE_DIR}/test/emulation/emulate.cpp
            ${CMAKE_SOURCE_DIR}/test/emulation/runtime.c
            ${CMAKE_SOURCE_DIR}/test/emulation/memory.c
            ${CMAKE_SOURCE_DIR}/test/emulation/graphs.c
            ${CMAKE_SOURCE_DIR}/test/emulation/cublas.c
            ${CMAKE_SOURCE_DIR}/test/emulation/nccl.c)
set_source_files_properties(${cuda_kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
target_include_directories(ft_emulated PUBLIC ${CMAKE_SOURCE_DIR}/test/emulation
                           ${CMAKE_SOURCE_DIR}/kernels)
target_link_libraries(ft_emulated PUBLIC ft_channels)

# On, off, or what is there. One line says which, and why.
find_program(FTPIPE_NVCC nvcc HINTS $ENV{CUDA_HOME}/bin PATHS /usr/local/cuda/bin)
set(FTPIPE_CUDA_ARCHITECTURES 75 80 86 89 90a 100 CACHE STRING
    "Compute capabilities that kernels are compiled for; newer ones compile those of the last")
set(cuda_lacks "")
if(NOT FTPIPE_NVCC)
  set(cuda_lacks "there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda/bin")
endif()
set(FTPIPE_HAS_CUDA OFF)
if(NOT FTPIPE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FTPIPE_CUDA=${FTPIPE_CUDA}, expected AUTO, ON or OFF")
elseif(FTPIPE_CUDA STREQUAL "ON" AND cuda_lacks)
  message(FATAL_ERROR "FTPIPE_CUDA=ON, but ${cuda_lacks}; AUTO builds without")
elseif(FTPIPE_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off (FTPIPE_CUDA=OFF)")
elseif(cuda_lacks)
  message(STATUS "CUDA: off (FTPIPE_CUDA=AUTO, and ${cuda_lacks})")
else()
  message(STATUS "CUDA: on, with ${FTPIPE_NVCC}")
  set(FTPIPE_HAS_CUDA ON)
endif()

# Compiles the kernels, once for all programs; images.s has them as data.
function(ft_card_images)
  list(GET FTPIPE_CUDA_ARCHITECTURES 0 first)
  list(GET FTPIPE_CUDA_ARCHITECTURES -1 last) # has instructions that the first one lacks
  set(as_text ${first} ${last})
  list(REMOVE_DUPLICATES as_text)
  set(targets "")
  foreach(arch IN LISTS as_text)
    list(APPEND targets -gencode arch=compute_${arch},code=compute_${arch})
  endforeach()
  foreach(arch IN LISTS FTPIPE_CUDA_ARCHITECTURES)
    list(APPEND targets -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  set(text "/* made by cmake/FtCuda.cmake: the kernels, compiled for cards */\n")
  set(table "")
  set(images "")
  foreach(source IN LISTS cuda_kernels)
    get_filename_component(stem ${source} NAME_WE)
    set(image ${CMAKE_BINARY_DIR}/kernels/${stem}.fatbin)
    set(usage ${CMAKE_BINARY_DIR}/kernels/${stem}.usage.txt) # registers and so on, by the compiler
    add_custom_command(OUTPUT ${image} BYPRODUCTS ${usage}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/kernels
      COMMAND sh -c "\"$@\" 2>\"$0\" || { cat \"$0\" >&2; exit 1; }" ${usage}
              ${FTPIPE_NVCC} -std=c++17 -O3 -fatbin -Xfatbin -compress-all -Xptxas -v
              -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR}/kernels ${targets} ${source}
              -o ${image}
      DEPENDS ${source} ${cuda_headers} COMMENT "Compiling kernels/${stem}.cu for cards" VERBATIM)
    list(APPEND images ${image})
    string(APPEND text ".section .rodata\n.balign 64\nft_image_${stem}:\n.incbin \"${image}\"\n"
           "ft_image_name_${stem}: .asciz \"${stem}\"\n")
    string(APPEND table ".quad ft_image_name_${stem}, ft_image_${stem}\n")
  endforeach()
  string(APPEND text ".section .data.rel.ro,\"aw\"\n.balign 8\n.global ft_cuda_images\n"
         "ft_cuda_images:\n${table}.quad 0, 0\n.section .note.GNU-stack,\"\",%progbits\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/images.s CONTENT "${text}" @ONLY)
  set_source_files_properties(${CMAKE_BINARY_DIR}/images.s PROPERTIES OBJECT_DEPENDS "${images}")
endfunction()
if(FTPIPE_HAS_CUDA)
  ft_card_images()
endif()

# ft_cards(PROGRAM LISTS): gives it the drivers of cards that the file LISTS has, with the kernels
# inside it.
function(ft_cards program lists)
  if(FTPIPE_HAS_CUDA)
    target_sources(${program} PRIVATE ${CMAKE_BINARY_DIR}/images.s ${lists})
    target_link_libraries(${program} PRIVATE ft_channels ${CMAKE_DL_LIBS})
  endif()
endfunction()

# What tests compare with: CUDA's own headers and cuBLASLt, where they are beside nvcc.
set(toolkit "")
if(FTPIPE_NVCC)
  get_filename_component(toolkit "${FTPIPE_NVCC}" REALPATH)
  get_filename_component(toolkit "${toolkit}/../.." ABSOLUTE)
  target_include_directories(test_nvidia_declarations SYSTEM PRIVATE ${toolkit}/include)
endif()
find_library(FTPIPE_CUBLAS cublasLt HINTS ${toolkit}/lib64 ${toolkit}/lib)
target_compile_definitions(test_cuda_descriptors PRIVATE FT_CUBLAS_LIBRARY="${FTPIPE_CUBLAS}")
