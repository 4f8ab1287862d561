# CPack's step between installation and package: adds what each kind of package demands, and sets the places and times of the files.
set(staged ${CPACK_TEMPORARY_DIRECTORY})
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # the commit's, if SOURCE_DATE_EPOCH has it

foreach(component IN LISTS CPACK_${CPACK_GENERATOR}_COMPONENTS)
  string(TOUPPER ${component} upper)
  set(root ${staged}/${component})
  if(CPACK_GENERATOR STREQUAL "DEB")
    # Debian's policy: copyright and changelog by the package's name; pages compressed; one license for all packages of the system.
    set(name ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
    set(documents ${root}/usr/share/doc/${name})
    file(REMOVE ${documents}/LICENSE ${documents}/CHANGELOG.md)
    file(MAKE_DIRECTORY ${documents})
    configure_file(${CPACK_COPYRIGHT_FILE} ${documents}/copyright COPYONLY)
    file(WRITE ${documents}/changelog "${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium\n\n"
      "  * Release ${CPACK_PACKAGE_VERSION}, as its CHANGELOG.md describes it.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
    file(GLOB_RECURSE pages ${root}/usr/share/man/*.1)
    execute_process(COMMAND gzip -n9 ${documents}/changelog ${pages} COMMAND_ERROR_IS_FATAL ANY)
  elseif(CPACK_GENERATOR STREQUAL "RPM")
    file(COPY ${CPACK_RESOURCE_FILE_LICENSE} DESTINATION ${root}/usr/share/doc/${CPACK_RPM_${upper}_PACKAGE_NAME})
    # Systems with rpm have libraries in lib64. Only this file of the CMake package contains the folder's name.
    if(EXISTS ${root}/usr/lib)
      file(RENAME ${root}/usr/lib ${root}/usr/lib64)
      file(GLOB targets ${root}/usr/lib64/cmake/penstock/penstock*Targets-*.cmake)
      foreach(target IN LISTS targets)
        file(READ ${target} text)
        string(REPLACE "{_IMPORT_PREFIX}/lib/" "{_IMPORT_PREFIX}/lib64/" text "${text}")
        file(WRITE ${target} "${text}")
      endforeach()
    endif()
  endif()
endforeach()

# Reproducible packages have no times of this machine.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND find ${staged} -exec touch --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} {} +
    COMMAND_ERROR_IS_FATAL ANY)
endif()
