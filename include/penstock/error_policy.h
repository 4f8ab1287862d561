#pragma once

namespace penstock {

// What happens to a consumer that waits in a fault for data that will never come, or to a producer
// whose data have nowhere to go. Neither can be handed a return value.
enum class ErrorPolicy {
  stop,     // end the process with a clear message: the default for raw pointers
  recover,  // leave the user's code by a jump to its recovery point (recovery.h), which gets the
            // error
  zeros,    // the rest reads as zeros (writes go nowhere); the error is reported at the end by
            // status() or finish()
};

}  // namespace penstock
