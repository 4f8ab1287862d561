# gdb -x tools/gdb/penstock.gdb PROGRAM: streams run undisturbed, and a fault that is no stream's stops.

# A stream's faults are its daily work.
handle SIGSEGV SIGBUS nostop noprint pass

# Where the library finds that a fault is nobody's and the process will end: `backtrace` shows who made it.
set breakpoint pending on
break penstock::fault::(anonymous namespace)::crash
