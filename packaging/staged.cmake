# CPack's step between installation and package: sets the places and times of the files.
set(staged ${CPACK_TEMPORARY_DIRECTORY})

# Systems with rpm have libraries in lib64. Only this file of the CMake package contains the folder's name.
if(CPACK_GENERATOR STREQUAL "RPM" AND EXISTS ${staged}/usr/lib)
  file(RENAME ${staged}/usr/lib ${staged}/usr/lib64)
  file(GLOB targets ${staged}/usr/lib64/cmake/penstock/penstock*Targets-*.cmake)
  foreach(target IN LISTS targets)
    file(READ ${target} text)
    string(REPLACE "{_IMPORT_PREFIX}/lib/" "{_IMPORT_PREFIX}/lib64/" text "${text}")
    file(WRITE ${target} "${text}")
  endforeach()
endif()

# Reproducible packages have no times of this machine.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${staged} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
    COMMAND_ERROR_IS_FATAL ANY)
endif()
