#pragma once

namespace penstock::pool {

// Whether pages of a memory file can be made one huge page by MADV_COLLAPSE here: found by making
// one, the first time that it is asked.
bool file_pages_collapse();

}  // namespace penstock::pool
