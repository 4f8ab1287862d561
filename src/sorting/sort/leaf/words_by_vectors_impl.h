// The sort of words by a network on vectors, compiled once for each instruction set: leaf_avx2.cc
// and leaf_avx512.cc define PENSTOCK_TIER, the name of their namespace, and a class Vectors in it.
//
// A leaf of n words uses the smallest multiple of 32 that holds them; networks between these would
// save almost nothing (see the pruning in network_plan.h) and fill the instruction cache.

#include <cstddef>
#include <cstdint>
#include <utility>

#include "sorting/sort/leaf/leaf.h"
#include "sorting/sort/leaf/network_plan.h"

namespace penstock::sorting::PENSTOCK_TIER {
namespace {

using Vector = Vectors::Vector;
constexpr size_t lanes = size_t{1} << Vectors::lane_bits;

template <size_t used>
inline constexpr NetworkPlan<Vectors::lane_bits, used> plan;

template <size_t used>
using Registers = Vector[NetworkPlan<Vectors::lane_bits, used>::registers];

template <size_t used, size_t index>
[[gnu::always_inline]] inline void step(Registers<used>& v) {
  constexpr NetworkStep step = plan<used>.steps[index];
  const Vector a = v[step.low];
  const Vector b = v[step.high];
  if constexpr (step.kind == NetworkStep::Kind::compare) {
    v[step.low] = Vectors::least(a, b);
    v[step.high] = Vectors::greatest(a, b, v[step.low]);
  } else {
    constexpr auto& way = plan<used>.relayouts[step.relayout];
    v[step.low] = Vectors::shuffle<way.kind, way.lanes_of[step.lanes_of_low]>(a, b);
    v[step.high] = Vectors::shuffle<way.kind, way.lanes_of[step.lanes_of_high]>(a, b);
  }
}

template <size_t used, size_t... index>
[[gnu::always_inline]] inline void run_steps(Registers<used>& v, std::index_sequence<index...>) {
  // Not a fold: clang limits how deep these nest.
  [[maybe_unused]] const int done[] = {(step<used, index>(v), 0)...};
}

// Sorts the words of the first `used` registers.
template <size_t used>
[[gnu::always_inline]] inline void network(Registers<used>& v) {
#pragma GCC unroll 32
  for (size_t r = used; r < plan<used>.registers; ++r) v[r] = Vectors::all_greatest();
  run_steps<used>(v, std::make_index_sequence<plan<used>.step_count>{});
  Registers<used> slots;
#pragma GCC unroll 32
  for (size_t r = 0; r < plan<used>.registers; ++r) slots[r] = v[r];
#pragma GCC unroll 32
  for (size_t r = 0; r < used; ++r) v[r] = slots[plan<used>.slot_of[r]];
}

// Sorts more than `full` registers of words, up to `used`.
template <size_t used, size_t full>
void words_of(const uint32_t* in, size_t count, uint32_t* out) {
  const auto items_from = [count](size_t first) { return count <= first ? 0 : count - first; };
  Registers<used> v;
#pragma GCC unroll 32
  for (size_t r = 0; r < used; ++r) {
    const uint32_t* const from = in + r * lanes;
    v[r] = r < full ? Vectors::load(from) : Vectors::load_first(from, items_from(r * lanes));
  }
  network<used>(v);
#pragma GCC unroll 32
  for (size_t r = 0; r < used; ++r) {
    uint32_t* const to = out + r * lanes;
    if (r < full) {
      Vectors::store(to, v[r]);
    } else {
      Vectors::store_first(to, v[r], items_from(r * lanes));
    }
  }
}

// The arrays may be the same.
void words(const uint32_t* in, size_t count, uint32_t* out) {
  constexpr size_t step = 32 / lanes;
  switch ((count + 31) / 32) {
    case 0:
      return;
    case 1:
      return words_of<step, 0>(in, count, out);
    case 2:
      return words_of<2 * step, step>(in, count, out);
    case 3:
      return words_of<3 * step, 2 * step>(in, count, out);
    case 4:
      return words_of<4 * step, 3 * step>(in, count, out);
    case 5:
      return words_of<5 * step, 4 * step>(in, count, out);
    case 6:
      return words_of<6 * step, 5 * step>(in, count, out);
    case 7:
      return words_of<7 * step, 6 * step>(in, count, out);
    default:
      return words_of<8 * step, 7 * step>(in, count, out);
  }
}

}  // namespace

void sort_words(uint32_t* in_place, size_t count) {
  words(in_place, count, in_place);
}

}  // namespace penstock::sorting::PENSTOCK_TIER
