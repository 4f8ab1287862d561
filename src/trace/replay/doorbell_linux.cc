#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/check.h"
#include "trace/replay/doorbell.h"

namespace penstock::trace {

Result<std::unique_ptr<Doorbell>> Doorbell::open(io::Engine& engine) {
  std::unique_ptr<Doorbell> bell(new Doorbell(engine));
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "make a pipe", "a doorbell");
  const os::Fd out(ends[0]);
  bell->write_end_ = os::Fd(ends[1]);
  auto read_end =
      io::File::open_read(fmt::format("/proc/self/fd/{}", out.get()), io::Caching::buffered);
  if (!read_end) return std::unexpected(read_end.error());
  bell->read_end_ = std::move(*read_end);
  return bell;
}

Doorbell::~Doorbell() {
  if (is_set_) engine_.wait(request_);
}

void Doorbell::set() {
  PENSTOCK_CHECK(!is_set_, "a doorbell is set once at a time");
  is_set_ = true;
  request_.operation = io::Operation::read;
  request_.file = &read_end_;
  request_.data = &byte_;
  request_.bytes = 1;
  engine_.submit(request_);
}

bool Doorbell::rang(const io::Request* done) {
  if (done != &request_) return false;
  is_set_ = false;
  return true;
}

void Doorbell::ring() const {
  while (::write(write_end_.get(), "", 1) < 0 && errno == EINTR) {
  }
}

}  // namespace penstock::trace
