#pragma once

// The default folder of temporaries, and the memory of temporaries on a tmpfs, which would defeat
// the budget that they are written for.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::io {

// Returns whether the files of this directory lie in memory (tmpfs, ramfs); false if it is missing.
bool lies_in_memory(const std::string& directory);

// Returns $TMPDIR or /tmp; if that lies in memory, the first of /var/tmp and the folder of `output`
// that is writable and does not ("-" and "" have none). If all do, $TMPDIR or /tmp.
std::string default_temp_directory(const std::string& output = {});

// Returns `directories`, or the default if there are none.
std::vector<std::string> temp_directories_or_default(const std::vector<std::string>& directories,
                                                     const std::string& output = {});

// Returns a sentence for the user if the directories that `wanted` led to lie in memory, or are
// unusual because the usual ones do; otherwise empty.
std::string notice_of_temporaries(const std::vector<std::string>& wanted,
                                  const std::vector<std::string>& directories);

// Returns how much of `temp_bytes`, divided equally among the directories, is in memory.
uint64_t temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes);

// Fails if these bytes and the budget exceed the memory.
Status check_temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes,
                                   uint64_t budget_bytes);

}  // namespace penstock::io
