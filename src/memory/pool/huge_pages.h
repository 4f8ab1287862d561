#pragma once

namespace penstock::pool {

// Returns whether MADV_COLLAPSE makes pages of a memory file one huge page here; tried at the first
// call.
bool file_pages_collapse();

}  // namespace penstock::pool
