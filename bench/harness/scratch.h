#pragma once

#include <filesystem>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

// A new folder, gone with all that is in it when this object goes, or when a signal ends the
// program. Where that could not be (a kill), the next one in the same place removes it: a folder is
// locked as long as its program, or a child of it, is there. Thread safety: one thread; one object
// at a time.
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
  int lock_ = -1;  // of the folder: nobody takes it for a killed one's
};

// From now on SIGINT, SIGTERM and SIGHUP remove the scratch folder and end the program. They are
// blocked in every thread and taken by one of their own, where removing files is allowed. REQUIRES:
// called before any other thread starts.
void end_cleanly_on_signals();
// For a child between fork and exec: signals are as they were, and the child ends with its parent.
void undo_in_child();

}  // namespace penstock::bench
