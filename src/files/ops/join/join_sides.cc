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
  bool empty() const { return count_ == 0; }
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
  Join(std::vector<JoinSide>& sides, JoinWriter& writer, const JoinKinds& kinds,
       const JoinRoom& room)
      : sides_(sides),
        writer_(writer),
        kinds_(kinds),
        row_(sides.size()),
        key_(sides.front().streams()) {
    for (size_t i = 0; i < sides.size(); ++i) held_.emplace_back(room);
  }

  Status run() {
    for (;;) {
      size_t least = 0;
      size_t present = 0;  // sides with the least key
      for (size_t i = 0; i < sides_.size(); ++i) {
        if (sides_[i].done()) continue;
        const int order = present == 0 ? -1 : compare(sides_[i], sides_[least]);
        if (order < 0) {
          least = i;
          present = 1;
        } else if (order == 0) {
          ++present;
        }
      }
      if (present == 0) return {};
      Status status = present == 1 ? pass_alone(least) : join_key(sides_[least], present);
      if (!status) return status;
    }
  }

 private:
  static int compare(const JoinSide& a, const JoinSide& b) {
    if (a.prefix() != b.prefix()) return a.prefix() < b.prefix() ? -1 : 1;
    return a.order().compare_keys(a.key(), b.key());
  }
  bool at_key(const JoinSide& side) const {
    return !side.done() && side.prefix() == prefix_ && side.key() == key_.view();
  }
  bool wants(bool has_first, size_t present) const {
    return kinds_.wants(has_first, present, sides_.size());
  }
  std::string_view piece(size_t side) {
    return side == 0 ? sides_[0].item() : writer_.piece_of(sides_[side]);
  }

  Status pass_alone(size_t side) {
    if (wants(side == 0, 1)) {
      std::ranges::fill(row_, std::nullopt);
      row_[side] = piece(side);
      if (auto status = writer_.write(row_); !status) return status;
    }
    return sides_[side].next();
  }

  Status join_key(const JoinSide& least, size_t present) {
    prefix_ = least.prefix();
    if (!key_.make(least.key().size(), [&](std::string& to) { to = least.key(); }))
      return least.no_room();
    if (!wants(at_key(sides_[0]), present)) return pass_key();
    if (kinds_.first_only) return pass_first();
    size_t passing = 0;
    while (!at_key(sides_[passing])) ++passing;
    const size_t first = passing;
    for (size_t i = sides_.size(); i-- > 0;) {
      held_[i].clear();
      if (i == first && passing == first) continue;
      auto fits = hold(i);
      if (!fits) return std::unexpected(fits.error());
      if (*fits) continue;
      if (passing != first) return refuse(sides_[i]);
      passing = i;
    }
    // (Empty if its first item is too long to be held.)
    if (passing != first && !held_[passing].empty()) {
      if (auto status = product(0, sides_.size()); !status) return status;
      held_[passing].clear();
    }
    while (at_key(sides_[passing])) {
      row_[passing] = piece(passing);
      if (auto status = product(0, passing); !status) return status;
      if (auto status = sides_[passing].next(); !status) return status;
    }
    return {};
  }

  // Holds the side's items with this key; returns false if there are more than fit.
  Result<bool> hold(size_t side) {
    while (at_key(sides_[side])) {
      const std::string_view held = piece(side);
      if (!held_[side].has_room(held)) return false;
      held_[side].add(held);
      if (auto status = sides_[side].next(); !status) return std::unexpected(status.error());
    }
    return true;
  }

  // Writes the product of the row's first `side` pieces and the groups from there on. `passing`: the
  // side whose piece is in the row already.
  Status product(size_t side, size_t passing) {
    if (side == sides_.size()) return writer_.write(row_);
    if (side == passing) return product(side + 1, passing);
    if (held_[side].empty()) {
      row_[side].reset();
      return product(side + 1, passing);
    }
    return held_[side].for_each([&](std::string_view held) {
      row_[side] = held;
      return product(side + 1, passing);
    });
  }

  Status pass_first() {
    for (JoinSide& first = sides_.front(); at_key(first);) {
      row_[0] = first.item();
      if (auto status = writer_.write(row_); !status) return status;
      if (auto status = first.next(); !status) return status;
    }
    return pass_key();
  }

  Status pass_key() {
    for (JoinSide& side : sides_) {
      while (at_key(side)) {
        if (auto status = side.next(); !status) return status;
      }
    }
    return {};
  }

  static Status refuse(const JoinSide& side) {
    return failure(ErrorCode::out_of_memory,
                   fmt::format("join key {}: the items with it of two files do not fit in memory",
                               printable_key(side.format(), side.item())),
                   "join", "a larger -S");
  }

  std::vector<JoinSide>& sides_;
  JoinWriter& writer_;
  const JoinKinds kinds_;
  std::vector<HeldGroup> held_;                       // one for each side
  std::vector<std::optional<std::string_view>> row_;  // one piece for each side
  uint64_t prefix_ = 0;
  bowtie::LongText key_;
};

}  // namespace

JoinSide::JoinSide(bowtie::Streams& streams, std::optional<uint32_t> input,
                   const items::Format& format, bool descending, std::string header,
                   std::string name, OddItems* odd_items, bool is_checked)
    : streams_(streams),
      input_(input),
      name_(std::move(name)),
      subject_(name_),
      odd_items_(odd_items),
      is_checked_(is_checked),
      order_(format, descending),
      header_(std::move(header)),
      done_(!input),
      key_(streams),
      key_before_(streams) {
  if (input) subject_ = fmt::format("input {}", *input);
}

SideHead JoinSide::head() const {
  return {format(), header_, done() ? std::nullopt : std::optional(item())};
}

std::vector<SideHead> heads_of(const std::vector<JoinSide>& sides) {
  std::vector<SideHead> heads;
  for (const JoinSide& side : sides) heads.push_back(side.head());
  return heads;
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
  if (done_) return {};
  reader_.emplace(streams_.input(*input_), format(), streams_.item_bytes_max(), is_checked_);
  return next();
}

Status JoinSide::next() {
  const uint64_t prefix_before = prefix_;
  if (!is_checked_) key_.swap(key_before_);
  if (!reader_->next()) {
    done_ = true;
    return reader_->status();
  }
  if (!is_checked_) {
    line_ = lines_ + 1;
    lines_ += items::lines_of_item(format(), item());
  }
  if (format().numeric()) {
    prefix_ = order_.prefix(item());
  } else {
    bool is_read = true;
    const bool made = key_.make(
        item().size(), [&](std::string& key) { is_read = order_.append_key(item(), key); });
    if (!made) return no_room();
    if ((!is_read || !reader_->is_even()) && odd_items_ != nullptr)
      odd_items_->note(name_, format().header_lines + items_ + 1, format(), item());
    prefix_ = order_.prefix_of_bytes(key_.view());
  }
  const bool ascends =
      items_++ == 0 || is_checked_ || prefix_before < prefix_ ||
      (prefix_before == prefix_ && order_.compare_keys(key_before_.view(), key_.view()) <= 0);
  key_before_.leave();
  if (ascends) return {};
  return fault_at(
      ErrorCode::unsorted, items::Place{line_, format().header_lines + items_}.text(format()),
      fmt::format("not in order ({})", printable_key(format(), item())), subject_, "penstock sort");
}

Status JoinSide::go_to_end() {
  while (!done()) {
    if (auto status = next(); !status) return status;
  }
  return {};
}

Status join_sides(std::vector<JoinSide>& sides, JoinWriter& writer, const JoinKinds& kinds,
                  const JoinRoom& room) {
  if (auto status = writer.begin(heads_of(sides)); !status) return status;
  Status joined = Join(sides, writer, kinds, room).run();
  Status ended = writer.end();
  return ended ? joined : ended;
}

}  // namespace penstock::files
