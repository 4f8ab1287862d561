#pragma once

// Files and their rules of alignment; engine.h runs the requests on them.

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

// Unit of offsets, lengths and buffers of direct requests.
inline constexpr size_t sector_bytes = 4096;

// stream: a pipe, socket, terminal or file without a true size, a caller's source or sink: no
// offsets, read to its end.
enum class Kind { regular, block_device, stream };

enum class Caching { direct, buffered };

// The identity of a file's state: another file, or other contents, differ in one of these. A
// program can reset the modification time; only the system sets the time of the inode's last change
// (of contents, times, owner, rights or names).
struct FileIdentity {
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t modified_ns = 0;  // since 1970
  int64_t changed_ns = 0;   // change of the inode
  bool operator==(const FileIdentity&) const = default;
};

class InputGuard;  // input_guard.h

using penstock::OutputRules;

struct OutputOptions {
  Caching caching = Caching::direct;
  OutputRules rules = {};
  // The run's inputs, which are not overwritten while they are read, nor replaced if they changed.
  std::shared_ptr<const InputGuard> inputs = {};
  uint64_t bytes = 0;  // expected length, if known
  // Ends waiting for a pipe's reader with ErrorCode::cancelled. It outlives the file.
  const std::atomic<bool>* cancel = nullptr;
};

// An open file. Move-only, closes itself. Thread safety: const members from any thread. Requests
// must go through an engine or read_exactly() and write_exactly(), which know the end of a file
// that is still being written.
class File {
 public:
  // Opens a file for reading, direct if the file system allows it, else buffered. "-" is stdin: a
  // regular file if it was redirected from the start of one, otherwise a stream. A file that the
  // system generates (/proc, /sys) does not know its size: it is a stream. Fails on directories and
  // missing files. REQUIRES of callers: an input is opened once, and handed on open; a named pipe
  // loses its writer if it is closed in between.
  static Result<File> open_read(const std::string& path, Caching wanted = Caching::direct);
  // Opens an input without waiting for the writer of a named pipe: Descriptor, which should read
  // it, waits instead, and can be stopped.
  static Result<File> open_input(const std::string& path, Caching wanted = Caching::direct);
  // Returns whether nearly all of the file is in the page cache: direct reads would wait for the
  // disk, buffered ones would not. False if the system does not tell (before Linux 6.5, or by
  // policy).
  bool is_cached() const;
  // Makes a file that was opened for reading, buffered, direct.
  void read_directly();
  // Creates a file in `directory` that nobody else can open, for reading and writing. Closing it,
  // even by a kill, frees its space (O_TMPFILE, or a named file that is unlinked at once).
  static Result<File> create_temporary(const std::string& directory,
                                       Caching wanted = Caching::direct);
  // Creates an output that appears under its final name only when it is complete: until publish()
  // it is an unnamed file in the directory of `path`. If O_TMPFILE or linking such a file is
  // refused (as without /proc), it is a named file with a recognizable name and a lock, so that
  // remove_stale_temporaries() finds those of killed runs. It may be the input of the same run. A
  // symbolic link stays, its target is replaced. An existing `path` that is no regular file (a
  // pipe, /dev/null) is opened directly; for "-", /dev/stdout and /dev/fd/N see
  // output_descriptor(). Refused: a device or file that holds an input; a block device that the
  // rules do not permit, that is in use or too small.
  static Result<File> create_output(const std::string& path, const OutputOptions& options = {});
  static Result<File> create_output(const std::string& path, Caching caching) {
    return create_output(path, OutputOptions{.caching = caching});
  }

  // Opens a file that a run leaves for a later one to resume: named, for reading and writing,
  // created if it is missing, and kept when it is closed. Only a regular file of this user is
  // opened under that name.
  static Result<File> open_kept(const std::string& path, Caching wanted = Caching::direct);
  // Creates an output as create_output(), but in the same directory under a name of its own until
  // publish(), which it keeps when it is closed. `bytes` of an earlier run's file are known to be
  // valid: 0 begins anew; otherwise the file must exist and be at least that long (not_found,
  // corrupt). While it is open, this File owns it exclusively, if the file system has locks. Fails
  // if `path` is something other than a regular file (unsupported), and if another run has it open.
  static Result<File> open_kept_output(const std::string& path, const std::string& name,
                                       uint64_t bytes, const OutputOptions& options = {});
  // Returns the path of that file, existing or not: beside the target of `path`, if that is a link.
  static Result<std::string> kept_output_path(const std::string& path, const std::string& name);

  // Wrap a caller's source or sink, under a name for messages. They have no descriptor. publish()
  // closes the sink; its owner cancels it after an error.
  static File of_source(std::shared_ptr<Source> source, std::string name);
  static File of_sink(std::shared_ptr<Sink> sink, std::string name);
  const std::shared_ptr<Source>& source() const { return source_; }  // nullptr: none
  // Returns the outlet of an output that is a stream.
  Outlet* outlet() const { return outlet_.get(); }
  // Ends the waiting and all later writes of such an output with ErrorCode::cancelled.
  void cancel_writes() const;

  File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  int descriptor() const { return fd_; }
  // Returns a buffered descriptor of the same file, for pieces that are not whole sectors;
  // descriptor() itself if that is buffered.
  int buffered_descriptor() const { return buffered_fd_; }
  const std::string& path() const { return path_; }
  Kind kind() const { return kind_; }
  Caching caching() const { return caching_; }
  bool seekable() const { return kind_ != Kind::stream; }
  Result<uint64_t> size() const;  // unsupported for streams
  Status set_size(uint64_t bytes);
  Status preallocate(uint64_t bytes);  // fallocate; unsupported is no error
  // Punches a hole, which frees the space; unsupported is no error.
  Status discard(uint64_t offset, uint64_t bytes);
  // Brings everything that was written to the disk. An error of writing back since the file was
  // opened is returned by every call, though the system reports it only once.
  Status sync() const;
  // Brings an output to the disk, then gives it its final name, replacing an existing file, with
  // that file's mode (and owner, if permitted); then the name is on the disk, too. An output that
  // was opened directly only gets to the disk. Without OutputRules::sync: atomic, and errors of
  // closing the file are found, but later writing back may still fail or be lost.
  Status publish();
  // Publishes several files together: all are on the disk before the first one gets its name.
  static Status publish_all(std::span<File* const> files);
  // Called by publish() before a name is given. If this would replace an input, and an input has
  // changed since it was opened, keeps the output under another name, which the error tells.
  Status keep_if_inputs_changed();
  // Return the name of an output before publish(), if it has one, and after it.
  const std::string& name_in_progress() const { return name_; }
  const std::string& final_name() const { return final_; }

  // Locks the file against others that lock it, in this process or another, until it is closed.
  // Returns false if somebody has it.
  Result<bool> try_lock();
  // Returns whether `path` still names this file.
  bool has_name(const std::string& path) const;
  Result<FileIdentity> identity() const;

  // Starts to keep checks of writes, and to compare reads with them: for an empty temporary.
  // `block_bytes`: see BlockChecks.
  void keep_checks(size_t block_bytes = 0);
  BlockChecks* checks() const { return checks_.get(); }  // nullptr: none

  // ---- For the engines, which see all requests.
  // Returns whether a request starts where the last one on this file ended.
  bool continues_at(uint64_t offset, uint64_t bytes) const;
  void will_write(uint64_t end) const;  // before a write that ends there
  // Returns how much of a range lies in front of the file's end.
  size_t readable(uint64_t offset, size_t bytes) const;
  void wrote_buffered(uint64_t bytes) const;  // bytes that reached the page cache

 private:
  File(int fd, std::string path, Kind kind);
  static Result<File> create_in(const std::string& directory, const std::string& path,
                                unsigned mode, Caching wanted, bool gets_name);
  static Result<File> open_read(const std::string& path, Caching wanted, int more_flags);
  static Result<File> open_in_place(const std::string& name, const std::string& path, Kind kind,
                                    const OutputOptions& options);
  // Opens a named file of this process's user; `path` is its name in messages.
  static Result<File> open_named(const std::string& name, const std::string& path, bool may_create,
                                 unsigned mode, Caching wanted);
  void open_direct(int flags);
  Status open_outlet(const OutputOptions& options);
  Status check_in_place(const OutputOptions& options) const;
  void guard(const OutputOptions& options, bool replaces_input);
  // The steps of publish().
  static Status keep_if_inputs_changed(std::span<File* const> files);
  std::string keep_aside();
  Status finish_writing();
  void start_write_back() const;
  void note_write_back(unsigned how) const;
  Status write_back() const;
  Result<bool> give_final_name();  // returns whether it had a temporary name before
  Status link_under_temporary_name();
  void close() noexcept;

  int fd_ = -1;
  int buffered_fd_ = -1;
  Kind kind_ = Kind::regular;
  Caching caching_ = Caching::buffered;
  std::string path_;   // the user's name, for messages
  std::string name_;   // the temporary name, if any
  std::string final_;  // the name that publish() gives it
  bool keeps_name_ = false;
  bool syncs_ = true;
  std::shared_ptr<const InputGuard> replaced_;   // knows the input that publish() will replace
  os::Generation made_ = os::Generation::now();  // a forked child removes no name of its parent's
  // Set for a file that we made and write directly: it is longer on the disk than size(), see
  // will_write(). Invariant: end_ <= the file's size on the disk, unless writes are in flight.
  bool grows_ahead_ = false;
  mutable std::atomic<uint64_t> end_{0};  // the size that size() returns
  // The size on the disk, at least; changes under growing_.
  mutable std::atomic<uint64_t> grown_{0};
  mutable Mutex growing_;
  mutable std::atomic<uint64_t> next_offset_{0};  // end of the last request
  // Bytes written through the page cache since it was last drained.
  mutable std::atomic<uint64_t> buffered_bytes_{0};
  mutable std::atomic<int> write_error_{0};  // errno of a failed write-back of the page cache
  std::unique_ptr<BlockChecks> checks_;
  std::shared_ptr<Source> source_;
  os::LeftToParent<Outlet> outlet_;
};

// Returns the directory of a path: the part before the last slash.
std::string directory_of(const std::string& path);

// Returns this process's descriptor that an output's name stands for: "-" and /dev/stdout are 1,
// /dev/fd/63 and /proc/self/fd/63 (a shell's >(command)) are 63; a link to one of them, too. Such
// an output is written at the descriptor's position, even behind data of others.
std::optional<int> output_descriptor(const std::string& path);
// Returns whether an output of that name becomes a file: the name is free, or a regular file's.
bool names_a_file(const std::string& output);

// Bytes free for an ordinary user on the file system of `directory`, and an id of the file system.
// If the system does not tell, the free bytes are unlimited.
inline constexpr uint64_t unknown_free_bytes = UINT64_MAX;
struct Space {
  uint64_t free_bytes;
  uint64_t device;
};
Result<Space> space_of(const std::string& directory);
// Returns the space of the file system that holds `file`, which need not have a name.
Result<Space> space_of(const File& file);

// Makes a directory that only this user may enter. An existing one must be private, too, because a
// run would trust files that others had put into it.
Status make_private_directory(const std::string& path);
// Brings the names made and removed in `directory` so far to the disk.
Status sync_directory(const std::string& directory);

// Removes and counts named temporaries of killed runs in `directory`: nobody holds their locks.
size_t remove_stale_temporaries(const std::string& directory);

}  // namespace penstock::io
