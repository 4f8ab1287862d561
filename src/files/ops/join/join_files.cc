#include "files/ops/join/join_files.h"

#include <algorithm>

#include "base/amounts.h"
#include "base/misuse.h"
#include "files/bowtie/addresses.h"
#include "files/ops/join/join_sides.h"
#include "files/run/file_run.h"

namespace penstock::files {
namespace {

using bowtie::OutputStream;
using bowtie::Streams;

bool same_keys(const items::Format& left, const items::Format& right) {
  auto kind = [](items::Type type) { return type == items::Type::kv64 ? items::Type::u64 : type; };
  return kind(left.type) == kind(right.type) && left.key_bytes == right.key_bytes;
}

// Writes each pair as one item: the left item, then the right one without its key. (A line has
// nothing else.)
class ItemWriter final : public JoinWriter {
 public:
  ItemWriter(const items::Format& left, OutputStream& output, uint64_t* items)
      : left_(left), output_(output), items_(items) {}

  std::string_view piece_of(const JoinSide& right) override {
    if (!right.format().fixed()) return {};
    const std::string_view item = right.item();
    const std::string_view key = key_of(right.format(), item);
    const auto head = static_cast<size_t>(key.data() - item.data());
    rest_.assign(item.substr(0, head)).append(item.substr(head + key.size()));
    return rest_;
  }

  Status write(JoinRow row) override {
    const std::string_view left = *row[0], right = *row[1];
    const bool lacks_newline = items::lacks_line_end(left_, left);
    const bool written = bowtie::append(output_, left) &&
                         (!lacks_newline || bowtie::append(output_, "\n")) &&
                         (right.empty() || bowtie::append(output_, right));
    if (!written) return output_.status();
    ++*items_;
    return {};
  }

 private:
  const items::Format& left_;
  OutputStream& output_;
  uint64_t* items_;
  std::string rest_;
};

// Reads a side whose other side is empty: nothing is joined, but disorder is an error.
bowtie::Computation look_at_order(const items::Format& format, bool descending) {
  return [=](Streams& streams) -> Status {
    JoinSide side(streams, 0, format, descending);
    if (auto status = side.start(); !status) return status;
    return side.go_to_end();
  };
}

}  // namespace

Result<items::Format> joined_format(const items::Format& left, const items::Format& right) {
  if (!same_keys(left, right)) {
    return failure(ErrorCode::invalid_argument, "join keys of different kinds or lengths", "join",
                   "the same --format on both sides, with keys of as many bytes");
  }
  items::Format joined = left;
  if (left.fixed()) joined.record_bytes += right.record_bytes - right.key_bytes;
  return joined;
}

bowtie::Computation merge_join(const items::Format& left, const items::Format& right,
                               bool descending, uint64_t group_bytes_max, uint64_t* items) {
  return [=](Streams& streams) -> Status {
    if (streams.inputs() != 2 || streams.outputs() != 1) {
      return failure(ErrorCode::invalid_argument, "join other than two inputs to one output",
                     "join");
    }
    std::vector<JoinSide> sides;
    sides.emplace_back(streams, 0, left, descending);
    sides.emplace_back(streams, 1, right, descending);
    for (JoinSide& side : sides) {
      if (auto status = side.start(); !status) return status;
    }
    ItemWriter writer(left, streams.output(0), items);
    // Numbers and records have one size; of lines nothing is held.
    return join_sides(sides, writer, {}, {.bytes_max = group_bytes_max, .equal_sizes = true});
  };
}

Result<JoinFilesStats> join_files(const JoinFilesOptions& options) {
  const FilesOptions& files = options.files;
  if (input_count(files) != 2) {
    return misuse("join " + counted(input_count(files), "file"), "join", "two files");
  }
  auto joined = joined_format(files.format, options.right);
  if (!joined) return std::unexpected(joined.error());

  FileRun run(files, "join");
  if (auto status = run.start({.formats = {files.format, options.right}, .inputs_at_once = 2});
      !status)
    return std::unexpected(status.error());
  auto output = run.open_output();
  if (!output) return std::unexpected(output.error());
  JoinFilesStats stats;
  const uint64_t usable = run.usable_bytes();
  const bool known = run.input_bytes() != bowtie::unknown_bytes;
  // An empty side joins with nothing.
  if (run.inputs().size() == 1) {
    const items::Format& format = run.places()[0] ? files.format : options.right;
    auto status = run.pass(run.inputs(), {}, look_at_order(format, options.descending),
                           {.items = format,
                            .memory_bytes = usable - usable / 4,
                            .phase = "join",
                            .total_bytes = known ? run.input_bytes() : 0});
    if (!status) return std::unexpected(status.error());
  }
  if (run.inputs().size() == 2) {
    PassItems all = *joined;
    all.fixed_bytes =
        all.fixed_bytes == 0 ? 0 : std::max(all.fixed_bytes, options.right.record_bytes);
    all.cross_blocks = true;
    auto status = run.pass(
        // The size of products has no known bound.
        run.inputs(), {{.file = &*output, .bytes_max = bowtie::stream_address_bytes()}},
        merge_join(files.format, options.right, options.descending, usable / 8, &stats.items),
        {.items = all,
         .memory_bytes = usable - usable / 4,
         .phase = "join",
         .total_bytes = known ? 2 * run.input_bytes() : 0});
    if (!status) return std::unexpected(status.error());
  }
  if (auto status = run.finish(*output, stats); !status) return std::unexpected(status.error());
  return stats;
}

}  // namespace penstock::files
