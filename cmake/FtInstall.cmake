# Where everything goes, and the Debian package of it.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR})

# With FTPIPE_BUNDLE the libraries lie beside the program, in a directory of its own, so that all of
# it can be copied to a machine that has libc and nothing else.
if(FTPIPE_BUNDLE)
  set(bundled lib/ftpipe)
  set_target_properties(ftpipe PROPERTIES INSTALL_RPATH "$ORIGIN/../${bundled}")
  # those that libraries need are looked for there as well
  target_link_options(ftpipe PRIVATE LINKER:--disable-new-dtags)
  install(TARGETS ftpipe RUNTIME_DEPENDENCY_SET libraries RUNTIME)
  install(RUNTIME_DEPENDENCY_SET libraries DESTINATION ${bundled}
    PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|ld-linux[-a-z0-9_]*)[.]so"
    POST_EXCLUDE_REGEXES "/ld-linux[-a-z0-9_]*[.]so")
else()
  install(TARGETS ftpipe RUNTIME)
endif()

# Man pages and completion, as the program itself says them.
set(said ${CMAKE_BINARY_DIR}/installed)
install(CODE "execute_process(COMMAND $<TARGET_FILE:ftpipe> tools/man.lua ${said}/man
  WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)")
install(DIRECTORY ${said}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(shell bash zsh fish)
  install(CODE "execute_process(COMMAND $<TARGET_FILE:ftpipe> completion ${shell}
    OUTPUT_FILE ${said}/completion.${shell} COMMAND_ERROR_IS_FATAL ANY)")
endforeach()
install(FILES ${said}/completion.bash RENAME ftpipe DESTINATION ${share}/bash-completion/completions)
install(FILES ${said}/completion.zsh RENAME _ftpipe DESTINATION ${share}/zsh/site-functions)
install(FILES ${said}/completion.fish RENAME ftpipe.fish DESTINATION ${share}/fish/vendor_completions.d)

# lua/ is inside the program; here it is for readers, and for FTPIPE_LUA.
install(DIRECTORY recipes sweeps examples lua DESTINATION ${share}/ftpipe)
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY doc/ DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME ftpipe)
set(CPACK_PACKAGE_VENDOR ftpipe)
set(CPACK_PACKAGE_CONTACT "the ftpipe developers <ftpipe@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fine-tunes transformers that do not fit on one device")
set(CPACK_PACKAGE_DESCRIPTION "ftpipe cuts a transformer into stages, puts each on a device, and
keeps all devices busy at the same time. It is one program; an experiment is a Lua script.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # what the program is linked with, by dpkg-shlibdeps
# What is loaded when there is MPI is a package of its own, so that the program needs none.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME ftpipe)
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION "${CPACK_PACKAGE_DESCRIPTION}")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS ftpipe-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_NAME ftpipe-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "ftpipe (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_MPI_DESCRIPTION "Runs of ftpipe on several machines, by MPI.")
include(CPack)
