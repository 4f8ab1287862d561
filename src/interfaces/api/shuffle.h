#pragma once

#include "files/run/options.h"

namespace penstock::api {

// Sorts the items by random keys. `options` sets the seed.
Result<DrawFilesStats> shuffle_items(const files::FilesOptions& files,
                                     const DrawFilesOptions& options);

}  // namespace penstock::api
