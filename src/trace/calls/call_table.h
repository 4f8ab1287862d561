#pragma once

// The table of system calls that say something about files, descriptors or processes.
//
// A call reaches us in three ways: ptrace stops at it and BPF writes it down, both as a number and
// six registers; a log of strace has its name and texts. A row tells all three which effect the
// call has, and which argument says what. A new call is a new row. A new effect is also a case in
// decode() (capture/asked_call), ptrace/capture_ptrace, bpf/call_shapes, bpf/record_follower and
// import/strace_files.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "penstock/trace.h"

namespace penstock::trace {

enum class Effect : uint8_t {
  nothing = 0,
  // Effects that are events of a trace. They have the numbers of Call.
  open = std::to_underlying(Call::open),
  close = std::to_underlying(Call::close),
  close_range = std::to_underlying(Call::close_range),
  duplicate = std::to_underlying(Call::duplicate),
  set_flags = std::to_underlying(Call::set_flags),  // by a command: some duplicate
  read = std::to_underlying(Call::read),
  write = std::to_underlying(Call::write),
  seek = std::to_underlying(Call::seek),
  copy = std::to_underlying(Call::copy),
  truncate = std::to_underlying(Call::truncate),
  allocate = std::to_underlying(Call::allocate),
  sync = std::to_underlying(Call::sync),
  rename = std::to_underlying(Call::rename),
  unlink = std::to_underlying(Call::unlink),
  map = std::to_underlying(Call::map),
  tell_size = std::to_underlying(Call::size),
  fork = std::to_underlying(Call::fork),
  exec = std::to_underlying(Call::exec),
  ring_setup = std::to_underlying(Call::ring_setup),
  // Effects that are other events, or none.
  truncate_path = call_max + 1,
  link,
  ring_enter,
  ring_register,
  aio_submit,
  change_folder,
  make_descriptor,   // for no file: socket, eventfd, ...
  make_descriptors,  // in an array: pipe, socketpair
};

// Indexes of the arguments that say certain things, from a text with a letter for each argument in
// its place: "d-no" is descriptor, of no interest, bytes, offset.
struct CallArguments {
  static constexpr int8_t none = -1;

  constexpr CallArguments(const char* its_letters) : letters(its_letters) {}

  std::string_view letters;
  int8_t descriptor = index_of('d');   // copy: the source
  int8_t descriptor2 = index_of('D');  // copy: the target; close_range: the last
  int8_t bytes = index_of('n');
  int8_t offset = index_of('o');
  int8_t flags = index_of('f');
  int8_t operation = index_of('c');  // a command, an access, a whence
  int8_t folder = index_of('w');     // where the path begins; none: in the current one
  int8_t path = index_of('p');
  int8_t folder2 = index_of('W');  // of the new name
  int8_t path2 = index_of('P');
  int8_t offset_at = index_of('a');   // copy: the address of the source's offset
  int8_t offset2_at = index_of('A');  // and of the target's: the call moves both on
  int8_t structure = index_of('s');   // the address of more

 private:
  constexpr int8_t index_of(char letter) const {
    const size_t index = letters.find(letter);
    return index == letters.npos ? none : static_cast<int8_t>(index);
  }
};

// Invariants: a row that is captured has a number wherever the machine has the call; no name and no
// number stands in two rows.
struct CallRow {
  static constexpr int32_t no_number = -1;

  std::string_view name;       // the kernel's, which strace prints
  int32_t number = no_number;  // none: not captured, or not on this machine
  Effect effect = Effect::nothing;
  CallArguments at = "";
  std::string_view not_captured{};  // why ptrace and BPF do without it; empty: they have it
  // Names that strace prints for calls that differ in nothing that is looked at, between blanks.
  std::string_view other_names{};
  uint32_t event_flags = 0;            // flags of Event that the call always has
  std::array<uint32_t, 4> commands{};  // operations that matter; zeros: all
  std::string_view not_by_bpf{};       // likewise
  std::string_view not_in_logs{};
};

std::span<const CallRow> call_table();

// The row of a call; nullptr: it is not captured, or not read from logs.
const CallRow* captured_call(uint64_t number);
const CallRow* logged_call(std::string_view name);

}  // namespace penstock::trace
