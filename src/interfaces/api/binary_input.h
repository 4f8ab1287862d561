#pragma once

// Refuses inputs that begin like files of other kinds: Parquet, executables and others are not
// lines, and the header of NumPy's np.save() is not an item of any format.

#include <cstddef>
#include <string>

#include "io/peek.h"
#include "penstock/files.h"

namespace penstock::api {

// Errors: invalid_argument if an input begins like another kind; the hint names the way to read it.
// Plain files are checked, and pipes that the program was started with as far as their bytes have
// arrived (the only input is waited for). Nothing is checked if SourceOptions::decompress is false:
// then the bytes are taken as they are.
Status refuse_binary(const FilesOptions& files);

// The bytes at the end of a file that decide about its kind.
inline constexpr size_t kind_tail_bytes = 16;
// Does the same for an input whose first bytes have been seen.
Status refuse_binary(const ItemFormat& items, const std::string& input, const io::Peek& seen);

}  // namespace penstock::api
