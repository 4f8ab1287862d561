// Files larger than memory.

#include "penstock/files.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "c_api/guard.h"
#include "c_api/lists.h"

using namespace penstock;
using c_api::guarded;
using c_api::lacking;
using c_api::list_of;
using c_api::opened;
using c_api::options_of;
using c_api::set;
using c_api::text_of;

namespace {

Error callback_failed(const char* attempted, const char* subject) {
  return {.code = ErrorCode::io, .attempted = attempted, .subject = subject};
}

std::shared_ptr<Source> source_of(const penstock_source& source) {
  return callback_source([source](std::span<std::byte> into) -> Result<size_t> {
    const int64_t bytes = source.read(source.context, into.data(), into.size());
    if (bytes >= 0) return static_cast<size_t>(bytes);
    return std::unexpected(callback_failed("read", "the caller's source"));
  });
}

std::shared_ptr<Sink> sink_of(const penstock_sink& sink) {
  return callback_sink([sink](std::span<const std::byte> from) -> Status {
    if (sink.write(sink.context, from.data(), from.size()) == 0) return {};
    return std::unexpected(callback_failed("write", "the caller's sink"));
  });
}

Result<FilesOptions> files_options(const penstock_files_options* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  auto inputs = list_of("inputs", from->inputs, from->inputs_count);
  if (!inputs) return std::unexpected(inputs.error());
  auto keys = list_of("keys", from->keys, from->keys_count);
  if (!keys) return std::unexpected(keys.error());
  auto directories =
      list_of("temp_directories", from->temp_directories, from->temp_directories_count);
  if (!directories) return std::unexpected(directories.error());
  FilesOptions options{
      .inputs = std::move(*inputs),
      .items = {.dtype = text_of(from->dtype),
                .keys = std::move(*keys),
                .letters = text_of(from->letters),
                .csv = from->csv != 0,
                .header_lines = from->header_lines,
                .zero_terminated = from->zero_terminated != 0,
                .descending = from->descending != 0},
      .temp_directories = std::move(*directories),
      .output_rules = {.overwrite_device = from->overwrite_device != 0, .sync = from->no_sync == 0},
      .source = {.decompress = from->no_decompress == 0}};
  for (size_t i = 0; i < from->sources_count; ++i) {
    if (from->sources == nullptr || from->sources[i].read == nullptr)
      return lacking("sources", "as many as their count says, each with read");
    options.sources.push_back(source_of(from->sources[i]));
  }
  if (from->sink != nullptr) {
    if (from->sink->write == nullptr) return lacking("sink", "one with write");
    options.sink = sink_of(*from->sink);
  }
  if (from->output != nullptr) options.output = from->output;
  if (from->format != nullptr) options.items.name = from->format;
  if (from->record_bytes != 0) options.items.record_bytes = from->record_bytes;
  const std::string separator = text_of(from->separator);
  if (separator.size() > 1)
    return failure(ErrorCode::invalid_argument, "separate fields by other than one byte", separator,
                   "one byte");
  if (!separator.empty()) options.items.separator = separator.front();
  if (from->locale != nullptr) options.items.locale = from->locale;
  set(options.memory_bytes, from->memory_bytes);
  switch (from->memory_scope) {
    case PENSTOCK_MEMORY_CALL:
      break;
    case PENSTOCK_MEMORY_PROCESS:
      options.memory_scope = MemoryScope::process;
      break;
    default:
      return failure(ErrorCode::invalid_argument, "budget memory so",
                     std::to_string(from->memory_scope), "one of enum penstock_memory_scope");
  }
  if (from->device != nullptr) {
    auto device = load_profile(from->device);
    if (!device) return std::unexpected(device.error());
    options.device = std::make_shared<const DeviceProfile>(std::move(*device));
  }
  if (from->cancel != nullptr) options.cancel = &from->cancel->requested;
  if (from->progress != nullptr) {
    options.progress = [progress = from->progress,
                        context = from->progress_context](const FilesProgress& now) {
      progress(context, now.phase, now.done_bytes, now.total_bytes);
    };
  }
  return options;
}

Result<SortFilesOptions> sort_options(const penstock_sort_files_options* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  SortFilesOptions options{.stable = from->stable != 0,
                           .unique = from->unique != 0,
                           .merge_only = from->merge_only != 0,
                           .resume = from->resume != 0};
  set(options.threads, from->threads);
  if (from->has_top != 0) options.top = from->top;
  switch (from->compression) {
    case PENSTOCK_COMPRESS_AUTOMATIC:
      break;
    case PENSTOCK_COMPRESS_NEVER:
      options.compression = Compression::never;
      break;
    case PENSTOCK_COMPRESS_ALWAYS:
      options.compression = Compression::always;
      break;
    default:
      return failure(ErrorCode::invalid_argument, "compress temporaries so",
                     std::to_string(from->compression), "one of enum penstock_compression");
  }
  return options;
}

void give(const std::string& text, char** to) {
  if (to == nullptr) return;
  *to = static_cast<char*>(std::malloc(text.size() + 1));
  if (*to == nullptr) throw std::bad_alloc();
  std::memcpy(*to, text.c_str(), text.size() + 1);
}

// operation(files) gives statistics, which are told.
template <class Operation>
int carried_out(const penstock_files_options* files, char** json, Operation&& operation) {
  if (json != nullptr) *json = nullptr;
  return guarded([&]() -> Status {
    const auto options = files_options(files);
    if (!options) return std::unexpected(options.error());
    const auto done = operation(*options);
    if (!done) return std::unexpected(done.error());
    give(to_json(*done), json);
    return {};
  });
}

}  // namespace

int penstock_cancel_open(penstock_cancel** cancel) {
  return opened(cancel, [] { return Result<bool>(false); });
}
void penstock_cancel_request(penstock_cancel* cancel) {
  cancel->requested = true;
}
void penstock_cancel_close(penstock_cancel* cancel) {
  delete cancel;
}

void penstock_text_free(char* text) {
  std::free(text);
}

int penstock_sort_files(const penstock_files_options* files,
                        const penstock_sort_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<SortStats> {
    const auto how = sort_options(options);
    if (!how) return std::unexpected(how.error());
    return sort_files(given, *how);
  });
}

int penstock_plan_sort_files(const penstock_files_options* files,
                             const penstock_sort_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<SortPlan> {
    const auto how = sort_options(options);
    if (!how) return std::unexpected(how.error());
    return plan_sort_files(given, *how);
  });
}

int penstock_check_file(const penstock_files_options* files,
                        const penstock_check_file_options* given, int* sorted, char** json) {
  if (json != nullptr) *json = nullptr;
  return guarded([&]() -> Status {
    const auto from = options_of(given);
    if (!from) return std::unexpected(from.error());
    const auto options = files_options(files);
    if (!options) return std::unexpected(options.error());
    const auto done = check_file(*options, from->threads != 0 ? from->threads : 2);
    if (!done) return std::unexpected(done.error());
    if (sorted != nullptr) *sorted = done->sorted() ? 1 : 0;
    const std::string name = options->inputs.empty() ? "a source" : options->inputs.front();
    give(to_json(*done, name, options->items), json);
    return {};
  });
}

int penstock_merge_files(const penstock_files_options* files,
                         const penstock_merge_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<MergeFilesStats> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    return merge_files(given, {.unique = from->unique != 0, .stable = from->stable != 0});
  });
}

int penstock_partition_files(const penstock_files_options* files,
                             const penstock_partition_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<PartitionFilesResult> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    PartitionFilesOptions made{.parts = from->parts,
                               .bounds_path = text_of(from->bounds_path),
                               .checksums = from->checksums != 0};
    using enum PartitionFilesBy;
    for (const PartitionFilesBy way : {hash, range, bits}) {
      if (from->by != nullptr && name_of(way) != std::string(from->by)) continue;
      made.by = way;
      return partition_files(given, made);
    }
    return failure(ErrorCode::invalid_argument, "partition in this way", from->by,
                   "range, hash or bits");
  });
}

int penstock_group_files(const penstock_files_options* files,
                         const penstock_group_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<GroupFilesStats> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    GroupFilesOptions made{.aggregates = {.count = from->count != 0,
                                          .sum = from->sum != 0,
                                          .min = from->min != 0,
                                          .max = from->max != 0,
                                          .distinct = from->distinct != 0},
                           .sorted = from->sorted != 0};
    if (from->has_top != 0) made.top = from->top;
    auto columns = list_of("columns", from->columns, from->columns_count);
    if (!columns) return std::unexpected(columns.error());
    made.columns = std::move(*columns);
    if (from->has_value != 0) {
      ValueField& value = made.aggregates.value.emplace();
      value.offset = from->value_offset;
      set(value.bytes, from->value_bytes);
      value.is_signed = from->value_signed != 0;
      value.big_endian = from->value_big_endian != 0;
    }
    return group_files(given, made);
  });
}

int penstock_join_files(const penstock_files_options* files,
                        const penstock_join_files_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<JoinFilesStats> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    JoinFilesOptions made;
    if (from->right_record_bytes != 0) made.right_record_bytes = from->right_record_bytes;
    if (from->right_key != nullptr) made.right_key = from->right_key;
    return join_files(given, made);
  });
}

int penstock_join_lines(const penstock_files_options* files,
                        const penstock_join_lines_options* options, char** json) {
  return carried_out(files, json, [&](const FilesOptions& given) -> Result<JoinLinesStats> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    JoinLinesOptions made{.ignore_case = from->ignore_case != 0,
                          .pairs = from->no_pairs == 0,
                          .alone = {from->left_alone != 0, from->right_alone != 0},
                          .list = text_of(from->list),
                          .empty = text_of(from->empty),
                          .inputs_sorted = from->inputs_sorted != 0};
    auto left = list_of("left_keys", from->left_keys, from->left_keys_count);
    if (!left) return std::unexpected(left.error());
    auto right = list_of("right_keys", from->right_keys, from->right_keys_count);
    if (!right) return std::unexpected(right.error());
    if (!left->empty()) made.keys[0] = std::move(*left);
    if (!right->empty()) made.keys[1] = std::move(*right);
    return join_lines(given, made);
  });
}
