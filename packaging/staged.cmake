# CPack's step between what it has installed and the package: the files get the places and times that the package needs.
set(staged ${CPACK_TEMPORARY_DIRECTORY})

# The systems of rpm have libraries in lib64. Only this file of the CMake package names the folder.
if(CPACK_GENERATOR STREQUAL "RPM" AND EXISTS ${staged}/usr/lib)
  file(RENAME ${staged}/usr/lib ${staged}/usr/lib64)
  file(GLOB targets ${staged}/usr/lib64/cmake/penstock/penstock*Targets-*.cmake)
  foreach(target IN LISTS targets)
    file(READ ${target} text)
    string(REPLACE "{_IMPORT_PREFIX}/lib/" "{_IMPORT_PREFIX}/lib64/" text "${text}")
    file(WRITE ${target} "${text}")
  endforeach()
endif()

# The same bytes each time: no time of this machine's.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${staged} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
    COMMAND_ERROR_IS_FATAL ANY)
endif()
