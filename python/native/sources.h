#pragma once

// Sources of an operation on files: bytes fed from Python, or ranges of files.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "penstock/files.h"

namespace penstock::python {

// Bytes fed by Python threads, in order. feed() waits, without the GIL, until the operation has
// taken all of them, so the operation reads directly from Python's memory. Thread safety: one
// thread feeds; the operation reads in one of its own.
class FedSource final : public Source {
 public:
  Result<size_t> read(std::span<std::byte> into) override;
  void cancel() override;

  // Returns false if no more bytes are wanted.
  bool feed(std::span<const std::byte> bytes);
  void end();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const std::byte> fed_;
  bool ended_ = false;
  bool cancelled_ = false;
};

// Runs operation(files), checks its output on the way, and returns {"run": .., "check": ..}.
template <class Operation>
Result<std::string> checked(FilesOptions files, Operation operation) {
  std::shared_ptr<Sink> to = files.sink;
  if (to == nullptr) {
    auto opened =
        open_sink(files.output, {.sync = files.output_rules.sync, .inputs = files.inputs});
    if (!opened) return std::unexpected(opened.error());
    to = std::move(*opened);
  }
  auto sink = CheckedSink::open(std::move(to), files.items);
  if (!sink) return std::unexpected(sink.error());
  files.sink = *sink;
  auto run = operation(files);
  if (!run) return std::unexpected(run.error());
  const auto check = (*sink)->check();
  if (!check) return std::unexpected(check.error());
  return "{\"run\": " + *run + ", \"check\": " + to_json(*check, files.output, files.items) + "}";
}

// Copies the inputs and sources to the sink, in order.
Result<std::string> pass_on(const FilesOptions& files);

}  // namespace penstock::python
