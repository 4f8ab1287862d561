#pragma once

// State that a sort leaves for the run that continues it: `penstock sort --resume`. resume.cc
// describes how, and what may be lost.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "files/sort/resume/resume_journal.h"
#include "files/sort/spill/spill.h"

namespace penstock::external {

struct ResumeProgress {
  uint32_t buckets = 0;
  uint32_t buckets_done = 0;
  uint64_t bytes_done = 0;  // in the output
};

// Thread safety: finished() and progress() from any thread; everything else from one.
//
// Invariants: a state belongs to one first directory: two states share no file, so that one lock is
// enough. A bucket for which done() returns a value is in the output, on the disk; every other
// bucket of a recorded split is in complete temporaries. These are removed when nothing needs them.
class Resume {
 public:
  // Folder in which the state of this sort is or would be, in the first of the directories.
  static std::string folder_of(const SortOptions& options,
                               const std::vector<std::string>& directories);
  // Name of the output until it is complete, in its directory.
  static std::string output_name_of(const SortOptions& options,
                                    const std::vector<std::string>& directories);

  // Action if there is no usable state. `give_up`: this run has no steps to record.
  enum class Otherwise { begin, give_up };
  // Takes the state of an earlier run over. If there is none to use, begins a new one, or removes
  // the rest and returns nullptr. `inputs`: opened, regular files. `notice` gets a sentence.
  // Errors: the inputs have changed; another process uses the state; another version wrote it.
  static Result<std::unique_ptr<Resume>> open(const SortOptions& options,
                                              const std::vector<std::unique_ptr<io::File>>& inputs,
                                              const std::vector<std::string>& directories,
                                              const std::function<void(const std::string&)>& notice,
                                              Otherwise otherwise = Otherwise::begin);

  // Account of the output if an earlier run completed it and only failed to clean up, else nullopt.
  std::optional<Stored> completed() const { return completed_; }
  // Opens the output with its contents so far.
  Result<io::File> open_output(const io::OutputOptions& how = {});

  bool has_split(BucketId of) const { return state_.splits.contains(of); }
  // Moves the split out of the state. Its buckets that are done, or split themselves, have no
  // blocks. REQUIRES: has_split().
  ResumeSplit take_split(BucketId of);
  // Opens the temporaries of such a split; each bucket with blocks keeps its part.
  Result<SpillSet> open_spills(const ResumeSplit& split) const;
  std::optional<Stored> done(BucketId id) const;
  ResumeProgress progress() const EXCLUDES_LOCK(mutex_);

  // Names for the temporaries of the next split.
  SpillPlace place_for_split() const { return place_of(next_split_); }
  uint32_t next_split() const { return next_split_; }
  SpillPlace place_of(uint32_t split) const;
  // Records next_split() after flushing its temporaries to the disk. `bucket` is called once for
  // each bucket, in the order of the output.
  Status save_split(BucketId of, const ItemSum& read, const SpillSet& spills, uint32_t buckets,
                    const std::function<ResumeBucket(uint32_t)>& bucket);
  // Records these buckets as done after flushing the output. Their temporaries may then be removed.
  Status finished(std::span<const ResumeDone> done, const io::File& output) EXCLUDES_LOCK(mutex_);

  // Gives the written output its name, and removes everything else.
  Status publish(io::File& output, const Stored& stored);
  // Discards the state, because the sorted items turned out to be wrong.
  void distrust() { worth_keeping_ = false; }
  // After a failure keeps the state if a later run can use it, with a notice; else removes it.
  void keep_or_remove();

 private:
  Resume() = default;
  Status take_over();
  // Removes the files of an earlier run, and begins a new state unless `otherwise_` is give_up.
  Status begin_anew() EXCLUDES_LOCK(mutex_);
  Status make_folders();
  Status write_beginning() EXCLUDES_LOCK(mutex_);
  Result<io::File> reopen_output(const io::OutputOptions& how) const;
  Status write_split(BucketId of, const ItemSum& read, const SpillSet& spills, uint32_t buckets,
                     const std::function<ResumeBucket(uint32_t)>& bucket) REQUIRES_LOCK(mutex_);
  Status write_done(std::span<const ResumeDone> done, const io::File& output) REQUIRES_LOCK(mutex_);
  Status write_complete(io::File& output, const Stored& stored) REQUIRES_LOCK(mutex_);
  // Remembers the first error of a step in `broken_`, and returns the step's status.
  Status note(Status step) REQUIRES_LOCK(mutex_);
  bool was_published() const;
  Status look_at_inputs() const;
  bool temporaries_are_there() const;
  // End of the bytes that are still needed of a split's temporaries, by part and directory.
  std::vector<std::vector<uint64_t>> needed_ends(const ResumeSplit& split) const;
  std::map<std::string, uint64_t> needed_files() const;
  Status remove_leftovers() const;
  void remove_all();
  std::string removal() const;

  std::string purpose_;  // identifies the sort
  std::string output_;
  std::string output_name_;
  std::string part_;                      // path of the output in progress
  std::vector<std::string> own_folders_;  // for this run's directories
  // Folders in use: own_folders_, or those of the state. The journal is in the first own folder.
  std::vector<std::string> folders_;
  std::vector<ResumeInput> inputs_;  // identified as they are now
  std::function<void(const std::string&)> notice_;
  Otherwise otherwise_ = Otherwise::begin;

  ResumeState state_;
  std::optional<Stored> completed_;
  uint32_t next_split_ = 0;
  bool worth_keeping_ = false;  // a split is recorded
  bool removed_ = false;        // nothing is left

  mutable Mutex mutex_;
  Journal journal_ GUARDED_BY(mutex_);
  ResumeProgress progress_ GUARDED_BY(mutex_);
  // First error of a step, which fails all later ones. The system reports an error of a file once,
  // to the first caller that asks; the next one would record a false step.
  std::optional<Error> broken_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external
