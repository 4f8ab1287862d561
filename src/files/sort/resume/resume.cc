#include "files/sort/resume/resume.h"

#include <algorithm>
#include <filesystem>

#include "base/amounts.h"
#include "base/random.h"
#include "base/shell_word.h"

// A sort of a terabyte takes hours, and the machine may not last that long. Recording from time to
// time how far everything has come would only be right if the disk kept that order. Here a sort
// consists of two kinds of steps, and a step is recorded once all its results are on the disk:
//
//   split    a bucket (at first: the input) went to smaller buckets, which lie in temporaries
//   done     a bucket was sorted, and is in the output
//
// Steps undo nothing: a split does not change its input, and a bucket that is sorted once more
// writes the same bytes to the same place. So a run continues after the recorded steps, whatever
// else the earlier run had begun. Only the removal of temporaries cannot be repeated, so it comes
// last: when the split that replaces them, or all of their buckets, are recorded.
//
// On the disk. In the first directory for temporaries there is a folder whose name is derived from
// what is sorted, how, and to which output, and from that directory (in the other directories: a
// folder of the same name). The directory is a part of the name because the journal's lock is
// there: runs with another first directory do not know the journal, and must not use the same
// files, neither beside the output nor in a directory that both use.
//
//   penstock-resume-0123456789abcdef/
//     journal            the steps (layout in journal.h); locked by the run that uses it
//     split-2.5.0        part 5 of the temporaries of split 2, in the first directory
//   .penstock-resume-0123456789abcdef.part     beside the output: the output so far
//
// The order in which things reach the disk (each line waits for the one above it):
//
//   split   the temporaries' bytes; their names; the entries up to "split end"; then the
//           temporaries of the bucket that was split may be removed
//   done    the output's bytes; the entry; then its temporaries may be removed
//   end     the output's bytes and length; "complete"; the output's name; then all of it may be
//           removed
//
// An entry is valid if its check is right. A temporary's blocks have checks, too, which are
// compared when they are read: a block that does not match ends the run, and its bucket is not
// recorded as done. The files of the temporaries are looked for before any entry is trusted: if one
// is missing (somebody cleaned up), the sort begins anew and says so. The first error of a step
// ends all steps of its run: see broken_.
//
// An input that changed since the sort began (inode, length, times of its last change) is an error:
// the buckets that are done and those that are not would not belong to one input.
//
// Costs. Nothing stays in memory between the phases, so that bytes that memory could have kept are
// written and read once more. Recording a bucket takes one fdatasync() of the output and one of the
// journal, beside the writes of the next ones. Temporaries are removed when their buckets are done,
// not when they are read. No thread waits for that: usually it takes the memory's worth of disk
// space more, but on a disk with a slow fdatasync() the sorters run ahead of the journal, and all
// that they have written by then is on the disk twice.

namespace penstock::external {
namespace {

std::string absolute(const std::string& path) {
  std::error_code ignored;  // then it stays as it is
  std::filesystem::path result = std::filesystem::absolute(path, ignored);
  return ignored ? path : result.lexically_normal().string();
}

// Resolves a directory's name: all names of one directory give the same path.
std::string canonical(const std::string& directory) {
  std::error_code error;
  std::filesystem::path result = std::filesystem::canonical(directory, error);
  return error ? absolute(directory) : result.string();
}

// Text that identifies a sort. Runs with equal texts write equal bytes: it has the inputs, the
// output and the options that matter (not memory and threads), and the place of the state.
std::string purpose_of(const SortOptions& options, const std::vector<std::string>& directories) {
  std::string text = options.order().name();
  if (options.unique) text += " unique";
  text += '\0' + absolute(options.output);
  for (const std::string& input : options.inputs) text += '\0' + absolute(input);
  text += '\0' + canonical(directories.front());
  return text;
}

// Name derived from the purpose. It must not change between versions.
std::string name_of(const std::string& purpose) {
  uint64_t hash = purpose.size();
  for (char c : purpose) hash = mix64(hash ^ static_cast<unsigned char>(c));
  static constexpr char digits[] = "0123456789abcdef";
  std::string name = "penstock-resume-";
  for (int shift = 60; shift >= 0; shift -= 4) name += digits[(hash >> shift) & 15];
  return name;
}

std::string journal_of(const std::string& folder) {
  return folder + "/journal";
}

}  // namespace

std::string Resume::folder_of(const SortOptions& options,
                              const std::vector<std::string>& directories) {
  return absolute(directories.front()) + "/" + name_of(purpose_of(options, directories));
}

std::string Resume::output_name_of(const SortOptions& options,
                                   const std::vector<std::string>& directories) {
  return "." + name_of(purpose_of(options, directories)) + ".part";
}

Result<std::unique_ptr<Resume>> Resume::open(const SortOptions& options,
                                             const std::vector<std::unique_ptr<io::File>>& inputs,
                                             const std::vector<std::string>& directories,
                                             const std::function<void(const std::string&)>& notice,
                                             Otherwise otherwise) {
  std::unique_ptr<Resume> resume(new Resume);
  resume->purpose_ = purpose_of(options, directories);
  resume->output_ = options.output;
  resume->output_name_ = output_name_of(options, directories);
  resume->notice_ = notice ? notice : [](const std::string&) {};
  resume->otherwise_ = otherwise;
  auto part = io::File::kept_output_path(options.output, resume->output_name_);
  if (!part) return std::unexpected(part.error());
  resume->part_ = absolute(*part);
  for (const auto& input : inputs) {
    auto identity = input->identity();
    if (!identity) return std::unexpected(identity.error());
    resume->inputs_.push_back({absolute(input->path()), *identity});
  }
  const std::string name = name_of(resume->purpose_);
  for (const std::string& directory : directories)
    resume->own_folders_.push_back(absolute(directory) + "/" + name);
  resume->folders_ = resume->own_folders_;
  if (auto status = resume->take_over(); !status) return std::unexpected(status.error());
  if (resume->removed_ && !resume->completed_) resume.reset();
  return resume;
}

Status Resume::take_over() {
  const std::string folder = own_folders_.front();
  if (auto status = io::make_private_directory(folder); !status) return status;
  auto journal = Journal::open(journal_of(folder));
  if (!journal) {
    if (!Journal::in_use(journal.error())) return std::unexpected(journal.error());
    return failure(ErrorCode::invalid_argument, "sort this: another process is sorting it", folder,
                   "wait until it has ended");
  }
  Journal::Position end;
  auto state = read_steps(*journal, end);
  if (!state) return std::unexpected(state.error());
  state_ = std::move(*state);
  if (state_.version != 0 &&
      (state_.version != ResumeState::present_version || state_.purpose != purpose_ ||
       state_.inputs.size() != inputs_.size())) {
    return failure(ErrorCode::unsupported, "resume the state of another version of penstock",
                   folder, "that version; or, to begin anew: " + removal());
  }
  if (auto status = journal->cut(end); !status) return status;
  {
    MutexLock lock(mutex_);
    journal_ = std::move(*journal);
  }
  const bool begins = otherwise_ == Otherwise::begin;
  if (state_.version == 0) {
    if (begins) notice_("the finished part is kept in " + folder + " until the sort is complete");
    return begin_anew();
  }
  if (was_published()) {
    // Only the cleaning up was left. New inputs under the old names are another sort.
    std::vector<ResumeInput> expected = state_.inputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].identity.inode == state_.complete->inode) expected[i] = inputs_[i];
    }
    auto output = io::File::open_read(state_.complete->final_name, io::Caching::buffered);
    auto found = output ? output->identity() : Result<io::FileIdentity>();
    if (expected == inputs_ && found && found->inode == state_.complete->inode &&
        found->bytes == state_.complete->stored.bytes) {
      notice_("resuming: the output was complete already");
      completed_ = state_.complete->stored;
      folders_ = state_.folders;
      remove_all();
      return {};
    }
    notice_("resuming: an output was complete, but it or the input has changed" +
            std::string(begins ? ": beginning anew" : ""));
    return begin_anew();
  }
  if (state_.splits.empty()) {
    if (begins) notice_("resuming: nothing was finished; finished parts are kept in " + folder);
    return begin_anew();
  }
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i] == state_.inputs[i]) continue;
    return failure(ErrorCode::invalid_argument,
                   "resume: the input has changed since the sort began", inputs_[i].path,
                   "to begin anew: " + removal());
  }
  folders_ = state_.folders;
  if (!temporaries_are_there()) {
    notice_("resuming: temporaries are missing in " + folder +
            (begins ? ": beginning anew" : ": the state is not used"));
    return begin_anew();
  }
  if (auto status = remove_leftovers(); !status) return status;
  otherwise_ = Otherwise::begin;  // this run has steps, even if its output is gone
  next_split_ = state_.next_split;
  worth_keeping_ = true;
  ResumeProgress now;
  now.buckets = 1;
  for (const auto& [of, split] : state_.splits)
    now.buckets += static_cast<uint32_t>(split.buckets.size()) - 1;
  for (const auto& [id, done] : state_.done) {
    ++now.buckets_done;
    now.bytes_done += done.stored.bytes;
  }
  notice_("resuming: " + grouped(now.buckets_done) + " of " + counted(now.buckets, "bucket") +
          " are done");
  MutexLock lock(mutex_);
  progress_ = now;
  return {};
}

// Removes the files that the journal names before the journal itself: a run that is killed in
// between leaves a journal whose files are missing.
Status Resume::begin_anew() {
  next_split_ = 0;
  worth_keeping_ = false;
  std::vector<std::string> old_folders = std::move(state_.folders);
  std::erase_if(old_folders, [&](const std::string& folder) {
    return std::ranges::find(own_folders_, folder) != own_folders_.end();
  });
  std::error_code ignored;
  if (!state_.part.empty()) std::filesystem::remove(state_.part, ignored);
  state_ = {};
  folders_ = std::move(old_folders);
  if (auto status = remove_leftovers(); !status) return status;
  for (const std::string& folder : folders_) std::filesystem::remove(folder, ignored);
  folders_ = own_folders_;
  if (otherwise_ == Otherwise::give_up) {
    keep_or_remove();
    return {};
  }
  auto status = make_folders();
  if (status) status = write_beginning();
  if (!status) keep_or_remove();
  return status;
}

// After an error folders_ has only the folders that belong to this user.
Status Resume::make_folders() {
  for (size_t i = 0; i < folders_.size(); ++i) {
    if (auto status = io::make_private_directory(folders_[i]); !status) {
      folders_.resize(i);
      return status;
    }
  }
  return remove_leftovers();
}

Status Resume::write_beginning() {
  {
    MutexLock lock(mutex_);
    progress_ = {};
    if (auto status = journal_.cut(Journal::beginning()); !status) return status;
    const ResumeState begin{.version = ResumeState::present_version,
                            .purpose = purpose_,
                            .inputs = inputs_,
                            .folders = folders_,
                            .part = part_};
    if (auto status = write_begin(journal_, begin); !status) return status;
  }
  for (const std::string& folder : folders_) {
    if (auto status = io::sync_directory(folder); !status) return status;
    if (auto status = io::sync_directory(io::directory_of(folder)); !status) return status;
  }
  return {};
}

// The name of the output in progress disappears at the moment when it gets its final one.
bool Resume::was_published() const {
  std::error_code ignored;
  return state_.complete && !std::filesystem::exists(state_.complete->in_progress, ignored);
}

// Buckets that are done, or split themselves, need nothing; and a part with few blocks has none in
// some of the directories. Files that are not needed are removed, so they must not be required.
std::vector<std::vector<uint64_t>> Resume::needed_ends(const ResumeSplit& split) const {
  const size_t directories = folders_.size();
  std::vector ends(split.parts, std::vector<uint64_t>(directories, 0));
  for (uint32_t number = 0; number < split.buckets.size(); ++number) {
    const BucketId id{split.number, number};
    if (state_.done.contains(id) || state_.splits.contains(id)) continue;
    const ResumeBucket& bucket = split.buckets[number];
    uint64_t left = bucket.bytes;
    for (const uint32_t block : bucket.blocks) {
      const uint64_t here = std::min<uint64_t>(left, split.block_bytes);
      uint64_t& end = ends[bucket.part][block % directories];
      end = std::max(end, block / directories * split.block_bytes + here);
      left -= here;
    }
  }
  return ends;
}

// Paths of the needed temporaries, with their least sizes.
std::map<std::string, uint64_t> Resume::needed_files() const {
  std::map<std::string, uint64_t> needed;
  for (const auto& [of, split] : state_.splits) {
    const SpillPlace place = place_of(split.number);
    const auto ends = needed_ends(split);
    for (uint32_t part = 0; part < ends.size(); ++part) {
      for (size_t i = 0; i < ends[part].size(); ++i) {
        if (ends[part][i] != 0)
          needed[Spill::path_of(place.directories[i], SpillSet::name_of(place, part), i)] =
              ends[part][i];
      }
    }
  }
  return needed;
}

bool Resume::temporaries_are_there() const {
  for (const auto& [path, bytes] : needed_files()) {
    std::error_code error;
    auto size = std::filesystem::file_size(path, error);
    if (error || size < bytes) return false;
  }
  return true;
}

// Removes temporaries of unfinished steps and of done buckets. A missing folder is no error.
Status Resume::remove_leftovers() const {
  namespace fs = std::filesystem;
  auto needed = needed_files();
  for (const std::string& folder : folders_) {
    std::error_code ignored;
    if (fs::is_symlink(folder, ignored)) continue;  // we make none
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
      std::string path = entry->path().string();
      bool ours = entry->path().filename().string().starts_with("split-");
      if (ours && !needed.contains(path)) fs::remove(path, ignored);
    }
    if (error && error != std::errc::no_such_file_or_directory)
      return system_error(error.value(), "list the files", folder);
  }
  return {};
}

// Removes the state. The journal makes the next run clean up, so it stays if anything else does.
void Resume::remove_all() {
  state_ = {};
  if (auto status = remove_leftovers(); !status) {
    removed_ = true;
    notice_("files that are not needed any more are still there: " + status.error().message() +
            " (" + removal() + " removes them)");
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(journal_of(own_folders_.front()), ignored);
  for (const std::string& folder : folders_) std::filesystem::remove(folder, ignored);
  removed_ = true;  // from now on another process may begin there
}

// Shell command that deletes the state.
std::string Resume::removal() const {
  std::vector<std::string> paths = own_folders_;
  for (const std::string& folder : state_.folders) {
    if (std::ranges::find(paths, folder) == paths.end()) paths.push_back(folder);
  }
  paths.push_back(part_);
  if (!state_.part.empty() && state_.part != part_) paths.push_back(state_.part);
  std::string command = "rm -r";
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) command += " " + shell_word(path);
  }
  return command;
}

// Opens the output of the state, and no other file with its name.
Result<io::File> Resume::reopen_output(const io::OutputOptions& how) const {
  auto gone = [&] {
    return failure(ErrorCode::not_found, "resume: the unfinished output is gone", state_.part);
  };
  if (state_.part != part_) return gone();  // a link leads to somewhere else now
  auto output = io::File::open_kept_output(output_, output_name_, state_.output_bytes, how);
  if (!output) return output;
  auto identity = output->identity();
  if (!identity) return std::unexpected(identity.error());
  if (identity->inode != state_.part_inode) return gone();
  return output;
}

Result<io::File> Resume::open_output(const io::OutputOptions& how) {
  auto output = state_.output_bytes > 0 ? reopen_output(how)
                                        : io::File::open_kept_output(output_, output_name_, 0, how);
  if (!output && state_.output_bytes > 0 &&
      (output.error().code == ErrorCode::not_found || output.error().code == ErrorCode::corrupt)) {
    notice_("resuming: the unfinished output is gone: beginning anew");
    if (auto status = begin_anew(); !status) return std::unexpected(status.error());
    output = io::File::open_kept_output(output_, output_name_, 0, how);
  }
  if (!output) return output;
  if (auto status = io::sync_directory(io::directory_of(part_)); !status)
    return std::unexpected(status.error());
  auto identity = output->identity();
  if (!identity) return std::unexpected(identity.error());
  if (identity->inode != state_.part_inode) {
    MutexLock lock(mutex_);
    if (auto status = write_output(journal_, identity->inode); !status)
      return std::unexpected(status.error());
  }
  return output;
}

ResumeSplit Resume::take_split(BucketId of) {
  ResumeSplit split = std::move(state_.splits.extract(of).mapped());
  for (uint32_t number = 0; number < split.buckets.size(); ++number) {
    BucketId id{split.number, number};
    if (done(id) || has_split(id)) split.buckets[number].blocks = {};
  }
  return split;
}

Result<SpillSet> Resume::open_spills(const ResumeSplit& split) const {
  std::vector<std::vector<bool>> wanted;
  for (const auto& ends : needed_ends(split)) {
    wanted.emplace_back();
    for (const uint64_t end : ends) wanted.back().push_back(end != 0);
  }
  SpillSet spills;
  if (auto status = spills.reopen(place_of(split.number), wanted, split.block_bytes); !status)
    return std::unexpected(status.error());
  for (const ResumeBucket& bucket : split.buckets) {
    if (bucket.blocks.empty()) continue;
    spills.keep(bucket.part);
    uint64_t left = bucket.bytes;
    for (size_t i = 0; i < bucket.blocks.size(); ++i) {
      const uint64_t here = std::min<uint64_t>(left, split.block_bytes);
      spills.part(bucket.part)
          .believe(bucket.blocks[i], static_cast<uint32_t>(here), bucket.checks[i]);
      left -= here;
    }
  }
  return spills;
}

std::optional<Stored> Resume::done(BucketId id) const {
  auto found = state_.done.find(id);
  if (found == state_.done.end()) return std::nullopt;
  return found->second.stored;
}

ResumeProgress Resume::progress() const {
  MutexLock lock(mutex_);
  return progress_;
}

SpillPlace Resume::place_of(uint32_t split) const {
  return {.directories = folders_, .name = "split-" + std::to_string(split)};
}

// Fails if an input has changed since it was opened.
Status Resume::look_at_inputs() const {
  for (const ResumeInput& input : inputs_) {
    auto file = io::File::open_read(input.path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    auto identity = file->identity();
    if (!identity) return std::unexpected(identity.error());
    if (*identity == input.identity) continue;
    return failure(ErrorCode::invalid_argument, "trust the input: it changed while it was read",
                   input.path, "the sort once more, when no process writes to it");
  }
  return {};
}

Status Resume::note(Status step) {
  if (!step && !broken_) broken_ = step.error();
  return step;
}

Status Resume::save_split(BucketId of, const ItemSum& read, const SpillSet& spills,
                          uint32_t buckets, const std::function<ResumeBucket(uint32_t)>& bucket) {
  MutexLock lock(mutex_);
  if (broken_) return std::unexpected(*broken_);
  return note(write_split(of, read, spills, buckets, bucket));
}

Status Resume::write_split(BucketId of, const ItemSum& read, const SpillSet& spills,
                           uint32_t buckets, const std::function<ResumeBucket(uint32_t)>& bucket) {
  if (of.split == BucketId::no_split) {
    if (auto status = look_at_inputs(); !status) return status;
  }
  if (auto status = spills.sync(); !status) return status;
  for (const std::string& folder : folders_) {
    if (auto status = io::sync_directory(folder); !status) return status;
  }
  const ResumeSplit head{.number = next_split_,
                         .parts = spills.parts(),
                         .block_bytes = spills.block_bytes(),
                         .read = read};
  auto with_checks = [&](uint32_t number) {
    ResumeBucket saved = bucket(number);
    for (const uint32_t block : saved.blocks)
      saved.checks.push_back(spills.part(saved.part).check_of(block));
    return saved;
  };
  if (auto status = external::write_split(journal_, of, head, buckets, with_checks); !status)
    return status;
  ++next_split_;
  worth_keeping_ = true;
  progress_.buckets += of.split == BucketId::no_split ? buckets : buckets - 1;
  return {};
}

Status Resume::finished(std::span<const ResumeDone> done, const io::File& output) {
  MutexLock lock(mutex_);
  if (broken_) return std::unexpected(*broken_);
  return note(write_done(done, output));
}

Status Resume::write_done(std::span<const ResumeDone> done, const io::File& output) {
  if (auto status = output.sync(); !status) return status;
  if (auto status = external::write_done(journal_, done); !status) return status;
  for (const ResumeDone& one : done) {
    ++progress_.buckets_done;
    progress_.bytes_done += one.stored.bytes;
  }
  return {};
}

Status Resume::publish(io::File& output, const Stored& stored) {
  {
    MutexLock lock(mutex_);
    if (broken_) return std::unexpected(*broken_);
    if (auto status = output.keep_if_inputs_changed(); !status) return status;
    if (auto status = note(write_complete(output, stored)); !status) return status;
  }
  if (auto status = output.publish(); !status) return status;
  remove_all();
  return {};
}

Status Resume::write_complete(io::File& output, const Stored& stored) {
  if (auto status = output.set_size(stored.bytes); !status) return status;
  if (auto status = output.sync(); !status) return status;
  auto identity = output.identity();
  if (!identity) return std::unexpected(identity.error());
  return external::write_complete(journal_, {.in_progress = absolute(output.name_in_progress()),
                                             .final_name = absolute(output.final_name()),
                                             .inode = identity->inode,
                                             .stored = stored});
}

void Resume::keep_or_remove() {
  if (removed_) return;
  if (worth_keeping_) {
    notice_("the finished part is kept in " + folders_.front() +
            ": the same command goes on from there (" + removal() + " gives it up)");
    return;
  }
  std::error_code ignored;
  std::filesystem::remove(part_, ignored);
  remove_all();
}

}  // namespace penstock::external
