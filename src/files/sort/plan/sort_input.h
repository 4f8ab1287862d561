#pragma once

// What a sort reads, and what is known of it before anything is decided.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/run/input.h"
#include "files/run/sample.h"
#include "files/sort/context.h"
#include "io/input_guard.h"

namespace penstock::external {

// Bytes unless the name says otherwise.
struct SortInput {
  std::vector<std::unique_ptr<io::File>> files;
  std::shared_ptr<const io::InputGuard> guard;  // of all that the options name
  std::string header;                           // the head of the first input that holds anything
  std::optional<size_t> header_number;          // that input's, once one is known
  std::function<Status(const std::string& header)> take_header;
  // The row that stands first in the inputs, with its line end: of CSV without a header.
  std::string first_row;
  size_t first_row_number = 0;       // the input that it is from
  std::vector<files::Piece> pieces;  // none of them empty, when it has been looked at
  uint64_t bytes = 0;                // of what comes in order: what was looked at
  bool known = true;                 // that is all
  files::Sample sample;
  MemoryCharge sampled;         // what it took: the heap keeps that when its keys go
  uint64_t usable_bytes = 0;    // what the budget leaves, by that look
  uint64_t ahead_bytes = 0;     // that readers of what comes in order have not used yet
  uint64_t decoding_bytes = 0;  // what decompression takes of the one that takes most

  // Whether a piece comes in order, and cannot be read twice.
  bool any_in_order() const;
};

// Opens what the options name. Of files nothing is read but their headers. Fails where a file cannot
// hold whole items, or where headers differ.
//
// `take_header` is called once, when the first header is known, which may be later, when what comes
// in order is looked at.
using TakeHeader = std::function<Status(const std::string& header)>;
Result<SortInput> open_sort_input(const SortOptions& options, TakeHeader take_header);

// Reads what comes in order as far as a quarter of the memory goes (its readers can come back that
// far), takes a sample, counts the memory. Fails where too little of that is left. `device`: nothing where
// nothing is known.
Status look_at_input(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input);
// Once its pieces have been replaced by other files: samples these, and counts the memory again.
Status look_at_files(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input);

}  // namespace penstock::external
