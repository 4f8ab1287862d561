#pragma once

// Refuses inputs that begin like files of other kinds: Parquet, executables and others are not
// lines, and the header of NumPy's np.save() is not an item of any format.

#include "penstock/files.h"

namespace penstock::api {

// Errors: invalid_argument if a plain file among the inputs begins like another kind; the hint
// names the way to read it. Pipes are not checked, nor is anything if SourceOptions::decompress is
// false: then the bytes are taken as they are.
Status refuse_binary(const FilesOptions& files);

}  // namespace penstock::api
