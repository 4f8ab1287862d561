#pragma once

// The items of several inputs, one input after the other, as their bytes arrive: for operations
// that take items in the order of the inputs, and may stop before the end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/run/options.h"
#include "penstock/source.h"

namespace penstock::files {

// Thread safety: one thread; the options' `cancel` ends a wait for an input. Memory: 256 KiB, or
// twice the longest item.
class ItemReader {
 public:
  // An item of more than `item_bytes_max` bytes is an error. REQUIRES: the options outlive the
  // reader.
  ItemReader(const FilesOptions& options, uint64_t item_bytes_max)
      : options_(options), format_(options.format), item_bytes_max_(item_bytes_max) {}

  // Moves to the first or next item. Returns false at the end of the last input. Reads no more than
  // the item needs, unless more bytes have arrived. Errors: those of reading; corrupt, with the
  // place, if an item breaks the rules of its format; unsupported if an input has another header.
  Result<bool> next();

  // The item, valid until the next call of next(). A last line without an end has got one.
  std::string_view item() const { return item_; }
  // The head of the first input that is not empty, with a line end. REQUIRES: next() was called.
  const std::string& header() const { return header_; }

 private:
  Status open_next();
  Status take_header();
  Result<size_t> read(std::span<std::byte> into);
  Result<bool> fill();
  Result<bool> take(size_t bytes);

  const FilesOptions& options_;
  items::Format format_;  // completed by the header
  const uint64_t item_bytes_max_;
  size_t opened_ = 0;  // inputs
  std::string name_;   // name of the present input
  std::unique_ptr<Source> source_;
  std::string first_;  // bytes that were read behind the header
  bool has_header_ = false;
  std::string header_;
  std::string header_file_;
  // Bytes [at_, filled_) were read and not passed. Invariant: one more byte has room after them.
  std::vector<std::byte> buffer_;
  size_t at_ = 0;
  size_t filled_ = 0;
  size_t looks_from_ = 0;  // so many bytes may have a whole item: a long one is not searched often
  std::string_view item_;
  uint64_t item_begin_ = 0;  // offset of the item in its input
  uint64_t items_ = 0;       // items of the input before this one
  uint64_t lines_ = 0;       // lines of the input before this item
};

}  // namespace penstock::files
