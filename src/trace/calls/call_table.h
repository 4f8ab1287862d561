#pragma once

// The table of system calls that say something about files, descriptors or processes.
//
// Three readers use the table: ptrace stops at a call and BPF records it, both as a number and six
// registers; a log of strace has its name and texts. A row contains the call's effect and the
// meaning of its arguments. A new call is a new row. A new effect is also a case in decode()
// (capture/decoded_call), ptrace/capture_ptrace, bpf/call_shapes, bpf/record_follower and
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
  // Effects that are events of a trace have the numbers of Call.
  open = std::to_underlying(Call::open),
  close = std::to_underlying(Call::close),
  close_range = std::to_underlying(Call::close_range),
  duplicate = std::to_underlying(Call::duplicate),
  set_flags = std::to_underlying(Call::set_flags),  // fcntl, ioctl; some commands duplicate
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
  read_size = std::to_underlying(Call::size),  // a stat whose size a log contains
  stat = std::to_underlying(Call::stat),
  fork = std::to_underlying(Call::fork),
  exec = std::to_underlying(Call::exec),
  ring_setup = std::to_underlying(Call::ring_setup),
  // Effects without an event of their own.
  truncate_path = call_max + 1,
  link,
  ring_enter,
  ring_register,
  aio_submit,
  change_folder,
  make_descriptor,   // one without a file: socket, eventfd
  make_descriptors,  // several of them: pipe, socketpair
};

// Indexes of arguments by their meaning, from a text with a letter for each argument: "d-no" is
// descriptor, of no interest, bytes, offset.
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
  int8_t folder = index_of('w');     // descriptor at which the path begins; none: current folder
  int8_t path = index_of('p');
  int8_t folder2 = index_of('W');  // likewise for path2, the new name
  int8_t path2 = index_of('P');
  int8_t offset_at = index_of('a');   // copy: address of the source's offset, which moves on
  int8_t offset2_at = index_of('A');  // copy: likewise for the target's offset
  int8_t structure = index_of('s');   // address of a structure with further arguments

 private:
  constexpr int8_t index_of(char letter) const {
    const size_t index = letters.find(letter);
    return index == letters.npos ? none : static_cast<int8_t>(index);
  }
};

// Invariants: a captured row has a number on each machine that has the call; no name and no number
// is in two rows.
struct CallRow {
  static constexpr int32_t no_number = -1;

  std::string_view name;       // the kernel's, which strace prints
  int32_t number = no_number;  // no_number: not captured, or not on this machine
  Effect effect = Effect::nothing;
  CallArguments at = "";
  std::string_view not_captured{};  // why ptrace and BPF do not capture it; empty: they do
  // Names that strace prints for equivalent calls, separated by blanks.
  std::string_view other_names{};
  uint32_t event_flags = 0;            // flags of Event that the call always has
  std::array<uint32_t, 4> commands{};  // relevant operations; zeros: all
  std::string_view not_by_bpf{};       // likewise
  std::string_view not_in_logs{};
};

std::span<const CallRow> call_table();

// Return the row of a call, or nullptr if it is not captured, or not read from logs.
const CallRow* captured_call(uint64_t number);
const CallRow* logged_call(std::string_view name);

}  // namespace penstock::trace
