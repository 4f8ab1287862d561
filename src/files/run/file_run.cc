#include "files/run/file_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <span>

#include "base/bits.h"
#include "files/run/in_turn.h"
#include "files/run/input.h"
#include "files/run/memory_plan.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"
#include "io/emulation.h"
#include "io/temporaries.h"
#include "items/keys/codec.h"

namespace penstock::files {
namespace {

constexpr size_t pass_block_bytes_min = 4 * KiB;
constexpr size_t pass_block_bytes_max = 2 * MiB;
constexpr uint64_t blocks_per_stream = 32;
// The least line length that every pass can hold.
constexpr uint64_t line_bytes_held = 64 * KiB;
// Memory of a stream beside its blocks: the file, its entries in tables.
constexpr uint64_t bytes_beside_blocks = 2 * KiB;
// Memory of a thread that fills a stream: the touched part of its stack, and its state.
constexpr uint64_t bytes_of_thread = 64 * KiB;
// The share of a pass's memory that is reserved for streams.
constexpr uint64_t promised_divisor = 2;

// The bytes of an item that every stream can hold at any time.
uint64_t item_bytes_held(const PassItems& items) {
  return items.fixed_bytes > 0 ? items.fixed_bytes : line_bytes_held;
}

// Points of a staircase in the statistics: more than fit on a page.
constexpr size_t stairs_shown_max = 256;

// The values, or the means of neighbours if there are more than `values_max`.
std::vector<double> thinned(const std::vector<double>& values, size_t values_max) {
  if (values.size() <= values_max) return values;
  std::vector<double> means;
  for (size_t i = 0; i < values_max; ++i) {
    const size_t begin = i * values.size() / values_max;
    const size_t end = (i + 1) * values.size() / values_max;
    double sum = 0;
    for (size_t k = begin; k < end; ++k) sum += values[k];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

// The device that plans assume if none was measured.
constexpr const char* usual_device = "nvme-ssd";

// The longest switch of a device without an arm. (FileRun::device() does not know an emulated
// device.)
constexpr double short_switch_seconds = 1e-3;

bool switches_for_nothing(const bowtie::DeviceProfile& device) {
  const auto emulated = io::emulated();
  return device.switch_seconds.at(1, 1) < short_switch_seconds &&
         (!emulated || emulated->switch_seconds < short_switch_seconds);
}

}  // namespace

// No item lies across two blocks if its size divides every block.
PassItems::PassItems(const items::Format& format)
    : fixed_bytes(format.fixed() ? format.record_bytes : 0),
      cross_blocks(!std::has_single_bit(fixed_bytes) || fixed_bytes > pass_block_bytes_min) {}

uint64_t stream_bytes_min(const PassItems& items) {
  if (!items.cross_blocks) return pass_block_bytes_min;
  return (ceil_div(item_bytes_held(items), pass_block_bytes_min) + 1) * pass_block_bytes_min;
}

PassShape shape_of_pass(const PassItems& items, uint32_t streams, uint64_t memory_bytes) {
  const uint64_t share = memory_bytes / (std::max(1u, streams) * blocks_per_stream);
  PassShape shape;
  shape.block_bytes = std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(1, share)),
                                         pass_block_bytes_min, pass_block_bytes_max);
  if (items.cross_blocks) {
    uint64_t held_bytes = item_bytes_held(items);
    // Longer lines may have an eighth of the memory, for all streams together; the others borrow.
    if (items.fixed_bytes == 0) {
      held_bytes = std::max(held_bytes, memory_bytes / 8 / std::max(1u, streams));
    }
    shape.comeback_blocks =
        static_cast<uint32_t>(ceil_div(held_bytes, uint64_t{shape.block_bytes}));
  }
  return shape;
}

namespace {

// The memory for the blocks of a pass.
uint64_t memory_of_blocks(uint32_t streams, uint64_t memory_bytes) {
  return memory_bytes - std::min(memory_bytes, streams * bytes_beside_blocks);
}

}  // namespace

uint64_t item_bytes_max_of_pass(const PassItems& items, uint32_t streams, uint64_t memory_bytes) {
  const uint64_t blocks_bytes = memory_of_blocks(streams, memory_bytes);
  const PassShape shape = shape_of_pass(items, streams, blocks_bytes);
  const uint64_t usual_bytes = shape.block_bytes * std::max<uint64_t>(1, shape.comeback_blocks);
  if (items.fixed_bytes > 0) return usual_bytes;
  // Every stream keeps its own blocks.
  const uint64_t kept_bytes = (streams + 1) * (usual_bytes + shape.block_bytes);
  const uint64_t lent_bytes = blocks_bytes - std::min(blocks_bytes, kept_bytes);
  return std::max(usual_bytes, round_down(lent_bytes / (streams + 2), uint64_t{shape.block_bytes}));
}

FileRun::FileRun(const FilesOptions& options, const char* verb)
    : options_(options),
      verb_(verb),
      context_(options, verb),
      temp_directories_(io::temp_directories_or_default(options.temp_directories, options.output)),
      format_(options.format) {}

const bowtie::DeviceProfile& FileRun::device() const {
  if (options_.device != nullptr) return *options_.device;
  const bowtie::DeviceProfile* usual = bowtie::find_profile(usual_device);
  return usual != nullptr ? *usual : bowtie::published_profiles().back();
}

Status FileRun::start(const StartOptions& how) {
  const size_t count = input_count(options_);
  if (count == 0)
    return failure(ErrorCode::invalid_argument, fmt::format("{} without an input", verb_), verb_);
  usable_bytes_ = usable_memory(std::max(options_.memory_bytes, files_memory_bytes_min));
  if (auto fits = check_usable(usable_bytes_min); !fits) return fits;
  if (options_.memory_bytes < files_memory_bytes_min) return too_small(0);
  for (size_t i = 0; i < count; ++i) {
    const auto place = static_cast<uint32_t>(inputs_.size());
    const bool replaced = i < how.instead.size() && how.instead[i];
    auto added = replaced ? add_instead(i, *how.instead[i])
                          : add(i, i < how.formats.size() ? how.formats[i] : options_.format);
    if (!added) return added;
    places_.push_back(inputs_.size() > place ? std::optional(place) : std::nullopt);
  }
  if (const uint64_t bytes = bowtie::decoding_bytes(inputs_, how.inputs_at_once); bytes > 0) {
    if (auto fits = check_usable(bytes + bytes_beside_decoders_min); !fits) return fits;
    usable_bytes_ -= bytes;
  }
  headers_.resize(count);
  if (options_.format.has_head()) {
    if (auto taken = take_headers(how.own_headers); !taken) return taken;
  }
  for (const std::string& directory : temp_directories_) io::remove_stale_temporaries(directory);
  return interrupted();
}

std::unexpected<Error> FileRun::too_small(uint64_t missing_bytes) const {
  return too_small_budget(fmt::format("{} within {}", verb_, budget_text(options_.memory_bytes)),
                          options_.memory_bytes, missing_bytes);
}

Status FileRun::check_usable(uint64_t needed_bytes) const {
  if (usable_bytes_ >= needed_bytes) return {};
  return too_small(needed_bytes - usable_bytes_);
}

Status FileRun::take_headers(bool own) {
  std::vector<bowtie::Input> inputs;
  std::string first;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i]) continue;
    bowtie::Input& input = inputs_[*places_[i]];
    auto header = take_header(input);
    if (!header) return std::unexpected(header.error());
    if (own) {
      headers_[i] = std::move(header->text);
    } else if (first.empty() && !header->is_of_nothing) {
      header_ = std::move(header->text);
      first = input.name;
    } else if (!header->is_of_nothing) {
      auto same = check_same_header(options_.format, header->text, input.name, header_, first);
      if (!same) return same;
    }
    // A file that holds nothing but its head is not read, unless its own header is needed.
    places_[i].reset();
    if (input.bytes == 0 && !own) continue;
    places_[i] = static_cast<uint32_t>(inputs.size());
    inputs.push_back(std::move(input));
  }
  inputs_ = std::move(inputs);
  if (header_.empty()) return {};
  auto format = items::with_header(options_.format, header_, first);
  if (!format) return std::unexpected(format.error());
  format_ = std::move(*format);
  return {};
}

namespace {

// A source of `taken` followed by `rest`.
std::unique_ptr<Source> source_behind(std::string taken, const std::shared_ptr<Source>& rest) {
  auto read = [taken = std::move(taken), rest,
               at = size_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
    if (at == taken.size()) return source::checked_read(*rest, into);
    const size_t bytes = std::min(into.size(), taken.size() - at);
    std::memcpy(into.data(), taken.data() + at, bytes);
    at += bytes;
    return bytes;
  };
  return callback_source(std::move(read), [rest] { rest->cancel(); });
}

}  // namespace

// Reading the head of an in-order input also reads some bytes behind it: of a pipe these are put in
// front of the rest, a compressed file is read again.
Result<TakenHeader> FileRun::take_header(bowtie::Input& input) {
  std::optional<io::File> opened;
  if (input.file == nullptr) {
    auto file = io::File::open_input(input.path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    opened = std::move(*file);
  }
  const io::File& file = opened ? *opened : *input.file;
  const bool in_order = input.bytes == bowtie::unknown_bytes;
  std::shared_ptr<Source> source;
  if (in_order) {
    auto bytes = source::source_of(file, input.source, options_.cancel);
    if (!bytes) return std::unexpected(bytes.error());
    source = std::move(*bytes);
  }
  auto header = in_order ? read_header(options_.format, input.name,
                                       [&](std::span<std::byte> into) {
                                         return source::checked_read(*source, into);
                                       })
                         : read_header(options_.format, file, input.bytes);
  if (!header) return std::unexpected(header.error());
  const size_t bytes = header->bytes;
  if (!in_order) {
    input.offset = bytes;
    input.bytes -= bytes;
    input_bytes_ -= input_bytes_ == bowtie::unknown_bytes ? 0 : bytes;
  } else if (opened) {
    input.source_of = [bytes, options = input.source, cancel = options_.cancel](
                          const io::File& again) -> Result<std::unique_ptr<Source>> {
      auto all = source::source_of(again, options, cancel);
      if (!all) return all;
      std::string skipped(bytes, '\0');
      for (size_t at = 0; at < bytes;) {
        auto have =
            source::checked_read(**all, std::as_writable_bytes(std::span(skipped)).subspan(at));
        if (!have) return std::unexpected(have.error());
        if (*have == 0) break;
        at += *have;
      }
      return all;
    };
  } else {
    input.source_of = [rest = header->rest,
                       source](const io::File&) -> Result<std::unique_ptr<Source>> {
      return source_behind(rest, source);
    };
  }
  return header;
}

Status FileRun::write_header(io::File& output) const {
  if (header_.empty()) return {};
  return io::write_exactly(output, 0, reinterpret_cast<const std::byte*>(header_.data()),
                           header_.size());
}

Status FileRun::add(size_t number, const items::Format& format) {
  const std::string path = input_name(options_, number);
  auto file = open_input(options_, number);
  if (!file) return std::unexpected(file.error());
  if (auto added = guard_->add(*file); !added) return added;
  const SourceOptions options = source::within_memory(options_.source, options_.memory_bytes);
  const auto arrival = source::arrival_of(*file, options);
  if (!arrival) return std::unexpected(arrival.error());
  if (arrival->in_order) {
    input_bytes_ = bowtie::unknown_bytes;
    bowtie::Input& input = inputs_.emplace_back(
        bowtie::Input{.source = options,
                      .decoding_bytes = bytes_of_thread + arrival->decoding_bytes,
                      .name = path});
    if (file->kind() == io::Kind::regular && path != "-") {
      input.path = path;
      return {};
    }
    streams_.push_back(std::make_unique<io::File>(std::move(*file)));
    input.file = streams_.back().get();
    return {};
  }
  auto size = file->size();
  if (!size) return std::unexpected(size.error());
  if (auto whole = check_size(format, *size, path); !whole) return whole;
  if (*size == 0) return {};
  if (input_bytes_ != bowtie::unknown_bytes) input_bytes_ += *size;
  bowtie::Input& added = inputs_.emplace_back();
  added.path = added.name = path;
  added.bytes = *size;
  return {};
}

Status FileRun::add_instead(size_t number, const io::File* file) {
  if (is_named_file(options_, number)) {
    auto original = open_input(options_, number);
    if (!original) return std::unexpected(original.error());
    if (auto added = guard_->add(*original); !added) return added;
  }
  if (file == nullptr) return {};
  auto size = file->size();
  if (!size) return std::unexpected(size.error());
  if (*size == 0) return {};
  if (input_bytes_ != bowtie::unknown_bytes) input_bytes_ += *size;
  bowtie::Input& added = inputs_.emplace_back();
  added.file = file;
  added.bytes = *size;
  added.name = input_name(options_, number);
  return {};
}

void FileRun::start_with(std::vector<bowtie::Input> inputs) {
  usable_bytes_ = usable_memory(options_.memory_bytes);
  inputs_ = std::move(inputs);
  for (const bowtie::Input& input : inputs_) input_bytes_ += input.bytes;
}

// An in-order input has blocks of its own beside those that are reserved for every input.
uint64_t FileRun::planned_stream_bytes() const {
  const bool are_in_order = bowtie::decoding_bytes(inputs_, 1) > 0;
  return (are_in_order ? 3 : 2) * stream_bytes_min(options_.format);
}

uint32_t streams_max(const PassItems& items, uint64_t memory_bytes) {
  const uint64_t each = stream_bytes_min(items) + bytes_beside_blocks;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(memory_bytes / promised_divisor / each, 2, 1 << 20));
}

bowtie::RunOptions FileRun::run_options(const PassOptions& options, uint32_t streams,
                                        uint64_t decoding_bytes) {
  const uint64_t memory_bytes = memory_of_blocks(streams, options.memory_bytes);
  const PassShape shape = shape_of_pass(options.items, streams, memory_bytes);
  block_bytes_ = shape.block_bytes;
  bowtie::RunOptions run{.memory_bytes = memory_bytes + decoding_bytes,
                         .block_bytes = shape.block_bytes,
                         .comeback_blocks = shape.comeback_blocks,
                         .wide_windows = options.items.fixed_bytes == 0,
                         .device = options_.device.get(),
                         .never_rests = switches_for_nothing(device()),
                         .cancel = options_.cancel,
                         .record_staircases = options_.record_staircases};
  context_.show(options.phase);
  const bool known = options.total_bytes > 0;
  context_.expect(known ? context_.done_bytes() + options.total_bytes : 0);
  if (known && input_bytes_ != bowtie::unknown_bytes) context_.set_input_bytes(input_bytes_);
  if (options_.progress) {
    run.observe = [this](const bowtie::View&, const bowtie::Action&) { (void)context_.pulse(); };
  }
  return run;
}

// A side with a single stream has no staircase.
void FileRun::note_staircases(const bowtie::Staircases& stairs, const char* phase) {
  auto note = [&](uint32_t streams, const bowtie::MeasuredStairs& measured,
                  const std::vector<double>& predicted, const char* what) {
    if (streams < 2 || measured.steps == 0) return;
    stats_.staircases.push_back(
        {.title = fmt::format("{}, {} x {}: {}", phase, stairs.inputs, stairs.outputs, what),
         .streams = streams,
         .steps = measured.steps,
         .measured_bytes = thinned(measured.bytes, stairs_shown_max),
         .predicted_bytes = thinned(predicted, stairs_shown_max)});
  };
  note(stairs.inputs, stairs.input, bowtie::input_staircase(stairs.schedule),
       "inputs, some of them just filled");
  note(stairs.outputs, stairs.output, bowtie::output_staircase(stairs.schedule),
       "outputs, the fullest about to be written");
}

Status FileRun::pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
                     const bowtie::Computation& computation, const PassOptions& options) {
  const auto streams = static_cast<uint32_t>(inputs.size() + outputs.size());
  bowtie::RunOptions run = run_options(
      options, streams, bowtie::decoding_bytes(inputs, options.inputs_in_turn ? 1 : inputs.size()));
  run.inputs_in_turn = options.inputs_in_turn;
  run = bowtie::beside_in_order(inputs, std::move(run));
  std::unique_ptr<InTurnScheduler> in_turn;
  if (options.inputs_in_turn && inputs.size() > 1) {
    auto opened = InTurnScheduler::open(static_cast<uint32_t>(outputs.size()), run.memory_bytes,
                                        run.block_bytes);
    if (!opened) return std::unexpected(opened.error());
    in_turn = std::move(*opened);
    run.scheduler = in_turn.get();
  }
  auto result = bowtie::run(inputs, std::move(outputs), computation, run);
  if (!result) return std::unexpected(named(result.error(), inputs));
  for (bowtie::Staircases& stairs : result->staircases) {
    // The schedule sees the inputs as one, which has no stairs.
    if (in_turn != nullptr) stairs.schedule = in_turn->schedule();
    if (options.inputs_in_turn) stairs.input = {};
    note_staircases(stairs, options.phase);
  }
  if (!result->output_bytes.empty()) output_bytes_ = result->output_bytes.front();
  return {};
}

Status FileRun::plan(const bowtie::Plan& plan, const std::vector<bowtie::Input>& inputs,
                     const bowtie::Output& output, const bowtie::Computation& merge,
                     const PassOptions& options) {
  uint32_t streams = 0;
  for (const bowtie::Pass& pass : plan.passes)
    streams = std::max(streams, pass.fan_in + pass.fan_out);
  const uint64_t decoding_bytes = bowtie::decoding_bytes(inputs, plan.passes.front().fan_in);
  const bowtie::PlanRunOptions run{.run = run_options(options, streams, decoding_bytes),
                                   .temporary = [this] { return temporary(); },
                                   .begins = options.merge_begins};
  const auto result = bowtie::run_plan(plan, inputs, output, merge, run);
  // Input numbers in its errors belong to one merge of many, so they name no file.
  if (!result) return std::unexpected(named(result.error(), {}));
  count_temporary_bytes(result->temporary_bytes);
  output_bytes_ = result->output_bytes;
  for (const bowtie::Staircases& stairs : result->staircases)
    note_staircases(stairs, options.phase);
  return {};
}

// Replaces the input number in an error by the name of the file.
Error FileRun::named(Error error, const std::vector<bowtie::Input>& inputs) {
  if (error.code == ErrorCode::cancelled) return interrupted() ? error : interrupted().error();
  constexpr std::string_view prefix = "input ";
  const std::string_view subject = error.subject;
  if (!subject.starts_with(prefix)) return error;
  uint32_t number = 0;
  const char* const end = subject.data() + subject.size();
  if (std::from_chars(subject.data() + prefix.size(), end, number).ptr != end) return error;
  error.subject = "an input";
  if (number < inputs.size()) {
    const bowtie::Input& input = inputs[number];
    error.subject = !input.name.empty()     ? input.name
                    : input.file != nullptr ? input.file->path()
                                            : input.path;
  }
  return error;
}

Result<std::unique_ptr<io::File>> FileRun::temporary() {
  if (!has_noticed_ && options_.notice) {
    has_noticed_ = true;
    const std::string notice =
        io::notice_of_temporaries(options_.temp_directories, temp_directories_);
    if (!notice.empty()) options_.notice(notice);
  }
  auto file = io::File::create_temporary(temp_directories_[turn_++ % temp_directories_.size()]);
  if (!file) return std::unexpected(file.error());
  file->keep_checks();
  return std::make_unique<io::File>(std::move(*file));
}

RunStats FileRun::stats() const {
  RunStats stats = stats_;
  context_.fill(stats, temp_directories_);
  return stats;
}

}  // namespace penstock::files
