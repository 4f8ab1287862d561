#include "sources.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "errors.h"

namespace penstock::python {
namespace {

std::unexpected<Error> cancelled(const std::string& subject) {
  return std::unexpected(
      Error{.code = ErrorCode::cancelled, .attempted = "read on", .subject = subject});
}

// A view of any object with a contiguous buffer, which it keeps alive.
class View {
 public:
  explicit View(const nb::handle& object) {
    if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
  }
  ~View() { PyBuffer_Release(&buffer_); }
  View(const View&) = delete;
  View& operator=(const View&) = delete;
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(buffer_.buf), static_cast<size_t>(buffer_.len)};
  }

 private:
  Py_buffer buffer_ = {};
};

}  // namespace

Result<size_t> FedSource::read(std::span<std::byte> into) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !fed_.empty() || ended_ || cancelled_; });
  if (cancelled_) return cancelled("what Python feeds");
  if (!fed_.empty()) {
    const size_t bytes = std::min(into.size(), fed_.size());
    std::memcpy(into.data(), fed_.data(), bytes);
    fed_ = fed_.subspan(bytes);
    if (fed_.empty()) changed_.notify_all();
    return bytes;
  }
  return 0;
}

void FedSource::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

bool FedSource::feed(std::span<const std::byte> bytes) {
  std::unique_lock lock(mutex_);
  fed_ = bytes;
  changed_.notify_all();
  changed_.wait(lock, [&] { return fed_.empty() || cancelled_; });
  fed_ = {};
  return !cancelled_;
}

void FedSource::end() {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

Result<std::string> pass_on(const FilesOptions& files) {
  std::vector<std::shared_ptr<Source>> sources;
  for (const std::string& input : files.inputs) {
    auto source = open_source(input, {.decompress = false});
    if (!source) return std::unexpected(source.error());
    sources.push_back(std::move(*source));
  }
  sources.insert(sources.end(), files.sources.begin(), files.sources.end());
  std::vector<std::byte> piece(256 * KiB);
  for (const auto& source : sources) {
    for (;;) {
      if (files.cancel != nullptr && files.cancel->load()) {
        return std::unexpected(Error{.code = ErrorCode::interrupted,
                                     .attempted = "finish: it was asked to stop",
                                     .subject = "the run"});
      }
      const auto bytes = source->read(piece);
      if (!bytes) return std::unexpected(bytes.error());
      if (*bytes == 0) break;
      if (Status status = files.sink->write(std::span(piece).first(*bytes)); !status)
        return std::unexpected(status.error());
    }
  }
  if (Status status = files.sink->close(); !status) return std::unexpected(status.error());
  return "{}";
}

void bind_sources(nb::module_& module) {
  nb::class_<Source>(module, "Source");
  nb::class_<FedSource, Source>(module, "FedSource")
      .def(nb::init<>())
      .def(
          "feed",
          [](FedSource& source, const nb::object& buffer) {
            const View view(buffer);
            const nb::gil_scoped_release released;
            return view.bytes().empty() || source.feed(view.bytes());
          },
          nb::arg("buffer"), "Waits until all of it is taken. False: nothing more is wanted.")
      .def("end", &FedSource::end)
      .def("cancel", &FedSource::cancel);
  module.def(
      "stretches",
      [](const nb::bytes& head, const std::vector<std::tuple<nb::bytes, uint64_t, uint64_t>>& all) {
        std::vector<Stretch> made;
        for (const auto& [path, offset, bytes] : all)
          made.push_back({bytes_of(path), offset, bytes});
        return std::shared_ptr<Source>(stretches_source(std::move(made), bytes_of(head)));
      },
      nb::arg("head"), nb::arg("stretches"),
      "Path, offset and bytes of stretches, one after the other, behind some bytes. A file is open "
      "while it is read.");
}

}  // namespace penstock::python
