#include "files/sort/ways/top_items.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/bits.h"
#include "base/check.h"
#include "base/run_scope.h"
#include "base/thread_object.h"
#include "files/run/cursor.h"
#include "files/run/file_io.h"
#include "files/run/memory_plan.h"
#include "files/sort/number_encoder.h"
#include "files/sort/number_type.h"
#include "items/keys/codec.h"
#include "memory/stream/file_writer.h"
#include "os/memory.h"
#include "penstock/stream.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/item.h"

// Sorting everything and cutting off the rest wastes most of the work. A heap of the K best costs
// log K steps all over memory for each item that enters it.
//
// Here candidates are only collected. Until there are K of them every item is one. When their
// memory is full, the K best are selected, the others are dropped, and from then on the K-th is the
// limit: an item that does not come before it is passed over with one comparison. About K ln(N / K)
// of N items in random order ever become candidates, so the read runs at the speed at which
// items can be looked at; an input in the worst order (descending) causes one selection for each
// filling of the memory, which is still linear.
//
// Stable: an item that is equal to the limit came later than all K kept items, and is not among the
// first. Candidates keep their order of arrival if equal keys have to be told apart. `unique`:
// repeats are dropped in the selection. An item that is equal to the limit is a repeat then, too.
//
// Numbers lie in an array by their encoded keys, which is sorted up to the K-th; passing over is a
// loop without branches. Records and lines lie one behind the other in the order of arrival, with a
// table of (eight bytes of the key, offset, size):
//
//   items    |kept, by arrival|new ones ...........|      |
//   entries  |k k k k k k k k |n n n ..............|      |
//
// After a selection the kept items are moved to the front in the order of arrival, so that a lower
// offset means an earlier arrival.
//
// Costs: memory for 2 K items at least, of which at most three quarters hold kept items; only the
// output is written. One thread: it passes over items faster than one disk delivers them.
//
// More items than memory holds: keep_below() writes the items up to a key that a sample suggests,
// and these are sorted. Their number shows whether the key was large enough.

namespace penstock::external {
namespace {

constexpr uint32_t read_ahead_blocks = 6;
constexpr uint32_t io_blocks = read_ahead_blocks + 2;
constexpr size_t piece_bytes = 64 * KiB;  // at most a block of any reader
constexpr size_t chunk_items = 2048;      // most items shown at once
// Least room for new candidates, beside the K kept ones: with less, selections come too often.
constexpr uint64_t new_items_min = 16 * 1024;
constexpr uint64_t text_bytes_min = 16 * MiB;

size_t io_block_bytes(uint64_t memory_bytes) {
  return files::block_within(memory_bytes / 64);
}
files::PieceReaders::Shape read_shape(uint64_t memory_bytes) {
  return {.block_bytes = io_block_bytes(memory_bytes), .read_ahead_blocks = read_ahead_blocks};
}
uint64_t room_bytes(uint64_t memory_bytes) {
  const uint64_t taken = io_blocks * io_block_bytes(memory_bytes);
  return memory_bytes > taken ? memory_bytes - taken : 0;
}

// Items and entries lie in two ranges, and a huge page may reach beyond the end of each.
uint64_t text_room_bytes(uint64_t memory_bytes) {
  const uint64_t room = room_bytes(memory_bytes);
  return room - std::min(room, uint64_t{2} * os::huge_page_bytes);
}

// ---- numbers and pairs

template <class T>
sorting::InPlaceOptions sort_options(const SortOptions& options) {
  return {.order = {},
          .stable = std::is_same_v<T, sorting::KeyValue>,
          .threads = options.threads,
          .first = ~uint64_t{0}};
}

// Number of candidates that memory holds, with a last huge page that may reach beyond their end.
template <class T>
uint64_t number_capacity(const SortOptions& options, uint64_t memory_bytes) {
  uint64_t room = room_bytes(memory_bytes);
  room -= std::min<uint64_t>(room, os::huge_page_bytes);
  uint64_t low = 0;
  uint64_t high = room / sizeof(T);
  while (low < high) {
    const uint64_t middle = high - (high - low) / 2;
    const uint64_t need =
        middle * sizeof(T) + sorting::extra_bytes<T>(middle, sort_options<T>(options));
    if (need <= room) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// Calls take(encoded, original, count) for a chunk of items at a time, until it returns false.
template <class T, class Take>
Status for_each_number(Context& context, files::PieceReaders& readers,
                       const std::vector<files::Piece>& pieces, Take take) {
  const SortOptions& options = context.options;
  NumberEncoder<T> encoder(options.format.type, options.descending);
  for (const files::Piece& piece : pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    const std::byte* at = (*reader)->begin();
    while (const size_t bytes = (*reader)->available(at, piece_bytes)) {
      if (auto status = context.pulse(); !status) return status;
      if (bytes % sizeof(T) != 0) {
        return failure(ErrorCode::corrupt,
                       "read the last " + std::to_string(bytes % sizeof(T)) + " bytes as an item",
                       piece.file->path(), "another --format or --record");
      }
      for (size_t done = 0; done < bytes;) {
        const std::span<const T> encoded =
            encoder.encode(at + done, std::min(chunk_items, (bytes - done) / sizeof(T)));
        auto more = take(encoded.data(), reinterpret_cast<const T*>(at + done), encoded.size());
        if (!more) return std::unexpected(more.error());
        if (!*more) return {};
        done += encoded.size_bytes();
      }
      at += bytes;
    }
    if (auto status = (*reader)->status(); !status) return status;
  }
  return {};
}

template <class T>
class TopNumbers {
 public:
  TopNumbers(const SortOptions& options, uint64_t count) : options_(options), count_(count) {}

  Status open(uint64_t memory_bytes) {
    const uint64_t most = number_capacity<T>(options_, memory_bytes);
    capacity_ = std::min<uint64_t>(most, 2 * count_ + 4 * new_items_min);
    PENSTOCK_CHECK(capacity_ >= count_ + chunk_items, "top_fits() has checked the room");
    auto memory =
        os::huge_buffer(round_up(capacity_ * sizeof(T), os::huge_page_bytes), "candidates");
    if (!memory) return std::unexpected(memory.error());
    memory_ = std::move(*memory);
    return {};
  }

  // Returns false if no further item can be among the first.
  Result<bool> add(const T* encoded, size_t count) {
    if (size_ + count > capacity_) {
      if (auto status = select(); !status) return std::unexpected(status.error());
    }
    T* to = items() + size_;
    const uint64_t last = last_;
    for (size_t i = 0; i < count; ++i) {
      *to = encoded[i];
      to += scatter::key_of(encoded[i]) <= last ? 1 : 0;
    }
    size_ = static_cast<size_t>(to - items());
    return !complete_;
  }

  // Returns the first items in order, with encoded keys.
  Result<std::span<T>> finish() {
    if (auto status = select(); !status) return std::unexpected(status.error());
    return std::span(items(), size_);
  }

 private:
  T* items() { return reinterpret_cast<T*>(memory_.begin()); }

  Status select() {
    auto sorting = sort_options<T>(options_);
    if (!options_.unique) sorting.first = count_;
    if (auto status = sorting::sort_in_place(items(), size_, sorting); !status) return status;
    if (options_.unique) {
      auto equal = [](const T& a, const T& b) { return scatter::key_of(a) == scatter::key_of(b); };
      size_ = static_cast<size_t>(std::unique(items(), items() + size_, equal) - items());
    }
    size_ = std::min<uint64_t>(size_, count_);
    if (size_ < count_) return {};
    const uint64_t limit = scatter::key_of(items()[size_ - 1]);
    complete_ = limit == 0;
    last_ = complete_ ? 0 : limit - 1;
    return {};
  }

  const SortOptions& options_;
  const uint64_t count_;
  uint64_t capacity_ = 0;
  os::Reservation memory_;
  size_t size_ = 0;
  uint64_t last_ = ~uint64_t{0};  // largest key of a candidate
  bool complete_ = false;
};

template <class T>
Result<Stored> top_numbers(Context& context, const std::vector<files::Piece>& pieces,
                           uint64_t memory_bytes, uint64_t count, const Target& target) {
  const SortOptions& options = context.options;
  std::optional<files::PieceReaders> readers(std::in_place, options, read_shape(memory_bytes));
  TopNumbers<T> top(options, count);
  if (auto status = top.open(memory_bytes); !status) return std::unexpected(status.error());
  auto status = for_each_number<T>(
      context, *readers, pieces,
      [&](const T* encoded, const T*, size_t items) { return top.add(encoded, items); });
  if (!status) return std::unexpected(status.error());
  readers.reset();  // the writer uses their memory
  auto first = top.finish();
  if (!first) return std::unexpected(first.error());

  context.set_step("write");
  auto* bytes = reinterpret_cast<std::byte*>(first->data());
  items::decode_keys(options.format.type, bytes, first->size(), options.descending);
  const Stored stored{.bytes = first->size_bytes(), .items = first->size()};
  auto files = files::FileIo::open(options, io_block_bytes(memory_bytes), io_blocks);
  if (!files) return std::unexpected(files.error());
  auto writer = stream::FileWriterCore::open(files->io(), *target.file, target.offset,
                                             {.bytes_max = stored.bytes + 1});
  if (!writer) return std::unexpected(writer.error());
  std::byte* to = (*writer)->begin();
  for (uint64_t done = 0; done < stored.bytes;) {
    if (status = context.pulse(); !status) return std::unexpected(status.error());
    const auto piece = std::min<uint64_t>(piece_bytes, stored.bytes - done);
    to = penstock::copy(to, bytes + done, piece);
    done += piece;
  }
  if (status = (*writer)->finish(stored.bytes); !status) return std::unexpected(status.error());
  return stored;
}

// ---- records and lines

// Calls take(cursor) for each item, until it returns false.
template <class Take>
Status for_each_item(Context& context, files::PieceReaders& readers,
                     const std::vector<files::Piece>& pieces, Take take) {
  for (const files::Piece& piece : pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    files::Cursor cursor(context.options.order(), piece.file->path(), *reader);
    for (uint64_t item = 0; cursor.next(); ++item) {
      if (item % files::items_between_pulses == 0) {
        if (auto status = context.pulse(); !status) return status;
      }
      if (piece.is_given) cursor.count_odd(context.options.odd_items.get());
      auto more = take(cursor);
      if (!more) return std::unexpected(more.error());
      if (!*more) return {};
    }
    if (auto status = cursor.status(); !status) return status;
  }
  return {};
}

int compare(const items::ItemOrder& order, const files::Cursor& cursor, const TopLimit& limit) {
  if (cursor.prefix() != limit.number) return cursor.prefix() < limit.number ? -1 : 1;
  static constinit thread_local ThreadObject<std::string> room_of_thread;
  std::string& room = room_of_thread.get();
  return order.compare_keys(order.key(cursor.item(), room), limit.text);
}

class TopTexts {
 public:
  TopTexts(const SortOptions& options, uint64_t count)
      : order_(options.order()), unique_(options.unique), count_(count) {}

  // `item_bytes`: estimated average.
  Status open(uint64_t memory_bytes, double item_bytes) {
    memory_bytes_ = text_room_bytes(memory_bytes);
    const double each = item_bytes + sizeof(Entry);
    budget_bytes_ = std::min<uint64_t>(
        memory_bytes_,
        std::max(text_bytes_min, static_cast<uint64_t>(3 * each * static_cast<double>(count_))));
    charge_ = MemoryCharge(charged_bytes());
    for (os::Reservation* part : {&items_, &entries_}) {
      auto memory = os::zeroed(round_up(memory_bytes_, os::huge_page_bytes), "commit memory",
                               "candidates", {}, os::huge_page_bytes);
      if (!memory) return std::unexpected(memory.error());
      *part = std::move(*memory);
      (void)os::advise_huge(part->begin(), part->bytes(), true);
    }
    return {};
  }

  Result<bool> add(const files::Cursor& cursor) {
    if (limit_ && !comes_before_limit(cursor)) return true;
    const std::string_view item = cursor.item();
    const uint64_t bytes = item.size() + (cursor.lacks_newline() ? 1 : 0);
    if (touched_with(bytes) > budget_bytes_) {
      if (used_bytes_ + bytes + (size_ + 1) * sizeof(Entry) > budget_bytes_) {
        if (auto status = make_room(bytes); !status) return std::unexpected(status.error());
      }
      if (touched_with(bytes) > budget_bytes_) give_back();
      if (limit_ && !comes_before_limit(cursor)) return true;
    }
    items_touched_ = std::max(items_touched_, used_bytes_ + bytes);
    entries_touched_ = std::max(entries_touched_, (size_ + 1) * sizeof(Entry));
    entries()[size_++] = {cursor.prefix(), used_bytes_, bytes};
    std::byte* const to = items_.begin() + used_bytes_;
    std::memcpy(to, item.data(), item.size());
    if (cursor.lacks_newline()) to[item.size()] = std::byte(order_.format().line_end);
    used_bytes_ += bytes;
    return true;
  }

  // Calls for_each(item) for the first items, in order.
  template <class ForEach>
  Status finish(ForEach for_each) {
    select();
    std::sort(entries(), entries() + size_, before());
    for (const Entry& entry : std::span(entries(), size_)) {
      if (auto status = for_each(item_of(entry)); !status) return status;
    }
    return {};
  }

 private:
  struct Entry {
    uint64_t prefix;
    uint64_t offset;
    uint64_t bytes;
  };

  Entry* entries() { return reinterpret_cast<Entry*>(entries_.begin()); }
  std::string_view item_of(const Entry& entry) const {
    return {reinterpret_cast<const char*>(items_.begin() + entry.offset), entry.bytes};
  }
  int compare(const Entry& a, const Entry& b) const {
    if (a.prefix != b.prefix) return a.prefix < b.prefix ? -1 : 1;
    return order_.compare_ties(item_of(a), item_of(b));
  }
  struct Before {
    const TopTexts* top;
    bool operator()(const Entry& a, const Entry& b) const {
      const int order = top->compare(a, b);
      return order != 0 ? order < 0 : a.offset < b.offset;
    }
  };
  Before before() const { return {this}; }
  // Most memory that the items and entries may touch.
  uint64_t charged_bytes() const { return budget_bytes_ + uint64_t{2} * os::huge_page_bytes; }
  bool comes_before_limit(const files::Cursor& cursor) const {
    return external::compare(order_, cursor, *limit_) < 0;
  }

  Status make_room(uint64_t bytes) {
    select();
    // A selection that frees less than half would soon be followed by the next.
    const uint64_t kept_bytes = used_bytes_ + size_ * sizeof(Entry);
    budget_bytes_ = std::min(memory_bytes_, std::max(budget_bytes_, 2 * (kept_bytes + bytes)));
    charge_.set(charged_bytes());
    if (kept_bytes + bytes + sizeof(Entry) > budget_bytes_ / 4 * 3) {
      return failure(ErrorCode::out_of_memory,
                     "hold the first " + std::to_string(count_) + " items", "--top",
                     "a larger -S, or files that are neither pipes nor compressed");
    }
    return {};
  }

  // Drops all but the first items, and moves these to the front in the order of arrival.
  void select() {
    Entry* const first = entries();
    if (unique_) {
      std::sort(first, first + size_, before());
      size_ = static_cast<size_t>(
          std::unique(first, first + size_,
                      [this](const Entry& a, const Entry& b) { return compare(a, b) == 0; }) -
          first);
    } else if (size_ > count_) {
      std::nth_element(first, first + count_ - 1, first + size_, before());
    }
    if (size_ >= count_) {
      size_ = count_;
      const Entry& last = first[count_ - 1];
      std::string room;
      limit_ = TopLimit{last.prefix, std::string(order_.key(item_of(last), room))};
    }
    std::ranges::sort(std::span(first, size_), {}, &Entry::offset);
    used_bytes_ = 0;
    for (Entry& entry : std::span(first, size_)) {
      std::memmove(items_.begin() + used_bytes_, items_.begin() + entry.offset, entry.bytes);
      entry.offset = std::exchange(used_bytes_, used_bytes_ + entry.bytes);
    }
  }

  // Touched bytes after another item is added. Items and entries share one budget but lie in two
  // ranges: if items become shorter, touched memory has to move from items to entries.
  uint64_t touched_with(uint64_t bytes) const {
    return std::max(items_touched_, used_bytes_ + bytes) +
           std::max(entries_touched_, (size_ + 1) * sizeof(Entry));
  }
  void give_back() {
    auto shrink = [](const os::Reservation& part, uint64_t used_bytes, uint64_t& touched_bytes) {
      const uint64_t used = round_up(used_bytes, os::page_bytes);
      // A failure only keeps the memory.
      (void)os::discard(part.begin() + used, part.bytes() - used);
      touched_bytes = used_bytes;
    };
    shrink(items_, used_bytes_, items_touched_);
    shrink(entries_, size_ * sizeof(Entry), entries_touched_);
  }

  const items::ItemOrder order_;
  const bool unique_;
  const uint64_t count_;
  uint64_t memory_bytes_ = 0;
  uint64_t budget_bytes_ = 0;  // part of memory_bytes_ that is used so far
  MemoryCharge charge_;
  os::Reservation items_;
  os::Reservation entries_;
  uint64_t used_bytes_ = 0;
  size_t size_ = 0;
  uint64_t items_touched_ = 0;
  uint64_t entries_touched_ = 0;
  std::optional<TopLimit> limit_;
};

Result<Stored> top_texts(Context& context, const std::vector<files::Piece>& pieces,
                         uint64_t memory_bytes, uint64_t count, const Target& target) {
  const SortOptions& options = context.options;
  std::optional<files::PieceReaders> readers(std::in_place, options, read_shape(memory_bytes));
  TopTexts top(options, count);
  if (auto status = top.open(memory_bytes, options.format.record_bytes); !status)
    return std::unexpected(status.error());
  auto status = for_each_item(context, *readers, pieces,
                              [&](const files::Cursor& cursor) { return top.add(cursor); });
  if (!status) return std::unexpected(status.error());
  readers.reset();  // the writer uses their memory

  context.set_step("write");
  auto files = files::FileIo::open(options, io_block_bytes(memory_bytes), io_blocks);
  if (!files) return std::unexpected(files.error());
  auto writer = stream::FileWriterCore::open(files->io(), *target.file, target.offset,
                                             {.bytes_max = memory_bytes + 1});
  if (!writer) return std::unexpected(writer.error());
  std::byte* const begin = (*writer)->begin();
  std::byte* to = begin;
  Stored stored;
  status = top.finish([&](std::string_view item) -> Status {
    to = penstock::copy(to, item.data(), item.size());
    if (++stored.items % files::items_between_pulses != 0) return {};
    if (auto fine = (*writer)->status(); !fine) return fine;
    return context.pulse();
  });
  if (!status) return std::unexpected(status.error());
  stored.bytes = static_cast<uint64_t>(to - begin);
  if (status = (*writer)->finish(stored.bytes); !status) return std::unexpected(status.error());
  return stored;
}

}  // namespace

bool top_fits(const SortOptions& options, uint64_t memory_bytes, double item_bytes,
              uint64_t count) {
  // Such a count exceeds any memory, and could overflow below.
  if (count > memory_bytes) return false;
  if (options.format.numeric()) {
    const uint64_t capacity = with_number_type(
        options.format.type, [&]<class T>() { return number_capacity<T>(options, memory_bytes); });
    return capacity >= count + std::max(count / 2, new_items_min);
  }
  // Kept items take at most three quarters, a third of it in reserve for longer lines.
  constexpr uint64_t entry_bytes = 24;
  return 2 * (item_bytes + entry_bytes) * static_cast<double>(count) <=
         static_cast<double>(text_room_bytes(memory_bytes));
}

Result<Stored> sort_top(Context& context, const std::vector<files::Piece>& pieces,
                        uint64_t memory_bytes, uint64_t count, const Target& target) {
  if (count == 0 || pieces.empty()) return Stored{};
  const items::Format& format = context.options.format;
  if (!format.numeric()) return top_texts(context, pieces, memory_bytes, count, target);
  return with_number_type(format.type, [&]<class T>() {
    return top_numbers<T>(context, pieces, memory_bytes, count, target);
  });
}

TopLimit limit_of_share(const SortOptions& options, const files::Sample& sample, double share) {
  TopLimit limit{.number = ~uint64_t{0}};
  const auto rank = static_cast<size_t>(share * static_cast<double>(sample.size()));
  if (rank >= sample.size()) return limit;
  if (options.format.numeric()) {
    std::vector<uint64_t> numbers = sample.numbers;
    std::ranges::nth_element(numbers, numbers.begin() + static_cast<ptrdiff_t>(rank));
    limit.number = numbers[rank];
    return limit;
  }
  std::vector<std::string> texts = sample.strings;
  const auto at = texts.begin() + static_cast<ptrdiff_t>(rank);
  const items::ItemOrder order = options.order();
  std::ranges::nth_element(texts, at, [&order](const std::string& a, const std::string& b) {
    return order.compare_keys(a, b) < 0;
  });
  limit.text = *at;
  limit.number = order.prefix_of_bytes(limit.text);
  return limit;
}

Result<Stored> keep_below(Context& context, const std::vector<files::Piece>& pieces,
                          uint64_t memory_bytes, const TopLimit& limit, const io::File& file) {
  const SortOptions& options = context.options;
  uint64_t bytes_max = 1;
  for (const files::Piece& piece : pieces) bytes_max += piece.bytes + 1;
  files::PieceReaders readers(options, read_shape(memory_bytes));
  auto output = files::FileIo::open(options, io_block_bytes(memory_bytes), io_blocks);
  if (!output) return std::unexpected(output.error());
  auto writer = stream::FileWriterCore::open(output->io(), file, 0, {.bytes_max = bytes_max});
  if (!writer) return std::unexpected(writer.error());
  std::byte* const begin = (*writer)->begin();
  std::byte* to = begin;
  Stored stored;
  Status status;
  if (options.format.numeric()) {
    status = with_number_type(options.format.type, [&]<class T>() {
      return for_each_number<T>(
          context, readers, pieces,
          [&](const T* encoded, const T* original, size_t count) -> Result<bool> {
            for (size_t i = 0; i < count; ++i) {
              if (scatter::key_of(encoded[i]) > limit.number) continue;
              to = penstock::copy(to, original + i, sizeof(T));
              ++stored.items;
              stored.sum += sorting::sum_of_one(encoded[i]);
            }
            if (auto fine = (*writer)->status(); !fine) return std::unexpected(fine.error());
            return true;
          });
    });
  } else {
    const items::ItemOrder order = options.order();
    status =
        for_each_item(context, readers, pieces, [&](const files::Cursor& cursor) -> Result<bool> {
          if (compare(order, cursor, limit) > 0) return true;
          to = penstock::copy(to, cursor.item().data(), cursor.item().size());
          if (cursor.lacks_newline()) *to++ = std::byte(options.format.line_end);
          stored.sum += sum_of_item(options.format, cursor.item());
          if (++stored.items % files::items_between_pulses != 0) return true;
          if (auto fine = (*writer)->status(); !fine) return std::unexpected(fine.error());
          return true;
        });
  }
  if (!status) return std::unexpected(status.error());
  stored.bytes = static_cast<uint64_t>(to - begin);
  if (status = (*writer)->finish(stored.bytes); !status) return std::unexpected(status.error());
  return stored;
}

}  // namespace penstock::external
