# cmake -DOUTPUT=FILE.cc -DFOLDER=page -P embed.cmake: the page's style and script as string constants.
#
# The page's Content-Security-Policy names the script by its hash: SHA-256 of exactly the bytes between the script's
# tags, in base64. CMake has no base64, so it is computed here.
file(READ ${FOLDER}/report.css style)
file(READ ${FOLDER}/report.js script)
foreach(part style script)
  # Neither may end the element that it stands in, nor the string constant.
  if("${${part}}" MATCHES "</(style|script)" OR "${${part}}" MATCHES "\\)part\"")
    message(FATAL_ERROR "the page's ${part} contains the text that ends it")
  endif()
endforeach()

string(SHA256 hex "${script}")
set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
# 64 digits of hex are 256 bits; two more digits make the last group of three bytes whole.
string(APPEND hex "00")
set(hash "")
foreach(at RANGE 0 65 6)
  string(SUBSTRING "${hex}" ${at} 6 six)
  math(EXPR three "0x${six}")
  foreach(shift 18 12 6 0)
    math(EXPR index "(${three} >> ${shift}) & 63")
    string(SUBSTRING "${digits}" ${index} 1 digit)
    string(APPEND hash "${digit}")
  endforeach()
endforeach()
string(REGEX REPLACE "A$" "=" hash "${hash}")

file(WRITE ${OUTPUT}.new
"// Made by embed.cmake out of src/trace/report/page.
#include \"trace/report/page_parts.h\"

namespace penstock::report {

const std::string_view page_style = R\"part(${style})part\";
const std::string_view page_script = R\"part(${script})part\";
const std::string_view page_script_hash = \"sha256-${hash}\";

}  // namespace penstock::report
")
file(RENAME ${OUTPUT}.new ${OUTPUT})
