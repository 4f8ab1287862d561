# CPack's settings of each generator, read when it runs: its components (packages.cmake).
if(DEFINED CPACK_${CPACK_GENERATOR}_COMPONENTS)
  set(CPACK_COMPONENTS_ALL ${CPACK_${CPACK_GENERATOR}_COMPONENTS})
endif()
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY)  # the first line of each component's description is its summary
endif()
