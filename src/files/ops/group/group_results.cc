#include "files/ops/group/group_results.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/out_of_memory.h"
#include "base/run_scope.h"
#include "files/bowtie/addresses.h"

namespace penstock::files {

using bowtie::OutputStream;

GroupResults::GroupResults(const GroupLayout& layout, io::File output, const Options& options)
    : layout_(layout), options_(options), output_(std::move(output)) {
  if (const GroupLines* const lines = layout.lines(); lines != nullptr && lines->has_values())
    folded_.emplace(ValueFold(lines->columns_of_results()));
  if (!options.top) return;
  top_.emplace(*options.top, options.top_bytes,
               [this](const Counted& a, const Counted& b) { return comes_first(a, b); });
}

bowtie::Output GroupResults::output() const {
  return {.file = &output_,
          .offset = output_.seekable() ? bytes_ : 0,
          .bytes_max = bowtie::outputs_address_bytes()};
}

// True if `a` comes before `b`: by count, descending, then by key.
bool GroupResults::comes_first(const Counted& a, const Counted& b) const {
  if (a.count != b.count) return a.count > b.count;
  const std::string_view left = layout_.key_of_partial(a.partial);
  const std::string_view right = layout_.key_of_partial(b.partial);
  const uint64_t prefix = layout_.prefix_of_key(left);
  const uint64_t other = layout_.prefix_of_key(right);
  if (prefix != other || layout_.item_format().numeric()) return prefix < other;
  return left < right;
}

Status GroupResults::append(OutputStream& output, std::string_view text) {
  bytes_ += text.size();
  return output.append(text.data(), text.size()) ? Status{} : output.status();
}

// Called with the first result, not earlier: an input with an error leaves nothing in a pipe.
Status GroupResults::append_head(OutputStream& output) {
  if (std::exchange(has_head_, true) || layout_.lines() == nullptr) return {};
  return append(output, layout_.lines()->head());
}

Status GroupResults::append_result(OutputStream& output, std::string_view partial,
                                   const std::vector<std::string>& of_values) {
  if (auto status = append_head(output); !status) return status;
  // A long result is made in borrowed memory.
  constexpr size_t long_bytes = 256 * KiB;
  const bool is_long = partial.size() > long_bytes;
  bowtie::Loan loan(output);
  if (is_long && !loan.set(partial.size())) {
    if (auto status = output.status(); !status) return status;
    return failure(ErrorCode::out_of_memory,
                   fmt::format("write a group of {} bytes", partial.size()), "group",
                   "a larger -S");
  }
  scratch_.clear();
  if (auto status = layout_.append_result(partial, scratch_, of_values); !status) return status;
  ++groups_;
  auto status = append(output, scratch_);
  if (is_long) std::string().swap(scratch_);
  return status;
}

uint64_t GroupResults::Counted::bytes() const {
  uint64_t bytes = partial.capacity();
  for (const std::string& text : of_values) bytes += sizeof text + text.capacity();
  return bytes;
}

Status GroupResults::write_group(OutputStream& output, std::string_view partial,
                                 std::vector<std::string> of_values) {
  if (!layout_.is_kept(partial)) return {};
  if (!top_) return append_result(output, partial, of_values);
  return top_->offer(
      {layout_.count_of_partial(partial), std::string(partial), std::move(of_values)});
}

Status GroupResults::write(OutputStream& output, std::string_view partial) {
  if (!folded_) return write_group(output, partial, {});
  const GroupLines& lines = *layout_.lines();
  if (lines.list_of_partial(partial)) {
    lines.add_to_fold(folded_->partial, partial, folded_->fold);
    return {};
  }
  if (auto status = end_groups(output); !status) return status;
  folded_->partial = partial;
  lines.begin_fold(partial, folded_->fold);
  return {};
}

Status GroupResults::end_groups(OutputStream& output) {
  if (!folded_ || folded_->partial.empty()) return {};
  auto of_values = folded_->fold.finish();
  if (!of_values) return std::unexpected(of_values.error());
  const std::string partial = std::exchange(folded_->partial, {});
  return write_group(output, partial, std::move(*of_values));
}

Status GroupResults::write_table(OutputStream& output, GroupTable& table, Crew* crew) {
  if (crew != nullptr && !top_ && !folded_ && table.size() > 0)
    return write_side_by_side(output, table, *crew);
  auto status = table.for_each([&](std::string_view partial) { return write(output, partial); });
  return status ? end_groups(output) : status;
}

Status GroupResults::write_side_by_side(OutputStream& output, const GroupTable& table, Crew& crew) {
  struct Results {
    uint64_t begin = 0, end = 0;
    uint64_t made = 0;  // end of those made: before `end` if they are long
    uint64_t groups = 0;
    std::string text;
  };
  if (auto status = append_head(output); !status) return status;
  const uint64_t bytes_at_once = options_.bytes_at_once;
  const uint64_t size = table.size();
  const uint64_t each =
      std::clamp<uint64_t>(bytes_at_once / std::max<uint64_t>(table.mean_bytes(), 1), 1, 4096);
  std::vector<Results> present(2 * table.shares());
  std::vector<Results> next(present.size());
  const MemoryCharge charge(2 * 2 * present.size() * bytes_at_once);
  // The first round writes nothing, the last one makes nothing.
  size_t made = 0;
  for (uint64_t begin = 0; begin < size || made > 0;) {
    size_t count = 0;
    for (uint64_t at = begin; at < size && count < next.size(); at += each, ++count)
      next[count] = {.begin = at,
                     .end = std::min(size, at + each),
                     .made = at,
                     .text = std::move(next[count].text)};
    auto make = [&](Results& results) {
      results.text.clear();
      return table.for_sorted(results.begin, results.end, [&](std::string_view partial) -> Status {
        if (results.text.size() >= 2 * bytes_at_once) return {};
        ++results.made;
        if (!layout_.is_kept(partial)) return {};
        ++results.groups;
        return layout_.append_result(partial, results.text);
      });
    };
    auto write = [&]() -> Status {
      for (size_t i = 0; i < made; ++i) {
        if (auto status = append(output, present[i].text); !status) return status;
        groups_ += present[i].groups;
      }
      return {};
    };
    crew.begin(count, [&](size_t i) { return make(next[i]); });
    auto written = or_out_of_memory(write);  // the tasks have to end before this call does
    auto status = crew.finish();
    if (!written) return written;
    if (!status) return status;
    for (made = 0; made < count; ++made) {
      begin = next[made].made;
      if (begin < next[made].end) {
        ++made;
        break;
      }
    }
    std::swap(present, next);
  }
  return {};
}

Status GroupResults::finish(OutputStream& output) {
  if (top_) {
    auto status = top_->for_each(
        [&](const Counted& one) { return append_result(output, one.partial, one.of_values); });
    if (!status) return status;
  } else if (layout_.lines() != nullptr && layout_.lines()->is_total() && groups_ == 0) {
    if (auto status = write(output, layout_.lines()->empty_partial()); !status) return status;
    if (auto status = end_groups(output); !status) return status;
  }
  return append_head(output);
}

}  // namespace penstock::files
