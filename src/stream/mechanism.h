#pragma once

#include "penstock/mechanism.h"
#include "pool/pool.h"

namespace penstock::stream {

// The public names of the mechanisms and the pool's.
constexpr pool::Mechanism pool_mechanism(Mechanism mechanism) {
  return static_cast<pool::Mechanism>(mechanism);
}
constexpr Mechanism public_mechanism(pool::Mechanism mechanism) {
  return static_cast<Mechanism>(mechanism);
}
static_assert(pool_mechanism(Mechanism::automatic) == pool::Mechanism::automatic &&
              pool_mechanism(Mechanism::mremap) == pool::Mechanism::mremap &&
              pool_mechanism(Mechanism::uffd_move) == pool::Mechanism::uffd_move &&
              pool_mechanism(Mechanism::shared) == pool::Mechanism::shared);

}  // namespace penstock::stream
