#pragma once

// Inputs that begin as files of other kinds do: Parquet, an executable, ... are no lines, and the header of NumPy's
// np.save() is no item of any format.

#include "penstock/files.h"

namespace penstock::api {

// Errors: invalid_argument, where a plain file among the inputs begins so; the hint names the way to read it. Pipes are
// not looked at, nor is anything where SourceOptions::decompress is false: then bytes are meant as they are.
Status refuse_binary(const FilesOptions& files);

}  // namespace penstock::api
