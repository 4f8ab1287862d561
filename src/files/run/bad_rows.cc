#include "files/run/bad_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <utility>

#include "base/misuse.h"
#include "base/printable.h"
#include "base/run_scope.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"
#include "io/names.h"
#include "items/rows.h"

namespace penstock::files {

// The rest of one input. Invariants: buffer_[begin_, good_) are good rows that were not passed on,
// and follow `base_` bytes of the text and begin_ bytes of the buffer; buffer_[good_, end_) was not
// looked at.
class BadRows::Rest final : public Source {
 public:
  Rest(BadRows& owner, std::unique_ptr<Source> text, std::string name)
      : owner_(owner),
        format_(owner.format_),
        text_(std::move(text)),
        name_(std::move(name)),
        charge_(source::filter_bytes_max),
        buffer_(source::filter_bytes_max) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (error_) return std::unexpected(*error_);
    while (good_ == begin_) {
      const Result<bool> any = advance();
      if (!any) error_ = any.error();
      if (!any) return std::unexpected(any.error());
      if (!*any) return 0;
    }
    const size_t bytes = std::min(into.size(), good_ - begin_);
    std::memcpy(into.data(), &buffer_[begin_], bytes);
    begin_ += bytes;
    return bytes;
  }
  void cancel() override { text_->cancel(); }

 private:
  enum class Next : uint8_t { good, bad, more };

  // Finds good rows. Returns false at the end.
  Result<bool> advance() {
    while (!ended_ || end_ > begin_) {
      const Result<Next> next = has_head_ ? look_at_rows() : take_head();
      if (!next) return std::unexpected(next.error());
      if (good_ > begin_) return true;
      if (*next == Next::more && !ended_) {
        if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      }
    }
    return false;
  }

  std::string_view rest() const {
    return {reinterpret_cast<const char*>(&buffer_[0]) + good_, end_ - good_};
  }
  bool is_full() const { return begin_ == 0 && end_ == buffer_.size(); }

  // Passes the head on. The run finds its faults.
  Result<Next> take_head() {
    const auto bytes = items::head_bytes(format_, rest(), ended_);
    if (bytes && !*bytes && !ended_ && !is_full()) return Next::more;
    has_head_ = true;
    if (!bytes || !*bytes) {
      is_plain_ = true;
      return look_at_rows();
    }
    std::string_view head = rest().substr(0, **bytes);
    good_ += head.size();
    head.remove_prefix(items::mark_bytes(format_, head));
    place_.row += format_.header_lines;
    place_.line += static_cast<uint64_t>(std::ranges::count(head, format_.line_end));
    if (format_.header_lines == 0) return Next::good;
    std::optional<items::ItemFault> fault;
    items::read_row(head, *format_.csv, format_.line_end, 0, true, fault, &columns_);
    is_plain_ = fault.has_value();
    if (format_.rows_fit_header) fields_ = columns_;
    return Next::good;
  }

  // Moves good_ after the good rows, or leaves out a bad one in front of them.
  Result<Next> look_at_rows() {
    if (is_plain_) {
      good_ = end_;
      return Next::more;
    }
    while (good_ < end_) {
      size_t have = 0;
      size_t bytes = 0;
      std::string what;
      const Result<Next> next = look_at_row(bytes, have, what);
      if (!next || *next == Next::more) return next;
      if (*next == Next::bad) {
        if (good_ > begin_) return Next::good;
        bytes = std::min(rest().find(format_.line_end), rest().size() - 1) + 1;
        const std::string_view row = rest().substr(0, bytes);
        const std::string told = place_.text(format_) + ": " + what;
        if (Status left = owner_.leave_out(name_, base_ + good_ + bytes, row, told); !left)
          return std::unexpected(left.error());
        begin_ += bytes;
      } else if (have != columns_) {
        owner_.note_uneven(name_, base_ + good_ + bytes, place_.text(format_));
      }
      place_.line +=
          static_cast<uint64_t>(std::ranges::count(rest().substr(0, bytes), format_.line_end));
      ++place_.row;
      good_ += bytes;
    }
    return Next::more;
  }

  // Looks at the row at good_: `bytes` and `have` are the length and the fields of a good one, `what`
  // is the fault of a bad one, which ends with its line.
  Result<Next> look_at_row(size_t& bytes, size_t& have, std::string& what) {
    const std::string_view text = rest();
    std::optional<items::ItemFault> fault;
    bytes = items::read_row(text, *format_.csv, format_.line_end, fields_, ended_, fault, &have);
    const bool has_line = ended_ || text.contains(format_.line_end);
    if (bytes > 0) {
      const bool is_blank = have == 1 && text.find_first_not_of("\r\n") >= bytes;
      if (is_blank && columns_ == 0 && !find_columns()) return Next::more;
      if (columns_ == 0) columns_ = have;
      if (!is_blank || columns_ == 1) return Next::good;
      what = "a blank row";
      return Next::bad;
    }
    if (fault && has_line) {
      what = fault->what;
      return Next::bad;
    }
    if (good_ > begin_ || !is_full()) return Next::more;
    // Such a row may be a good one.
    return fault_at(ErrorCode::corrupt, place_.text(format_),
                    fmt::format("no end within {} bytes", buffer_.size()), name_,
                    "--quote none or --lenient, if quotes are text; or no --bad-rows");
  }

  // Finds the number of columns in the first row that is not blank. Returns false if more of the text
  // has to be read; text of nothing but blank rows has one column.
  bool find_columns() {
    std::string_view text = rest();
    text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
    if (text.empty() && (ended_ || is_full())) columns_ = 1;
    if (text.empty()) return columns_ > 0;
    std::optional<items::ItemFault> fault;
    size_t have = 0;
    const bool is_whole =
        items::read_row(text, *format_.csv, format_.line_end, 0, ended_, fault, &have) > 0;
    if (!is_whole && !fault && !ended_ && !is_full()) return false;
    columns_ = is_whole ? have : std::max<size_t>(have + 1, 1);
    return true;
  }

  // Reads more after the buffered bytes. REQUIRES: no good rows are left.
  Status fill() {
    std::memmove(buffer_.data(), &buffer_[0] + begin_, end_ - begin_);
    base_ += begin_;
    end_ -= begin_;
    good_ -= std::exchange(begin_, 0);
    if (end_ == buffer_.size()) return {};
    const auto got = source::checked_read(*text_, std::span(buffer_).subspan(end_));
    if (!got) return std::unexpected(got.error());
    end_ += *got;
    ended_ = *got == 0;
    return {};
  }

  BadRows& owner_;
  const items::Format& format_;
  const std::unique_ptr<Source> text_;
  const std::string name_;
  const MemoryCharge charge_;
  std::vector<std::byte> buffer_;
  uint64_t base_ = 0;
  size_t begin_ = 0, good_ = 0, end_ = 0;
  bool ended_ = false;  // no more text follows the buffer
  bool has_head_ = false;
  bool is_plain_ = false;  // all of the rest is passed on
  size_t columns_ = 0;     // fields of the header or the first row; 0: not known yet
  size_t fields_ = 0;      // fields that each row must have; 0: any
  items::Place place_;     // the place of the row at good_
  std::optional<Error> error_;
};

namespace {

// Returns whether the file of bad rows may be a part of partition_files().
bool is_a_part(const penstock::FilesOptions& options) {
  const size_t place = options.output.find("{}");
  if (place == std::string::npos) return false;
  std::string digits = options.bad_rows.substr(options.bad_rows.rfind('/') + 1);
  std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
  for (size_t begin = 0; begin < digits.size(); ++begin) {
    for (size_t count = 1; begin + count <= digits.size(); ++count) {
      std::string part = options.output;
      part.replace(place, 2, digits.substr(begin, count));
      if (io::name_one_file(part, options.bad_rows)) return true;
    }
  }
  return false;
}

}  // namespace

Result<std::shared_ptr<BadRows>> BadRows::make(const penstock::FilesOptions& options,
                                               const items::Format& format) {
  if (options.bad_rows.empty() || options.bad_rows == "fail") return nullptr;
  const std::string word = "--bad-rows " + options.bad_rows;
  if (!format.csv) return misuse("leave out rows of what is no CSV", word, "--csv or --tsv");
  std::shared_ptr<BadRows> made(new BadRows(format, options.bad_rows));
  if (options.bad_rows == "skip") return made;
  const auto is_there = [&](const std::string& path) {
    return io::name_one_file(path, options.bad_rows);
  };
  if ((options.sink == nullptr && (is_there(options.output) || is_a_part(options))) ||
      std::ranges::any_of(options.inputs, is_there))
    return misuse("write bad rows to an input or the output", word, "another file");
  auto sink =
      open_sink(options.bad_rows, {.sync = options.output_rules.sync,
                                   .overwrite_device = options.output_rules.overwrite_device,
                                   .inputs = options.inputs});
  if (!sink) return std::unexpected(sink.error());
  const MutexLock lock(made->mutex_);
  made->sink_ = std::move(*sink);
  return made;
}

std::unique_ptr<Source> BadRows::filtered(std::unique_ptr<Source> text, std::string name) {
  return std::make_unique<Rest>(*this, std::move(text), std::move(name));
}

Status BadRows::leave_out(const std::string& name, uint64_t end, std::string_view row,
                          const std::string& what) {
  const MutexLock lock(mutex_);
  Input& input = inputs_[name];
  if (end <= input.seen_bytes) return {};
  input.seen_bytes = end;
  if (input.bad.rows++ == 0) input.bad.first = what;
  if (sink_ == nullptr) return {};
  if (Status written = sink_->write(std::as_bytes(std::span(row))); !written) return written;
  if (row.ends_with(format_.line_end)) return {};
  return sink_->write(std::as_bytes(std::span(&format_.line_end, 1)));
}

void BadRows::note_uneven(const std::string& name, uint64_t end, const std::string& what) {
  const MutexLock lock(mutex_);
  Input& input = inputs_[name];
  if (end <= input.seen_bytes) return;
  input.seen_bytes = end;
  if (input.uneven.rows++ == 0) input.uneven.first = what;
}

Result<std::vector<std::string>> BadRows::finish(const std::vector<std::string>& inputs) {
  const MutexLock lock(mutex_);
  if (sink_ != nullptr) {
    if (Status closed = sink_->close(); !closed) return std::unexpected(closed.error());
  }
  // All inputs together; the first row is that of the first input that has one.
  const auto all = [&](Found Input::* kind) REQUIRES_LOCK(mutex_) {
    Found sum;
    std::set<std::string> names(inputs.begin(), inputs.end());
    const auto add = [&](const std::string& name) REQUIRES_LOCK(mutex_) {
      const auto input = inputs_.find(name);
      if (input == inputs_.end() || (input->second.*kind).rows == 0) return;
      if (sum.rows == 0) sum.first = io::shown_input(name) + ": " + (input->second.*kind).first;
      sum.rows += (input->second.*kind).rows;
    };
    for (const std::string& name : inputs) {
      if (names.erase(name) > 0) add(name);
    }
    for (const auto& [name, input] : inputs_) {
      if (std::ranges::find(inputs, name) == inputs.end()) add(name);
    }
    return sum;
  };
  std::vector<std::string> notices;
  const Found bad = all(&Input::bad);
  if (bad.rows > 0)
    notices.push_back(fmt::format("{} bad {} left out{}, the first in {}", bad.rows,
                                  bad.rows == 1 ? "row is" : "rows are",
                                  sink_ == nullptr ? ""
                                  : word_ == "-"   ? ", on standard output"
                                                   : ", in " + printable(word_),
                                  bad.first));
  const Found uneven = all(&Input::uneven);
  if (uneven.rows > 0)
    notices.push_back(fmt::format("{} {} more or fewer fields than the first, the first in {}",
                                  uneven.rows, uneven.rows == 1 ? "row has" : "rows have",
                                  uneven.first));
  return notices;
}

}  // namespace penstock::files
