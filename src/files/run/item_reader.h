#pragma once

// The items of several inputs, one input after the other, as their bytes arrive: for operations
// that take items in the order of the inputs, and may stop before the end.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "files/run/item_cutter.h"
#include "files/run/options.h"
#include "penstock/source.h"

namespace penstock::files {

// Thread safety: one thread; the options' `cancel` ends a wait for an input. Memory: that of its
// cutter.
class ItemReader {
 public:
  // REQUIRES: the options outlive the reader.
  explicit ItemReader(const FilesOptions& options)
      : options_(options), format_(options.format), cutter_(format_, cut_bytes_max(options, 1)) {}

  // Moves to the first or next item. Returns false at the end of the last input. Reads no more than
  // the item needs, unless more bytes have arrived. Errors: those of reading; corrupt, with the
  // place, if an item breaks the rules of its format; unsupported if an input has another header.
  Result<bool> next();

  // The item, valid until the next call of next(). A last line without an end has got one.
  std::string_view item() const { return cutter_.taken(); }
  // The head of the first input that is not empty, with a line end. REQUIRES: next() was called.
  const std::string& header() const { return header_; }

 private:
  Status open_next();
  Status take_header();
  Result<size_t> read(std::span<std::byte> into);
  Status fill();
  Result<bool> take(size_t bytes);

  const FilesOptions& options_;
  items::Format format_;            // completed by the header
  size_t opened_ = 0;               // inputs
  std::unique_ptr<Source> source_;  // the rest of the present input
  std::string first_;               // bytes of it that were read behind the header
  bool has_header_ = false;
  std::string header_;
  std::string header_file_;
  ItemCutter cutter_;  // the taken bytes are the item
};

}  // namespace penstock::files
