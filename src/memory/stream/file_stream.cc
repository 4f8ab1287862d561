// The public file streams: a core with its own pool and engine.

#include "penstock/file_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "io/emulation.h"
#include "io/test_seam.h"
#include "memory/pool/pool.h"
#include "memory/stream/cached_reader.h"
#include "memory/stream/file_reader.h"
#include "memory/stream/file_writer.h"
#include "os/generation.h"
#include "os/limits.h"

namespace penstock {

namespace {

// Members are destroyed in reverse, as their references need. A forked child leaves requests and
// rings to its parent.
struct Memory {
  std::unique_ptr<pool::Pool> pool;
  os::LeftToParent<io::Engine> engine;
  os::LeftToParent<stream::BlockIo> io;
};

Result<Memory> open_memory(size_t block_bytes, uint32_t blocks) {
  Memory memory;
  auto pool = pool::Pool::open({.block_bytes = block_bytes, .blocks_max = blocks});
  if (!pool) return std::unexpected(pool.error());
  memory.pool = std::move(*pool);
  auto engine = io::Engine::open({.depth = blocks});
  if (!engine) return std::unexpected(engine.error());
  memory.engine = os::LeftToParent(std::move(*engine));
  memory.io = os::LeftToParent(std::make_unique<stream::BlockIo>(*memory.pool, *memory.engine));
  return memory;
}

// Whether the file's own pages may be mapped. Invalid options return false: FileReaderCore refuses
// them. If a test injects faults or emulates a device, the file has to be read by requests.
bool can_be_shown(const FileReaderOptions& options) {
  return pool::check_block_bytes(options.block_bytes, "open", {}) &&
         options.read_ahead_blocks > 0 && !io::emulated() && io::test_seam == nullptr;
}

uint32_t memory_blocks_of(const FileReaderOptions& options) {
  return std::max(options.memory_blocks, options.read_ahead_blocks + options.comeback_blocks + 1);
}

}  // namespace

struct FileReader::State {
  io::File file;
  Memory memory;
  Options options;
  // Exactly one of the two is set.
  std::unique_ptr<stream::FileReaderCore> core;
  std::unique_ptr<stream::CachedReader> cached;

  ~State() {
    if (core == nullptr || !options.notice || core->is_inherited()) return;
    const auto reads = core->reads();
    if (reads.again == 0) return;
    options.notice(
        fmt::format("{}: {} of the {} blocks that were read had been read before; more than {} "
                    "memory_blocks would keep them",
                    file.path(), reads.again, reads.blocks, options.memory_blocks));
  }
};

Result<FileReader> FileReader::open(const std::string& path, const FileReaderOptions& options) {
  return or_out_of_memory([&]() -> Result<FileReader> {
    auto file = io::File::open_input(path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    if (!file->is_cached()) {
      file->read_directly();
      return open(std::move(*file), options);
    }
    auto state = std::make_unique<State>();
    state->file = std::move(*file);
    if (const auto bytes = state->file.size(); bytes && *bytes > 0 && can_be_shown(options)) {
      auto cached = stream::CachedReader::open(state->file, *bytes,
                                               {.block_bytes = options.block_bytes,
                                                .memory_blocks = memory_blocks_of(options),
                                                .policy = options.policy});
      if (cached) {
        state->cached = std::move(*cached);
        return FileReader(std::move(state));
      }
    }
    // Falls back to reads, which copy.
    return open(std::move(state->file), options);
  });
}

Result<FileReader> FileReader::open(io::File&& file, const FileReaderOptions& options) {
  return or_out_of_memory([&]() -> Result<FileReader> {
    auto state = std::make_unique<State>();
    state->file = std::move(file);
    if (!state->file.seekable()) {
      return failure(ErrorCode::unsupported, "read what comes in order alone as a file",
                     state->file.path(), "penstock::SourceStream");
    }
    auto bytes = state->file.size();
    if (!bytes) return std::unexpected(bytes.error());
    state->options = options;
    state->options.memory_blocks = memory_blocks_of(options);
    auto memory = open_memory(options.block_bytes, state->options.memory_blocks);
    if (!memory) return std::unexpected(memory.error());
    state->memory = std::move(*memory);

    const stream::FileReaderCore::Options core_options{
        .read_ahead_blocks = options.read_ahead_blocks,
        .comeback_blocks = options.comeback_blocks,
        .policy = options.policy,
        .keeps_blocks = true};
    auto core =
        stream::FileReaderCore::open(*state->memory.io, state->file, 0, *bytes, core_options);
    if (!core) return std::unexpected(core.error());
    state->core = std::move(*core);
    return FileReader(std::move(state));
  });
}

const std::byte* FileReader::data() const {
  return fault::for_this_thread(state_->cached ? state_->cached->begin() : state_->core->begin());
}
uint64_t FileReader::bytes() const {
  return state_->cached ? state_->cached->bytes() : state_->core->bytes();
}
Status FileReader::status() const {
  return state_->cached ? state_->cached->status() : state_->core->status();
}

FileReader::Reads FileReader::reads() const {
  if (state_->cached) return {};
  const auto reads = state_->core->reads();
  return {reads.blocks, reads.again};
}

struct FileWriter::State {
  io::File file;
  Memory memory;
  std::unique_ptr<stream::FileWriterCore> core;
};

Result<FileWriter> FileWriter::open(const std::string& path, const FileWriterOptions& options) {
  return or_out_of_memory([&]() -> Result<FileWriter> {
    if (options.bytes_max == 0)
      return failure(ErrorCode::invalid_argument, "open", path, "bytes_max: at least 1");
    auto state = std::make_unique<State>();
    auto file = io::File::create_output(
        path, {.rules = {.overwrite_device = options.overwrite_device, .sync = options.sync}});
    if (!file) return std::unexpected(file.error());
    state->file = std::move(*file);
    auto memory =
        open_memory(options.block_bytes, options.write_behind_blocks + options.comeback_blocks + 2);
    if (!memory) return std::unexpected(memory.error());
    state->memory = std::move(*memory);
    auto core = os::open_with_addresses(options.bytes_max, [&](uint64_t bytes) {
      return stream::FileWriterCore::open(*state->memory.io, state->file, 0,
                                          {.bytes_max = bytes,
                                           .comeback_blocks = options.comeback_blocks,
                                           .policy = options.policy});
    });
    if (!core) return std::unexpected(core.error());
    state->core = std::move(*core);
    return FileWriter(std::move(state));
  });
}

std::byte* FileWriter::data() const {
  return fault::for_this_thread(state_->core->begin());
}

Status FileWriter::finish(uint64_t bytes) {
  return or_out_of_memory([&]() -> Status {
    if (state_->core->has_ended())
      return failure(ErrorCode::invalid_argument, "finish a second time", state_->file.path());
    if (auto finished = state_->core->finish(bytes); !finished) return finished;
    return state_->file.publish();
  });
}

}  // namespace penstock
