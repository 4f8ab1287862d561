#include "files/ops/partition/partition_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>

#include "base/bits.h"
#include "base/check.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "base/random.h"
#include "files/bowtie/addresses.h"
#include "files/bowtie/computations.h"
#include "files/bowtie/planner.h"
#include "files/run/odd_items.h"
#include "files/run/sample.h"
#include "files/run/walk.h"
#include "io/engine.h"
#include "items/checker.h"
#include "items/hash.h"
#include "items/keys/codec.h"
#include "os/limits.h"

// How a partition goes.
//
// A buffer for each part, written when it is full, makes short writes: with a thousand parts and a
// gigabyte it writes a megabyte at a time, each time to another file. The executor's D1 writes
// whole groups of the fullest parts instead, from blocks that all parts share.
//
// A partition is a run of bowtie::distribute() with three additions:
//
//   many inputs   They are read one after the other, so that each part keeps their order. The
//                 schedule sees them as one input (in_turn.h). Each still has a few blocks reserved,
//                 so thousands of inputs are read in batches; a part continues where the previous
//                 batch ended.
//   many parts    If there are more parts than the memory has streams for (or than the planner finds
//                 fast on the device), items go to groups of neighbouring parts in temporaries
//                 first, and from each group to its parts.
//   names         The parts are unnamed files until all of them are complete.
//
// Invariants: targets_[j].bytes is the offset at which part j continues; an item is counted once,
// when it goes to its part, never when it goes to a group.

namespace penstock::files {
namespace {

using bowtie::Items;
using bowtie::ToOutput;

// Places of the sample for each bound, if the input is large enough.
constexpr uint32_t sample_places_per_part = 4;
// The most files that are sampled: each open file costs descriptors.
constexpr size_t sample_files_max = 1024;
constexpr uint64_t bounds_bytes_max = 64 * MiB;
constexpr size_t long_bytes = 256 * KiB;

// Mixes in the key, eight bytes at a time, little-endian, the last ones padded with zeros, and then
// the length, each by splitmix64's finalizer. Later versions and other programs have to find the
// same parts, so this hash never changes (docs/files.md describes it).
uint64_t stable_hash(std::string_view key) {
  uint64_t hash = 0;
  const size_t key_bytes = key.size();
  for (; !key.empty(); key.remove_prefix(std::min(key.size(), sizeof(uint64_t)))) {
    uint64_t word = 0;
    std::memcpy(&word, key.data(), std::min(key.size(), sizeof word));
    hash = mix64(hash ^ word);
  }
  return mix64(hash ^ key_bytes);
}

class Partition {
 public:
  explicit Partition(const PartitionFilesOptions& options)
      : options_(options), format_(options.files.format), run_(options.files, "partition") {}

  Result<PartitionFilesResult> go();

 private:
  // A file that receives items, and the offset at which it continues.
  struct Target {
    const io::File* file = nullptr;
    uint64_t bytes = 0;
  };

  Status check() const;
  Status read_bounds();
  Status sample_bounds();
  Status choose();
  Status create_outputs();
  Status spread(const std::vector<bowtie::Input>& inputs, uint64_t bytes, uint32_t first,
                uint32_t last, uint32_t depth);
  Status to_parts(const std::vector<bowtie::Input>& inputs, uint32_t first, uint32_t last);
  Status to_groups(const std::vector<bowtie::Input>& inputs, uint64_t bytes, uint32_t first,
                   uint32_t last, uint32_t group_parts, uint32_t depth);
  Status deal_out(const std::vector<bowtie::Input>& inputs, std::span<Target> targets,
                  const ToOutput& to_target);
  void count(const Items& items, const uint32_t* parts);
  void count_odd(const Items& items, uint64_t read);

  const PartitionFilesOptions& options_;
  items::Format format_;
  FileRun run_;
  uint32_t parts_ = 0;
  std::vector<items::ItemKey> bounds_;
  ToOutput part_of_;
  std::vector<io::File> outputs_;
  std::vector<Target> targets_;           // the outputs
  std::vector<uint64_t> items_;           // number in each part
  std::vector<items::Checker> checkers_;  // empty without checksums
  std::vector<__uint128_t> long_sums_;    // the checksums of long items
  uint32_t deepest_ = 0;
};

Status Partition::check() const {
  if (options_.by == PartitionBy::range && !options_.bounds_path.empty()) return {};
  if (options_.parts == 0) return misuse("make 0 parts", "--parts", "--parts 16");
  if (options_.parts > parts_max) {
    return misuse(fmt::format("make {} parts", options_.parts), "--parts",
                  fmt::format("1 to {}", parts_max));
  }
  if (options_.by != PartitionBy::bits) return {};
  const auto bits = static_cast<uint32_t>(std::bit_width(options_.parts) - 1);
  if (!std::has_single_bit(options_.parts) || bits > 8 * std::min(format_.key_bytes, 8u)) {
    if (format_.fixed() || !std::has_single_bit(options_.parts)) {
      return misuse(fmt::format("make {} parts by bits of the key", options_.parts), "--parts",
                    "a power of two, of no more bits than the key has");
    }
  }
  return {};
}

// Reads the bounds from a file: items of the format, in order, without a header.
Status Partition::read_bounds() {
  FilesOptions file = options_.files;
  file.inputs = {options_.bounds_path};
  file.sources.clear();
  file.format = format_;
  file.format.header_lines = 0;
  file.format.columns = nullptr;
  items::LastItem last;
  uint64_t bytes = 0;
  Status status;
  const auto take = [&](const Cursor& cursor, const items::ItemOrder& order, const ItemPlace&) {
    bytes += cursor.item().size();
    if (bytes > bounds_bytes_max) {
      status = failure(ErrorCode::corrupt,
                       fmt::format("use bounds of more than {} MiB", bounds_bytes_max / MiB),
                       options_.bounds_path, "items of the same format, in order");
    } else if (last.any() && last.compare(order, cursor.prefix(), cursor.item()) > 0) {
      status = failure(ErrorCode::unsorted,
                       fmt::format("use its bounds: bound {} is not in order", bounds_.size() + 1),
                       options_.bounds_path, "penstock sort");
    }
    last.set(order, cursor.prefix(), cursor.item());
    bounds_.push_back(order.item_key(cursor.item()));
    return status.has_value() && bounds_.size() < parts_max;
  };
  if (auto walked = walk_items(file, false, {0}, take); !walked) return walked;
  if (!status) return status;
  if (bounds_.size() >= parts_max ||
      (options_.parts != 0 && options_.parts != bounds_.size() + 1)) {
    return misuse(fmt::format("make {} parts with {} bounds", options_.parts, bounds_.size()),
                  "--parts", fmt::format("{}, or no --parts", bounds_.size() + 1));
  }
  return {};
}

// Quantiles of a sample that is spread over all files.
Status Partition::sample_bounds() {
  if (run_.input_bytes() == bowtie::unknown_bytes) {
    return failure(ErrorCode::unsupported, "find bounds in a pipe or in compressed data",
                   "--by range", "--bounds FILE, or plain files");
  }
  RunContext context(options_.files, "partition");
  std::vector<std::unique_ptr<io::File>> files;
  std::vector<Piece> pieces;
  const auto& inputs = run_.inputs();
  const size_t step = ceil_div(std::max<size_t>(1, inputs.size()), sample_files_max);
  for (size_t i = 0; i < inputs.size(); i += step) {
    auto file = io::File::open_read(inputs[i].path);
    if (!file) return std::unexpected(file.error());
    files.push_back(std::make_unique<io::File>(std::move(*file)));
    pieces.push_back(
        {.file = files.back().get(), .offset = inputs[i].offset, .bytes = inputs[i].bytes});
  }
  if (pieces.empty()) {
    // Without items any bounds will do.
    bounds_.assign(parts_ - 1, {});
    return {};
  }
  const uint64_t bytes = run_.input_bytes();
  const auto wanted = static_cast<uint32_t>(std::min<uint64_t>(
      uint64_t{parts_} * sample_places_per_part, ceil_div(bytes, io::sector_bytes)));
  auto sample = take_sample(context, items::ItemOrder(format_), pieces,
                            std::max(sample_places(bytes), wanted));
  if (!sample) return std::unexpected(sample.error());
  bounds_ = sample->quantiles(items::ItemOrder(format_), parts_);
  // Without a sample all items go to the last part.
  bounds_.resize(parts_ - 1);
  return {};
}

Status Partition::choose() {
  parts_ = options_.parts;
  if (options_.by == PartitionBy::hash) {
    part_of_ = by_hash(format_, parts_);
  } else if (options_.by == PartitionBy::bits) {
    part_of_ = bowtie::by_key_bits(format_, 0, static_cast<unsigned>(std::bit_width(parts_)) - 1);
  } else {
    auto status = options_.bounds_path.empty() ? sample_bounds() : read_bounds();
    if (!status) return status;
    parts_ = static_cast<uint32_t>(bounds_.size()) + 1;
    part_of_ = bowtie::by_range({items::ItemOrder(format_), bounds_});
  }
  return {};
}

Status Partition::create_outputs() {
  outputs_.reserve(parts_);
  for (uint32_t j = 0; j < parts_; ++j) {
    auto path = part_path(options_.files.output, j, parts_);
    if (!path) return std::unexpected(path.error());
    auto file = io::File::create_output(*path, run_.output_options());
    if (!file) {
      Error error = file.error();
      if (error.system_errno == EMFILE || error.system_errno == ENFILE)
        error.hint = fmt::format("ulimit -n {}", 2 * parts_ + 256);
      return std::unexpected(std::move(error));
    }
    if (!file->seekable()) {
      return misuse("write parts to what has no offsets", *path, "names of files");
    }
    if (auto status = run_.write_header(*file); !status) return status;
    outputs_.push_back(std::move(*file));
  }
  for (const io::File& file : outputs_) targets_.push_back({&file, run_.header().size()});
  items_.assign(parts_, 0);
  if (options_.checksums) {
    const items::Checker checker({.format = format_});
    checkers_.assign(parts_, checker);
    long_sums_.resize(parts_);
  }
  return {};
}

// Distributes the items of the inputs, which all belong to parts [first, last).
Status Partition::spread(const std::vector<bowtie::Input>& inputs, uint64_t bytes, uint32_t first,
                         uint32_t last, uint32_t depth) {
  deepest_ = std::max(deepest_, depth);
  if (inputs.empty()) return {};
  const uint32_t parts = last - first;
  // Inputs need streams, too, and reading several at a time pays.
  const uint32_t fan_out_max = std::max(2u, streams_max(format_, run_.usable_bytes()) * 3 / 4);
  uint32_t fan_out = std::min(parts, fan_out_max);
  // The planner knows when a smaller fan-out is faster; if it finds no plan, the largest is tried.
  const bool known = bytes != bowtie::unknown_bytes;
  auto plan = bowtie::plan_bowtie({.inputs = 1,
                                   .outputs = parts,
                                   .bytes = static_cast<double>(known ? bytes : TiB),
                                   .memory_bytes = run_.usable_bytes(),
                                   .device = &run_.device(),
                                   .stream_bytes_min = 2 * stream_bytes_min(format_)},
                                  bowtie::Search::coarse);
  if (plan && !plan->passes.empty())
    fan_out = std::clamp(plan->passes.front().fan_out, 1u, fan_out);
  if (fan_out >= parts) return to_parts(inputs, first, last);
  const auto group_parts = static_cast<uint32_t>(ceil_div(parts, std::max(2u, fan_out)));
  return to_groups(inputs, bytes, first, last, group_parts, depth);
}

// Reads as many inputs at a time as have room beside the targets.
Status Partition::deal_out(const std::vector<bowtie::Input>& inputs, std::span<Target> targets,
                           const ToOutput& to_target) {
  uint64_t read = 0;
  const bool are_given = &inputs == &run_.inputs();
  const auto distribute = bowtie::distribute(format_, [&](const Items& items, uint32_t* to) {
    to_target(items, to);
    if (are_given) count_odd(items, read);
    read += items.size();
    for (size_t k = 0; k < items.size(); ++k) {
      // A damaged item of a temporary, whose block is not verified yet, may belong to no target:
      // the pass then fails.
      if (to[k] < targets.size())
        targets[to[k]].bytes += items[k].size() + items::lacks_line_end(format_, items[k]);
    }
  });
  const uint64_t streams = streams_max(format_, run_.usable_bytes());
  const size_t batch = std::max<size_t>(1, streams - std::min(streams, targets.size()));
  for (size_t at = 0; at < inputs.size(); at += batch) {
    const auto begin = inputs.begin() + static_cast<ptrdiff_t>(at);
    const auto end = begin + static_cast<ptrdiff_t>(std::min(batch, inputs.size() - at));
    const bool known = run_.input_bytes() != bowtie::unknown_bytes;
    uint64_t left_bytes = 0;
    for (size_t i = at; known && i < inputs.size(); ++i) left_bytes += inputs[i].bytes;
    std::vector<bowtie::Output> outputs;
    for (const Target& target : targets) {
      outputs.push_back({.file = target.file,
                         .offset = target.bytes,
                         .bytes_max = bowtie::outputs_address_bytes() / targets.size()});
    }
    auto status = run_.pass({begin, end}, std::move(outputs), distribute,
                            {.items = format_,
                             .memory_bytes = run_.usable_bytes(),
                             .inputs_in_turn = true,
                             .phase = "partition",
                             .total_bytes = 2 * left_bytes});
    if (!status) return status;
    if (status = run_.interrupted(); !status) return status;
  }
  return {};
}

void Partition::count(const Items& items, const uint32_t* parts) {
  for (size_t k = 0; k < items.size(); ++k) {
    ++items_[parts[k]];
    if (checkers_.empty()) continue;
    // (A checker keeps items.)
    if (!format_.fixed() && items[k].size() > long_bytes) {
      const std::string_view text = items::without_line_end(format_, items[k]);
      long_sums_[parts[k]] +=
          items::hash_bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
      continue;
    }
    items::Checker& checker = checkers_[parts[k]];
    checker.add(std::as_bytes(std::span(items[k])));
    const std::byte line_end[] = {std::byte(format_.line_end)};
    if (items::lacks_line_end(format_, items[k])) checker.add(line_end);
  }
}

// Counts the odd items behind `read` others of the inputs.
void Partition::count_odd(const Items& items, uint64_t read) {
  OddItems* const odd_items = options_.files.odd_items.get();
  if (odd_items == nullptr) return;
  // Items come without their input, which is known if there is only one.
  const bool is_one = run_.inputs().size() == 1;
  for (size_t k = 0; k < items.size(); ++k) {
    if (!items.is_even(k))
      odd_items->add(OddKind::length, is_one ? run_.inputs().front().name : std::string(),
                     is_one ? format_.header_lines + read + k + 1 : 0, format_, items[k]);
  }
}

Status Partition::to_parts(const std::vector<bowtie::Input>& inputs, uint32_t first,
                           uint32_t last) {
  return deal_out(inputs, std::span(targets_).subspan(first, last - first),
                  [&](const Items& items, uint32_t* to) {
                    part_of_(items, to);
                    count(items, to);
                    for (size_t k = 0; k < items.size(); ++k) to[k] -= first;
                  });
}

Status Partition::to_groups(const std::vector<bowtie::Input>& inputs, uint64_t bytes,
                            uint32_t first, uint32_t last, uint32_t group_parts, uint32_t depth) {
  std::vector<std::unique_ptr<io::File>> files;
  std::vector<Target> groups;
  for (uint32_t begin = first; begin < last; begin += group_parts) {
    auto file = run_.temporary();
    if (!file) return std::unexpected(file.error());
    groups.push_back({file->get()});
    files.push_back(std::move(*file));
  }
  auto status = deal_out(inputs, groups, [&](const Items& items, uint32_t* to) {
    part_of_(items, to);
    for (size_t k = 0; k < items.size(); ++k) to[k] = (to[k] - first) / group_parts;
  });
  if (!status) return status;
  uint64_t grouped_bytes = 0;
  for (const Target& group : groups) grouped_bytes += group.bytes;
  run_.count_temporary_bytes(grouped_bytes);
  PENSTOCK_CHECK(bytes == bowtie::unknown_bytes || grouped_bytes >= bytes, "no item is lost");
  for (size_t g = 0; g < groups.size(); ++g, first += group_parts) {
    const auto [file, group_bytes] = groups[g];
    if (group_bytes > 0) {
      status = spread({{.file = file, .bytes = group_bytes}}, group_bytes, first,
                      std::min(last, first + group_parts), depth + 1);
      if (!status) return status;
    }
    files[g].reset();
  }
  return {};
}

Result<PartitionFilesResult> Partition::go() {
  if (auto status = check(); !status) return std::unexpected(status.error());
  if (auto path = part_path(options_.files.output, 0, 1); !path)
    return std::unexpected(path.error());
  if (auto status = run_.start(); !status) return std::unexpected(status.error());
  format_ = run_.format();
  // The parts, and the files that are sampled, have two descriptors each.
  (void)os::raise_open_files_limit();
  if (auto status = choose(); !status) return std::unexpected(status.error());
  if (auto status = create_outputs(); !status) return std::unexpected(status.error());
  auto status = spread(run_.inputs(), run_.input_bytes(), 0, parts_, 1);
  if (!status) return std::unexpected(status.error());

  PartitionFilesResult result;
  for (uint32_t j = 0; j < parts_; ++j) {
    FilePart part{.path = outputs_[j].path(), .items = items_[j], .bytes = targets_[j].bytes};
    if (!checkers_.empty()) {
      auto checked = checkers_[j].finish();
      if (!checked) return std::unexpected(checked.error());
      checked->checksum += long_sums_[j];
      part.checksum = checked->checksum_hex();
    }
    result.parts.push_back(std::move(part));
  }
  for (const items::ItemKey& bound : bounds_)
    result.bounds.push_back(printable_key(format_, bound));
  if (status = run_.interrupted(); !status) return std::unexpected(status.error());
  std::vector<io::File*> outputs;
  for (io::File& output : outputs_) outputs.push_back(&output);
  if (status = io::File::publish_all(outputs); !status) return std::unexpected(status.error());
  notice_older_parts(options_.files, parts_, parts_);
  result.stats = run_.stats();
  result.stats.passes = run_.inputs().empty() ? 0 : deepest_;
  return result;
}

}  // namespace

uint32_t part_of_hash(std::string_view key, uint32_t parts) {
  constexpr unsigned half = 32;
  return static_cast<uint32_t>(((stable_hash(key) >> half) * parts) >> half);
}

bowtie::ToOutput by_hash(const items::Format& format, uint32_t parts) {
  return [order = items::ItemOrder(format), parts, room = std::string()](const Items& items,
                                                                         uint32_t* to) mutable {
    for (size_t i = 0; i < items.size(); ++i)
      to[i] = part_of_hash(order.key(items[i], room), parts);
  };
}

Result<std::string> part_path(const std::string& pattern, uint32_t part, uint32_t parts) {
  constexpr std::string_view place = "{}";
  const size_t at = pattern.find(place);
  if (at == std::string::npos || pattern.find(place, at + 1) != std::string::npos) {
    return misuse("name the parts", fmt::format("-o '{}'", pattern),
                  "-o 'part-{}.bin': the number takes the place of {}");
  }
  const size_t digits = fmt::formatted_size("{}", parts - 1);
  return pattern.substr(0, at) + fmt::format("{:0{}}", part, digits) +
         pattern.substr(at + place.size());
}

void notice_older_parts(const penstock::FilesOptions& options, uint32_t written, uint32_t parts) {
  if (!options.notice) return;
  const std::string& pattern = options.output;
  const size_t place = pattern.find("{}");
  // The number may be in the name of a folder.
  const size_t begin = pattern.rfind('/', place) + 1;  // 0 if there is none
  const size_t end = std::min(pattern.find('/', place), pattern.size());
  const std::string before = pattern.substr(begin, place - begin);
  const std::string behind = pattern.substr(place + 2, end - place - 2);
  const size_t digits_max = fmt::formatted_size("{}", parts_max - 1);
  std::set<std::pair<uint32_t, std::string>> older;
  std::error_code error;
  using Folder = std::filesystem::directory_iterator;
  for (Folder entry(begin == 0 ? "." : pattern.substr(0, begin), error); entry != Folder();
       entry.increment(error)) {
    std::string name = entry->path().filename();
    if (name.size() <= before.size() + behind.size() || !name.starts_with(before) ||
        !name.ends_with(behind))
      continue;
    name = name.substr(before.size(), name.size() - before.size() - behind.size());
    if (name.size() > digits_max || name.find_first_not_of("0123456789") != name.npos) continue;
    const auto number = static_cast<uint32_t>(std::stoul(name));
    std::string path = pattern.substr(0, place) + name + pattern.substr(place + 2);
    const bool is_written = number < written && path == *part_path(pattern, number, parts);
    if (!is_written && number < parts_max && std::filesystem::exists(path, error))
      older.emplace(number, std::move(path));
  }
  if (older.empty()) return;
  std::string names = printable(older.begin()->second);
  const bool are_several = older.size() > 1;
  if (are_several) names += " to " + printable(older.rbegin()->second);
  options.notice(fmt::format("{} {} no part of this output, which has {}: an earlier run left {}",
                             names, are_several ? "are" : "is", written,
                             are_several ? "them" : "it"));
}

Result<PartitionFilesResult> partition_files(const PartitionFilesOptions& options) {
  return Partition(options).go();
}

}  // namespace penstock::files
