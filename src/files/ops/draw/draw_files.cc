#include "files/ops/draw/draw_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "base/bits.h"
#include "base/random.h"
#include "files/ops/draw/batch_writer.h"
#include "files/run/file_run.h"
#include "files/run/item_reader.h"
#include "files/run/memory_plan.h"
#include "files/run/run_context.h"
#include "os/memory.h"

// How a sample is drawn.
//
// A random number for each item costs time, and a sort by it costs more. Algorithm L (K.-H. Li,
// "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", 1994) draws the number of
// items to pass over instead: the first `count` items fill the reservoir; from then on few items
// come in, each for a random one that goes.
//
// An item that comes in is newer than all others. So items are stored one after the other in one
// piece of memory, which has the sample in the order of the inputs at any time, with gaps. If it is
// full, the items move together. The error for too large a sample comes while an eighth is still
// free, so that moving costs a constant number of copied bytes for each stored one.
//
//   slots_     place in room_ of each item of the sample
//   room_      { slot, bytes, item, padding } ...; a place that its slot does not name is a gap

namespace penstock::files {
namespace {

// Memory beside the sample: the reader's and the writer's.
uint64_t aside_bytes(const FilesOptions& options) {
  return MiB + ItemCutter::memory_bytes(cut_bytes_max(options, 1));
}

class Reservoir {
 public:
  static Result<Reservoir> open(const FilesOptions& options, uint64_t count) {
    const uint64_t usable = usable_memory(std::max(options.memory_bytes, files_memory_bytes_min));
    const uint64_t aside = aside_bytes(options);
    const uint64_t needed = aside + 2 * MiB;
    if (options.memory_bytes < files_memory_bytes_min || usable < needed)
      return too_small_budget("sample within " + budget_text(options.memory_bytes),
                              options.memory_bytes, needed - std::min(needed, usable));
    Reservoir made(count);
    auto room = os::zeroed(usable - aside, "get memory for the sample", "sample", "a smaller -S");
    if (!room) return std::unexpected(room.error());
    room->charge();
    made.room_ = std::move(*room);
    const uint64_t slots = std::min(count, made.room_.bytes() / (sizeof(Head) + sizeof(uint64_t)));
    auto table = os::ZeroedTable<uint64_t>::open(slots, "get memory for the sample", "sample",
                                                 "a smaller -S");
    if (!table) return std::unexpected(table.error());
    made.slots_ = std::move(*table);
    return made;
  }

  // Puts the item into a slot: the next new one, or one whose item it replaces.
  Status put(uint64_t slot, std::string_view item) {
    const uint64_t bytes = stored_bytes(item.size());
    if (slot < filled_) {
      live_bytes_ -= stored_bytes(head_at(slots_[slot]).bytes);
    } else {
      ++filled_;
    }
    live_bytes_ += bytes;
    const uint64_t room_bytes = room_.bytes() - std::min(room_.bytes(), filled_ * sizeof(uint64_t));
    if (live_bytes_ > room_bytes / 8 * 7)
      return failure(ErrorCode::out_of_memory,
                     fmt::format("hold a sample of more than {}", bytes_text(room_bytes / 8 * 7)),
                     fmt::format("-n {}", count_),
                     "a larger -S; or penstock shuf -n, which has no such limit");
    // The old item of the slot is a gap from now on.
    if (end_ + bytes > room_bytes) close_gaps(slot);
    store(slot, item);
    return {};
  }
  uint64_t filled() const { return filled_; }

  Status write(BatchWriter& to) {
    for (uint64_t at = 0; at < end_; at += stored_bytes(head_at(at).bytes)) {
      const Head head = head_at(at);
      if (slots_[head.slot] != at) continue;
      if (Status added = to.add(items::text_at(room_.begin() + at + sizeof head, head.bytes));
          !added)
        return added;
    }
    return {};
  }

 private:
  struct Head {
    uint64_t slot;
    uint64_t bytes;
  };

  explicit Reservoir(uint64_t count) : count_(count) {}
  static uint64_t stored_bytes(uint64_t item_bytes) {
    return sizeof(Head) + round_up(item_bytes, sizeof(uint64_t));
  }
  Head head_at(uint64_t at) const {
    Head head;
    std::memcpy(&head, room_.begin() + at, sizeof head);
    return head;
  }
  void store(uint64_t slot, std::string_view item) {
    const Head head{slot, item.size()};
    std::memcpy(room_.begin() + end_, &head, sizeof head);
    std::memcpy(room_.begin() + end_ + sizeof head, item.data(), item.size());
    slots_[slot] = end_;
    end_ += stored_bytes(item.size());
  }
  // Moves the items together, all but that of the slot `left_out`.
  void close_gaps(uint64_t left_out) {
    uint64_t to = 0;
    for (uint64_t at = 0, bytes = 0; at < end_; at += bytes) {
      const Head head = head_at(at);
      bytes = stored_bytes(head.bytes);
      if (slots_[head.slot] != at || head.slot == left_out) continue;
      std::memmove(room_.begin() + to, room_.begin() + at, bytes);
      slots_[head.slot] = to;
      to += bytes;
    }
    end_ = to;
  }

  uint64_t count_;
  os::Reservation room_;
  os::ZeroedTable<uint64_t> slots_;
  uint64_t filled_ = 0;      // slots
  uint64_t end_ = 0;         // end of the used part of room_
  uint64_t live_bytes_ = 0;  // bytes of the sample in it
};

// The numbers of the items that come into a full reservoir, by algorithm L.
class Arrivals {
 public:
  Arrivals(uint64_t count, uint64_t seed) : count_(count), random_(mix64(seed)), next_(count - 1) {
    advance();
  }
  uint64_t next() const { return next_; }
  // Returns the slot of the item number next(), and moves on.
  uint64_t take_slot() {
    const uint64_t slot = random_.below(count_);
    advance();
    return slot;
  }

 private:
  double log_of_random() { return std::log(1 - random_.unit()); }
  void advance() {
    // The logarithm of the largest of the random numbers that a sort would have kept.
    log_largest_ += log_of_random() / static_cast<double>(count_);
    const double passed = std::floor(log_of_random() / std::log1p(-std::exp(log_largest_)));
    constexpr uint64_t never = UINT64_MAX;
    next_ =
        passed < 0x1p62 && next_ < never / 2 ? next_ + static_cast<uint64_t>(passed) + 1 : never;
  }

  const uint64_t count_;
  Random random_;
  double log_largest_ = 0;
  uint64_t next_;
};

// A run that reads items in order and writes some of them.
class Draw {
 public:
  Draw(const FilesOptions& options, const char* verb)
      : options_(options), context_(options, verb), reader_(options) {
    context_.show(verb);
  }

  Result<DrawFilesStats> first(uint64_t count) {
    if (Status opened = open(); !opened) return std::unexpected(opened.error());
    // The header is known once an item was looked for.
    for (bool begun = false; !begun || stats_.items < count; begun = true) {
      const auto more = next();
      if (!more) return std::unexpected(more.error());
      Status written = begun ? Status{} : out_->add(reader_.header());
      const bool wanted = *more && stats_.items < count;
      if (written && wanted) written = out_->add(reader_.item());
      if (!written) return std::unexpected(written.error());
      if (!wanted) break;
      ++stats_.items;
    }
    return finish();
  }

  Result<DrawFilesStats> sample(uint64_t count, uint64_t seed) {
    if (count == 0) return first(0);
    if (Status opened = open(); !opened) return std::unexpected(opened.error());
    auto reservoir = Reservoir::open(options_, count);
    if (!reservoir) return std::unexpected(reservoir.error());
    Arrivals arrivals(count, seed);
    for (uint64_t number = 0;; ++number) {
      const auto more = next();
      if (!more) return std::unexpected(more.error());
      if (!*more) break;
      if (number >= count && number < arrivals.next()) continue;
      const uint64_t slot = number < count ? number : arrivals.take_slot();
      if (Status put = reservoir->put(slot, reader_.item()); !put)
        return std::unexpected(put.error());
    }
    stats_.items = reservoir->filled();
    Status written = out_->add(reader_.header());
    if (written) written = reservoir->write(*out_);
    if (!written) return std::unexpected(written.error());
    return finish();
  }

 private:
  Status open() {
    auto sink = sink_of(options_);
    if (!sink) return std::unexpected(sink.error());
    out_.emplace(std::move(*sink));
    return {};
  }
  Result<bool> next() {
    if (++looks_ % items_between_pulses == 0) {
      if (Status goes_on = context_.pulse(); !goes_on) return std::unexpected(goes_on.error());
    }
    return reader_.next();
  }
  Result<DrawFilesStats> finish() {
    if (Status closed = out_->close(); !closed) return std::unexpected(closed.error());
    stats_.bytes = out_->bytes();
    context_.fill(stats_, {});
    stats_.passes = 1;
    return stats_;
  }

  const FilesOptions& options_;
  RunContext context_;
  ItemReader reader_;
  std::optional<BatchWriter> out_;
  DrawFilesStats stats_;
  uint32_t looks_ = 0;
};

}  // namespace

Result<DrawFilesStats> first_items(const FilesOptions& options, uint64_t count) {
  return Draw(options, "head").first(count);
}

Result<DrawFilesStats> sample_items(const FilesOptions& options, uint64_t count, uint64_t seed) {
  return Draw(options, "sample").sample(count, seed);
}

}  // namespace penstock::files
