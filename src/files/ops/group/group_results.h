#pragma once

// The output of a group: the head, and the results of groups whose partials are complete.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/computations.h"
#include "files/ops/group/group_rounds.h"
#include "files/ops/group/group_table.h"
#include "files/ops/group/group_values.h"
#include "files/ops/group/top_results.h"
#include "io/file.h"

namespace penstock::files {

// Thread safety: one thread.
class GroupResults {
 public:
  struct Options {
    // Writes only so many results with the highest counts, within these bytes.
    std::optional<uint64_t> top;
    uint64_t top_bytes = 0;
    // Bytes of results that a thread makes at a time.
    uint64_t bytes_at_once = 0;
  };
  // REQUIRES: `layout` outlives this.
  GroupResults(const GroupLayout& layout, io::File output, const Options& options);

  // The output of a pass that continues the results.
  bowtie::Output output() const;
  // Writes, or offers to `top`, the results of a table whose groups are complete. With a crew its
  // threads make the text of results side by side. REQUIRES: then the table is sorted.
  Status write_table(bowtie::OutputStream& output, GroupTable& table, Crew* crew);
  // Writes, or offers to `top`, a complete group. With values (group_values.h) they follow it, in
  // order, and the next group or end_groups() ends it.
  Status write(bowtie::OutputStream& output, std::string_view partial);
  Status end_groups(bowtie::OutputStream& output);
  // Writes the results of `top`, and what an input without items has: the head, and the result of
  // the one group that needs no key.
  Status finish(bowtie::OutputStream& output);
  bool is_finished() const { return has_head_; }
  Status publish() { return output_.publish(); }

  uint64_t groups() const { return groups_; }
  uint64_t bytes() const { return bytes_; }

 private:
  // A candidate for the first results.
  struct Counted {
    uint64_t count;
    std::string partial;
    std::vector<std::string> of_values;
    uint64_t bytes() const;
  };
  // A group whose values are coming.
  struct Folded {
    ValueFold fold;
    std::string partial = {};  // empty: there is none
  };
  bool comes_first(const Counted& a, const Counted& b) const;
  Status write_side_by_side(bowtie::OutputStream& output, const GroupTable& table, Crew& crew);
  Status write_group(bowtie::OutputStream& output, std::string_view partial,
                     std::vector<std::string> of_values);
  Status append_result(bowtie::OutputStream& output, std::string_view partial,
                       const std::vector<std::string>& of_values);
  Status append(bowtie::OutputStream& output, std::string_view text);
  Status append_head(bowtie::OutputStream& output);

  const GroupLayout& layout_;
  const Options options_;
  io::File output_;
  std::optional<TopResults<Counted>> top_;
  std::optional<Folded> folded_;  // only with values
  uint64_t bytes_ = 0;            // the offset at which the next pass continues the output
  uint64_t groups_ = 0;
  bool has_head_ = false;  // the head was written
  std::string scratch_;
};

}  // namespace penstock::files
