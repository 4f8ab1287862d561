#pragma once

// The frame that RecoveryPoint::run() (penstock/stream.h) keeps on the stack.

#include <csetjmp>

#include "penstock/base.h"

namespace penstock::internal {

// One run() on the stack. The failure lies in place because a signal handler fills it in, where
// nothing may allocate.
struct RecoveryFrame {
  sigjmp_buf jump;
  RecoveryFrame* outer;
  ErrorCode code = ErrorCode::io;
  int system_errno = 0;
  char attempted[400] = {};
  char subject[256] = {};

  RecoveryFrame() noexcept;   // becomes the thread's innermost frame
  ~RecoveryFrame() noexcept;  // makes the outer frame innermost again
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

}  // namespace penstock::internal
