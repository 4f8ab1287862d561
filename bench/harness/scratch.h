#pragma once

#include <filesystem>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

// A new folder, removed with its contents when this object is destroyed, or when a signal ends the
// program. After a kill, the next program in the same place removes it: a folder is locked as long
// as its program, or a child of it, runs. Thread safety: one thread; one object at a time.
class Scratch {
 public:
  static Result<Scratch> make(const std::string& parent);
  Scratch(Scratch&& other) noexcept : folder_(std::move(other.folder_)), lock_(other.lock_) {
    other.folder_.clear();
  }
  Scratch& operator=(Scratch&&) = delete;
  ~Scratch();

  std::string file(const std::string& name) const { return folder_ / name; }
  std::string folder() const { return folder_; }

 private:
  Scratch(std::filesystem::path folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  std::filesystem::path folder_;
  int lock_ = -1;  // locks the folder, so that no one takes it for a killed program's
};

// From now on SIGINT, SIGTERM and SIGHUP remove the scratch folder and end the program. They are
// blocked in every thread and received by a thread of their own, which may remove files. REQUIRES:
// called before any other thread starts.
void end_cleanly_on_signals();
// For a child between fork and exec: restores signals, and ends the child with its parent.
void undo_in_child();

}  // namespace penstock::bench
