#pragma once

#include <cstdint>

#include "memory/fault/registry.h"
#include "memory/stream/recovery.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::stream {

// Limit on faults in memory that is mapped. Each thread that waited for the lock meanwhile causes
// one; memory that is mapped and faults all the same causes them without end.
inline constexpr uint32_t idle_faults_max = 4096;

// The part of a stream's handler that is not about its own faults: it knows the stream's name and
// the process that opened it, and reports them if no stream can help: in a forked child, and if the
// hardware has lost memory.
//
// Thread safety: all members, from any thread; none locks, so that they work in a forked child.
class StreamHandler : public fault::Handler {
 public:
  fault::Outcome on_unservable(const fault::Fault& fault, fault::Unservable why) noexcept override;
  // Whether this process is a forked child of the one that opened the stream. Calls of the stream
  // then do nothing: their memory is the parent's, and so are the threads that might answer.
  bool is_inherited() const noexcept { return made_.is_past(); }

 protected:
  struct Label {
    const char* name;  // for messages
    ErrorPolicy policy;
  };

  StreamHandler();
  ~StreamHandler();
  virtual Label label() const noexcept = 0;

  // Makes this the handler of faults in the range.
  Status watch(std::byte* begin, uint64_t bytes);
  bool is_watching() const { return static_cast<bool>(registration_); }
  // Ends that; no thread is in on_fault() any more. Derived destructors call it first, because
  // on_fault() uses members.
  void stop_watching() { registration_ = {}; }

  // Errors: unsupported, if is_inherited().
  Status check_owned(const char* attempted) const;
  // Ends the process, or sends the interrupted code to its recovery point. The zeros of ErrorPolicy
  // are the caller's task. With a context it returns if the code has a recovery point; without a
  // context it never returns.
  void give_up(const Failure& failure, void* context) const noexcept;
  // Fails like an access to `address` in a child, for calls that cannot return an error. REQUIRES:
  // is_inherited(). Leaves only through a recovery point, or not at all.
  void refuse_inherited(const void* address) noexcept;

 private:
  const os::Generation made_ = os::Generation::now();
  const int64_t process_;  // the process that opened the stream
  fault::Registration registration_;
};

}  // namespace penstock::stream
