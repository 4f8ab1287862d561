#include "external/sort_input.h"

#include <algorithm>
#include <bit>

#include "external/memory_plan.h"
#include "os/memory.h"

namespace penstock::external {
namespace {

// Of a sample's keys: what the C library maps for itself instead of taking it from the heap.
constexpr size_t long_key_bytes = 128 * KiB;

class Look {
 public:
  Look(Context& context, const std::optional<bowtie::DeviceProfile>& device, SortInput& input)
      : context_(context), options_(context.options), device_(device), input_(input) {}

  Status at_all();
  Status at_files();

 private:
  Status check_usable_memory(uint64_t least_bytes) const;
  Status look_at_pipes();
  Status sample_files();
  Status count_memory_again();

  Context& context_;
  const SortOptions& options_;
  const std::optional<bowtie::DeviceProfile>& device_;
  SortInput& input_;
};

Status Look::at_all() {
  input_.usable_bytes = usable_memory(options_.memory_bytes);
  if (auto status = check_usable_memory(usable_bytes_min); !status) return status;
  if (auto status = look_at_pipes(); !status) return status;
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
  return failure(ErrorCode::out_of_memory,
                 "sort within " + std::to_string(options_.memory_bytes / MiB) +
                     " MiB, of which the program itself takes " +
                     std::to_string(os::resident_memory().bytes / MiB),
                 "-S", "at least " + std::to_string(budget_for(usable_bytes_min) / MiB + 1) + "M");
}

// A pipe is read as far as a quarter of the memory goes before anything is decided; the reader can
// come back that far.
Status Look::look_at_pipes() {
  bool first = true;
  for (Piece& piece : input_.pieces) {
    if (piece.file->seekable()) continue;
    if (!first)
      return failure(ErrorCode::unsupported, "sort more than one pipe", piece.file->path(),
                     "one of them a file");
    first = false;
    size_t block_bytes =
        std::clamp<size_t>(std::bit_floor(input_.usable_bytes / 128), 64 * KiB, MiB);
    auto comeback_blocks = static_cast<uint32_t>(input_.usable_bytes / 4 / block_bytes);
    uint32_t read_ahead_blocks = 4;
    uint32_t blocks = comeback_blocks + read_ahead_blocks + 2;
    auto files = FileIo::open(options_, block_bytes, blocks);
    if (!files) return std::unexpected(files.error());
    input_.pipe_files = std::move(*files);
    auto reader = PieceReader::open_pipe(input_.pipe_files.io(), *piece.file, read_ahead_blocks,
                                         comeback_blocks);
    if (!reader) return std::unexpected(reader.error());
    piece.reader = *reader;

    const std::byte* begin = piece.reader->begin();
    size_t head_bytes = 0;
    bool ended = false;
    for (uint32_t block = 0; block < comeback_blocks && !ended; ++block) {
      size_t bytes = piece.reader->available(begin + head_bytes, block_bytes);
      head_bytes += bytes;
      ended = bytes < block_bytes;
      if (auto status = context_.pulse(); !status) return status;
    }
    if (auto status = piece.reader->status(); !status) return status;
    input_.sample = sample_memory(options_, begin, head_bytes, sample_places(head_bytes));
    piece.bytes = head_bytes;
    input_.bytes += head_bytes;
    input_.known = ended;
    piece.ended = ended;
    input_.usable_bytes -= blocks * block_bytes;
    input_.pipe_ahead_bytes = (blocks - comeback_blocks) * block_bytes;
    if (ended && options_.format.fixed() && head_bytes % options_.format.record_bytes != 0) {
      return failure(ErrorCode::corrupt,
                     "read its " + std::to_string(head_bytes) + " bytes as items of " +
                         std::to_string(options_.format.record_bytes),
                     piece.file->path(), "another --format or --record");
    }
  }
  std::erase_if(input_.pieces, [](const Piece& piece) { return piece.reader && piece.bytes == 0; });
  return {};
}

// A pipe among the inputs has been sampled already, where it was looked at.
Status Look::sample_files() {
  std::vector<Piece> files;
  uint64_t bytes = 0;
  for (const Piece& piece : input_.pieces) {
    if (piece.reader) continue;
    files.push_back(piece);
    bytes += piece.bytes;
  }
  if (files.empty()) return {};
  const SamplePlan looks = plan_sample(bytes, device_ ? &*device_ : nullptr);
  auto sample = take_sample(context_, files, looks);
  if (!sample) return std::unexpected(sample.error());
  sample->numbers.insert(sample->numbers.end(), input_.sample.numbers.begin(),
                         input_.sample.numbers.end());
  sample->strings.insert(sample->strings.end(), input_.sample.strings.begin(),
                         input_.sample.strings.end());
  if (input_.sample.item_bytes > 0) {
    sample->item_bytes = sample->item_bytes > 0
                             ? std::min(sample->item_bytes, input_.sample.item_bytes)
                             : input_.sample.item_bytes;
  }
  input_.sample = std::move(*sample);
  return {};
}

// A sample is thousands of strings, which leave the heap larger than it was. Long ones do not: they
// have pages of their own, which go back before anything else is held. (The blocks of a pipe are
// resident by now as far as it has been read, and counted with the rest.)
Status Look::count_memory_again() {
  uint64_t usable_bytes = usable_memory(options_.memory_bytes);
  for (const std::string& key : input_.sample.strings) {
    if (key.size() >= long_key_bytes) usable_bytes += key.size();
  }
  input_.usable_bytes =
      std::min(input_.usable_bytes, usable_bytes - std::min(usable_bytes, input_.pipe_ahead_bytes));
  return check_usable_memory(planned_bytes_min);
}

}  // namespace

bool SortInput::is_piped() const {
  return std::ranges::any_of(pieces, [](const Piece& piece) { return piece.reader != nullptr; });
}

Result<SortInput> open_sort_input(const SortOptions& options) {
  SortInput input;
  auto guard = std::make_shared<file::InputGuard>();
  input.guard = guard;
  for (const std::string& path : options.inputs) {
    auto file = file::File::open_read(path);
    if (!file) return std::unexpected(file.error());
    input.files.push_back(std::make_unique<file::File>(std::move(*file)));
    const file::File& opened = *input.files.back();
    if (auto added = guard->add(opened); !added) return std::unexpected(added.error());
    if (!opened.seekable()) {
      input.known = false;
      input.pieces.push_back({.file = &opened});
      continue;
    }
    auto size = opened.size();
    if (!size) return std::unexpected(size.error());
    if (options.format.fixed() && *size % options.format.record_bytes != 0) {
      return failure(ErrorCode::corrupt,
                     "read its " + std::to_string(*size) + " bytes as items of " +
                         std::to_string(options.format.record_bytes),
                     path, "another --format or --record");
    }
    if (*size == 0) continue;
    input.pieces.push_back({.file = &opened, .bytes = *size});
    input.bytes += *size;
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
