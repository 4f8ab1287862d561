#pragma once

// What the calls of an strace log say of files: which descriptor stands for which file, under which
// name, and what was done with it. Whose call it is, and when, is known here (Context);
// import_strace finds that out.
//
// Kept is what the events need and a line does not say: the descriptors of each process
// (Descriptors, as the conversion has them), its folder (relative names), and the file behind a
// name. With -yy strace tells the file of each descriptor; that is believed where it is there, also
// for descriptors that came unseen, or where only some calls were traced (-e trace=read,write).
// Positions and sizes are left to the conversion.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/calls/call_table.h"
#include "trace/follow/descriptors.h"
#include "trace/import/log_source.h"
#include "trace/import/strace_line.h"

namespace penstock::trace {

class StraceFiles : public LogSource {
 protected:
  using LogSource::LogSource;

  // The call that is being told.
  struct Context {
    int32_t thread = 0;
    int32_t process = 0;
    uint64_t start_ns = 0;
    uint64_t latency_ns = 0;
  };
  // Nothing, or why a call cannot be understood.
  using Understood = std::expected<void, const char*>;
  static std::unexpected<const char*> not_understood(const char* why) {
    return std::unexpected(why);
  }

  // Gives the events of a call that did not fail. REQUIRES: it makes no process.
  Understood tell(const Context& context, const CallRow& row, const StraceCall& call);
  // The process has made a child that begins with its folder, and its descriptors or a copy of
  // them.
  void fork(const Context& context, int32_t child, bool shares_descriptors);
  // The last thread of a process has ended.
  void exit(int32_t process, int32_t thread, uint64_t at_ns);
  // More descriptors were open than can be followed.
  bool overflowed() const { return descriptors_.overflowed(); }

 private:
  struct Name {
    std::string path;
    std::string told;  // by -y, when it was looked at last
  };
  struct Target {
    int32_t descriptor = -1;
    uint32_t file = 0;
    bool known = false;  // what the descriptor stands for
    bool storage = false;
  };

  Event event_of(Call call) const;
  Understood tell(const CallRow& row, const StraceCall& c);

  uint32_t new_file(FileKind kind, const std::string& path);
  // 0: none of that name.
  uint32_t file_named(const std::string& path) const;
  uint32_t file_at(FileKind kind, const std::string& path);
  bool is_storage_file(uint32_t file) const;
  // The folder that a descriptor (or AT_FDCWD, or nothing) stands for; empty: not known.
  std::string folder_of(std::string_view text);
  // The whole name, as far as the log tells it. ".." stays: what it leads to depends on links.
  std::optional<std::string> absolute(std::string_view folder, std::string_view quoted);
  Target target(int32_t descriptor);
  // What a descriptor stands for: as we know, and as -y tells.
  std::optional<Target> target_of(std::string_view text);
  // A descriptor that stands for no storage.
  void open_other(int32_t descriptor, bool close_on_exec);
  Understood open_pair(const StraceCall& c);
  Understood open(const CallArguments& at, const StraceCall& c);
  void close(int32_t descriptor);
  Understood close_range(const StraceCall& c);
  Understood duplicate(const StraceCall& c, bool close_on_exec);
  Understood fcntl(const StraceCall& c);
  // Counts what is no storage's; true: it is storage's.
  bool moves_storage(const Target& target);
  Understood transfer(const CallRow& row, const StraceCall& c);
  Understood submit(const StraceCall& c);
  Understood seek(const CallArguments& at, const StraceCall& c);
  Understood copy(const CallRow& row, const StraceCall& c);
  void change(Call call, uint32_t file, uint64_t result);
  void learn_size(uint32_t file, std::string_view what, std::string_view member);
  Understood tell_size(const CallRow& row, const StraceCall& c);
  Understood truncate(const CallArguments& at, const StraceCall& c);
  Understood sync(const CallRow& row, const StraceCall& c);
  Understood allocate(const CallArguments& at, const StraceCall& c);
  Understood map(const CallRow& row, const StraceCall& c);
  // The file is called otherwise from now on.
  void move_name(uint32_t file, const std::string& path);
  Understood rename(const std::optional<std::string>& from, const std::optional<std::string>& to,
                    std::string_view flags);
  Understood link(const std::optional<std::string>& from, const std::optional<std::string>& to);
  Understood unlink(const std::optional<std::string>& path);

  Context context_;
  Descriptors descriptors_;  // position and append are not kept here; file 0: no storage
  bool opens_seen_ = false;
  std::vector<Name> names_;  // by file - 1
  std::unordered_map<std::string, uint32_t> by_path_;
  std::unordered_map<int32_t, std::string> folders_;  // by process; none: not known
};

}  // namespace penstock::trace
