#include "files/ops/merge/merge_files.h"
#include "files/run/run_context.h"
#include "files/run/walk.h"

namespace penstock::files {

Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& options, bool to_end,
                                              ItemsMeasure* beginning) {
  RunContext context(options, "sort");
  std::vector<size_t> all(input_count(options));
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  std::optional<Disorder> found;
  Status interrupted;
  items::LastItem last;
  const auto visit = [&](const Cursor& cursor, const items::ItemOrder& order,
                         const ItemPlace& where) {
    if (where.item % items_between_pulses == 0) {
      if (interrupted = context.pulse(); !interrupted) return false;
    }
    if (beginning != nullptr) {
      ++beginning->items;
      beginning->bytes += cursor.item().size();
    }
    const bool is_wanted =
        to_end || (beginning != nullptr && beginning->bytes < ItemsMeasure::bytes_enough);
    if (found) return is_wanted;
    if (where.item > 0) {
      const int compared = last.compare(order, cursor.prefix(), cursor.item());
      if (compared > 0 || (options.unique && compared == 0)) {
        const items::Format& format = order.format();
        found = Disorder{where.path, where.place, items::printable_key(format, cursor.item()),
                         std::string(items::without_line_end(format, cursor.item()))};
        return is_wanted;
      }
    }
    last.set(order, cursor.prefix(), cursor.item());
    return true;
  };
  const Status walked = walk_items(options, options.descending, all, visit);
  if (!interrupted) return std::unexpected(interrupted.error());
  if (!walked && (!found || to_end)) return std::unexpected(walked.error());
  return found;
}

}  // namespace penstock::files
