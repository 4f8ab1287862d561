#include "trace/import/strace_files.h"

#include <algorithm>
#include <cerrno>
#include <limits>

namespace penstock::trace {
namespace {

using std::string_view;

struct Annotation {
  FileKind kind = FileKind::other;
  std::string path;
};

// Parses a descriptor's annotation by -y or -yy: "/tmp/a", "/dev/sda<block 8:0>", "pipe:[12]",
// "TCP:[...]".
Annotation parse_annotation(string_view text) {
  Annotation parsed;
  // -xx writes all of it in hexadecimal, including the device's angle bracket.
  const bool is_escaped = text.starts_with("\\x");
  const std::string plain = is_escaped ? strace_unescaped(text) : std::string();
  if (is_escaped) text = plain;
  if (!text.starts_with('/')) {
    parsed.kind = text.starts_with("pipe:")            ? FileKind::pipe
                  : text.starts_with("anon_inode:[io") ? FileKind::ring
                  : text.starts_with("anon_inode:")    ? FileKind::other
                                                       : FileKind::socket;
    return parsed;
  }
  const size_t angle = std::min(text.find('<'), text.size());
  const string_view path = text.substr(0, angle);
  parsed.path = is_escaped ? std::string(path) : strace_unescaped(path);
  const string_view device = text.substr(angle);
  parsed.kind = device.starts_with("<char")    ? FileKind::character_device
                : device.starts_with("<block") ? FileKind::block_device
                                               : kind_of_path(parsed.path);
  return parsed;
}

}  // namespace

StraceFiles::Understood StraceFiles::add(const Context& context, const CallRow& row,
                                         const StraceCall& call) {
  context_ = context;
  return add(row, call);
}

void StraceFiles::fail(const Context& context, const CallRow& row, const StraceCall& c) {
  context_ = context;
  const bool opens = row.effect == Effect::open;
  const bool looks = row.effect == Effect::read_size || row.effect == Effect::stat;
  const auto name =
      opens || looks ? absolute(c.argument(row.at.folder), c.argument(row.at.path)) : std::nullopt;
  if (!name) {
    count(Unseen::failed_calls);
    return;
  }
  Event event = event_of(opens ? Call::open : Call::stat);
  event.flags = flag::failed;
  event.result = ENOENT;
  const auto known = missing_.find(*name);
  if (known != missing_.end()) {
    event.path = known->second;
  } else if (missing_.size() < missing_max) {
    event.path = missing_[*name] = add_string(*name);
  }
  give(event);
}

void StraceFiles::fork(const Context& context, int32_t child, bool shares_descriptors) {
  context_ = context;
  if (const auto folder = folders_.find(context.process); folder != folders_.end()) {
    const std::string inherited = folder->second;
    folders_[child] = inherited;
  }
  descriptors_.fork(context.process, child, shares_descriptors);
  Event event = event_of(Call::fork);
  event.child = child;
  if (shares_descriptors) event.flags = flag::shares_descriptors;
  give(event);
}

void StraceFiles::exit(int32_t process, int32_t thread, uint64_t at_ns) {
  folders_.erase(process);
  descriptors_.exit(process);
  give({.start_ns = at_ns, .process = process, .thread = thread, .call = Call::exit});
}

Event StraceFiles::event_of(Call call) const {
  return {.start_ns = context_.start_ns,
          .latency_ns = context_.latency_ns,
          .process = context_.process,
          .thread = context_.thread,
          .call = call};
}

StraceFiles::Understood StraceFiles::add(const CallRow& row, const StraceCall& c) {
  const CallArguments& at = row.at;
  const auto first_name = [&] { return absolute(c.argument(at.folder), c.argument(at.path)); };
  const auto second_name = [&] { return absolute(c.argument(at.folder2), c.argument(at.path2)); };
  switch (row.effect) {
    case Effect::open:
      return open(at, c);
    case Effect::close: {
      const auto descriptor = strace_descriptor(c.argument(at.descriptor));
      if (!descriptor) return not_understood("no descriptor");
      close(descriptor->number);
      return {};
    }
    case Effect::close_range:
      return close_range(c);
    case Effect::duplicate:
      return duplicate(c, strace_has_flag(c.argument(at.flags), "O_CLOEXEC"));
    case Effect::set_flags:
      return fcntl(c);
    case Effect::read:
    case Effect::write:
      return transfer(row, c);
    case Effect::seek:
      return seek(at, c);
    case Effect::copy:
      return copy(row, c);
    case Effect::truncate_path:
    case Effect::truncate:
      return truncate(at, c);
    case Effect::allocate:
      return allocate(at, c);
    case Effect::sync:
      return sync(row, c);
    case Effect::rename:
      return rename(first_name(), second_name(), c.argument(at.flags));
    case Effect::link:
      return link(first_name(), second_name());
    case Effect::unlink:
      return unlink(first_name());
    case Effect::map:
      return map(row, c);
    case Effect::exec: {
      const auto program = strace_string(c.argument(at.path));
      descriptors_.exec(context_.process);
      Event event = event_of(Call::exec);
      if (program) event.path = add_string(*program);
      give(event);
      return {};
    }
    case Effect::change_folder:
      if (at.path == CallArguments::none) {
        folders_[context_.process] = folder_of(c.argument(at.folder));
      } else if (const auto path = first_name()) {
        folders_[context_.process] = *path;
      }
      return {};
    case Effect::read_size:
      return add_size(row, c);
    case Effect::stat:
      give(event_of(Call::stat));
      return {};
    case Effect::make_descriptor:
    case Effect::ring_setup: {
      if (c.result > std::numeric_limits<int32_t>::max()) return not_understood("no descriptor");
      const bool close_on_exec = std::ranges::any_of(
          c.arguments, [](string_view text) { return text.find("CLOEXEC") != text.npos; });
      open_other(static_cast<int32_t>(c.result), close_on_exec);
      return {};
    }
    case Effect::make_descriptors:
      return open_pair(c);
    case Effect::ring_enter:
      if (const auto asked = strace_number(c.argument(at.bytes)); asked && *asked > 0) {
        count(Unseen::ring_unconfirmed, std::min(c.result, static_cast<uint64_t>(*asked)));
      }
      return {};
    case Effect::aio_submit:
      return submit(c);
    case Effect::nothing:
    case Effect::fork:           // handled by made()
    case Effect::ring_register:  // missing in logs
      break;
  }
  return {};
}

// ---- files and names

uint32_t StraceFiles::new_file(FileKind kind, const std::string& path) {
  const uint32_t file = add_file(kind, path);
  names_.push_back({.path = path, .annotation = {}});
  return file;
}

uint32_t StraceFiles::file_named(const std::string& path) const {
  const auto found = by_path_.find(path);
  return found == by_path_.end() ? 0 : found->second;
}

uint32_t StraceFiles::file_at(FileKind kind, const std::string& path) {
  uint32_t& file = by_path_[path];
  if (file == 0) file = new_file(kind, path);
  return file;
}

bool StraceFiles::is_storage_file(uint32_t file) const {
  return file != 0 && is_storage(files[file - 1].kind);
}

std::string StraceFiles::folder_of(string_view text) {
  const auto descriptor = strace_descriptor(text);
  if (descriptor && !descriptor->annotation.empty()) {
    std::string annotation = strace_unescaped(descriptor->annotation);
    if (annotation.starts_with('/')) return annotation;
  }
  if (!descriptor || descriptor->number == StraceDescriptor::at_current_folder) {
    const auto found = folders_.find(context_.process);
    return found == folders_.end() ? std::string() : found->second;
  }
  const Description* known = descriptors_.find(context_.process, descriptor->number);
  return known == nullptr || known->file == 0 ? std::string() : names_[known->file - 1].path;
}

std::optional<std::string> StraceFiles::absolute(string_view folder, string_view quoted) {
  auto name = strace_string(quoted);
  if (!name) return {};
  string_view rest = *name;
  while (rest.starts_with("./")) {
    rest.remove_prefix(2);
    while (rest.starts_with('/')) rest.remove_prefix(1);
  }
  if (rest == ".") rest = {};
  if (rest.starts_with('/')) return std::string(rest);
  std::string base = folder_of(folder);
  if (base.empty()) return std::string(rest);
  if (rest.empty()) return base;
  if (!base.ends_with('/')) base += '/';
  base += rest;
  if (base.size() > string_bytes_max) return {};  // no kernel accepts such a name
  return base;
}

StraceFiles::Target StraceFiles::target(int32_t descriptor) {
  const Description* found = descriptors_.find(context_.process, descriptor);
  if (found == nullptr) return {.descriptor = descriptor};
  return {.descriptor = descriptor,
          .file = found->file,
          .known = true,
          .storage = is_storage_file(found->file)};
}

std::optional<StraceFiles::Target> StraceFiles::target_of(string_view text) {
  const auto descriptor = strace_descriptor(text);
  if (!descriptor || descriptor->number < 0) return {};
  Target now = target(descriptor->number);
  if (descriptor->annotation.empty()) return now;
  if (now.file != 0 && names_[now.file - 1].annotation == descriptor->annotation) return now;
  const Annotation annotation = parse_annotation(descriptor->annotation);
  if (now.known && now.file != 0 && names_[now.file - 1].path == annotation.path) {
    names_[now.file - 1].annotation = descriptor->annotation;
    return now;
  }
  if (!penstock::trace::is_storage(annotation.kind)) {
    if (!now.known || now.storage) open_other(descriptor->number, false);
    return target(descriptor->number);
  }
  if (now.storage && opens_seen_ && file_named(annotation.path) == 0) {
    // The open was seen: the file has another name now.
    move_name(now.file, annotation.path);
    names_[now.file - 1].annotation = descriptor->annotation;
    return now;
  }
  // The descriptor came unseen.
  const uint32_t file = file_at(annotation.kind, annotation.path);
  names_[file - 1].annotation = descriptor->annotation;
  descriptors_.open(context_.process, descriptor->number, {.file = file, .writes = true}, false);
  Event event = event_of(Call::describe);
  event.latency_ns = 0;
  event.descriptor = descriptor->number;
  event.file = file;
  event.flags = flag::read | flag::write | flag::size_unknown;
  give(event);
  return target(descriptor->number);
}

void StraceFiles::open_other(int32_t descriptor, bool close_on_exec) {
  const Target before = target(descriptor);
  if (before.file != 0) close(descriptor);
  descriptors_.open(context_.process, descriptor, {}, close_on_exec);
}

StraceFiles::Understood StraceFiles::open_pair(const StraceCall& c) {
  for (size_t i = 0; i < c.argument_count; ++i) {
    string_view text = c.arguments[i];
    if (!text.starts_with('[') || !text.ends_with(']')) continue;
    text = text.substr(1, text.size() - 2);
    const bool close_on_exec = std::ranges::any_of(
        c.arguments, [](string_view flags) { return flags.find("CLOEXEC") != flags.npos; });
    // "7<pipe:[12]>, 8<pipe:[12]>": the second one is behind the last comma and space.
    const size_t comma = text.rfind(", ");
    if (text.ends_with("...")) return {};  // -s 1: annotations at their uses have their files
    if (comma == text.npos) break;
    const auto first = strace_descriptor(text.substr(0, comma));
    const auto second = strace_descriptor(text.substr(comma + 2));
    if (!first || !second || first->number < 0 || second->number < 0) break;
    open_other(first->number, close_on_exec);
    open_other(second->number, close_on_exec);
    return {};
  }
  return not_understood("no two descriptors");
}

StraceFiles::Understood StraceFiles::open(const CallArguments& at, const StraceCall& c) {
  if (c.result > std::numeric_limits<int32_t>::max()) return not_understood("no descriptor");
  const auto descriptor = static_cast<int32_t>(c.result);
  opens_seen_ = true;
  Annotation annotation;
  if (!c.result_annotation.empty()) {
    annotation = parse_annotation(c.result_annotation);
  } else {
    auto path = absolute(c.argument(at.folder), c.argument(at.path));
    if (!path) return not_understood("no name");
    annotation = {.kind = kind_of_path(*path), .path = std::move(*path)};
  }
  string_view flags = c.argument(at.flags);
  if (at.structure != CallArguments::none) {
    flags = strace_member(c.argument(at.structure), "flags");
  } else if (at.flags == CallArguments::none) {
    flags = "O_WRONLY|O_CREAT|O_TRUNC";  // creat()
  }
  const auto has = [&](string_view flag) { return strace_has_flag(flags, flag); };
  const bool close_on_exec = has("O_CLOEXEC");
  const bool unnamed = has("O_TMPFILE") || has("__O_TMPFILE");
  if (!unnamed && has("O_DIRECTORY")) annotation.kind = FileKind::directory;
  if (annotation.path.empty()) {
    open_other(descriptor, close_on_exec);
    return {};
  }
  const bool writes = has("O_WRONLY") || has("O_RDWR");
  const bool is_new = unnamed || (has("O_CREAT") && has("O_EXCL"));
  uint32_t file;
  if (unnamed) {
    if (c.result_annotation.empty()) annotation.path += "/(unnamed)";
    file = new_file(annotation.kind, annotation.path);
  } else if (is_new) {
    file = by_path_[annotation.path] = new_file(annotation.kind, annotation.path);
  } else {
    file = file_at(annotation.kind, annotation.path);
  }
  if (!c.result_annotation.empty()) names_[file - 1].annotation = c.result_annotation;

  Event event = event_of(Call::open);
  event.descriptor = descriptor;
  event.file = file;
  event.flags = writes ? flag::write : flag::read;
  if (has("O_RDWR")) event.flags |= flag::read;
  if (has("O_APPEND")) event.flags |= flag::append;
  if (has("O_DIRECT")) event.flags |= flag::direct;
  if (has("O_SYNC") || has("O_DSYNC")) event.flags |= flag::synchronous;
  if (has("O_CREAT")) event.flags |= flag::creates;
  if (close_on_exec) event.flags |= flag::close_on_exec;
  if (has("O_TRUNC") && writes) {
    event.flags |= flag::truncates;
  } else if (!is_new) {
    event.flags |= flag::size_unknown;
  }
  descriptors_.open(context_.process, descriptor, {.file = file, .writes = writes}, close_on_exec);
  give(event);
  return {};
}

void StraceFiles::close(int32_t descriptor) {
  if (target(descriptor).file != 0) {
    Event event = event_of(Call::close);
    event.descriptor = descriptor;
    give(event);
  }
  descriptors_.close(context_.process, descriptor);
}

StraceFiles::Understood StraceFiles::close_range(const StraceCall& c) {
  const auto first = strace_descriptor(c.argument(0)), last = strace_descriptor(c.argument(1));
  if (!first || !last) return not_understood("no range of descriptors");
  const bool marks = strace_has_flag(c.argument(2), "CLOSE_RANGE_CLOEXEC");
  // CLOSE_RANGE_UNSHARE gives a process a table of its own, as exec does. It is rare, and not followed
  // here.
  if (marks) {
    descriptors_.mark_range(context_.process, first->number, last->number, true);
  } else {
    descriptors_.close_range(context_.process, first->number, last->number);
  }
  Event event = event_of(Call::close_range);
  event.descriptor = first->number;
  event.descriptor2 = last->number;
  if (marks) event.flags = flag::close_on_exec;
  give(event);
  return {};
}

StraceFiles::Understood StraceFiles::duplicate(const StraceCall& c, bool close_on_exec) {
  const auto from = target_of(c.argument(0));
  if (!from || c.result > std::numeric_limits<int32_t>::max()) {
    return not_understood("no descriptor");
  }
  const auto to = static_cast<int32_t>(c.result);
  if (to == from->descriptor) return {};
  Event event = event_of(Call::duplicate);
  event.descriptor = from->descriptor;
  event.descriptor2 = to;
  if (close_on_exec) event.flags = flag::close_on_exec;
  give(event);
  if (!descriptors_.share(context_.process, to, context_.process, from->descriptor,
                          close_on_exec)) {
    descriptors_.close(context_.process, to);
  }
  return {};
}

StraceFiles::Understood StraceFiles::fcntl(const StraceCall& c) {
  const string_view what = c.argument(1);
  if (what == "F_DUPFD" || what == "F_DUPFD_CLOEXEC") {
    return duplicate(c, what == "F_DUPFD_CLOEXEC");
  }
  if (what != "F_SETFD" && what != "F_SETFL") return {};
  const auto target = target_of(c.argument(0));
  if (!target) return not_understood("no descriptor");
  Event event = event_of(Call::set_flags);
  event.descriptor = target->descriptor;
  if (what == "F_SETFD") {
    const bool close_on_exec = strace_has_flag(c.argument(2), "FD_CLOEXEC");
    descriptors_.mark_range(context_.process, target->descriptor, target->descriptor,
                            close_on_exec);
    event.flags = flag::descriptor_flags | (close_on_exec ? flag::close_on_exec : 0);
  } else {
    event.flags = flag::status_flags;
    if (strace_has_flag(c.argument(2), "O_APPEND")) event.flags |= flag::append;
    if (strace_has_flag(c.argument(2), "O_DIRECT")) event.flags |= flag::direct;
  }
  if (target->storage) give(event);
  return {};
}

}  // namespace penstock::trace
