#include "files/ops/join/join_sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/run_scope.h"

namespace penstock::files {
namespace {

// Pieces one behind the other, each with its size in front unless all have the same.
class HeldGroup {
 public:
  explicit HeldGroup(const JoinRoom& room) : room_(room) {}

  void clear() {
    count_ = 0;
    data_.clear();
  }
  bool has_room(std::string_view piece) const {
    return data_.size() + bytes_before() + piece.size() <= room_.bytes_max;
  }
  void add(std::string_view piece) {
    // Reserved once: a vector that doubles would take half as much again.
    if (data_.capacity() == 0 && bytes_before() + piece.size() > 0) {
      charge_ = MemoryCharge(room_.bytes_max);
      data_.reserve(room_.bytes_max);
    }
    const uint64_t bytes = piece_bytes_ = piece.size();
    const auto* size = reinterpret_cast<const char*>(&bytes);
    data_.insert(data_.end(), size, size + bytes_before());
    data_.insert(data_.end(), piece.begin(), piece.end());
    ++count_;
  }
  // Calls use(piece), which returns a Status, for each piece; stops at the first error and returns it.
  template <class Use>
  Status for_each(Use use) const {
    const char* at = data_.data();
    for (uint64_t i = 0; i < count_; ++i) {
      uint64_t bytes = piece_bytes_;
      if (!room_.equal_sizes) std::memcpy(&bytes, at, sizeof bytes);
      at += bytes_before();
      if (Status status = use(std::string_view(at, bytes)); !status) return status;
      at += bytes;
    }
    return {};
  }

 private:
  size_t bytes_before() const { return room_.equal_sizes ? 0 : sizeof(uint64_t); }

  JoinRoom room_;
  uint64_t piece_bytes_ = 0;  // size of the last piece
  uint64_t count_ = 0;        // number of pieces, empty ones included
  std::vector<char> data_;
  MemoryCharge charge_;
};

class Join {
 public:
  Join(JoinSide& left, JoinSide& right, JoinWriter& writer, const JoinRoom& room)
      : left_(left), right_(right), writer_(writer), held_left_(room), held_right_(room) {}

  Status run() {
    while (!left_.done() && !right_.done()) {
      const int order = compare();
      Status status = order < 0 ? pass(0, left_) : order > 0 ? pass(1, right_) : join_key();
      if (!status) return status;
    }
    while (!left_.done()) {
      if (auto status = pass(0, left_); !status) return status;
    }
    while (!right_.done()) {
      if (auto status = pass(1, right_); !status) return status;
    }
    return {};
  }

 private:
  int compare() const {
    if (left_.prefix() != right_.prefix()) return left_.prefix() < right_.prefix() ? -1 : 1;
    return left_.order().compare_keys(left_.key(), right_.key());
  }
  bool at_key(const JoinSide& side) const {
    return !side.done() && side.prefix() == prefix_ && side.key() == key_;
  }

  Status pass(int number, JoinSide& side) {
    if (writer_.wants_alone(number)) {
      if (auto status = writer_.alone(number, side.item()); !status) return status;
    }
    return side.next();
  }

  Status pair_with_held_right(std::string_view left) {
    return held_right_.for_each([&](std::string_view right) { return writer_.pair(left, right); });
  }

  Status join_key() {
    prefix_ = left_.prefix();
    key_ = left_.key();
    if (!writer_.wants_pairs()) return pass_key();
    held_right_.clear();
    std::string_view piece;
    while (at_key(right_) && held_right_.has_room(piece = writer_.piece_of_right(right_))) {
      held_right_.add(piece);
      if (auto status = right_.next(); !status) return status;
    }
    if (at_key(right_)) return join_long_right();
    while (at_key(left_)) {
      if (auto status = pair_with_held_right(left_.item()); !status) return status;
      if (auto status = left_.next(); !status) return status;
    }
    return {};
  }

  Status pass_key() {
    for (JoinSide* side : {&left_, &right_}) {
      while (at_key(*side)) {
        if (auto status = side->next(); !status) return status;
      }
    }
    return {};
  }

  // The right items with this key are too many; the left ones are held.
  Status join_long_right() {
    held_left_.clear();
    while (at_key(left_)) {
      if (!held_left_.has_room(left_.item())) {
        return failure(ErrorCode::out_of_memory,
                       fmt::format("join key {}: neither side's items with it fit in memory",
                                   printable_key(left_.format(), left_.item())),
                       "join", "a larger -S");
      }
      held_left_.add(left_.item());
      if (auto status = left_.next(); !status) return status;
    }
    auto status =
        held_left_.for_each([&](std::string_view left) { return pair_with_held_right(left); });
    if (!status) return status;
    while (at_key(right_)) {
      const std::string_view right = writer_.piece_of_right(right_);
      status =
          held_left_.for_each([&](std::string_view left) { return writer_.pair(left, right); });
      if (!status) return status;
      if (status = right_.next(); !status) return status;
    }
    return {};
  }

  JoinSide& left_;
  JoinSide& right_;
  JoinWriter& writer_;
  HeldGroup held_left_;
  HeldGroup held_right_;
  uint64_t prefix_ = 0;
  std::string key_;
};

}  // namespace

JoinSide::JoinSide(bowtie::Streams& streams, std::optional<uint32_t> input,
                   const items::Format& format, bool descending, std::string header,
                   std::string name)
    : subject_(std::move(name)),
      order_(format, descending),
      header_(std::move(header)),
      done_(!input) {
  if (!input) return;
  reader_.emplace(streams.input(*input), format, streams.window_bytes_max());
  subject_ = fmt::format("input {}", *input);
}

Status JoinSide::start() {
  if (!header_.empty()) {
    auto made = items::with_header(format(), header_);
    if (!made) {
      made.error().subject = subject_;
      return std::unexpected(made.error());
    }
    order_ = items::ItemOrder(*made, order_.descending());
    lines_ = static_cast<uint64_t>(std::ranges::count(header_, format().line_end));
  }
  return done_ ? Status{} : next();
}

Status JoinSide::next() {
  std::swap(key_, key_before_);
  if (!reader_->next()) {
    done_ = true;
    return reader_->status();
  }
  line_ = lines_ + 1;
  lines_ += items::lines_of_item(format(), item());
  if (format().numeric()) {
    key_.prefix = order_.prefix(item());
  } else {
    key_.bytes.clear();
    order_.append_key(item(), key_.bytes);
    key_.prefix = order_.prefix_of_bytes(key_.bytes);
  }
  if (items_++ == 0 || key_before_.prefix < key_.prefix) return {};
  if (key_before_.prefix == key_.prefix && order_.compare_keys(key_before_.bytes, key_.bytes) <= 0)
    return {};
  return failure(ErrorCode::unsorted,
                 fmt::format("join: {} is not in order ({})",
                             items::Place{line_, format().header_lines + items_}.text(format()),
                             printable_key(format(), item())),
                 subject_, "penstock sort");
}

Status JoinSide::go_to_end() {
  while (!done()) {
    if (auto status = next(); !status) return status;
  }
  return {};
}

Status join_sides(JoinSide& left, JoinSide& right, JoinWriter& writer, const JoinRoom& room) {
  if (auto status = writer.begin(left, right); !status) return status;
  return Join(left, right, writer, room).run();
}

}  // namespace penstock::files
