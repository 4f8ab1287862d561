#include "files/sort/plan/sort_input.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <optional>
#include <string_view>

#include "base/bits.h"
#include "files/bowtie/addresses.h"
#include "files/run/memory_plan.h"
#include "files/source/in_order.h"
#include "os/memory.h"

namespace penstock::external {
namespace {

// Sample keys of this size are mapped by the C library, not taken from the heap.
constexpr size_t long_key_bytes = 128 * KiB;

// Number of sequential inputs that are looked at before the sort is decided.
constexpr uint32_t looks_max = 8;

size_t number_of(const SortInput& input, const io::File& file) {
  const auto place = std::ranges::find(input.files, &file, &std::unique_ptr<io::File>::get);
  return static_cast<size_t>(place - input.files.begin());
}

// Keeps the header of the first input, which is the output's, and checks that the others have the
// same columns. REQUIRES: `file` is not empty. (Files are opened before sequential inputs are read,
// whatever their numbers.)
Status keep_header(const items::Format& format, SortInput& input, const std::string& header,
                   const io::File& file) {
  const size_t number = number_of(input, file);
  if (!input.header_number) {
    input.header = header;
    input.header_number = number;
    Status taken = header.empty() ? Status{} : input.take_header(header);
    if (!taken && taken.error().subject.empty()) taken.error().subject = file.path();
    return taken;
  }
  auto same = files::check_same_header(format, header, file.path(), input.header,
                                       input.files[*input.header_number]->path());
  if (!same || number > *input.header_number) return same;
  input.header = header;
  input.header_number = number;
  return {};
}

// The format that takes the first row for a header. Returns nullopt unless the options ask for the
// first row of CSV without a header.
std::optional<items::Format> with_first_row_as_header(const SortOptions& options) {
  const items::Format& format = options.format;
  if (!options.keeps_first_row || format.framing().columns == nullptr || format.header_lines > 0)
    return {};
  items::Format first = format;
  first.header_lines = 1;
  first.columns = nullptr;
  return first;
}

void keep_first_row(SortInput& input, std::string_view row, const io::File& file) {
  const size_t number = number_of(input, file);
  if (row.empty() || (!input.first_row.empty() && number > input.first_row_number)) return;
  input.first_row = row;
  input.first_row_number = number;
}

class Look {
 public:
  Look(Context& context, const std::optional<bowtie::DeviceProfile>& device, SortInput& input)
      : context_(context), options_(context.options), device_(device), input_(input) {}

  Status at_all();
  Status at_files();

 private:
  Status check_usable_memory(uint64_t least_bytes) const;
  Status look_at_what_comes_in_order();
  Result<bool> look_at(files::Piece& piece, size_t block_bytes, uint32_t blocks,
                       uint64_t bytes_max);
  void add_sample(files::Sample sample);
  Status sample_files();
  Status count_memory_again();

  Context& context_;
  const SortOptions& options_;
  const std::optional<bowtie::DeviceProfile>& device_;
  SortInput& input_;
};

Status Look::at_all() {
  input_.usable_bytes = files::usable_memory(options_.memory_bytes);
  if (auto status = check_usable_memory(files::usable_bytes_min); !status) return status;
  if (auto status = look_at_what_comes_in_order(); !status) return status;
  return at_files();
}

Status Look::at_files() {
  if (auto status = sample_files(); !status) return status;
  if (auto status = count_memory_again(); !status) return status;
  if (input_.sample.item_bytes == 0)
    input_.sample.item_bytes = options_.format.fixed() ? options_.format.record_bytes : 4 * KiB;
  return {};
}

Status Look::check_usable_memory(uint64_t least_bytes) const {
  if (input_.usable_bytes >= least_bytes) return {};
  const uint64_t needed_bytes = files::usable_bytes_min + input_.ahead_bytes;
  const uint64_t missing_bytes =
      needed_bytes - std::min(needed_bytes, files::usable_memory(options_.memory_bytes));
  // A quarter of what a larger budget adds is read ahead.
  return files::too_small_budget(
      "sort within " + files::budget_text(options_.memory_bytes) + ", of which " +
          (files::memory_scope() == MemoryScope::call ? "the call" : "the program itself") +
          " takes " + std::to_string(files::taken_memory() / MiB),
      options_.memory_bytes,
      std::max(missing_bytes, files::usable_bytes_min - input_.usable_bytes) * 3 / 2);
}

// Reads up to a quarter of the memory from sequential inputs before anything is decided; the
// readers can seek back that far. The first few of these inputs share the quarter: each may use as
// much as the others, and what the inputs before it left over. (A reader allocates all its blocks
// at the beginning.) Later inputs are opened when their turn comes, because each costs a thread, a
// decoder and addresses. So are the inputs behind one that has not ended: one writer may feed both,
// and wait until the first is read.
Status Look::look_at_what_comes_in_order() {
  auto in_order =
      static_cast<uint32_t>(std::ranges::count(input_.pieces, true, &files::Piece::in_order));
  if (in_order == 0) return {};
  const size_t block_bytes =
      std::clamp<size_t>(std::bit_floor(input_.usable_bytes / 128), 64 * KiB, MiB);
  auto blocks_left = static_cast<uint32_t>(input_.usable_bytes / 4 / block_bytes);
  const uint32_t looks = std::min(in_order, looks_max);
  uint32_t looked_at = 0;
  bool all_ended = true;
  for (auto at = input_.pieces.begin(); at != input_.pieces.end();) {
    files::Piece& piece = *at++;
    if (!piece.in_order || !all_ended || looked_at == looks) continue;
    const uint32_t share = std::max(1u, blocks_left / (looks - looked_at));
    auto ended = look_at(piece, block_bytes, share, bowtie::stream_address_bytes() / looks);
    if (!ended) return std::unexpected(ended.error());
    if (*ended && piece.bytes == 0) {  // an empty input leaves its share to the others
      at = input_.pieces.erase(at - 1);
      --in_order;
      continue;
    }
    ++looked_at;
    all_ended = *ended;
    const auto held_blocks = static_cast<uint32_t>(piece.bytes / block_bytes + 1);
    blocks_left -= std::min(blocks_left, held_blocks);
  }
  input_.known = all_ended && looked_at == in_order;
  for (files::Piece& piece : input_.pieces) {
    if (!piece.has_header || !input_.header_number) continue;
    piece.header = input_.header;
    piece.header_file = input_.files[*input_.header_number]->path();
  }
  // Decoders that are opened later still need their memory.
  if (looked_at < in_order) input_.ahead_bytes += input_.decoding_bytes;
  return {};
}

// Reads the first blocks of a piece. Returns true if that is all of it.
Result<bool> Look::look_at(files::Piece& piece, size_t block_bytes, uint32_t blocks,
                           uint64_t bytes_max) {
  constexpr uint32_t read_ahead_blocks = 4;
  auto reader = files::PieceReader::open_in_order(*piece.file, options_, block_bytes,
                                                  read_ahead_blocks, blocks, bytes_max);
  if (!reader) return std::unexpected(reader.error());
  piece.reader = *reader;
  size_t head_bytes = 0;
  if (piece.has_header) {
    auto header = piece.reader->take_header(options_.format, piece.file->path());
    if (!header) return std::unexpected(header.error());
    head_bytes = piece.reader->offset();
    const bool holds_nothing =
        header->empty() && piece.reader->available(piece.reader->begin(), 1) == 0;
    const Status kept =
        holds_nothing ? Status{} : keep_header(options_.format, input_, *header, *piece.file);
    if (!kept) return std::unexpected(kept.error());
  }
  const std::byte* const begin = piece.reader->begin();
  bool ended = false;
  for (uint32_t block = 0; block < blocks && !ended; ++block) {
    // Reads to the end of the block: the reader can seek back by whole blocks.
    const size_t wanted = block == 0 ? block_bytes - head_bytes % block_bytes : block_bytes;
    const size_t bytes = piece.reader->available(begin + piece.bytes, wanted);
    piece.bytes += bytes;
    ended = bytes < wanted;
    if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
  }
  if (auto status = piece.reader->status(); !status) return std::unexpected(status.error());
  if (ended && piece.bytes == 0) return true;
  if (const auto first = with_first_row_as_header(options_)) {
    const std::string_view data = items::text_at(begin, piece.bytes);
    if (const auto bytes = items::head_bytes(*first, data, ended))
      keep_first_row(input_, data.substr(0, bytes->value_or(data.size())), *piece.file);
  }
  add_sample(files::sample_memory(options_.order(), begin, piece.bytes,
                                  files::sample_places(piece.bytes)));
  input_.bytes += piece.bytes;
  const uint64_t held_bytes = round_up(piece.bytes, block_bytes);
  const auto& filter = options_.source.filter;
  const uint64_t ahead_bytes = ended ? block_bytes
                                     : (read_ahead_blocks + 2) * block_bytes +
                                           (filter == nullptr ? 0 : filter->memory_bytes());
  input_.usable_bytes -= std::min(input_.usable_bytes, held_bytes + ahead_bytes);
  input_.ahead_bytes += ahead_bytes;
  if (!ended) return false;
  const auto whole = check_size(options_.format, piece.bytes, piece.file->path());
  return whole ? Result<bool>(true) : std::unexpected(whole.error());
}

void Look::add_sample(files::Sample sample) {
  files::Sample& all = input_.sample;
  sample.numbers.insert(sample.numbers.end(), all.numbers.begin(), all.numbers.end());
  sample.strings.insert(sample.strings.end(), all.strings.begin(), all.strings.end());
  if (all.item_bytes > 0) {
    sample.item_bytes =
        sample.item_bytes > 0 ? std::min(sample.item_bytes, all.item_bytes) : all.item_bytes;
  }
  all = std::move(sample);
}

// Samples the files. Sequential inputs were sampled when they were looked at.
Status Look::sample_files() {
  std::vector<files::Piece> files;
  for (const files::Piece& piece : input_.pieces) {
    if (!piece.in_order) files.push_back(piece);
  }
  if (files.empty()) return {};
  const files::SamplePlan looks =
      files::plan_sample(bytes_of(files), input_.usable_bytes, device_ ? &*device_ : nullptr);
  auto sample = files::take_sample(context_, options_.order(), files, looks);
  if (!sample) return std::unexpected(sample.error());
  add_sample(std::move(*sample));
  return {};
}

// Counts the memory that is left. A sample is thousands of strings, which leave the heap larger
// than it was. Long strings do not: they have pages of their own, which are unmapped before the
// sort begins. (The blocks of sequential inputs that were read are resident by now, and counted.)
Status Look::count_memory_again() {
  input_.sampled = MemoryCharge(input_.sample.memory_bytes());
  uint64_t usable_bytes = files::usable_memory(options_.memory_bytes);
  for (const std::string& key : input_.sample.strings) {
    if (key.size() >= long_key_bytes) usable_bytes += key.size();
  }
  input_.usable_bytes =
      std::min(input_.usable_bytes, usable_bytes - std::min(usable_bytes, input_.ahead_bytes));
  return check_usable_memory(files::planned_bytes_min);
}

}  // namespace

bool SortInput::any_in_order() const {
  return std::ranges::any_of(pieces, &files::Piece::in_order);
}

namespace {

// Reads the header of a file, and its first row if that is asked for.
Status take_header(const SortOptions& options, SortInput& input, files::Piece& piece) {
  const auto header = files::read_header(options.format, *piece.file, piece.bytes);
  if (!header) return std::unexpected(header.error());
  const auto first = with_first_row_as_header(options);
  if (first && input.first_row.empty() && piece.bytes > header->bytes) {
    // A row may take as much memory as a row of a sequential input.
    const auto row = files::read_header(*first, *piece.file, piece.bytes, options.memory_bytes / 4);
    if (!row) {
      return failure(ErrorCode::unsupported, "find the end of the first row", piece.file->path(),
                     "a larger -S");
    }
    keep_first_row(input, std::string_view(row->text).substr(header->bytes), *piece.file);
  }
  piece.offset = header->bytes;
  piece.bytes -= header->bytes;
  return keep_header(options.format, input, header->text, *piece.file);
}

}  // namespace

Result<SortInput> open_sort_input(const SortOptions& options, TakeHeader take) {
  SortInput input;
  input.take_header = std::move(take);
  auto guard = std::make_shared<io::InputGuard>();
  input.guard = guard;
  for (size_t i = 0; i < files::input_count(options); ++i) {
    const std::string path = files::input_name(options, i);
    auto file = files::open_input(options, i);
    if (!file) {
      if (file.error().system_errno == EMFILE) file.error().hint += ", or penstock merge";
      return std::unexpected(file.error());
    }
    input.files.push_back(std::make_unique<io::File>(std::move(*file)));
    const io::File& opened = *input.files.back();
    if (auto added = guard->add(opened); !added) return std::unexpected(added.error());
    const auto arrival = source::arrival_of(opened, options.source);
    if (!arrival) return std::unexpected(arrival.error());
    const bool has_header = options.format.has_head();
    if (arrival->in_order) {
      input.known = false;
      input.decoding_bytes = std::max(input.decoding_bytes, arrival->decoding_bytes);
      input.pieces.push_back(
          {.file = &opened, .in_order = true, .is_given = true, .has_header = has_header});
      continue;
    }
    auto size = opened.size();
    if (!size) return std::unexpected(size.error());
    if (auto whole = check_size(options.format, *size, path); !whole)
      return std::unexpected(whole.error());
    if (*size == 0) continue;
    files::Piece piece{.file = &opened, .bytes = *size, .is_given = true};
    if (has_header) {
      if (auto status = take_header(options, input, piece); !status)
        return std::unexpected(status.error());
      if (piece.bytes == 0) continue;
    }
    input.bytes += piece.bytes;
    input.pieces.push_back(std::move(piece));
  }
  return input;
}

Status look_at_input(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input) {
  return Look(context, device, input).at_all();
}

Status look_at_files(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                     SortInput& input) {
  return Look(context, device, input).at_files();
}

}  // namespace penstock::external
