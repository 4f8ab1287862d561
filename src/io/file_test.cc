#include "io/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <utility>

#include "base/temporary_folder_fixture.h"
#include "io/engine.h"
#include "io/failing_calls_fixture.h"
#include "io/input_guard.h"
#include "penstock/base.h"
#include "test/support/injection.h"

namespace penstock::io {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static void put(const std::string& to, const std::string& text) { std::ofstream(to) << text; }
  static std::string get(const std::string& from, size_t bytes_max = MiB) {
    std::string text(bytes_max, 0);
    std::ifstream in(from, std::ios::binary);
    in.read(text.data(), static_cast<std::streamsize>(bytes_max));
    text.resize(static_cast<size_t>(in.gcount()));
    return text;
  }
  static Status put(const File& to, const std::string& text) {
    return write_exactly(to, 0, reinterpret_cast<const std::byte*>(text.data()), text.size());
  }
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory_), {}));
  }
  unsigned mode_of(const std::string& name) const {
    struct stat status = {};
    ::stat(name.c_str(), &status);
    return status.st_mode & 07777;
  }

  const TemporaryFolder folder_;
  const fs::path directory_ = folder_.path();
};

// Runs `body` in a child whose system calls pass the filter.
void under_filter(std::span<sock_filter> program, const std::function<void()>& body) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      ::_exit(77);
    }
    body();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system has no seccomp filters";
  ASSERT_EQ(WEXITSTATUS(status), 0);
}

// Runs `body` in a child in which open(O_TMPFILE) is refused, as on file systems that lack it.
void without_unnamed_files(const std::function<void()>& body) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  under_filter(program, body);
}

// Runs `body` in a child in which linkat() is refused, as in some sandboxes, and without /proc.
void without_links(const std::function<void()>& body) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  under_filter(program, body);
}

TEST_F(FileTest, MissingFilesAndDirectoriesAreRefusedWithTheirName) {
  auto missing = File::open_read(path("nothing"));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(missing.error().message(),
            path("nothing") + ": cannot open: No such file or directory");

  auto directory = File::open_read(directory_.string());
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().system_errno, EISDIR);

  auto output = File::create_output(path("no/where"));
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error().code, ErrorCode::not_found);
  EXPECT_FALSE(File::create_output(directory_.string()));
  EXPECT_FALSE(File::create_output(path("new/")));
  EXPECT_FALSE(File::create_output(""));
  EXPECT_FALSE(File::create_temporary(path("no")));
  put(path("plain"), "x");
  EXPECT_FALSE(File::create_temporary(path("plain")));
  auto space = space_of(path("no"));
  ASSERT_FALSE(space);
  EXPECT_EQ(space.error().message(), path("no") +
                                         ": cannot use this directory: No such file or "
                                         "directory (try: create it first)");
  EXPECT_EQ(space_of(path("plain/below")).error().system_errno, ENOTDIR);
}

TEST_F(FileTest, OutputAppearsOnlyWhenPublishedAndKeepsTheReplacedFilesMode) {
  put(path("out"), "old");
  ::chmod(path("out").c_str(), 0751);
  {
    auto abandoned = File::create_output(path("out"));
    ASSERT_TRUE(abandoned) << abandoned.error().message();
    ASSERT_TRUE(put(*abandoned, "half"));
  }
  EXPECT_EQ(get(path("out")), "old");
  EXPECT_EQ(entries(), 1u);

  auto file = File::create_output(path("out"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(put(*file, "whole"));
  EXPECT_EQ(get(path("out")), "old");
  EXPECT_EQ(entries(), 1u);
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(get(path("out")), "whole");
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(mode_of(path("out")), 0751u);
}

TEST_F(FileTest, NewOutputHasTheModeOfTheUmask) {
  mode_t before = ::umask(027);
  auto file = File::create_output(path("out"));
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->publish());
  ::umask(before);
  EXPECT_EQ(mode_of(path("out")), 0640u);
}

TEST_F(FileTest, OutputThroughASymbolicLinkReplacesItsTarget) {
  fs::create_directory(directory_ / "there");
  put(path("there/target"), "old");
  fs::create_symlink("there/target", directory_ / "link");
  fs::create_symlink(directory_ / "link", directory_ / "link2");
  fs::create_symlink("there/new", directory_ / "dangling");
  for (const char* name : {"link2", "dangling"}) {
    auto file = File::create_output(path(name));
    ASSERT_TRUE(file) << file.error().message();
    ASSERT_TRUE(put(*file, name));
    ASSERT_TRUE(file->publish());
    EXPECT_TRUE(fs::is_symlink(directory_ / name));
  }
  EXPECT_EQ(get(path("there/target")), "link2");
  EXPECT_EQ(get(path("there/new")), "dangling");
  fs::create_symlink("circle", directory_ / "circle");
  EXPECT_FALSE(File::create_output(path("circle")));
}

TEST_F(FileTest, OutputMayNameItsInput) {
  put(path("file"), "abc");
  auto in = File::open_read(path("file"));
  auto out = File::create_output(path("file"));
  ASSERT_TRUE(in && out);
  ASSERT_TRUE(put(*out, "xyz!"));
  std::string before(3, ' ');
  ASSERT_TRUE(read_exactly(*in, 0, reinterpret_cast<std::byte*>(before.data()), 3));
  EXPECT_EQ(before, "abc");
  ASSERT_TRUE(out->publish());
  EXPECT_EQ(get(path("file")), "xyz!");
}

TEST_F(FileTest, NamedFilesReplaceUnnamedOnesIfThoseOrLinksAreRefused) {
  const auto check = [&] {
    {
      auto file = File::create_output(path("out"));
      ASSERT_TRUE(file) << file.error().message();
      EXPECT_EQ(entries(), 1u);
      EXPECT_EQ(remove_stale_temporaries(directory_.string()), 0u) << "it is locked";
      ASSERT_TRUE(put(*file, "text"));
      ASSERT_TRUE(file->publish());
      EXPECT_EQ(get(path("out")), "text");
      auto dropped = File::create_output(path("dropped"));
      EXPECT_EQ(entries(), 2u);
    }
    EXPECT_EQ(entries(), 1u);
    auto temporary = File::create_temporary(directory_.string());
    ASSERT_TRUE(temporary);
    EXPECT_EQ(entries(), 1u) << "temporaries have no name at all";
    ASSERT_TRUE(put(*temporary, "text"));
    fs::remove(path("out"));
  };
  without_unnamed_files(check);
  without_links(check);
}

TEST_F(FileTest, OnlyFilesOfAKilledRunAreRemoved) {
  without_unnamed_files([&] {
    auto output = File::create_output(path("out"));
    ASSERT_TRUE(output);
    ::_exit(0);  // without destructors, like a kill
  });
  EXPECT_EQ(entries(), 1u);
  put(path(".penstock-12-notours.tmp"), "");
  put(path(".penstock-x-0123456789abcdef.tmp"), "");
  put(path("file"), "");
  EXPECT_EQ(remove_stale_temporaries(directory_.string()), 1u);
  EXPECT_EQ(entries(), 3u);
}

TEST_F(FileTest, AnOutputThatReplacesAFileRemovesFilesOfAKilledRun) {
  without_unnamed_files([&] {
    auto output = File::create_output(path("out"));
    ASSERT_TRUE(output);
    ::_exit(0);
  });
  put(path("file"), "old");
  EXPECT_EQ(entries(), 2u);
  auto output = File::create_output(path("file"));
  ASSERT_TRUE(output && put(*output, "new") && output->publish());
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(get(path("file")), "new");
}

TEST_F(FileTest, TemporariesVanishAndAreReadableAndWritable) {
  for (Caching wanted : {Caching::direct, Caching::buffered}) {
    auto file = File::create_temporary(directory_.string(), wanted);
    ASSERT_TRUE(file);
    EXPECT_EQ(entries(), 0u);
    if (wanted == Caching::buffered) {
      EXPECT_EQ(file->caching(), Caching::buffered);
    }
    std::string text(10000, 'x'), back(10000, ' ');
    ASSERT_TRUE(put(*file, text));
    ASSERT_TRUE(read_exactly(*file, 0, reinterpret_cast<std::byte*>(back.data()), back.size()));
    EXPECT_EQ(back, text);
    EXPECT_EQ(*file->size(), 10000u);
    ASSERT_TRUE(file->set_size(5000));
    auto beyond = read_exactly(*file, 0, reinterpret_cast<std::byte*>(back.data()), back.size());
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, ErrorCode::corrupt);
  }
}

TEST_F(FileTest, TemporariesAreTheirUsersAlone) {
  const auto check = [&] {
    const mode_t before = ::umask(0);
    auto file = File::create_temporary(directory_.string());
    ::umask(before);
    ASSERT_TRUE(file);
    struct stat status = {};
    ASSERT_EQ(::fstat(file->descriptor(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    EXPECT_EQ(status.st_nlink, 0u) << "nobody else can open it";
  };
  check();
  without_unnamed_files(check);
}

// Links can be put into a folder that everybody may write to.
TEST_F(FileTest, ALinkThatIsNamedAsATemporaryIsLeftAloneAndSoIsItsTarget) {
  put(path("target"), "mine");
  const std::string link = path(".penstock-12-0123456789abcdef.tmp");
  fs::create_symlink(path("target"), link);
  EXPECT_EQ(remove_stale_temporaries(directory_.string()), 0u);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(get(path("target")), "mine");
  // A file of the same name is removed: the case above tests the right name.
  fs::remove(link);
  put(link, "");
  EXPECT_EQ(remove_stale_temporaries(directory_.string()), 1u);
}

TEST_F(FileTest, PreallocatedSpaceIsTakenAndDiscardedSpaceIsFree) {
  auto file = File::create_temporary(directory_.string());
  ASSERT_TRUE(file);
  auto blocks = [&] {
    struct stat status = {};
    ::fstat(file->descriptor(), &status);
    return static_cast<uint64_t>(status.st_blocks) * 512;
  };
  ASSERT_TRUE(file->preallocate(8 * MiB));
  if (blocks() < 8 * MiB) GTEST_SKIP() << "this file system does not preallocate";
  EXPECT_EQ(*file->size(), 8 * MiB);
  ASSERT_TRUE(file->discard(0, 6 * MiB));
  EXPECT_LE(blocks(), 3 * MiB);
  EXPECT_EQ(*file->size(), 8 * MiB);
}

TEST_F(FileTest, ATrialOfDirectIoThatASignalInterruptsIsMadeAgain) {
  put(path("in"), std::string(2 * sector_bytes, 'x'));
  has_statx = false;  // statx would answer without a trial
  auto caching_of_both = [&](int error) {
    failing_reads = failing_writes = 2;
    call_error = error;
    const auto input = File::open_read(path("in"));
    const auto temporary = File::create_temporary(directory_.string());
    failing_reads = failing_writes = 0;
    return std::pair(input->caching(), temporary->caching());
  };
  const auto undisturbed = File::open_read(path("in"));
  const auto interrupted = caching_of_both(EINTR), broken = caching_of_both(EIO);
  has_statx = true;
  if (undisturbed->caching() == Caching::buffered) GTEST_SKIP() << "no direct I/O here";
  EXPECT_EQ(interrupted, std::pair(Caching::direct, Caching::direct));
  EXPECT_EQ(broken, std::pair(Caching::buffered, Caching::buffered));
}

// Files that are written directly are longer on the disk than their size until they are published.
TEST_F(FileTest, AFileEndsWhereItWasWritten) {
  auto file = File::create_output(path("out"));
  ASSERT_TRUE(file);
  const std::string text(9000, 'x');
  ASSERT_TRUE(put(*file, text));
  EXPECT_EQ(*file->size(), 9000u);
  std::byte beyond[2];
  EXPECT_TRUE(read_exactly(*file, 8999, beyond, 1));
  EXPECT_FALSE(read_exactly(*file, 8999, beyond, 2));
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(get(path("out")), text);
}

TEST_F(FileTest, ALimitOnFileSizesIsRespected) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit limit{1 * MiB, 1 * MiB};
    ::setrlimit(RLIMIT_FSIZE, &limit);  // growing beyond it would raise SIGXFSZ
    auto file = File::create_output(path("out"));
    ::_exit(file && put(*file, std::string(1 * MiB, 'x')) && file->publish() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(fs::file_size(path("out")), 1 * MiB);
}

TEST_F(FileTest, TmpfsIsBuffered) {
  struct stat status;
  if (::stat("/dev/shm", &status) != 0) GTEST_SKIP() << "no /dev/shm";
  auto file = File::create_temporary("/dev/shm");
  if (!file) GTEST_SKIP() << file.error().message();
  EXPECT_EQ(file->caching(), Caching::buffered);
  ASSERT_TRUE(put(*file, std::string(9999, 'y')));
  EXPECT_EQ(*file->size(), 9999u);
}

TEST_F(FileTest, IsCachedFollowsThePageCache) {
  put(path("file"), std::string(1 << 20, 'x'));
  auto file = File::open_read(path("file"), Caching::buffered);
  ASSERT_TRUE(file);
  const int fd = file->buffered_descriptor();
  ASSERT_EQ(::fsync(fd), 0);
  if (!file->is_cached()) GTEST_SKIP() << "the system does not tell (cachestat)";
  ASSERT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  if (file->is_cached()) GTEST_SKIP() << "the file system keeps what it is told to drop";
  file->read_directly();
  EXPECT_FALSE(File::open_read("/dev/null")->is_cached());
}

TEST_F(FileTest, IsCachedNoticesTheMissingPartsOfALargeFile) {
  put(path("file"), std::string(48 << 20, 'x'));
  auto file = File::open_read(path("file"), Caching::buffered);
  ASSERT_TRUE(file);
  const int fd = file->buffered_descriptor();
  ASSERT_EQ(::fsync(fd), 0);
  if (!file->is_cached()) GTEST_SKIP() << "the system does not tell (cachestat)";
  ASSERT_EQ(::posix_fadvise(fd, 20 << 20, 12 << 20, POSIX_FADV_DONTNEED), 0);
  EXPECT_FALSE(file->is_cached());
}

TEST_F(FileTest, DevicesAndPipesAreStreams) {
  auto sink = File::create_output("/dev/null");
  ASSERT_TRUE(sink);
  EXPECT_EQ(sink->kind(), Kind::stream);
  ASSERT_TRUE(put(*sink, "gone"));
  EXPECT_TRUE(sink->publish());
  EXPECT_FALSE(sink->size());
  auto empty = File::open_read("/dev/null");
  ASSERT_TRUE(empty);
  std::byte one;
  EXPECT_FALSE(read_exactly(*empty, 0, &one, 1));

  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  int keep_open = ::open(path("pipe").c_str(), O_RDWR);
  auto out = File::create_output(path("pipe"));
  auto in = File::open_read(path("pipe"));
  ASSERT_TRUE(out && in);
  EXPECT_FALSE(in->seekable());
  ASSERT_TRUE(put(*out, "through"));
  std::string text(7, ' ');
  ASSERT_TRUE(read_exactly(*in, 0, reinterpret_cast<std::byte*>(text.data()), 7));
  EXPECT_EQ(text, "through");
  ::close(keep_open);
}

TEST_F(FileTest, AFileThatDoesNotKnowItsSizeIsAStream) {
  put(path("empty"), "");
  auto empty = File::open_read(path("empty"));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->kind(), Kind::regular);
  EXPECT_EQ(empty->size(), 0u);

  const std::string text = get("/proc/version");
  if (text.empty()) GTEST_SKIP() << "this system has no /proc/version";
  auto made_up = File::open_read("/proc/version");
  ASSERT_TRUE(made_up);
  EXPECT_EQ(made_up->kind(), Kind::stream);
  std::string read(text.size(), ' ');
  ASSERT_TRUE(read_exactly(*made_up, 0, reinterpret_cast<std::byte*>(read.data()), read.size()));
  EXPECT_EQ(read, text);
  std::byte one;
  EXPECT_FALSE(read_exactly(*made_up, read.size(), &one, 1));
}

// The shell's >(command) passes such names, and -o /dev/stdout is one.
TEST_F(FileTest, AnOutputNamedAfterADescriptorIsThatDescriptor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  fs::create_symlink("/dev/fd/" + std::to_string(ends[1]), path("link"));
  for (const std::string& name : {"/proc/self/fd/" + std::to_string(ends[1]),
                                  "/dev/fd/" + std::to_string(ends[1]), path("link")}) {
    EXPECT_EQ(output_descriptor(name), ends[1]) << name;
    EXPECT_FALSE(names_a_file(name)) << name;
    auto out = File::create_output(name);
    ASSERT_TRUE(out) << out.error().message();
    ASSERT_TRUE(put(*out, "through"));
    EXPECT_TRUE(out->publish());
    char text[8] = {};
    ASSERT_EQ(::read(ends[0], text, 7), 7);
    EXPECT_STREQ(text, "through");
  }
  auto unwritable = File::create_output("/dev/fd/" + std::to_string(ends[0]));
  ASSERT_FALSE(unwritable);
  EXPECT_EQ(unwritable.error().system_errno, EBADF);
  ::close(ends[0]);
  ::close(ends[1]);
  auto closed = File::create_output("/dev/fd/" + std::to_string(ends[1]));
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().system_errno, EBADF);

  // The output goes behind data of others, and into this very file.
  put(path("log"), "before ");
  const int log = ::open(path("log").c_str(), O_WRONLY | O_APPEND);
  auto out = File::create_output("/proc/self/fd/" + std::to_string(log));
  ASSERT_TRUE(out) << out.error().message();
  ASSERT_TRUE(put(*out, "after"));
  EXPECT_TRUE(out->publish());
  EXPECT_TRUE(File::open_read(path("log"))->has_name(path("log")));
  EXPECT_EQ(get(path("log")), "before after");
  ::close(log);

  EXPECT_EQ(output_descriptor("-"), STDOUT_FILENO);
  EXPECT_EQ(output_descriptor(path("log")), std::nullopt);
  EXPECT_EQ(output_descriptor(path("7")), std::nullopt);
  EXPECT_TRUE(names_a_file(path("log")));
  EXPECT_TRUE(names_a_file(path("new")));
  EXPECT_FALSE(names_a_file("/dev/null"));
}

TEST_F(FileTest, SpaceTellsFileSystemsApart) {
  auto here = space_of(directory_.string());
  auto same = space_of(testing::TempDir());
  auto other = space_of("/proc");
  ASSERT_TRUE(here && same && other);
  EXPECT_GT(here->free_bytes, 0u);
  EXPECT_EQ(here->device, same->device);
  EXPECT_NE(here->device, other->device);
}

TEST_F(FileTest, AKeptFileStaysAndIsOneOwners) {
  {
    auto file = File::open_kept(path("kept"));
    ASSERT_TRUE(file);
    ASSERT_TRUE(put(*file, "first"));
    EXPECT_TRUE(*file->try_lock());
    auto again = File::open_kept(path("kept"));
    ASSERT_TRUE(again);
    EXPECT_FALSE(*again->try_lock());
    ASSERT_TRUE(file->set_size(*file->size()));
    EXPECT_TRUE(file->has_name(path("kept")));
    EXPECT_TRUE(file->identity());
  }
  EXPECT_EQ(get(path("kept")), "first");
  auto file = File::open_kept(path("kept"));
  ASSERT_TRUE(file);
  EXPECT_EQ(*file->size(), 5u);
  std::filesystem::remove(path("kept"));
  EXPECT_FALSE(file->has_name(path("kept")));
  std::filesystem::create_symlink(path("elsewhere"), path("link"));
  EXPECT_FALSE(File::open_kept(path("link")));
}

TEST_F(FileTest, AKeptOutputGoesOnUntilItIsPublished) {
  put(path("out"), "old");
  {
    auto begun = File::open_kept_output(path("out"), ".part", 0);
    ASSERT_TRUE(begun);
    ASSERT_TRUE(put(*begun, "half of it"));
  }
  EXPECT_EQ(get(path("out")), "old");
  EXPECT_FALSE(File::open_kept_output(path("out"), ".part", 1ull << 40));
  {
    auto more = File::open_kept_output(path("out"), ".part", 5);
    ASSERT_TRUE(more);
    EXPECT_EQ(*more->size(), 5u);
    EXPECT_EQ(more->name_in_progress(), path(".part"));
    EXPECT_EQ(*File::kept_output_path(path("out"), ".part"), path(".part"));
    EXPECT_FALSE(File::open_kept_output(path("out"), ".part", 0)) << "it is open already";
    EXPECT_EQ(get(path(".part"), 5), "half ") << "and room behind it, up to a GiB";
    ASSERT_TRUE(write_exactly(*more, 5, reinterpret_cast<const std::byte*>("more"), 4));
    ASSERT_TRUE(more->publish());
  }
  EXPECT_EQ(get(path("out")), "half more");
  EXPECT_FALSE(std::filesystem::exists(path(".part")));
  EXPECT_FALSE(File::open_kept_output(path("out"), ".part", 5)) << "there is nothing to go on with";
  EXPECT_FALSE(File::open_kept_output("/dev/null", ".part", 0));
  EXPECT_FALSE(File::open_kept_output("-", ".part", 0));
}

// Each call that brings an output to the disk fails once: then the output gets no name.
TEST_F(FileTest, AnOutputThatTheDiskDoesNotTakeHasNoName) {
  struct Case {
    Operation operation;
    bool sync;
  };
  for (const Case& one : {Case{Operation::sync, true}, Case{Operation::rename, true},
                          Case{Operation::close, false}, Case{Operation::rename, false}}) {
    for (const int error : {EIO, ENOSPC}) {
      auto file = File::create_output(path("out"), {.rules = {.sync = one.sync}});
      ASSERT_TRUE(file && put(*file, "lost"));
      inject({.error = error, .error_after = 0, .error_operation = one.operation});
      const Status published = file->publish();
      inject({});
      ASSERT_FALSE(published) << static_cast<int>(one.operation);
      EXPECT_EQ(published.error().system_errno, error);
    }
    EXPECT_EQ(entries(), 0u) << "and nothing is left when it is closed";
  }
}

TEST_F(FileTest, ANameThatIsNotOnTheDiskIsAnError) {
  auto file = File::create_output(path("out"));
  ASSERT_TRUE(file && put(*file, "text"));
  // The second sync is the folder's.
  inject({.error = EIO, .error_after = 1, .error_operation = Operation::sync});
  const Status published = file->publish();
  inject({});
  ASSERT_FALSE(published);
  EXPECT_EQ(published.error().subject, directory_.string());
}

// The second file's data cannot be brought to the disk: the first gets no name either.
TEST_F(FileTest, SeveralOutputsGetTheirNamesWhenAllAreOnTheDisk) {
  std::vector<File> made;
  std::vector<File*> files;
  for (const char* name : {"a", "b", "c"}) {
    auto file = File::create_output(path(name));
    ASSERT_TRUE(file && put(*file, name));
    made.push_back(std::move(*file));
  }
  for (File& file : made) files.push_back(&file);
  inject({.error = EIO, .error_after = 1, .error_operation = Operation::sync});
  EXPECT_FALSE(File::publish_all(files));
  inject({});
  EXPECT_EQ(entries(), 0u);
  ASSERT_TRUE(File::publish_all(files));
  EXPECT_EQ(entries(), 3u);
  EXPECT_EQ(get(path("b")), "b");
}

TEST_F(FileTest, AnInputThatChangedIsNotReplacedAndTheOutputIsKept) {
  put(path("file"), "before");
  auto inputs = std::make_shared<InputGuard>();
  auto input = File::open_read(path("file"));
  ASSERT_TRUE(input && inputs->add(*input));
  auto output = File::create_output(path("file"), {.inputs = inputs});
  ASSERT_TRUE(output && put(*output, "sorted"));
  put(path("file"), "changed since");
  const Status published = output->publish();
  ASSERT_FALSE(published);
  EXPECT_EQ(get(path("file")), "changed since");
  ASSERT_EQ(entries(), 2u);
  for (const auto& entry : fs::directory_iterator(directory_)) {
    if (entry.path() == path("file")) continue;
    EXPECT_EQ(get(entry.path()), "sorted");
    EXPECT_NE(published.error().message().find(entry.path()), std::string::npos);
  }
}

// Between a sort's look at its input and the opening of its output, somebody else may save a new
// file under that name.
TEST_F(FileTest, AFileInAnInputsPlaceIsNotReplaced) {
  put(path("file"), "sorted twice");
  auto guard = std::make_shared<InputGuard>();
  ASSERT_TRUE(guard->add(*File::open_read(path("file"))));
  put(path("new"), "somebody else's");
  fs::rename(path("new"), path("file"));
  auto output = File::create_output(path("file"), {.inputs = guard});
  ASSERT_TRUE(output) << output.error().message();
  const Status published = output->publish();
  EXPECT_EQ(get(path("file")), "somebody else's");
  ASSERT_FALSE(published);
  EXPECT_NE(published.error().attempted.find("has changed since it was opened"), std::string::npos);
}

TEST_F(FileTest, AnInputThatStaysIsReplaced) {
  put(path("file"), "before");
  auto inputs = std::make_shared<InputGuard>();
  auto input = File::open_read(path("file"));
  ASSERT_TRUE(input && inputs->add(*input));
  auto output = File::create_output(path("file"), {.inputs = inputs});
  ASSERT_TRUE(output && put(*output, "sorted") && output->publish());
  EXPECT_EQ(get(path("file")), "sorted");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(FileTest, APrivateDirectoryIsNobodyElses) {
  ASSERT_TRUE(make_private_directory(path("private")));
  ASSERT_TRUE(make_private_directory(path("private")));
  EXPECT_TRUE(sync_directory(path("private")));
  std::filesystem::permissions(path("private"), std::filesystem::perms::all);
  EXPECT_FALSE(make_private_directory(path("private")));
  put(path("file"), "x");
  EXPECT_FALSE(make_private_directory(path("file")));
  EXPECT_FALSE(sync_directory(path("nothing")));
}

TEST_F(FileTest, AMovedFromFileOwnsNothing) {
  auto made = File::create_temporary(directory_.string());
  ASSERT_TRUE(made);
  File first = std::move(*made);
  File second;
  second = std::move(first);
  EXPECT_EQ(first.descriptor(), -1);
  EXPECT_TRUE(put(second, "still open"));
}

}  // namespace
}  // namespace penstock::io
