#pragma once

// A sorting network on vector registers, planned at compile time; words_by_vectors_impl.h runs the
// plan.
//
// If the partners of a stage lie in one register, the stage needs a permutation, a minimum, a
// maximum and a blend for each register. Minima and maxima of wide vectors run on one port only,
// and half of its work is wasted: of each result one half is thrown away. If instead the partners
// lie at the same lane of two registers, one minimum and one maximum serve both.
//
// So the plan sees the 2^n positions of the array as words of n bits. A layout says which bits of
// the position select the register ("register bits") and which the lane ("lane bits"). A stage
// compares positions that differ in one bit; it costs nothing extra if that bit is a register bit.
// Otherwise a relayout swaps it with a register bit: one shuffle of two sources a register. Stages
// come in a fixed order, so the register bit to give up is the one whose next stage is farthest:
// Belady's rule for caches. The shuffles, which run on another port than minima, then take about
// half as many instructions as the comparators.
//
// Order of work: the bits of the position that are register bits at the start are sorted by an
// optimal network down the columns; then runs double by bitonic merges: compare with the mirrored
// position in the other run, then half-cleaners. The mirror needs no instruction of its own: the
// top bit of a merge is never a register bit before, so a relayout precedes that stage and reverses
// the upper half, lanes in its index vectors and registers by renaming. (The following stages only
// need each half to be bitonic, in either direction.)
//
// Fewer registers than a power of two: the missing ones contain the greatest word, and the plan
// tracks these. A comparator whose upper inputs are all greatest words vanishes, one whose lower
// inputs are becomes a renaming.
//
// Each step reads two slots and writes the same two; renamed registers cost nothing. If there are
// more slots than the processor has registers, the order of the steps is changed so that registers
// are used as long as possible: stage by stage, every comparator would load and store both its
// slots.

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::sorting {

struct Comparator {
  uint8_t low, high;
};

// The best networks known for 8 and 16 inputs (19 and 60 comparators, both optimal). Without the
// comparators of the last inputs they sort fewer.
inline constexpr Comparator network_8[] = {{0, 2}, {1, 3}, {4, 6}, {5, 7}, {0, 4}, {1, 5}, {2, 6},
                                           {3, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}, {2, 4}, {3, 5},
                                           {1, 4}, {3, 6}, {1, 2}, {3, 4}, {5, 6}};
inline constexpr Comparator network_16[] = {
    {0, 13}, {1, 12}, {2, 15},  {3, 14},  {4, 8},   {5, 6},   {7, 11},  {9, 10},  {0, 5},
    {1, 7},  {2, 9},  {3, 4},   {6, 13},  {8, 14},  {10, 15}, {11, 12}, {0, 1},   {2, 3},
    {4, 5},  {6, 8},  {7, 9},   {10, 11}, {12, 13}, {14, 15}, {0, 2},   {1, 3},   {4, 10},
    {5, 11}, {6, 7},  {8, 9},   {12, 14}, {13, 15}, {1, 2},   {3, 12},  {4, 6},   {5, 7},
    {8, 10}, {9, 11}, {13, 14}, {1, 4},   {2, 6},   {5, 8},   {7, 10},  {9, 13},  {11, 14},
    {2, 4},  {3, 6},  {9, 12},  {11, 13}, {3, 5},   {6, 8},   {7, 9},   {10, 12}, {3, 4},
    {5, 6},  {7, 8},  {9, 10},  {11, 12}, {6, 7},   {8, 9}};

// A comparison, or a shuffle of two slots to two.
struct NetworkStep {
  enum class Kind : uint8_t { compare, shuffle };
  Kind kind = Kind::compare;
  uint8_t low = 0, high = 0;  // slots
  // Shuffles only: the relayout, and which of its lanes either slot gets.
  uint8_t relayout = 0, lanes_of_low = 0, lanes_of_high = 0;
};

// The kinds of shuffles, by what happens to the lane's number; A and B are registers that differ in
// the register bit to give up. All but the first need no index vectors and read their sources
// without destroying them; those within 16 bytes have a latency of 1 instead of 3.
enum class Shuffle : uint8_t {
  any,             // given by the index vectors
  unpack,          // lane bit 1 <-> register bit:      A0 A1 B0 B1 / A2 A3 B2 B3 of each 16 bytes
  even_odd,        // lane bit 0 -> register bit:       A0 A2 B0 B2 / A1 A3 B1 B3 of each 16 bytes
  blocks,          // highest lane bit <-> register bit: like unpack, of halves of a register
  blocks_even_odd  // 64-byte registers, lane bit 2: like even_odd, of blocks of 16 bytes
};

// A slot becomes, lane by lane, lane `lane % lanes` of a step's slot `low` (lane < lanes) or `high`
// (otherwise), where lane = lanes_of[0 or 1][l].
template <size_t lanes>
struct Relayout {
  Shuffle kind = Shuffle::any;
  std::array<std::array<uint32_t, lanes>, 2> lanes_of{};
};

// The plan that sorts `used` registers of 2^lane_bits words. At its start slot r is register r, and
// the slots from `used` on must be all greatest words. At its end position p is at lane p % lanes
// of slot slot_of[p / lanes].
template <unsigned lane_bits, size_t used>
class NetworkPlan {
  static constexpr unsigned register_bits_of(size_t n) {
    unsigned result = 1;
    while ((size_t{1} << result) < n) ++result;
    return result;
  }

 public:
  static constexpr size_t lanes = size_t{1} << lane_bits;
  static constexpr unsigned register_bits = register_bits_of(used);
  static constexpr size_t registers = size_t{1} << register_bits;
  static_assert(used >= 1 && registers <= 32);

  static constexpr size_t steps_max = 1024;
  std::array<NetworkStep, steps_max> steps{};
  size_t step_count = 0;
  std::array<Relayout<lanes>, 32> relayouts{};
  size_t relayout_count = 0;
  std::array<uint8_t, registers> slot_of{};  // by register

  constexpr NetworkPlan() {
    for (unsigned i = 0; i < bits; ++i) layout[i] = i;
    for (size_t r = 0; r < registers; ++r) slot_of[r] = static_cast<uint8_t>(r);
    for (size_t r = used; r < registers; ++r) greatest[r] = all;
    columns();
    for (unsigned top = register_bits; top < bits; ++top) {
      for (unsigned bit = top + 1; bit-- > 0;) {
        if (place_of(bit) >= register_bits) {
          fetch(top, bit);
        }
        unsigned select = 1u << place_of(bit);
        for (size_t r = 0; r < registers; ++r)
          if ((r & select) == 0) compare(r, r | select);
      }
    }
    // The position's low bits become the lane, the others the register.
    std::array<unsigned, bits> last{};
    for (unsigned i = 0; i < register_bits; ++i) last[i] = lane_bits + i;
    for (unsigned i = 0; i < lane_bits; ++i) last[register_bits + i] = i;
    if (last != layout) relayout(last, -1, Shuffle::any);
    if (registers > hot_slots) reorder();
  }

 private:
  static constexpr unsigned bits = register_bits + lane_bits;
  static constexpr uint32_t all = ~uint32_t{0} >> (32 - lanes);
  // Processors have 16 registers of 32 bytes, or 32 of 64; two are for a step's results.
  static constexpr size_t hot_slots = lane_bits == 3 ? 14 : 30;

  // layout[i]: the bit of the position that is bit i of the register's number, or, from
  // register_bits on, of the lane's.
  std::array<unsigned, bits> layout{};
  // Lanes known to hold the greatest word, by register.
  std::array<uint32_t, registers> greatest{};

  constexpr unsigned place_of(unsigned bit) const {
    unsigned place = 0;
    while (layout[place] != bit) ++place;
    return place;
  }

  constexpr void columns() {
    constexpr Comparator two[] = {{0, 1}};
    constexpr Comparator four[] = {{0, 2}, {1, 3}, {0, 1}, {2, 3}, {1, 2}};
    const auto run = [this](const auto& network) {
      for (const Comparator& c : network) compare(c.low, c.high);
    };
    if constexpr (register_bits == 1) run(two);
    if constexpr (register_bits == 2) run(four);
    if constexpr (register_bits == 3) run(network_8);
    if constexpr (register_bits >= 4) run(network_16);
    if constexpr (register_bits == 5) {
      for (const Comparator& c : network_16) compare(16 + c.low, 16 + c.high);
      // Batcher's merge: with it, the best network known for 32 (185 comparators).
      for (size_t distance = 16; distance > 0; distance /= 2) {
        for (size_t start = distance % 16; start + distance < 32; start += 2 * distance)
          for (size_t i = start; i < start + distance; ++i) compare(i, i + distance);
      }
    }
  }

  constexpr void compare(size_t low, size_t high) {
    if (greatest[high] == all) return;
    if (greatest[low] == all) {
      const uint8_t slot = slot_of[low];
      slot_of[low] = slot_of[high];
      slot_of[high] = slot;
    } else {
      steps[step_count++] = {.low = slot_of[low], .high = slot_of[high]};
    }
    const uint32_t both = greatest[low] & greatest[high];
    greatest[high] |= greatest[low];
    greatest[low] = both;
  }

  // The register bit whose next stage is farthest from stage `bit` of the merge of `top`.
  constexpr unsigned victim_of(unsigned top, unsigned bit) const {
    unsigned victim = 0;
    unsigned farthest = 0;
    for (unsigned place = 0; place < register_bits; ++place) {
      const unsigned other = layout[place];
      unsigned distance = 0;
      if (other < bit) {
        distance = bit - other;
      } else if (top + 1 < bits) {
        distance = bit + 1 + (top + 1 - other);
      } else {
        distance = 1000 - other;  // never again: the final bits of a register's number stay
      }
      if (distance > farthest) {
        farthest = distance;
        victim = place;
      }
    }
    return victim;
  }

  // Makes `bit`, which is a lane bit, a register bit.
  constexpr void fetch(unsigned top, unsigned bit) {
    constexpr unsigned lane0 = register_bits;
    const unsigned victim = victim_of(top, bit);
    const unsigned place = place_of(bit);
    auto next = layout;
    next[victim] = bit;
    next[place] = layout[victim];
    Shuffle kind = Shuffle::unpack;
    if (place == lane0) {
      kind = Shuffle::even_odd;
      next[lane0] = layout[lane0 + 1];
      next[lane0 + 1] = layout[victim];
    } else if (place == lane0 + lane_bits - 1) {
      kind = Shuffle::blocks;
    } else if (place == lane0 + 2) {
      kind = Shuffle::blocks_even_odd;
      next[lane0 + 2] = layout[lane0 + 3];
      next[lane0 + 3] = layout[victim];
    }
    if (bit != top) return relayout(next, -1, kind);
    if constexpr (lane_bits == 4) {
      // Index vectors are used here, so the order of the lanes is free: the bits that are wanted
      // first go where they are cheap to fetch.
      constexpr unsigned cheap[] = {1, 0, 3, 2};
      unsigned filled = 0;
      const auto some_order = next;
      for (unsigned wanted = bits; wanted-- > 0;) {
        const unsigned b = (wanted + top) % bits;  // top - 1, ..., 0, then those above
        for (unsigned i = 0; i < lane_bits; ++i) {
          if (some_order[lane0 + i] == b) next[lane0 + cheap[filled++]] = b;
        }
      }
    }
    relayout(next, static_cast<int>(top), Shuffle::any);
  }

  // `mirrored`: positions with this bit set exchange theirs with all lower bits inverted.
  constexpr void relayout(const std::array<unsigned, bits>& next, int mirrored, Shuffle kind) {
    auto& out = relayouts[relayout_count];
    out.kind = kind;
    std::array<uint32_t, registers> moved{};
    std::array<uint8_t, registers> moved_slot_of{};
    std::array<size_t, registers> step_from{};  // the step of a first source, plus 1
    bool known[2] = {false, false};
    for (size_t r = 0; r < registers; ++r) {
      std::array<uint32_t, lanes> lane_of{};
      size_t sources[2] = {registers, registers};
      for (size_t lane = 0; lane < lanes; ++lane) {
        size_t position = 0;
        for (unsigned i = 0; i < bits; ++i) {
          const size_t value = i < register_bits ? (r >> i) & 1 : (lane >> (i - register_bits)) & 1;
          position |= value << next[i];
        }
        if (mirrored >= 0 && ((position >> mirrored) & 1) != 0)
          position ^= (size_t{1} << mirrored) - 1;
        size_t from_register = 0;
        size_t from_lane = 0;
        for (unsigned i = 0; i < bits; ++i) {
          const size_t value = (position >> layout[i]) & 1;
          if (i < register_bits) {
            from_register |= value << i;
          } else {
            from_lane |= value << (i - register_bits);
          }
        }
        if (lane == 0) sources[0] = from_register;
        if (from_register != sources[0]) sources[1] = from_register;
        lane_of[lane] =
            static_cast<uint32_t>(from_lane + (from_register == sources[0] ? 0 : lanes));
        moved[r] |= ((greatest[from_register] >> from_lane) & 1) << lane;
      }
      // The first source is the one with the smaller number, so that two index vectors are enough.
      if (sources[1] < sources[0]) {
        for (auto& lane : lane_of) lane ^= lanes;
        const size_t first = sources[1];
        sources[1] = sources[0];
        sources[0] = first;
      }
      if (sources[1] == registers) sources[1] = sources[0];
      uint8_t which = 0;
      while (which < 2 && known[which] && out.lanes_of[which] != lane_of) ++which;
      known[which] = true;  // a third kind of index vector would be out of bounds: no constant
      out.lanes_of[which] = lane_of;
      // The first register made of two sources takes the slot of one, the second the other's.
      size_t& step = step_from[sources[0]];
      const bool second = step != 0;
      moved_slot_of[r] = slot_of[sources[second ? 1 : 0]];
      if (second) {
        steps[step - 1].lanes_of_high = which;
        continue;
      }
      steps[step_count++] = {.kind = NetworkStep::Kind::shuffle,
                             .low = slot_of[sources[0]],
                             .high = slot_of[sources[1]],
                             .relayout = static_cast<uint8_t>(relayout_count),
                             .lanes_of_low = which,
                             .lanes_of_high = which};
      step = step_count;
    }
    ++relayout_count;
    greatest = moved;
    layout = next;
    slot_of = moved_slot_of;
  }

  // Orders the steps: next is a step whose slots are both hot, or else the first one that leads on
  // from the slot used last.
  constexpr void reorder() {
    constexpr uint16_t none = 0xffff;
    const auto drawn = steps;
    // For each slot the next step, and the one after a step.
    std::array<uint16_t, registers> next_of{};
    std::array<std::array<uint16_t, 2>, steps_max> after{};
    for (auto& next : next_of) next = none;
    for (size_t i = step_count; i-- > 0;) {
      after[i] = {next_of[drawn[i].low], next_of[drawn[i].high]};
      next_of[drawn[i].low] = next_of[drawn[i].high] = static_cast<uint16_t>(i);
    }
    std::array<uint8_t, registers> recent{};  // slots, the last used in front
    for (size_t r = 0; r < registers; ++r) recent[r] = static_cast<uint8_t>(r);
    const auto touch = [&](uint8_t slot) {
      size_t at = 0;
      while (recent[at] != slot) ++at;
      for (; at > 0; --at) recent[at] = recent[at - 1];
      recent[0] = slot;
    };
    const auto other = [&](uint16_t step, uint8_t slot) {
      return drawn[step].low == slot ? drawn[step].high : drawn[step].low;
    };
    for (size_t done = 0; done < step_count; ++done) {
      uint32_t hot = 0;
      for (size_t i = 0; i < hot_slots; ++i) hot |= uint32_t{1} << recent[i];
      uint16_t step = none;
      for (size_t i = 0; i < hot_slots; ++i) {
        const uint16_t next = next_of[recent[i]];
        if (next >= step) continue;
        const uint8_t partner = other(next, recent[i]);
        if (next_of[partner] == next && (hot >> partner & 1) != 0) step = next;
      }
      if (step == none) {
        size_t at = 0;
        while (next_of[recent[at]] == none) ++at;
        uint8_t slot = recent[at];
        do {
          step = next_of[slot];
          slot = other(step, slot);
        } while (next_of[slot] != step);
      }
      const NetworkStep& taken = drawn[step];
      next_of[taken.low] = after[step][0];
      next_of[taken.high] = after[step][1];
      touch(taken.low);
      touch(taken.high);
      steps[done] = taken;
    }
  }
};

}  // namespace penstock::sorting
