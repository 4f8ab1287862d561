#pragma once

#include <cstddef>
#include <cstdio>

namespace penstock::os {

// Occupies descriptors 0, 1 and 2, so that no file of ours becomes one of them: one that was closed
// can still be neither read (0) nor written (1, 2) afterwards.
void occupy_standard_streams();

// Replaces standard output by a stream that repeats writes which a signal interrupts. The C
// library's own stream reports an error, and loses the contents of its buffer. To be called before
// anything is written.
void write_on_after_signals(std::FILE*& standard_output);

// Returns the columns of the terminal that standard output is; 0 if it is none or does not know.
size_t output_columns();

}  // namespace penstock::os
