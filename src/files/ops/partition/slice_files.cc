#include "files/ops/partition/slice_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/thread.h"
#include "files/bowtie/computations.h"
#include "files/ops/partition/partition_files.h"
#include "files/run/input.h"
#include "files/run/memory_plan.h"
#include "files/run/run_context.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"
#include "io/file.h"
#include "items/checker.h"
#include "items/cuts.h"
#include "os/memory.h"

// How slices are made.
//
// A file for each part, as partition_files() writes, does not scale: a thousand inputs and a
// thousand parts make a million files, each read again by another machine, a few kilobytes at a
// time.
//
// So a batch of items is read into memory, each item is assigned to a part, the items are copied
// part by part into a second buffer, and that buffer is written as it is: one sequential request,
// in which each part has one slice. A batch is only as large as slices of `slice_bytes` need: with
// few parts it stays in the cache. A second thread writes a batch while the next one is read.
//
// Invariants: batch_ has `taken_` bytes of items that are assigned, and behind them, up to
// `filled_`, bytes read from one input: no item spans two inputs.

namespace penstock::files {
namespace {

constexpr uint64_t batch_bytes_min = 16 * MiB;
constexpr uint64_t read_bytes = MiB;  // at once
// Assumed bytes of an item of variable size, for the table of part numbers. A batch of shorter
// items is flushed early.
constexpr uint64_t bytes_per_part_number = 8;

Result<items::Cuts> cuts_of(const items::ItemOrder& order, const std::vector<SliceCut>& cuts) {
  const items::Format& format = order.format();
  std::vector<items::ItemKey> keys;
  std::vector<uint64_t> positions;
  items::LastItem last;
  for (size_t i = 0; i < cuts.size(); ++i) {
    const std::string_view item = items::without_line_end(format, cuts[i].item);
    const bool whole = format.fixed() ? item.size() == format.record_bytes : !cuts[i].item.empty();
    if (!whole || items::fault_of(format, cuts[i].item)) {
      return misuse("cut at what is no item", fmt::format("cuts[{}]", i),
                    "an item of the same format");
    }
    const int before = i == 0 ? -1 : last.compare(order, order.prefix(item), item);
    if (before > 0 || (before == 0 && cuts[i - 1].position > cuts[i].position)) {
      return failure(ErrorCode::unsorted, fmt::format("use its cuts: cut {} is not in order", i),
                     "slice_files", "order_items()");
    }
    last.set(order, order.prefix(item), item);
    keys.push_back(order.item_key(item));
    positions.push_back(cuts[i].position);
  }
  return items::Cuts(order, std::move(keys), std::move(positions));
}

// Memory that is charged to the run, on huge pages if they fit, so that direct writes are cheap.
Result<os::Reservation> memory_for_items(uint64_t bytes) {
  auto memory = os::zeroed(bytes, "get memory for items", "slices", {}, os::huge_page_bytes);
  if (!memory) return memory;
  memory->charge();
  (void)os::advise_huge(memory->begin(), memory->bytes(), true);
  return memory;
}

class Slicing {
 public:
  explicit Slicing(const SliceOptions& options)
      : options_(options), format_(options.files.format), context_(options.files, "slice") {}

  Result<SliceFilesResult> go();

 private:
  Status prepare();
  Status take_header(const std::string& header, const std::string& file);
  Status read_input(size_t number);
  Status read_items(const ReadSome& read, const std::string& name);
  Status take_items(const std::string& name);
  Status make_room(const std::string& name);
  Status resize(uint64_t bytes);
  Status flush();
  void spread();
  Status write_later();
  Status wait_for_write();
  Status run();

  bool is_wanted(size_t part) const {
    return options_.slices.wanted.empty() || options_.slices.wanted[part];
  }

  const SliceOptions& options_;
  items::Format format_;
  RunContext context_;
  std::shared_ptr<Sink> sink_;
  bowtie::ToOutput part_of_;  // set once the first header is known
  std::string header_;
  std::string header_file_;
  uint32_t part_count_ = 0;
  uint64_t batch_bytes_max_ = 0;
  os::Reservation batch_;
  uint64_t taken_ = 0;
  uint64_t filled_ = 0;
  uint64_t flushed_bytes_ = 0;   // bytes of all batches so far
  std::vector<uint32_t> parts_;  // part numbers of the assigned items
  MemoryCharge parts_charge_;
  std::vector<std::string_view> lines_;  // room for items_at()
  os::Reservation spread_;
  // The beginning of the batch in spread_: at the same offset in a sector as in the file, so that
  // whole sectors are written directly.
  std::byte* spread_begin() { return spread_.begin() + file_bytes_ % io::sector_bytes; }
  std::vector<uint64_t> part_bytes_;  // bytes of each part in the batch
  uint64_t file_bytes_ = 0;
  std::vector<items::Checker> checkers_;
  SliceFilesResult result_;
  Status written_;
  std::jthread writer_;  // joined first on destruction
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
  // Memory for readers, the state of each part, and a sector.
  const uint64_t aside_bytes = 2 * MiB + parts * KiB + 2 * os::page_bytes;
  if (usable_bytes < aside_bytes + 3 * MiB) {
    return failure(
        ErrorCode::out_of_memory,
        fmt::format("make {} parts within {}", parts, budget_text(options_.files.memory_bytes)),
        "memory_bytes", fmt::format("{} MiB", budget_for(aside_bytes + 3 * MiB) / MiB + 1));
  }
  batch_bytes_max_ = (usable_bytes - aside_bytes) / 3;
  const uint64_t batch_bytes =
      std::min(batch_bytes_max_,
               std::max(batch_bytes_min, parts * std::max<uint64_t>(1, slices.slice_bytes)));
  if (auto made = resize(batch_bytes); !made) return made;
  part_bytes_.assign(parts, 0);
  result_.parts.resize(parts);
  if (!format_.has_head()) return take_header("", "");
  return {};
}

// Completes the format of the items with the header.
Status Slicing::take_header(const std::string& header, const std::string& file) {
  header_ = header;
  header_file_ = file;
  if (!header.empty()) {
    auto format = items::with_header(format_, header, file);
    if (!format) return std::unexpected(format.error());
    format_ = std::move(*format);
  }
  auto cuts = cuts_of(items::ItemOrder(format_, options_.descending), options_.slices.cuts);
  if (!cuts) return std::unexpected(cuts.error());
  part_of_ = options_.slices.parts > 0 ? by_hash(format_, part_count_)
                                       : bowtie::by_range(std::move(*cuts));
  checkers_.assign(part_count_,
                   items::Checker({.format = format_, .descending = options_.descending}));
  return {};
}

Status Slicing::read_input(size_t number) {
  const std::string name = input_name(options_.files, number);
  auto file = open_input(options_.files, number);
  if (!file) return std::unexpected(file.error());
  auto source = source::source_of(*file, options_.files.source, options_.files.cancel);
  if (!source) return std::unexpected(source.error());
  std::string_view first;  // bytes that were read behind the header
  const ReadSome read = [&](std::span<std::byte> into) -> Result<size_t> {
    if (first.empty()) return source::checked_read(**source, into);
    const size_t bytes = first.copy(reinterpret_cast<char*>(into.data()), into.size());
    first.remove_prefix(bytes);
    return bytes;
  };
  if (!format_.has_head()) return read_items(read, name);
  const auto header = read_header(options_.files.format, name, read);
  if (!header) return std::unexpected(header.error());
  if (header->is_of_nothing) return {};
  auto status = part_of_ ? check_same_header(format_, header->text, name, header_, header_file_)
                         : take_header(header->text, name);
  if (!status) return status;
  first = header->rest;
  return read_items(read, name);
}

// Reads an input to its end. A last line without a line end gets one.
Status Slicing::read_items(const ReadSome& read, const std::string& name) {
  for (;;) {
    if (filled_ == batch_.bytes()) {
      if (auto room = make_room(name); !room) return room;
    }
    const uint64_t room = std::min(batch_.bytes() - filled_, read_bytes);
    const auto bytes = read({batch_.begin() + filled_, room});
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes == 0) break;
    filled_ += *bytes;
    if (auto status = context_.pulse(); !status) return status;
  }
  if (filled_ > taken_ &&
      lacks_line_end(format_, items::text_at(batch_.begin() + taken_, filled_ - taken_)))
    batch_.begin()[filled_++] = std::byte(format_.line_end);
  if (auto status = take_items(name); !status || taken_ == filled_) return status;
  return failure(ErrorCode::corrupt,
                 fmt::format("read its last item: {} bytes are no whole one", filled_ - taken_),
                 name, "another --format or --record");
}

// Assigns the whole items that were read to their parts.
Status Slicing::take_items(const std::string& name) {
  for (;;) {
    if (parts_.capacity() - parts_.size() < bowtie::batch_items_max) {
      if (auto status = flush(); !status) return status;
    }
    const bowtie::Items items =
        bowtie::items_at(format_, batch_.begin() + taken_, batch_.begin() + filled_, lines_);
    if (items.size() == 0) return {};
    for (size_t k = 0; format_.has_rules() && k < items.size(); ++k) {
      const auto fault = items::fault_of(format_, items::without_line_end(format_, items[k]));
      if (!fault) continue;
      const auto at = reinterpret_cast<const std::byte*>(items[k].data()) - batch_.begin();
      return items::bad_item(format_,
                             fmt::format("{} at byte {}", format_.framing().noun,
                                         flushed_bytes_ + static_cast<uint64_t>(at)),
                             *fault, {}, name);
    }
    uint32_t* const parts = parts_.data() + parts_.size();
    parts_.resize(parts_.size() + items.size());
    part_of_(items, parts);
    for (size_t k = 0; k < items.size(); ++k) part_bytes_[parts[k]] += items[k].size();
    taken_ += items.bytes();
  }
}

// Makes room in a full batch: flushes its items and keeps an unfinished one, or enlarges the batch.
Status Slicing::make_room(const std::string& name) {
  if (auto status = take_items(name); !status) return status;
  if (auto status = flush(); !status || filled_ < batch_.bytes()) return status;
  if (batch_.bytes() >= batch_bytes_max_) {
    return failure(ErrorCode::out_of_memory,
                   fmt::format("slice an item of more than {} MiB", batch_.bytes() / MiB), name,
                   format_.framing().spans_lines ? "more memory, or --format lines, if it is no CSV"
                                                 : "more memory");
  }
  if (auto status = wait_for_write(); !status) return status;
  return resize(std::min(batch_bytes_max_, 2 * batch_.bytes()));
}

// Reallocates the batch. REQUIRES: no item of the batch is assigned.
Status Slicing::resize(uint64_t bytes) {
  const uint64_t item_bytes = format_.fixed() ? format_.record_bytes : bytes_per_part_number;
  parts_.reserve(bytes / item_bytes + bowtie::batch_items_max);
  parts_charge_.set(parts_.capacity() * sizeof(uint32_t));
  auto spread = memory_for_items(bytes + io::sector_bytes);
  if (!spread) return std::unexpected(spread.error());
  spread_ = std::move(*spread);
  auto batch = memory_for_items(bytes);
  if (!batch) return std::unexpected(batch.error());
  if (filled_ > 0) std::memcpy(batch->begin(), batch_.begin(), filled_);
  batch_ = std::move(*batch);
  return {};
}

// Copies the batch's items into spread_, part by part.
void Slicing::spread() {
  std::vector<std::byte*> to(part_count_);
  std::byte* next = spread_begin();
  for (uint32_t part = 0; part < part_count_; ++part) {
    to[part] = next;
    next += part_bytes_[part];
  }
  const std::byte* from = batch_.begin();
  const auto spread_items = [&](auto item_bytes_at) {
    for (const uint32_t part : parts_) {
      const size_t bytes = item_bytes_at(from);
      std::memcpy(to[part], from, bytes);
      to[part] += bytes;
      from += bytes;
    }
  };
  // Common sizes are constants for the compiler.
  switch (format_.fixed() ? format_.record_bytes : 0) {
    case 4:
      return spread_items([](const std::byte*) { return 4; });
    case 8:
      return spread_items([](const std::byte*) { return 8; });
    case 16:
      return spread_items([](const std::byte*) { return 16; });
    case 100:
      return spread_items([](const std::byte*) { return 100; });
    default:
      return spread_items([&, end = from + taken_](const std::byte* item) {
        return items::item_bytes_at(format_, item, end);
      });
  }
}

// Writes the assigned items.
Status Slicing::flush() {
  if (parts_.empty()) return {};
  if (auto status = wait_for_write(); !status) return status;
  spread();
  filled_ -= taken_;
  std::memmove(batch_.begin(), batch_.begin() + taken_, filled_);
  flushed_bytes_ += taken_;
  taken_ = 0;
  parts_.clear();
  if (auto status = write_later(); !status) return status;
  part_bytes_.assign(part_count_, 0);
  return context_.pulse();
}

// Adds the parts of the batch to their checksums, and starts a thread that writes the wanted ones.
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

Status Slicing::run() {
  if (auto status = prepare(); !status) return status;
  const FilesOptions& files = options_.files;
  context_.show("slice");
  auto sink = sink_of(files);
  if (!sink) return std::unexpected(sink.error());
  sink_ = std::move(*sink);
  for (size_t number = 0; number < input_count(files); ++number) {
    if (auto status = read_input(number); !status) return status;
  }
  if (!part_of_) {
    if (auto status = take_header("", ""); !status) return status;
  }
  if (auto status = flush(); !status) return status;
  if (auto status = wait_for_write(); !status) return status;
  for (uint32_t part = 0; part < part_count_; ++part) {
    const auto checked = checkers_[part].finish();
    if (!checked) return std::unexpected(checked.error());
    result_.parts[part].items = checked->count;
    result_.parts[part].checksum = checked->checksum_hex();
  }
  const NoRunScope callers;
  return sink_->close();
}

Result<SliceFilesResult> Slicing::go() {
  const auto begin = std::chrono::steady_clock::now();
  if (auto status = run(); !status) return std::unexpected(status.error());
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
