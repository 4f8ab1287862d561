#pragma once

// A recovery point: where code that uses a stream's plain pointer goes on when the stream fails
// (ErrorPolicy::recover).
//
//   auto hits = RecoveryPoint::run([&] { return std::count(reader.begin(), reader.end(), 'x'); });
//   if (!hits) report(hits.error().message());
//
// An access that cannot be served leaves the callable at that very instruction, by a jump
// (sigsetjmp, siglongjmp) to the innermost run() of the same thread. What the jump skips:
// everything that the callable's frames had still to do, destructors and catch blocks included. So
// the callable must not own anything at the time of an access: no locks held, no containers of its
// own; let it fill what the caller owns. (Formally, C++ leaves a jump over a non-trivial destructor
// undefined; in practice the object is leaked, a lock stays locked.) Variables of the caller that
// the callable changed through a reference keep their last stored value.
//
// Thread safety: recovery points are per thread and nest; the innermost one gets the error.

#include <csetjmp>
#include <functional>
#include <type_traits>

#include "penstock/error.h"

namespace penstock {

namespace internal {

// One run() on the stack. The failure is kept in place: it is filled in inside a signal handler,
// where nothing may allocate.
struct RecoveryFrame {
  sigjmp_buf jump;
  RecoveryFrame* outer;
  ErrorCode code = ErrorCode::io;
  int system_errno = 0;
  char attempted[160] = {};
  char subject[256] = {};

  RecoveryFrame() noexcept;   // becomes the thread's innermost
  ~RecoveryFrame() noexcept;  // gives way to the outer one
  RecoveryFrame(const RecoveryFrame&) = delete;
  RecoveryFrame& operator=(const RecoveryFrame&) = delete;
  Error error() const;
};

template <class T>
struct AsResult {
  using type = Result<T>;
};
template <class T>
struct AsResult<Result<T>> {
  using type = Result<T>;
};

}  // namespace internal

class RecoveryPoint {
 public:
  // What the callable returns (a Result stays as it is), or the error of the stream that it was
  // using.
  template <class Callable>
  static auto run(Callable&& callable) ->
      typename internal::AsResult<std::invoke_result_t<Callable&>>::type {
    internal::RecoveryFrame frame;
    if (sigsetjmp(frame.jump, 1) != 0) return std::unexpected(frame.error());
    if constexpr (std::is_void_v<std::invoke_result_t<Callable&>>) {
      std::invoke(callable);
      return {};
    } else {
      return std::invoke(callable);
    }
  }
};

}  // namespace penstock
