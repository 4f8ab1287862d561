#include "files/ops/check/check_input.h"
#include "interfaces/api/file_check.h"
#include "interfaces/api/item_format.h"
#include "penstock/files.h"

namespace penstock {
namespace {

class Checked final : public CheckedSink {
 public:
  Checked(std::shared_ptr<Sink> to, const items::CheckOptions& options)
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
    return api::file_check_of(*done);
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
  const items::CheckOptions options{*format, api::is_reversed(items, *format)};
  return std::make_shared<Checked>(std::move(to), options);
}

}  // namespace penstock
