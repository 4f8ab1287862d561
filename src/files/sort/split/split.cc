#include "files/sort/split/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "files/run/cursor.h"
#include "files/run/odd_items.h"
#include "files/sort/split/distributor.h"

// The frame of a distribution: it passes the input to a distributor window by window. That
// (distributor.h) handles the items of its format, and the keeper (block_keeper.cc) their blocks.

namespace penstock::external {
namespace {

// Starts a thread that makes the memory of the split resident ahead of its use, on a processor that
// is idle: as much memory as the input is certain to take. (An input of few distinct numbers, which
// are only counted, uses less.)
std::jthread touch_ahead(const Context& context, const std::vector<files::Piece>& pieces,
                         const BlockArena& arena) {
  const uint64_t bytes = bytes_of(pieces);
  // A first page is cleared sooner than a thread starts.
  if (context.options.threads == 1 || bytes < os::huge_page_bytes) return {};
  return arena.start_touching(bytes);
}

// Distributes a piece window by window. Each thread takes the next window of whole items, looks at
// the items, is given room for them in turn, and fills it beside the other threads. (Some
// distributors copy the items in turn instead.)
//
// Windows that were taken and not filled lie within the range that any reader keeps, a block: a
// thread waits before it takes a window beyond that. A line may be longer than any window: then its
// window grows, and no other window is taken until that is filled.
//
// Thread safety: split() in any number of threads; each returns when no window is left.
class PieceSplit {
 public:
  PieceSplit(Context& context, const std::string& name, files::PieceReader& reader,
             const BucketPlan& plan, Distributor& distributor)
      : context_(context),
        name_(name),
        reader_(reader),
        plan_(plan),
        distributor_(distributor),
        window_bytes_(window_bytes_for(reader.block_bytes(), plan.split_threads)),
        windows_max_(std::max<uint64_t>(reader.block_bytes() / window_bytes_, 1)),
        items_before_(distributor.read.items),
        at_(reader.begin()) {}

  // Number of threads that are of use for the known size of the piece.
  size_t threads_for(const files::Piece& piece) const {
    size_t windows = windows_max_;
    const bool is_known = !piece.in_order || plan_.fits;
    if (is_known) windows = std::min(windows, ceil_div(piece.bytes, window_bytes_));
    return std::clamp<size_t>(windows, 1, plan_.split_threads);
  }

  void split() EXCLUDES_LOCK(taking_, mutex_) {
    const std::unique_ptr<ItemWindow> window = distributor_.new_window();
    while (const std::optional<uint64_t> turn = take(*window)) {
      distributor_.look(*window);
      put(*window, *turn);
    }
  }
  Status status() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return status_;
  }

 private:
  // A thread checks for errors and reports progress after each window. Several threads also hand
  // over the turn, which takes longer than a short window.
  static size_t window_bytes_for(size_t block_bytes, unsigned threads) {
    constexpr size_t least = 64 * KiB;
    if (threads == 1) return least;
    return std::clamp(round_down(block_bytes / threads, least), least, split_window_bytes_max);
  }

  // Returns the number of the window that was taken; nullopt if none is left.
  std::optional<uint64_t> take(ItemWindow& window) EXCLUDES_LOCK(taking_, mutex_) {
    MutexLock lock(taking_);
    while (!ended_ && wait_for_passed(taken_, windows_max_)) {
      Result<bool> found = find(window);
      if (!found || window.ends.empty()) {
        ended_ = true;
        if (!found) finish_turn(taken_, std::unexpected(found.error()));
        return {};
      }
      at_ = window.end();
      const uint64_t turn = taken_++;
      if (!*found) return turn;
      distributor_.look(window);
      put(window, turn);
    }
    return {};
  }

  // Finds the next window, which is empty at the end. Returns true if it is larger than usual.
  Result<bool> find(ItemWindow& window) REQUIRES_LOCK(taking_) {
    for (size_t bytes_wanted = window_bytes_;;) {
      if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
      const size_t bytes = reader_.available(at_, bytes_wanted);
      window.ends.clear();
      if (bytes == 0) {
        if (auto status = reader_.status(); !status) return std::unexpected(status.error());
        return false;
      }
      const bool last = bytes < bytes_wanted;
      distributor_.find(at_, at_ + bytes, last, window);
      if (!window.ends.empty()) return bytes_wanted > window_bytes_;
      if (last) {
        return failure(ErrorCode::corrupt,
                       "read the last " + std::to_string(bytes) + " bytes as an item", name_,
                       "another --format or --record");
      }
      if (bytes_wanted >= plan_.item_bytes_max)
        return items::too_long(
            context_.options.format, bytes_wanted, name_,
            fmt::format("the {} at byte {}", context_.options.format.framing().noun,
                        static_cast<uint64_t>(at_ - reader_.begin())));
      bytes_wanted = std::min<size_t>(2 * bytes_wanted, plan_.item_bytes_max);
      if (!wait_for_passed(taken_, 1)) return false;
    }
  }

  void put(ItemWindow& window, uint64_t turn) EXCLUDES_LOCK(mutex_) {
    if (!wait_for_turn(turn)) return;
    count_odd(window, files::OddKind::value, window.odd_values);
    count_odd(window, files::OddKind::length, window.odd_lengths);
    distributor_.put(window);
    Status status = distributor_.keeper.status();
    if (status && window.fault) {
      const items::Format& format = context_.options.format;
      const uint64_t number = format.header_lines + distributor_.read.items - items_before_ + 1;
      status = items::bad_item(
          format, items::Place{number, number}.text(format), *window.fault,
          reader_.offset() + static_cast<uint64_t>(window.end() - reader_.begin()), name_);
    }
    finish_turn(turn, std::move(status));
    distributor_.fill(window);
    pass(window, turn);
  }

  void count_odd(const ItemWindow& window, files::OddKind kind, const ItemWindow::Odd& odd) {
    if (odd.items == 0) return;
    const items::Format& format = context_.options.format;
    context_.options.odd_items->add(
        kind, name_, format.header_lines + distributor_.read.items - items_before_ + odd.first + 1,
        format, window.item(odd.first), odd.items);
  }

  // Lets the reader drop the input before the first window that is not filled.
  void pass(const ItemWindow& window, uint64_t turn) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    filled_.emplace(turn, window.end());
    const std::byte* at = nullptr;
    for (; !filled_.empty() && filled_.begin()->first == passed_; ++passed_)
      at = filled_.extract(filled_.begin()).mapped();
    if (at == nullptr) return;
    reader_.passed(at);
    has_passed_.notify_one();  // the thread that takes windows
  }
  // Waits until fewer than `windows` windows are taken and not filled: as many as fit into the
  // block that the reader keeps. Returns false if the run has ended with an error.
  bool wait_for_passed(uint64_t turn, uint64_t windows) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (turn - passed_ >= windows && status_) has_passed_.wait(mutex_);
    return status_.has_value();
  }

  // Returns false if the run has ended with an error.
  bool wait_for_turn(uint64_t turn) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (turn_ != turn && status_) waiter_of(turn).wait(mutex_);
    return status_.has_value();
  }
  // Hands over the turn; after an error, to nobody.
  void finish_turn(uint64_t turn, Status status) EXCLUDES_LOCK(mutex_) {
    wait_for_turn(turn);
    MutexLock lock(mutex_);
    ++turn_;
    if (status_) status_ = std::move(status);
    if (status_) return waiter_of(turn_).notify_all();
    for (Condition& waiter : has_turn_) waiter.notify_all();
    has_passed_.notify_all();
  }
  // A condition for each window: to wake all threads for each window takes longer than the window.
  Condition& waiter_of(uint64_t turn) { return has_turn_[turn % has_turn_.size()]; }

  Context& context_;
  const std::string& name_;
  files::PieceReader& reader_;
  const BucketPlan& plan_;
  Distributor& distributor_;
  const size_t window_bytes_;
  const uint64_t windows_max_;  // most windows that are taken and not filled
  const uint64_t items_before_;

  Mutex taking_;  // locked before mutex_
  const std::byte* at_ GUARDED_BY(taking_);
  uint64_t taken_ GUARDED_BY(taking_) = 0;  // number of windows
  bool ended_ GUARDED_BY(taking_) = false;

  Mutex mutex_;
  std::array<Condition, 16> has_turn_;
  Condition has_passed_;
  uint64_t turn_ GUARDED_BY(mutex_) = 0;                            // window that may be put
  uint64_t passed_ GUARDED_BY(mutex_) = 0;                          // first window not filled
  std::map<uint64_t, const std::byte*> filled_ GUARDED_BY(mutex_);  // ends of later, filled windows
  Status status_ GUARDED_BY(mutex_);
};

}  // namespace

uint64_t Split::kept_bytes() const {
  uint64_t bytes = 0;
  for (const SplitBucket& bucket : buckets) bytes += bucket.spilled.empty() ? bucket.bytes : 0;
  return bytes;
}

uint64_t Split::list_bytes() const {
  uint64_t bytes = 0;
  for (const SplitBucket& bucket : buckets) {
    bytes += bucket.spilled.size() * list_bytes_per_block;
  }
  return bytes;
}

Result<Split> split_items(Context& context, const SplitInput& input, files::Sample sample) {
  const BucketPlan& plan = input.plan;
  const items::Format& format = context.options.format;
  const auto distributor = format.numeric()
                               ? number_distributor(context, input, std::move(sample.numbers))
                               : string_distributor(context, input, std::move(sample.strings));
  const MemoryCharge tables(plan.split_bytes);
  BlockKeeper& keeper = distributor->keeper;
  if (auto status = keeper.open(); !status) return std::unexpected(status.error());
  const size_t extent_bytes = input.pieces.front().extent_bytes;
  const size_t read_block_bytes = extent_bytes != 0 ? extent_bytes : plan.read_block_bytes;
  const auto blocks = static_cast<uint32_t>(
      std::max<uint64_t>(plan.read_blocks * plan.read_block_bytes / read_block_bytes, 4));
  // The longest item may begin at the end of a block.
  const auto comeback_blocks =
      static_cast<uint32_t>(ceil_div(plan.item_bytes_max, read_block_bytes));
  files::PieceReaders readers(context.options, {.block_bytes = read_block_bytes,
                                                .read_ahead_blocks = blocks - 1,
                                                .comeback_blocks = comeback_blocks,
                                                .total_bytes = bytes_of(input.pieces)});
  std::jthread toucher;
  for (const files::Piece& piece : input.pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    // Only now: opening the first reader probes the kernel, with memory of its own.
    if (!toucher.joinable()) toucher = touch_ahead(context, input.pieces, input.arena);
    const std::string name =
        piece.file != nullptr ? piece.file->path() : input.place.directories.front();
    PieceSplit split(context, name, **reader, plan, *distributor);
    in_threads(split.threads_for(piece), [&split](size_t) { split.split(); });
    if (auto status = split.status(); !status) return std::unexpected(status.error());
  }
  distributor->close();
  auto region_bytes = [&](uint32_t number) -> std::optional<uint64_t> {
    SplitBucket bucket;
    distributor->describe(number, bucket);
    const uint64_t bytes = keeper.bytes(number);
    if (bytes == 0) return 0;
    const uint64_t region = region_bytes_of(format, bytes, bucket.constant ? 0 : bucket.items);
    if (region > plan.region_bytes_max) return std::nullopt;
    return region;
  };
  auto split = keeper.finish(region_bytes);
  if (!split) return split;
  for (uint32_t number = 0; number < split->buckets.size(); ++number)
    distributor->describe(number, split->buckets[number]);
  std::erase_if(split->buckets, [](const SplitBucket& bucket) { return bucket.bytes == 0; });
  split->read = distributor->read;
  return split;
}

Status save_split(Resume& resume, BucketId of, Split& split) {
  const uint32_t number = resume.next_split();
  const auto buckets = static_cast<uint32_t>(split.buckets.size());
  for (uint32_t i = 0; i < buckets; ++i) split.buckets[i].id = {number, i};
  return resume.save_split(of, split.read, split.spills, buckets, [&](uint32_t i) {
    const SplitBucket& bucket = split.buckets[i];
    return ResumeBucket{.keys = bucket.keys,
                        .bytes = bucket.bytes,
                        .items = bucket.items,
                        .constant = bucket.constant,
                        .part = bucket.spill,
                        .rest = bucket.rest,
                        .blocks = bucket.spilled};
  });
}

Result<Split> take_split(Resume& resume, BucketId of) {
  ResumeSplit saved = resume.take_split(of);
  auto spills = resume.open_spills(saved);
  if (!spills) return std::unexpected(spills.error());
  Split split;
  split.spills = std::move(*spills);
  split.read = saved.read;
  for (uint32_t i = 0; i < saved.buckets.size(); ++i) {
    ResumeBucket& bucket = saved.buckets[i];
    split.buckets.push_back({.keys = bucket.keys,
                             .bytes = bucket.bytes,
                             .items = bucket.items,
                             .constant = bucket.constant,
                             .spilled = std::move(bucket.blocks),
                             .spill = bucket.part,
                             .rest = bucket.rest,
                             .id = {saved.number, i}});
  }
  return split;
}

}  // namespace penstock::external
