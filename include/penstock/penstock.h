/* Penstock for C, and for every language that can call C. The C++ headers beside this one tell more
 * of what each part does; their names are those here.
 *
 *   uint64_t keys[] = {3, 1, 2};
 *   if (penstock_sort(keys, 3, PENSTOCK_U64, NULL) != PENSTOCK_OK)
 *     fprintf(stderr, "%s\n", penstock_error_message());
 *
 * Errors. What can fail returns a code, PENSTOCK_OK (0) or another of enum penstock_code; then
 * penstock_error_message() says what failed, to a person. No C++ exception comes out, and none may
 * come out of a callback.
 *
 * Options are structures that begin with their size, so that later versions may have more fields:
 *   struct penstock_sort_options options = {.size = sizeof options, .threads = 4};
 * A field of 0 (NULL) is its default. NULL for the options: all of them. Fields that this library
 * does not know must be 0.
 *
 * Handles come from open functions, by their last argument, which is NULL after an error, and go by
 * the close function of their name, which takes NULL. All others want a handle.
 *
 * Pointers of streams. A touch of memory that is not there waits for it, inside of a signal handler
 * of the library (SIGSEGV, SIGBUS; see penstock_install_handlers()). Where what is waited for will
 * never come, the policy of the stream decides. A system call that is given such a pointer fails
 * with EFAULT, unless the prepare function of the stream has made it ready. A stream goes forward. A
 * large memcpy() does not on every processor (it may go backward, or store its first bytes last), and
 * is then an error of the stream: penstock_copy() goes from front to back.
 *
 * Threads. Each function may be called from any thread; what may happen at the same time on one
 * handle is said there. Where nothing is said: one thread at a time.
 *
 * Callbacks. Each says in which thread it is called. None may throw, or leave by longjmp, and what
 * its context points to lives until the function that was given it has returned.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#include "version.h" /* beside this one, wherever that is */

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_API __attribute__((visibility("default")))

enum penstock_code {
  PENSTOCK_OK = 0,
  PENSTOCK_INVALID_ARGUMENT = 1, /* the caller asked for something that cannot be */
  PENSTOCK_UNSUPPORTED = 2,      /* this kernel or machine cannot do it */
  PENSTOCK_NOT_FOUND = 3,        /* no such file */
  PENSTOCK_PERMISSION = 4,       /* the system refuses it to this user */
  PENSTOCK_OUT_OF_MEMORY = 5,    /* memory or the memory budget does not suffice */
  PENSTOCK_OUT_OF_SPACE = 6,     /* a disk is full, or would be */
  PENSTOCK_OUT_OF_MAPPINGS = 7,  /* vm.max_map_count is reached */
  PENSTOCK_IO = 8,           /* a device or file system reported an error, or a callback failed */
  PENSTOCK_CORRUPT = 9,      /* data are not what their format says */
  PENSTOCK_CANCELLED = 10,   /* the other side of a stream gave up */
  PENSTOCK_INTERRUPTED = 11, /* the run was asked to stop */
  PENSTOCK_UNSORTED = 12,    /* input that had to be sorted is not */
  PENSTOCK_INTERNAL = 13     /* an exception that should not have come this far */
};

/* "0.1.0" */
PENSTOCK_API const char* penstock_version(void);
/* Of the last error in this thread, until its next one; "" before the first. */
PENSTOCK_API const char* penstock_error_message(void);
/* What the system said; 0: nothing. */
PENSTOCK_API int penstock_error_errno(void);

/* Puts the library's signal handlers (back) in front: for programs that install their own later.
 * The first stream does it by itself; faults of others go to the handlers that were there before. */
PENSTOCK_API int penstock_install_handlers(void);

/* ---- Streams. */

enum penstock_policy {
  PENSTOCK_POLICY_DEFAULT = 0,
  PENSTOCK_POLICY_STOP = 1,    /* end the process with a message */
  PENSTOCK_POLICY_RECOVER = 2, /* go back to penstock_recover(), by siglongjmp */
  PENSTOCK_POLICY_ZEROS = 3    /* the rest reads as zeros; status or finish tells */
};
enum penstock_side { PENSTOCK_PRODUCER = 0, PENSTOCK_CONSUMER = 1 };

/* Copies from front to back, whatever the size; returns the end of what was written. Either end, or both, may be a stream's
 * pointer. The pieces do not overlap. */
PENSTOCK_API void* penstock_copy(void* to, const void* from, size_t bytes);

/* Calls work(context) in this thread, and returns what it returns; or, where an access by a stream's pointer in it
 * meets an error of a stream of PENSTOCK_POLICY_RECOVER, that error's code. Then `work` was left at
 * that instruction: it must own nothing at the time (no locks, no memory of its own to free). */
PENSTOCK_API int penstock_recover(int (*work)(void* context), void* context);

/* A file as a pointer. Memory: memory_blocks * block_bytes. Any number of threads may read by the
 * pointer at the same time, each where it likes; close it when all have ended. */
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
/* With zeros: the first error. */
PENSTOCK_API int penstock_reader_status(const penstock_reader* reader);
PENSTOCK_API void penstock_reader_close(penstock_reader* reader);

/* A pointer to which a file is written, from its first byte on. It has its name when finish has
 * succeeded, and is not there without. */
typedef struct penstock_writer penstock_writer;
struct penstock_writer_options {
  size_t size;
  uint64_t bytes_max;           /* 1 TiB: address space, not memory */
  size_t block_bytes;           /* 2 MiB */
  uint32_t write_behind_blocks; /* 8 */
  uint32_t comeback_blocks;     /* 1 */
  int policy;                   /* zeros */
  int no_sync;                  /* finish does not wait for the disk */
  int overwrite_device;         /* or a block device is refused */
};
PENSTOCK_API int penstock_writer_open(const char* path,
                                      const struct penstock_writer_options* options,
                                      penstock_writer** writer);
PENSTOCK_API void* penstock_writer_data(const penstock_writer* writer);
PENSTOCK_API int penstock_writer_finish(penstock_writer* writer, uint64_t bytes);
PENSTOCK_API void penstock_writer_close(penstock_writer* writer);

/* A pointer on which one thread writes and another one by which it reads the same bytes: any length,
 * few blocks of memory. Both sides at the same time; fail and status from any thread. Close it when
 * both sides have ended: a side that waits does not notice, fail makes it go on. */
typedef struct penstock_stream penstock_stream;
struct penstock_stream_options {
  size_t size;
  uint64_t bytes;                    /* the most that may be written; to be given */
  size_t block_bytes;                /* 4 MiB */
  uint32_t read_ahead_blocks;        /* 2; of process streams 1 */
  uint32_t producer_comeback_blocks; /* 1 */
  uint32_t consumer_comeback_blocks; /* 1 */
  int policy;                        /* stop */
  const char* name;                  /* for messages */
  /* For code whose order was checked: an access that comes back too far may go unnoticed, and lose or meet
   * other data, instead of being an error. Faster by up to a move per block. */
  int relaxed;
};
PENSTOCK_API int penstock_stream_open(const struct penstock_stream_options* options,
                                      penstock_stream** stream);
/* The producer's side. */
PENSTOCK_API void* penstock_stream_writer(const penstock_stream* stream);
PENSTOCK_API int penstock_stream_prepare_write(penstock_stream* stream, const void* address,
                                               size_t bytes);
PENSTOCK_API int penstock_stream_finish(penstock_stream* stream, uint64_t bytes);
/* The consumer's. Behind the end there are zeros to the end of the block, and one more block. */
PENSTOCK_API const void* penstock_stream_reader(const penstock_stream* stream);
PENSTOCK_API int penstock_stream_prepare_read(penstock_stream* stream, const void* address,
                                              size_t bytes);
/* Waits until more than `offset` bytes are there or the stream is complete. *ready: how many are
 * there; not more than `offset`: that is the length. */
PENSTOCK_API int penstock_stream_wait_ready(penstock_stream* stream, uint64_t offset,
                                            uint64_t* ready);
/* A side gives up, and touches its pointer no more. The other one meets `message`. */
PENSTOCK_API void penstock_stream_fail(penstock_stream* stream, int side, const char* message);
PENSTOCK_API int penstock_stream_status(const penstock_stream* stream);
PENSTOCK_API void penstock_stream_close(penstock_stream* stream);

/* The same between two processes: one creates it, and hands the descriptor to the other one, by
 * inheritance or a socket, which attaches to it. Either may die at any moment. */
typedef struct penstock_process_stream penstock_process_stream;
PENSTOCK_API int penstock_process_stream_open(const struct penstock_stream_options* options,
                                              int side, penstock_process_stream** stream);
struct penstock_attach_options {
  size_t size;
  int policy;  /* stop */
  int strict;  /* has no effect: what it asked for is so without it */
  int relaxed; /* as of penstock_stream_options */
};
PENSTOCK_API int penstock_process_stream_attach(int descriptor, int side,
                                                const struct penstock_attach_options* options,
                                                penstock_process_stream** stream);
PENSTOCK_API int penstock_process_stream_descriptor(const penstock_process_stream* stream);
/* Of this process's side; the consumer only reads by it. */
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
/* In place. */
PENSTOCK_API int penstock_sort(void* items, size_t count, int type,
                               const struct penstock_sort_options* options);
/* The least `first` items come to the front, in order; the others follow in no order. */
PENSTOCK_API int penstock_partial_sort(void* items, size_t count, size_t first, int type,
                                       const struct penstock_sort_options* options);
/* The least `wanted` items of `items`, in order, to `least`. */
PENSTOCK_API int penstock_top_k(const void* items, size_t count, void* least, size_t wanted,
                                int type, const struct penstock_sort_options* options);
/* order[0] is the place of the least key, and so on. Stable. */
PENSTOCK_API int penstock_argsort(const void* keys, size_t count, uint64_t* order, int type,
                                  const struct penstock_sort_options* options);
/* In place, of records by their bytes [key_offset, key_offset + key_bytes), as memcmp has them. */
struct penstock_sort_records_options {
  size_t size;
  size_t record_bytes; /* to be given */
  size_t key_offset;   /* 0 */
  size_t key_bytes;    /* all that follow */
  unsigned threads;    /* 1 */
  int descending;
  int stable;
};
PENSTOCK_API int penstock_sort_records(void* records, size_t count,
                                       const struct penstock_sort_records_options* options);

/* The place of an item's key in the order of its type, as an unsigned number: what ranges, splitters
 * and high bits are of. Of an unsigned number it is the number; of 128 bits the upper 64. */
PENSTOCK_API int penstock_rank(const void* item, int type, uint64_t* rank);

/* Buckets of items, copies of these. Of every type. */
typedef struct penstock_partitions penstock_partitions;
enum penstock_partition_by {
  PENSTOCK_BY_LOW_BITS = 0,
  PENSTOCK_BY_HIGH_BITS = 1,
  PENSTOCK_BY_HASH = 2,
  PENSTOCK_BY_RANGE = 3,    /* ranks [first, last] in `buckets` shares as wide as each other */
  PENSTOCK_BY_SPLITTERS = 4 /* bucket i: ranks from splitters[i - 1] to below splitters[i] */
};
struct penstock_partition_options {
  size_t size;
  int by;
  unsigned bits; /* 8: 2^bits buckets */
  uint64_t seed; /* of the hash */
  uint64_t first, last;
  uint32_t buckets;          /* 256 */
  unsigned threads;          /* 1 */
  int stable;                /* the items of a bucket keep their order */
  const uint64_t* splitters; /* in order */
  size_t splitters_count;
};
PENSTOCK_API int penstock_partition(const void* items, size_t count, int type,
                                    const struct penstock_partition_options* options,
                                    penstock_partitions** partitions);
PENSTOCK_API uint32_t penstock_partitions_buckets(const penstock_partitions* partitions);
/* NULL and 0 where it is empty. */
PENSTOCK_API void* penstock_partitions_bucket(const penstock_partitions* partitions, uint32_t index,
                                              size_t* count);
PENSTOCK_API void penstock_partitions_close(penstock_partitions* partitions);

/* ---- Files larger than memory (docs/files.md, docs/sort.md). */

/* What ends a run: request it from any thread, or from a signal handler. */
typedef struct penstock_cancel penstock_cancel;
PENSTOCK_API int penstock_cancel_open(penstock_cancel** cancel);
PENSTOCK_API void penstock_cancel_request(penstock_cancel* cancel);
PENSTOCK_API void penstock_cancel_close(penstock_cancel* cancel);

/* Stores at most `bytes` bytes at `into`, and returns how many; 0: the end; < 0: it failed. Called
 * in a thread of the source's own, one call after the other. A run that is to stop waits until the
 * call that is under way returns. */
struct penstock_source {
  int64_t (*read)(void* context, void* into, size_t bytes);
  void* context;
};
/* Takes all of it: 0; other: it failed. Called in a thread of the sink's own, one call after the
 * other; waited for as read is. */
struct penstock_sink {
  int (*write)(void* context, const void* from, size_t bytes);
  void* context;
};

/* The command line's words: see penstock/files.h, ItemFormat. Lists are of `..._count` elements. */
/* What a budget is held against: what this call takes, by its own account, whatever the process has
 * besides; or all that the process has resident. */
enum penstock_memory_scope { PENSTOCK_MEMORY_CALL = 0, PENSTOCK_MEMORY_PROCESS = 1 };
struct penstock_files_options {
  size_t size;
  const char* const* inputs; /* paths; "-" is stdin, "/dev/fd/N" a descriptor */
  size_t inputs_count;
  const struct penstock_source* sources; /* more inputs, behind those */
  size_t sources_count;
  const char* output;               /* "-", stdout; of partition_files "part-{}" */
  const struct penstock_sink* sink; /* instead of `output` */
  const char* format;               /* "lines"; u32 u64 i32 i64 f32 f64 kv64 record rows */
  uint32_t record_bytes;
  const char* dtype;
  const char* const* keys;
  size_t keys_count;
  const char* letters;   /* of GNU sort's orders of lines */
  const char* separator; /* of fields: one byte */
  uint32_t header_lines;
  int csv;
  int zero_terminated;
  int descending;
  uint64_t memory_bytes; /* 1 GiB; 32 MiB or more */
  const char* const* temp_directories;
  size_t temp_directories_count;
  const char* device; /* a profile: array24, hdd, sata-ssd, nvme, or a file */
  penstock_cancel* cancel;
  /* Called from threads of the run, one call at a time, some ten times a second at most. `phase`
   * lives on; total_bytes 0: not known. */
  void (*progress)(void* context, const char* phase, uint64_t done_bytes, uint64_t total_bytes);
  void* progress_context;
  int no_sync;
  int overwrite_device;
  int no_decompress;
  int memory_scope;   /* PENSTOCK_MEMORY_CALL */
  const char* locale; /* of lines; "": the environment's; NULL: C, byte by byte */
  int has_random_seed;
  uint64_t random_seed;   /* of the letter R; not given: by chance */
  const char* compressed; /* the output arrives as "gzip", "zstd" or "lz4"; NULL: as it is */
  const char* mechanism;  /* "automatic"; "mremap", "uffd_move", "shared" */
  /* Called by the thread that called the operation, with a sentence: where temporaries lie if that is
   * not as usual, what a resumed sort takes over. */
  void (*notice)(void* context, const char* sentence);
  void* notice_context;
  /* "NAME=VALUE": flags, numbers, texts, words and lists among the members of FilesOptions, of
   * ItemFormat and of the operation's own options in penstock/files.h, by their names; those without
   * a field here too. Flags are true or false, 0 is the number, and a list is given an element at a
   * time. */
  const char* const* settings;
  size_t settings_count;
};

/* Each takes the files, options of its own, and gives what the command of its name prints with
 * --json, by `json` where that is not NULL: a text to be freed by penstock_text_free(). */
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
  int has_top; /* the first `top` items alone */
  uint64_t top;
  int compression; /* of temporaries */
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
/* *sorted: 1 or 0. */
PENSTOCK_API int penstock_check_file(const struct penstock_files_options* files,
                                     const struct penstock_check_file_options* options, int* sorted,
                                     char** json);
struct penstock_merge_files_options {
  size_t size;
  int unique; /* of items with equal keys only the first */
  int stable; /* lines of equal keys stand in any order in the files, and keep it */
};
PENSTOCK_API int penstock_merge_files(const struct penstock_files_options* files,
                                      const struct penstock_merge_files_options* options,
                                      char** json);
struct penstock_partition_files_options {
  size_t size;
  const char* by;          /* "hash"; "range", "bits" */
  const char* bounds_path; /* of range: items in order; NULL: from a sample */
  uint32_t parts;          /* to be given */
  int checksums;           /* of each part */
};
PENSTOCK_API int penstock_partition_files(const struct penstock_files_options* files,
                                          const struct penstock_partition_files_options* options,
                                          char** json);
struct penstock_group_files_options {
  size_t size;
  int count, sum, min, max, distinct;
  int has_value; /* the value lies at value_offset; without it, of kv64 the second number, of other
                    integers the number itself */
  uint32_t value_offset;
  uint32_t value_bytes; /* 8 */
  int value_signed;
  int value_big_endian;
  int sorted;  /* the results come in the order of their keys */
  int has_top; /* the `top` results with the highest counts alone */
  uint64_t top;
  const char* const* columns; /* of lines and rows: what sum, min and max are of */
  size_t columns_count;
};
PENSTOCK_API int penstock_group_files(const struct penstock_files_options* files,
                                      const struct penstock_group_files_options* options,
                                      char** json);
struct penstock_join_files_options {
  size_t size;
  const char* right_key;       /* as of the left file */
  uint32_t right_record_bytes; /* as of the left file */
};
PENSTOCK_API int penstock_join_files(const struct penstock_files_options* files,
                                     const struct penstock_join_files_options* options,
                                     char** json);
/* Lines by fields, rows of CSV by columns, as join(1) does. */
struct penstock_join_lines_options {
  size_t size;
  const char* const* left_keys; /* "1" */
  size_t left_keys_count;
  const char* const* right_keys; /* "1" */
  size_t right_keys_count;
  const char* list;  /* what is written: "0,1.2,2.price", "auto"; NULL: the key and all others */
  const char* empty; /* in place of fields that are empty or not there */
  int ignore_case;
  int no_pairs;    /* pairs are not written */
  int left_alone;  /* lines of the left side that have no other are */
  int right_alone; /* so are those of the right side */
  int inputs_sorted;
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
/* The pool's memory lives until it and all that was made of it are closed. */
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
/* New bytes are 0. */
PENSTOCK_API int penstock_vector_resize(penstock_vector* vector, uint64_t bytes);
PENSTOCK_API int penstock_vector_append(penstock_vector* vector, const void* from, size_t bytes);
PENSTOCK_API void penstock_vector_close(penstock_vector* vector);

/* A table that any threads read and write, and whose snapshots stay as they are. All functions but
 * close from any thread. */
typedef struct penstock_table penstock_table;
typedef struct penstock_snapshot penstock_snapshot;
struct penstock_table_options {
  size_t size;
  uint64_t bytes;       /* to be given */
  int policy;           /* stop; or recover */
  int guarantee_copies; /* snapshot() takes the pages that writers can come to need */
};
PENSTOCK_API int penstock_table_open(const penstock_page_pool* pool,
                                     const struct penstock_table_options* options,
                                     penstock_table** table);
PENSTOCK_API void* penstock_table_data(const penstock_table* table);
PENSTOCK_API uint64_t penstock_table_bytes(const penstock_table* table);
PENSTOCK_API int penstock_table_prepare_write(const penstock_table* table, void* address,
                                              size_t bytes);
PENSTOCK_API int penstock_table_snapshot(penstock_table* table, penstock_snapshot** snapshot);
PENSTOCK_API void penstock_table_close(penstock_table* table); /* snapshots go on */
PENSTOCK_API const void* penstock_snapshot_data(const penstock_snapshot* snapshot);
PENSTOCK_API void penstock_snapshot_close(penstock_snapshot* snapshot);

/* ---- What programs ask of files (docs/tracing.md). */

enum penstock_trace_backend {
  PENSTOCK_TRACE_AUTOMATIC = 0, /* bpf where it can be had */
  PENSTOCK_TRACE_PTRACE = 1,    /* needs no rights */
  PENSTOCK_TRACE_BPF = 2        /* as root */
};
struct penstock_trace_options {
  size_t size;
  const char* output;         /* "run.trace" */
  const char* const* command; /* the program and its arguments, found as a shell would; or */
  size_t command_count;
  int attach; /* a process that runs */
  int backend;
  penstock_cancel* cancel; /* ends the recording of an attached process, which runs on */
};
/* Runs the command, or attaches to the process, until all its processes have ended. One recording at
 * a time in a process. *exit_code: the program's own, or 128 + the signal that ended it. */
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
  int is_file_seek;   /* not where the last access to this file ended */
  int is_device_seek; /* not where the last access of all ended */
};
struct penstock_trace_read_options {
  size_t size;
  const char* under; /* only files whose path begins so */
  /* Called in the thread that reads the trace, in the order in which accesses began. Not 0: the reading ends with PENSTOCK_INTERRUPTED. */
  int (*accesses)(void* context, const struct penstock_access* accesses, size_t count);
  void* context;
};
typedef struct penstock_trace penstock_trace;
/* All of a trace, or of a log of fio or strace. */
PENSTOCK_API int penstock_trace_read(const char* path,
                                     const struct penstock_trace_read_options* options,
                                     penstock_trace** trace);
PENSTOCK_API uint32_t penstock_trace_files(const penstock_trace* trace);
/* What was asked of a file in all. The caller sets `size`; the path lives as long as the trace. */
struct penstock_trace_file {
  size_t size;
  const char* path;
  uint64_t reads, writes; /* accesses */
  uint64_t read_bytes, written_bytes;
  uint64_t seeks;
  uint64_t peak_bytes; /* the largest that it reached */
};
PENSTOCK_API int penstock_trace_file_at(const penstock_trace* trace, uint32_t index,
                                        struct penstock_trace_file* file);
PENSTOCK_API void penstock_trace_close(penstock_trace* trace);

#ifdef __cplusplus
}
#endif

#endif
