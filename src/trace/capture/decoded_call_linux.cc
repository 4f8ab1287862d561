#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>

#include "trace/capture/decoded_call.h"
#include "trace/capture/proc_files.h"

namespace penstock::trace {
namespace {

uint32_t close_on_exec_if(bool closes) {
  return closes ? flag::close_on_exec : 0;
}

// Decodes a command of fcntl() or ioctl().
void decode_command(DecodedCall& decoded, uint32_t command, uint64_t argument) {
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC:
      decoded.effect = Effect::duplicate;
      decoded.flags = close_on_exec_if(command == F_DUPFD_CLOEXEC);
      break;
    case F_SETFD:
      decoded.flags = flag::descriptor_flags | close_on_exec_if(argument & FD_CLOEXEC);
      break;
    case F_SETFL:
      decoded.flags = flag::status_flags | (open_flags(argument) & (flag::append | flag::direct));
      break;
    default:  // FIOCLEX, FIONCLEX
      decoded.flags = flag::descriptor_flags | close_on_exec_if(command == FIOCLEX);
  }
}

// Decodes the flags. Returns false if the call is not relevant with these arguments.
bool decode_flags(DecodedCall& decoded, uint64_t flags) {
  switch (decoded.effect) {
    case Effect::open:
      if (decoded.structure_at == 0)
        decoded.flags |= open_flags(flags);  // else the structure has them
      break;
    case Effect::close_range:
      // 4 is CLOSE_RANGE_CLOEXEC. (CLOSE_RANGE_UNSHARE, 2, also unshares a shared table.)
      decoded.flags = close_on_exec_if(flags & 4);
      break;
    case Effect::duplicate:
      decoded.flags = close_on_exec_if(flags & O_CLOEXEC);
      break;
    case Effect::set_flags:
      decode_command(decoded, decoded.operation, flags);
      break;
    case Effect::write:
      if (flags & RWF_APPEND) decoded.flags |= flag::append;
      if (flags & (RWF_SYNC | RWF_DSYNC)) decoded.flags |= flag::synchronous;
      break;
    case Effect::sync:
      if (flags & IORING_FSYNC_DATASYNC) decoded.flags |= flag::data_only;
      break;
    case Effect::allocate:
      if (flags & FALLOC_FL_KEEP_SIZE) decoded.flags |= flag::keep_size;
      if (flags & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)) decoded.flags |= flag::punch;
      break;
    case Effect::unlink:
      return (flags & AT_REMOVEDIR) == 0;
    case Effect::map:
      if (decoded.descriptor < 0 || (flags & MAP_ANONYMOUS) != 0) return false;
      decoded.flags = flag::read;
      if ((decoded.operation & PROT_WRITE) && (flags & MAP_SHARED)) decoded.flags |= flag::write;
      break;
    default:
      break;
  }
  return true;
}

constexpr struct {
  uint8_t operation;
  Effect effect;
  uint32_t event_flags;
} ring_operations[] = {
    {IORING_OP_READ, Effect::read, 0},
    {IORING_OP_READ_FIXED, Effect::read, 0},
    {IORING_OP_READV, Effect::read, flag::vector},
    {IORING_OP_WRITE, Effect::write, 0},
    {IORING_OP_WRITE_FIXED, Effect::write, 0},
    {IORING_OP_WRITEV, Effect::write, flag::vector},
    {IORING_OP_FSYNC, Effect::sync, 0},
    {IORING_OP_FALLOCATE, Effect::allocate, 0},
    {IORING_OP_OPENAT, Effect::open, 0},
    {IORING_OP_OPENAT2, Effect::open, 0},
    {IORING_OP_CLOSE, Effect::close, 0},
};

}  // namespace

DecodedCall decode(const SystemCall& call) {
  const CallRow* row = captured_call(call.number);
  if (row == nullptr) return {};
  const auto value = [&](int8_t index, uint64_t otherwise) {
    return index == CallArguments::none ? otherwise : call.arguments[static_cast<size_t>(index)];
  };
  const auto number = [&](int8_t index, int32_t otherwise) {
    return static_cast<int32_t>(value(index, static_cast<uint64_t>(otherwise)));
  };
  const CallArguments& at = row->at;
  const bool renames = at.path2 != CallArguments::none;
  DecodedCall decoded{.effect = row->effect,
                      .descriptor = number(at.descriptor, -1),
                      .descriptor2 = number(at.descriptor2, -1),
                      .directory = number(renames ? at.folder2 : at.folder, AT_FDCWD),
                      .flags = row->event_flags,
                      .operation = static_cast<uint32_t>(value(at.operation, 0)),
                      .offset = value(at.offset, no_offset),
                      .bytes = value(at.bytes, 0),
                      .offset_at = value(at.offset_at, 0),
                      .offset2_at = value(at.offset2_at, 0),
                      .path_at = value(renames ? at.path2 : at.path, 0),
                      .structure_at = value(at.structure, 0)};
  switch (decoded.effect) {
    case Effect::close_range: {
      constexpr uint64_t most = INT32_MAX;
      decoded.descriptor = static_cast<int32_t>(std::min(value(at.descriptor, 0), most));
      decoded.descriptor2 = static_cast<int32_t>(std::min(value(at.descriptor2, 0), most));
      break;
    }
    case Effect::seek:
      decoded.offset = no_offset;  // the result is the new position
      break;
    case Effect::set_flags:
      if (std::ranges::find(row->commands, decoded.operation) == row->commands.end()) return {};
      break;
    case Effect::ring_enter:
    case Effect::ring_register:
      decoded.bytes = static_cast<uint32_t>(decoded.bytes);
      break;
    case Effect::aio_submit:
      if (decoded.bytes > INT32_MAX) decoded.bytes = 0;
      break;
    default:
      break;
  }
  const bool creates = decoded.effect == Effect::open && at.flags == CallArguments::none;
  const uint64_t flags = creates ? O_WRONLY | O_CREAT | O_TRUNC : value(at.flags, 0);  // creat()
  return decode_flags(decoded, flags) ? decoded : DecodedCall{};
}

DecodedCall decode_request(uint8_t operation, DecodedCall decoded, uint64_t flags) {
  decoded.flags = flag::ring;
  for (const auto& row : ring_operations) {
    if (row.operation != operation) continue;
    decoded.effect = row.effect;
    decoded.flags |= row.event_flags;
  }
  const bool has_range = decoded.effect != Effect::sync && decoded.effect != Effect::open;
  if (!has_range) decoded.offset = no_offset;
  if (!has_range || (decoded.flags & flag::vector) != 0) decoded.bytes = 0;
  (void)decode_flags(decoded, flags);
  return decoded;
}

Event event_of(const DecodedCall& decoded, uint64_t result) {
  Event event{.offset = decoded.offset,
              .bytes = decoded.bytes,
              .descriptor = decoded.descriptor,
              .descriptor2 = decoded.descriptor2,
              .flags = decoded.flags,
              .call = static_cast<Call>(decoded.effect)};
  switch (decoded.effect) {
    case Effect::duplicate:
      event.descriptor2 = static_cast<int32_t>(result);
      break;
    case Effect::read:
    case Effect::write:
    case Effect::seek:
    case Effect::copy:
      event.result = result;
      if (decoded.flags & flag::vector) event.bytes = result;
      break;
    case Effect::read_size:
      event.call = Call::stat;  // the size is known from the open
      break;
    case Effect::truncate_path:
      event.call = Call::truncate;
      [[fallthrough]];
    case Effect::truncate:
    case Effect::map:
      event.result = decoded.bytes;
      break;
    default:
      break;
  }
  return event;
}

}  // namespace penstock::trace
