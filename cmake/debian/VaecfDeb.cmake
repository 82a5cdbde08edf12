# Run by cpack before it packs a .deb, with the files in CPACK_TEMPORARY_INSTALL_DIRECTORY/usr: adds what Debian's policy asks for,
# and makes its files depend on nothing but the commit: neither on the time nor on the umask.
set(prefix "${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr")
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Debian's libraries are in folders that the loader searches anyway.
file(GLOB binaries "${prefix}/bin/vaecf_dist" "${prefix}/lib*/libvaecf.so.*" "${prefix}/lib/*/libvaecf.so.*")
foreach(binary IN LISTS binaries)
  if(NOT IS_SYMLINK "${binary}")
    file(RPATH_REMOVE FILE "${binary}")
  endif()
endforeach()

set(doc "${prefix}/share/doc/vaecf-dist")
file(COPY "${CMAKE_CURRENT_LIST_DIR}/copyright" DESTINATION "${doc}")
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(time "$ENV{SOURCE_DATE_EPOCH}")
else()
  string(TIMESTAMP time "%s" UTC)
endif()
set(ENV{LC_ALL} C.UTF-8)
set(ENV{TZ} UTC)
execute_process(COMMAND date -R -d "@${time}" OUTPUT_VARIABLE date OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(release "${CPACK_DEBIAN_PACKAGE_RELEASE}")
file(WRITE "${doc}/changelog.Debian" "vaecf-dist (${CPACK_PACKAGE_VERSION}-${release}) ${release}; urgency=medium

  * Release ${CPACK_PACKAGE_VERSION} of vaecf_dist: see changelog.gz.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
configure_file("${prefix}/share/vaecf_dist/CHANGELOG.md" "${doc}/changelog" COPYONLY)

# It requires packages of Debian's Python.
file(READ "${prefix}/bin/vaecf" starter)
string(REPLACE "exec python3 " "exec /usr/bin/python3 " starter "${starter}")
file(WRITE "${prefix}/bin/vaecf" "${starter}")

set(man "${prefix}/share/man/man1")
file(MAKE_DIRECTORY "${man}")
set(purpose_of_vaecf_dist "trains recommender models on one or many CPUs")
set(purpose_of_vaecf "works with the runs of vaecf_dist")
foreach(program vaecf_dist vaecf)
  run(help2man --no-info --section 1 --name "${purpose_of_${program}}" --source "vaecf_dist ${CPACK_PACKAGE_VERSION}" --output "${man}/${program}.1" "${prefix}/bin/${program}")
endforeach()
run(gzip -9n "${doc}/changelog.Debian" "${doc}/changelog" "${man}/vaecf_dist.1" "${man}/vaecf.1")

# `import vaecf` works in Debian's Python.
file(MAKE_DIRECTORY "${prefix}/lib/python3/dist-packages")
file(CREATE_LINK ../../../share/vaecf_dist/python/vaecf "${prefix}/lib/python3/dist-packages/vaecf" SYMBOLIC)

run(find "${prefix}" -name __pycache__ -prune -exec rm -r "{}" +)
run(find "${prefix}" -type d -exec chmod 755 "{}" + -o -type f -perm /100 -exec chmod 755 "{}" + -o -type f -exec chmod 644 "{}" +)
run(find "${prefix}" -exec touch -h -d "@${time}" "{}" +)
