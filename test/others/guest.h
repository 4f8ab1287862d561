#pragma once

/* A RemapStream behind C functions, which CPython (ctypes), a JVM (JNI) and Go (cgo) load into
 * their processes. The numbers in a pipe are u64, number i is guest_number(i); checksums depend on
 * their order. This is not the library's C interface, but only the functions that these tests need.
 * */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct guest_pipe guest_pipe;

/* Mechanisms: 0 automatic, 1 mremap, 2 uffd_move, 3 shared. NULL if it could not be opened;
 * guest_message() says why. */
guest_pipe* guest_open(uint64_t bytes, uint64_t block_bytes, int mechanism);
void guest_close(guest_pipe* pipe);
char* guest_writer(guest_pipe* pipe);
char* guest_reader(guest_pipe* pipe);
int guest_prepare_read(guest_pipe* pipe, const char* address, uint64_t bytes); /* 1: ready */
const char* guest_message(void);

/* The producer's side: numbers [first, last), and then, in finish, the end. */
void guest_fill(guest_pipe* pipe, uint64_t first, uint64_t last);
int guest_finish(guest_pipe* pipe, uint64_t numbers);
/* The producer's whole side, after a delay. */
void guest_produce(guest_pipe* pipe, uint64_t numbers, int delay_ms);
/* The consumer's side: the checksum of numbers [0, numbers) at the reader's pointer. */
uint64_t guest_drain(guest_pipe* pipe, uint64_t numbers);

/* Both sides, in this thread and a new one; 0 if the stream could not be opened. */
uint64_t guest_stream(uint64_t numbers, int mechanism);
/* The checksum that guest_drain and guest_stream must return. */
uint64_t guest_checksum(uint64_t numbers);
uint64_t guest_number(uint64_t i);

/* penstock/stream.h */
int guest_installed(void);
int guest_install(void);
int guest_uninstall(void);

/* Installs a counting, chaining handler between the current handlers and the library's:
 * guest_passed_on() returns the number of faults that the library has passed on since. */
void guest_watch(void);
uint64_t guest_passed_on(void);

#ifdef __cplusplus
}
#endif
