// Files as memory, and sequential sources, read ahead. penstock/_stream.py decides between the two.

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "background.h"
#include "errors.h"

namespace penstock::python {
namespace {

// Blocks of 2 MiB, or smaller ones if the memory is small.
struct Blocks {
  size_t block_bytes = 2 * MiB;
  uint32_t read_ahead_blocks = 1;
};
Blocks blocks_of(uint64_t memory_bytes) {
  constexpr uint64_t beside = 2;  // the block being read, and one to come back to
  Blocks blocks;
  if (memory_bytes < 3 * blocks.block_bytes)
    blocks.block_bytes = std::max<uint64_t>(4 * KiB, std::bit_floor(memory_bytes / 3));
  const uint64_t count = memory_bytes / blocks.block_bytes;
  blocks.read_ahead_blocks =
      static_cast<uint32_t>(std::clamp<uint64_t>(count, beside + 1, 64) - beside);
  return blocks;
}

// Reads the bytes that Python had read already, and then the rest.
class HeadSource : public Source {
 public:
  HeadSource(std::string head, std::unique_ptr<Source> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}
  Result<size_t> read(std::span<std::byte> into) override {
    if (at_ == head_.size()) return rest_->read(into);
    const size_t bytes = std::min(into.size(), head_.size() - at_);
    std::memcpy(into.data(), head_.data() + at_, bytes);
    at_ += bytes;
    return bytes;
  }
  void cancel() override { rest_->cancel(); }

 private:
  const std::string head_;
  size_t at_ = 0;
  const std::unique_ptr<Source> rest_;
};

// A file of known length, or a source that is read once. Thread safety: one thread at a time. The
// GIL ensures it except while read() works: then another read(), or close(), is refused.
class Stream {
 public:
  Stream(FileReader file, uint64_t begin)
      : file_(std::move(file)), begin_(std::min(begin, file_->bytes())) {}
  explicit Stream(SourceStream source) : source_(std::move(source)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { release(); }

  bool has_length() const { return file_.has_value(); }
  uint64_t bytes() const { return file_ ? file_->bytes() - begin_ : 0; }
  bool closed() const { return !file_ && !source_; }

  // Reads the next bytes: at most `bytes`, fewer only at the end.
  size_t read(char* into, size_t bytes) {
    if (closed()) throw nb::value_error("the stream is closed");
    if (reading_) throw nb::value_error("another thread reads the stream");
    reading_ = true;
    std::optional<Result<size_t>> got;
    try {
      if (file_) {
        const nb::gil_scoped_release released;
        got = read_file(into, bytes);
      } else {
        got = in_background([&] { return read_source(into, bytes); }, [&] { source_->cancel(); },
                            [] {});
      }
    } catch (...) {
      reading_ = false;
      throw;
    }
    reading_ = false;
    return value_of(std::move(*got));
  }

  // Raises the stream's first error. Does nothing if the stream is closed.
  void check_status() const {
    if (file_) check(file_->status());
  }

  void close() {
    if (exports_ > 0) {
      PyErr_SetString(
          PyExc_BufferError,
          "arrays or views of the stream are in use still: delete them, or copy what you need");
      throw nb::python_error();
    }
    if (reading_) throw nb::value_error("another thread reads the stream");
    release();
  }

  static int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    auto& stream = *nb::inst_ptr<Stream>(self);
    if (!stream.file_) {
      PyErr_SetString(PyExc_BufferError,
                      stream.closed() ? "the stream is closed" : "the length is not known");
      view->obj = nullptr;
      return -1;
    }
    // An empty stream has no address.
    static char nothing;
    char* data = stream.bytes() > 0 ? const_cast<char*>(stream.data()) : &nothing;
    const int done =
        PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(stream.bytes()), 1, flags);
    if (done == 0) ++stream.exports_;
    return done;
  }
  static void release_buffer(PyObject* self, Py_buffer*) { --nb::inst_ptr<Stream>(self)->exports_; }

 private:
  const char* data() const { return file_->begin<char>() + begin_; }

  Result<size_t> read_file(char* into, size_t wanted) {
    const size_t count = std::min<uint64_t>(wanted, bytes() - position_);
    std::memcpy(into, data() + position_, count);
    if (Status status = file_->status(); !status) return std::unexpected(status.error());
    position_ += count;
    return count;
  }

  // Block by block, because waiting for the last block would release the first ones.
  Result<size_t> read_source(char* into, size_t wanted) {
    size_t done = 0;
    while (done < wanted) {
      const auto ready = source_->wait_ready(position_);
      if (!ready) return std::unexpected(ready.error());
      const uint64_t block_end = (position_ / source_->block_bytes() + 1) * source_->block_bytes();
      const size_t count = std::min<uint64_t>(
          {wanted - done, *ready - std::min(*ready, position_), block_end - position_});
      if (count == 0) break;
      std::memcpy(into + done, source_->begin<char>() + position_, count);
      done += count;
      position_ += count;
    }
    return done;
  }

  // Waits for reads that are in progress.
  void release() {
    const nb::gil_scoped_release released;
    file_.reset();
    source_.reset();
  }

  std::optional<FileReader> file_;
  std::optional<SourceStream> source_;
  uint64_t begin_ = 0;     // position of the stream's first byte in the file
  uint64_t position_ = 0;  // position of read()
  Py_ssize_t exports_ = 0;
  bool reading_ = false;
};

PyType_Slot stream_slots[] = {
    {Py_bf_getbuffer, reinterpret_cast<void*>(&Stream::get_buffer)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(&Stream::release_buffer)},
    {0, nullptr}};

Stream* open_file(const nb::bytes& path, uint64_t begin, uint64_t memory_bytes) {
  const Blocks blocks = blocks_of(memory_bytes);
  return new Stream(
      value_of(FileReader::open(bytes_of(path), {.block_bytes = blocks.block_bytes,
                                                 .read_ahead_blocks = blocks.read_ahead_blocks,
                                                 .policy = ErrorPolicy::zeros})),
      begin);
}

Stream* open_stream(std::unique_ptr<Source> source, const std::string& name, uint64_t memory_bytes,
                    bool decompresses) {
  const Blocks blocks = blocks_of(memory_bytes);
  if (decompresses) source = decompress(std::move(source), name);
  return new Stream(value_of(SourceStream::open(std::move(source), name,
                                                {.block_bytes = blocks.block_bytes,
                                                 .read_ahead_blocks = blocks.read_ahead_blocks,
                                                 .policy = ErrorPolicy::zeros})));
}

// A file is compressed if decompressing changes its bytes.
bool is_compressed(const nb::bytes& path) {
  std::string texts[2];
  for (const bool decompresses : {false, true}) {
    auto source = value_of(open_source(bytes_of(path), {.decompress = decompresses}));
    std::string& text = texts[decompresses];
    text.resize(4 * KiB);
    size_t bytes = 0;
    while (bytes < text.size()) {
      const auto got = source->read(std::as_writable_bytes(std::span(text)).subspan(bytes));
      if (!got && decompresses) return true;  // damaged, as its reader will find
      const size_t more = value_of(got);
      if (more == 0) break;
      bytes += more;
    }
    text.resize(bytes);
  }
  return texts[0] != texts[1];
}

}  // namespace

void bind_stream(nb::module_& module) {
  nb::class_<Stream>(module, "Stream", nb::type_slots(stream_slots))
      .def_prop_ro("has_length", &Stream::has_length)
      .def_prop_ro("length_bytes", &Stream::bytes)
      .def_prop_ro("closed", &Stream::closed)
      .def(
          "read",
          [](Stream& stream, size_t bytes) {
            nb::object into = nb::steal<nb::object>(
                PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes)));
            if (!into.is_valid()) throw nb::python_error();
            const size_t got = stream.read(PyBytes_AsString(into.ptr()), bytes);
            if (got == bytes) return nb::bytes(into);
            return nb::bytes(PyBytes_AsString(into.ptr()), got);
          },
          nb::arg("bytes"))
      .def(
          "read_into",
          [](Stream& stream,
             nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> into) {
            return stream.read(reinterpret_cast<char*>(into.data()), into.size());
          },
          nb::arg("into"))
      .def("check_status", &Stream::check_status)
      .def("close", &Stream::close);
  module.def("open_file", open_file, nb::arg("path"), nb::arg("begin"), nb::arg("memory_bytes"));
  module.def(
      "open_path",
      [](const nb::bytes& path, uint64_t memory_bytes, bool decompresses) {
        return open_stream(value_of(open_source(bytes_of(path), {.decompress = decompresses})),
                           bytes_of(path), memory_bytes, false);
      },
      nb::arg("path"), nb::arg("memory_bytes"), nb::arg("decompresses"));
  module.def(
      "open_descriptor",
      [](int descriptor, const std::string& name, const nb::bytes& head, uint64_t memory_bytes,
         bool decompresses) {
        return open_stream(std::make_unique<HeadSource>(
                               bytes_of(head), value_of(descriptor_source(descriptor, name))),
                           name, memory_bytes, decompresses);
      },
      nb::arg("descriptor"), nb::arg("name"), nb::arg("head"), nb::arg("memory_bytes"),
      nb::arg("decompresses"));
  module.def("is_compressed", is_compressed, nb::arg("path"));
  // Installs the fault handlers in front again, if another one came since (faulthandler's).
  module.def("serve_faults", [] { check(fault::install()); });
}

}  // namespace penstock::python
