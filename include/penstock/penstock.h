/* Penstock for C, and for every language that can call C. The C++ headers beside this one tell
 * more about each part; they use the same names.
 *
 *   uint64_t keys[] = {3, 1, 2};
 *   if (penstock_sort(keys, 3, PENSTOCK_U64, NULL) != PENSTOCK_OK)
 *     fprintf(stderr, "%s\n", penstock_error_message());
 *
 * Errors. Functions that can fail return a code, PENSTOCK_OK (0) or another of enum
 * penstock_code; then penstock_error_message() describes the failure for a person. No C++
 * exception comes out, and none may come out of a callback.
 *
 * Options are structures that begin with their size, so that later versions may have more
 * fields:
 *   struct penstock_sort_options options = {.size = sizeof options, .threads = 4};
 * A field of 0 (NULL) is its default. NULL for the options means all defaults. Fields that this
 * library does not know must be 0.
 *
 * Open functions return handles by their last argument, which is NULL after an error. The close
 * function of the same name takes a handle or NULL; all other functions need a handle.
 *
 * Pointers of streams. A touch of missing memory waits for it, inside a signal handler of the
 * library (SIGSEGV, SIGBUS; see penstock_install_handlers()). If the data will never come, the
 * policy of the stream decides. A system call on such a pointer fails with EFAULT, unless the
 * prepare function of the stream has made it ready. A stream goes forward. On some processors a
 * large memcpy() does not (it may go backward, or store its first bytes last), which is then an
 * error of the stream: penstock_copy() goes from front to back.
 *
 * Threads. Each function may be called from any thread; the comment on a handle says which calls
 * on it may overlap. Without such a comment: one thread at a time.
 *
 * Callbacks. The comment on each says in which thread it is called. None may throw, or leave by
 * longjmp, and its context must live until the function that it was given to has returned. */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include "version.h" /* beside this header */

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))

enum penstock_code {
  PENSTOCK_OK = 0,
  PENSTOCK_INVALID_ARGUMENT = 1, /* the request is impossible */
  PENSTOCK_UNSUPPORTED = 2,      /* this kernel or machine cannot do it */
  PENSTOCK_NOT_FOUND = 3,        /* no such file */
  PENSTOCK_PERMISSION = 4,       /* the system refuses it to this user */
  PENSTOCK_OUT_OF_MEMORY = 5,    /* memory or the memory budget does not suffice */
  PENSTOCK_OUT_OF_SPACE = 6,     /* a disk is full, or would become full */
  PENSTOCK_OUT_OF_MAPPINGS = 7,  /* vm.max_map_count is reached */
  PENSTOCK_IO = 8,           /* a device or file system reported an error, or a callback failed */
  PENSTOCK_CORRUPT = 9,      /* data do not match their format */
  PENSTOCK_CANCELLED = 10,   /* the other side of a stream gave up */
  PENSTOCK_INTERRUPTED = 11, /* the run was asked to stop */
  PENSTOCK_UNSORTED = 12,    /* input that had to be sorted is not */
  PENSTOCK_INTERNAL = 13     /* an exception that should not have come this far */
};

/* "0.1.0" */
PENSTOCK_API const char* penstock_version(void);
/* Returns the last error of this thread, valid until its next one; "" before the first. */
PENSTOCK_API const char* penstock_error_message(void);
/* Returns the system's errno of the last error; 0: none. */
PENSTOCK_API int penstock_error_errno(void);

/* Puts the library's signal handlers (back) in front, for programs that install their own later.
 * The first stream does it by itself; foreign faults go to the previous handlers. */
PENSTOCK_API int penstock_install_handlers(void);

/* ---- Streams. */

enum penstock_policy {
  PENSTOCK_POLICY_DEFAULT = 0,
  PENSTOCK_POLICY_STOP = 1,    /* ends the process with a message */
  PENSTOCK_POLICY_RECOVER = 2, /* goes back to penstock_recover(), by siglongjmp */
  PENSTOCK_POLICY_ZEROS = 3    /* the rest reads as zeros; status or finish reports the error */
};
enum penstock_side { PENSTOCK_PRODUCER = 0, PENSTOCK_CONSUMER = 1 };

/* Copies from front to back, whatever the size; returns the end of the written bytes. Either
 * pointer, or both, may be a stream's. The pieces must not overlap. */
PENSTOCK_API void* penstock_copy(void* to, const void* from, size_t bytes);

/* Calls work(context) in this thread and returns its result. If an access by a stream's pointer
 * in it meets an error of a stream of PENSTOCK_POLICY_RECOVER, returns that error's code. Then
 * `work` was left at that instruction: it must own nothing at the time (no locks, no memory of
 * its own to free). */
PENSTOCK_API int penstock_recover(int (*work)(void* context), void* context);

/* A file as a pointer. Memory: memory_blocks * block_bytes. Any number of threads may read by
 * the pointer at the same time, each at its own place; close it when all have ended. */
typedef struct penstock_reader penstock_reader;
struct penstock_reader_options {
  size_t size;
  size_t block_bytes;         /* 2 MiB */
  uint32_t read_ahead_blocks; /* 1 */
  uint32_t comeback_blocks;   /* 1 */
  int policy;                 /* stop */
  uint32_t memory_blocks;     /* read_ahead_blocks + comeback_blocks + 1; as many for each thread */
};
PENSTOCK_API int penstock_reader_open(const char* path,
                                      const struct penstock_reader_options* options,
                                      penstock_reader** reader);
PENSTOCK_API const void* penstock_reader_data(const penstock_reader* reader);
PENSTOCK_API uint64_t penstock_reader_bytes(const penstock_reader* reader);
/* Returns the first error, with the policy zeros. */
PENSTOCK_API int penstock_reader_status(const penstock_reader* reader);
PENSTOCK_API void penstock_reader_close(penstock_reader* reader);

/* A pointer that writes a file, from its first byte on. The file appears under its name when
 * finish has succeeded, and not otherwise. */
typedef struct penstock_writer penstock_writer;
struct penstock_writer_options {
  size_t size;
  uint64_t bytes_max;           /* 1 TiB: address space, not memory */
  size_t block_bytes;           /* 2 MiB */
  uint32_t write_behind_blocks; /* 8 */
  uint32_t comeback_blocks;     /* 1 */
  int policy;                   /* zeros */
  int no_sync;                  /* finish does not wait for the disk */
  int overwrite_device;         /* otherwise a block device is refused */
};
PENSTOCK_API int penstock_writer_open(const char* path,
                                      const struct penstock_writer_options* options,
                                      penstock_writer** writer);
PENSTOCK_API void* penstock_writer_data(const penstock_writer* writer);
PENSTOCK_API int penstock_writer_finish(penstock_writer* writer, uint64_t bytes);
PENSTOCK_API void penstock_writer_close(penstock_writer* writer);

/* A pointer for a writing thread and another one for a thread that reads the same bytes: any
 * length, few blocks of memory. Both sides may act at the same time; fail and status from any
 * thread. Close it when both sides have ended: closing does not wake a waiting side, fail does. */
typedef struct penstock_stream penstock_stream;
struct penstock_stream_options {
  size_t size;
  uint64_t bytes;                    /* the most that may be written; required */
  size_t block_bytes;                /* 4 MiB */
  uint32_t read_ahead_blocks;        /* 2; for process streams 1 */
  uint32_t producer_comeback_blocks; /* 1 */
  uint32_t consumer_comeback_blocks; /* 1 */
  int policy;                        /* stop */
  const char* name;                  /* for messages */
  /* Relaxes checks for code whose order was checked: a step too far back may go unnoticed, and
   * lose or read other data, instead of being an error. Faster by up to a move per block. */
  int relaxed;
};
PENSTOCK_API int penstock_stream_open(const struct penstock_stream_options* options,
                                      penstock_stream** stream);
/* The producer's side. */
PENSTOCK_API void* penstock_stream_writer(const penstock_stream* stream);
PENSTOCK_API int penstock_stream_prepare_write(penstock_stream* stream, const void* address,
                                               size_t bytes);
PENSTOCK_API int penstock_stream_finish(penstock_stream* stream, uint64_t bytes);
/* The consumer's side. Behind the end are zeros to the end of the block, and one more. */
PENSTOCK_API const void* penstock_stream_reader(const penstock_stream* stream);
PENSTOCK_API int penstock_stream_prepare_read(penstock_stream* stream, const void* address,
                                              size_t bytes);
/* Waits until more than `offset` bytes are there or the stream is complete. *ready is their
 * number; if it is not more than `offset`, it is the length. */
PENSTOCK_API int penstock_stream_wait_ready(penstock_stream* stream, uint64_t offset,
                                            uint64_t* ready);
/* Makes a side give up; it touches its pointer no more. The other one meets `message`. */
PENSTOCK_API void penstock_stream_fail(penstock_stream* stream, int side, const char* message);
PENSTOCK_API int penstock_stream_status(const penstock_stream* stream);
PENSTOCK_API void penstock_stream_close(penstock_stream* stream);

/* A stream between two processes: one creates it, and hands the descriptor to the other one, by
 * inheritance or a socket, which attaches to it. Either may die at any moment. */
typedef struct penstock_process_stream penstock_process_stream;
PENSTOCK_API int penstock_process_stream_open(const struct penstock_stream_options* options,
                                              int side, penstock_process_stream** stream);
struct penstock_attach_options {
  size_t size;
  int policy;  /* stop */
  int strict;  /* has no effect: streams are strict by default */
  int relaxed; /* see penstock_stream_options */
};
PENSTOCK_API int penstock_process_stream_attach(int descriptor, int side,
                                                const struct penstock_attach_options* options,
                                                penstock_process_stream** stream);
PENSTOCK_API int penstock_process_stream_descriptor(const penstock_process_stream* stream);
/* Returns the pointer of this process's side; the consumer's is read-only. */
PENSTOCK_API void* penstock_process_stream_data(const penstock_process_stream* stream);
PENSTOCK_API int penstock_process_stream_prepare(penstock_process_stream* stream,
                                                 const void* address, size_t bytes);
PENSTOCK_API int penstock_process_stream_finish(penstock_process_stream* stream, uint64_t bytes);
PENSTOCK_API int penstock_process_stream_wait_ready(penstock_process_stream* stream,
                                                    uint64_t offset, uint64_t* ready);
PENSTOCK_API void penstock_process_stream_fail(penstock_process_stream* stream,
                                               const char* message);
PENSTOCK_API int penstock_process_stream_status(const penstock_process_stream* stream);
PENSTOCK_API void penstock_process_stream_close(penstock_process_stream* stream);

/* ---- Items in memory. */

enum penstock_type {
  PENSTOCK_U8 = 1,
  PENSTOCK_I8 = 2,
  PENSTOCK_U16 = 3,
  PENSTOCK_I16 = 4,
  PENSTOCK_U32 = 5,
  PENSTOCK_I32 = 6,
  PENSTOCK_U64 = 7,
  PENSTOCK_I64 = 8,
  PENSTOCK_F32 = 9,
  PENSTOCK_F64 = 10,
  PENSTOCK_KV32 = 11, /* 4 bytes of key (as U32), 4 of value */
  PENSTOCK_KV64 = 12, /* 8 of key, 8 of value */
  PENSTOCK_KEY128 = 13
};

struct penstock_sort_options {
  size_t size;
  unsigned threads; /* 1 */
  int descending;
  int stable; /* items with equal keys keep their order */
};
/* Sorts in place. */
PENSTOCK_API int penstock_sort(void* items, size_t count, int type,
                               const struct penstock_sort_options* options);
/* Moves the least `first` items to the front, in order; the others follow in no order. */
PENSTOCK_API int penstock_partial_sort(void* items, size_t count, size_t first, int type,
                                       const struct penstock_sort_options* options);
/* Copies the least `wanted` items of `items`, in order, to `least`. */
PENSTOCK_API int penstock_top_k(const void* items, size_t count, void* least, size_t wanted,
                                int type, const struct penstock_sort_options* options);
/* Stores the places of the keys in order: order[0] is the least key's, and so on. Stable. */
PENSTOCK_API int penstock_argsort(const void* keys, size_t count, uint64_t* order, int type,
                                  const struct penstock_sort_options* options);
/* Sorts records in place by their bytes [key_offset, key_offset + key_bytes), as by memcmp. */
struct penstock_sort_records_options {
  size_t size;
  size_t record_bytes; /* required */
  size_t key_offset;   /* 0 */
  size_t key_bytes;    /* the rest of the record */
  unsigned threads;    /* 1 */
  int descending;
  int stable;
};
PENSTOCK_API int penstock_sort_records(void* records, size_t count,
                                       const struct penstock_sort_records_options* options);

/* Returns the place of an item's key in the order of its type, as an unsigned number: the unit
 * of ranges, splitters and high bits. An unsigned number is its own; 128 bits have their upper
 * 64. */
PENSTOCK_API int penstock_rank(const void* item, int type, uint64_t* rank);

/* Buckets with copies of items of any type. */
typedef struct penstock_partitions penstock_partitions;
enum penstock_partition_by {
  PENSTOCK_BY_LOW_BITS = 0,
  PENSTOCK_BY_HIGH_BITS = 1,
  PENSTOCK_BY_HASH = 2,
  PENSTOCK_BY_RANGE = 3,    /* ranks [first, last] in `buckets` shares of equal width */
  PENSTOCK_BY_SPLITTERS = 4 /* bucket i: splitters[i - 1] <= rank < splitters[i] */
};
struct penstock_partition_options {
  size_t size;
  int by;
  unsigned bits; /* 8: 2^bits buckets */
  uint64_t seed; /* for the hash */
  uint64_t first, last;
  uint32_t buckets;          /* 256 */
  unsigned threads;          /* 1 */
  int stable;                /* keeps the order of items within a bucket */
  const uint64_t* splitters; /* in order */
  size_t splitters_count;
};
PENSTOCK_API int penstock_partition(const void* items, size_t count, int type,
                                    const struct penstock_partition_options* options,
                                    penstock_partitions** partitions);
PENSTOCK_API uint32_t penstock_partitions_buckets(const penstock_partitions* partitions);
/* Returns NULL and a count of 0 if the bucket is empty. */
PENSTOCK_API void* penstock_partitions_bucket(const penstock_partitions* partitions, uint32_t index,
                                              size_t* count);
PENSTOCK_API void penstock_partitions_close(penstock_partitions* partitions);

/* ---- Files larger than memory (docs/files.md, docs/sort.md). */

/* Ends a run: request it from any thread, or from a signal handler. */
typedef struct penstock_cancel penstock_cancel;
PENSTOCK_API int penstock_cancel_open(penstock_cancel** cancel);
PENSTOCK_API void penstock_cancel_request(penstock_cancel* cancel);
PENSTOCK_API void penstock_cancel_close(penstock_cancel* cancel);

/* Stores at most `bytes` bytes at `into` and returns their number; 0: the end; < 0: failure.
 * Called in a thread of the source's own, one call after the other. A run that is to stop waits
 * until the current call returns. */
struct penstock_source {
  int64_t (*read)(void* context, void* into, size_t bytes);
  void* context;
};
/* Takes all bytes and returns 0; other: failure. Called in a thread of the sink's own, one call
 * after the other; a run that is to stop waits for it as for read. */
struct penstock_sink {
  int (*write)(void* context, const void* from, size_t bytes);
  void* context;
};

/* The memory that a budget limits: the call's own memory by its own account, or all that the
 * process has resident. */
enum penstock_memory_scope { PENSTOCK_MEMORY_CALL = 0, PENSTOCK_MEMORY_PROCESS = 1 };
/* Options use the command line's words (penstock/files.h). Lists have `..._count` elements. */
struct penstock_files_options {
  size_t size;
  const char* const* inputs; /* paths; "-" is stdin, "/dev/fd/N" a descriptor */
  size_t inputs_count;
  const struct penstock_source* sources; /* more inputs, after `inputs` */
  size_t sources_count;
  const char* output;               /* "-", stdout; for partition_files "part-{}" */
  const struct penstock_sink* sink; /* instead of `output` */
  const char* format;               /* "lines"; u32 u64 i32 i64 f32 f64 kv64 record rows jsonl */
  uint32_t record_bytes;
  const char* dtype;
  const char* const* keys;
  size_t keys_count;
  const char* letters;   /* GNU sort's letters for lines */
  const char* separator; /* field separator: one byte */
  uint32_t header_lines;
  int csv;
  int zero_terminated;
  int descending;
  uint64_t memory_bytes; /* 1 GiB; 32 MiB or more */
  const char* const* temp_directories;
  size_t temp_directories_count;
  const char* device; /* a profile: array24, hdd, sata-ssd, nvme, or a file */
  penstock_cancel* cancel;
  /* Called from threads of the run, one call at a time, about ten times a second at most.
   * `phase` stays valid; total_bytes 0: unknown. */
  void (*progress)(void* context, const char* phase, uint64_t done_bytes, uint64_t total_bytes);
  void* progress_context;
  int no_sync;
  int overwrite_device;
  int no_decompress;
  int memory_scope;   /* PENSTOCK_MEMORY_CALL */
  const char* locale; /* for lines; "": the environment's; NULL: C, byte by byte */
  int has_random_seed;
  uint64_t random_seed;   /* for the letter R; not set: by chance */
  const char* compressed; /* compresses the output: "gzip", "zstd" or "lz4"; NULL: no */
  const char* mechanism;  /* "automatic"; "mremap", "uffd_move", "shared" */
  /* Called by the thread that called the operation, with a sentence: an unusual place of
   * temporaries, or the work that a resumed sort takes over. */
  void (*notice)(void* context, const char* sentence);
  void* notice_context;
  /* Settings "NAME=VALUE": members of FilesOptions, ItemFormat and the operation's own options
   * in penstock/files.h, by their names, including those without a field here: flags, numbers,
   * texts, words and lists. Flags are true or false, 0 is the number, and a list is given one
   * element at a time. */
  const char* const* settings;
  size_t settings_count;
};

/* Each operation takes the files and its own options, and stores the command's --json output in
 * `json` unless that is NULL: a text to be freed by penstock_text_free(). */
PENSTOCK_API void penstock_text_free(char* text);

enum penstock_compression {
  PENSTOCK_COMPRESS_AUTOMATIC = 0,
  PENSTOCK_COMPRESS_NEVER = 1,
  PENSTOCK_COMPRESS_ALWAYS = 2
};
struct penstock_sort_files_options {
  size_t size;
  unsigned threads; /* 2 */
  int stable;
  int unique;
  int merge_only;
  int resume;
  int has_top; /* only the first `top` items */
  uint64_t top;
  int compression; /* for temporaries */
};
PENSTOCK_API int penstock_sort_files(const struct penstock_files_options* files,
                                     const struct penstock_sort_files_options* options,
                                     char** json);
PENSTOCK_API int penstock_plan_sort_files(const struct penstock_files_options* files,
                                          const struct penstock_sort_files_options* options,
                                          char** json);
struct penstock_check_file_options {
  size_t size;
  unsigned threads; /* 2 */
};
/* Stores 1 or 0 in *sorted. */
PENSTOCK_API int penstock_check_file(const struct penstock_files_options* files,
                                     const struct penstock_check_file_options* options, int* sorted,
                                     char** json);
struct penstock_merge_files_options {
  size_t size;
  int unique; /* keeps only the first of items with equal keys */
  int stable; /* keeps the files' order of lines with equal keys, which may be any */
};
PENSTOCK_API int penstock_merge_files(const struct penstock_files_options* files,
                                      const struct penstock_merge_files_options* options,
                                      char** json);
struct penstock_partition_files_options {
  size_t size;
  const char* by;          /* "hash"; "range", "bits" */
  const char* bounds_path; /* for range: items in order; NULL: from a sample */
  uint32_t parts;          /* required */
  int checksums;           /* one for each part */
};
PENSTOCK_API int penstock_partition_files(const struct penstock_files_options* files,
                                          const struct penstock_partition_files_options* options,
                                          char** json);
struct penstock_group_files_options {
  size_t size;
  int count, sum, min, max, distinct;
  /* The value lies at value_offset; without it: the second number of kv64, the integer itself. */
  int has_value;
  uint32_t value_offset;
  uint32_t value_bytes; /* 8 */
  int value_signed;
  int value_big_endian;
  int sorted;  /* results come in the order of their keys */
  int has_top; /* only the `top` results with the highest counts */
  uint64_t top;
  const char* const* columns; /* lines and rows: the columns for sum, min and max */
  size_t columns_count;
  const char* const* results; /* "sum=price", "quantile=0.9:price" (files.h) */
  size_t results_count;
};
PENSTOCK_API int penstock_group_files(const struct penstock_files_options* files,
                                      const struct penstock_group_files_options* options,
                                      char** json);
struct penstock_join_files_options {
  size_t size;
  const char* right_key;       /* default: that of the left file */
  uint32_t right_record_bytes; /* default: that of the left file */
};
PENSTOCK_API int penstock_join_files(const struct penstock_files_options* files,
                                     const struct penstock_join_files_options* options,
                                     char** json);
/* Joins two or more inputs of lines by fields, of rows of CSV by columns, like join(1). */
struct penstock_join_lines_options {
  size_t size;
  const char* const* left_keys; /* "1" */
  size_t left_keys_count;
  const char* const* right_keys; /* "1" */
  size_t right_keys_count;
  const char* list;  /* output fields: "0,1.2,2.price", "auto"; NULL: the key and all others */
  const char* empty; /* written for empty or missing fields */
  int ignore_case;
  int no_pairs;    /* does not write pairs */
  int left_alone;  /* writes unpaired lines of the left side */
  int right_alone; /* writes unpaired lines of the right side, or of all but the left one */
  int inputs_sorted;
  int first_only; /* writes the chosen lines of the left side once, as they are */
};
PENSTOCK_API int penstock_join_lines(const struct penstock_files_options* files,
                                     const struct penstock_join_lines_options* options,
                                     char** json);

/* ---- Memory whose pages are chosen (docs/rewiring.md). */

typedef struct penstock_page_pool penstock_page_pool;
struct penstock_page_pool_options {
  size_t size;
  uint64_t bytes_max; /* the memory of the machine */
  size_t page_bytes;  /* 2 MiB */
};
/* Opens a pool, whose memory lives until it and everything that was made on it are closed. */
PENSTOCK_API int penstock_page_pool_open(const struct penstock_page_pool_options* options,
                                         penstock_page_pool** pool);
PENSTOCK_API void penstock_page_pool_close(penstock_page_pool* pool);

/* Bytes that grow and never move. */
typedef struct penstock_vector penstock_vector;
struct penstock_vector_options {
  size_t size;
  uint64_t bytes_max; /* address space: the pool's limit */
};
PENSTOCK_API int penstock_vector_open(const penstock_page_pool* pool,
                                      const struct penstock_vector_options* options,
                                      penstock_vector** vector);
PENSTOCK_API void* penstock_vector_data(const penstock_vector* vector);
PENSTOCK_API uint64_t penstock_vector_bytes(const penstock_vector* vector);
/* Resizes; new bytes are 0. */
PENSTOCK_API int penstock_vector_resize(penstock_vector* vector, uint64_t bytes);
PENSTOCK_API int penstock_vector_append(penstock_vector* vector, const void* from, size_t bytes);
PENSTOCK_API void penstock_vector_close(penstock_vector* vector);

/* A table that any threads read and write, and whose snapshots stay unchanged. All functions but
 * close may be called from any thread. */
typedef struct penstock_table penstock_table;
typedef struct penstock_snapshot penstock_snapshot;
struct penstock_table_options {
  size_t size;
  uint64_t bytes;       /* required */
  int policy;           /* stop; or recover */
  int guarantee_copies; /* snapshot() takes the pages that writers may need */
};
PENSTOCK_API int penstock_table_open(const penstock_page_pool* pool,
                                     const struct penstock_table_options* options,
                                     penstock_table** table);
PENSTOCK_API void* penstock_table_data(const penstock_table* table);
PENSTOCK_API uint64_t penstock_table_bytes(const penstock_table* table);
PENSTOCK_API int penstock_table_prepare_write(const penstock_table* table, void* address,
                                              size_t bytes);
PENSTOCK_API int penstock_table_snapshot(penstock_table* table, penstock_snapshot** snapshot);
PENSTOCK_API void penstock_table_close(penstock_table* table); /* snapshots stay valid */
PENSTOCK_API const void* penstock_snapshot_data(const penstock_snapshot* snapshot);
PENSTOCK_API void penstock_snapshot_close(penstock_snapshot* snapshot);

/* ---- Programs' accesses to files (docs/tracing.md). */

enum penstock_trace_backend {
  PENSTOCK_TRACE_AUTOMATIC = 0, /* bpf if available */
  PENSTOCK_TRACE_PTRACE = 1,    /* needs no rights */
  PENSTOCK_TRACE_BPF = 2        /* needs root */
};
struct penstock_trace_options {
  size_t size;
  const char* output;         /* "run.trace" */
  const char* const* command; /* the program and its arguments, found as by a shell; or */
  size_t command_count;
  int attach; /* a running process */
  int backend;
  penstock_cancel* cancel; /* ends recording an attached process, which continues to run */
};
/* Runs the command, or attaches to the process, until all its processes have ended. One
 * recording at a time in a process. *exit_code: the program's, or 128 + its signal. */
PENSTOCK_API int penstock_trace_record(const struct penstock_trace_options* options,
                                       int* exit_code);

/* Bytes [offset, offset + bytes) of a file that were read or written. */
struct penstock_access {
  uint64_t start_ns; /* since the trace began */
  uint64_t latency_ns;
  uint64_t offset;
  uint64_t bytes;
  uint32_t file; /* for penstock_trace_file_at() */
  int32_t process;
  int32_t thread;
  int is_write;
  int is_file_seek;   /* not at the end of this file's last access */
  int is_device_seek; /* not at the end of the last access of all */
};
struct penstock_trace_read_options {
  size_t size;
  const char* under; /* only files whose path begins with this */
  /* Called in the thread that reads the trace, in the order in which accesses began. A result
   * other than 0 ends the reading with PENSTOCK_INTERRUPTED. */
  int (*accesses)(void* context, const struct penstock_access* accesses, size_t count);
  void* context;
};
typedef struct penstock_trace penstock_trace;
/* Reads a whole trace, or a log of fio or strace. */
PENSTOCK_API int penstock_trace_read(const char* path,
                                     const struct penstock_trace_read_options* options,
                                     penstock_trace** trace);
PENSTOCK_API uint32_t penstock_trace_files(const penstock_trace* trace);
/* A file's accesses in all. The caller sets `size`; the path lives as long as the trace. */
struct penstock_trace_file {
  size_t size;
  const char* path;
  uint64_t reads, writes; /* accesses */
  uint64_t read_bytes, written_bytes;
  uint64_t seeks;
  uint64_t peak_bytes; /* largest size */
};
PENSTOCK_API int penstock_trace_file_at(const penstock_trace* trace, uint32_t index,
                                        struct penstock_trace_file* file);
PENSTOCK_API void penstock_trace_close(penstock_trace* trace);

#ifdef __cplusplus
}
#endif

#endif
