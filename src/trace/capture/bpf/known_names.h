#pragma once

// The names of the files that a capture by BPF has recorded. A call that changes a name has paths
// alone: its file is found by its name.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/capture/bpf/records.h"
#include "trace/capture/proc_files.h"

namespace penstock::trace {

// Thread safety: none.
class KnownNames {
 public:
  void add(const std::string& name, const kernel::FileIdentity& identity) {
    names_[name] = identity;
  }

  // Returns the recorded name of the file that a path leads to, or else the normalized path. Links on
  // the way to the folder are resolved by the folder's current real name.
  std::string name_of(const std::string& path) const {
    const std::filesystem::path simple = std::filesystem::path(path).lexically_normal();
    if (names_.contains(simple.string())) return simple.string();
    const auto folder = real_path(simple.parent_path().string());
    return folder ? (std::filesystem::path(*folder) / simple.filename()).string() : simple.string();
  }

  std::optional<kernel::FileIdentity> find(const std::string& name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? std::nullopt : std::optional(found->second);
  }

  void remove(const std::string& name) { names_.erase(name); }

  void rename_folder(const std::string& from, const std::string& to) {
    std::vector<std::pair<std::string, kernel::FileIdentity>> moved;
    for (auto at = names_.lower_bound(from); at != names_.end() && at->first.starts_with(from);) {
      moved.emplace_back(to + at->first.substr(from.size()), at->second);
      at = names_.erase(at);
    }
    for (auto& [name, identity] : moved) names_[name] = identity;
  }

 private:
  std::map<std::string, kernel::FileIdentity> names_;
};

}  // namespace penstock::trace
