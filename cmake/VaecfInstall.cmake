# `cmake --install` installs PREFIX/bin/vaecf_dist, libvaecf.so with its header and vaecf.pc, and PREFIX/share/vaecf_dist:
# launch scripts, configurations, documentation, license and the Python package, which loads libvaecf.so and which
# PREFIX/bin/vaecf starts.
# cpack makes a .tar.gz of them and, on Debian and Ubuntu, a .deb.
include(GNUInstallDirs)
set(share ${CMAKE_INSTALL_DATADIR}/vaecf_dist)
# A component of its own: `cmake --install BUILD --component program` installs the program alone.
install(TARGETS vaecf_dist RUNTIME COMPONENT program)
install(TARGETS vaecf LIBRARY COMPONENT library)
install(FILES include/vaecf.h TYPE INCLUDE COMPONENT library)
# PREFIX from the folder of vaecf.pc.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/vaecf.pc.in vaecf.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/vaecf.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
install(PROGRAMS cmake/vaecf TYPE BIN)
# Scripts that build or test need the sources, so they are not installed.
install(DIRECTORY launch DESTINATION ${share} USE_SOURCE_PERMISSIONS
        REGEX "/launch/(build|bundle|binaries\\.sh|fetch-libraries|gpu-[^/]*|quickstart|release|skypilot\\.yaml|test|wheel(\\.py)?)$" EXCLUDE)
install(DIRECTORY configs docs DESTINATION ${share})
install(FILES README.md CHANGELOG.md CITATION.cff LICENSE SECURITY.md DESTINATION ${share})
install(DIRECTORY python/vaecf DESTINATION ${share}/python PATTERN __pycache__ EXCLUDE)
install(FILES python/pyproject.toml DESTINATION ${share}/python)

set(CPACK_PACKAGE_NAME vaecf_dist)
set(CPACK_PACKAGE_VENDOR "the authors of vaecf_dist")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR TGZ)
# The .deb requires the packages of the release on which it is built, so its version contains the release. A program with
# CUDA gets none: NVIDIA's libraries need not come from packages.
find_program(VAECF_SHLIBDEPS dpkg-shlibdeps)
find_program(VAECF_FILE file)
find_program(VAECF_HELP2MAN help2man)
if(VAECF_SHLIBDEPS AND VAECF_FILE AND VAECF_HELP2MAN AND NOT VAECF_HAS_CUDA)
  list(APPEND CPACK_GENERATOR DEB)
  # By default as Debian's own tools name the person who builds a package.
  if(DEFINED ENV{DEBEMAIL})
    set(maintainer "$ENV{DEBFULLNAME} <$ENV{DEBEMAIL}>")
  else()
    set(maintainer "vaecf_dist contributors <vaecf-dist@invalid.invalid>")
  endif()
  set(VAECF_MAINTAINER "${maintainer}" CACHE STRING "Maintainer of the .deb: NAME <MAIL>")
  file(STRINGS /etc/os-release codename REGEX "^VERSION_CODENAME=")
  string(REPLACE "VERSION_CODENAME=" "" codename "${codename}")
  set(CPACK_PACKAGE_CONTACT "${VAECF_MAINTAINER}")
  set(CPACK_DEBIAN_PACKAGE_NAME vaecf-dist)
  set(CPACK_DEBIAN_PACKAGE_RELEASE ${codename})
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
  set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
  # mpirun; the scripts of launch/ use awk.
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, mawk | gawk, python3 (>= 3.11)")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS
      "python3-numpy, python3-scipy, python3-pandas, python3-h5py, python3-matplotlib, python3-yaml, python3-tqdm")
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Trains Mult-VAE, Mult-DAE, RecVAE, ELSA, EASE and item-kNN on users'
interactions with items, on one or many CPUs, with MPI. It recommends items
to users and to new users, evaluates on held-out users, and exports models.
.
This package contains the program vaecf_dist, the library libvaecf for C and
other languages, the Python package vaecf, scripts for Slurm, and
configurations.")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/triggers)
  set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/cmake/debian/VaecfCpack.cmake)
endif()
include(CPack)
