#pragma once

// Computations for run() that are asked for again and again: merge, for run_plan() too, and distribute.
//
// All go by windows, and by items of a items::Format. Of lines the last one of a file may lack its
// newline; it gets one. An item must be no longer than Streams::window_bytes_max() (else: corrupt);
// a file of fixed items must hold whole ones (else: corrupt).
//
// For another computation over items (groups, joins) ItemReader walks over an input, and
// items::ItemOrder compares two items.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/run.h"
#include "items/cuts.h"
#include "items/items.h"

namespace penstock::bowtie {

// The most items that are shown to a function at once: few enough for what is known of them to stay in
// the first cache.
inline constexpr size_t batch_items_max = 256;

// Items in a row, shown to a function all at once, because a call per item would cost more than
// what most functions do. Lines come with their newlines, but for a last one that has none.
class Items {
 public:
  // Of fixed size, from `data` on.
  Items(const std::byte* data, size_t item_bytes, size_t count)
      : data_(data), item_bytes_(item_bytes), count_(count) {}
  explicit Items(std::span<const std::string_view> lines, const items::RowIndex* rows = nullptr)
      : lines_(lines), count_(lines.size()), rows_(rows) {}

  size_t size() const { return count_; }
  bool fixed() const { return item_bytes_ != 0; }
  std::string_view operator[](size_t i) const {
    if (!fixed()) return lines_[i];
    return {reinterpret_cast<const char*>(data_ + i * item_bytes_), item_bytes_};
  }
  // Of fixed items: they lie one behind the other.
  const std::byte* data() const { return data_; }
  // The bytes of all. REQUIRES: they lie one behind the other.
  size_t bytes() const {
    if (fixed()) return count_ * item_bytes_;
    return count_ == 0 ? 0
                       : static_cast<size_t>(lines_.back().data() + lines_.back().size() -
                                             lines_[0].data());
  }
  // The field of row `i` in the wanted column number `column`: a part of the row, or made in `room`.
  std::string_view field(size_t i, size_t column, std::string& room) const {
    return rows_->field(i, column, lines_[i], room);
  }

 private:
  const std::byte* data_ = nullptr;
  size_t item_bytes_ = 0;
  std::span<const std::string_view> lines_;
  size_t count_ = 0;
  const items::RowIndex* rows_ = nullptr;
};

// The whole items at the front of [begin, end), a batch at most. `lines` has room for them.
Items items_at(const items::Format& format, const std::byte* begin, const std::byte* end,
               std::vector<std::string_view>& lines);

// Bytes to an output; an item, with the end that a line may lack. False after an error.
bool append(OutputStream& output, std::string_view bytes);
bool append_item(OutputStream& output, const items::Format& format, std::string_view item);

// Walks over the items of one input.
//
// Thread safety: the computation's thread. Invariant: item() is whole and readable until next().
class ItemReader {
 public:
  ItemReader(InputStream& input, const items::Format& format, size_t item_bytes_max)
      : input_(&input), format_(format), item_bytes_max_(item_bytes_max) {}

  // The first or next item. False: there is none, or an error that status() tells.
  bool next();
  // As next(), where that item is at hand already; otherwise nothing changes. The present one can be read
  // until leave_last().
  bool next_at_hand() {
    if (done_ || format_.has_rules()) return false;
    const size_t bytes = items::item_bytes_at(format_, at_, end_);
    if (bytes == 0 || bytes > item_bytes_max_) return false;
    item_ = items::text_at(at_, bytes);
    at_ += bytes;
    __builtin_prefetch(at_ + prefetched_bytes);
    return true;
  }
  void leave_last() { input_->advance_to(at_ - item_.size()); }
  bool done() const { return done_; }
  Status status() const;
  std::string_view item() const { return item_; }
  // How many bytes from its beginning on are at hand.
  size_t readable_bytes() const { return item_.size() + static_cast<size_t>(end_ - at_); }

 private:
  // What the disk has brought is in no cache, and with many inputs the processor sees no pattern.
  static constexpr size_t prefetched_bytes = 512;
  bool next_line();

  InputStream* input_;
  items::Format format_;
  size_t item_bytes_max_;
  const std::byte* at_ = nullptr;   // behind the present item
  const std::byte* end_ = nullptr;  // of the window
  std::string_view item_;
  bool done_ = false;
  bool malformed_ = false;
  std::optional<items::RowFault> fault_;
  uint64_t lines_ = 0;  // that were passed, without a header
};

// Walks over the items of one input, as many at a time as are at hand.
//
// Thread safety: the computation's thread. Invariant: items() are whole and readable until next().
class BatchReader {
 public:
  // `columns`: the wanted ones of rows of CSV (items::RowIndex).
  BatchReader(InputStream& input, const items::Format& format, size_t item_bytes_max,
              const std::vector<size_t>& columns = {});

  // The first or next items. False: there are none, or an error that status() tells. Those in front of a bad item
  // come before the error.
  bool next();
  const Items& items() const { return items_; }
  const Status& status() const { return status_; }

 private:
  bool next_fixed();
  bool next_lines();
  size_t item_bytes_at(const std::byte* at, const std::byte* end, bool is_last);

  InputStream& input_;
  const items::Format format_;
  const size_t item_bytes_max_;
  std::optional<items::RowIndex> rows_;  // of CSV
  std::vector<std::string_view> lines_;
  Items items_ = Items(lines_);
  size_t bytes_ = 0;     // of the items
  uint64_t passed_ = 0;  // items before them
  Status status_;
};

// ---- Merge: n sorted inputs, one output. Stable: of equal keys those of earlier inputs come
// first. Errors: unsorted, where an input is not in order.
struct MergeOptions {
  bool descending = false;
  bool unique = false;                // of items with equal keys only the first
  uint64_t items_max = ~uint64_t{0};  // ends after so many items of the output
  uint64_t* items = nullptr;          // is told how many the output has (in several passes: each)
};
Computation merge(const items::Format& format, const MergeOptions& options = {});
// What it takes beside the blocks of its streams.
uint64_t merge_memory_bytes(const items::Format& format);

// ---- Distribute: n inputs, one read after the other, and m outputs; the items of each output keep
// that order.
//
// Writes to `outputs` which output each item belongs to, below the number of outputs (else:
// invalid_argument, from the run).
using ToOutput = std::function<void(const Items& items, uint32_t* outputs)>;
Computation distribute(const items::Format& format, ToOutput to_output);

// `bits` bits of the key, of which the first `skip_bits` are left out: the first bits of the key as
// it is ordered (of numbers their encoded key). 2^bits outputs. REQUIRES:
// skip_bits + bits <= 64 (32 for keys of 32 bits), bits <= 31.
ToOutput by_key_bits(const items::Format& format, unsigned skip_bits, unsigned bits);
// Ranges of keys: as many outputs as the cuts make parts. Positions count from the first item on that is shown: bytes
// with the line's end, of rows the rows.
ToOutput by_range(items::Cuts cuts);

}  // namespace penstock::bowtie
