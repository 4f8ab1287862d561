// Definitions of stdin, stdout and stderr for bzip2's code in the shared library that contains it (src/interfaces/c/CMakeLists.txt).
#include <cstdio>

extern "C" {
FILE* penstock_bzip2_stdin = stdin;
FILE* penstock_bzip2_stdout = stdout;
FILE* penstock_bzip2_stderr = stderr;
}
