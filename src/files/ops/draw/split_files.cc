#include "files/ops/draw/split_files.h"

#include <fmt/format.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/misuse.h"
#include "base/run_scope.h"
#include "files/ops/draw/batch_writer.h"
#include "files/ops/partition/partition_files.h"
#include "files/run/item_reader.h"
#include "files/run/run_context.h"
#include "io/engine.h"
#include "io/file.h"
#include "io/input_guard.h"
#include "os/limits.h"

namespace penstock::files {
namespace {

// Writes the bytes of a part, within the run: it is no sink of a caller. Thread safety: one thread.
class PartSink final : public Sink {
 public:
  // REQUIRES: the file outlives the sink, which does not publish it.
  explicit PartSink(const io::File& file) : file_(file) {}
  Status write(std::span<const std::byte> from) override {
    const RunScope scope(run_);
    Status written = io::write_exactly(file_, at_, from.data(), from.size());
    at_ += from.size();
    return written;
  }

 private:
  const io::File& file_;
  const RunState run_ = current_run();
  uint64_t at_ = 0;
};

class Split {
 public:
  Split(const FilesOptions& options, const SplitFilesOptions& split)
      : options_(options), split_(split), context_(options, "split"), reader_(options) {
    context_.show("split");
  }

  Result<SplitFilesResult> go() {
    if (Status written = write_parts(); !written) return std::unexpected(written.error());
    if (Status goes_on = context_.pulse(); !goes_on) return std::unexpected(goes_on.error());
    std::vector<io::File*> files;
    for (io::File& file : files_) files.push_back(&file);
    if (Status published = io::File::publish_all(files); !published)
      return std::unexpected(published.error());
    notice_older_parts(options_, static_cast<uint32_t>(files_.size()), parts_max);
    context_.fill(result_.stats, {});
    result_.stats.passes = 1;
    return std::move(result_);
  }

 private:
  Status write_parts() {
    if (auto name = part_path(options_.output, 0, 1); !name) return std::unexpected(name.error());
    for (const std::string& input : options_.inputs) guard_->add(input);
    (void)os::raise_open_files_limit();
    for (uint32_t looks = 1;; ++looks) {
      if (looks % items_between_pulses == 0) {
        if (Status goes_on = context_.pulse(); !goes_on) return goes_on;
      }
      const auto more = reader_.next();
      if (!more) return std::unexpected(more.error());
      if (!*more) break;
      const std::string_view item = reader_.item();
      if (files_.empty() || is_full(item.size())) {
        if (Status begun = begin_part(); !begun) return begun;
      }
      ++result_.parts.back().items;
      if (Status added = add(item); !added) return added;
    }
    if (files_.empty() && !reader_.header().empty()) {
      if (Status begun = begin_part(); !begun) return begun;
    }
    return end_part();
  }

  // Returns whether the next item, of so many bytes, belongs to the next part.
  bool is_full(uint64_t item_bytes) const {
    const FilePart& part = result_.parts.back();
    return split_.items ? part.items == *split_.items
                        : part.items > 0 && part.bytes + item_bytes > *split_.bytes;
  }

  Status begin_part() {
    if (Status ended = end_part(); !ended) return ended;
    const auto number = static_cast<uint32_t>(files_.size());
    if (number == parts_max)
      return misuse(fmt::format("make more than {} parts", parts_max),
                    split_.items ? "--lines" : "--bytes", "larger parts");
    const auto path = part_path(options_.output, number, parts_max);
    if (!path) return std::unexpected(path.error());
    auto file = io::File::create_output(*path, {.caching = io::Caching::buffered,
                                                .rules = options_.output_rules,
                                                .inputs = guard_,
                                                .cancel = options_.cancel});
    if (!file) {
      Error error = file.error();
      if (error.system_errno == EMFILE || error.system_errno == ENFILE) {
        error.attempted =
            fmt::format("keep {} parts open until all of them are complete", number + 1);
        error.hint = fmt::format("larger parts, or ulimit -n {}", parts_max + 256);
      }
      return std::unexpected(std::move(error));
    }
    if (!file->seekable())
      return misuse("write parts to what has no offsets", *path, "names of files");
    files_.push_back(std::move(*file));
    part_.emplace(std::make_shared<PartSink>(files_.back()));
    result_.parts.emplace_back().path = *path;
    return add(reader_.header());
  }

  Status end_part() { return part_ ? part_->close() : Status{}; }

  Status add(std::string_view bytes) {
    result_.parts.back().bytes += bytes.size();
    return part_->add(bytes);
  }

  const FilesOptions& options_;
  const SplitFilesOptions& split_;
  RunContext context_;
  ItemReader reader_;
  std::shared_ptr<io::InputGuard> guard_ = std::make_shared<io::InputGuard>();
  std::vector<io::File> files_;
  std::optional<BatchWriter> part_;  // the last file
  SplitFilesResult result_;
};

}  // namespace

Result<SplitFilesResult> split_files(const FilesOptions& options, const SplitFilesOptions& split) {
  return Split(options, split).go();
}

}  // namespace penstock::files
