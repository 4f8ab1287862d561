// What bzip2's code calls stdin, stdout and stderr, within the shared library that has it built in (src/interfaces/c/CMakeLists.txt).
#include <cstdio>

extern "C" {
FILE* penstock_bzip2_stdin = stdin;
FILE* penstock_bzip2_stdout = stdout;
FILE* penstock_bzip2_stderr = stderr;
}
