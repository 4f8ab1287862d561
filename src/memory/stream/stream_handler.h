#pragma once

#include <cstdint>

#include "memory/fault/registry.h"
#include "memory/stream/recovery.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::stream {

// So often may threads fault in memory that is there: each that waited for the lock meanwhile.
// Memory that is there and faults all the same does it again and again.
inline constexpr uint32_t idle_faults_max = 4096;

// What streams are to the registry beside their own faults: they know their name and the process
// that opened them, and say so where no stream can help: in a forked child, and where the hardware
// has lost memory.
//
// Thread safety: all members, from any thread; none locks, so that they work in a forked child.
class StreamHandler : public fault::Handler {
 public:
  fault::Outcome on_unservable(const fault::Fault& fault, fault::Unservable why) noexcept override;
  // Whether this process is a forked child of the one that opened the stream. Calls of the stream
  // then do nothing: what they would act on is the parent's, and so are the threads that might
  // answer.
  bool is_inherited() const noexcept { return made_.is_past(); }

 protected:
  struct Label {
    const char* name;  // for messages
    ErrorPolicy policy;
  };

  StreamHandler();
  ~StreamHandler();
  virtual Label label() const noexcept = 0;

  // From here on faults in the range are this handler's.
  Status watch(std::byte* begin, uint64_t bytes);
  bool is_watching() const { return static_cast<bool>(registration_); }
  // No thread is in on_fault() any more. The first thing that a derived destructor does, for on_fault() uses members.
  void stop_watching() { registration_ = {}; }

  // Errors: unsupported, where is_inherited().
  Status check_owned(const char* attempted) const;
  // Ends the process, or sends the interrupted code to its recovery point: what the zeros of
  // ErrorPolicy cannot mend, or have mended already, does not get here. With a context it returns
  // when the code has a recovery point, without one never.
  void give_up(const Failure& failure, void* context) const noexcept;
  // As an access to `address` in a child, for calls that cannot return an error. REQUIRES:
  // is_inherited(). Returns only by way of a recovery point, or not at all.
  void refuse_inherited(const void* address) noexcept;

 private:
  const os::Generation made_ = os::Generation::now();
  const int64_t process_;  // that opened the stream
  fault::Registration registration_;
};

}  // namespace penstock::stream
