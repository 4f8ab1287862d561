#include "files/join_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bowtie/addresses.h"
#include "files/file_run.h"

// The merge-join. Both sides are read in step: the one whose key comes first goes on, and where the
// keys are equal the product of the two groups is written.
//
// One of two groups has to be held, because the other is gone over once for each of its items. The
// right one is held as it is read; when it grows beyond its room, the left one is held instead, if
// that fits: the product of all left items with the right ones held so far is written, these are
// let go, and from there on each right item meets all left ones as it comes. So only a key that is
// too frequent on both sides at once is an error; its product would seldom be what anybody wants.
//
// Where one side has ended no more pairs come, but the other is read to its end: pairs may have
// been missed because it is not in order, and only its end tells.
//
// What is held of an item is of one size within a group: of numbers and records because they are,
// of lines because the whole line is the key. So a group is an array, or, of what has nothing but a
// key, a number.

namespace penstock::files {
namespace {

using bowtie::ItemReader;
using bowtie::OutputStream;
using bowtie::Streams;
using record::ItemOrder;

bool same_keys(const record::Format& left, const record::Format& right) {
  auto kind = [](record::Type type) {
    return type == record::Type::kv64 ? record::Type::u64 : type;
  };
  return kind(left.type) == kind(right.type) && left.key_bytes == right.key_bytes;
}

// One sorted input. Invariant: prefix() and key() are of the present item.
class Side {
 public:
  Side(Streams& streams, uint32_t input, const record::Format& format, bool descending)
      : input_(input),
        order_(format, descending),
        reader_(streams.input(input), format, streams.window_bytes_max()) {}

  Status next() {
    if (items_ > 0) before_.set(order_, prefix_, reader_.item());
    if (!reader_.next()) return reader_.status();
    prefix_ = order_.prefix(reader_.item());
    ++items_;
    if (!before_.any() || before_.compare(order_, prefix_, reader_.item()) <= 0) return {};
    return failure(ErrorCode::unsorted,
                   fmt::format("join: item {} is not in order ({})", items_,
                               printable_key(order_.format(), item())),
                   fmt::format("input {}", input_), "penstock sort");
  }
  Status go_to_end() {
    while (!done()) {
      if (auto status = next(); !status) return status;
    }
    return {};
  }

  bool done() const { return reader_.done(); }
  uint64_t prefix() const { return prefix_; }
  std::string_view item() const { return reader_.item(); }
  std::string_view key() const { return key_of(order_.format(), reader_.item()); }
  const ItemOrder& order() const { return order_; }
  const record::Format& format() const { return order_.format(); }

 private:
  uint32_t input_;
  ItemOrder order_;
  ItemReader reader_;
  uint64_t prefix_ = 0;
  record::LastItem before_;
  uint64_t items_ = 0;  // up to the present one
};

// Equal pieces side by side. `pieces_` counts those that have no bytes, too.
class Group {
 public:
  explicit Group(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  void clear(size_t piece_bytes) {
    piece_bytes_ = piece_bytes;
    count_ = 0;
    data_.clear();
  }
  bool has_room() const { return data_.size() + piece_bytes_ <= bytes_max_; }
  // The item without the bytes of `without`, which is a part of it.
  void add(std::string_view item, std::string_view without) {
    // Grown once: a vector that doubles would hold half as much again.
    if (data_.capacity() == 0 && piece_bytes_ > 0) data_.reserve(bytes_max_);
    append_without(item, without, data_);
    ++count_;
  }
  uint64_t count() const { return count_; }
  std::string_view piece(uint64_t i) const {
    return {data_.data() + i * piece_bytes_, piece_bytes_};
  }

  static void append_without(std::string_view item, std::string_view without,
                             std::vector<char>& to) {
    const auto head = static_cast<size_t>(without.data() - item.data());
    to.insert(to.end(), item.begin(), item.begin() + static_cast<ptrdiff_t>(head));
    to.insert(to.end(), item.begin() + static_cast<ptrdiff_t>(head + without.size()), item.end());
  }

 private:
  uint64_t bytes_max_;
  size_t piece_bytes_ = 0;
  uint64_t count_ = 0;
  std::vector<char> data_;
};

class Join {
 public:
  Join(Streams& streams, const record::Format& left, const record::Format& right, bool descending,
       uint64_t group_bytes_max)
      : left_(streams, 0, left, descending),
        right_(streams, 1, right, descending),
        output_(streams.output(0)),
        held_left_(group_bytes_max),
        held_right_(group_bytes_max) {}

  Status run(uint64_t* items) {
    items_ = items;
    if (auto status = left_.next(); !status) return status;
    if (auto status = right_.next(); !status) return status;
    while (!left_.done() && !right_.done()) {
      const int order = compare();
      Status status = order < 0 ? left_.next() : order > 0 ? right_.next() : join_key();
      if (!status) return status;
    }
    if (auto status = left_.go_to_end(); !status) return status;
    return right_.go_to_end();
  }

 private:
  int compare() const {
    if (left_.prefix() != right_.prefix()) return left_.prefix() < right_.prefix() ? -1 : 1;
    return left_.format().numeric() ? 0 : left_.order().compare_keys(left_.key(), right_.key());
  }

  bool at_key(const Side& side) const {
    return !side.done() && side.prefix() == prefix_ &&
           (side.format().numeric() || side.key() == key_);
  }

  // What is left of a right item besides its key; of a line, nothing.
  std::string_view right_rest(std::vector<char>& buffer) const {
    buffer.clear();
    if (right_.format().fixed()) Group::append_without(right_.item(), right_.key(), buffer);
    return {buffer.data(), buffer.size()};
  }

  Status emit(std::string_view left, std::string_view right_rest) {
    const bool lacks_newline = record::lacks_line_end(left_.format(), left);
    const size_t bytes = left.size() + lacks_newline + right_rest.size();
    const std::span<std::byte> room = output_.room(bytes);
    if (room.empty()) return output_.status();
    std::byte* to = room.data();
    std::memcpy(to, left.data(), left.size());
    to += left.size();
    if (lacks_newline) *to++ = std::byte{'\n'};
    if (!right_rest.empty()) std::memcpy(to, right_rest.data(), right_rest.size());
    output_.advance(bytes);
    ++*items_;
    return {};
  }

  Status emit_with_held_right(std::string_view left) {
    for (uint64_t i = 0; i < held_right_.count(); ++i) {
      if (auto status = emit(left, held_right_.piece(i)); !status) return status;
    }
    return {};
  }

  Status join_key() {
    prefix_ = left_.prefix();
    key_.assign(left_.key());
    const record::Format& right = right_.format();
    held_right_.clear(right.fixed() ? right.record_bytes - right.key_bytes : 0);
    while (at_key(right_) && held_right_.has_room()) {
      held_right_.add(right_.item(), right.fixed() ? right_.key() : right_.item());
      if (auto status = right_.next(); !status) return status;
    }
    if (at_key(right_)) return join_long_right();
    while (at_key(left_)) {
      if (auto status = emit_with_held_right(left_.item()); !status) return status;
      if (auto status = left_.next(); !status) return status;
    }
    return {};
  }

  // The right items with this key are too many; the left ones are held. They are of fixed size, or
  // the right ones would be lines, of which nothing is held.
  Status join_long_right() {
    held_left_.clear(left_.format().record_bytes);
    while (at_key(left_)) {
      if (!held_left_.has_room()) {
        return failure(ErrorCode::out_of_memory,
                       fmt::format("join key {}: neither side's items with it fit in memory",
                                   printable_key(left_.format(), left_.item())),
                       "join", "a larger -S");
      }
      held_left_.add(left_.item(), left_.item().substr(0, 0));
      if (auto status = left_.next(); !status) return status;
    }
    for (uint64_t i = 0; i < held_left_.count(); ++i) {
      if (auto status = emit_with_held_right(held_left_.piece(i)); !status) return status;
    }
    std::vector<char> rest;
    while (at_key(right_)) {
      const std::string_view right = right_rest(rest);
      for (uint64_t i = 0; i < held_left_.count(); ++i) {
        if (auto status = emit(held_left_.piece(i), right); !status) return status;
      }
      if (auto status = right_.next(); !status) return status;
    }
    return {};
  }

  Side left_;
  Side right_;
  OutputStream& output_;
  Group held_left_;
  Group held_right_;
  uint64_t prefix_ = 0;
  std::string key_;
  uint64_t* items_ = nullptr;
};

// One side without another: nothing is joined, but disorder is an error.
bowtie::Computation look_at_order(const record::Format& format, bool descending) {
  return [=](Streams& streams) { return Side(streams, 0, format, descending).go_to_end(); };
}

}  // namespace

Result<record::Format> joined_format(const record::Format& left, const record::Format& right) {
  if (!same_keys(left, right)) {
    return failure(ErrorCode::invalid_argument, "join keys of different kinds or lengths", "join",
                   "the same --format on both sides, with keys of as many bytes");
  }
  record::Format joined = left;
  if (left.fixed()) joined.record_bytes += right.record_bytes - right.key_bytes;
  return joined;
}

bowtie::Computation merge_join(const record::Format& left, const record::Format& right,
                               bool descending, uint64_t group_bytes_max, uint64_t* items) {
  return [=](Streams& streams) -> Status {
    if (streams.inputs() != 2 || streams.outputs() != 1) {
      return failure(ErrorCode::invalid_argument, "join other than two inputs to one output",
                     "join");
    }
    return Join(streams, left, right, descending, group_bytes_max).run(items);
  };
}

Result<JoinFilesStats> join_files(const JoinFilesOptions& options) {
  const FilesOptions& files = options.files;
  if (files.inputs.size() != 2) {
    return failure(ErrorCode::invalid_argument, fmt::format("join {} files", files.inputs.size()),
                   "join", "two files");
  }
  auto joined = joined_format(files.format, options.right);
  if (!joined) return std::unexpected(joined.error());

  FileRun run(files, "join");
  if (auto status = run.start({files.format, options.right}); !status)
    return std::unexpected(status.error());
  auto output = file::File::create_output(files.output, run.output_options());
  if (!output) return std::unexpected(output.error());
  JoinFilesStats stats;
  const uint64_t usable = run.usable_bytes();
  const bool known = run.input_bytes() != bowtie::unknown_bytes;
  // A side that holds nothing joins with nothing.
  if (run.inputs().size() == 1) {
    const bowtie::Input& input = run.inputs().front();
    const std::string& path = input.file != nullptr ? input.file->path() : input.path;
    const record::Format& format = path == files.inputs.front() ? files.format : options.right;
    auto status = run.pass(run.inputs(), {}, look_at_order(format, options.descending),
                           {.format = format,
                            .memory_bytes = usable - usable / 4,
                            .phase = "join",
                            .total_bytes = known ? run.input_bytes() : 0});
    if (!status) return std::unexpected(status.error());
  }
  if (run.inputs().size() == 2) {
    // The widest of the formats decides how far a stream comes back; an odd size, since an item of
    // one of the three may lie across two blocks.
    record::Format widest = *joined;
    if (widest.fixed())
      widest.record_bytes = std::max(widest.record_bytes, options.right.record_bytes) | 1;
    auto status = run.pass(
        // Products have no bound that is known before.
        run.inputs(), {{.file = &*output, .bytes_max = bowtie::stream_address_bytes}},
        merge_join(files.format, options.right, options.descending, usable / 8, &stats.items),
        {.format = widest,
         .memory_bytes = usable - usable / 4,
         .phase = "join",
         .total_bytes = known ? 2 * run.input_bytes() : 0});
    if (!status) return std::unexpected(status.error());
  }
  if (auto status = run.interrupted(); !status) return std::unexpected(status.error());
  if (auto size = output->size(); size) stats.bytes = *size;
  if (auto status = output->publish(); !status) return std::unexpected(status.error());
  static_cast<FilesStats&>(stats) = run.stats();
  stats.passes = run.inputs().empty() ? 0 : 1;
  return stats;
}

}  // namespace penstock::files
