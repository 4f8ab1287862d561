// The operations of penstock/files.h: public options are converted to internal ones.

#include "penstock/files.h"

#include <algorithm>
#include <chrono>
#include <random>

#include "base/misuse.h"
#include "base/out_of_memory.h"
#include "base/run_scope.h"
#include "files/ops/check/check_input.h"
#include "files/ops/draw/draw_files.h"
#include "files/ops/draw/split_files.h"
#include "files/ops/group/group_files.h"
#include "files/ops/join/join_files.h"
#include "files/ops/join/join_lines.h"
#include "files/ops/merge/merge_files.h"
#include "files/ops/partition/partition_files.h"
#include "files/ops/partition/slice_files.h"
#include "files/run/keep.h"
#include "files/run/memory_plan.h"
#include "files/run/walk.h"
#include "interfaces/api/binary_input.h"
#include "interfaces/api/callers.h"
#include "interfaces/api/file_check.h"
#include "interfaces/api/item_format.h"
#include "interfaces/api/option_names.h"
#include "interfaces/api/options.h"
#include "interfaces/api/shuffle.h"

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
  if (!given.source.encoding.empty() && format->framing().check_text == nullptr &&
      !format->has_line_ends())
    return misuse("read items that are no text in an encoding",
                  "--encoding " + given.source.encoding, "a format of text");
  const bool descending = api::is_reversed(given.items, *format);
  files::FilesOptions made{given, std::move(*format), descending};
  made.progress = outside(given.progress);
  made.notice = outside(given.notice);
  return made;
}

// Runs work(options) and gives notices about odd items (files/run/odd_items.h). Without
// FilesOptions::notice they are not counted.
template <class Options, class Work>
auto counting_odd_items(Options& options, Work work) -> decltype(work()) {
  files::FilesOptions& all = options;
  if (all.notice) all.odd_items = std::make_shared<files::OddItems>(!files::leaves_rows_out(all));
  auto done = work();
  if (done && all.odd_items != nullptr) api::note_odd_items(*all.odd_items, all);
  return done;
}

// Options of operations that open all inputs at once.
Result<files::FilesOptions> options_at_once(const FilesOptions& given,
                                            const api::ItemRules& rules) {
  if (std::ranges::count(given.inputs, "-") > 1) return misuse("read it twice", "-", "one -");
  return files_options(given, rules);
}

// The result of a run over these files; a malformed row's error gets the row's place.
template <class Done>
Result<Done> placed(Result<Done> done, const files::FilesOptions& files, bool merges = false) {
  if (done) return done;
  return std::unexpected(files::with_place(done.error(), files, merges));
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

// Fails for operations whose inputs or outputs have columns of their own.
Status check_takes_columns(const FilesOptions& files) {
  if (files.columns != ColumnRule::equal)
    return misuse("order the columns of such inputs", "--columns", "a sort first");
  if (!files.select.empty())
    return misuse("select columns of such an output", "--select", "a sort first");
  return {};
}

// Runs work(options) whose output is sorted, and keeps the items that `keep` names. Work returns the
// statistics of the run.
template <class Options, class Work>
auto keeping(Keep keep, std::optional<uint64_t> top, Options options, Work work)
    -> decltype(work(options)) {
  if (keep == Keep::first) return work(options);
  auto kept = std::make_shared<files::KeepSink>(options.sink, options.order(), keep, top);
  options.sink = kept;
  auto done = work(options);
  if (!done) return done;
  done->items = kept->items();
  done->bytes = kept->bytes_passed_on();
  done->bytes_written -= kept->bytes_taken() - kept->bytes_passed_on();
  return done;
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
  // A KeepSink finds the items to keep after a stable sort.
  const bool filters = options.keep != Keep::first;
  auto made = files_options(files, {.stable = options.stable || filters,
                                    .unique = options.unique && !filters,
                                    .repeatable = options.resume});
  if (!made) return std::unexpected(made.error());
  external::SortOptions sort{std::move(*made), options};
  // Strings that are equal in a locale may differ, and keep their order.
  sort.stable = options.stable || filters || files.items.locale.has_value();
  if (!filters) return sort;
  sort.unique = false;
  sort.top.reset();
  return sort;
}

Result<SortPlan> plan_sort_files(const FilesOptions& given, const SortFilesOptions& options) {
  return api::called_with<SortFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<SortPlan> {
        if (!files.sources.empty())
          return failure(ErrorCode::unsupported, "plan for what can be read once", "a source",
                         "a file");
        const RunScope scope(files::run_state(files));
        auto sort = api::sort_options(files, options);
        if (!sort) return std::unexpected(sort.error());
        // (How many rows are left out is not known before they are read.)
        if (Status fine = files::BadRows::check(files, sort->format); !fine)
          return std::unexpected(fine.error());
        return api::or_interrupted(external::plan_sort(*sort), files);
      });
}

Result<SortStats> sort_files(const FilesOptions& given, const SortFilesOptions& options) {
  return api::called_with<SortFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<SortStats> {
        if (files.compressed && options.resume)
          return misuse("go on with an output that is compressed", "-Z --resume",
                        "--resume -o FILE, and then penstock cat -Z FILE -o FILE.gz");
        if (options.resume && files::leaves_rows_out(files))
          return misuse("go on with inputs whose rows were left out", "--bad-rows --resume",
                        "one of them");
        const bool filters = options.keep != Keep::first;
        if (filters && (options.resume || options.verify))
          return misuse("keep other items than the first",
                        options.resume ? "--keep --resume" : "--keep --verify", "one of the two");
        if ((options.resume || options.verify) &&
            (files.columns != ColumnRule::equal || !files.select.empty()))
          return misuse("do that with columns that change on the way",
                        options.resume ? "--resume" : "--verify", "no --columns and no --select");
        return api::with_callers(
            files,
            [&](const FilesOptions& each) -> Result<SortStats> {
              auto sort = api::sort_options(each, options);
              if (!sort) return std::unexpected(sort.error());
              return counting_odd_items(*sort, [&] {
                return keeping(
                    options.keep, options.top, *sort, [](const external::SortOptions& keeps) {
                      return placed(external::sort_files(keeps), keeps, keeps.merge_only);
                    });
              });
            },
            filters);
      });
}

Result<SortStats> top_items(const FilesOptions& given, uint64_t count,
                            const SortFilesOptions& options) {
  SortFilesOptions top = options;
  top.top = count;
  return sort_files(given, top);
}

Result<FileCheck> check_file(const FilesOptions& given, unsigned threads) {
  return api::called_with<FilesOptions>(given, [&](const FilesOptions& files) -> Result<FileCheck> {
    if (files.inputs.size() + files.sources.size() != 1)
      return misuse("check other than one file", "check", "one run for each file");
    if (auto fine = check_takes_columns(files); !fine) return std::unexpected(fine.error());
    if (threads == 0) return misuse("work with no thread", "--parallel", "--parallel 2");
    // Equal keys are duplicates, not disorder.
    const auto format = api::format_of(files.items, {.stable = true});
    if (!format) return std::unexpected(format.error());
    if (Status fine = api::refuse_binary(files); !fine) return std::unexpected(fine.error());
    const auto begin = std::chrono::steady_clock::now();
    FilesOptions given = files;
    // No budget, only its reserve. It limits nothing but the rows of a filter.
    if (files.bad_rows.empty()) given.memory_bytes = files::files_memory_bytes_min;
    return api::with_callers(given, [&](const FilesOptions& each) -> Result<FileCheck> {
      files::FilesOptions all{each, *format};
      const items::CheckOptions order{*format, api::is_reversed(files.items, *format)};
      const auto done = counting_odd_items(all, [&] {
        return placed(files::check_input(all, {.check = order, .threads = threads}), all);
      });
      if (!done) return std::unexpected(done.error());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
      FileCheck check = api::file_check_of(*done);
      check.seconds = elapsed.count();
      return check;
    });
  });
}

Result<MergeFilesStats> merge_files(const FilesOptions& given, const MergeFilesOptions& options) {
  return api::called_with<MergeFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<MergeFilesStats> {
        const bool filters = options.keep != Keep::first;
        return api::with_callers(
            files,
            [&](const FilesOptions& each) -> Result<MergeFilesStats> {
              const bool unique = options.unique && !filters;
              auto made =
                  options_at_once(each, {.stable = options.stable || filters, .unique = unique});
              if (!made) return std::unexpected(made.error());
              files::MergeFilesOptions all{std::move(*made), unique};
              return counting_odd_items(all, [&] {
                return keeping(options.keep, {}, all, [](const files::MergeFilesOptions& merge) {
                  return placed(files::merge_files(merge), merge, true);
                });
              });
            },
            filters);
      });
}

Result<PartitionFilesResult> partition_files(const FilesOptions& given,
                                             const PartitionFilesOptions& options) {
  return api::called_with<PartitionFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<PartitionFilesResult> {
        if (auto fine = check_takes_columns(files); !fine) return std::unexpected(fine.error());
        if (files.sink != nullptr) return misuse("write many parts to one sink", "sink", "files");
        if (files.compressed) return misuse("compress parts", "-Z", "plain parts");
        if (!options.bounds_path.empty() && options.by != PartitionFilesBy::range)
          return misuse("use bounds", "--bounds", "--by range");
        return api::with_callers(
            files, [&](const FilesOptions& each) -> Result<PartitionFilesResult> {
              auto made = options_at_once(each, {.stable = true});  // equal keys go to one part
              if (!made) return std::unexpected(made.error());
              files::PartitionFilesOptions partition{.files = std::move(*made),
                                                     .by = options.by,
                                                     .parts = options.parts,
                                                     .bounds_path = options.bounds_path,
                                                     .checksums = options.checksums};
              auto done = counting_odd_items(partition.files, [&] {
                return placed(files::partition_files(partition), partition.files);
              });
              if (!done) return done;
              done->by = options.by;
              done->format = each.items.name;
              return done;
            });
      });
}

Result<SliceFilesResult> slice_files(const FilesOptions& given, const SliceFilesOptions& options) {
  return api::called_with<SliceFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<SliceFilesResult> {
        if (auto fine = check_takes_columns(files); !fine) return std::unexpected(fine.error());
        return api::with_callers(files, [&](const FilesOptions& each) -> Result<SliceFilesResult> {
          auto made = files_options(each, {.stable = true});
          if (!made) return std::unexpected(made.error());
          const bool descending = api::is_reversed(each.items, made->format);
          const files::SliceOptions slices{
              .files = std::move(*made), .descending = descending, .slices = options};
          return placed(files::slice_files(slices), slices.files);
        });
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

Result<GroupFilesStats> group_files(const FilesOptions& given, const GroupFilesOptions& options) {
  return api::called_with<GroupFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<GroupFilesStats> {
        if (options.threads == 0)
          return misuse("work with no thread", "--parallel", "--parallel 2");
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
            if (!options.results.empty())
              return misuse("take a column of binary items", "--" + options.results.front(),
                            "--sum, --min or --max with --value OFFSET:LENGTH");
            if (auto fine = check_key_lies_in_item(format, each.items, "group by such a key");
                !fine)
              return std::unexpected(fine.error());
          }
          const bool total =
              each.items.keys.empty() &&
              (each.items.csv || format.framing().has_members || !options.results.empty());
          if (total && options.aggregates.distinct)
            return misuse("find the first row of each key without a key", "--distinct",
                          "--key COLUMN");
          if (options.in_order) {
            const bool aggregates = !options.columns.empty() || !options.results.empty();
            const char* const with = format.fixed()   ? "binary items"
                                     : options.top    ? "--top"
                                     : options.sorted ? "--sorted"
                                     : aggregates     ? "results of columns"
                                                      : nullptr;
            if (with != nullptr)
              return misuse("keep the order of the input with " + std::string(with), "--in-order",
                            "lines, CSV or JSON lines with --distinct or --count");
          }
          files::GroupFilesOptions group{.files = std::move(*made),
                                         .aggregates = options.aggregates,
                                         .sorted = options.sorted,
                                         .in_order = options.in_order && !total,
                                         .top = options.top,
                                         .threads = options.threads};
          // Whole lines are grouped without a sort: results come in any order, with tabs.
          if (total || is_more_than_plain_lines(group.files.format) || !options.columns.empty()) {
            group.sorted = !group.in_order;
            group.lines = {.separator = each.items.separator,
                           .values = options.columns,
                           .results = options.results,
                           .number_format = each.items.number_format,
                           .total = total};
          } else if (options.top && options.sorted) {
            return misuse("find the highest counts", "--top", "--top without --sorted");
          }
          group.lines.positions = group.in_order;
          return counting_odd_items(group.files,
                                    [&] { return placed(files::group_files(group), group.files); });
        });
      });
}

Result<JoinFilesStats> join_files(const FilesOptions& given, const JoinFilesOptions& options) {
  return api::called_with<JoinFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<JoinFilesStats> {
        if (auto fine = check_takes_columns(files); !fine) return std::unexpected(fine.error());
        return api::with_callers(files, [&](const FilesOptions& each) -> Result<JoinFilesStats> {
          auto made = options_at_once(each, {});
          if (!made) return std::unexpected(made.error());
          if (auto fine = check_is_no_row(made->format, "join rows"); !fine)
            return std::unexpected(fine.error());
          if (auto fine = check_key_lies_in_item(made->format, each.items, "join by such a key");
              !fine)
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
      });
}

Result<JoinLinesStats> join_lines(const FilesOptions& given, const JoinLinesOptions& options) {
  return api::called_with<JoinLinesOptions>(
      given, [&](const FilesOptions& files) -> Result<JoinLinesStats> {
        if (auto fine = check_takes_columns(files); !fine) return std::unexpected(fine.error());
        return api::with_callers(files, [&](const FilesOptions& each) -> Result<JoinLinesStats> {
          auto made = options_at_once(each, {});
          if (!made) return std::unexpected(made.error());
          if (!made->format.has_fields())
            return misuse("join such items by fields", "--format " + each.items.name,
                          "--format lines");
          if (each.items.header_lines > 1)
            return misuse("join a header of several lines",
                          "--header=" + std::to_string(each.items.header_lines), "--header");
          const auto& csv = made->format.csv;
          if (csv && csv->is_by_line() &&
              options.empty.find_first_of(std::string{csv->separator, '\n', '\r'}) !=
                  std::string::npos)
            return misuse("write this text in a field without quotes", "-e " + options.empty,
                          "another text, or --escape");
          auto locale = api::locale_of(each.items);
          if (!locale) return std::unexpected(locale.error());
          // Each side has its own order.
          made->format.keys = nullptr;
          made->format.columns = nullptr;
          files::JoinLinesOptions join{.files = std::move(*made),
                                       .keys = options.keys,
                                       .separator = each.items.separator,
                                       .letters = std::string(options.ignore_case ? "f" : "") +
                                                  (each.items.descending ? "r" : ""),
                                       .locale = std::move(*locale),
                                       .time_format = each.items.time_format,
                                       .number_format = each.items.number_format,
                                       .kinds = {options.pairs, options.alone, options.first_only},
                                       .list = options.list,
                                       .empty = options.empty};
          if (!options.inputs_sorted) {
            join.sort = [&](size_t side, const items::Format& format) {
              return sorted_copy(files::with_input(join.files, side), format);
            };
          }
          return counting_odd_items(join.files,
                                    [&] { return placed(files::join_lines(join), join.files); });
        });
      });
}

namespace {

// Makes options of the files, and the error of a row that draw(options) returns one with a place.
template <class Draw>
auto drawn(const FilesOptions& files, Draw draw) {
  using Done = decltype(draw(std::declval<const files::FilesOptions&>()));
  return api::with_callers(files, [&](const FilesOptions& each) -> Done {
    auto made = options_at_once(each, {});
    if (!made) return std::unexpected(made.error());
    return counting_odd_items(*made, [&] { return placed(draw(*made), *made); });
  });
}

uint64_t seed_of(const DrawFilesOptions& options) {
  if (options.seed) return *options.seed;
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

Result<DrawFilesStats> head_files(const FilesOptions& given, const DrawFilesOptions& options) {
  return api::called_with<DrawFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<DrawFilesStats> {
        constexpr uint64_t usual_count = 10;
        return drawn(files, [&](const files::FilesOptions& made) {
          return files::first_items(made, options.count.value_or(usual_count));
        });
      });
}

Result<DrawFilesStats> sample_files(const FilesOptions& given, const DrawFilesOptions& options) {
  return api::called_with<DrawFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<DrawFilesStats> {
        if (!options.count) return misuse("draw an unknown number of items", "--count", "-n 1000");
        return drawn(files, [&](const files::FilesOptions& made) {
          return files::sample_items(made, *options.count, seed_of(options));
        });
      });
}

Result<DrawFilesStats> shuffle_files(const FilesOptions& given, const DrawFilesOptions& options) {
  return api::called_with<DrawFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<DrawFilesStats> {
        if (options.threads == 0)
          return misuse("work with no thread", "--parallel", "--parallel 2");
        DrawFilesOptions seeded = options;
        seeded.seed = seed_of(options);
        return drawn(files, [&](const files::FilesOptions& made) {
          return options.count == 0u ? files::first_items(made, 0)
                                     : api::shuffle_items(made, seeded);
        });
      });
}

Result<SplitFilesResult> split_files(const FilesOptions& given, const SplitFilesOptions& options) {
  return api::called_with<SplitFilesOptions>(
      given, [&](const FilesOptions& files) -> Result<SplitFilesResult> {
        if (files.sink != nullptr) return misuse("write many parts to one sink", "sink", "files");
        if (files.compressed) return misuse("compress parts", "-Z", "plain parts");
        if (options.items && options.bytes)
          return misuse("limit both", "--lines --bytes", "one of them");
        if (!options.items && !options.bytes)
          return misuse("split into parts of an unknown size", "--lines",
                        "--lines 1000000, or --bytes 1G");
        if (options.items == 0u) return misuse("make parts of 0 items", "--lines 0", "1 or more");
        if (options.bytes == 0u) return misuse("make parts of 0 bytes", "--bytes 0", "--bytes 1G");
        return drawn(files, [&](const files::FilesOptions& made) {
          return files::split_files(made, options);
        });
      });
}

}  // namespace penstock
