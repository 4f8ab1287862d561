#pragma once

namespace penstock::os {

// Makes sure that descriptors 0, 1 and 2 are taken, so that no file of ours becomes one of them:
// one that was closed can be neither read from (0) nor written to (1, 2) afterwards, as before.
void occupy_standard_streams();

}  // namespace penstock::os
