#include "bowtie/sample.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/bits.h"
#include "base/random.h"
#include "bowtie/item_view.h"
#include "record/codec.h"

// Stratified: the input is cut into `places` equal parts and one stretch is read at a random place
// of each, so that sorted input gives quantiles that are nearly exact, and periodic input does not
// fool a fixed stride. The seed is fixed: runs repeat.

namespace penstock::bowtie {
namespace {

constexpr uint64_t seed = 0x70656e73746f636b;
constexpr size_t stretch_bytes = file::sector_bytes;
constexpr size_t items_per_stretch = 32;

// Keys of whole items inside a stretch of the file, whose first byte is at `offset` of the data.
class Collector {
 public:
  explicit Collector(const SortOptions& options) : options_(options) {}

  void add_stretch(const std::byte* data, size_t bytes, uint64_t offset) {
    if (options_.format.fixed()) {
      add_fixed(data, bytes, offset);
    } else {
      add_lines(data, bytes, offset);
    }
  }

  Sample finish() {
    sample_.item_bytes =
        items_ == 0 ? 0 : static_cast<double>(item_bytes_) / static_cast<double>(items_);
    return std::move(sample_);
  }

 private:
  void add_fixed(const std::byte* data, size_t bytes, uint64_t offset) {
    uint32_t size = options_.format.record_bytes;
    uint64_t skip = (size - offset % size) % size;
    if (skip + size > bytes) return;
    uint64_t items = (bytes - skip) / size;
    uint64_t step = std::max<uint64_t>(1, items / items_per_stretch);
    for (uint64_t i = 0; i < items; i += step)
      add_item({reinterpret_cast<const char*>(data) + skip + i * size, size});
  }

  void add_lines(const std::byte* data, size_t bytes, uint64_t offset) {
    const std::byte* end = data + bytes;
    const std::byte* at = data;
    if (offset != 0) {
      const void* newline = std::memchr(data, '\n', bytes);
      if (newline == nullptr) return;
      at = static_cast<const std::byte*>(newline) + 1;
    }
    for (size_t i = 0; i < items_per_stretch && at < end; ++i) {
      if (std::memchr(at, '\n', static_cast<size_t>(end - at)) == nullptr) return;
      std::string_view line = item_at(options_.format, at, end);
      add_item(line);
      at += line.size();
    }
  }

  void add_item(std::string_view item) {
    item_bytes_ += item.size();
    ++items_;
    if (!options_.format.numeric()) {
      std::string key(key_of(options_.format, item));
      if (!sample_.strings.empty() &&
          (options_.descending ? key > sample_.strings.back() : key < sample_.strings.back())) {
        ++sample_.descents;
      }
      sample_.strings.push_back(std::move(key));
      return;
    }
    std::byte bytes[16];
    std::memcpy(bytes, item.data(), item.size());
    record::encode_keys(options_.format.type, bytes, 1, options_.descending);
    uint64_t key = item.size() == 4 ? record::load<uint32_t>(bytes) : record::load<uint64_t>(bytes);
    if (!sample_.numbers.empty() && key < sample_.numbers.back()) ++sample_.descents;
    sample_.numbers.push_back(key);
  }

  const SortOptions& options_;
  Sample sample_;
  uint64_t item_bytes_ = 0;
  uint64_t items_ = 0;
};

struct Stretch {
  const file::File* file;
  uint64_t file_offset;
  uint64_t data_offset;  // in the piece
  size_t bytes;
};

// The stretch of a piece at `position`, cut to sectors and to the piece.
Stretch stretch_at(const Piece& piece, uint64_t position, size_t wanted) {
  uint64_t start = round_down(position, file::sector_bytes);
  size_t bytes = static_cast<size_t>(std::min<uint64_t>(wanted, piece.bytes - start));
  if (piece.file != nullptr) return {piece.file, start, start, bytes};
  const stream::Extent& extent = piece.extents[start / piece.extent_bytes];
  uint64_t inside = start % piece.extent_bytes;
  return {extent.file, extent.offset + inside, start,
          static_cast<size_t>(std::min<uint64_t>(bytes, extent.bytes - inside))};
}

}  // namespace

Result<Sample> take_sample(Context& context, const std::vector<Piece>& pieces, uint32_t places) {
  const record::Format& format = context.options.format;
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  auto engine = file::Engine::open({.depth = 32, .kind = context.options.engine});
  if (!engine) return std::unexpected(engine.error());

  // A stretch holds two fixed items at least; lines longer than a stretch are looked for in longer
  // ones.
  size_t wanted =
      format.fixed()
          ? round_up(std::max<size_t>(stretch_bytes, 2 * format.record_bytes), file::sector_bytes)
          : stretch_bytes;
  for (;; wanted *= 16, places = std::max(places / 16, 1u)) {
    Collector collector(context.options);
    Random random(seed);
    constexpr size_t batch = 32;
    std::unique_ptr<std::byte[], void (*)(std::byte*)> buffer(
        new (std::align_val_t{file::sector_bytes}) std::byte[batch * wanted],
        [](std::byte* memory) { operator delete[](memory, std::align_val_t{file::sector_bytes}); });
    size_t bytes_read = 0;
    uint64_t piece_start = 0;
    size_t piece = 0;
    for (uint32_t place = 0; place < places;) {
      std::vector<Stretch> stretches;
      std::vector<file::Request> requests(batch);
      while (stretches.size() < batch && place < places) {
        uint64_t part = std::max<uint64_t>(1, total / places);
        uint64_t position = std::min(total - 1, place * part + random.below(part));
        ++place;
        while (position >= piece_start + pieces[piece].bytes) piece_start += pieces[piece++].bytes;
        stretches.push_back(stretch_at(pieces[piece], position - piece_start, wanted));
      }
      for (size_t i = 0; i < stretches.size(); ++i) {
        requests[i] = {.operation = file::Operation::read,
                       .file = stretches[i].file,
                       .offset = stretches[i].file_offset,
                       .data = buffer.get() + i * wanted,
                       .bytes = stretches[i].bytes};
        (*engine)->submit(requests[i]);
      }
      for (size_t i = 0; i < stretches.size(); ++i) {
        (*engine)->wait(requests[i]);
        bytes_read += requests[i].done_bytes;
      }
      for (size_t i = 0; i < stretches.size(); ++i) {
        if (requests[i].error != 0) {
          return system_error(requests[i].error, "read a sample", stretches[i].file->path());
        }
        collector.add_stretch(requests[i].data, requests[i].done_bytes, stretches[i].data_offset);
      }
      if (auto status = context.pulse(); !status) return std::unexpected(status.error());
    }
    Sample sample = collector.finish();
    sample.bytes_read = bytes_read;
    if (sample.size() > 0 || wanted >= total || wanted >= 8 * MiB) return sample;
  }
}

Sample sample_memory(const SortOptions& options, const std::byte* data, size_t bytes,
                     uint32_t places) {
  Collector collector(options);
  Random random(seed);
  size_t part = std::max<size_t>(1, bytes / places);
  for (uint32_t place = 0; place < places && place * part < bytes; ++place) {
    uint64_t position = std::min<uint64_t>(bytes - 1, place * part + random.below(part));
    collector.add_stretch(data + position, std::min(stretch_bytes, bytes - position), position);
  }
  return collector.finish();
}

}  // namespace penstock::bowtie
