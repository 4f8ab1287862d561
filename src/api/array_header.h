#pragma once

// Files of NumPy's np.save(), whose header is no item.

#include "penstock/files.h"

namespace penstock::api {

// Errors: invalid_argument, where a file begins as np.save() begins one. Pipes are not looked at, nor is anything where
// SourceOptions::decompress is false: then bytes are meant as they are.
Status refuse_array_headers(const FilesOptions& files);

}  // namespace penstock::api
