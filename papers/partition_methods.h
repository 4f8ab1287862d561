#pragma once

// The methods of A. Labbane, "Memory-Efficient Multi-Threaded Streaming Partitioning Algorithm"
// (Texas A&M University, 2022), for partition_internal::partition_by().
//
// clang-format off
//   method                buckets of   a bucket's memory while it is written      unused blocks, at most   waits
//   private_streams  1A   each thread  a row of blocks, one more at each fault    threads * 2^b            never
//   private_rings    1B   each thread  one or two addresses that blocks pass by   threads * 2^b            never
//   shared_rings     2A   all threads  the same                                   2^b                      for all threads to fault
//   shared_streams   2B   all threads  as private_streams; claims by line         2^b                      for its own block to be mapped
// clang-format on
//
// The shared ones keep the order of items with one thread only. shared_rings needs a core for each
// of its threads. Each stream has addresses for the whole input.
//
// All take the blocks that they may need in advance, because a fault handler cannot return an
// error: the program stops with a message if a new pool cannot get memory while they work, or if
// others use up the process's mappings, or take blocks of the pool on which they work in place.

#include "papers/ring_stream.h"
#include "sorting/partition/pass.h"

namespace penstock::papers {

const partition_internal::Method& private_streams();
// Errors: unsupported for Wrap::handler on other processors than x86-64.
const partition_internal::Method& private_rings(Wrap wrap = Wrap::mask);
const partition_internal::Method& shared_rings();
const partition_internal::Method& shared_streams();

}  // namespace penstock::papers
