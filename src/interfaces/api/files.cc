// The operations of penstock/files.h: public options are converted to internal ones.

#include "penstock/files.h"

#include <algorithm>
#include <chrono>

#include "base/misuse.h"
#include "base/out_of_memory.h"
#include "base/run_scope.h"
#include "files/ops/check/check_input.h"
#include "files/ops/group/group_files.h"
#include "files/ops/join/join_files.h"
#include "files/ops/join/join_lines.h"
#include "files/ops/merge/merge_files.h"
#include "files/ops/partition/partition_files.h"
#include "files/ops/partition/slice_files.h"
#include "files/run/file_run.h"
#include "files/run/walk.h"
#include "interfaces/api/binary_input.h"
#include "interfaces/api/callers.h"
#include "interfaces/api/file_check.h"
#include "interfaces/api/item_format.h"
#include "interfaces/api/options.h"

namespace penstock {
namespace {

// Runs a callback outside of the run: memory of the caller's code is not the run's.
template <class Argument>
std::function<void(const Argument&)> outside(std::function<void(const Argument&)> callback) {
  if (!callback) return callback;
  return [callback = std::move(callback)](const Argument& argument) {
    const NoRunScope callers;
    callback(argument);
  };
}

Result<files::FilesOptions> files_options(const FilesOptions& given, const api::ItemRules& rules) {
  if (std::ranges::find(given.inputs, "") != given.inputs.end())
    return misuse("read a file without a name", "FILE ''", "- for standard input");
  if (given.output.empty())
    return misuse("write a file without a name", "-o ''", "- for standard output");
  auto format = api::format_of(given.items, rules);
  if (!format) return std::unexpected(format.error());
  if (Status fine = api::refuse_binary(given); !fine) return std::unexpected(fine.error());
  const bool descending = api::is_reversed(given.items, *format);
  files::FilesOptions made{given, std::move(*format), descending};
  made.progress = outside(given.progress);
  made.notice = outside(given.notice);
  return made;
}

// Options of operations that open all inputs at once.
Result<files::FilesOptions> options_at_once(const FilesOptions& given,
                                            const api::ItemRules& rules) {
  if (std::ranges::count(given.inputs, "-") > 1)
    return misuse("read standard input twice", "-", "one -");
  return files_options(given, rules);
}

// The result of a run over these files; a malformed row's error gets the row's place.
template <class Done>
Result<Done> placed(Result<Done> done, const files::FilesOptions& files) {
  if (done) return done;
  return std::unexpected(files::with_place(done.error(), files));
}

// Fails if keys are computed: a result cannot begin with the bytes of such a key.
Status check_key_lies_in_item(const items::Format& format, const ItemFormat& items,
                              const char* attempted) {
  if (format.keys == nullptr) return {};
  return misuse(attempted, items.keys.empty() ? "--format " + items.name : "--key",
                "--format record --record BYTES --key OFFSET:LENGTH");
}

// Fails for rows of CSV, which have no place for values and for the other side of a pair.
Status check_is_no_row(const items::Format& format, const char* attempted) {
  if (format.fixed() || format.has_fields()) return {};
  return misuse(attempted, "--format " + std::string(name_of(format.type)),
                "lines, records or numbers");
}

bool is_more_than_plain_lines(const items::Format& format) {
  return format.has_fields() && format != *items::parse_format("lines");
}

// Sorts stably into a temporary file.
Result<files::SortedCopy> sorted_copy(const files::FilesOptions& files,
                                      const items::Format& format) {
  external::SortOptions sort{files, {.stable = true}};
  sort.format = format;
  sort.descending = false;
  return external::sort_to_temporary(sort);
}

}  // namespace

Result<external::SortOptions> api::sort_options(const FilesOptions& files,
                                                const SortFilesOptions& options) {
  if (options.threads == 0) return misuse("work with no thread", "--parallel", "--parallel 2");
  auto made = files_options(
      files, {.stable = options.stable, .unique = options.unique, .repeatable = options.resume});
  if (!made) return std::unexpected(made.error());
  external::SortOptions sort{std::move(*made), options};
  // Strings that are equal in a locale may differ, and keep their order.
  sort.stable = options.stable || files.items.locale.has_value();
  return sort;
}

Result<SortPlan> plan_sort_files(const FilesOptions& files, const SortFilesOptions& options) {
  return or_out_of_memory([&]() -> Result<SortPlan> {
    if (!files.sources.empty())
      return failure(ErrorCode::unsupported, "plan for what can be read once", "a source",
                     "a file");
    const RunScope scope(files::run_state(files));
    auto sort = api::sort_options(files, options);
    if (!sort) return std::unexpected(sort.error());
    return api::or_interrupted(external::plan_sort(*sort), files);
  });
}

Result<SortStats> sort_files(const FilesOptions& files, const SortFilesOptions& options) {
  if (files.compressed && options.resume)
    return misuse("go on with an output that is compressed", "-Z --resume",
                  "--resume -o FILE, and then penstock cat -Z FILE -o FILE.gz");
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<SortStats> {
    auto sort = api::sort_options(each, options);
    if (!sort) return std::unexpected(sort.error());
    return placed(external::sort_files(*sort), *sort);
  });
}

Result<SortStats> top_items(const FilesOptions& files, uint64_t count,
                            const SortFilesOptions& options) {
  return or_out_of_memory([&]() -> Result<SortStats> {
    SortFilesOptions top = options;
    top.top = count;
    return sort_files(files, top);
  });
}

Result<FileCheck> check_file(const FilesOptions& files, unsigned threads) {
  return or_out_of_memory([&]() -> Result<FileCheck> {
    if (files.inputs.size() + files.sources.size() != 1)
      return misuse("check other than one file", "check", "one run for each file");
    if (threads == 0) return misuse("work with no thread", "--parallel", "--parallel 2");
    // Equal keys are duplicates, not disorder.
    const auto format = api::format_of(files.items, {.stable = true});
    if (!format) return std::unexpected(format.error());
    if (Status fine = api::refuse_binary(files); !fine) return std::unexpected(fine.error());
    const auto begin = std::chrono::steady_clock::now();
    FilesOptions given = files;
    given.memory_bytes = files::files_memory_bytes_min;  // no budget, only its reserve
    return api::with_callers(given, [&](const FilesOptions& each) -> Result<FileCheck> {
      const auto done = placed(
          files::check_input(each, {.check = {*format, api::is_reversed(files.items, *format)},
                                    .threads = threads}),
          files::FilesOptions{each, *format});
      if (!done) return std::unexpected(done.error());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      FileCheck check = api::file_check_of(*done);
      check.seconds = elapsed.count();
      return check;
    });
  });
}

Result<MergeFilesStats> merge_files(const FilesOptions& files, const MergeFilesOptions& options) {
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<MergeFilesStats> {
    auto made = options_at_once(each, {.stable = options.stable, .unique = options.unique});
    if (!made) return std::unexpected(made.error());
    const files::MergeFilesOptions merge{std::move(*made), options.unique};
    return placed(files::merge_files(merge), merge);
  });
}

Result<PartitionFilesResult> partition_files(const FilesOptions& files,
                                             const PartitionFilesOptions& options) {
  if (files.sink != nullptr) return misuse("write many parts to one sink", "sink", "files");
  if (files.compressed) return misuse("compress parts", "-Z", "plain parts");
  if (!options.bounds_path.empty() && options.by != PartitionFilesBy::range)
    return misuse("use bounds", "--bounds", "--by range");
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<PartitionFilesResult> {
    auto made = options_at_once(each, {.stable = true});  // equal keys go to one part
    if (!made) return std::unexpected(made.error());
    const files::PartitionFilesOptions partition{.files = std::move(*made),
                                                 .by = options.by,
                                                 .parts = options.parts,
                                                 .bounds_path = options.bounds_path,
                                                 .checksums = options.checksums};
    auto done = placed(files::partition_files(partition), partition.files);
    if (!done) return done;
    done->by = options.by;
    done->format = each.items.name;
    return done;
  });
}

Result<SliceFilesResult> slice_files(const FilesOptions& files, const SliceFilesOptions& options) {
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<SliceFilesResult> {
    auto made = files_options(each, {.stable = true});
    if (!made) return std::unexpected(made.error());
    const bool descending = api::is_reversed(each.items, made->format);
    const files::SliceOptions slices{
        .files = std::move(*made), .descending = descending, .slices = options};
    return placed(files::slice_files(slices), slices.files);
  });
}

Result<std::vector<uint32_t>> order_items(const ItemFormat& words, const std::string& header,
                                          const std::vector<std::string>& items) {
  return or_out_of_memory([&]() -> Result<std::vector<uint32_t>> {
    auto format = api::format_of(words, {.stable = true});
    if (format && !header.empty()) format = items::with_header(*format, header);
    if (!format) return std::unexpected(format.error());
    const items::ItemOrder order(*format, api::is_reversed(words, *format));
    std::vector<items::ItemKey> keys(items.size());
    std::vector<uint32_t> numbers;
    for (uint32_t i = 0; i < items.size(); ++i) {
      const std::string_view item = items::without_line_end(*format, items[i]);
      if (format->fixed() && item.size() != format->record_bytes)
        return misuse("order what is no item", "items", "items of the format");
      if (items::fault_of(*format, item)) continue;
      keys[i] = order.item_key(item);
      numbers.push_back(i);
    }
    std::ranges::stable_sort(numbers, [&](uint32_t a, uint32_t b) {
      if (keys[a].prefix != keys[b].prefix) return keys[a].prefix < keys[b].prefix;
      return !format->numeric() && order.compare_keys(keys[a].bytes, keys[b].bytes) < 0;
    });
    return numbers;
  });
}

Result<GroupFilesStats> group_files(const FilesOptions& files, const GroupFilesOptions& options) {
  if (options.threads == 0) return misuse("work with no thread", "--parallel", "--parallel 2");
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<GroupFilesStats> {
    auto made = options_at_once(each, {.stable = true});  // lines of equal keys are one group
    if (!made) return std::unexpected(made.error());
    const items::Format& format = made->format;
    if (auto fine = check_is_no_row(format, "group rows"); !fine)
      return std::unexpected(fine.error());
    if (format.fixed()) {
      if (!options.columns.empty())
        return misuse("take a column's values", "--value " + options.columns.front(),
                      "OFFSET:LENGTH");
      if (auto fine = check_key_lies_in_item(format, each.items, "group by such a key"); !fine)
        return std::unexpected(fine.error());
    }
    if (each.items.csv && each.items.keys.empty())
      return misuse("group rows without a column", "--csv", "--key COLUMN");
    files::GroupFilesOptions group{.files = std::move(*made),
                                   .aggregates = options.aggregates,
                                   .sorted = options.sorted,
                                   .top = options.top,
                                   .threads = options.threads};
    // Whole lines are grouped without a sort: results come in any order, with tabs.
    if (is_more_than_plain_lines(group.files.format) || !options.columns.empty()) {
      group.sorted = true;
      group.lines = {.separator = each.items.separator, .values = options.columns};
    } else if (options.top && options.sorted) {
      return misuse("find the highest counts", "--top", "--top without --sorted");
    }
    return placed(files::group_files(group), group.files);
  });
}

Result<JoinFilesStats> join_files(const FilesOptions& files, const JoinFilesOptions& options) {
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<JoinFilesStats> {
    auto made = options_at_once(each, {});
    if (!made) return std::unexpected(made.error());
    if (auto fine = check_is_no_row(made->format, "join rows"); !fine)
      return std::unexpected(fine.error());
    if (auto fine = check_key_lies_in_item(made->format, each.items, "join by such a key"); !fine)
      return std::unexpected(fine.error());
    ItemFormat right = each.items;
    if (options.right_record_bytes) right.record_bytes = options.right_record_bytes;
    if (options.right_key) right.keys = {*options.right_key};
    auto right_format = api::format_of(right);
    if (!right_format) return std::unexpected(right_format.error());
    return files::join_files({.files = std::move(*made),
                              .right = std::move(*right_format),
                              .descending = each.items.descending});
  });
}

Result<JoinLinesStats> join_lines(const FilesOptions& files, const JoinLinesOptions& options) {
  return api::with_callers(files, [&](const FilesOptions& each) -> Result<JoinLinesStats> {
    auto made = options_at_once(each, {});
    if (!made) return std::unexpected(made.error());
    if (!made->format.has_fields())
      return misuse("join such items by fields", "--format " + each.items.name, "--format lines");
    if (each.items.header_lines > 1)
      return misuse("join a header of several lines",
                    "--header=" + std::to_string(each.items.header_lines), "--header");
    auto locale = api::locale_of(each.items);
    if (!locale) return std::unexpected(locale.error());
    // Each side has its own order.
    made->format.keys = nullptr;
    made->format.columns = nullptr;
    files::JoinLinesOptions join{
        .files = std::move(*made),
        .keys = options.keys,
        .separator = each.items.separator,
        .letters = std::string(options.ignore_case ? "f" : "") + (each.items.descending ? "r" : ""),
        .locale = std::move(*locale),
        .pairs = options.pairs,
        .alone = options.alone,
        .list = options.list,
        .empty = options.empty};
    if (!options.inputs_sorted) {
      join.sort = [&](size_t side, const items::Format& format) {
        return sorted_copy(files::with_input(join.files, side), format);
      };
    }
    return placed(files::join_lines(join), join.files);
  });
}

}  // namespace penstock
