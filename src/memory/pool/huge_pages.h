#pragma once

namespace penstock::pool {

// Returns whether MADV_COLLAPSE makes pages of a memory file one huge page here; tries it once.
bool file_pages_collapse();

}  // namespace penstock::pool
