#include "files/sample.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/bits.h"
#include "base/random.h"
#include "record/items.h"

// Stratified: the input is cut into `places` equal parts and one stretch is read at a random place
// of each, so that sorted input gives quantiles that are nearly exact, and periodic input does not
// fool a fixed stride. The seed is fixed: runs repeat.

namespace penstock::files {
namespace {

constexpr uint64_t seed = 0x70656e73746f636b;
constexpr size_t batch_bytes = 1 * MiB;  // read at once
constexpr size_t batch_max = 32;         // stretches read at once
constexpr uint64_t kept_bytes_max = 2 * MiB;
constexpr uint64_t places_max = 2048;
constexpr uint64_t bytes_per_place = 64 * KiB;
// What the jumps of a sample may take, of the time of reading the input once; and how many looks
// there are at least: what lies between two of them is a quarter of the memory, up to 8 times the
// memory.
constexpr double seek_share_max = 1.0 / 32;
constexpr uint64_t looks_min = 4;
constexpr uint64_t looks_enough = 32;
constexpr uint64_t looks_per_memory = 4;
constexpr size_t stretch_bytes_max = 256 * KiB;

// Keys of whole items inside a stretch of the file, whose first byte is at `offset` of the data.
class Collector {
 public:
  // Keys of one stretch take about kept_bytes_max / places of memory at most.
  Collector(const record::ItemOrder& order, const SamplePlan& plan)
      : order_(order),
        items_per_stretch_(plan.items_per_stretch),
        stretch_kept_bytes_max_(kept_bytes_max / plan.places) {}

  // Keys alone were read: the stretch is one.
  void add_key(const std::byte* data, size_t bytes) {
    stretch_kept_bytes_ = 0;
    count(order_.format().record_bytes, 1);
    keep({reinterpret_cast<const char*>(data), bytes});
  }

  void add_stretch(const std::byte* data, size_t bytes, uint64_t offset) {
    stretch_kept_bytes_ = 0;
    if (order_.format().fixed()) {
      add_fixed(data, bytes, offset);
    } else if (order_.format().type == record::Type::rows) {
      add_rows(data, bytes, offset);
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
    uint32_t size = order_.format().record_bytes;
    uint64_t skip = (size - offset % size) % size;
    if (skip + size > bytes) return;
    uint64_t items = (bytes - skip) / size;
    uint64_t step = std::max<uint64_t>(1, items / items_per_stretch_);
    count(items * size, items);
    for (uint64_t i = 0; i < items; i += step)
      add_item({reinterpret_cast<const char*>(data) + skip + i * size, size});
  }

  // The mean is bytes for each newline: the mean of whole lines would leave out those that are
  // longer than a stretch.
  void add_lines(const std::byte* data, size_t bytes, uint64_t offset) {
    const std::byte* end = data + bytes;
    const auto line_end = std::byte(order_.format().line_end);
    count(bytes, static_cast<uint64_t>(std::count(data, end, line_end)));
    const std::byte* at = data;
    if (offset != 0) {
      const void* newline = std::memchr(data, order_.format().line_end, bytes);
      if (newline == nullptr) return;
      at = static_cast<const std::byte*>(newline) + 1;
    }
    auto lines = static_cast<size_t>(std::count(at, end, line_end));
    size_t step = std::max<size_t>(1, lines / items_per_stretch_);
    for (size_t i = 0; i < lines; ++i) {
      const std::string_view line = item_at(order_.format(), at, end);
      if (line.empty()) break;  // of rows: it began in quotes, or goes on behind
      if (i % step == 0) add_item(line);
      at += line.size();
    }
  }

  // Of rows that are longer than a stretch there is none.
  void add_rows(const std::byte* data, size_t bytes, uint64_t offset) {
    const std::byte* const end = data + bytes;
    const std::byte* const begin = offset == 0 ? data : record::first_row(data, end);
    uint64_t rows = 0;
    const std::byte* at = begin;
    while (const size_t row_bytes = record::keyed_row_bytes_at(at, end)) {
      ++rows;
      at += row_bytes;
    }
    count(static_cast<uint64_t>(at - begin), rows);
    const uint64_t step = std::max<uint64_t>(1, rows / items_per_stretch_);
    at = begin;
    for (uint64_t i = 0; i < rows; ++i) {
      const std::string_view row = item_at(order_.format(), at, end);
      if (i % step == 0) add_item(row);
      at += row.size();
    }
  }

  void count(uint64_t bytes, uint64_t items) {
    item_bytes_ += bytes;
    items_ += items;
  }

  void add_item(std::string_view item) {
    if (!order_.format().numeric()) {
      keep(order_.key(item, room_));
      return;
    }
    const uint64_t key = order_.prefix(item);
    if (!sample_.numbers.empty() && key < sample_.numbers.back()) ++sample_.descents;
    sample_.numbers.push_back(key);
  }

  void keep(std::string_view key) {
    if (stretch_kept_bytes_ > stretch_kept_bytes_max_) return;
    stretch_kept_bytes_ += key.size();
    if (!sample_.strings.empty() && order_.compare_keys(key, sample_.strings.back()) < 0)
      ++sample_.descents;
    sample_.strings.emplace_back(key);
  }

  const record::ItemOrder order_;
  std::string room_;
  Sample sample_;
  uint64_t items_per_stretch_;
  uint64_t stretch_kept_bytes_max_;
  uint64_t stretch_kept_bytes_ = 0;
  uint64_t item_bytes_ = 0;
  uint64_t items_ = 0;
};

struct Stretch {
  const Piece* piece;
  uint64_t data_offset;  // in the piece
  size_t first_request;  // of those that read it, one behind the other
  size_t requests;
};

// Requests for a stretch of a piece from `start` on, cut to the piece: of extents, one for each,
// because an item may be longer than they are.
Stretch add_stretch(const Piece& piece, uint64_t start, size_t wanted, std::byte* to,
                    std::vector<file::Request>& requests) {
  Stretch stretch{&piece, start, requests.size(), 0};
  const uint64_t end = std::min(piece.bytes, start + wanted);
  for (uint64_t at = start; at < end;) {
    file::Request request{.operation = file::Operation::read,
                          .file = piece.file,
                          .offset = piece.offset + at,
                          .data = to + (at - start),
                          .bytes = static_cast<size_t>(end - at)};
    if (piece.file == nullptr) {
      const stream::Extent& extent = piece.extents[at / piece.extent_bytes];
      const uint64_t inside = at % piece.extent_bytes;
      request.file = extent.file;
      request.offset = extent.offset + inside;
      request.bytes = std::min<size_t>(request.bytes, extent.bytes - inside);
    }
    at += request.bytes;
    requests.push_back(request);
  }
  stretch.requests = requests.size() - stretch.first_request;
  return stretch;
}

}  // namespace

uint64_t Sample::memory_bytes() const {
  constexpr uint64_t block_bytes = 16;  // what the heap has beside each
  uint64_t bytes = numbers.capacity() * sizeof(uint64_t) + strings.capacity() * sizeof(std::string);
  for (const std::string& text : strings) {
    if (text.capacity() >= sizeof(std::string) / 2) bytes += text.capacity() + block_bytes;
  }
  return bytes;
}

std::vector<record::ItemKey> Sample::quantiles(const record::ItemOrder& order, uint32_t parts) {
  std::ranges::sort(numbers);
  std::ranges::sort(strings, [&](const std::string& a, const std::string& b) {
    return order.compare_keys(a, b) < 0;
  });
  std::vector<record::ItemKey> keys;
  for (uint64_t j = 1; j < parts && size() > 0; ++j) {
    const size_t at = j * size() / parts;
    keys.push_back(numbers.empty() ? order.key_of_bytes(strings[at])
                                   : record::ItemKey{numbers[at]});
  }
  return keys;
}

uint32_t sample_places(uint64_t bytes) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(bytes / bytes_per_place, 1, places_max));
}

SamplePlan plan_sample(uint64_t bytes, uint64_t memory_bytes, const bowtie::DeviceProfile* device) {
  SamplePlan plan{.places = sample_places(bytes)};
  const double seek_seconds = device != nullptr ? device->switch_seconds.at(1, 0) : 0;
  if (seek_seconds <= 0) return plan;
  const double read_seconds = static_cast<double>(bytes) / device->read_bytes_per_s;
  const double affordable = std::min(seek_share_max * read_seconds / seek_seconds, 1e9);
  const auto places = static_cast<uint32_t>(affordable);
  if (places >= plan.places) return plan;
  const uint32_t usual_places = plan.places;
  const uint64_t between_bytes = std::max<uint64_t>(1, memory_bytes / looks_per_memory);
  const auto least =
      static_cast<uint32_t>(std::clamp(bytes / between_bytes, looks_min, looks_enough));
  plan.places = std::min(usual_places, std::max(places, least));
  plan.items_per_stretch = plan.items_per_stretch * usual_places / plan.places;
  // Reading on for half as long as it took to come here, and in all not more than another share.
  const double stretch_bytes = std::min(seek_seconds * device->read_bytes_per_s / 2,
                                        seek_share_max * static_cast<double>(bytes) / plan.places);
  plan.stretch_bytes = round_down(
      static_cast<size_t>(std::clamp(stretch_bytes, static_cast<double>(file::sector_bytes),
                                     static_cast<double>(stretch_bytes_max))),
      file::sector_bytes);
  return plan;
}

Result<Sample> take_sample(RunContext& context, const record::ItemOrder& order,
                           const std::vector<Piece>& pieces, const SamplePlan& plan) {
  const size_t stretch_bytes = plan.stretch_bytes;
  uint32_t places = plan.places;
  const record::Format& format = order.format();
  const uint64_t total = bytes_of(pieces);
  auto engine = file::Engine::open({.depth = 32, .total_bytes = total});
  if (!engine) return std::unexpected(engine.error());

  // A stretch holds one whole item at least. Of large records only keys are read, of lines longer
  // than a stretch longer stretches.
  const bool keys_alone = format.type == record::Type::record && format.keys == nullptr &&
                          2 * size_t{format.record_bytes} > stretch_bytes;
  size_t wanted = keys_alone ? round_up(format.key_bytes, file::sector_bytes) : stretch_bytes;
  if (keys_alone) {
    uint64_t most = std::max<uint64_t>(16, kept_bytes_max / format.key_bytes);
    places = static_cast<uint32_t>(std::min({uint64_t{places}, most, total / format.record_bytes}));
  }
  for (;; wanted *= 16, places = std::max(places / 16, std::min(places, 16u))) {
    Collector collector(order, {.places = places, .items_per_stretch = plan.items_per_stretch});
    Random random(seed);
    size_t batch = std::clamp<size_t>(batch_bytes / wanted, 1, batch_max);
    std::unique_ptr<std::byte[], void (*)(std::byte*)> buffer(
        new (std::align_val_t{file::sector_bytes}) std::byte[batch * wanted],
        [](std::byte* memory) { operator delete[](memory, std::align_val_t{file::sector_bytes}); });
    const MemoryCharge charge(batch * wanted);
    size_t bytes_read = 0;
    uint64_t piece_start = 0;
    size_t piece = 0;
    const Piece* last_piece = nullptr;
    uint64_t last_end = 0;
    for (uint32_t place = 0; place < places;) {
      std::vector<Stretch> stretches;
      std::vector<file::Request> requests;
      while (stretches.size() < batch && place < places) {
        uint64_t part = std::max<uint64_t>(1, total / places);
        uint64_t position = std::min(total - 1, place * part + random.below(part));
        ++place;
        while (position >= piece_start + pieces[piece].bytes) piece_start += pieces[piece++].bytes;
        position -= piece_start;
        std::byte* to = buffer.get() + stretches.size() * wanted;
        if (keys_alone) {
          position = position / format.record_bytes * format.record_bytes + format.key_offset;
          stretches.push_back(add_stretch(pieces[piece], position, format.key_bytes, to, requests));
        } else {
          // In the file whole sectors, as far as it goes.
          const uint64_t offset = pieces[piece].offset;
          position = std::max(round_down(offset + position, file::sector_bytes), offset) - offset;
          stretches.push_back(add_stretch(pieces[piece], position, wanted, to, requests));
        }
      }
      // From here on none of them moves.
      for (file::Request& request : requests) (*engine)->submit(request);
      for (file::Request& request : requests) {
        (*engine)->wait(request);
        bytes_read += request.done_bytes;
      }
      for (const Stretch& stretch : stretches) {
        const std::byte* data = requests[stretch.first_request].data;
        size_t bytes = 0;
        for (size_t i = 0; i < stretch.requests; ++i) {
          const file::Request& request = requests[stretch.first_request + i];
          if (request.error != 0) return std::unexpected(file::error_of(request));
          bytes += request.done_bytes;
          if (request.done_bytes < request.bytes) break;  // a file that has become shorter
        }
        if (!keys_alone) {
          // What the stretch before had, too, would be out of order here.
          const uint64_t begin = stretch.data_offset;
          const uint64_t known =
              stretch.piece == last_piece && begin < last_end ? last_end - begin : 0;
          if (known < bytes) collector.add_stretch(data + known, bytes - known, begin + known);
          last_piece = stretch.piece;
          last_end = begin + bytes;
        } else if (bytes == format.key_bytes) {
          collector.add_key(data, format.key_bytes);
        }
      }
      if (auto status = context.pulse(); !status) return std::unexpected(status.error());
    }
    Sample sample = collector.finish();
    sample.bytes_read = bytes_read;
    sample.places = places;
    if (sample.size() > 0 || keys_alone || wanted >= total || wanted >= 8 * MiB) return sample;
  }
}

Sample sample_memory(const record::ItemOrder& order, const std::byte* data, size_t bytes,
                     uint32_t places) {
  const SamplePlan plan{.places = places};
  Collector collector(order, plan);
  Random random(seed);
  size_t part = std::max<size_t>(1, bytes / places);
  for (uint32_t place = 0; place < places && place * part < bytes; ++place) {
    uint64_t position = std::min<uint64_t>(bytes - 1, place * part + random.below(part));
    collector.add_stretch(data + position, std::min(plan.stretch_bytes, bytes - position),
                          position);
  }
  return collector.finish();
}

}  // namespace penstock::files
