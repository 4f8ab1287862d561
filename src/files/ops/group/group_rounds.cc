#include "files/ops/group/group_rounds.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "base/out_of_memory.h"
#include "base/thread.h"
#include "items/items.h"

namespace penstock::files {
namespace {

// Rounds of one piece after a cut that was no item's beginning.
constexpr unsigned undivided_rounds = 16;
// Bytes of an item, before any was seen.
constexpr double item_bytes_first = 32;
// Made keys of a piece may take this many bytes an item in the mean.
constexpr uint64_t made_key_bytes = 32;

}  // namespace

// ---- Crew.

Crew::Crew(unsigned threads) {
  threads_.reserve(threads);
  for (unsigned i = 1; i < threads; ++i) {
    std::jthread thread;
    if (!try_start_thread(thread, [this] { work(); })) break;
    threads_.push_back(std::move(thread));
  }
}

Crew::~Crew() {
  {
    const MutexLock lock(mutex_);
    ends_ = true;
  }
  begun_.notify_all();
}

void Crew::work() {
  const MutexLock lock(mutex_);
  for (;;) {
    while (next_ == count_ && !ends_) begun_.wait(mutex_);
    if (ends_) return;
    work_off();
    if (running_ == 0) done_.notify_one();
  }
}

void Crew::work_off() {
  while (next_ < count_) {
    const size_t number = next_++;
    ++running_;
    mutex_.unlock();
    auto status = or_out_of_memory([&] { return task_(number); });
    mutex_.lock();
    --running_;
    if (!status && (!error_ || number < error_->first)) error_.emplace(number, status.error());
  }
}

void Crew::begin(size_t count, Task task) {
  {
    const MutexLock lock(mutex_);
    task_ = std::move(task);
    next_ = 0;
    count_ = count;
    error_.reset();
  }
  begun_.notify_all();
}

Status Crew::finish() {
  const MutexLock lock(mutex_);
  work_off();
  while (running_ > 0) done_.wait(mutex_);
  if (error_) return std::unexpected(std::move(error_->second));
  return {};
}

// ---- Pieces.

RoundPiece::RoundPiece(const GroupLayout& layout, size_t shares, size_t items_max)
    : items_max_(items_max),
      rows_(items::RowIndex::of(layout.item_format(), layout.columns())),
      batch_(shares, items_max * layout.entries(), items_max * layout.entries() * made_key_bytes) {
  if (!layout.item_format().fixed()) lines_.reserve(items_max);
}

uint64_t RoundPiece::item_bytes(const GroupLayout& layout, size_t shares) {
  // (A vector that grows has up to twice its places.)
  return sizeof(std::string_view) + 2 * layout.columns().size() * sizeof(items::FieldPlace) +
         2 * sizeof(uint32_t) + layout.entries() * (shares * sizeof(KeyedItem) + made_key_bytes);
}

void RoundPiece::clear() {
  batch_.clear();
  count_ = 0;
}

void RoundPiece::read(const GroupLayout& layout, const std::byte* begin, const std::byte* end) {
  const items::Format& format = layout.item_format();
  if (format.fixed()) {
    const size_t most = static_cast<size_t>(end - begin) / format.record_bytes;
    assign(layout, bowtie::Items(begin, format.record_bytes, std::min(most, items_max_)), 0,
           KeyedBatch::Kind::item);
    read_end_ = begin + count_ * format.record_bytes;
    return;
  }
  lines_.clear();
  if (rows_) rows_->clear();
  const std::byte* at = begin;
  while (at < end && lines_.size() < items_max_) {
    const size_t bytes = rows_ ? rows_->add(at, end, false) : items::item_bytes_at(format, at, end);
    if (bytes == 0 || (!rows_ && items::fault_of(format, items::text_at(at, bytes)))) break;
    lines_.push_back(items::text_at(at, bytes));
    at += bytes;
  }
  assign(layout, bowtie::Items(lines_, rows_ ? &*rows_ : nullptr), 0, KeyedBatch::Kind::item);
  read_end_ =
      count_ < lines_.size() ? reinterpret_cast<const std::byte*>(lines_[count_].data()) : at;
}

// ---- Rounds.

RoundReader::RoundReader(const GroupLayout& layout, Crew& crew, size_t pieces, size_t shares,
                         size_t items_max)
    : layout_(layout),
      crew_(crew),
      shares_(shares),
      items_max_(items_max),
      item_bytes_(item_bytes_first) {
  for (Pieces* some : {&present_, &next_}) {
    for (size_t i = 0; i < pieces; ++i)
      some->round.push_back(std::make_unique<RoundPiece>(layout, shares, items_max));
  }
}

std::vector<const std::byte*> RoundReader::cuts_of(std::span<const std::byte> text) const {
  const items::Format& format = layout_.item_format();
  std::vector<const std::byte*> cuts = {text.data()};
  const size_t pieces = undivided_ > 0 ? 1 : next_.round.size();
  const std::byte* const end = text.data() + text.size();
  for (size_t i = 1; i < pieces; ++i) {
    const std::byte* at = text.data() + text.size() * i / pieces;
    if (format.fixed()) {
      at = text.data() +
           round_down(static_cast<size_t>(at - text.data()), size_t{format.record_bytes});
    } else {
      at = std::max(at, cuts.back());
      const void* line_end = std::memchr(at, format.line_end, static_cast<size_t>(end - at));
      if (line_end == nullptr) break;
      at = static_cast<const std::byte*>(line_end) + 1;
    }
    if (at > cuts.back() && at < end) cuts.push_back(at);
  }
  cuts.push_back(end);
  return cuts;
}

void RoundReader::keep_those_that_follow(Pieces& next, std::span<const std::byte* const> cuts) {
  const size_t pieces = cuts.size() - 1;
  next.count = next.items = 0;
  const std::byte* end = cuts[0];
  while (next.count < pieces && end == cuts[next.count]) {
    const RoundPiece& piece = *next.round[next.count++];
    end = piece.read_end();
    next.items += piece.items();
  }
  next.bytes = static_cast<size_t>(end - cuts[0]);
  if (undivided_ > 0) {
    --undivided_;
  } else if (next.count < pieces && next.round[next.count - 1]->items() < items_max_) {
    undivided_ = undivided_rounds;
  }
  if (next.items > 0)
    item_bytes_ = static_cast<double>(next.bytes) / static_cast<double>(next.items);
}

Result<uint64_t> RoundReader::read(bowtie::Streams& streams, uint32_t number, const Use& use) {
  bowtie::InputStream& input = streams.input(number);
  const size_t record_bytes =
      layout_.item_format().fixed() ? layout_.item_format().record_bytes : 1;
  uint64_t read = 0;
  present_.count = present_.bytes = 0;
  for (;;) {
    // A piece is cut a little short, so that hardly any has more items than it can hold.
    const size_t pieces = undivided_ > 0 ? 1 : next_.round.size();
    const auto piece_bytes =
        static_cast<size_t>(item_bytes_ * 0.75 * static_cast<double>(items_max_));
    const size_t most = streams.window_bytes_max() / 2;
    const size_t wanted = round_down(std::min(pieces * piece_bytes, most), record_bytes);
    if (wanted < items_max_) return read;
    const auto window = input.window(present_.bytes + wanted);
    const auto readable = input.status();
    std::vector<const std::byte*> cuts;
    if (readable) {
      const auto text =
          window.subspan(present_.bytes, std::min(wanted, window.size() - present_.bytes));
      if (text.size() >= items_max_) cuts = cuts_of(text);
    }
    const size_t adds = present_.count > 0 ? shares_ : 0;
    const size_t reads = cuts.empty() ? 0 : cuts.size() - 1;
    // The present items come before the place that cannot be read, and so do their errors.
    if (!readable && adds == 0) return std::unexpected(readable.error());
    if (adds + reads == 0) return read;
    if (adds > 0) use.begin(present_.used());
    auto status = crew_.carry_out(adds + reads, [&](size_t i) -> Status {
      if (i < adds) {
        use.add(present_.used(), i);
      } else {
        next_.round[i - adds]->read(layout_, cuts[i - adds], cuts[i - adds + 1]);
      }
      return {};
    });
    if (!status) return std::unexpected(status.error());
    if (adds > 0) {
      const auto goes_on = use.settle(present_.used());
      if (!goes_on) return std::unexpected(goes_on.error());
      if (!*goes_on) return read;
      if (!readable) return std::unexpected(readable.error());
      input.advance(present_.bytes);
      read += present_.items;
    }
    next_.count = next_.bytes = 0;
    if (reads > 0) keep_those_that_follow(next_, cuts);
    if (next_.items == 0) next_.count = 0;
    std::swap(present_, next_);
    if (present_.count == 0) return read;
  }
}

Status RoundReader::read_all(
    bowtie::Streams& streams, uint32_t number, const Use& use,
    const std::function<Result<bool>(const bowtie::BatchReader&)>& add_batch) {
  bowtie::InputStream& input = streams.input(number);
  uint64_t items = 0;
  bool goes_on = true;
  Use noted = use;
  noted.settle = [&](Round round) -> Result<bool> {
    auto settled = use.settle(round);
    if (settled) goes_on = *settled;
    return settled;
  };
  for (;;) {
    const auto in_rounds = read(streams, number, noted);
    if (!in_rounds) return std::unexpected(in_rounds.error());
    if (!goes_on) return {};
    items += *in_rounds;
    bowtie::BatchReader reader(input, layout_.item_format(), streams.item_bytes_max(),
                               layout_.columns(), items);
    if (!reader.next()) return reader.status();
    const auto added = add_batch(reader);
    if (!added) return std::unexpected(added.error());
    if (!*added) return {};
    items += reader.items().size();
    input.advance(reader.items().bytes());
  }
}

}  // namespace penstock::files
