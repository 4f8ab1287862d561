#pragma once

// The library's signal handlers, for programs and runtimes that install handlers of their own
// (CPython's faulthandler, the JVM, crash reporters). Opening the first stream installs ours for
// SIGSEGV and SIGBUS; a fault that belongs to no stream goes to the handler that was there before.
//
// A handler that is installed after ours and does not hand on (faulthandler, for one) takes the
// streams' faults, too: call install() behind it, or open a stream.
//
// Thread safety: all may be called from any thread, outside of signal handlers.

#include "penstock/error.h"

namespace penstock::fault {

// Whether both signals reach us first, or through a handler that chains to us as far as can be
// seen.
bool installed();

// Puts our handlers (back) in front; what was installed meanwhile is chained to.
Status install();

// Gives the signals back to the handlers that were there before. REQUIRES: no stream is open.
Status uninstall();

}  // namespace penstock::fault
