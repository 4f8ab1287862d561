#include "api/item_format.h"
#include "files/check_input.h"
#include "files/memory_plan.h"
#include "os/memory.h"
#include "penstock/files.h"

namespace penstock {
namespace {

class Checked final : public CheckedSink {
 public:
  Checked(std::shared_ptr<Sink> to, const record::CheckOptions& options)
      : to_(std::move(to)), check_(options) {}

  Status write(std::span<const std::byte> from) override {
    if (Status checked = check_.write(from); !checked) return checked;
    return to_->write(from);
  }
  Status close() override { return to_->close(); }
  void cancel() override { to_->cancel(); }
  Result<FileCheck> check() override {
    const auto done = check_.finish();
    if (!done) return std::unexpected(done.error());
    return FileCheck{.count = done->count,
                     .duplicates = done->duplicates,
                     .first_unsorted = done->first_unsorted,
                     .checksum = done->checksum_hex(),
                     .first = done->first,
                     .last = done->last,
                     .memory_scope = files::memory_scope(),
                     .peak_bytes = files::peak_memory(),
                     .peak_rss_bytes = os::resident_memory().peak_bytes};
  }

 private:
  const std::shared_ptr<Sink> to_;
  files::CheckSink check_;
};

}  // namespace

Result<std::shared_ptr<CheckedSink>> CheckedSink::open(std::shared_ptr<Sink> to,
                                                       const ItemFormat& items) {
  const auto format = api::format_of(items, {.stable = true});
  if (!format) return std::unexpected(format.error());
  const record::CheckOptions options{*format, api::is_reversed(items, *format)};
  return std::make_shared<Checked>(std::move(to), options);
}

}  // namespace penstock
