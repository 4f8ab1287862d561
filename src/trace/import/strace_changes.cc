// The calls of StraceFiles that move bytes, and those that change files and their names.

#include <algorithm>
#include <limits>

#include "trace/import/strace_files.h"

namespace penstock::trace {

using std::string_view;

// ---- bytes

bool StraceFiles::moves_storage(const Target& target) {
  if (target.storage) return true;
  count(target.known ? Unseen::stream_calls : Unseen::unknown_descriptors);
  return false;
}

StraceFiles::Understood StraceFiles::transfer(const CallRow& row, const StraceCall& c) {
  constexpr int flags_at = 4;  // the text has the halves of the offset as one argument
  const string_view asked = c.argument(row.at.bytes), offset = c.argument(row.at.offset);
  const auto target = target_of(c.argument(row.at.descriptor));
  if (!target) return not_understood("no descriptor");
  if (!moves_storage(*target)) return {};
  Event event = event_of(row.effect == Effect::read ? Call::read : Call::write);
  event.descriptor = target->descriptor;
  event.bytes = event.result = c.result;
  event.flags = row.event_flags;
  if (asked.empty()) event.flags |= flag::vector;
  if (const auto bytes = strace_size(asked)) event.bytes = *bytes;
  if (!offset.empty()) {
    const auto at = strace_number(offset);
    if (!at || *at < -1) return not_understood("no offset");
    // preadv2 and pwritev2: -1 is the descriptor's position.
    if (*at >= 0) event.offset = static_cast<uint64_t>(*at);
    if (*at >= 0 && event.offset > largest_offset - c.result) {
      return not_understood("a place beyond 2^63 bytes");
    }
  }
  if (strace_has_flag(c.argument(flags_at), "RWF_APPEND")) event.flags |= flag::append;
  if (strace_has_flag(c.argument(flags_at), "RWF_SYNC")) event.flags |= flag::synchronous;
  give(event);
  return {};
}

// Handles "io_submit(0x7f.., 2, [{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3</a>, aio_nbytes=512,
// aio_offset=0}, {...}]) = 2". The results are in other lines, so each request counts with its
// requested bytes.
StraceFiles::Understood StraceFiles::submit(const StraceCall& c) {
  string_view blocks = c.argument(2);
  uint64_t left = c.result;
  for (; left > 0; --left) {
    const auto block = strace_member(blocks);
    if (!block) break;
    blocks.remove_prefix(static_cast<size_t>(block->data() + block->size() - blocks.data()));
    const auto field = [&](string_view name) { return strace_field(*block, name); };
    const string_view operation = field("aio_lio_opcode");
    const bool reads = operation.starts_with("IOCB_CMD_PREAD");
    const bool writes = operation.starts_with("IOCB_CMD_PWRITE");
    std::optional<uint64_t> bytes = strace_size(field("aio_nbytes"));
    if (operation.ends_with("V")) {
      bytes = 0;
      string_view vectors = field("aio_buf");
      while (const auto vector = strace_member(vectors)) {
        vectors.remove_prefix(
            static_cast<size_t>(vector->data() + vector->size() - vectors.data()));
        *bytes += strace_size(strace_field(*vector, "iov_len")).value_or(0);
      }
    }
    const auto offset = strace_size(field("aio_offset"));
    const auto target = target_of(field("aio_fildes"));
    if ((!reads && !writes) || !bytes || !offset || !target || *bytes > largest_offset ||
        *offset > largest_offset - *bytes) {
      count(Unseen::ring_other);
      continue;
    }
    if (!moves_storage(*target)) continue;
    Event event = event_of(reads ? Call::read : Call::write);
    event.descriptor = target->descriptor;
    event.bytes = event.result = *bytes;
    event.offset = *offset;
    event.flags |= flag::unconfirmed;
    count(Unseen::ring_unconfirmed);
    give(event);
  }
  count(Unseen::ring_other, left);  // the log shows addresses, or not all requests
  return {};
}

StraceFiles::Understood StraceFiles::seek(const CallArguments& at, const StraceCall& c) {
  uint64_t to = c.result;
  if (at.structure != CallArguments::none) {
    const auto position = strace_bracketed(c.argument(at.structure));
    if (!position) return not_understood("no position");
    to = *position;
  }
  const auto target = target_of(c.argument(at.descriptor));
  if (!target || to > largest_offset) return not_understood("no descriptor, or no position");
  if (!target->storage) return {};
  Event event = event_of(Call::seek);
  event.descriptor = target->descriptor;
  event.result = to;
  give(event);
  const auto from_end = strace_number(c.argument(at.offset));
  if (c.argument(at.operation) != "SEEK_END" || !from_end) return {};
  // The difference may wrap around: nonsense becomes a size that is out of range.
  const uint64_t size = to - static_cast<uint64_t>(*from_end);
  if (size <= largest_offset) change(Call::size, target->file, size);
  return {};
}

StraceFiles::Understood StraceFiles::copy(const CallRow& row, const StraceCall& c) {
  const CallArguments& at = row.at;
  const auto source = target_of(c.argument(at.descriptor));
  const auto sink = target_of(c.argument(at.descriptor2));
  if (!source || !sink) return not_understood("no two descriptors");
  Event event = event_of(Call::copy);
  event.result = c.result;
  event.bytes = strace_size(c.argument(at.bytes)).value_or(c.result);
  const uint64_t read_at = strace_bracketed(c.argument(at.offset_at)).value_or(no_offset);
  const uint64_t written_at = strace_bracketed(c.argument(at.offset2_at)).value_or(no_offset);
  for (const uint64_t offset : {read_at, written_at}) {
    if (offset != no_offset && offset > largest_offset - c.result) {
      return not_understood("a place beyond 2^63 bytes");
    }
  }
  event.descriptor = source->descriptor;
  event.offset = read_at;
  if (source->storage && sink->storage) {
    event.descriptor2 = sink->descriptor;
    event.offset2 = written_at;
  } else if (source->storage) {
    event.call = Call::read;
  } else if (sink->storage) {
    event.call = Call::write;
    event.descriptor = sink->descriptor;
    event.offset = written_at;
  } else {
    count(source->known && sink->known ? Unseen::stream_calls : Unseen::unknown_descriptors);
    return {};
  }
  if (event.call == Call::copy) event.flags = row.event_flags;
  give(event);
  return {};
}

// ---- the files themselves

void StraceFiles::change(Call call, uint32_t file, uint64_t result) {
  if (!is_storage_file(file)) return;
  Event event = event_of(call);
  event.file = file;
  event.result = result;
  give(event);
}

void StraceFiles::learn_size(uint32_t file, string_view what, string_view member) {
  const string_view mode = strace_member(what, member == "st_size" ? "st_mode" : "stx_mode");
  if (!mode.starts_with("S_IFREG")) return;
  if (const auto bytes = strace_size(strace_member(what, member))) change(Call::size, file, *bytes);
}

// Handles fstat(3, ...), stat("a", ...), fstatat(3, "a", ...) and fstatat(3, "", ...).
StraceFiles::Understood StraceFiles::add_size(const CallRow& row, const StraceCall& c) {
  const CallArguments& at = row.at;
  const string_view what = c.argument(at.structure);
  const string_view member = row.name == "statx" ? "stx_size" : "st_size";
  const bool by_descriptor = at.path == CallArguments::none;
  Event stat = event_of(Call::stat);
  const bool without_name = at.folder != CallArguments::none && c.argument(at.path) == "\"\"";
  if (by_descriptor || without_name) {
    const auto target = target_of(c.argument(by_descriptor ? at.descriptor : at.folder));
    if (by_descriptor && !target) return not_understood("no descriptor");
    if (by_descriptor && !target->storage) return {};
    if (target && target->storage) learn_size(target->file, what, member);
    if (target && target->storage) stat.file = target->file;
  } else if (const auto path = absolute(c.argument(at.folder), c.argument(at.path))) {
    stat.file = file_named(*path);
    if (stat.file != 0) learn_size(stat.file, what, member);
  }
  give(stat);
  return {};
}

StraceFiles::Understood StraceFiles::truncate(const CallArguments& at, const StraceCall& c) {
  const auto bytes = strace_size(c.argument(at.bytes));
  if (at.path != CallArguments::none) {
    const auto path = absolute({}, c.argument(at.path));
    if (!path || !bytes) return not_understood("no name, or no size");
    if (const uint32_t file = file_named(*path)) change(Call::truncate, file, *bytes);
    return {};
  }
  const auto target = target_of(c.argument(at.descriptor));
  if (!target || !bytes) return not_understood("no descriptor, or no size");
  if (target->storage) change(Call::truncate, target->file, *bytes);
  return {};
}

StraceFiles::Understood StraceFiles::sync(const CallRow& row, const StraceCall& c) {
  if (row.at.descriptor == CallArguments::none) {
    give(event_of(Call::sync));
    return {};
  }
  const auto target = target_of(c.argument(row.at.descriptor));
  if (!target) return not_understood("no descriptor");
  if (!target->storage) return {};
  Event event = event_of(Call::sync);
  event.descriptor = target->descriptor;
  event.file = target->file;
  event.flags = row.event_flags;
  give(event);
  return {};
}

StraceFiles::Understood StraceFiles::allocate(const CallArguments& at, const StraceCall& c) {
  const auto target = target_of(c.argument(at.descriptor));
  const auto offset = strace_size(c.argument(at.offset)), bytes = strace_size(c.argument(at.bytes));
  if (!target || !offset || !bytes) return not_understood("no descriptor, or no range");
  if (!target->storage) return {};
  const string_view mode = c.argument(at.flags);
  Event event = event_of(Call::allocate);
  event.descriptor = target->descriptor;
  event.file = target->file;
  event.offset = *offset;
  event.bytes = *bytes;
  event.flags = flag::size_unknown;
  if (strace_has_flag(mode, "FALLOC_FL_KEEP_SIZE")) event.flags |= flag::keep_size;
  if (strace_has_flag(mode, "FALLOC_FL_PUNCH_HOLE")) event.flags |= flag::punch;
  // These modes move the bytes behind the range. The next call that returns the size reports it.
  if (strace_has_flag(mode, "FALLOC_FL_COLLAPSE_RANGE") ||
      strace_has_flag(mode, "FALLOC_FL_INSERT_RANGE")) {
    event.flags |= flag::keep_size;
  }
  give(event);
  return {};
}

StraceFiles::Understood StraceFiles::map(const CallRow& row, const StraceCall& c) {
  const CallArguments& at = row.at;
  const bool in_pages = row.name == "mmap2";
  const string_view descriptor = c.argument(at.descriptor), access = c.argument(at.operation);
  if (strace_has_flag(c.argument(at.flags), "MAP_ANONYMOUS") || descriptor.starts_with("-1")) {
    return {};
  }
  const auto target = target_of(descriptor);
  const auto bytes = strace_size(c.argument(at.bytes)), offset = strace_size(c.argument(at.offset));
  if (!target || !bytes || !offset) return not_understood("no descriptor, or no range");
  if (!target->storage) return {};
  count(Unseen::mapped_files);
  Event event = event_of(Call::map);
  event.descriptor = target->descriptor;
  event.file = target->file;
  event.bytes = *bytes;
  event.offset = in_pages ? std::min(*offset, largest_offset / 4096) * 4096 : *offset;
  if (strace_has_flag(access, "PROT_READ")) event.flags |= flag::read;
  if (strace_has_flag(access, "PROT_WRITE")) event.flags |= flag::write;
  give(event);
  return {};
}

void StraceFiles::move_name(uint32_t file, const std::string& path) {
  const auto before = by_path_.find(names_[file - 1].path);
  if (before != by_path_.end() && before->second == file) by_path_.erase(before);
  by_path_[path] = file;
  names_[file - 1] = {.path = path, .annotation = {}};
  Event event = event_of(Call::rename);
  event.file = file;
  event.path = add_string(path);
  give(event);
}

StraceFiles::Understood StraceFiles::rename(const std::optional<std::string>& from,
                                            const std::optional<std::string>& to,
                                            string_view flags) {
  if (!from || !to) return not_understood("no two names");
  const uint32_t file = file_named(*from), replaced = file_named(*to);
  if (strace_has_flag(flags, "RENAME_EXCHANGE")) {
    if (file != 0) by_path_.erase(*from);
    if (replaced != 0) by_path_.erase(*to);
    if (file != 0) move_name(file, *to);
    if (replaced != 0) move_name(replaced, *from);
    return {};
  }
  if (replaced != 0 && replaced != file) (void)unlink(to);
  if (file != 0) move_name(file, *to);
  return {};
}

StraceFiles::Understood StraceFiles::link(const std::optional<std::string>& from,
                                          const std::optional<std::string>& to) {
  if (!from || !to) return not_understood("no two names");
  if (const uint32_t file = file_named(*from)) by_path_[*to] = file;
  return {};
}

StraceFiles::Understood StraceFiles::unlink(const std::optional<std::string>& path) {
  if (!path) return not_understood("no name");
  const auto found = by_path_.find(*path);
  if (found == by_path_.end()) return {};
  const uint32_t file = found->second;
  by_path_.erase(found);
  Event event = event_of(Call::unlink);
  event.file = file;
  event.path = add_string(*path);
  give(event);
  return {};
}

}  // namespace penstock::trace
