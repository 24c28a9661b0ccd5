# digest.cmake - a digest of files, as a header. Run as a script:
#   cmake -DOUT=FILE.h -DLIST=FILE -P digest.cmake
# LIST has a path on each line. Where the files lie changes nothing.
file(STRINGS ${LIST} paths)
set(digests "")
foreach(path IN LISTS paths)
  file(SHA256 ${path} digest)
  list(APPEND digests ${digest})
endforeach()
list(SORT digests)
string(SHA256 all "${digests}")
string(SUBSTRING ${all} 0 12 short)
file(WRITE ${OUT} "/* Written by tools/digest.cmake. */\n#define FT_KERNELS_DIGEST \"${short}\"\n")
