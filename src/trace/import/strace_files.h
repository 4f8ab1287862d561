#pragma once

// The files of an strace log: makes events of calls, with the file of each descriptor and its name.
// import_strace finds out the process and time of a call (Context).
//
// The class keeps what events need and a line lacks: the descriptors of each process (Descriptors,
// as in the conversion), its folder (for relative names), and the file of each name. With -yy strace
// annotates each descriptor with its file. Annotations are used if present, also for descriptors that
// came unseen, or if only some calls were traced (-e trace=read,write). The conversion handles
// positions and sizes.

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

  // Process, thread and times of the current call.
  struct Context {
    int32_t thread = 0;
    int32_t process = 0;
    uint64_t start_ns = 0;
    uint64_t latency_ns = 0;
  };
  // Success, or the reason why a call is not understood.
  using Understood = std::expected<void, const char*>;
  static std::unexpected<const char*> not_understood(const char* why) {
    return std::unexpected(why);
  }

  // Makes the events of a call that did not fail. REQUIRES: it makes no process.
  Understood add(const Context& context, const CallRow& row, const StraceCall& call);
  // Adds a call that found no file, if it is an open or a stat, and counts it otherwise.
  void fail(const Context& context, const CallRow& row, const StraceCall& call);
  // Adds a child of the process, which begins with its folder, and its descriptors or a copy of them.
  void fork(const Context& context, int32_t child, bool shares_descriptors);
  // Ends a process, after its last thread.
  void exit(int32_t process, int32_t thread, uint64_t at_ns);
  // Returns whether more descriptors were open than can be followed.
  bool overflowed() const { return descriptors_.overflowed(); }

 private:
  struct Name {
    std::string path;
    std::string annotation;  // the last one by -y
  };
  struct Target {
    int32_t descriptor = -1;
    uint32_t file = 0;
    bool known = false;  // the descriptor's file is known
    bool storage = false;
  };

  Event event_of(Call call) const;
  Understood add(const CallRow& row, const StraceCall& c);

  uint32_t new_file(FileKind kind, const std::string& path);
  // Returns the file of a name; 0 if there is none.
  uint32_t file_named(const std::string& path) const;
  uint32_t file_at(FileKind kind, const std::string& path);
  bool is_storage_file(uint32_t file) const;
  // Returns the folder of a descriptor (or AT_FDCWD, or nothing); empty if not known.
  std::string folder_of(std::string_view text);
  // Returns the absolute name, if the log has the folder. ".." stays, since links decide its meaning.
  std::optional<std::string> absolute(std::string_view folder, std::string_view quoted);
  Target target(int32_t descriptor);
  // Returns the file of a descriptor, from the tables and its annotation.
  std::optional<Target> target_of(std::string_view text);
  // Opens a descriptor that is no storage.
  void open_other(int32_t descriptor, bool close_on_exec);
  Understood open_pair(const StraceCall& c);
  Understood open(const CallArguments& at, const StraceCall& c);
  void close(int32_t descriptor);
  Understood close_range(const StraceCall& c);
  Understood duplicate(const StraceCall& c, bool close_on_exec);
  Understood fcntl(const StraceCall& c);
  // Returns whether the target is storage, and counts the call otherwise.
  bool moves_storage(const Target& target);
  Understood transfer(const CallRow& row, const StraceCall& c);
  Understood submit(const StraceCall& c);
  Understood seek(const CallArguments& at, const StraceCall& c);
  Understood copy(const CallRow& row, const StraceCall& c);
  void change(Call call, uint32_t file, uint64_t result);
  void learn_size(uint32_t file, std::string_view what, std::string_view member);
  Understood add_size(const CallRow& row, const StraceCall& c);
  Understood truncate(const CallArguments& at, const StraceCall& c);
  Understood sync(const CallRow& row, const StraceCall& c);
  Understood allocate(const CallArguments& at, const StraceCall& c);
  Understood map(const CallRow& row, const StraceCall& c);
  // Gives the file another name.
  void move_name(uint32_t file, const std::string& path);
  Understood rename(const std::optional<std::string>& from, const std::optional<std::string>& to,
                    std::string_view flags);
  Understood link(const std::optional<std::string>& from, const std::optional<std::string>& to);
  Understood unlink(const std::optional<std::string>& path);

  Context context_;
  Descriptors descriptors_;  // without position and append; file 0: no storage
  bool opens_seen_ = false;
  std::vector<Name> names_;  // [file - 1]
  std::unordered_map<std::string, uint32_t> by_path_;
  static constexpr size_t missing_max = 16384;
  std::unordered_map<std::string, uint32_t> missing_;  // strings of names that were not found
  std::unordered_map<int32_t, std::string> folders_;   // [process]; missing if not known
};

}  // namespace penstock::trace
