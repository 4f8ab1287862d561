#include "files/slice_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "base/misuse.h"
#include "base/thread.h"
#include "file/file.h"
#include "files/input.h"
#include "files/memory_plan.h"
#include "files/partition_files.h"
#include "files/run_context.h"
#include "os/memory.h"
#include "record/checker.h"
#include "record/codec.h"
#include "source/checked_read.h"
#include "source/in_order.h"

// How slices are made.
//
// The naive way is partition_files(): a file for each part. Of a thousand inputs and a thousand parts that
// are a million files, each read again by somebody else, a few kilobytes at a time.
//
// Here a batch of items is read into memory, each gets its part, the parts of the batch are put one behind
// the other into a second buffer, and that is written as it is: one request in order, in which each part has
// one slice. A batch is as large as makes slices of `slice_bytes`, and not larger: of few parts it then stays
// in the cache. While a batch is written, by a thread of its own, the next one is read.
//
// Invariants: at_ is what is read and has no part yet, at the front of batch_; position_ is that of its first
// item. An input ends at one of ends_: no item goes across.

namespace penstock::files {
namespace {

constexpr uint64_t batch_bytes_min = 16 * MiB;
constexpr uint64_t read_bytes = MiB;  // at once
// Numbers of parts, one for each item: so many bytes of the batch for one, where items have no fixed size.
// A batch of shorter ones is cut short.
constexpr uint64_t bytes_per_part_number = 8;

// Cuts as the loop over items wants them.
class Cuts {
 public:
  static Result<Cuts> make(const record::ItemOrder& order, const std::vector<SliceCut>& cuts) {
    Cuts made(order);
    for (size_t i = 0; i < cuts.size(); ++i) {
      const std::string& item = cuts[i].item;
      const record::Format& format = order.format();
      const bool whole = format.fixed() ? item.size() == format.record_bytes : !item.empty();
      if (!whole || record::fault_of(format, item)) {
        return misuse("cut at what is no item", fmt::format("cuts[{}]", i),
                      "an item of the same format");
      }
      made.keys_.push_back(order.item_key(record::without_line_end(format, item)));
      made.positions_.push_back(cuts[i].position);
      made.prefixes_.push_back(made.keys_.back().prefix);
      if (i > 0 && !made.in_order(i - 1)) {
        return failure(ErrorCode::unsorted, fmt::format("use its cuts: cut {} is not in order", i),
                       "slice_files", "order_items()");
      }
    }
    return made;
  }

  // How many cuts are not behind the item.
  uint32_t count_up_to(std::string_view item, uint64_t position) {
    const uint64_t prefix = order_.prefix(item);
    uint64_t above = 0;
    search<1>(&prefix, &above);
    if (above == 0 || prefixes_[above - 1] != prefix) [[likely]]
      return static_cast<uint32_t>(above);
    return among_equals(item, prefix, position, above);
  }

  // The same of many numbers, one behind the other.
  void count_up_to(const std::byte* items, size_t count, uint64_t position, uint32_t* to) {
    const record::Format& format = order_.format();
    record::with_codec(format.type, [&]<class Codec>(Codec) {
      using Bits = typename Codec::Bits;
      const Bits flip = order_.descending() ? ~Bits{0} : Bits{0};
      const size_t stride = format.record_bytes;
      constexpr size_t at_once = 8;
      uint64_t keys[at_once] = {};
      uint64_t above[at_once] = {};
      for (size_t first = 0; first < count; first += at_once) {
        const size_t here = std::min(at_once, count - first);
        for (size_t k = 0; k < here; ++k)
          keys[k] = Bits(Codec::encode(record::load<Bits>(items + (first + k) * stride)) ^ flip);
        search<at_once>(keys, above);
        for (size_t k = 0; k < here; ++k) {
          if (above[k] > 0 && prefixes_[above[k] - 1] == keys[k]) [[unlikely]] {
            const size_t offset = (first + k) * stride;
            above[k] = among_equals(record::text_at(items + offset, stride), keys[k],
                                    position + offset, above[k]);
          }
          to[first + k] = static_cast<uint32_t>(above[k]);
        }
      }
    });
  }

 private:
  explicit Cuts(const record::ItemOrder& order) : order_(order) {}

  // How many prefixes are not above each. Without a branch, and so for all of them side by side.
  template <size_t count>
  void search(const uint64_t* keys, uint64_t* above) const {
    const uint64_t* const prefixes = prefixes_.data();
    std::fill_n(above, count, 0);
    for (size_t left = prefixes_.size(); left > 0;) {
      const size_t half = (left + 1) / 2;
      for (size_t k = 0; k < count; ++k)
        above[k] += half & -static_cast<uint64_t>(prefixes[above[k] + half - 1] <= keys[k]);
      left -= half;
    }
  }

  bool in_order(size_t i) const {
    const record::ItemKey &a = keys_[i], &b = keys_[i + 1];
    const int keys = a.prefix != b.prefix        ? (a.prefix < b.prefix ? -1 : 1)
                     : order_.format().numeric() ? 0
                                                 : order_.compare_keys(a.bytes, b.bytes);
    return keys < 0 || (keys == 0 && positions_[i] <= positions_[i + 1]);
  }

  uint32_t among_equals(std::string_view item, uint64_t prefix, uint64_t position, uint64_t above) {
    const auto first = std::lower_bound(prefixes_.begin(),
                                        prefixes_.begin() + static_cast<ptrdiff_t>(above), prefix);
    size_t low = static_cast<size_t>(first - prefixes_.begin());
    size_t high = above;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      const int order = order_.compare(keys_[middle], prefix, item, room_);
      const bool up_to = order < 0 || (order == 0 && positions_[middle] <= position);
      (up_to ? low : high) = up_to ? middle + 1 : middle;
    }
    return static_cast<uint32_t>(low);
  }

  record::ItemOrder order_;
  std::vector<uint64_t> prefixes_;
  std::vector<record::ItemKey> keys_;
  std::vector<uint64_t> positions_;
  std::string room_;
};

// Memory that is charged to the run, on huge pages where they fit, so that direct writes are cheap.
class Buffer {
 public:
  Status resize(uint64_t bytes, uint64_t kept = 0) {
    auto bigger = os::Reservation::reserve(round_up(bytes, os::page_bytes));
    if (!bigger) return std::unexpected(bigger.error());
    bigger->charge();
    if (const int error = os::commit(bigger->begin(), bigger->bytes()); error != 0)
      return system_error(error, "get memory for items", "slices");
    (void)os::advise_huge(bigger->begin(), bigger->bytes(), true);
    if (kept > 0) std::memcpy(bigger->begin(), memory_.begin(), kept);
    memory_ = std::move(*bigger);
    bytes_ = bytes;
    return {};
  }
  std::byte* begin() { return memory_.begin(); }
  uint64_t bytes() const { return bytes_; }

 private:
  os::Reservation memory_;
  uint64_t bytes_ = 0;
};

class Slicing {
 public:
  explicit Slicing(const SliceOptions& options)
      : options_(options), format_(options.files.format), context_(options.files, "slice") {}

  Result<SliceFilesResult> go();

 private:
  Status prepare();
  Status take_header(const std::string& header, const std::string& file);
  Status read_input(size_t number);
  Status read_some(Source& source, const std::string& name);
  Status end_input(const std::string& name);
  Status make_room(const std::string& name);
  Status resize(uint64_t bytes);
  Status flush(bool all);
  Status give_parts(const std::byte* end, const std::string& name, std::vector<uint32_t>& parts,
                    const std::byte*& at);
  void spread(const std::vector<uint32_t>& parts);
  Status write_later();
  Status wait_for_write();

  bool is_wanted(size_t part) const {
    return options_.slices.wanted.empty() || options_.slices.wanted[part];
  }

  const SliceOptions& options_;
  record::Format format_;
  RunContext context_;
  std::shared_ptr<Sink> sink_;
  std::optional<Cuts> cuts_;
  std::optional<record::ItemOrder> order_;
  std::optional<std::string> header_;
  std::string header_file_;
  uint32_t part_count_ = 0;
  uint64_t batch_bytes_max_ = 0;
  Buffer batch_;
  uint64_t filled_ = 0;  // bytes of batch_ that are read
  // Where inputs end in batch_, and what they are called; what stands behind is the one that is read.
  struct End {
    uint64_t at = 0;
    std::string name;
  };
  std::vector<End> ends_;
  std::string name_;
  uint64_t position_ = 0;
  Buffer spread_;
  // Where the batch begins in it: as far into a sector as in the file, so that whole sectors are written directly.
  std::byte* spread_begin() { return spread_.begin() + file_bytes_ % file::sector_bytes; }
  std::vector<uint64_t> part_bytes_;  // of the batch
  uint64_t file_bytes_ = 0;
  std::vector<record::Checker> checkers_;
  SliceFilesResult result_;
  Status written_;
  std::jthread writer_;  // goes first
};

Status Slicing::prepare() {
  const SliceFilesOptions& slices = options_.slices;
  const size_t parts = slices.parts > 0 ? slices.parts : slices.cuts.size() + 1;
  if ((slices.parts > 0 && !slices.cuts.empty()) || parts > parts_max)
    return misuse(fmt::format("make {} parts", parts), "parts",
                  "a number, or cuts, of 65536 at most");
  if (!slices.wanted.empty() && slices.wanted.size() != parts)
    return misuse("want other parts than there are", "wanted", fmt::format("{} of them", parts));
  part_count_ = static_cast<uint32_t>(parts);
  const uint64_t usable_bytes = usable_memory(options_.files.memory_bytes);
  // Readers, what is kept of each part, and a sector.
  const uint64_t aside_bytes = 2 * MiB + parts * KiB + 2 * os::page_bytes;
  if (usable_bytes < aside_bytes + 3 * MiB) {
    return failure(
        ErrorCode::out_of_memory,
        fmt::format("make {} parts within {} MiB", parts, options_.files.memory_bytes / MiB),
        "memory_bytes", fmt::format("{} MiB", budget_for(aside_bytes + 3 * MiB) / MiB + 1));
  }
  batch_bytes_max_ = (usable_bytes - aside_bytes) / 3;
  const uint64_t batch_bytes =
      std::min(batch_bytes_max_,
               std::max(batch_bytes_min, parts * std::max<uint64_t>(1, slices.slice_bytes)));
  if (auto made = resize(batch_bytes); !made) return made;
  result_.parts.resize(parts);
  if (!format_.has_head()) return take_header("", "");
  return {};
}

// From now on it is known what items are.
Status Slicing::take_header(const std::string& header, const std::string& file) {
  header_ = header;
  header_file_ = file;
  if (!header.empty()) {
    auto format = record::with_header(format_, header, file);
    if (!format) return std::unexpected(format.error());
    format_ = std::move(*format);
  }
  order_.emplace(format_, options_.descending);
  auto cuts = Cuts::make(*order_, options_.slices.cuts);
  if (!cuts) return std::unexpected(cuts.error());
  cuts_ = std::move(*cuts);
  checkers_.assign(part_count_,
                   record::Checker({.format = format_, .descending = options_.descending}));
  return {};
}

Status Slicing::read_input(size_t number) {
  const std::string name = input_name(options_.files, number);
  auto file = open_input(options_.files, number);
  if (!file) return std::unexpected(file.error());
  auto source = source::source_of(*file, options_.files.source, options_.files.cancel);
  if (!source) return std::unexpected(source.error());
  name_ = name;
  if (format_.has_head()) {
    auto header = read_header(options_.files.format, name, [&](std::span<std::byte> into) {
      return source::checked_read(**source, into);
    });
    if (!header) return std::unexpected(header.error());
    if (!header_) {
      if (auto taken = take_header(header->text, name); !taken) return taken;
    } else if (auto same = check_same_header(format_, header->text, name, *header_, header_file_);
               !same) {
      return same;
    }
    while (batch_.bytes() - filled_ < header->rest.size()) {
      if (auto room = make_room(name); !room) return room;
    }
    std::memcpy(batch_.begin() + filled_, header->rest.data(), header->rest.size());
    filled_ += header->rest.size();
  }
  for (;;) {
    const uint64_t before = filled_ + position_;
    if (auto status = read_some(**source, name); !status) return status;
    if (filled_ + position_ == before) return end_input(name);
  }
}

Status Slicing::read_some(Source& source, const std::string& name) {
  if (filled_ == batch_.bytes()) {
    if (auto room = make_room(name); !room) return room;
  }
  const uint64_t room = std::min(batch_.bytes() - filled_, read_bytes);
  const auto bytes = source::checked_read(source, {batch_.begin() + filled_, room});
  if (!bytes) return std::unexpected(bytes.error());
  filled_ += *bytes;
  return context_.pulse();
}

// The last line gets its end.
Status Slicing::end_input(const std::string& name) {
  const uint64_t begin = ends_.empty() ? 0 : ends_.back().at;
  if (format_.lines() && filled_ > begin &&
      static_cast<char>(batch_.begin()[filled_ - 1]) != format_.line_end) {
    if (filled_ == batch_.bytes()) {
      if (auto room = make_room(name); !room) return room;
    }
    batch_.begin()[filled_++] = std::byte(format_.line_end);
  }
  if (filled_ > 0) ends_.push_back({filled_, name});
  return {};
}

// The batch is full: its items go, and an item that has not ended stays; or it becomes larger.
Status Slicing::make_room(const std::string& name) {
  const uint64_t before = filled_;
  if (auto status = flush(false); !status) return status;
  if (filled_ < before) return {};
  if (batch_.bytes() >= batch_bytes_max_) {
    return failure(ErrorCode::out_of_memory,
                   fmt::format("slice an item of more than {} MiB", batch_.bytes() / MiB), name,
                   format_.csv ? "more memory, or --format lines, if it is no CSV" : "more memory");
  }
  if (auto status = wait_for_write(); !status) return status;
  const uint64_t bytes = std::min(batch_bytes_max_, 2 * batch_.bytes());
  return resize(bytes);
}

Status Slicing::resize(uint64_t bytes) {
  if (auto spread = spread_.resize(bytes + file::sector_bytes); !spread) return spread;
  return batch_.resize(bytes, filled_);
}

// Parts of the items from `at` on, until one does not end before `end`.
Status Slicing::give_parts(const std::byte* end, const std::string& name,
                           std::vector<uint32_t>& parts, const std::byte*& at) {
  if (format_.numeric() && options_.slices.parts == 0) {
    const size_t item_bytes = format_.record_bytes;
    const size_t before = parts.size();
    const size_t count =
        std::min(static_cast<size_t>(end - at) / item_bytes, parts.capacity() - before);
    parts.resize(before + count);
    cuts_->count_up_to(at, count, position_, parts.data() + before);
    for (size_t i = before; i < parts.size(); ++i) part_bytes_[parts[i]] += item_bytes;
    at += count * item_bytes;
    position_ += count * item_bytes;
    return {};
  }
  const bool by_rows = format_.type == record::Type::rows;
  const bool has_rules = format_.has_rules();
  std::string room;
  while (parts.size() < parts.capacity()) {
    const std::string_view item = record::item_at(format_, at, end);
    if (item.empty()) break;
    if (has_rules) {
      if (const auto fault = record::fault_of(format_, record::without_line_end(format_, item))) {
        return failure(ErrorCode::corrupt,
                       fmt::format("read the row at byte {}: at its byte {} is {}", position_,
                                   fault->at, fault->what),
                       name, record::hint_of_fault(format_));
      }
    }
    uint32_t part = 0;
    if (options_.slices.parts > 0) {
      part = part_of_hash(order_->key(record::without_line_end(format_, item), room), part_count_);
    } else {
      part = cuts_->count_up_to(record::without_line_end(format_, item), position_);
    }
    parts.push_back(part);
    part_bytes_[part] += item.size();
    position_ += by_rows ? 1 : item.size();
    at += item.size();
  }
  return {};
}

template <size_t bytes>
void spread_fixed(const std::byte* from, const std::vector<uint32_t>& parts,
                  std::vector<std::byte*>& to) {
  for (const uint32_t part : parts) {
    std::memcpy(to[part], from, bytes);
    to[part] += bytes;
    from += bytes;
  }
}

// The batch's items to their parts' places.
void Slicing::spread(const std::vector<uint32_t>& parts) {
  std::vector<std::byte*> to(part_count_);
  std::byte* next = spread_begin();
  for (uint32_t part = 0; part < part_count_; ++part) {
    to[part] = next;
    next += part_bytes_[part];
  }
  const std::byte* from = batch_.begin();
  switch (format_.fixed() ? format_.record_bytes : 0) {
    case 4:
      return spread_fixed<4>(from, parts, to);
    case 8:
      return spread_fixed<8>(from, parts, to);
    case 16:
      return spread_fixed<16>(from, parts, to);
    case 100:
      return spread_fixed<100>(from, parts, to);
    default:
      break;
  }
  const std::byte* const end = batch_.begin() + filled_;
  for (const uint32_t part : parts) {
    const size_t bytes = record::item_bytes_at(format_, from, end);
    std::memcpy(to[part], from, bytes);
    to[part] += bytes;
    from += bytes;
  }
}

// Whole items of the batch go to the file. `all`: nothing more comes.
Status Slicing::flush(bool all) {
  if (all)
    PENSTOCK_CHECK(ends_.empty() ? filled_ == 0 : ends_.back().at == filled_,
                   "an input has no end");
  const uint64_t item_bytes = format_.fixed() ? format_.record_bytes : bytes_per_part_number;
  std::vector<uint32_t> parts;
  parts.reserve(batch_.bytes() / item_bytes + 1);
  const MemoryCharge numbers(parts.capacity() * sizeof(uint32_t));
  for (bool again = true; again;) {
    parts.clear();
    part_bytes_.assign(part_count_, 0);
    const std::byte* at = batch_.begin();
    const std::byte* const filled = at + filled_;
    for (size_t input = 0; input <= ends_.size(); ++input) {
      const bool ends = input < ends_.size();
      const std::byte* const end = ends ? batch_.begin() + ends_[input].at : filled;
      const std::string& name = ends ? ends_[input].name : name_;
      if (auto status = give_parts(end, name, parts, at); !status) return status;
      if (parts.size() == parts.capacity()) break;
      if (ends && at != end) {
        return failure(ErrorCode::corrupt,
                       fmt::format("read its last item: {} bytes are no whole one", end - at), name,
                       "another --format or --record");
      }
    }
    if (parts.empty()) return {};
    if (auto status = wait_for_write(); !status) return status;
    spread(parts);
    const auto done = static_cast<uint64_t>(at - batch_.begin());
    std::memmove(batch_.begin(), at, filled_ - done);
    filled_ -= done;
    std::erase_if(ends_, [&](End& end) {
      const bool past = end.at <= done;
      end.at -= past ? 0 : done;
      return past;
    });
    if (auto status = write_later(); !status) return status;
    if (auto status = context_.pulse(); !status) return status;
    again = all && filled_ > 0;
  }
  return {};
}

// Checks the parts of the batch, and has those that are wanted written while the next one is read.
Status Slicing::write_later() {
  std::byte* const begin = spread_begin();
  std::byte* at = begin;
  std::byte* kept = begin;
  for (uint32_t part = 0; part < part_count_; ++part) {
    const uint64_t bytes = part_bytes_[part];
    if (bytes == 0) continue;
    checkers_[part].add({at, bytes});
    result_.parts[part].bytes += bytes;
    if (is_wanted(part)) {
      if (kept != at) std::memmove(kept, at, bytes);
      result_.slices.push_back({part, file_bytes_, bytes});
      file_bytes_ += bytes;
      kept += bytes;
    }
    at += bytes;
  }
  const auto bytes = static_cast<size_t>(kept - begin);
  if (bytes == 0) return {};
  return start_thread(writer_, [this, begin, bytes] {
    const NoRunScope callers;
    written_ = sink_->write({begin, bytes});
  });
}

Status Slicing::wait_for_write() {
  if (writer_.joinable()) writer_.join();
  return written_;
}

Result<SliceFilesResult> Slicing::go() {
  const auto begin = std::chrono::steady_clock::now();
  if (auto status = prepare(); !status) return std::unexpected(status.error());
  const FilesOptions& files = options_.files;
  context_.show("slice");
  if (files.sink != nullptr) {
    sink_ = files.sink;
  } else {
    auto sink = open_sink(files.output, {.sync = files.output_rules.sync,
                                         .overwrite_device = files.output_rules.overwrite_device,
                                         .inputs = files.inputs});
    if (!sink) return std::unexpected(sink.error());
    sink_ = std::move(*sink);
  }
  for (size_t number = 0; number < input_count(files); ++number) {
    if (auto status = read_input(number); !status) return std::unexpected(status.error());
  }
  if (!order_) {
    if (auto status = take_header("", ""); !status) return std::unexpected(status.error());
  }
  if (auto status = flush(true); !status) return std::unexpected(status.error());
  if (auto status = wait_for_write(); !status) return std::unexpected(status.error());
  for (uint32_t part = 0; part < part_count_; ++part) {
    const auto checked = checkers_[part].finish();
    if (!checked) return std::unexpected(checked.error());
    result_.parts[part].items = checked->count;
    result_.parts[part].checksum = checked->checksum_hex();
  }
  {
    const NoRunScope callers;
    if (auto status = sink_->close(); !status) return std::unexpected(status.error());
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  result_.seconds = elapsed.count();
  result_.peak_bytes = peak_memory();
  return std::move(result_);
}

}  // namespace

Result<SliceFilesResult> slice_files(const SliceOptions& options) {
  return Slicing(options).go();
}

}  // namespace penstock::files
