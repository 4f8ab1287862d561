#pragma once

#include <cstdio>

namespace penstock::os {

// Makes sure that descriptors 0, 1 and 2 are taken, so that no file of ours becomes one of them:
// one that was closed can be neither read from (0) nor written to (1, 2) afterwards, as before.
void occupy_standard_streams();

// Standard output whose writes are made again where a signal interrupts them. The C library's own marks that as
// an error, and loses what its buffer holds. To be called before anything is written.
void write_on_after_signals(std::FILE*& standard_output);

}  // namespace penstock::os
