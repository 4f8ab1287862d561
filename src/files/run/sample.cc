#include "files/run/sample.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "base/bits.h"
#include "base/random.h"
#include "items/items.h"

// The sample is stratified: the input is cut into `places` equal parts, and one stretch is read at
// a random place of each. So the quantiles of sorted input are nearly exact, and periodic input
// cannot match a fixed stride. The seed is fixed, so that runs repeat.

namespace penstock::files {
namespace {

constexpr uint64_t seed = 0x70656e73746f636b;
constexpr size_t batch_bytes = 1 * MiB;  // bytes read at once
constexpr size_t batch_max = 32;         // stretches read at once
constexpr uint64_t kept_bytes_max = 2 * MiB;
constexpr uint64_t places_max = 2048;
constexpr uint64_t bytes_per_place = 64 * KiB;
// The share of the time of reading the input that a sample's seeks may take; and the least number
// of places: a quarter of the memory lies between two of them, up to inputs of 8 times the memory.
constexpr double seek_share_max = 1.0 / 32;
constexpr uint64_t looks_min = 4;
constexpr uint64_t looks_enough = 32;
constexpr uint64_t looks_per_memory = 4;
constexpr size_t stretch_bytes_max = 256 * KiB;

// Collects the keys of whole items inside stretches of the file.
class Collector {
 public:
  // Keys of one stretch take about kept_bytes_max / places of memory at most.
  Collector(const items::ItemOrder& order, const SamplePlan& plan)
      : order_(order),
        items_per_stretch_(plan.items_per_stretch),
        stretch_kept_bytes_max_(kept_bytes_max / plan.places) {}

  // Adds a stretch that is a single key.
  void add_key(const std::byte* data, size_t bytes) {
    stretch_kept_bytes_ = 0;
    count(order_.format().record_bytes, 1);
    keep({reinterpret_cast<const char*>(data), bytes});
  }

  // Adds a stretch whose first byte is at `offset` of the data.
  void add_stretch(const std::byte* data, size_t bytes, uint64_t offset) {
    stretch_kept_bytes_ = 0;
    const items::Format& format = order_.format();
    const std::byte* const end = data + bytes;
    const std::byte* const begin =
        offset == 0 ? data : format.framing().first_item(format, data, end, offset);
    const std::byte* at = begin;
    uint64_t items = 0;
    for (; const size_t item_bytes = items::item_bytes_at(format, at, end); at += item_bytes)
      ++items;
    // The mean of whole lines alone would omit those that are longer than a stretch.
    if (format.has_line_ends()) {
      count(bytes, static_cast<uint64_t>(std::count(data, end, std::byte(format.line_end))));
    } else {
      count(static_cast<uint64_t>(at - begin), items);
    }
    const uint64_t step = std::max<uint64_t>(1, items / items_per_stretch_);
    at = begin;
    for (uint64_t i = 0; i < items; ++i) {
      const std::string_view item = items::item_at(format, at, end);
      if (i % step == 0) add_item(item);
      at += item.size();
    }
  }

  Sample finish() {
    sample_.item_bytes =
        items_ == 0 ? 0 : static_cast<double>(item_bytes_) / static_cast<double>(items_);
    return std::move(sample_);
  }

 private:
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

  const items::ItemOrder order_;
  std::string room_;
  Sample sample_;
  uint64_t items_per_stretch_;
  uint64_t stretch_kept_bytes_max_;
  uint64_t stretch_kept_bytes_ = 0;
  uint64_t item_bytes_ = 0;
  uint64_t items_ = 0;
};

// Reads stretches at random places, one of each equal part of the input, a batch of them at once.
class StretchReader {
 public:
  StretchReader(RunContext& context, const items::ItemOrder& order,
                const std::vector<Piece>& pieces, io::Engine& engine)
      : context_(context),
        format_(order.format()),
        order_(order),
        pieces_(pieces),
        engine_(engine) {}

  // Reads `stretch_bytes` of each stretch and collects its items; with `keys_alone` it reads the
  // key of one record.
  Result<Sample> read(const SamplePlan& plan, bool keys_alone);

 private:
  struct SampleStretch {
    const Piece* piece = nullptr;
    uint64_t begin = 0;  // in the piece
    std::vector<io::Request> requests = {};
    uint64_t end = 0;  // end of the bytes that were read
  };

  SampleStretch stretch_at(uint64_t position, const SamplePlan& plan, bool keys_alone,
                           std::byte* to);
  Status read_all(std::vector<SampleStretch>& stretches);

  RunContext& context_;
  const items::Format& format_;
  const items::ItemOrder& order_;
  const std::vector<Piece>& pieces_;
  io::Engine& engine_;
  size_t piece_ = 0;          // the piece of the last stretch
  uint64_t piece_start_ = 0;  // its beginning in all pieces
};

// The requests for the stretch that contains `position` of all pieces, cut to its piece. Each
// extent has a request, because an item may be longer than an extent. REQUIRES: positions rise.
StretchReader::SampleStretch StretchReader::stretch_at(uint64_t position, const SamplePlan& plan,
                                                       bool keys_alone, std::byte* to) {
  while (position >= piece_start_ + pieces_[piece_].bytes) piece_start_ += pieces_[piece_++].bytes;
  const Piece& piece = pieces_[piece_];
  position -= piece_start_;
  // The stretch has whole sectors of the file, as far as the piece goes.
  const uint64_t begin =
      keys_alone ? position / format_.record_bytes * format_.record_bytes + format_.key_offset
                 : std::max(round_down(piece.offset + position, io::sector_bytes), piece.offset) -
                       piece.offset;
  const uint64_t end =
      std::min(piece.bytes, begin + (keys_alone ? format_.key_bytes : plan.stretch_bytes));
  SampleStretch stretch{.piece = &piece, .begin = begin};
  for (uint64_t at = begin; at < end;) {
    io::Request request{.operation = io::Operation::read,
                        .file = piece.file,
                        .offset = piece.offset + at,
                        .data = to + (at - begin),
                        .bytes = static_cast<size_t>(end - at)};
    if (piece.file == nullptr) {
      const stream::Extent& extent = piece.extents[at / piece.extent_bytes];
      const uint64_t inside = at % piece.extent_bytes;
      request.file = extent.file;
      request.offset = extent.offset + inside;
      request.bytes = std::min<size_t>(request.bytes, extent.bytes - inside);
    }
    at += request.bytes;
    stretch.requests.push_back(request);
  }
  return stretch;
}

Status StretchReader::read_all(std::vector<SampleStretch>& stretches) {
  for (SampleStretch& stretch : stretches) {
    for (io::Request& request : stretch.requests) engine_.submit(request);
  }
  for (SampleStretch& stretch : stretches) {
    for (io::Request& request : stretch.requests) engine_.wait(request);
  }
  for (SampleStretch& stretch : stretches) {
    stretch.end = stretch.begin;
    for (const io::Request& request : stretch.requests) {
      if (request.error != 0) return std::unexpected(io::error_of(request));
      stretch.end += request.done_bytes;
      if (request.done_bytes < request.bytes) break;  // the file has become shorter
    }
  }
  return context_.pulse();
}

Result<Sample> StretchReader::read(const SamplePlan& plan, bool keys_alone) {
  const size_t batch = std::clamp<size_t>(batch_bytes / plan.stretch_bytes, 1, batch_max);
  const size_t buffer_bytes = batch * plan.stretch_bytes;
  const std::unique_ptr<std::byte[], void (*)(std::byte*)> buffer(
      new (std::align_val_t{io::sector_bytes}) std::byte[buffer_bytes],
      [](std::byte* memory) { operator delete[](memory, std::align_val_t{io::sector_bytes}); });
  const MemoryCharge charge(buffer_bytes);
  const uint64_t total = bytes_of(pieces_);
  const uint64_t part = std::max<uint64_t>(1, total / plan.places);
  Collector collector(order_, plan);
  Random random(seed);
  SampleStretch last;
  uint64_t bytes_read = 0;
  piece_ = piece_start_ = 0;
  for (uint32_t place = 0; place < plan.places;) {
    std::vector<SampleStretch> stretches;
    for (; stretches.size() < batch && place < plan.places; ++place) {
      std::byte* const to = buffer.get() + stretches.size() * plan.stretch_bytes;
      const uint64_t position = std::min(total - 1, place * part + random.below(part));
      stretches.push_back(stretch_at(position, plan, keys_alone, to));
    }
    if (auto status = read_all(stretches); !status) return std::unexpected(status.error());
    for (size_t i = 0; i < stretches.size(); ++i) {
      SampleStretch& stretch = stretches[i];
      const std::byte* const data = buffer.get() + i * plan.stretch_bytes;
      const uint64_t bytes = stretch.end - stretch.begin;
      bytes_read += bytes;
      if (keys_alone) {
        if (bytes == format_.key_bytes) collector.add_key(data, bytes);
        continue;
      }
      // Bytes that the previous stretch already covered would count as disorder.
      const uint64_t known =
          stretch.piece == last.piece ? last.end - std::min(last.end, stretch.begin) : 0;
      if (known < bytes) collector.add_stretch(data + known, bytes - known, stretch.begin + known);
      last = std::move(stretch);
    }
  }
  Sample sample = collector.finish();
  sample.bytes_read = bytes_read;
  sample.places = plan.places;
  return sample;
}

}  // namespace

uint64_t Sample::memory_bytes() const {
  constexpr uint64_t block_bytes = 16;  // overhead of the heap for each string
  uint64_t bytes = numbers.capacity() * sizeof(uint64_t) + strings.capacity() * sizeof(std::string);
  for (const std::string& text : strings) {
    if (text.capacity() >= sizeof(std::string) / 2) bytes += text.capacity() + block_bytes;
  }
  return bytes;
}

std::vector<items::ItemKey> Sample::quantiles(const items::ItemOrder& order, uint32_t parts) {
  std::ranges::sort(numbers);
  std::ranges::sort(strings, [&](const std::string& a, const std::string& b) {
    return order.compare_keys(a, b) < 0;
  });
  std::vector<items::ItemKey> keys;
  for (uint64_t j = 1; j < parts && size() > 0; ++j) {
    const size_t at = j * size() / parts;
    keys.push_back(numbers.empty() ? order.key_of_bytes(strings[at]) : items::ItemKey{numbers[at]});
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
  // A stretch is read for at most half as long as its seek takes, and all stretches take at most
  // another share.
  const double stretch_bytes = std::min(seek_seconds * device->read_bytes_per_s / 2,
                                        seek_share_max * static_cast<double>(bytes) / plan.places);
  plan.stretch_bytes = round_down(
      static_cast<size_t>(std::clamp(stretch_bytes, static_cast<double>(io::sector_bytes),
                                     static_cast<double>(stretch_bytes_max))),
      io::sector_bytes);
  return plan;
}

Result<Sample> take_sample(RunContext& context, const items::ItemOrder& order,
                           const std::vector<Piece>& pieces, const SamplePlan& plan) {
  const items::Format& format = order.format();
  const uint64_t total = bytes_of(pieces);
  auto engine = io::Engine::open({.depth = 32, .total_bytes = total});
  if (!engine) return std::unexpected(engine.error());
  StretchReader reader(context, order, pieces, **engine);
  // A stretch has to contain a whole item. A sample of large records reads only their keys; for
  // lines longer than a stretch the stretches are lengthened.
  SamplePlan look = plan;
  if (format.fixed() && !format.numeric() && format.keys == nullptr &&
      2 * size_t{format.record_bytes} > plan.stretch_bytes) {
    const uint64_t most = std::max<uint64_t>(16, kept_bytes_max / format.key_bytes);
    look.places =
        static_cast<uint32_t>(std::min({uint64_t{plan.places}, most, total / format.record_bytes}));
    look.stretch_bytes = round_up(format.key_bytes, io::sector_bytes);
    return reader.read(look, true);
  }
  for (;;) {
    auto sample = reader.read(look, false);
    if (!sample || sample->size() > 0 || look.stretch_bytes >= total ||
        look.stretch_bytes >= 8 * MiB)
      return sample;
    look.stretch_bytes *= 16;
    look.places = std::max(look.places / 16, std::min(look.places, 16u));
  }
}

Sample sample_memory(const items::ItemOrder& order, const std::byte* data, size_t bytes,
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
