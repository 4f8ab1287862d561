#pragma once

// Where temporaries go if nobody says; and what they are if that is memory. A file on a tmpfs takes
// memory like any other: temporaries there would undo the budget that they are written for.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::io {

// Whether the files of this directory lie in memory (tmpfs, ramfs). Not of one that is not there.
bool lies_in_memory(const std::string& directory);

// $TMPDIR, or /tmp; where that lies in memory, the first of /var/tmp and the folder of `output`
// that can be written to and does not ("-" and "" have none). Where all do, $TMPDIR, or /tmp.
std::string default_temp_directory(const std::string& output = {});

// These, or that one if there are none.
std::vector<std::string> temp_directories_or_default(const std::vector<std::string>& directories,
                                                     const std::string& output = {});

// What the user should know about the directories that `wanted` led to, in a sentence: they lie in
// memory, or are others than usual because those do. Empty: nothing.
std::string notice_of_temporaries(const std::vector<std::string>& wanted,
                                  const std::vector<std::string>& directories);

// How much of so many bytes, which go to the directories in equal parts, is memory.
uint64_t temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes);

// Fails where that and the budget are more than the memory that is there.
Status check_temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes,
                                   uint64_t budget_bytes);

}  // namespace penstock::io
