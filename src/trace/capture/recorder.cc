#include "trace/capture/recorder.h"

#include <algorithm>
#include <chrono>

#include "base/random.h"

namespace penstock::trace {
namespace {

constexpr uint64_t flush_every_ns = 1'000'000'000;

}  // namespace

size_t Recorder::Hash::operator()(const Identity& identity) const {
  return mix64(mix64(mix64(identity.inode) ^ identity.device) ^ identity.birth_ns ^
               identity.generation);
}

uint64_t Recorder::now_ns() {
  // libstdc++'s steady clock is CLOCK_MONOTONIC.
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

uint32_t Recorder::file(const FileRecord& record, uint32_t generation) {
  // Pipes and their like have no time of birth: their inode alone identifies them.
  const Identity identity{record.device, record.inode, record.birth_ns, generation, record.kind};
  const auto [place, is_new] = numbers_.try_emplace(identity, 0);
  if (is_new) {
    place->second = writer_.add_file(record);
    kinds_.push_back(record.kind);
  }
  return place->second;
}

void Recorder::add_failed(Event event, Call call, std::string_view name, uint64_t error) {
  event.call = call;
  event.flags = flag::failed;
  event.result = error;
  const auto known = names_.find(std::string(name));
  if (known != names_.end()) {
    event.path = known->second;
  } else if (names_.size() < names_max) {
    event.path = names_[std::string(name)] = string(name);
  }
  add(event);
}

void Recorder::program_runs() {
  if (on_run_) ran_ = on_run_();
  on_run_ = nullptr;
}

void Recorder::flush_sometimes(uint64_t now) {
  if (now - flushed_ns_ < flush_every_ns) return;
  flushed_ns_ = now;
  (void)writer_.flush();
}

Result<Recorder::Finished> Recorder::finish(int exit_code) {
  if (!ran_) return std::unexpected(ran_.error());
  Finished finished;
  finished.totals = {.events = writer_.events(),
                     .files = kinds_.size(),
                     .end_ns = since_zero(now_ns()),
                     .exit_code = exit_code,
                     .unseen = unseen_};
  if (Status status = writer_.finish(finished.totals); !status) {
    return std::unexpected(status.error());
  }
  finished.trace_bytes = writer_.file_bytes();
  return finished;
}

}  // namespace penstock::trace
