# `cmake --install` installs PREFIX/bin/vaecf_dist, libvaecf.so with its header and vaecf.pc, and PREFIX/share/vaecf_dist:
# launch scripts, configurations, documentation, license and the Python package, which loads libvaecf.so.
# cpack makes a .tar.gz of them and, on Debian and Ubuntu, a .deb.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/vaecf_dist)
# A component of its own, which images install alone.
install(TARGETS vaecf_dist RUNTIME COMPONENT program)
install(TARGETS vaecf LIBRARY COMPONENT library)
install(FILES include/vaecf.h TYPE INCLUDE COMPONENT library)
# PREFIX from the folder of vaecf.pc.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/vaecf.pc.in vaecf.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/vaecf.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
# Scripts that build or test need the sources, so they are not installed.
install(DIRECTORY launch DESTINATION ${share} USE_SOURCE_PERMISSIONS
        REGEX "/launch/(build|bundle|binaries\\.sh|fetch-libraries|gpu-[^/]*|quickstart|release|test|wheel(\\.py)?)$" EXCLUDE)
install(DIRECTORY configs docs DESTINATION ${share})
install(FILES README.md CHANGELOG.md CITATION.cff LICENSE SECURITY.md DESTINATION ${share})
install(DIRECTORY python DESTINATION ${share}
        PATTERN tests EXCLUDE PATTERN __pycache__ EXCLUDE PATTERN *.egg-info EXCLUDE)

set(CPACK_PACKAGE_NAME vaecf_dist)
set(CPACK_PACKAGE_VENDOR "the authors of vaecf_dist")
set(CPACK_PACKAGE_CONTACT "the authors of vaecf_dist")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ)
# The .deb requires the packages of the release on which it is built, so its version contains the release. A program with
# CUDA gets none: NVIDIA's libraries need not come from packages.
find_program(VAECF_SHLIBDEPS dpkg-shlibdeps)
find_program(VAECF_FILE file)
if(VAECF_SHLIBDEPS AND VAECF_FILE AND NOT VAECF_HAS_CUDA)
  list(APPEND CPACK_GENERATOR DEB)
  file(STRINGS /etc/os-release codename REGEX "^VERSION_CODENAME=")
  string(REPLACE "VERSION_CODENAME=" "" codename "${codename}")
  set(CPACK_DEBIAN_PACKAGE_NAME vaecf-dist)
  set(CPACK_DEBIAN_PACKAGE_RELEASE ${codename})
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  # mpirun; the scripts of launch/ use bash and awk.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, bash, mawk | gawk")
endif()
include(CPack)
