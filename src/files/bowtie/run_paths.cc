// The public run: paths, and statistics that name no schedule.

#include <deque>
#include <utility>

#include "files/bowtie/run.h"
#include "files/source/in_order.h"
#include "penstock/bowtie.h"

namespace penstock::bowtie {

namespace {

// A pipe stays open, because closing it would end its writer.
Result<Input> input_of(const std::string& path, const Options& options,
                       std::deque<io::File>& pipes) {
  Input input{.path = path, .source = options.source};
  auto file = io::File::open_read(path);
  if (!file) return std::unexpected(std::move(file.error()));
  const auto arrival = source::arrival_of(*file, options.source);
  if (!arrival) return std::unexpected(arrival.error());
  if (arrival->in_order) {
    input.decoding_bytes = arrival->decoding_bytes;
    if (!file->seekable()) {
      input.path.clear();
      input.file = &pipes.emplace_back(std::move(*file));
    }
    return input;
  }
  const auto bytes = file->size();
  if (!bytes) return std::unexpected(bytes.error());
  input.bytes = *bytes;
  return input;
}

}  // namespace

Result<Stats> run(const Options& options, const Computation& function) {
  std::deque<io::File> pipes;
  std::vector<Input> inputs;
  for (const std::string& path : options.inputs) {
    auto input = input_of(path, options, pipes);
    if (!input) return std::unexpected(std::move(input.error()));
    inputs.push_back(std::move(*input));
  }
  std::vector<Output> outputs;
  for (const std::string& path : options.outputs) outputs.push_back({.path = path});
  const auto done = run(std::move(inputs), std::move(outputs), function,
                        {.memory_bytes = options.memory_bytes,
                         .block_bytes = options.block_bytes,
                         .comeback_blocks = options.comeback_blocks,
                         .input_share = options.input_share,
                         .device = options.device.get(),
                         .on_error = options.policy,
                         .cancel = options.cancel});
  if (!done) return std::unexpected(done.error());
  Stats stats{.bytes_read = done->bytes_read,
              .bytes_written = done->bytes_written,
              .switches = done->switches(),
              .run_bytes = done->run_bytes,
              .seconds = done->seconds,
              .seconds_device_alone = done->seconds_reading + done->seconds_writing,
              .seconds_overlapped = done->seconds_overlapped,
              .seconds_function_alone = done->seconds_computing_alone,
              .memory_peak_bytes = done->blocks_peak * done->block_bytes,
              .block_bytes = done->block_bytes,
              .output_bytes = done->output_bytes,
              .emulated = done->emulated};
  if (done->prediction) stats.predicted_seconds = done->prediction->seconds;
  return stats;
}

}  // namespace penstock::bowtie
