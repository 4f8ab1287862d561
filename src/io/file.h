#pragma once

// Files as numbers with alignment rules, and nothing of when requests run: that is engine.h.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "os/generation.h"
#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::io {

class BlockChecks;
class Outlet;

inline constexpr size_t sector_bytes =
    4096;  // what offsets, lengths and buffers of direct requests are multiples of

enum class Kind {
  regular,
  block_device,
  stream
};  // stream: a pipe, socket, terminal or file without a true size, a caller's source or sink: no
    // offsets, read to its end

enum class Caching { direct, buffered };

// What tells whether a file is still the one that it was: another one, or another content, differs
// in one of these. A program can put the time of change back; the time of the last change of the
// inode (a change of its content, times, owner, rights or names) is the system's alone.
struct FileIdentity {
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;   // of the inode
  bool operator==(const FileIdentity&) const = default;
};

class InputGuard;  // input_guard.h

using penstock::OutputRules;

struct OutputOptions {
  Caching caching = Caching::direct;
  OutputRules rules = {};
  // What the run reads: it is neither written over while it is read, nor replaced once it changed.
  std::shared_ptr<const InputGuard> inputs = {};
  uint64_t bytes = 0;  // that will be written, as far as is known
  // Ends the waits for whoever reads a pipe: ErrorCode::cancelled. It outlives the file.
  const std::atomic<bool>* cancel = nullptr;
};

// An open file. Move-only, closes itself. Thread safety: const members from any thread. Requests
// must go through an engine or read_exactly() and write_exactly(), which know where a file ends
// that is still being written.
class File {
 public:
  // Direct where the file system allows it, buffered otherwise. "-" is stdin: a regular file when
  // it was redirected from the start of one, a stream otherwise. A file that the system makes up
  // while it is read (/proc, /sys) does not know its size: it is a stream. Fails on directories and
  // missing files.
  // REQUIRES of callers: an input is opened once, and handed on open; a pipe with a name loses its
  // writer where it is closed in between.
  static Result<File> open_read(const std::string& path, Caching wanted = Caching::direct);
  // The same, but of a pipe with a name it does not wait for the writer: Descriptor does, which is to
  // read it, and which can be told to stop.
  static Result<File> open_input(const std::string& path, Caching wanted = Caching::direct);
  // Nearly all of it is in the page cache: direct reads would wait for the disk, and buffered ones for nothing.
  // False where the system does not tell (before Linux 6.5, or where its policy forbids).
  bool is_cached() const;
  // A file that was opened for reading, buffered, becomes what Caching::direct had made of it.
  void read_directly();
  // A file in `directory` that nobody else can open, for reading and writing; its space is free
  // again when it is closed, by a kill too (O_TMPFILE, or a named file that is unlinked at once).
  static Result<File> create_temporary(const std::string& directory,
                                       Caching wanted = Caching::direct);
  // Output under its final name only when it is complete: until publish() an unnamed file in the
  // directory of `path` (where O_TMPFILE is refused, or a link to what it gives, as without /proc: a
  // named one, recognisably ours and locked, so that remove_stale_temporaries() finds what a killed
  // run left). It may be the input of the same
  // run. A symbolic link stays, its target is replaced. Where `path` exists and is no regular file
  // (a pipe, /dev/null) it is opened as it is; "-", /dev/stdout, /dev/fd/N: see
  // output_descriptor(). Refused: what holds an input; a block device that the rules do not give
  // away, that is in use or too small.
  static Result<File> create_output(const std::string& path, const OutputOptions& options = {});
  static Result<File> create_output(const std::string& path, Caching caching) {
    return create_output(path, OutputOptions{.caching = caching});
  }

  // What a run leaves for a later one, so that this can go on where it ended:
  // A named file for reading and writing that stays when it is closed, made where there is none.
  // Nothing but a regular file of ours is opened under that name.
  static Result<File> open_kept(const std::string& path, Caching wanted = Caching::direct);
  // As create_output(), but in the same directory under a name of its own until publish(), which it
  // keeps when it is closed. Of what an earlier run left there `bytes` are known to be whole: 0
  // begins anew; with others the file must be there, and be as long (not_found, corrupt). It is
  // this File's alone while it is open, where the file system knows locks. Fails where `path` is
  // something else than a regular file (unsupported), and where another run has it open.
  static Result<File> open_kept_output(const std::string& path, const std::string& name,
                                       uint64_t bytes, const OutputOptions& options = {});
  // Where that file is, or would be: beside what `path` leads to, if it is a link.
  static Result<std::string> kept_output_path(const std::string& path, const std::string& name);

  // What a caller gives to be read or written, under a name for messages. It has no descriptor. publish()
  // closes the sink; who gave it cancels it after an error.
  static File of_source(std::shared_ptr<Source> source, std::string name);
  static File of_sink(std::shared_ptr<Sink> sink, std::string name);
  const std::shared_ptr<Source>& source() const { return source_; }  // or none
  // Of an output that is a stream: where it goes.
  Outlet* outlet() const { return outlet_.get(); }
  // Of such an output: what waits to be taken, and all that comes later, ends with ErrorCode::cancelled.
  void cancel_writes() const;

  File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int descriptor() const { return fd_; }
  // A buffered descriptor of the same file, for pieces that are not whole sectors; descriptor()
  // itself when that is buffered.
  int buffered_descriptor() const { return buffered_fd_; }
  const std::string& path() const { return path_; }
  Kind kind() const { return kind_; }
  Caching caching() const { return caching_; }
  bool seekable() const { return kind_ != Kind::stream; }
  Result<uint64_t> size() const;  // unsupported for streams
  Status set_size(uint64_t bytes);
  Status preallocate(uint64_t bytes);  // fallocate; unsupported is no error
  Status discard(uint64_t offset,
                 uint64_t bytes);  // punch a hole: the space is free again; unsupported is no error
  // Everything that was written is on the disk. What the system could not write back since the file
  // was opened is an error of every call, though the system tells it only once.
  Status sync() const;
  // Brings an output to the disk, then gives it its final name, replacing what was there, with that
  // file's mode (and owner, if we may) if it existed; then the name is on the disk, too. What was
  // opened as it is has no other name to get. Without OutputRules::sync: atomic, and errors of
  // closing the file are found, but what the system writes later may still fail or be lost.
  Status publish();
  // Several as one: all are on the disk before the first one gets its name.
  static Status publish_all(std::span<File* const> files);
  // publish() asks it before a name is given: where this would replace an input, and an input is
  // not what it was when it was opened, the output is kept under another name, which the error
  // tells.
  Status keep_if_inputs_changed();
  // Where an output is before publish(), if it has a name; where it will be, once it was
  // published.
  const std::string& name_in_progress() const { return name_; }
  const std::string& final_name() const { return final_; }

  // Nobody else who asks has it, in this process or another, until it is closed. False: somebody
  // has.
  Result<bool> try_lock();
  // Whether `path` names this file still.
  bool has_name(const std::string& path) const;
  Result<FileIdentity> identity() const;

  // From now on what is written is remembered by checks, and what is read is held against them: of
  // a temporary that is empty. `block_bytes`: see BlockChecks.
  void keep_checks(size_t block_bytes = 0);
  BlockChecks* checks() const { return checks_.get(); }  // nullptr: none

  // For the engines, which see all requests.
  bool continues_at(uint64_t offset, uint64_t bytes)
      const;                            // whether it starts where the last one on this file ended
  void will_write(uint64_t end) const;  // before a write that ends there
  size_t readable(uint64_t offset,
                  size_t bytes) const;        // how much of a range lies in front of the file's end
  void wrote_buffered(uint64_t bytes) const;  // what has reached the page cache

 private:
  File(int fd, std::string path, Kind kind);
  static Result<File> create_in(const std::string& directory, const std::string& path,
                                unsigned mode, Caching wanted, bool gets_name);
  static Result<File> open_read(const std::string& path, Caching wanted, int more_flags);
  static Result<File> open_in_place(const std::string& name, const std::string& path, Kind kind,
                                    const OutputOptions& options);
  // A named file of this process's user; `path`: what to call it in messages.
  static Result<File> open_named(const std::string& name, const std::string& path, bool may_create,
                                 unsigned mode, Caching wanted);
  void open_direct(int flags);
  Status open_outlet(const std::atomic<bool>* cancel);
  Status check_in_place(const OutputOptions& options) const;
  void guard(const OutputOptions& options, bool replaces_input);
  // The steps of publish().
  static Status keep_if_inputs_changed(std::span<File* const> files);
  std::string keep_aside();
  Status finish_writing();
  void start_write_back() const;
  void note_write_back(unsigned how) const;
  Status write_back() const;
  Result<bool> give_final_name();  // whether it had a temporary one before
  Status link_under_temporary_name();
  void close() noexcept;

  int fd_ = -1;
  int buffered_fd_ = -1;
  Kind kind_ = Kind::regular;
  Caching caching_ = Caching::buffered;
  std::string path_;   // as the user named it, for messages
  std::string name_;   // the temporary name, where there is one
  std::string final_;  // what publish() makes it
  bool keeps_name_ = false;
  bool syncs_ = true;
  std::shared_ptr<const InputGuard> replaced_;   // has the input that publish() will replace
  os::Generation made_ = os::Generation::now();  // a forked child removes no name of its parent's
  // A file that we made and write directly is longer on the disk than size() says: see
  // will_write(). Invariant: end_ <= the file's size on the disk, unless writes are in flight.
  bool grows_ahead_ = false;
  mutable std::atomic<uint64_t> end_{0};  // the size, as far as anybody is told
  mutable std::atomic<uint64_t> grown_{
      0};  // the size on the disk, at least; changes under growing_
  mutable Mutex growing_;
  mutable std::atomic<uint64_t> next_offset_{0};  // where the last request ended
  mutable std::atomic<uint64_t> buffered_bytes_{
      0};  // written through the page cache since it was last told to drain
  mutable std::atomic<int> write_error_{0};  // errno, of what the page cache could not write back
  std::unique_ptr<BlockChecks> checks_;
  std::shared_ptr<Source> source_;
  os::LeftToParent<Outlet> outlet_;
};

// Where a file of that name stands: what is in front of the last slash.
std::string directory_of(const std::string& path);

// The descriptor of this process for which the name of an output stands: "-" and /dev/stdout are 1,
// /dev/fd/63 and /proc/self/fd/63 (a shell's >(command)) are 63; a link to one of them, too. Such
// an output goes where the descriptor stands, also behind what others have written to a file of it.
std::optional<int> output_descriptor(const std::string& path);
// Whether an output of that name becomes a file: there is none, or a regular one that is replaced.
bool names_a_file(const std::string& output);

// Bytes free for an ordinary user on the file system of `directory`, and an id that tells file
// systems apart. Where the system does not say how many are free, there are as many as anyone wants.
inline constexpr uint64_t unknown_free_bytes = UINT64_MAX;
struct Space {
  uint64_t free_bytes;
  uint64_t device;
};
Result<Space> space_of(const std::string& directory);
// Space of the file system that holds `file`, which need not have a name.
Result<Space> space_of(const File& file);

// Makes a directory that nobody but this user may enter. One that is there must be such a one:
// others could have put into it what a run would believe.
Status make_private_directory(const std::string& path);
// Names made and removed in `directory` so far are on the disk.
Status sync_directory(const std::string& directory);

// Removes what killed runs left in `directory`: named temporaries of ours whose lock nobody holds.
// Returns how many.
size_t remove_stale_temporaries(const std::string& directory);

}  // namespace penstock::io
