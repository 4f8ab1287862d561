#pragma once

// Input of a sort, and the facts about it that are known before the sort is decided.

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

// Figures are in bytes unless the name says otherwise.
struct SortInput {
  std::vector<std::unique_ptr<io::File>> files;
  std::shared_ptr<const io::InputGuard> guard;  // all files that the options name
  std::string header;                           // head of the first input that is not empty
  std::optional<size_t> header_number;          // number of the input it is from
  std::function<Status(const std::string& header)> take_header;
  // First row of the inputs, with its line end, of CSV without a header.
  std::string first_row;
  size_t first_row_number = 0;       // number of the input that `first_row` is from
  std::vector<files::Piece> pieces;  // none of them is empty after look_at_input()
  uint64_t bytes = 0;                // known so far; sequential inputs: as far as read
  bool known = true;                 // whether `bytes` is the whole input
  files::Sample sample;
  MemoryCharge sampled;         // memory of the sample: the heap keeps it when the keys are freed
  uint64_t usable_bytes = 0;    // memory that the budget left at the last look
  uint64_t ahead_bytes = 0;     // memory that readers of sequential inputs have yet to use
  uint64_t decoding_bytes = 0;  // memory of the decompressor that takes the most

  // Whether a piece is sequential: it is read in order and only once.
  bool any_in_order() const;
};

// Opens the inputs that the options name. Reads only the headers of files. Fails if a file's size
// is no multiple of the item size, or if headers differ.
//
// `take_header` is called once, when the first header is known, which may be as late as
// look_at_input() if the inputs are sequential.
using TakeHeader = std::function<Status(const std::string& header)>;
Result<SortInput> open_sort_input(const SortOptions& options, TakeHeader take_header);

// Reads up to a quarter of the memory from sequential inputs (their readers can seek back that
// far), takes a sample and counts the memory. Fails if too little memory is left. `device` is empty
// if the disk is not known.
Status look_at_input(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input);
// Samples the files that replaced the input's pieces, and counts the memory again.
Status look_at_files(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input);

}  // namespace penstock::external
