#include "interfaces/c/guard.h"
#include "penstock/file_stream.h"
#include "penstock/stream.h"

using namespace penstock;
using c_api::guarded;
using c_api::opened;
using c_api::options_of;
using c_api::set;

struct penstock_reader {
  FileReader reader;
};
struct penstock_writer {
  FileWriter writer;
};
struct penstock_stream {
  RemapStream stream;
};
struct penstock_process_stream {
  ProcessStream stream;
};

namespace {

Result<ErrorPolicy> policy_of(int policy, ErrorPolicy otherwise) {
  switch (policy) {
    case PENSTOCK_POLICY_DEFAULT:
      return otherwise;
    case PENSTOCK_POLICY_STOP:
      return ErrorPolicy::stop;
    case PENSTOCK_POLICY_RECOVER:
      return ErrorPolicy::recover;
    case PENSTOCK_POLICY_ZEROS:
      return ErrorPolicy::zeros;
    default:
      return failure(ErrorCode::invalid_argument, "take the policy", std::to_string(policy),
                     "one of enum penstock_policy");
  }
}

Result<Side> side_of(int side) {
  if (side == PENSTOCK_PRODUCER) return Side::producer;
  if (side == PENSTOCK_CONSUMER) return Side::consumer;
  return failure(ErrorCode::invalid_argument, "take the side", std::to_string(side),
                 "one of enum penstock_side");
}

Result<std::string> path_of(const char* path) {
  if (path != nullptr) return std::string(path);
  return failure(ErrorCode::invalid_argument, "open", "a file without a name", "a path");
}

template <class Options>
Result<Options> stream_options(const penstock_stream_options* given) {
  const auto from = options_of(given);
  if (!from) return std::unexpected(from.error());
  Options options;
  const auto policy = policy_of(from->policy, options.policy);
  if (!policy) return std::unexpected(policy.error());
  options.bytes = from->bytes;
  set(options.block_bytes, from->block_bytes);
  set(options.read_ahead_blocks, from->read_ahead_blocks);
  set(options.producer_comeback_blocks, from->producer_comeback_blocks);
  set(options.consumer_comeback_blocks, from->consumer_comeback_blocks);
  options.policy = *policy;
  if (from->name != nullptr) options.name = from->name;
  options.strict = from->relaxed == 0;
  return options;
}

int store(const Result<uint64_t>& from, uint64_t* to) {
  if (!from) return c_api::fail(from.error());
  if (to != nullptr) *to = *from;
  return PENSTOCK_OK;
}

Error given_up(const char* message) {
  return {.code = ErrorCode::cancelled,
          .attempted = message == nullptr ? "go on" : message,
          .subject = "the other side"};
}

}  // namespace

int penstock_reader_open(const char* path, const penstock_reader_options* options,
                         penstock_reader** reader) {
  return opened(reader, [&]() -> Result<FileReader> {
    const auto name = path_of(path);
    if (!name) return std::unexpected(name.error());
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    FileReaderOptions made;
    const auto policy = policy_of(from->policy, made.policy);
    if (!policy) return std::unexpected(policy.error());
    set(made.block_bytes, from->block_bytes);
    set(made.read_ahead_blocks, from->read_ahead_blocks);
    set(made.comeback_blocks, from->comeback_blocks);
    set(made.memory_blocks, from->memory_blocks);
    made.policy = *policy;
    return FileReader::open(*name, made);
  });
}
const void* penstock_reader_data(const penstock_reader* reader) {
  return reader->reader.begin();
}
uint64_t penstock_reader_bytes(const penstock_reader* reader) {
  return reader->reader.bytes();
}
int penstock_reader_status(const penstock_reader* reader) {
  return guarded([&] { return reader->reader.status(); });
}
void penstock_reader_close(penstock_reader* reader) {
  delete reader;
}

int penstock_writer_open(const char* path, const penstock_writer_options* options,
                         penstock_writer** writer) {
  return opened(writer, [&]() -> Result<FileWriter> {
    const auto name = path_of(path);
    if (!name) return std::unexpected(name.error());
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    FileWriterOptions made;
    const auto policy = policy_of(from->policy, made.policy);
    if (!policy) return std::unexpected(policy.error());
    set(made.bytes_max, from->bytes_max);
    set(made.block_bytes, from->block_bytes);
    set(made.write_behind_blocks, from->write_behind_blocks);
    set(made.comeback_blocks, from->comeback_blocks);
    made.policy = *policy;
    made.sync = from->no_sync == 0;
    made.overwrite_device = from->overwrite_device != 0;
    return FileWriter::open(*name, made);
  });
}
void* penstock_writer_data(const penstock_writer* writer) {
  return writer->writer.begin();
}
int penstock_writer_finish(penstock_writer* writer, uint64_t bytes) {
  return guarded([&] { return writer->writer.finish(bytes); });
}
void penstock_writer_close(penstock_writer* writer) {
  delete writer;
}

void* penstock_copy(void* to, const void* from, size_t bytes) {
  return copy(to, from, bytes);
}

int penstock_stream_open(const penstock_stream_options* options, penstock_stream** stream) {
  return opened(stream, [&]() -> Result<RemapStream> {
    const auto made = stream_options<RemapStream::Options>(options);
    if (!made) return std::unexpected(made.error());
    return RemapStream::open(*made);
  });
}
void* penstock_stream_writer(const penstock_stream* stream) {
  return stream->stream.writer();
}
int penstock_stream_prepare_write(penstock_stream* stream, const void* address, size_t bytes) {
  return guarded([&] { return stream->stream.prepare_write(address, bytes); });
}
int penstock_stream_finish(penstock_stream* stream, uint64_t bytes) {
  return guarded([&] { return stream->stream.finish(bytes); });
}
const void* penstock_stream_reader(const penstock_stream* stream) {
  return stream->stream.reader();
}
int penstock_stream_prepare_read(penstock_stream* stream, const void* address, size_t bytes) {
  return guarded([&] { return stream->stream.prepare_read(address, bytes); });
}
int penstock_stream_wait_ready(penstock_stream* stream, uint64_t offset, uint64_t* ready) {
  return guarded([&] { return store(stream->stream.wait_ready(offset), ready); });
}
void penstock_stream_fail(penstock_stream* stream, int side, const char* message) {
  (void)guarded([&]() -> Status {
    const auto which = side_of(side);
    if (!which) return std::unexpected(which.error());
    stream->stream.fail(*which, given_up(message));
    return {};
  });
}
int penstock_stream_status(const penstock_stream* stream) {
  return guarded([&] { return stream->stream.status(); });
}
void penstock_stream_close(penstock_stream* stream) {
  delete stream;
}

int penstock_process_stream_open(const penstock_stream_options* options, int side,
                                 penstock_process_stream** stream) {
  return opened(stream, [&]() -> Result<ProcessStream> {
    const auto made = stream_options<ProcessStream::Options>(options);
    if (!made) return std::unexpected(made.error());
    const auto which = side_of(side);
    if (!which) return std::unexpected(which.error());
    return ProcessStream::open(*made, *which);
  });
}
int penstock_process_stream_attach(int descriptor, int side, const penstock_attach_options* options,
                                   penstock_process_stream** stream) {
  return opened(stream, [&]() -> Result<ProcessStream> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    const auto which = side_of(side);
    if (!which) return std::unexpected(which.error());
    const auto chosen = policy_of(from->policy, ErrorPolicy::stop);
    if (!chosen) return std::unexpected(chosen.error());
    return ProcessStream::attach(descriptor, *which,
                                 {.policy = *chosen, .strict = from->relaxed == 0});
  });
}
int penstock_process_stream_descriptor(const penstock_process_stream* stream) {
  return stream->stream.fd();
}
void* penstock_process_stream_data(const penstock_process_stream* stream) {
  const ProcessStream& own = stream->stream;
  return own.side() == Side::producer ? own.writer() : own.reader();
}
int penstock_process_stream_prepare(penstock_process_stream* stream, const void* address,
                                    size_t bytes) {
  return guarded([&] {
    ProcessStream& own = stream->stream;
    return own.side() == Side::producer ? own.prepare_write(address, bytes)
                                        : own.prepare_read(address, bytes);
  });
}
int penstock_process_stream_finish(penstock_process_stream* stream, uint64_t bytes) {
  return guarded([&] { return stream->stream.finish(bytes); });
}
int penstock_process_stream_wait_ready(penstock_process_stream* stream, uint64_t offset,
                                       uint64_t* ready) {
  return guarded([&] { return store(stream->stream.wait_ready(offset), ready); });
}
void penstock_process_stream_fail(penstock_process_stream* stream, const char* message) {
  (void)guarded([&]() -> Status {
    stream->stream.fail(given_up(message));
    return {};
  });
}
int penstock_process_stream_status(const penstock_process_stream* stream) {
  return guarded([&] { return stream->stream.status(); });
}
void penstock_process_stream_close(penstock_process_stream* stream) {
  delete stream;
}
