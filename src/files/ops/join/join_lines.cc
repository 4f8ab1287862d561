#include "files/ops/join/join_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/amounts.h"
#include "base/bits.h"
#include "base/misuse.h"
#include "files/bowtie/addresses.h"
#include "files/ops/join/field_list.h"
#include "files/ops/join/join_sides.h"
#include "files/ops/join/join_table.h"
#include "files/ops/join/line_writer.h"
#include "files/ops/merge/merge_files.h"
#include "files/run/file_run.h"
#include "files/run/memory_plan.h"
#include "items/fields.h"
#include "items/keys/json_order.h"
#include "items/keys/text/text_order.h"

namespace penstock::files {
namespace {

using bowtie::Streams;

// The order of a side.
Result<items::Format> format_of_side(const JoinLinesOptions& options, size_t side) {
  items::Format format = options.files.format;
  const items::FieldStyle style = items::style_of(format, options.separator);
  items::TextOptions text{.letters = options.letters,
                          .separator = style.separator,
                          .stable = true,
                          .locale = options.locale,
                          .time_format = options.time_format,
                          .number_format = options.number_format,
                          .csv = style.csv};
  for (const std::string& key : options.keys[side == 0 ? 0 : 1]) {
    // A field counts without the blanks in front of it, a column as it is.
    const char* const blanks = text.separator ? "" : "b";
    const bool is_whole = text.csv || format.framing().has_members;
    const size_t word = std::min(key.find(':'), key.size());  // the colon of "2:ip"
    text.keys.push_back(is_whole ? key
                                 : fmt::format("{0}{1},{0}{2}{3}", key.substr(0, word), blanks,
                                               options.letters, key.substr(word)));
  }
  if (text.csv && format.header_lines > 0) {
    format.columns = std::make_shared<const items::TextOptions>(std::move(text));
    return format;
  }
  auto order = format.framing().order(text);
  if (!order) return std::unexpected(order.error());
  format.keys = *order;
  return format;
}

// Checks and measures a file; a pipe counts as unsorted, because it cannot be read twice.
Result<bool> is_sorted(const JoinLinesOptions& options, size_t side, const items::Format& format,
                       ItemsMeasure& beginning) {
  if (!is_named_file(options.files, side)) return false;
  MergeFilesOptions look;
  static_cast<FilesOptions&>(look) = with_input(options.files, side);
  look.format = format;
  look.descending = false;  // the keys are, if they are
  auto found = find_disorder(look, false, &beginning);
  if (!found) return std::unexpected(found.error());
  return !*found;
}

// The keys of a side; nullptr if it has none, because it is empty and lacks its header.
const std::vector<items::TextKey>* keys_of(const SideHead& side) {
  const items::KeyOrder* const order = side.format.keys.get();
  if (order == nullptr) return nullptr;
  if (side.format.framing().has_members)
    return &static_cast<const items::JsonOrder&>(*order).keys();
  return &static_cast<const items::TextOrder&>(*order).keys();
}

bool compare_alike(const items::TextKey& a, const items::TextKey& b) {
  return a.compare == b.compare && a.only_letters == b.only_letters &&
         a.only_printable == b.only_printable && a.ignores_case == b.ignores_case &&
         a.reverse == b.reverse;
}

// Checks that equal keys have the same bytes on all sides.
Status check_keys(const std::vector<SideHead>& sides) {
  const std::vector<items::TextKey>* first = nullptr;
  for (const SideHead& side : sides) {
    const std::vector<items::TextKey>* const keys = keys_of(side);
    if (first == nullptr) first = keys;
    if (keys == nullptr || keys == first) continue;
    if (first->size() != keys->size())
      return misuse("join by more keys on one side", "join", "as many keys for all files");
    if (!std::ranges::equal(*first, *keys, compare_alike))
      return misuse("join keys that compare in different ways", "join",
                    "the same letters for all files, as in -1 id:n -2 user:n");
  }
  return {};
}

// Checks that a pass over so many files fits. (Of two files there is always room for the streams.)
Status check_streams(const FilesOptions& files, uint64_t usable_bytes, uint64_t stream_bytes) {
  const size_t count = input_count(files);
  const uint64_t needed_bytes = ceil_div((count + 1) * stream_bytes * 4, uint64_t{3});
  if (count == 2 || needed_bytes <= usable_bytes) return {};
  return too_small_budget(
      fmt::format("join {} files within {}", count, budget_text(files.memory_bytes)),
      files.memory_bytes, needed_bytes - usable_bytes);
}

// Checks the kind of the join, and the options of the output.
Status check_output(const JoinLinesOptions& options) {
  const JoinKinds& kinds = options.kinds;
  const size_t sides = input_count(options.files);
  const bool is_by_side = !kinds.pairs || (kinds.alone[1] && !kinds.alone[0]);
  if (sides > 2 && is_by_side && !kinds.first_only)
    return misuse("join " + counted(sides, "file"), kinds.pairs ? "--right (-a 2)" : "-v",
                  "--left, --full, --semi or --anti");
  const bool is_auto = options.list == "auto";
  if (options.files.format.framing().has_members &&
      !(options.list.empty() && options.empty.empty()))
    return misuse("choose members of JSON lines",
                  options.list.empty() ? "-e" : "-o " + options.list,
                  fmt::format("jq for the result, which is {{\"{}\":OBJECT,\"{}\":OBJECT}}",
                              sides > 2 ? "1" : "left", sides > 2 ? "2" : "right"));
  if (kinds.first_only && (is_auto || (options.list.empty() && !options.empty.empty())))
    return misuse("change lines that are written as they are", is_auto ? "-o auto" : "-e",
                  "-o LIST, the fields of the first file to write");
  if (is_auto || options.list.empty()) return {};
  const auto list = fields_of_list(options.list, sides);
  if (!list) return no_field_list(options.list);
  for (const ListedField& field : *list) {
    if (kinds.first_only && field.side.value_or(0) > 0)
      return misuse("write a field of another file than the first",
                    fmt::format("-o {}.{}", *field.side + 1, field.name), "0, or 1.FIELD");
  }
  return {};
}

// Joins by a table. Returns empty if the sides do not fit, or cannot be read: a sort finds the place of
// an error.
Result<std::optional<JoinLinesStats>> join_by_table(const JoinLinesOptions& options,
                                                    const std::vector<items::Format>& formats,
                                                    const std::vector<ItemsMeasure>& beginnings,
                                                    uint32_t sorted_inputs) {
  for (size_t side = 0; side < formats.size(); ++side) {
    if (!is_named_file(options.files, side)) return std::nullopt;
  }
  FileRun run(options.files, "join");
  if (auto status = run.start({.formats = formats, .own_headers = true}); !status)
    return std::nullopt;
  JoinTable table(options, formats, beginnings, run);
  const auto fits = table.read();
  if (!fits || !*fits) {
    // The sorts count again.
    for (size_t side = 0; options.files.odd_items != nullptr && side < formats.size(); ++side)
      options.files.odd_items->forget(input_name(options.files, side));
    return std::nullopt;
  }
  if (auto fine = check_keys(table.heads()); !fine) return std::unexpected(fine.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  JoinLinesStats stats;
  stats.sorted_inputs = sorted_inputs;
  const std::vector<std::optional<FirstRow>> first_rows(formats.size());
  std::optional<LongRow> long_row;
  // The size of products has no known bound.
  auto status = run.pass(
      {}, {{.file = &*output, .bytes_max = bowtie::stream_address_bytes()}},
      [&](Streams& streams) -> Status {
        const auto writer =
            line_writer(options, {streams.output(0), first_rows, stats.items, long_row});
        if (auto begun = writer->begin(table.heads()); !begun) return begun;
        return table.write(*writer);
      },
      {.items = options.files.format, .memory_bytes = table.pass_bytes(), .phase = "join"});
  if (long_row) return refuse_long_row(*long_row, options.files);
  if (!status) return std::unexpected(status.error());
  if (status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace

Result<JoinLinesStats> join_lines(const JoinLinesOptions& options) {
  const FilesOptions& files = options.files;
  const size_t count = input_count(files);
  if (count < 2) return misuse("join " + counted(count, "file"), "join", "two files or more");
  if (options.keys[0].size() != options.keys[1].size())
    return misuse("join by more keys on one side", "join", "as many keys for all files");
  if (auto fine = check_output(options); !fine) return std::unexpected(fine.error());
  FileRun run(files, "join");
  Status status =
      check_streams(files, usable_memory(files.memory_bytes), 2 * stream_bytes_min(files.format));
  if (!status) return std::unexpected(status.error());
  JoinLinesStats stats;
  std::vector<items::Format> formats;
  std::vector<bool> in_order;
  std::vector<ItemsMeasure> beginnings(count);
  std::vector<std::optional<SortedCopy>> sorted(count);
  std::vector<std::optional<FirstRow>> first_rows(count);
  std::vector<std::optional<const io::File*>> instead(count);
  for (size_t side = 0; side < count; ++side) {
    auto format = format_of_side(options, side);
    if (!format) return std::unexpected(format.error());
    formats.push_back(*format);
    auto sorted_already = options.sort ? is_sorted(options, side, *format, beginnings[side]) : true;
    if (!sorted_already) return std::unexpected(sorted_already.error());
    in_order.push_back(*sorted_already);
    stats.sorted_inputs += !*sorted_already;
  }
  if (stats.sorted_inputs > 0) {
    auto joined = join_by_table(options, formats, beginnings, stats.sorted_inputs);
    if (!joined) return std::unexpected(joined.error());
    if (*joined) return **joined;
  }
  for (size_t side = 0; side < count; ++side) {
    if (in_order[side]) continue;
    auto copy = options.sort(side, formats[side]);
    if (!copy) return std::unexpected(copy.error());
    sorted[side] = std::move(*copy);
    instead[side] = &sorted[side]->file;
    first_rows[side] = first_row_of(*sorted[side], formats[side]);
    if (auto size = sorted[side]->file.size(); size) run.count_temporary_bytes(*size);
  }
  status = run.start(
      {.formats = formats, .instead = instead, .own_headers = true, .inputs_at_once = count});
  if (!status) return std::unexpected(status.error());
  status = check_streams(files, run.usable_bytes(), run.planned_stream_bytes());
  if (!status) return std::unexpected(status.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  std::optional<LongRow> long_row;
  const uint64_t usable = run.usable_bytes();
  const bool known = run.input_bytes() != bowtie::unknown_bytes;
  if (!run.inputs().empty()) {
    status = run.pass(
        // The size of products has no known bound.
        run.inputs(), {{.file = &*output, .bytes_max = bowtie::stream_address_bytes()}},
        [&](Streams& streams) -> Status {
          std::vector<JoinSide> sides;
          sides.reserve(count);
          for (size_t side = 0; side < count; ++side) {
            sides.emplace_back(streams, run.places()[side], formats[side], false,
                               run.headers()[side], input_name(files, side),
                               instead[side] ? nullptr : files.odd_items.get(),
                               instead[side].has_value());
            if (auto started = sides.back().start(); !started) return started;
          }
          if (auto fine = check_keys(heads_of(sides)); !fine) return fine;
          const auto writer =
              line_writer(options, {streams.output(0), first_rows, stats.items, long_row});
          return join_sides(sides, *writer, options.kinds,
                            {.bytes_max = (usable / 4 - line_writer_bytes) / count});
        },
        {.items = files.format,
         .memory_bytes = usable - usable / 4,
         .phase = "join",
         .total_bytes = known ? 2 * run.input_bytes() : 0});
    if (long_row) return refuse_long_row(*long_row, files);
    if (!status) return std::unexpected(status.error());
  }
  if (status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace penstock::files
