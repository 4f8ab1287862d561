#include "external/check_input.h"

#include "source/in_order.h"

namespace penstock::external {
namespace {

class CheckSink final : public Sink {
 public:
  explicit CheckSink(record::Checker& checker) : checker_(checker) {}
  Status write(std::span<const std::byte> from) override {
    checker_.add(from);
    return {};
  }

 private:
  record::Checker& checker_;
};

}  // namespace

Result<record::CheckResult> check_input(const std::string& path,
                                        const record::CheckFileOptions& options,
                                        const SourceOptions& source) {
  auto file = file::File::open_read(path);
  if (!file) return std::unexpected(file.error());
  const auto in_order = source::comes_in_order(*file, source);
  if (!in_order) return std::unexpected(in_order.error());
  if (!*in_order) return record::check_file(*file, options);
  auto bytes = source::source_of(*file, source);
  if (!bytes) return std::unexpected(bytes.error());
  auto stream = SourceStream::open(std::move(*bytes), path, {.policy = ErrorPolicy::recover});
  if (!stream) return std::unexpected(stream.error());
  record::Checker checker(options.check);
  CheckSink sink(checker);
  if (auto copied = copy(*stream, sink); !copied) return std::unexpected(copied.error());
  auto result = checker.finish();
  if (!result && result.error().subject.empty()) {
    Error error = result.error();
    error.subject = path;
    return std::unexpected(std::move(error));
  }
  return result;
}

}  // namespace penstock::external
