#include "files/run/bad_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/misuse.h"
#include "base/printable.h"
#include "files/run/item_cutter.h"
#include "files/source/checked_read.h"
#include "io/engine.h"
#include "io/names.h"
#include "io/temporaries.h"
#include "items/rows.h"

namespace penstock::files {

// The rest of one input. Good rows that were not passed on are the taken bytes of the cutter.
class BadRows::Rest final : public Source {
 public:
  Rest(BadRows& owner, std::unique_ptr<Source> text, std::string name)
      : owner_(owner),
        format_(owner.format_),
        text_(std::move(text)),
        rows_(owner.format_, owner.row_bytes_max_) {
    rows_.begin(std::move(name));
  }

  Result<size_t> read(std::span<std::byte> into) override {
    if (error_) return std::unexpected(*error_);
    while (rows_.taken().empty()) {
      const Result<bool> any = advance();
      if (!any) error_ = any.error();
      if (!any) return std::unexpected(any.error());
      if (!*any) return 0;
    }
    const size_t bytes = rows_.taken().copy(reinterpret_cast<char*>(into.data()), into.size());
    rows_.drop(bytes);
    return bytes;
  }
  void cancel() override { text_->cancel(); }

 private:
  enum class Next : uint8_t { good, bad, more };

  // Finds good rows. Returns false at the end.
  Result<bool> advance() {
    while (!rows_.has_ended() || !rows_.text().empty()) {
      const Result<Next> next = has_head_ ? look_at_rows() : take_head();
      if (!next) return std::unexpected(next.error());
      if (!rows_.taken().empty()) return true;
      if (*next == Next::more && !rows_.has_ended()) {
        if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      }
    }
    return false;
  }

  // Passes the head on. The run finds its faults.
  Result<Next> take_head() {
    const std::string_view text = rows_.text();
    const auto bytes = items::head_bytes(format_, text, rows_.has_ended());
    if (bytes && !*bytes && !rows_.has_ended() && !rows_.is_full()) return Next::more;
    has_head_ = true;
    if (!bytes || !*bytes) {
      is_plain_ = true;
      return look_at_rows();
    }
    std::string_view head = text.substr(0, **bytes);
    rows_.take(head.size(), format_.header_lines);
    if (format_.header_lines == 0) return Next::good;
    head.remove_prefix(items::mark_bytes(format_, head));
    std::optional<items::ItemFault> fault;
    items::read_row(head, *format_.csv, format_.line_end, true, fault, &columns_);
    is_plain_ = fault.has_value();
    return Next::good;
  }

  // Takes good rows, or leaves out a bad one in front of them.
  Result<Next> look_at_rows() {
    if (is_plain_) {
      rows_.take(rows_.text().size());
      return Next::more;
    }
    while (!rows_.text().empty()) {
      if (!rows_.is_due()) return Next::more;
      size_t have = 0;
      size_t bytes = 0;
      std::string what;
      const Next next = look_at_row(bytes, have, what);
      if (next == Next::more) {
        rows_.defer();
        return next;
      }
      if (next == Next::bad && !rows_.taken().empty()) return Next::good;
      if (next == Next::bad) {
        const std::string_view text = rows_.text();
        const std::string_view row =
            text.substr(0, std::min(text.find(format_.line_end), text.size() - 1) + 1);
        if (Status left = owner_.leave_out(rows_.name(), rows_.offset() + row.size(), row,
                                           rows_.place().text(format_) + ": " + what);
            !left)
          return std::unexpected(left.error());
        rows_.take(row.size());
        rows_.drop(row.size());
        continue;
      }
      if (have != columns_)
        owner_.note_uneven(rows_.name(), rows_.offset() + bytes,
                           rows_.place().text(format_) + ": " + fault_of_length(have).what);
      rows_.take(bytes);
    }
    return Next::more;
  }

  // Looks at the first row: `bytes` and `have` are the length and the fields of a good one, `what` is
  // the fault of a bad one, which ends with its line.
  Next look_at_row(size_t& bytes, size_t& have, std::string& what) {
    const std::string_view text = rows_.text();
    const bool is_last = rows_.has_ended();
    std::optional<items::ItemFault> fault;
    bytes = items::read_row(text, *format_.csv, format_.line_end, is_last, fault, &have);
    if (bytes > 0) {
      const bool is_blank = have == 1 && text.find_first_not_of("\r\n") >= bytes;
      if (is_blank && columns_ == 0 && !find_columns()) return Next::more;
      if (columns_ == 0) columns_ = have;
      const bool is_bad = have != columns_ && (is_blank || format_.rows_fit_header);
      if (is_bad) what = is_blank ? "a blank row" : fault_of_length(have).what;
      return is_bad ? Next::bad : Next::good;
    }
    if (!fault || (!is_last && !text.contains(format_.line_end))) return Next::more;
    what = fault->what;
    return Next::bad;
  }

  // Finds the number of columns in the first row that is not blank. Returns false if more of the text
  // has to be read; text of nothing but blank rows has one column.
  bool find_columns() {
    std::string_view text = rows_.text();
    const bool is_all = rows_.has_ended() || rows_.is_full();
    text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
    if (text.empty() && is_all) columns_ = 1;
    if (text.empty()) return columns_ > 0;
    std::optional<items::ItemFault> fault;
    size_t have = 0;
    const bool is_whole =
        items::read_row(text, *format_.csv, format_.line_end, rows_.has_ended(), fault, &have) > 0;
    if (!is_whole && !fault && !is_all) return false;
    columns_ = is_whole ? have : std::max<size_t>(have + 1, 1);
    return true;
  }

  items::ItemFault fault_of_length(size_t have) const {
    return items::fault_of_count(have, columns_,
                                 format_.header_lines > 0 ? "the header" : "the first row");
  }

  Status fill() {
    const auto room = rows_.room();
    if (!room) return std::unexpected(room.error());
    const auto got = source::checked_read(*text_, *room);
    if (!got) return std::unexpected(got.error());
    rows_.add(*got);
    if (*got == 0) rows_.finish();
    return {};
  }

  BadRows& owner_;
  const items::Format& format_;
  const std::unique_ptr<Source> text_;
  ItemCutter rows_;
  bool has_head_ = false;
  bool is_plain_ = false;  // all of the rest is passed on
  size_t columns_ = 0;     // fields of the header or the first row; 0: not known yet
  std::optional<Error> error_;
};

BadRows::BadRows(const items::Format& format, const penstock::FilesOptions& options)
    : format_(format),
      word_(options.bad_rows),
      row_bytes_max_(cut_bytes_max(options, input_count(options))) {
  for (size_t i = 0; i < input_count(options); ++i) names_.push_back(input_name(options, i));
}

Status BadRows::check(const penstock::FilesOptions& options, const items::Format& format) {
  if (!leaves_rows_out(options) || format.csv) return {};
  return misuse("leave out rows of what is no CSV", "--bad-rows " + options.bad_rows,
                "--csv or --tsv");
}

Result<std::shared_ptr<BadRows>> BadRows::make(const penstock::FilesOptions& options,
                                               const items::Format& format) {
  if (Status fine = check(options, format); !fine) return std::unexpected(fine.error());
  if (!leaves_rows_out(options)) return nullptr;
  std::shared_ptr<BadRows> made(new BadRows(format, options));
  if (options.bad_rows == "skip") return made;
  using Use = io::UsedFile::Use;
  const auto is_shared = [&](const std::string& path, Use use) {
    return io::share_a_file({options.bad_rows, Use::written}, {path, use});
  };
  if ((options.sink == nullptr &&
       (is_shared(options.output, Use::written) || is_shared(options.output, Use::parts))) ||
      std::ranges::any_of(options.inputs,
                          [&](const std::string& path) { return is_shared(path, Use::read); }))
    return misuse("write bad rows to an input or the output", "--bad-rows " + options.bad_rows,
                  "another file");
  auto sink =
      open_sink(options.bad_rows, {.sync = options.output_rules.sync,
                                   .overwrite_device = options.output_rules.overwrite_device,
                                   .inputs = options.inputs});
  if (!sink) return std::unexpected(sink.error());
  made->temp_directory_ =
      io::temp_directories_or_default(options.temp_directories, options.output).front();
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
  NamedInput& named = *inputs_.try_emplace(name).first;
  if (!named.second.is_new(end)) return {};
  FoundItems& bad = bad_[name];
  if (bad.items++ == 0) bad.first = what;
  if (sink_ == nullptr) return {};
  if (Status written = write(named, row); !written) return written;
  return row.ends_with(format_.line_end) ? Status() : write(named, {&format_.line_end, 1});
}

Status BadRows::write(NamedInput& named, std::string_view rows) {
  if (named.first == names_.front()) return sink_->write(std::as_bytes(std::span(rows)));
  Input& input = named.second;
  while (!rows.empty()) {
    const size_t bytes = std::min(rows.size(), block_bytes - input.last_block.size());
    input.last_block += rows.substr(0, bytes);
    rows.remove_prefix(bytes);
    waiting_bytes_ += bytes;
    if (input.last_block.size() < block_bytes) break;
    if (Status stored = store_last_block(input); !stored) return stored;
  }
  // Many inputs have short last blocks.
  for (auto& [name, other] : inputs_) {
    if (waiting_bytes_ <= waiting_bytes_max) break;
    if (Status stored = store_last_block(other); !stored) return stored;
  }
  return {};
}

Status BadRows::store_last_block(Input& input) {
  if (input.last_block.empty()) return {};
  if (!temporary_) {
    auto file = io::File::create_temporary(temp_directory_, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    temporary_ = std::move(*file);
    temporary_->keep_checks(block_bytes);
  }
  const auto bytes = static_cast<uint32_t>(input.last_block.size());
  input.last_block.resize(block_bytes);
  const auto* const data = reinterpret_cast<const std::byte*>(input.last_block.data());
  Status written =
      io::write_exactly(*temporary_, uint64_t{blocks_} * block_bytes, data, block_bytes);
  if (!written) return written;
  input.blocks.push_back({blocks_++, bytes});
  waiting_bytes_ -= bytes;
  std::string().swap(input.last_block);
  return {};
}

Status BadRows::write_waiting(const Input& input) {
  std::vector<std::byte> block(input.blocks.empty() ? 0 : block_bytes);
  for (const Block& stored : input.blocks) {
    Status done = io::read_exactly(*temporary_, uint64_t{stored.number} * block_bytes, block.data(),
                                   block.size());
    if (done) done = sink_->write(std::span(block).first(stored.bytes));
    if (!done) return done;
  }
  return input.last_block.empty() ? Status()
                                  : sink_->write(std::as_bytes(std::span(input.last_block)));
}

void BadRows::note_uneven(const std::string& name, uint64_t end, const std::string& what) {
  const MutexLock lock(mutex_);
  if (!inputs_[name].is_new(end)) return;
  FoundItems& uneven = uneven_[name];
  if (uneven.items++ == 0) uneven = {.items = 1, .first = what, .noun = format_.framing().noun};
}

Result<std::vector<std::string>> BadRows::finish() {
  const MutexLock lock(mutex_);
  std::vector<const Input*> inputs;
  std::set<std::string> names;
  for (const std::string& name : names_) {
    const auto found = inputs_.find(name);
    if (found != inputs_.end() && names.insert(name).second) inputs.push_back(&found->second);
  }
  for (const auto& [name, input] : inputs_) {
    if (!names.contains(name)) inputs.push_back(&input);
  }
  if (sink_ != nullptr) {
    Status written;
    for (size_t i = 0; written && i < inputs.size(); ++i) written = write_waiting(*inputs[i]);
    if (written) written = sink_->close();
    if (!written) return std::unexpected(written.error());
  }
  std::vector<std::string> notices;
  if (const FoundItems bad = together(bad_, names_); bad.items > 0)
    notices.push_back(fmt::format("{} bad {} left out{}, the first in {}", bad.items,
                                  bad.items == 1 ? "row is" : "rows are",
                                  sink_ == nullptr ? ""
                                  : word_ == "-"   ? ", on standard output"
                                                   : ", in " + printable(word_),
                                  bad.first));
  if (const FoundItems uneven = together(uneven_, names_); uneven.items > 0)
    notices.push_back(notice_of_lengths(uneven));
  return notices;
}

}  // namespace penstock::files
