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

std::string_view name_of(Unseen unseen) {
  switch (unseen) {
    case Unseen::dropped_events:
      return "events lost";
    case Unseen::failed_calls:
      return "calls that failed, left out";
    case Unseen::stream_calls:
      return "reads and writes of pipes, sockets and terminals, left out";
    case Unseen::mapped_files:
      return "mappings of files, whose faults cannot be seen";
    case Unseen::polled_rings:
      return "io_urings whose requests could not be seen";
    case Unseen::ring_unconfirmed:
      return "requests of io_uring or AIO whose result was not seen";
    case Unseen::ring_other:
      return "requests of io_uring or AIO that are of other kinds or could not be seen, left out";
    case Unseen::unknown_descriptors:
      return "calls on descriptors that nothing is known about";
    case Unseen::untraced_processes:
      return "processes that could not be followed";
    case Unseen::unknown_sharing:
      return "descriptors that may share a position with others (kcmp() is not allowed here)";
    case Unseen::unknown_names:
      return "files renamed, removed or truncated by a name that could not be followed";
    case Unseen::untimed_lines:
      return "lines of the log have no time: strace -f -ttt -T -yy -o FILE tells times, latencies, "
             "processes and files";
    case Unseen::count:
      break;
  }
  return {};
}

}  // namespace penstock::trace
