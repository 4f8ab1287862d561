// A program with known accesses to files, for the tests of captures. It makes each access with a
// different call, and notes beside it by hand the file and bytes that the call must access.
//
//   known_pattern FOLDER   makes its files there, and at last FOLDER/expected: lines of
//                          "file access offset bytes", in the order of the accesses
//   known_pattern FOLDER --polled   uses an io_uring polled by the kernel; exit code 18 without one
//   known_pattern --rings COUNT   opens COUNT io_urings, and closes each before the next
//   known_pattern --unwatched COUNT   makes COUNT calls that are irrelevant to captures
//   known_pattern --processors COUNT   checks, beside other threads, that it may run on COUNT
//                                      processors, and that it is kept on one if it makes many calls
//
// Only the threads of `Threads` run concurrently, and each has a file of its own: the order of the
// other accesses is known.

#include <fcntl.h>
#include <liburing.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Note {
  char file[24];
  char access;
  uint64_t offset, bytes;
};
struct Notes {
  uint32_t count;
  Note notes[2000];
};
Notes* notes = nullptr;  // memory that all children share

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "known_pattern: %s: %s\n", what, std::strerror(errno));
  ::_exit(99);
}
#define REQUIRE(condition) require((condition), #condition)

void note(const char* file, char access, uint64_t offset, uint64_t bytes) {
  Note& place = notes->notes[__atomic_fetch_add(&notes->count, 1, __ATOMIC_RELAXED)];
  std::snprintf(place.file, sizeof place.file, "%s", file);
  place.access = access;
  place.offset = offset;
  place.bytes = bytes;
}

std::array<char, 65536> buffer;

void reads(int fd, size_t asked, const char* file, uint64_t offset, uint64_t moved) {
  REQUIRE(::read(fd, buffer.data(), asked) == static_cast<ssize_t>(moved));
  if (moved > 0) note(file, 'r', offset, moved);
}
void writes(int fd, size_t bytes, const char* file, uint64_t offset) {
  REQUIRE(::write(fd, buffer.data(), bytes) == static_cast<ssize_t>(bytes));
  note(file, 'w', offset, bytes);
}

void wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child && status == 0);
}

void plain_calls() {
  const int fd = ::open("plain", O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(fd >= 0);
  writes(fd, 10000, "plain", 0);
  const iovec two[2] = {{buffer.data(), 1000}, {buffer.data(), 2000}};
  REQUIRE(::writev(fd, two, 2) == 3000);
  note("plain", 'w', 10000, 3000);
  REQUIRE(::pwrite(fd, buffer.data(), 500, 20000) == 500);
  note("plain", 'w', 20000, 500);
  REQUIRE(::pwritev(fd, two, 2, 30000) == 3000);
  note("plain", 'w', 30000, 3000);
  REQUIRE(::pwritev2(fd, two, 1, -1, 0) == 1000);  // at its position
  note("plain", 'w', 13000, 1000);
  REQUIRE(::pwritev2(fd, two, 1, 5, RWF_APPEND) == 1000);
  note("plain", 'w', 33000, 1000);
  REQUIRE(::lseek(fd, 100, SEEK_SET) == 100);
  reads(fd, 50, "plain", 100, 50);
  REQUIRE(::lseek(fd, -20, SEEK_CUR) == 130);
  REQUIRE(::readv(fd, two, 2) == 3000);
  note("plain", 'r', 130, 3000);
  REQUIRE(::lseek(fd, -100, SEEK_END) == 33900);
  reads(fd, 4096, "plain", 33900, 100);  // short: the file ends
  reads(fd, 4096, "plain", 34000, 0);    // the end
  REQUIRE(::pread(fd, buffer.data(), 4096, 8192) == 4096);
  note("plain", 'r', 8192, 4096);
  REQUIRE(::preadv(fd, two, 2, 1) == 3000);
  note("plain", 'r', 1, 3000);
  REQUIRE(::preadv2(fd, two, 1, 2, 0) == 1000);
  note("plain", 'r', 2, 1000);
  // A call that fails is no access.
  REQUIRE(::read(-1, buffer.data(), 1) < 0 && ::pread(fd, buffer.data(), 1, -5) < 0);
  REQUIRE(::open("missing", O_RDONLY) < 0);
  const int read_only = ::open("plain", O_RDONLY | O_CLOEXEC);
  REQUIRE(::write(read_only, buffer.data(), 10) < 0);
  reads(read_only, 10, "plain", 0, 10);
  REQUIRE(::close(read_only) == 0 && ::close(fd) == 0);
  // The number is reused at once.
  const int other = ::creat("other", 0600);
  REQUIRE(other == fd);
  writes(other, 77, "other", 0);
  ::close(other);
  open_how how = {};
  how.flags = O_RDONLY;
  const auto third = static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, "other", &how, sizeof how));
  REQUIRE(third == fd);
  reads(third, 100, "other", 0, 77);
  ::close(third);
}

void duplicates() {
  const int a = ::open("dup", O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int b = ::dup(a);
  const int separate = ::open("dup", O_RDWR);
  REQUIRE(b >= 0 && separate >= 0);
  writes(a, 1000, "dup", 0);
  writes(b, 1000, "dup", 1000);
  reads(separate, 100, "dup", 0, 100);  // a position of its own
  const int c = ::fcntl(b, F_DUPFD, 100);
  REQUIRE(c == 100);
  writes(c, 1000, "dup", 2000);
  REQUIRE(::dup2(c, separate) == separate);  // closes the old description
  writes(separate, 1000, "dup", 3000);
  REQUIRE(::dup3(a, 120, O_CLOEXEC) == 120);
  ::close(a);
  ::close(b);
  REQUIRE(::lseek(120, 500, SEEK_SET) == 500);
  reads(c, 100, "dup", 500, 100);
  REQUIRE(::syscall(SYS_close_range, 100, 119, 0) == 0);
  REQUIRE(::read(c, buffer.data(), 1) < 0);
  reads(separate, 100, "dup", 600, 100);
  ::close(120);
  ::close(separate);
}

void appends() {
  const int fd = ::open("append", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
  const int other = ::open("append", O_RDWR);
  writes(fd, 100, "append", 0);
  REQUIRE(::lseek(fd, 10, SEEK_SET) == 10);
  reads(fd, 5, "append", 10, 5);
  writes(fd, 100, "append", 100);  // to the end, regardless of the position
  reads(fd, 5, "append", 200, 0);
  REQUIRE(::pwrite(other, buffer.data(), 10, 1000) == 10);
  note("append", 'w', 1000, 10);
  writes(fd, 1, "append", 1010);
  REQUIRE(::pwrite(fd, buffer.data(), 7, 3) == 7);  // Linux appends nevertheless
  note("append", 'w', 1011, 7);
  REQUIRE(::ftruncate(other, 50) == 0);
  writes(fd, 2, "append", 50);
  REQUIRE(::truncate("append", 5000) == 0);
  writes(fd, 2, "append", 5000);
  REQUIRE(::fallocate(other, 0, 6000, 1000) == 0);
  writes(fd, 2, "append", 7000);
  REQUIRE(::fallocate(other, FALLOC_FL_KEEP_SIZE, 10000, 1000) == 0);
  writes(fd, 2, "append", 7002);
  REQUIRE(::fcntl(other, F_SETFL, O_APPEND) == 0);
  writes(other, 3, "append", 7004);
  REQUIRE(::fcntl(other, F_SETFL, 0) == 0);
  writes(other, 3, "append", 7007);
  REQUIRE(::fsync(fd) == 0 && ::fdatasync(other) == 0);
  ::close(fd);
  ::close(other);
}

void copies() {
  const int in = ::open("plain", O_RDONLY);
  const int out = ::open("copy", O_RDWR | O_CREAT | O_TRUNC, 0600);
  REQUIRE(::sendfile(out, in, nullptr, 1000) == 1000);
  note("plain", 'r', 0, 1000);
  note("copy", 'w', 0, 1000);
  off_t at = 5000;
  REQUIRE(::sendfile(out, in, &at, 100) == 100 && at == 5100);
  note("plain", 'r', 5000, 100);
  note("copy", 'w', 1000, 100);
  off64_t from = 2000, to = 8000;
  REQUIRE(::copy_file_range(in, &from, out, &to, 300, 0) == 300);
  note("plain", 'r', 2000, 300);
  note("copy", 'w', 8000, 300);
  REQUIRE(::copy_file_range(in, nullptr, out, nullptr, 200, 0) == 200);
  note("plain", 'r', 1000, 200);
  note("copy", 'w', 1100, 200);
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  REQUIRE(::splice(in, nullptr, pipe[1], nullptr, 400, 0) == 400);
  note("plain", 'r', 1200, 400);
  off64_t place = 20000;
  REQUIRE(::splice(pipe[0], nullptr, out, &place, 400, 0) == 400);
  note("copy", 'w', 20000, 400);
  // Pipes and sockets are no files, even with the numbers of former files.
  ::close(in);
  int sockets[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  REQUIRE(::write(sockets[0], buffer.data(), 10) == 10);
  REQUIRE(::read(sockets[1], buffer.data(), 10) == 10);
  REQUIRE(::write(pipe[1], buffer.data(), 10) == 10 && ::read(pipe[0], buffer.data(), 10) == 10);
  for (const int fd : {pipe[0], pipe[1], sockets[0], sockets[1]}) ::close(fd);
  REQUIRE(::rename("copy", "renamed") == 0);
  writes(out, 5, "copy", 1300);
  void* map = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, out, 0);
  REQUIRE(map != MAP_FAILED);
  ::munmap(map, 4096);
  REQUIRE(::unlink("renamed") == 0);
  writes(out, 5, "copy", 1305);
  ::close(out);
}

void forks() {
  const int fd = ::open("fork", O_RDWR | O_CREAT | O_TRUNC, 0600);
  writes(fd, 1000, "fork", 0);
  const pid_t child = ::fork();
  if (child == 0) {
    writes(fd, 100, "fork", 1000);
    REQUIRE(::lseek(fd, 5000, SEEK_SET) == 5000);
    const int own = ::open("fork", O_RDONLY);
    reads(own, 10, "fork", 0, 10);
    ::close(fd);  // the child's own descriptor
    ::_exit(0);
  }
  wait_for(child);
  writes(fd, 100, "fork", 5000);
  // A child of vfork().
  const pid_t fast = ::vfork();
  if (fast == 0) {
    ::close(fd);
    ::_exit(0);
  }
  wait_for(fast);
  writes(fd, 100, "fork", 5100);
  ::close(fd);
}

// Runs as the executed child of `executes`, with descriptors by number.
int after_exec(int argc, char** argv) {
  const int kept = std::atoi(argv[2]);
  const int closed = std::atoi(argv[3]);
  const int made_cloexec = std::atoi(argv[4]);
  const uint64_t at = std::strtoull(argv[5], nullptr, 10);
  if (argc > 6) {
    // The notes are in memory that is shared with the parent.
    const int shared = std::atoi(argv[6]);
    void* map = ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
    REQUIRE(map != MAP_FAILED);
    notes = static_cast<Notes*>(map);
  }
  REQUIRE(::fcntl(closed, F_GETFD) < 0 && ::fcntl(made_cloexec, F_GETFD) < 0);
  REQUIRE(::write(kept, buffer.data(), 10) == 10);
  note("exec", 'w', at, 10);
  const int fd = ::open("exec", O_RDONLY);
  reads(fd, 5, "exec", 0, 5);
  return 0;
}

void executes(int notes_fd) {
  const int kept = ::open("exec", O_RDWR | O_CREAT | O_TRUNC, 0600);
  const int closed = ::open("exec", O_RDWR | O_CLOEXEC);
  const int made = ::open("exec", O_RDWR);
  REQUIRE(::fcntl(made, F_SETFD, FD_CLOEXEC) == 0);
  writes(kept, 100, "exec", 0);
  writes(closed, 30, "exec", 0);
  const auto words = [&](int descriptor, const char* at) {
    return std::vector<std::string>{
        "known_pattern",         "--after-exec",       std::to_string(descriptor),
        std::to_string(closed),  std::to_string(made), at,
        std::to_string(notes_fd)};
  };
  const auto pointers = [](std::vector<std::string>& list) {
    std::vector<char*> all;
    for (std::string& word : list) all.push_back(word.data());
    all.push_back(nullptr);
    return all;
  };
  std::vector<std::string> first = words(kept, "100");
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv("/proc/self/exe", pointers(first).data());
    ::_exit(98);
  }
  wait_for(child);
  writes(kept, 10, "exec", 110);

  // A child of posix_spawn(), which shares the memory meanwhile, with another descriptor number.
  std::vector<std::string> second = words(200, "120");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, kept, 200);
  posix_spawn_file_actions_addclose(&actions, kept);
  pid_t spawned = 0;
  REQUIRE(::posix_spawn(&spawned, "/proc/self/exe", &actions, nullptr, pointers(second).data(),
                        environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  wait_for(spawned);
  writes(kept, 10, "exec", 130);
  ::close(kept);
  ::close(closed);
  ::close(made);
}

// Sends a descriptor through a socket. It shares its position.
void passes() {
  int sockets[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
  const int fd = ::open("passed", O_RDWR | O_CREAT | O_TRUNC, 0600);
  writes(fd, 1000, "passed", 0);
  char byte = 'x';
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  REQUIRE(::sendmsg(sockets[0], &message, 0) == 1);
  REQUIRE(::recvmsg(sockets[1], &message, 0) == 1);
  int received = -1;
  std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  REQUIRE(received >= 0 && received != fd);
  writes(received, 10, "passed", 1000);
  writes(fd, 10, "passed", 1010);
  for (const int open : {sockets[0], sockets[1], fd, received}) ::close(open);
}

void* thread_reads(void* number) {
  const auto index = reinterpret_cast<intptr_t>(number);
  char name[24];
  std::snprintf(name, sizeof name, "thread%d", static_cast<int>(index));
  const int fd = ::open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  std::array<char, 4096> own{};
  for (uint64_t i = 0; i < 50; ++i) {
    REQUIRE(::pwrite(fd, own.data(), own.size(), static_cast<off_t>(i * 8192)) == 4096);
    note(name, 'w', i * 8192, 4096);
  }
  for (uint64_t i = 50; i-- > 0;) {
    REQUIRE(::lseek(fd, static_cast<off_t>(i * 8192), SEEK_SET) >= 0);
    REQUIRE(::read(fd, own.data(), 100) == 100);
    note(name, 'r', i * 8192, 100);
  }
  ::close(fd);
  return nullptr;
}

void threads() {
  std::array<pthread_t, 4> running;
  for (size_t i = 0; i < running.size(); ++i) {
    REQUIRE(::pthread_create(&running[i], nullptr, thread_reads, reinterpret_cast<void*>(i)) == 0);
  }
  for (pthread_t& thread : running) ::pthread_join(thread, nullptr);
  // Threads share their descriptors.
  const int fd = ::open("plain", O_RDONLY);
  pthread_t one;
  const auto body = [](void* descriptor) -> void* {
    reads(static_cast<int>(reinterpret_cast<intptr_t>(descriptor)), 100, "plain", 0, 100);
    return nullptr;
  };
  REQUIRE(::pthread_create(&one, nullptr, body, reinterpret_cast<void*>(intptr_t{fd})) == 0);
  ::pthread_join(one, nullptr);
  reads(fd, 100, "plain", 100, 100);
  ::close(fd);
}

// Submits requests, waits for their completions, and returns their results.
std::vector<int> complete(io_uring& ring, unsigned count) {
  REQUIRE(::io_uring_submit_and_wait(&ring, count) == static_cast<int>(count));
  std::vector<int> results(count);
  for (unsigned i = 0; i < count; ++i) {
    io_uring_cqe* completion = nullptr;
    REQUIRE(::io_uring_wait_cqe(&ring, &completion) == 0);
    results[completion->user_data] = completion->res;
    ::io_uring_cqe_seen(&ring, completion);
  }
  return results;
}

bool rings() {
  io_uring ring;
  if (::io_uring_queue_init(8, &ring, 0) < 0) return false;
  const int fd = ::open("ring", O_RDWR | O_CREAT | O_TRUNC, 0600);
  const auto entry = [&](uint64_t user_data) {
    io_uring_sqe* made = ::io_uring_get_sqe(&ring);
    REQUIRE(made != nullptr);
    made->user_data = user_data;
    return made;
  };
  const auto prepare = [&](auto call, uint64_t user_data, auto... arguments) {
    io_uring_sqe* made = ::io_uring_get_sqe(&ring);
    REQUIRE(made != nullptr);
    call(made, arguments...);
    made->user_data = user_data;
    return made;
  };
  (void)entry;
  prepare(io_uring_prep_write, 0, fd, buffer.data(), 4096u, uint64_t{0});
  REQUIRE(complete(ring, 1)[0] == 4096);
  note("ring", 'w', 0, 4096);
  const iovec two[2] = {{buffer.data(), 1000}, {buffer.data(), 2000}};
  prepare(io_uring_prep_writev, 0, fd, two, 2u, uint64_t{10000});
  REQUIRE(complete(ring, 1)[0] == 3000);
  note("ring", 'w', 10000, 3000);
  prepare(io_uring_prep_read, 0, fd, buffer.data(), 8192u, uint64_t{12000});
  REQUIRE(complete(ring, 1)[0] == 1000);  // short
  note("ring", 'r', 12000, 1000);
  prepare(io_uring_prep_read, 0, fd, buffer.data(), 100u, ~uint64_t{0});  // at its position
  REQUIRE(complete(ring, 1)[0] == 100);
  note("ring", 'r', 0, 100);
  reads(fd, 100, "ring", 100, 100);
  prepare(io_uring_prep_read, 0, -1, buffer.data(), 100u, uint64_t{0});  // fails
  REQUIRE(complete(ring, 1)[0] < 0);
  prepare(io_uring_prep_fsync, 0, fd, 0u);
  REQUIRE(complete(ring, 1)[0] == 0);
  REQUIRE(::io_uring_register_files(&ring, &fd, 1) == 0);
  io_uring_sqe* fixed = prepare(io_uring_prep_read, 0, 0, buffer.data(), 50u, uint64_t{30});
  fixed->flags |= IOSQE_FIXED_FILE;
  REQUIRE(complete(ring, 1)[0] == 50);
  note("ring", 'r', 30, 50);
  prepare(io_uring_prep_openat, 0, AT_FDCWD, "plain", O_RDONLY, mode_t{0});
  const int opened = complete(ring, 1)[0];
  REQUIRE(opened >= 0);
  reads(opened, 60, "plain", 0, 60);
  prepare(io_uring_prep_close, 0, opened);
  REQUIRE(complete(ring, 1)[0] == 0);
  // Several requests at once; the last completions are read without another call.
  for (uint64_t i = 0; i < 4; ++i) {
    prepare(io_uring_prep_read, i, fd, buffer.data() + 100 * i, 100u, 1000 * i);
  }
  const std::vector<int> results = complete(ring, 4);
  for (uint64_t i = 0; i < 4; ++i) {
    REQUIRE(results[i] == 100);
    note("ring", 'r', 1000 * i, 100);
  }
  ::io_uring_queue_exit(&ring);
  ::close(fd);
  return true;
}

// Uses a ring whose submissions a kernel thread takes, and a file without a descriptor.
bool polled_ring() {
  io_uring ring;
  io_uring_params parameters = {};
  parameters.flags = IORING_SETUP_SQPOLL;
  parameters.sq_thread_idle = 50;
  if (::io_uring_queue_init_params(8, &ring, &parameters) < 0) return false;
  const auto submit = [&](auto call, auto... arguments) {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring);
    REQUIRE(entry != nullptr);
    call(entry, arguments...);
    return entry;
  };
  const auto result = [&] {
    io_uring_cqe* completion = nullptr;
    REQUIRE(::io_uring_submit(&ring) >= 0 && ::io_uring_wait_cqe(&ring, &completion) == 0);
    const int answer = completion->res;
    ::io_uring_cqe_seen(&ring, completion);
    return answer;
  };
  const int fd = ::open("polled", O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (uint64_t i = 0; i < 20; ++i) {
    submit(io_uring_prep_write, fd, buffer.data(), 4096u, 4096 * (i * 7 % 20));
    REQUIRE(result() == 4096);
    note("polled", 'w', 4096 * (i * 7 % 20), 4096);
  }
  submit(io_uring_prep_read, fd, buffer.data(), 100u, ~uint64_t{0});
  REQUIRE(result() == 100);
  note("polled", 'r', 0, 100);
  reads(fd, 50, "polled", 100, 50);
  const int none = -1;
  if (::io_uring_register_files(&ring, &none, 1) != 0) return false;
  submit(io_uring_prep_openat_direct, AT_FDCWD, "polled", O_RDONLY, mode_t{0}, 0u);
  if (result() != 0) return false;
  submit(io_uring_prep_read, 0, buffer.data(), 300u, uint64_t{700})->flags |= IOSQE_FIXED_FILE;
  REQUIRE(result() == 300);
  note("polled", 'r', 700, 300);
  ::io_uring_queue_exit(&ring);
  ::close(fd);
  return true;
}

void write_expected() {
  const int fd = ::open("expected", O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::string text;
  for (uint32_t i = 0; i < notes->count; ++i) {
    const Note& n = notes->notes[i];
    text += std::string(n.file) + " " + n.access + " " + std::to_string(n.offset) + " " +
            std::to_string(n.bytes) + "\n";
  }
  REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
  ::close(fd);
}

int processors_of(pid_t thread) {
  cpu_set_t set;
  REQUIRE(::sched_getaffinity(thread, sizeof set, &set) == 0);
  return CPU_COUNT(&set);
}

bool is_kept(int status_fd) {
  const ssize_t bytes = ::pread(status_fd, buffer.data(), buffer.size() - 1, 0);
  REQUIRE(bytes > 0);
  buffer[static_cast<size_t>(bytes)] = 0;
  const char* list = std::strstr(buffer.data(), "Cpus_allowed_list:");
  REQUIRE(list != nullptr);
  return std::strcspn(list, ",-") > std::strcspn(list, "\n");
}

// Makes calls until the thread is kept on one processor. Calls of other threads may delay that. The
// status file is opened before, since a tracer lets go of a thread that opens it.
bool becomes_kept() {
  const int status_fd = ::open("/proc/thread-self/status", O_RDONLY);
  const int fd = ::open("/proc/self/exe", O_RDONLY);
  REQUIRE(status_fd >= 0 && fd >= 0);
  bool kept = false;
  for (int i = 0; i < 100 && !kept; ++i) {
    for (int k = 0; k < 200; ++k) REQUIRE(::pread(fd, buffer.data(), 100, 0) == 100);
    kept = is_kept(status_fd);
  }
  ::close(fd);
  ::close(status_fd);
  return kept;
}

void looks_at_processors(int count) {
  const pid_t first = ::gettid();
  int go[2];
  REQUIRE(::pipe(go) == 0);
  std::thread other([&] {
    char byte;
    REQUIRE(::read(go[0], &byte, 1) == 1);
    REQUIRE(processors_of(first) == count);
    REQUIRE(becomes_kept());
    REQUIRE(processors_of(0) == count && processors_of(first) == count);
    REQUIRE(becomes_kept());
  });
  REQUIRE(becomes_kept());
  REQUIRE(processors_of(0) == count);
  REQUIRE(becomes_kept());
  std::thread([&] { REQUIRE(processors_of(0) == count); }).join();
  REQUIRE(becomes_kept());
  if (const pid_t child = ::fork(); child != 0) {
    wait_for(child);
  } else {
    REQUIRE(processors_of(0) == count);
    ::_exit(0);
  }
  REQUIRE(becomes_kept());
  REQUIRE(::write(go[1], "g", 1) == 1);
  other.join();
  REQUIRE(processors_of(0) == count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--after-exec") == 0) ::_exit(after_exec(argc, argv));
  if (argc > 2 && std::strcmp(argv[1], "--rings") == 0) {
    for (long i = std::atol(argv[2]); i > 0; --i) {
      io_uring ring;
      if (::io_uring_queue_init(4, &ring, 0) < 0) ::_exit(18);
      ::io_uring_queue_exit(&ring);
    }
    ::_exit(0);
  }
  if (argc > 2 && std::strcmp(argv[1], "--unwatched") == 0) {
    for (long i = std::atol(argv[2]); i > 0; --i) ::syscall(SYS_getppid);
    ::_exit(0);
  }
  if (argc > 2 && std::strcmp(argv[1], "--processors") == 0) {
    looks_at_processors(std::atoi(argv[2]));
    ::_exit(0);
  }
  REQUIRE(argc > 1 && ::chdir(argv[1]) == 0);
  const int notes_fd = ::memfd_create("notes", 0);
  REQUIRE(notes_fd >= 0 && ::ftruncate(notes_fd, sizeof(Notes)) == 0);
  void* map = ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED, notes_fd, 0);
  REQUIRE(map != MAP_FAILED);
  notes = static_cast<Notes*>(map);
  if (argc > 2 && std::strcmp(argv[2], "--polled") == 0) {
    const bool is_possible = polled_ring();
    write_expected();
    ::_exit(is_possible ? 17 : 18);
  }
  plain_calls();
  duplicates();
  appends();
  copies();
  forks();
  executes(notes_fd);
  passes();
  threads();
  if (argc < 3 || std::strcmp(argv[2], "--without-rings") != 0) rings();
  write_expected();
  ::_exit(17);
}
