#pragma once

// Rows of CSV that are left out of a run (FilesOptions::bad_rows): blank ones of tables with several
// columns, and those that break the rules of their format. Good rows of other lengths than the header
// or the first row are counted.
//
// Inputs are read in order, through this filter, so that the rest of the run has only good rows,
// whatever its threads and its memory. A bad row ends with its line, also within quotes. A row of more
// than cut_bytes_max() is an error: it may be a good one.
//
// A file of bad rows has them in the order of the inputs. A run may read these at the same time, so
// that only rows of the first one are written at once. Those of others wait in a temporary.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "files/run/item_cutter.h"
#include "files/run/odd_items.h"
#include "files/run/options.h"
#include "io/file.h"
#include "items/items.h"
#include "penstock/files.h"

namespace penstock::files {

// Thread safety: any thread. An input may be read several times; its bad rows count once.
class BadRows final : public SourceFilter {
 public:
  // Fails if the options ask for a filter of items that are no rows of CSV.
  static Status check(const penstock::FilesOptions& options, const items::Format& format);
  // Returns null if the options ask for no filter. Errors: those of check(), and of the file of bad
  // rows.
  static Result<std::shared_ptr<BadRows>> make(const penstock::FilesOptions& options,
                                               const items::Format& format);

  std::unique_ptr<Source> filtered(std::unique_ptr<Source> text, std::string name) override;
  uint64_t memory_bytes() const override {
    return ItemCutter::memory_bytes(row_bytes_max_) + block_bytes;
  }
  // Publishes the file of bad rows, after a run without errors. Returns notices about the rows.
  Result<std::vector<std::string>> finish();

 private:
  class Rest;
  struct Block {
    uint32_t number = 0;  // in the temporary
    uint32_t bytes = 0;   // those of rows, at its beginning
  };
  struct Input {
    uint64_t seen_bytes = 0;  // length of the part that was read before
    // Bad rows that wait: their blocks in the temporary, and the last block.
    std::vector<Block> blocks = {};
    std::string last_block = {};

    // Returns whether a row that ends at `end` was not read before.
    bool is_new(uint64_t end) {
      const bool is_behind = end > seen_bytes;
      seen_bytes = std::max(seen_bytes, end);
      return is_behind;
    }
  };
  using NamedInput = std::pair<const std::string, Input>;
  static constexpr size_t block_bytes = 16 * KiB;
  // The most bytes of all last blocks.
  static constexpr size_t waiting_bytes_max = 16 * block_bytes;

  BadRows(const items::Format& format, const penstock::FilesOptions& options);
  Status leave_out(const std::string& name, uint64_t end, std::string_view row,
                   const std::string& what) EXCLUDES_LOCK(mutex_);
  void note_uneven(const std::string& name, uint64_t end, const std::string& what)
      EXCLUDES_LOCK(mutex_);
  Status write(NamedInput& input, std::string_view rows) REQUIRES_LOCK(mutex_);
  Status store_last_block(Input& input) REQUIRES_LOCK(mutex_);
  Status write_waiting(const Input& input) REQUIRES_LOCK(mutex_);

  const items::Format format_;
  const std::string word_;  // "skip", or the file's name
  const uint64_t row_bytes_max_;
  std::vector<std::string> names_;  // all inputs in their order
  std::string temp_directory_;
  Mutex mutex_;
  std::map<std::string, Input> inputs_ GUARDED_BY(mutex_);  // those with such rows
  FoundByInput bad_ GUARDED_BY(mutex_), uneven_ GUARDED_BY(mutex_);
  std::unique_ptr<Sink> sink_ GUARDED_BY(mutex_);
  std::optional<io::File> temporary_ GUARDED_BY(mutex_);
  uint32_t blocks_ GUARDED_BY(mutex_) = 0;       // in the temporary
  size_t waiting_bytes_ GUARDED_BY(mutex_) = 0;  // bytes of all last blocks
};

}  // namespace penstock::files
