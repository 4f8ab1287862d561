/* Sorts the file that it is given, in C. */
#include <penstock/penstock.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const char* inputs[] = {argv[1]};
  struct penstock_files_options files = {.size = sizeof files,
                                         .inputs = inputs,
                                         .inputs_count = 1,
                                         .output = argv[2],
                                         .memory_bytes = (uint64_t)256 << 20};
  char* json;
  if (penstock_sort_files(&files, NULL, &json) != PENSTOCK_OK) {
    puts(penstock_error_message());
    return 1;
  }
  const char* items = strstr(json, "\"items\": ");
  int lines = 0;
  if (items != NULL) sscanf(items, "\"items\": %d", &lines);
  penstock_text_free(json);
  struct penstock_stream_options options = {.size = sizeof options, .bytes = 1 << 20};
  penstock_stream* stream;
  if (penstock_stream_open(&options, &stream) != PENSTOCK_OK) return 1;
  strcpy(penstock_stream_writer(stream), "streamed");
  if (penstock_stream_finish(stream, 8) != PENSTOCK_OK) return 1;
  printf("%s, %d lines sorted\n", (const char*)penstock_stream_reader(stream), lines);
  penstock_stream_close(stream);
  return 0;
}
