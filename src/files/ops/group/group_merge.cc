#include "files/ops/group/group_merge.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "files/bowtie/addresses.h"
#include "files/bowtie/merge_tree.h"

namespace penstock::files {
namespace {

// Streams of the smallest merge: two extents and their output.
constexpr uint32_t merge_streams_min = 3;

// Items, partials and results. If their sizes differ one may lie across two blocks, and windows of
// rounds do.
PassItems items_of_passes(const GroupLayout& layout, bool reads_rounds) {
  PassItems all = layout.item_format();
  if (all.fixed_bytes == 0) return all;
  const uint32_t partial_bytes = layout.partial_format().record_bytes;
  const uint32_t result_bytes = layout.result_format().record_bytes;
  all.cross_blocks = all.cross_blocks || reads_rounds || partial_bytes != all.fixed_bytes ||
                     result_bytes != all.fixed_bytes;
  all.fixed_bytes = std::max({all.fixed_bytes, partial_bytes, result_bytes});
  return all;
}

// Bytes of all inputs; 0 if unknown.
uint64_t bytes_of(const std::vector<bowtie::Input>& inputs) {
  uint64_t bytes = 0;
  for (const bowtie::Input& input : inputs) {
    if (input.bytes == bowtie::unknown_bytes) return 0;
    bytes += input.bytes;
  }
  return bytes;
}

}  // namespace

// ---- Passes.

GroupPasses::GroupPasses(FileRun& run, const GroupLayout& layout, bool reads_rounds)
    : run_(run), items_(items_of_passes(layout, reads_rounds)) {}

Status GroupPasses::pass(const std::vector<bowtie::Input>& inputs,
                         std::vector<bowtie::Output> outputs,
                         const bowtie::Computation& computation, const Options& options) {
  if (auto status = run_.interrupted(); !status) return status;
  return run_.pass(inputs, std::move(outputs), computation,
                   {.items = items_,
                    .memory_bytes = options.memory_bytes,
                    .inputs_in_turn = options.inputs_in_turn,
                    .phase = options.phase,
                    .total_bytes = bytes_of(inputs)});
}

Result<std::shared_ptr<io::File>> GroupPasses::temporary() {
  auto file = run_.temporary();
  if (!file) return std::unexpected(file.error());
  return std::shared_ptr<io::File>(std::move(*file));
}

uint64_t GroupPasses::item_bytes_max(uint32_t streams) const {
  return item_bytes_max_of_pass(items_, streams, run_.usable_bytes());
}

uint32_t GroupPasses::streams_max(uint64_t memory_bytes) const {
  uint32_t streams = files::streams_max(items_, memory_bytes);
  while (streams > 2 &&
         item_bytes_max_of_pass(items_, streams, memory_bytes) < longest_partial_bytes_)
    --streams;
  return streams;
}

// ---- Extents.

Status GroupMerge::open() {
  auto file = passes_.temporary();
  if (!file) return std::unexpected(file.error());
  file_ = std::move(*file);
  mergeable_bytes_ = passes_.item_bytes_max(merge_streams_min);
  return {};
}

bowtie::Output GroupMerge::output() const {
  return {.file = file_.get(),
          .offset = extents_.empty() ? 0 : extents_.back().end(),
          .bytes_max = bowtie::outputs_address_bytes()};
}

Status GroupMerge::add(GroupTable& table, bowtie::Streams& streams) {
  if (auto status = table.sort(); !status) return status;
  SpillExtent extent{.file = file_,
                     .offset = extents_.empty() ? 0 : extents_.back().end(),
                     .partials = table.size()};
  auto status = table.for_each([&](std::string_view partial) {
    extent.bytes += partial.size();
    return append(streams.output(0), partial);
  });
  if (!status) return status;
  passes_.run().count_temporary_bytes(extent.bytes);
  extents_.push_back(std::move(extent));
  return {};
}

Status GroupMerge::add_by_position(GroupTable& table, bowtie::OutputStream& output) {
  if (table.size() == 0) return {};
  SpillExtent extent{.file = file_,
                     .offset = extents_.empty() ? 0 : extents_.back().end(),
                     .partials = table.size()};
  std::string row;
  auto status = table.for_each([&](std::string_view partial) -> Status {
    const std::string_view position = layout_.lines()->position_of_partial(partial);
    row.assign(RowHead::bytes, '\0');
    row.append(position).append(partial);
    if (row.size() > std::numeric_limits<uint32_t>::max())
      return failure(ErrorCode::unsupported, "group a line of more than 4 GiB", "group");
    RowHead{static_cast<uint32_t>(row.size()), static_cast<uint32_t>(position.size())}.store(
        row.data());
    extent.bytes += row.size();
    return append(output, row);
  });
  if (!status) return status;
  passes_.run().count_temporary_bytes(extent.bytes);
  extents_.push_back(std::move(extent));
  return {};
}

Status GroupMerge::append(bowtie::OutputStream& output, std::string_view partial) {
  passes_.note(partial);
  if (partial.size() > mergeable_bytes_) return passes_.no_room();
  return bowtie::append(output, partial) ? Status{} : output.status();
}

// ---- Merge.

Result<uint32_t> GroupMerge::merge(const bowtie::Output& output, const Write& write,
                                   const End& end) {
  file_.reset();  // the extents hold it
  const size_t fan_in =
      std::max(passes_.streams_max(passes_.run().usable_bytes()), merge_streams_min) - 1;
  uint32_t levels = 1;
  for (; extents_.size() > fan_in; ++levels) {
    auto merged = merge_level(fan_in);
    if (!merged) return std::unexpected(merged.error());
    extents_ = std::move(*merged);
  }
  auto status = merge_some(extents_, output, write, end);
  return status ? Result<uint32_t>(levels) : std::unexpected(status.error());
}

Result<std::vector<SpillExtent>> GroupMerge::merge_level(size_t fan_in) {
  const auto file = passes_.temporary();
  if (!file) return std::unexpected(file.error());
  std::vector<SpillExtent> merged;
  SpillExtent one{.file = *file};
  for (size_t at = 0; at < extents_.size(); at += fan_in) {
    const auto some = std::span(extents_).subspan(at, std::min(fan_in, extents_.size() - at));
    // (The output may exceed its inputs, because partials become wide.)
    auto status = merge_some(
        some,
        {.file = file->get(), .offset = one.end(), .bytes_max = bowtie::outputs_address_bytes()},
        [this](auto& to, auto partial) { return append(to, partial); },
        [](auto&) { return Status{}; });
    if (!status) return std::unexpected(status.error());
    one.offset = one.end();
    one.bytes = passes_.run().output_bytes();
    passes_.run().count_temporary_bytes(one.bytes);
    merged.push_back(one);
  }
  return merged;
}

Status GroupMerge::merge_some(std::span<const SpillExtent> some, const bowtie::Output& output,
                              const Write& write, const End& end) {
  std::vector<bowtie::Input> inputs;
  for (const SpillExtent& extent : some) inputs.push_back(extent.input());
  return passes_.pass(
      inputs, {output},
      [&](bowtie::Streams& streams) {
        auto status = merge_streams(streams, write);
        return status ? end(streams.output(0)) : status;
      },
      {.memory_bytes = passes_.run().usable_bytes(), .inputs_in_turn = false, .phase = "merge"});
}

// Partials of one key come in the order of their extents; the first absorbs the others.
Status GroupMerge::merge_streams(bowtie::Streams& streams, const Write& write) const {
  items::Format by_bytes = layout_.partial_format();
  by_bytes.keys = nullptr;
  bowtie::MergeTree tree(streams, by_bytes, false);
  Status status = tree.start();
  std::string present;
  bowtie::Loan of_present(streams);
  while (status && !tree.done()) {
    const std::string_view partial = tree.winner().item();
    if (!present.empty() && layout_.key_of_partial(present) == layout_.key_of_partial(partial)) {
      status = layout_.join(present, partial);
    } else {
      if (!present.empty()) status = write(streams.output(0), present);
      const size_t long_bytes = streams.window_bytes_max();
      if (std::max(partial.size(), present.capacity()) > long_bytes) {
        std::string().swap(present);
        const bool lent = of_present.set(partial.size() > long_bytes ? partial.size() : 0);
        if (status && !lent) status = tree.winner().no_room();
        if (!status) break;
      }
      present.assign(partial);
    }
    if (status) status = tree.next();
  }
  return status && !present.empty() ? write(streams.output(0), present) : status;
}

}  // namespace penstock::files
