#pragma once

// What a sort leaves for the run that goes on with it: `penstock sort --resume`. resume.cc tells
// how, and what may be lost.

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
// Invariants: a state is one first directory's: two of them share no file, so that one's lock is
// enough. A bucket that done() tells of stands in the output, on the disk; every other one of a
// split that split() tells of lies in temporaries that are whole. Temporaries are removed only when
// nobody needs them.
class Resume {
 public:
  // Where the state of this sort is, or would be: in the first of the directories.
  static std::string folder_of(const SortOptions& options,
                               const std::vector<std::string>& directories);
  // The output's name until it is complete, in its directory.
  static std::string output_name_of(const SortOptions& options,
                                    const std::vector<std::string>& directories);

  // What to do where there is nothing to go on with: give up says that this run has no steps.
  enum class Otherwise { begin, give_up };
  // Takes what an earlier run left, or else begins, or removes what there is (and returns nullptr).
  // `inputs`: opened, regular files. `notice`: is told in a sentence what is taken over, and what
  // is not. Errors: the inputs are not what they were; a process is at it; it was left by another
  // version.
  static Result<std::unique_ptr<Resume>> open(const SortOptions& options,
                                              const std::vector<std::unique_ptr<io::File>>& inputs,
                                              const std::vector<std::string>& directories,
                                              const std::function<void(const std::string&)>& notice,
                                              Otherwise otherwise = Otherwise::begin);

  // An earlier run completed the output and only failed to clean up. Nothing else: it has not.
  std::optional<Stored> completed() const { return completed_; }
  // The output, with what it has.
  Result<io::File> open_output(const io::OutputOptions& how = {});

  bool has_split(BucketId of) const { return told_.splits.contains(of); }
  // Gives it away: nobody asks twice. Its buckets that are done, or split themselves, have no
  // blocks any more. REQUIRES: has_split().
  ResumeSplit take_split(BucketId of);
  // The temporaries of such a split; each bucket that has blocks keeps its part.
  Result<SpillSet> open_spills(const ResumeSplit& split) const;
  std::optional<Stored> done(BucketId id) const;
  ResumeProgress progress() const EXCLUDES_LOCK(mutex_);

  // Temporaries for a split that is about to be made.
  SpillPlace place_for_split() const { return place_of(next_split_); }
  uint32_t next_split() const { return next_split_; }
  SpillPlace place_of(uint32_t split) const;
  // next_split() is complete: everything that was written goes to the disk, and the state says so.
  // `buckets` in the order of the output; each is asked for once.
  Status save_split(BucketId of, const ItemSum& read, const SpillSet& spills, uint32_t buckets,
                    const std::function<ResumeBucket(uint32_t)>& bucket);
  // These buckets are written: they go to the disk, and the state says so. After it their
  // temporaries may go.
  Status finished(std::span<const ResumeDone> done, const io::File& output) EXCLUDES_LOCK(mutex_);

  // The output is written: it gets its name, and all else is removed.
  Status publish(io::File& output, const Stored& stored);
  // What was sorted turned out to be wrong: nothing of it is for a later run.
  void distrust() { worth_keeping_ = false; }
  // The run has failed: what a later one can go on with stays, and the notice says how; if there is
  // nothing, nothing stays.
  void keep_or_remove();

 private:
  Resume() = default;
  Status take_over();
  // Removes whatever an earlier run left, and makes place for a new one, or does not.
  Status begin_anew() EXCLUDES_LOCK(mutex_);
  Status make_folders();
  Status write_beginning() EXCLUDES_LOCK(mutex_);
  Result<io::File> reopen_output(const io::OutputOptions& how) const;
  Status write_split(BucketId of, const ItemSum& read, const SpillSet& spills, uint32_t buckets,
                     const std::function<ResumeBucket(uint32_t)>& bucket) REQUIRES_LOCK(mutex_);
  Status write_done(std::span<const ResumeDone> done, const io::File& output) REQUIRES_LOCK(mutex_);
  Status write_complete(io::File& output, const Stored& stored) REQUIRES_LOCK(mutex_);
  // A step's result, which is that of all that follow if it is an error.
  Status note(Status step) REQUIRES_LOCK(mutex_);
  bool was_published() const;
  Status look_at_inputs() const;
  bool temporaries_are_there() const;
  // Of what a split left: up to where each file of each part, in each directory, is needed still.
  std::vector<std::vector<uint64_t>> needed_ends(const ResumeSplit& split) const;
  std::map<std::string, uint64_t> needed_files() const;
  Status remove_leftovers() const;
  void remove_all();
  std::string removal() const;

  std::string purpose_;  // what tells sorts apart
  std::string output_;
  std::string output_name_;
  std::string part_;                      // the path of the output in progress
  std::vector<std::string> own_folders_;  // as this run was told
  // That are used: the own ones, or those of the state. The journal is in the first of both.
  std::vector<std::string> folders_;
  std::vector<ResumeInput> inputs_;  // as they are now
  std::function<void(const std::string&)> notice_;
  Otherwise otherwise_ = Otherwise::begin;

  ResumeTold told_;
  std::optional<Stored> completed_;
  uint32_t next_split_ = 0;
  bool worth_keeping_ = false;  // a split is saved
  bool removed_ = false;        // all that there was

  mutable Mutex mutex_;
  Journal journal_ GUARDED_BY(mutex_);
  ResumeProgress progress_ GUARDED_BY(mutex_);
  // The first error of a step. The system tells an error of a file once, to whoever asks first;
  // whoever asks next would hear that all is on the disk, and write down what is not true.
  std::optional<Error> broken_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external
