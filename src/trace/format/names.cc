// Names of a trace's enumerators, as commands print them.

#include "trace/format/format.h"

namespace penstock::trace {

std::string_view name_of(Backend backend) {
  switch (backend) {
    case Backend::unknown:
      return "unknown";
    case Backend::ptrace:
      return "ptrace";
    case Backend::bpf:
      return "bpf";
    case Backend::import:
      return "import";
    case Backend::synthetic:
      return "synthetic";
  }
  return "unknown";
}

std::string_view name_of(Call call) {
  switch (call) {
    case Call::open:
      return "open";
    case Call::describe:
      return "describe";
    case Call::close:
      return "close";
    case Call::close_range:
      return "close_range";
    case Call::duplicate:
      return "dup";
    case Call::set_flags:
      return "fcntl";
    case Call::read:
      return "read";
    case Call::write:
      return "write";
    case Call::seek:
      return "seek";
    case Call::copy:
      return "copy";
    case Call::truncate:
      return "truncate";
    case Call::allocate:
      return "allocate";
    case Call::sync:
      return "sync";
    case Call::rename:
      return "rename";
    case Call::unlink:
      return "unlink";
    case Call::map:
      return "map";
    case Call::size:
      return "size";
    case Call::stat:
      return "stat";
    case Call::fork:
      return "fork";
    case Call::exec:
      return "exec";
    case Call::exit:
      return "exit";
    case Call::ring_setup:
      return "ring_setup";
  }
  return {};
}

std::string_view name_of(CallKind kind) {
  switch (kind) {
    case CallKind::read:
      return "read";
    case CallKind::write:
      return "write";
    case CallKind::copy:
      return "copy";
    case CallKind::sync:
      return "sync";
    case CallKind::open:
      return "open";
    case CallKind::stat:
      return "stat";
    case CallKind::failed:
      return "failed";
    case CallKind::other:
      return "other";
    case CallKind::count:
      break;
  }
  return {};
}

std::string_view name_of(FileKind kind) {
  switch (kind) {
    case FileKind::regular:
      return "file";
    case FileKind::block_device:
      return "block device";
    case FileKind::directory:
      return "directory";
    case FileKind::pipe:
      return "pipe";
    case FileKind::socket:
      return "socket";
    case FileKind::character_device:
      return "character device";
    case FileKind::pseudo:
      return "pseudo file";
    case FileKind::ring:
      return "io_uring";
    case FileKind::other:
      return "other";
  }
  return "other";
}

std::string_view name_of(Unseen unseen, uint64_t number) {
  const auto form = [&](std::string_view one, std::string_view many) {
    return number == 1 ? one : many;
  };
  switch (unseen) {
    case Unseen::dropped_events:
      return form("event lost", "events lost");
    case Unseen::failed_calls:
      return form("call that failed, left out", "calls that failed, left out");
    case Unseen::stream_calls:
      return form("read or write of a pipe, socket or terminal, left out",
                  "reads and writes of pipes, sockets and terminals, left out");
    case Unseen::mapped_files:
      return form("mapping of a file, whose faults cannot be seen",
                  "mappings of files, whose faults cannot be seen");
    case Unseen::polled_rings:
      return form("io_uring whose requests could not be seen",
                  "io_urings whose requests could not be seen");
    case Unseen::ring_unconfirmed:
      return form("request of io_uring or AIO whose result was not seen",
                  "requests of io_uring or AIO whose result was not seen");
    case Unseen::ring_other:
      return form(
          "request of io_uring or AIO that is of another kind or could not be seen, left out",
          "requests of io_uring or AIO that are of other kinds or could not be seen, left out");
    case Unseen::unknown_descriptors:
      return form("call on a descriptor that nothing is known about",
                  "calls on descriptors that nothing is known about");
    case Unseen::untraced_processes:
      return form("process that could not be followed", "processes that could not be followed");
    case Unseen::unknown_sharing:
      return form("descriptor that may share a position with others (kcmp() is not allowed here)",
                  "descriptors that may share a position with others (kcmp() is not allowed here)");
    case Unseen::unknown_names:
      return form("file renamed, removed or truncated by a name that could not be followed",
                  "files renamed, removed or truncated by a name that could not be followed");
    case Unseen::untimed_lines:
      return form(
          "line of the log has no time: strace -f -ttt -T -yy -o FILE adds times, "
          "latencies, processes and files",
          "lines of the log have no time: strace -f -ttt -T -yy -o FILE adds times, "
          "latencies, processes and files");
    case Unseen::count:
      break;
  }
  return {};
}

}  // namespace penstock::trace
