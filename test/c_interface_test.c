/* Tests of the C interface, compiled as C11 with -pedantic and linked only to the shared library.
 * Usage: c_interface_test FOLDER, which must be empty and stays so. */
#include <inttypes.h>
#include <penstock/penstock.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures = 0;

#define EXPECT(condition)                                                                     \
  do {                                                                                        \
    if (!(condition)) {                                                                       \
      ++failures;                                                                             \
      fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__, #condition, \
              penstock_error_message());                                                      \
    }                                                                                         \
  } while (0)
#define OK(call) EXPECT((call) == PENSTOCK_OK)

static char folder[4096];
static const char* path_of(const char* name) {
  static char paths[4][8192];
  static int next = 0;
  char* path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

enum { count = 100000 };
static uint64_t numbers[count];
static void make_numbers(void) {
  uint64_t state = 1;
  for (int i = 0; i < count; ++i)
    numbers[i] = state = state * 6364136223846793005u + 1442695040888963407u;
}
static int is_sorted(const uint64_t* items, size_t n) {
  for (size_t i = 1; i < n; ++i)
    if (items[i - 1] > items[i]) return 0;
  return 1;
}

static void errors(void) {
  EXPECT(strcmp(penstock_error_message(), "") == 0);
  penstock_reader* reader = (penstock_reader*)1;
  EXPECT(penstock_reader_open(path_of("missing"), NULL, &reader) == PENSTOCK_NOT_FOUND);
  EXPECT(reader == NULL);
  EXPECT(strstr(penstock_error_message(), "missing") != NULL);
  EXPECT(penstock_error_errno() == 2);
  EXPECT(penstock_reader_open(path_of("missing"), NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_reader_open(NULL, NULL, &reader) == PENSTOCK_INVALID_ARGUMENT);
  struct {
    struct penstock_sort_options known;
    uint64_t later;
  } newer = {{.size = sizeof newer}, 0};
  uint64_t few[] = {2, 1};
  OK(penstock_sort(few, 2, PENSTOCK_U64, &newer.known));
  EXPECT(few[0] == 1);
  newer.later = 1;
  EXPECT(penstock_sort(few, 2, PENSTOCK_U64, &newer.known) == PENSTOCK_UNSUPPORTED);
  /* Options of an older version, with only the size. */
  size_t older = sizeof older;
  OK(penstock_sort(few, 2, PENSTOCK_U64, (const struct penstock_sort_options*)(void*)&older));
  older = SIZE_MAX;
  EXPECT(penstock_sort(few, 2, PENSTOCK_U64, (const struct penstock_sort_options*)(void*)&older) ==
         PENSTOCK_INVALID_ARGUMENT);
  older = 0;
  EXPECT(penstock_sort(few, 2, PENSTOCK_U64, (const struct penstock_sort_options*)(void*)&older) ==
         PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_sort(few, 2, 99, NULL) == PENSTOCK_INVALID_ARGUMENT);
  /* A missing length, and too large blocks. */
  struct penstock_stream_options shape = {.size = sizeof shape};
  penstock_stream* stream = NULL;
  penstock_process_stream* process_stream = NULL;
  EXPECT(penstock_stream_open(&shape, &stream) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_process_stream_open(&shape, PENSTOCK_PRODUCER, &process_stream) ==
         PENSTOCK_INVALID_ARGUMENT);
  shape.bytes = 1;
  shape.block_bytes = (size_t)4 << 30;
  EXPECT(penstock_stream_open(&shape, &stream) == PENSTOCK_INVALID_ARGUMENT);
  penstock_reader_close(NULL);
  penstock_writer_close(NULL);
  penstock_stream_close(NULL);
  penstock_process_stream_close(NULL);
  penstock_partitions_close(NULL);
  penstock_cancel_close(NULL);
  penstock_page_pool_close(NULL);
  penstock_vector_close(NULL);
  penstock_table_close(NULL);
  penstock_snapshot_close(NULL);
  penstock_text_free(NULL);
  penstock_trace_close(NULL);
  EXPECT(strlen(penstock_version()) >= 5);
  OK(penstock_install_handlers());
}

/* Missing arguments are errors; the other pointers are not read. */
static void lacking(void) {
  const char* const none[] = {NULL};
  const struct penstock_source no_read = {0};
  const struct penstock_sink no_write = {0};
  const struct penstock_files_options each[] = {
      {.size = sizeof each[0], .inputs_count = 1},
      {.size = sizeof each[0], .inputs = none, .inputs_count = 1},
      {.size = sizeof each[0], .keys_count = 1},
      {.size = sizeof each[0], .temp_directories_count = 1},
      {.size = sizeof each[0], .sources_count = 1},
      {.size = sizeof each[0], .sources = &no_read, .sources_count = 1},
      {.size = sizeof each[0], .sink = &no_write}};
  for (size_t i = 0; i < sizeof each / sizeof *each; ++i) {
    EXPECT(penstock_sort_files(&each[i], NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
    EXPECT(strstr(penstock_error_message(), "options") != NULL);
  }
  EXPECT(penstock_sort_files(NULL, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(penstock_cancel_open(NULL) == PENSTOCK_INVALID_ARGUMENT);
}

static void file_streams(void) {
  penstock_writer* writer;
  OK(penstock_writer_open(path_of("numbers"), NULL, &writer));
  memcpy(penstock_writer_data(writer), numbers, sizeof numbers);
  OK(penstock_writer_finish(writer, sizeof numbers));
  penstock_writer_close(writer);
  penstock_reader* reader;
  const struct penstock_reader_options options = {.size = sizeof options, .block_bytes = 65536};
  OK(penstock_reader_open(path_of("numbers"), &options, &reader));
  EXPECT(penstock_reader_bytes(reader) == sizeof numbers);
  EXPECT(memcmp(penstock_reader_data(reader), numbers, sizeof numbers) == 0);
  OK(penstock_reader_status(reader));
  penstock_reader_close(reader);
}

static void* produce(void* stream) {
  char* at = penstock_stream_writer(stream);
  for (int i = 0; i < count; ++i, at += 8) memcpy(at, &numbers[i], 8);
  OK(penstock_stream_finish(stream, sizeof numbers));
  return NULL;
}
static void* give_up(void* stream) {
  penstock_stream_fail(stream, PENSTOCK_PRODUCER, "lose its way");
  return NULL;
}
static int read_all(void* stream) {
  const volatile char* at = penstock_stream_reader(stream);
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof numbers; ++i) sum += (uint64_t)at[i];
  return sum == 0 ? 1000 : 1001;
}

/* Sends these numbers through a stream, with one copy to the writer and one from the reader. */
static void* produce_by_copy(void* stream) {
  char* end = penstock_copy(penstock_stream_writer(stream), numbers, sizeof numbers);
  EXPECT(end == (char*)penstock_stream_writer(stream) + sizeof numbers);
  OK(penstock_stream_finish(stream, sizeof numbers));
  return NULL;
}
static void copies(void) {
  static uint64_t copied[count + 1];
  char* const to = (char*)copied + 3; /* the pages of both ends differ */
  for (int relaxed = 0; relaxed < 2; ++relaxed) {
    const struct penstock_stream_options options = {
        .size = sizeof options, .bytes = sizeof numbers, .block_bytes = 4096, .relaxed = relaxed};
    penstock_stream* stream;
    OK(penstock_stream_open(&options, &stream));
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, produce_by_copy, stream) == 0);
    memset(copied, 0, sizeof copied);
    EXPECT(penstock_copy(to, penstock_stream_reader(stream), sizeof numbers) == to + sizeof numbers);
    EXPECT(memcmp(to, numbers, sizeof numbers) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
    penstock_stream_close(stream);
  }
}

/* A store that comes back too far is an error, unless the options say otherwise. */
static int come_back(void* stream) {
  volatile char* at = penstock_stream_writer(stream);
  for (int i = 0; i < 3; ++i) at[i * 65536] = 1;
  at[0] = 2;
  return PENSTOCK_OK;
}
static void breaches(void) {
  const struct penstock_stream_options options = {.size = sizeof options,
                                                  .bytes = sizeof numbers,
                                                  .block_bytes = 65536,
                                                  .policy = PENSTOCK_POLICY_RECOVER};
  penstock_stream* stream;
  OK(penstock_stream_open(&options, &stream));
  EXPECT(penstock_recover(come_back, stream) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(strstr(penstock_error_message(), "penstock::copy") != NULL);
  penstock_stream_close(stream);
}

static void streams(void) {
  const struct penstock_stream_options options = {.size = sizeof options,
                                                  .bytes = sizeof numbers,
                                                  .block_bytes = 65536,
                                                  .policy = PENSTOCK_POLICY_RECOVER,
                                                  .name = "numbers"};
  penstock_stream* stream;
  pthread_t thread;
  OK(penstock_stream_open(&options, &stream));
  EXPECT(pthread_create(&thread, NULL, produce, stream) == 0);
  const char* at = penstock_stream_reader(stream);
  for (int i = 0; i < count; ++i, at += 8) EXPECT(memcmp(at, &numbers[i], 8) == 0);
  uint64_t ready = 0;
  OK(penstock_stream_wait_ready(stream, sizeof numbers, &ready));
  EXPECT(ready == sizeof numbers);
  pthread_join(thread, NULL);
  OK(penstock_stream_status(stream));
  penstock_stream_close(stream);

  OK(penstock_stream_open(&options, &stream));
  EXPECT(pthread_create(&thread, NULL, give_up, stream) == 0);
  EXPECT(penstock_recover(read_all, stream) == PENSTOCK_CANCELLED);
  EXPECT(strstr(penstock_error_message(), "lose its way") != NULL);
  pthread_join(thread, NULL);
  EXPECT(penstock_stream_status(stream) == PENSTOCK_CANCELLED);
  penstock_stream_close(stream);
}

static void process_streams(void) {
  const struct penstock_stream_options options = {
      .size = sizeof options, .bytes = sizeof numbers, .block_bytes = 65536};
  penstock_process_stream* stream;
  OK(penstock_process_stream_open(&options, PENSTOCK_CONSUMER, &stream));
  const pid_t child = fork();
  if (child == 0) {
    penstock_process_stream* own;
    if (penstock_process_stream_attach(penstock_process_stream_descriptor(stream),
                                       PENSTOCK_PRODUCER, NULL, &own) != PENSTOCK_OK)
      _exit(1);
    char* at = penstock_process_stream_data(own);
    for (int i = 0; i < count; ++i, at += 8) memcpy(at, &numbers[i], 8);
    _exit(penstock_process_stream_finish(own, sizeof numbers));
  }
  const char* at = penstock_process_stream_data(stream);
  EXPECT(memcmp(at, numbers, 8) == 0);
  uint64_t ready = 0;
  OK(penstock_process_stream_wait_ready(stream, 8, &ready));
  EXPECT(ready > 8);
  for (int i = 0; i < count; ++i, at += 8) EXPECT(memcmp(at, &numbers[i], 8) == 0);
  int status = 1;
  EXPECT(waitpid(child, &status, 0) == child && status == 0);
  OK(penstock_process_stream_status(stream));
  penstock_process_stream_close(stream);
}

static void memory(void) {
  uint64_t* items = malloc(sizeof numbers);
  uint64_t* order = malloc(sizeof numbers);
  const struct penstock_sort_options two = {.size = sizeof two, .threads = 2};
  memcpy(items, numbers, sizeof numbers);
  OK(penstock_sort(items, count, PENSTOCK_U64, &two));
  EXPECT(is_sorted(items, count));
  uint64_t least[10];
  OK(penstock_top_k(numbers, count, least, 10, PENSTOCK_U64, NULL));
  EXPECT(memcmp(least, items, sizeof least) == 0);
  OK(penstock_argsort(numbers, count, order, PENSTOCK_U64, NULL));
  EXPECT(numbers[order[0]] == items[0] && numbers[order[count - 1]] == items[count - 1]);
  uint64_t* partly = malloc(sizeof numbers);
  memcpy(partly, numbers, sizeof numbers);
  OK(penstock_partial_sort(partly, count, 10, PENSTOCK_U64, NULL));
  EXPECT(memcmp(partly, items, sizeof least) == 0);

  float floats[] = {2.5f, -1, 0};
  const struct penstock_sort_options down = {.size = sizeof down, .descending = 1};
  OK(penstock_sort(floats, 3, PENSTOCK_F32, &down));
  EXPECT(floats[0] == 2.5f && floats[2] == -1);
  char records[] = "xb1xa2xc3";
  struct penstock_sort_records_options layout = {
      .size = sizeof layout, .record_bytes = 3, .key_offset = 1, .key_bytes = 1};
  OK(penstock_sort_records(records, 3, &layout));
  EXPECT(strcmp(records, "xa2xb1xc3") == 0);
  layout.key_offset = 3;
  EXPECT(penstock_sort_records(records, 3, &layout) == PENSTOCK_INVALID_ARGUMENT);

  penstock_partitions* parts;
  const struct penstock_partition_options by = {.size = sizeof by, .bits = 4};
  OK(penstock_partition(numbers, count, PENSTOCK_U64, &by, &parts));
  EXPECT(penstock_partitions_buckets(parts) == 16);
  size_t all = 0;
  for (uint32_t i = 0; i < 17; ++i) {
    size_t held = 1;
    const uint64_t* bucket = penstock_partitions_bucket(parts, i, &held);
    for (size_t k = 0; k < held; ++k) EXPECT(bucket[k] % 16 == i);
    all += held;
  }
  EXPECT(all == count);
  penstock_partitions_close(parts);
  const double values[] = {0.5, -3, 2, -0.25};
  const double zero = 0;
  uint64_t at_zero = 0;
  OK(penstock_rank(&zero, PENSTOCK_F64, &at_zero));
  const struct penstock_partition_options by_sign = {.size = sizeof by_sign,
                                                     .by = PENSTOCK_BY_SPLITTERS,
                                                     .splitters = &at_zero,
                                                     .splitters_count = 1};
  OK(penstock_partition(values, 4, PENSTOCK_F64, &by_sign, &parts));
  EXPECT(penstock_partitions_buckets(parts) == 2);
  size_t negative = 0;
  const double* below = penstock_partitions_bucket(parts, 0, &negative);
  EXPECT(negative == 2 && below[0] < 0 && below[1] < 0);
  penstock_partitions_close(parts);
  EXPECT(penstock_rank(&zero, 99, &at_zero) == PENSTOCK_INVALID_ARGUMENT);
  free(items);
  free(order);
  free(partly);
}

struct text {
  char* bytes;
  size_t size;
  int calls;
};
static int64_t read_text(void* context, void* into, size_t bytes) {
  struct text* text = context;
  if (text->bytes == NULL) return -1;
  if (bytes > text->size) bytes = text->size;
  memcpy(into, text->bytes, bytes);
  text->bytes += bytes;
  text->size -= bytes;
  return (int64_t)bytes;
}
static int keep_text(void* context, const void* from, size_t bytes) {
  struct text* text = context;
  memcpy(text->bytes + text->size, from, bytes);
  text->size += bytes;
  return 0;
}
static void progress(void* context, const char* phase, uint64_t done, uint64_t total) {
  (void)done;
  (void)total;
  ((struct text*)context)->calls += phase[0] != '\0';
}

static void files(void) {
  const char* in[] = {path_of("numbers")};
  char out[8192];
  snprintf(out, sizeof out, "%s/sorted", folder);
  const char* temporaries[] = {folder};
  struct text told = {0};
  struct penstock_files_options options = {.size = sizeof options,
                                           .inputs = in,
                                           .inputs_count = 1,
                                           .output = out,
                                           .format = "u64",
                                           .memory_bytes = (uint64_t)1 << 30,
                                           .temp_directories = temporaries,
                                           .temp_directories_count = 1,
                                           .progress = progress,
                                           .progress_context = &told};
  char* json;
  OK(penstock_plan_sort_files(&options, NULL, &json));
  EXPECT(json != NULL && strstr(json, "\"method\": \"in_memory\"") != NULL);
  penstock_text_free(json);
  OK(penstock_sort_files(&options, NULL, &json));
  EXPECT(json != NULL && strstr(json, "\"items\": 100000") != NULL);
  EXPECT(told.calls > 0);
  penstock_text_free(json);

  // Errors name fields and settings, and no words of the command line.
  options.memory_bytes = 1;
  EXPECT(penstock_sort_files(&options, NULL, NULL) != 0);
  EXPECT(strstr(penstock_error_message(), "memory_bytes: cannot sort within 1 B") != NULL);
  options.memory_bytes = (uint64_t)1 << 30;

  const char* settings[] = {"top=3", "descending=true", "temp_directories=/", "mechanism=mremap"};
  options.settings = settings;
  options.settings_count = 4;
  OK(penstock_sort_files(&options, NULL, &json));
  EXPECT(json != NULL && strstr(json, "\"items\": 3,") != NULL);
  penstock_text_free(json);
  const char* wrong[] = {"top",          "top=",     "top=-1",  "top=3x",         "=",
                         "descending=1", "luck=yes", "device=", "mechanism=luck", NULL};
  options.settings_count = 1;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
    options.settings = &wrong[i];
    EXPECT(penstock_sort_files(&options, NULL, NULL) == PENSTOCK_INVALID_ARGUMENT);
  }
  options.settings_count = 0;
  OK(penstock_sort_files(&options, NULL, NULL));

  int sorted = 0;
  const char* in_order[] = {out};
  options.inputs = in_order;
  OK(penstock_check_file(&options, NULL, &sorted, NULL));
  EXPECT(sorted);
  char merged[8192], part[8192];
  snprintf(merged, sizeof merged, "%s/merged", folder);
  options.output = merged;
  const struct penstock_merge_files_options once = {.size = sizeof once, .unique = 1};
  OK(penstock_merge_files(&options, &once, NULL));
  const struct penstock_group_files_options counts = {.size = sizeof counts, .count = 1};
  OK(penstock_group_files(&options, &counts, &json));
  EXPECT(strstr(json, "\"groups\": 100000") != NULL);
  penstock_text_free(json);
  const char* both[] = {out, out};
  options.inputs = both;
  options.inputs_count = 2;
  OK(penstock_join_files(&options, NULL, NULL));
  snprintf(part, sizeof part, "%s/part-{}", folder);
  options.output = part;
  struct penstock_partition_files_options parts = {
      .size = sizeof parts, .by = "range", .parts = 2, .checksums = 1};
  OK(penstock_partition_files(&options, &parts, &json));
  EXPECT(strstr(json, "\"by\": \"range\"") != NULL);
  penstock_text_free(json);
  parts.by = "luck";
  EXPECT(penstock_partition_files(&options, &parts, &json) == PENSTOCK_INVALID_ARGUMENT);
  EXPECT(json == NULL);

  char text[] = "b\nc\na\n", kept[64] = {0};
  struct text from = {text, 6, 0}, to = {kept, 0, 0}, broken = {NULL, 0, 0};
  const struct penstock_source source = {read_text, &from}, bad = {read_text, &broken};
  const struct penstock_sink sink = {keep_text, &to};
  options.inputs_count = 0;
  options.sources = &source;
  options.sources_count = 1;
  options.sink = &sink;
  options.format = NULL;
  OK(penstock_sort_files(&options, NULL, NULL));
  EXPECT(strcmp(kept, "a\nb\nc\n") == 0);

  char orders[] = "7 ann\n8 bob\n", names[] = "bob 1\nann 2\n";
  struct text left = {orders, 12, 0}, right = {names, 12, 0};
  const struct penstock_source sides[] = {{read_text, &left}, {read_text, &right}};
  const char* second[] = {"2"};
  const struct penstock_join_lines_options by_name = {
      .size = sizeof by_name, .left_keys = second, .left_keys_count = 1, .list = "0,1.1,2.2"};
  options.sources = sides;
  options.sources_count = 2;
  to.size = 0;
  OK(penstock_join_lines(&options, &by_name, &json));
  EXPECT(strcmp(kept, "ann 7 2\nbob 8 1\n") == 0);
  EXPECT(json != NULL && strstr(json, "\"items\": 2") != NULL);
  penstock_text_free(json);
  options.sources_count = 1;
  options.sources = &bad;
  EXPECT(penstock_sort_files(&options, NULL, NULL) == PENSTOCK_IO);
  penstock_cancel* cancel;
  OK(penstock_cancel_open(&cancel));
  penstock_cancel_request(cancel);
  options.cancel = cancel;
  options.sources_count = 0;
  options.inputs = in;
  options.inputs_count = 1;
  EXPECT(penstock_sort_files(&options, NULL, NULL) == PENSTOCK_INTERRUPTED);
  penstock_cancel_close(cancel);
  remove(path_of("numbers"));
  remove(path_of("sorted"));
  remove(path_of("merged"));
  remove(path_of("part-0"));
  remove(path_of("part-1"));
}

static void rewired(void) {
  penstock_page_pool* pool;
  const struct penstock_page_pool_options small = {
      .size = sizeof small, .bytes_max = (uint64_t)64 << 20, .page_bytes = 65536};
  OK(penstock_page_pool_open(&small, &pool));
  penstock_vector* vector;
  OK(penstock_vector_open(pool, NULL, &vector));
  OK(penstock_vector_append(vector, numbers, sizeof numbers));
  const void* data = penstock_vector_data(vector);
  OK(penstock_vector_resize(vector, 2 * sizeof numbers));
  EXPECT(penstock_vector_data(vector) == data);
  EXPECT(penstock_vector_bytes(vector) == 2 * sizeof numbers);
  EXPECT(memcmp(data, numbers, sizeof numbers) == 0);
  EXPECT(((const uint64_t*)data)[count] == 0);
  EXPECT(penstock_vector_resize(vector, (uint64_t)1 << 40) == PENSTOCK_OUT_OF_MEMORY);
  penstock_vector_close(vector);
  penstock_table* table;
  struct penstock_table_options rows = {.size = sizeof rows, .policy = PENSTOCK_POLICY_ZEROS};
  EXPECT(penstock_table_open(pool, &rows, &table) == PENSTOCK_INVALID_ARGUMENT);
  rows.policy = PENSTOCK_POLICY_DEFAULT;
  rows.bytes = (uint64_t)1 << 20;
  OK(penstock_table_open(pool, &rows, &table));
  EXPECT(penstock_table_bytes(table) == (uint64_t)1 << 20);
  uint64_t* live = penstock_table_data(table);
  live[0] = 1;
  penstock_snapshot* snapshot;
  OK(penstock_table_snapshot(table, &snapshot));
  live[0] = 2;
  OK(penstock_table_prepare_write(table, live, 8));
  EXPECT(*(const uint64_t*)penstock_snapshot_data(snapshot) == 1 && live[0] == 2);
  penstock_page_pool_close(pool);
  penstock_table_close(table);
  EXPECT(*(const uint64_t*)penstock_snapshot_data(snapshot) == 1);
  penstock_snapshot_close(snapshot);
}

static int add_up(void* context, const struct penstock_access* accesses, size_t n) {
  for (size_t i = 0; i < n; ++i)
    ((uint64_t*)context)[accesses[i].is_write != 0] += accesses[i].bytes;
  return 0;
}
static int refuse(void* context, const struct penstock_access* accesses, size_t n) {
  (void)context;
  return n > 0 && accesses != NULL;
}
static void trace(void) {
  char in[8192], out[8192], recorded[8192];
  snprintf(in, sizeof in, "if=%s/numbers", folder);
  snprintf(out, sizeof out, "of=%s/copy", folder);
  snprintf(recorded, sizeof recorded, "%s/run.trace", folder);
  FILE* file = fopen(in + 3, "wb");
  EXPECT(file != NULL && fwrite(numbers, sizeof numbers, 1, file) == 1 && fclose(file) == 0);
  const char* command[] = {"dd", in, out, "bs=64K", "status=none"};
  struct penstock_trace_options options = {.size = sizeof options,
                                           .output = recorded,
                                           .command = command,
                                           .command_count = 5,
                                           .backend = PENSTOCK_TRACE_PTRACE};
  int exit_code = -1;
  const int code = penstock_trace_record(&options, &exit_code);
  if (code == PENSTOCK_UNSUPPORTED || code == PENSTOCK_PERMISSION) {
    printf("skipped: %s\n", penstock_error_message());
    remove(in + 3);
    return;
  }
  EXPECT(code == PENSTOCK_OK && exit_code == 0);
  uint64_t bytes[2] = {0, 0};
  struct penstock_trace_read_options how = {
      .size = sizeof how, .under = folder, .accesses = add_up, .context = bytes};
  penstock_trace* read;
  OK(penstock_trace_read(recorded, &how, &read));
  EXPECT(bytes[0] == sizeof numbers && bytes[1] == sizeof numbers);
  uint64_t told = 0;
  for (uint32_t i = 0; i < penstock_trace_files(read); ++i) {
    struct penstock_trace_file one = {.size = sizeof one};
    OK(penstock_trace_file_at(read, i, &one));
    if (strcmp(one.path, in + 3) == 0) told += one.read_bytes;
    if (strcmp(one.path, out + 3) == 0) told += one.written_bytes;
  }
  EXPECT(told == 2 * sizeof numbers);
  EXPECT(penstock_trace_file_at(read, 1000000, NULL) == PENSTOCK_INVALID_ARGUMENT);
  penstock_trace_close(read);
  how.accesses = refuse;
  EXPECT(penstock_trace_read(recorded, &how, &read) == PENSTOCK_INTERRUPTED && read == NULL);
  options.command_count = 0;
  EXPECT(penstock_trace_record(&options, NULL) == PENSTOCK_INVALID_ARGUMENT);
  remove(in + 3);
  remove(out + 3);
  remove(recorded);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  snprintf(folder, sizeof folder, "%s", argv[1]);
  make_numbers();
  errors();
  lacking();
  file_streams();
  streams();
  copies();
  breaches();
  process_streams();
  memory();
  files();
  rewired();
  trace();
  if (failures == 0) puts("c_interface: all as it should be");
  return failures != 0;
}
