#include "guest.h"

#include <signal.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "penstock/stream.h"

using penstock::RemapStream;

struct guest_pipe {
  RemapStream stream;
};

namespace {

thread_local std::string message;

bool good(const penstock::Status& status) {
  if (!status) message = status.error().message();
  return status.has_value();
}

uint64_t mixed(uint64_t checksum, uint64_t number) {
  return std::rotl(checksum, 5) + number;
}

// ---------------------------------------------------------------- faults that are passed on

struct sigaction watched[2];  // handlers of SIGSEGV, SIGBUS
std::atomic<uint64_t> passed_on = 0;

void count(int signal, siginfo_t* info, void* context) {
  passed_on.fetch_add(1, std::memory_order_relaxed);
  const struct sigaction& next = watched[signal == SIGBUS];
  if ((next.sa_flags & SA_SIGINFO) != 0) {
    next.sa_sigaction(signal, info, context);
  } else if (next.sa_handler != SIG_DFL && next.sa_handler != SIG_IGN) {
    next.sa_handler(signal);
  } else {
    sigaction(signal, &next, nullptr);
  }
}

}  // namespace

extern "C" {

#pragma GCC visibility push(default)

guest_pipe* guest_open(uint64_t bytes, uint64_t block_bytes, int mechanism) {
  auto stream = RemapStream::open({.bytes = bytes,
                                   .block_bytes = block_bytes,
                                   .mechanism = static_cast<penstock::Mechanism>(mechanism),
                                   .name = "guest"});
  if (stream) return new guest_pipe{std::move(*stream)};
  message = stream.error().message();
  return nullptr;
}

void guest_close(guest_pipe* pipe) {
  delete pipe;
}

char* guest_writer(guest_pipe* pipe) {
  return pipe->stream.writer();
}

char* guest_reader(guest_pipe* pipe) {
  return pipe->stream.reader();
}

int guest_prepare_read(guest_pipe* pipe, const char* address, uint64_t bytes) {
  return good(pipe->stream.prepare_read(address, bytes));
}

const char* guest_message() {
  return message.c_str();
}

uint64_t guest_number(uint64_t i) {
  return i * 0x9e3779b97f4a7c15u;
}

void guest_fill(guest_pipe* pipe, uint64_t first, uint64_t last) {
  uint64_t* const numbers = pipe->stream.writer<uint64_t>();
  for (uint64_t i = first; i < last; ++i) numbers[i] = guest_number(i);
}

int guest_finish(guest_pipe* pipe, uint64_t numbers) {
  return good(pipe->stream.finish(numbers * sizeof(uint64_t)));
}

void guest_produce(guest_pipe* pipe, uint64_t numbers, int delay_ms) {
  std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  guest_fill(pipe, 0, numbers);
  guest_finish(pipe, numbers);
}

uint64_t guest_drain(guest_pipe* pipe, uint64_t numbers) {
  const uint64_t* const number = pipe->stream.reader<uint64_t>();
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < numbers; ++i) checksum = mixed(checksum, number[i]);
  return checksum;
}

uint64_t guest_checksum(uint64_t numbers) {
  uint64_t checksum = 0;
  for (uint64_t i = 0; i < numbers; ++i) checksum = mixed(checksum, guest_number(i));
  return checksum;
}

uint64_t guest_stream(uint64_t numbers, int mechanism) {
  guest_pipe* const pipe = guest_open(numbers * sizeof(uint64_t), 256 * penstock::KiB, mechanism);
  if (pipe == nullptr) return 0;
  uint64_t checksum;
  {
    std::jthread producer(guest_produce, pipe, numbers, 0);
    checksum = guest_drain(pipe, numbers);
  }
  guest_close(pipe);
  return checksum;
}

int guest_installed() {
  return penstock::fault::installed();
}

int guest_install() {
  return good(penstock::fault::install());
}

int guest_uninstall() {
  return good(penstock::fault::uninstall());
}

void guest_watch() {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction ours = {};
    sigaction(signal, nullptr, &watched[signal == SIGBUS]);
    ours = watched[signal == SIGBUS];
    ours.sa_sigaction = count;
    ours.sa_flags |= SA_SIGINFO | SA_ONSTACK;
    sigaction(signal, &ours, nullptr);
  }
}

uint64_t guest_passed_on() {
  return passed_on.load(std::memory_order_relaxed);
}

#pragma GCC visibility pop
}
