#pragma once

// Ready-made computations for run(): merge (also for run_plan()) and distribute.
//
// All read windows of items of a items::Format. The last line of a file may lack its newline; the
// output gets one. An item must be no longer than the widest window (else: out_of_memory); a file of
// fixed items must hold whole ones (else: corrupt).
//
// For another computation over items (groups, joins), ItemReader walks over an input and
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
#include "items/rows.h"

namespace penstock::bowtie {

// The largest batch that is passed to a function: few enough items for their keys and sizes to stay
// in the first-level cache.
inline constexpr size_t batch_items_max = 256;

// Consecutive items that are passed to a function in one call, because a call per item would cost
// more than the work of most functions. Only a last line may lack its newline.
class Items {
 public:
  // Items of a fixed size, from `data` on.
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
  // The first of the fixed-size items, which are contiguous.
  const std::byte* data() const { return data_; }
  // The bytes of all items. REQUIRES: they are contiguous.
  size_t bytes() const {
    if (fixed()) return count_ * item_bytes_;
    return count_ == 0 ? 0
                       : static_cast<size_t>(lines_.back().data() + lines_.back().size() -
                                             lines_[0].data());
  }
  // The field of row `i` in the wanted column number `column`: a view of the row or of `room`.
  std::string_view field(size_t i, size_t column, std::string& room) const {
    return rows_->field(i, column, lines_[i], room);
  }
  // Returns whether item `i` is no row of CSV with more or fewer fields than the header.
  bool is_even(size_t i) const { return rows_ == nullptr || rows_->is_even(i); }

 private:
  const std::byte* data_ = nullptr;
  size_t item_bytes_ = 0;
  std::span<const std::string_view> lines_;
  size_t count_ = 0;
  const items::RowIndex* rows_ = nullptr;
};

// Returns the whole items at the front of [begin, end), at most a batch, with room in `lines`.
Items items_at(const items::Format& format, const std::byte* begin, const std::byte* end,
               std::vector<std::string_view>& lines);

// Append bytes, or an item with the line end it may lack. Return false after an error.
bool append(OutputStream& output, std::string_view bytes);
bool append_item(OutputStream& output, const items::Format& format, std::string_view item);

// Bytes that are kept or made of an item. Those of a long item are in borrowed memory.
//
// Thread safety: the computation's thread.
class LongText {
 public:
  explicit LongText(Streams& streams)
      : loan_(streams), usual_bytes_max_(streams.window_bytes_max()) {}

  // Clears the text and has `make(std::string&)` append to it what it makes of `item_bytes` bytes.
  // Returns false if there is no room for as many, or after an error of the run.
  template <class Make>
  bool make(size_t item_bytes, Make make) {
    text_.clear();
    if (item_bytes <= usual_bytes_max_) [[likely]] {
      make(text_);
      return true;
    }
    if (!loan_.set(std::max<uint64_t>(item_bytes, loan_.bytes()))) return false;
    make(text_);
    text_.shrink_to_fit();
    return loan_.set(text_.size() > usual_bytes_max_ ? text_.size() : 0);
  }
  std::string_view view() const { return text_; }
  // REQUIRES: both are of one run.
  void swap(LongText& other) noexcept {
    text_.swap(other.text_);
    if (loan_.borrows() || other.loan_.borrows()) [[unlikely]]
      std::swap(loan_, other.loan_);
  }
  // Frees the memory of a long text.
  void leave() {
    if (text_.capacity() > usual_bytes_max_ || loan_.borrows()) [[unlikely]]
      free();
  }

 private:
  void free();

  Loan loan_;
  std::string text_;
  size_t usual_bytes_max_;
};

// Walks over the items of one input.
//
// Thread safety: the computation's thread. Invariant: item() is whole and readable until next().
class ItemReader {
 public:
  // `is_checked`: no item breaks the rules of the format.
  ItemReader(InputStream& input, const items::Format& format, size_t item_bytes_max,
             bool is_checked = false)
      : input_(&input),
        format_(format),
        item_bytes_max_(item_bytes_max),
        has_rules_(format.has_rules() && !is_checked) {}

  // Moves to the first or next item. Returns false at the end or after an error (see status()).
  bool next();
  // Like next() if that item is in the window already; otherwise does nothing and returns false.
  // The present item stays readable until leave_last().
  bool next_at_hand() {
    if (done_ || has_rules_) return false;
    const size_t bytes = items::item_bytes_at(format_, at_, end_);
    if (bytes == 0 || bytes > item_bytes_max_) return false;
    item_ = items::text_at(at_, bytes);
    at_ += bytes;
    ++lines_;
    __builtin_prefetch(at_ + prefetched_bytes);
    return true;
  }
  void leave_last() { input_->advance_to(at_ - item_.size()); }
  bool done() const { return done_; }
  Status status() const;
  std::string_view item() const { return item_; }
  bool is_even() const { return is_even_; }  // items::fault_of()
  uint64_t lines() const { return lines_; }  // up to the present one, without the header
  // The error of an item whose key has no room in memory, or the run's first error.
  Status no_room() const;
  // Bytes of the window from the item's beginning on.
  size_t readable_bytes() const { return item_.size() + static_cast<size_t>(end_ - at_); }

 private:
  // Distance of the prefetch: data from the disk is in no cache, and with many inputs the hardware
  // prefetcher sees no pattern.
  static constexpr size_t prefetched_bytes = 512;
  bool next_line();

  InputStream* input_;
  items::Format format_;
  size_t item_bytes_max_;
  bool has_rules_;
  const std::byte* at_ = nullptr;   // end of the present item
  const std::byte* end_ = nullptr;  // end of the window
  std::string_view item_;
  bool done_ = false;
  bool malformed_ = false;
  std::optional<items::ItemFault> fault_;
  bool is_even_ = true;
  uint64_t lines_ = 0;  // lines passed, without the header
};

// Walks over the items of one input, a batch at a time.
//
// Thread safety: the computation's thread. Invariant: items() are whole and readable until next().
class BatchReader {
 public:
  // `columns`: the wanted columns of CSV rows (items::RowIndex). `passed`: the items of the input
  // that were read before.
  BatchReader(InputStream& input, const items::Format& format, size_t item_bytes_max,
              const std::vector<size_t>& columns = {}, uint64_t passed = 0);

  // Moves to the first or next items. Returns false at the end or after an error (see status()).
  // Items in front of a bad one are returned before the error.
  bool next();
  const Items& items() const { return items_; }
  const Status& status() const { return status_; }
  // The error of an item of so many bytes among them, for which memory has no room, or the run's
  // first error.
  Status no_room(size_t item_bytes) const;

 private:
  bool next_fixed();
  bool next_lines();
  size_t item_bytes_at(const std::byte* at, const std::byte* end, bool is_last);

  InputStream& input_;
  const items::Format format_;
  const size_t item_bytes_max_;
  std::optional<items::RowIndex> rows_;  // for CSV
  std::vector<std::string_view> lines_;
  Items items_ = Items(lines_);
  size_t bytes_ = 0;     // bytes of the items
  uint64_t passed_ = 0;  // items before them
  Status status_;
};

// ---- Merge: n sorted inputs, one output. Stable: items with equal keys keep the order of the
// inputs. Errors: unsorted, if an input is not in order.
struct MergeOptions {
  bool descending = false;
  bool unique = false;                // keeps only the first of items with equal keys
  uint64_t items_max = ~uint64_t{0};  // ends after this many items of the output
  uint64_t* items = nullptr;          // receives the output's item count (of each pass)
  // Receives each item, the `number`th of its input, that may have an odd value
  // (items::KeyOrder::append()), or is not even (items::fault_of()).
  std::function<void(uint32_t input, uint64_t number, std::string_view item)> odd = {};
};
Computation merge(const items::Format& format, const MergeOptions& options = {});
// Memory of a merge beside the blocks of its streams.
uint64_t merge_memory_bytes(const items::Format& format);

// ---- Distribute: n inputs, read one after the other, to m outputs, which keep that order.
//
// A ToOutput writes to `outputs` which output each item belongs to, a number below the number of
// outputs (else: invalid_argument, from the run).
using ToOutput = std::function<void(const Items& items, uint32_t* outputs)>;
Computation distribute(const items::Format& format, ToOutput to_output);

// Distributes by `bits` bits of the key after its first `skip_bits`, in the key's order (numbers:
// their encoded key), to 2^bits outputs. REQUIRES: skip_bits + bits <= 64 (32 for keys of 32 bits),
// bits <= 31.
ToOutput by_key_bits(const items::Format& format, unsigned skip_bits, unsigned bits);
// Distributes by ranges of keys; the cuts make as many outputs as there are parts. Positions count
// from the first item: bytes with line ends, or rows for CSV. `odd`: receives items as
// MergeOptions::odd does.
ToOutput by_range(items::Cuts cuts,
                  std::function<void(size_t number, std::string_view item)> odd = {});

}  // namespace penstock::bowtie
