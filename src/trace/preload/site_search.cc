#include "trace/preload/site_search.h"

#include "trace/preload/instructions.h"
#include "trace/preload/library.h"

// Most often (436 of 526 in Debian 12's libc) the number of the call is set right before it:
//
//     b8 11 00 00 00    mov $17,%eax
//     0f 05             syscall
//
// Then only numbers that are of interest are taken over; all others stay as they are and cost
// nothing. But such bytes may be an accident: a constant can stand at the end of another
// instruction, whose displacement is b8. To put a jump there would change where it stores. So they
// are trusted where what stands before them leaves no room for that.
//
// Elsewhere we have to know where instructions begin, and who jumps where. The tables for
// exceptions say where functions begin and end (functions.h); from its beginning a function is
// followed instruction by instruction (instructions.h). The neighbours must be such that do the
// same at any place, and nothing may jump between them. (Not even that is asked where it is not
// needed: glibc says of its __restore_rt, which returns from signals, that it begins one byte
// early.) Where there is no such table, only a comparison with the errors' first number behind the
// call is trusted.

namespace penstock::trace::preload {
namespace {

constexpr size_t jump_bytes = 5;
constexpr size_t neighbours_max = 32;  // bytes, before and behind

uint32_t number_at(const uint8_t* at) {
  uint32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

uint64_t eight_at(const uint8_t* at) {
  uint64_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

// Most code is passed over eight bytes at a time. The lowest bit that is set belongs to the first
// byte that is this one (others may be wrong).
uint64_t bytes_that_are(uint64_t eight, uint8_t byte) {
  constexpr uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
  const uint64_t differs = eight ^ ones * byte;
  return (differs - ones) & ~differs & tops;
}

// The number that is set right before a call: how many bytes that takes; 0: it is not.
size_t number_before(const Code& code, uint64_t call, uint32_t& number) {
  constexpr uint32_t numbers_max = 1024;
  const uint8_t* at = code.bytes + call;
  if (call < 7) return 0;
  number = number_at(at - 4);
  if (number >= numbers_max) return 0;
  if (at[-7] == 0x48 && at[-6] == 0xc7 && at[-5] == 0xc0) return 7;
  // With a byte 4x before it, it may be a mov to another register.
  return at[-5] == 0xb8 && (at[-6] & 0xf0) != 0x40 ? 5 : 0;
}

// The comparison of an answer with the errors' first number: its length, or 0.
size_t comparison_bytes(const Code& code, uint64_t from) {
  if (from + 6 > code.size) return 0;
  const uint8_t* at = code.bytes + from;
  const size_t ahead = at[0] == 0x48 ? 1 : 0;  // of 64 bits
  if (at[ahead] != 0x3d) return 0;
  const uint32_t value = number_at(at + ahead + 1);
  return value == 0xfffff000 || value == 0xfffff001 ? ahead + 5 : 0;
}

// What a function has around one of its system calls.
struct Surroundings {
  struct Neighbour {
    uint64_t at;
    Instruction instruction;
  };
  Neighbour before[3];  // the nearest first
  size_t before_found = 0;
  Neighbour behind[4];
  size_t behind_found = 0;
  uint64_t targets[64];  // of jumps that lead near it
  size_t targets_found = 0;
  bool is_call = false;  // it is an instruction of the function
};

bool follow_function(const Code& code, uint64_t begin, uint64_t end, uint64_t call,
                     Surroundings& found) {
  for (uint64_t at = begin; at < end;) {
    const Instruction instruction = decode(code.bytes + at, end - at);
    if (instruction.bytes == 0) return false;
    const uint64_t next = at + instruction.bytes;
    if (instruction.has_target) {
      const uint64_t target = next + static_cast<uint64_t>(instruction.target);
      if (target + neighbours_max > call && target < call + neighbours_max) {
        if (found.targets_found == 64) return false;
        found.targets[found.targets_found++] = target;
      }
    }
    if (at == call) {
      found.is_call = true;
    } else if (at < call) {
      found.before[2] = found.before[1];
      found.before[1] = found.before[0];
      found.before[0] = {at, instruction};
      if (found.before_found < 3) ++found.before_found;
    } else if (found.behind_found < 4) {
      found.behind[found.behind_found++] = {at, instruction};
    }
    at = next;
  }
  return found.is_call;
}

bool is_jumped_into(const Surroundings& found, const Site& site) {
  for (size_t i = 0; i < found.targets_found; ++i) {
    if (found.targets[i] > site.begin && found.targets[i] < site.back) return true;
  }
  return false;
}

// Of a call in a function: as few neighbours as will do, those before it first.
bool choose_neighbours(const Surroundings& found, uint64_t call, Site& site) {
  for (size_t before = 0; before <= found.before_found; ++before) {
    for (size_t behind = 0; behind <= found.behind_found; ++behind) {
      site = {call, call, call + 2, true};
      bool is_possible = true;
      for (size_t i = 0; i < before; ++i) {
        is_possible &= found.before[i].instruction.is_movable;
        site.begin = found.before[i].at;
      }
      for (size_t i = 0; i < behind; ++i) {
        is_possible &= found.behind[i].instruction.is_movable;
        site.back += found.behind[i].instruction.bytes;
      }
      if (is_possible && site.back - site.begin >= jump_bytes &&
          site.back - site.begin <= neighbours_max && !is_jumped_into(found, site)) {
        return true;
      }
    }
  }
  return false;
}

// Where there is no table of functions: whether anything, instruction or not, looks like a jump
// from nearby.
bool seems_jumped_into(const Code& code, const Site& site) {
  const uint64_t first = site.begin < 130 ? 0 : site.begin - 130;
  const uint64_t last = site.back + 130 < code.size ? site.back + 130 : code.size - 2;
  for (uint64_t at = first; at < last; ++at) {
    const uint8_t byte = code.bytes[at];
    if ((byte & 0xf0) != 0x70 && byte != 0xeb && (byte & 0xfc) != 0xe0) continue;
    const uint64_t target = at + 2 + static_cast<uint64_t>(static_cast<int8_t>(code.bytes[at + 1]));
    if (target > site.begin && target < site.back) return true;
  }
  return false;
}

// Whether the number's bytes may be the end of a longer instruction, which ends in a constant of
// its own: `movl $17,-0x48(%rsp)` is c7 44 24 b8 11 00 00 00, of which the last five set eax.
// (Behind a displacement of four bytes it would be one of more than a gigabyte.)
bool may_be_part_of_another(const Code& code, uint64_t begin) {
  if (code.bytes[begin] != 0xb8) return false;
  if (begin < 2) return begin == 1;
  // A displacement of one byte: mod is 01 in the byte before it, or, with a base and an index, in
  // the one before that.
  const uint8_t before = code.bytes[begin - 1], two_before = code.bytes[begin - 2];
  return (before & 0xc0) == 0x40 || (two_before & 0xc7) == 0x44;
}

// Whether `syscall` at this offset can be taken over, and is of interest.
bool find_site(const Code& code, uint64_t call, Site& site) {
  uint32_t number = 0;
  const size_t bytes = number_before(code, call, number);
  const Site by_number = {call - bytes, call, call + 2, false};
  if (bytes > 0 && !may_be_part_of_another(code, call - bytes)) {
    site = by_number;
    return is_of_interest(number);
  }
  uint64_t begin = 0, end = 0;
  if (code.functions.find(call, begin, end) && end <= code.size) {
    Surroundings found;
    if (!follow_function(code, begin, end, call, found)) return false;
    if (bytes == 0 || found.before_found == 0 || found.before[0].at != call - bytes) {
      return choose_neighbours(found, call, site);
    }
    site = by_number;
    return is_of_interest(number);
  }
  const size_t comparison = comparison_bytes(code, call + 2);
  site = {call, call, call + 2 + comparison, true};
  return comparison > 0 && !seems_jumped_into(code, site);
}

// Takes those sites out into which something jumps from afar: functions have pieces elsewhere. All
// of the code is looked through, instruction or not; a table with a bit for each place where a site
// may be lets nearly all jumps pass.
void drop_targets(const Code& code, Site* sites, size_t& sites_found) {
  constexpr uint64_t bits = 8192, place_bytes = 16;
  uint64_t places[bits / 64] = {};
  const auto bit_of = [](uint64_t offset) { return offset / place_bytes % bits; };
  bool is_needed = false;
  for (size_t i = 0; i < sites_found; ++i) {
    if (!sites[i].needs_search) continue;
    is_needed = true;
    for (uint64_t at = sites[i].begin; at < sites[i].back + place_bytes; at += place_bytes) {
      places[bit_of(at) / 64] |= uint64_t{1} << bit_of(at) % 64;
    }
  }
  if (!is_needed) return;
  for (uint64_t at = 1; at + 5 <= code.size; ++at) {
    const uint8_t* byte = code.bytes + at;
    if (at + 8 <= code.size) {
      const uint64_t found =
          bytes_that_are(eight_at(byte), 0xe9) | bytes_that_are(eight_at(byte - 1), 0x0f);
      if (found == 0) {
        at += 7;
        continue;
      }
      at += static_cast<uint64_t>(__builtin_ctzll(found) / 8);
      if (at + 5 > code.size) break;
      byte = code.bytes + at;
    }
    const bool is_jump = *byte == 0xe9 || ((*byte & 0xf0) == 0x80 && byte[-1] == 0x0f);
    if (!is_jump) continue;
    const uint64_t target =
        at + 5 + static_cast<uint64_t>(static_cast<int32_t>(number_at(byte + 1)));
    if ((places[bit_of(target) / 64] >> bit_of(target) % 64 & 1) == 0) continue;
    for (size_t i = 0; i < sites_found; ++i) {
      if (sites[i].needs_search && target > sites[i].begin && target < sites[i].back) {
        sites[i] = sites[--sites_found];
        break;
      }
    }
  }
}

}  // namespace

size_t find_sites(const Code& code, uint64_t& from, Site* sites) {
  size_t found = 0;
  uint64_t at = from;
  for (; at + 2 <= code.size && found < sites_at_once; ++at) {
    if (at + 8 <= code.size) {
      const uint64_t first_bytes = bytes_that_are(eight_at(code.bytes + at), 0x0f);
      if (first_bytes == 0) {
        at += 7;
        continue;
      }
      at += static_cast<uint64_t>(__builtin_ctzll(first_bytes) / 8);
      if (at + 2 > code.size) break;
    }
    if (code.bytes[at] == 0x0f && code.bytes[at + 1] == 0x05 && find_site(code, at, sites[found])) {
      // Two calls in a row may want the same neighbour.
      if (found > 0 && sites[found].begin < sites[found - 1].back) continue;
      ++found;
    }
  }
  from = at;
  drop_targets(code, sites, found);
  return found;
}

}  // namespace penstock::trace::preload
