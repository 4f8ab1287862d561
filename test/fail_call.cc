// Runs a program and makes one of its system calls fail.
//
//   fail_call count OUT PROGRAM WORDS...                counts the calls of each kind, and writes
//   them to OUT fail_call CALL:NUMBER:ERRNO[:on] PROGRAM WORDS...   the call of that kind and
//   number, from 1, fails; with `on` all
//                                                       behind it, too
//
// Exit code: the program's; 128 and its number where a signal ended it; 77 where the system cannot
// do this.
//
// A seccomp filter asks this process before each call of the kinds below, whichever thread or child
// makes it. The loader's calls are not counted: the program's own begin when it looks at its
// descriptor 0 (occupy_standard_streams).

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

struct Call {
  const char* name;
  int number;
};
#define CALL(name)    \
  Call {              \
    #name, SYS_##name \
  }
constexpr std::array calls = {
    CALL(openat),
    CALL(close),
    CALL(fcntl),
    CALL(read),
    CALL(pread64),
    CALL(write),
    CALL(pwrite64),
    CALL(lseek),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(statfs),
    CALL(fstatfs),
    CALL(fsync),
    CALL(fdatasync),
    CALL(sync_file_range),
    CALL(fadvise64),
    CALL(flock),
    CALL(linkat),
    CALL(renameat),
    CALL(renameat2),
    CALL(unlinkat),
    CALL(getdents64),
    CALL(readlinkat),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(fchmod),
    CALL(fchown),
    CALL(mkdirat),
    CALL(ioctl),
    CALL(mmap),
    CALL(munmap),
    CALL(mprotect),
    CALL(mremap),
    CALL(madvise),
    CALL(brk),
    CALL(memfd_create),
    CALL(userfaultfd),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(clone3),
    CALL(clone),
    CALL(eventfd2),
    CALL(pipe2),
    CALL(timerfd_create),
    CALL(timerfd_settime),
    CALL(ppoll),
    CALL(getrandom),
    CALL(prlimit64),
    CALL(sched_getaffinity),
    CALL(copy_file_range),
    CALL(splice),
    CALL(pidfd_open),
    CALL(kill),
    CALL(sigaltstack),
    CALL(setitimer),
    CALL(socket),
    CALL(connect),
#ifdef SYS_open
    CALL(open),
    CALL(stat),
    CALL(lstat),
    CALL(rename),
    CALL(link),
    CALL(unlink),
    CALL(readlink),
    CALL(access),
    CALL(mkdir),
    CALL(rmdir),
    CALL(poll),
    CALL(chmod),
#endif
};
constexpr int cannot = 77;

int fail(const char* what) {
  std::perror(what);
  return cannot;
}

// Asks for the calls above, allows all others. -1: the system has no such filter.
int listener() {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : calls) {
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(
      ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

[[noreturn]] void become(char** words, int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = listener();
  // send() is none of the calls that are asked about.
  if (::send(socket, &fd, sizeof fd, 0) == sizeof fd && fd >= 0) {
    char taken = 0;
    (void)!::recv(socket, &taken, 1, 0);
    ::execvp(words[0], words);
  }
  ::_exit(cannot);
}

struct Wanted {
  size_t call = calls.size();
  uint64_t number = 0;
  int error = 0;
  bool on = false;
};

class Supervisor {
 public:
  Supervisor(int fd, const Wanted& wanted) : fd_(fd), wanted_(wanted) {}

  // Until no process with the filter is left.
  void run() {
    for (;;) {
      pollfd entry{fd_, POLLIN, 0};
      if (::poll(&entry, 1, -1) < 0) continue;
      if ((entry.revents & POLLIN) == 0) return;
      seccomp_notif asked{};
      if (::ioctl(fd_, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) continue;  // it has ended meanwhile
      const int error = error_for(asked.data);
      seccomp_notif_resp answer{};
      answer.id = asked.id;
      answer.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
      // A refused brk() answers with the old end, not with an error; 0 is before any new one, too.
      answer.error = asked.data.nr == SYS_brk ? 0 : -error;
      (void)::ioctl(fd_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
  }
  void write_counts(const char* path) const {
    std::FILE* out = std::fopen(path, "w");
    if (out == nullptr) std::exit(fail(path));
    for (size_t i = 0; i < calls.size(); ++i) {
      if (counts_[i] != 0)
        std::fprintf(out, "%s %llu\n", calls[i].name, static_cast<unsigned long long>(counts_[i]));
    }
    std::fclose(out);
  }

 private:
  int error_for(const seccomp_data& data) {
    for (size_t i = 0; i < calls.size(); ++i) {
      if (calls[i].number != data.nr) continue;
      began_ = began_ || (data.nr == SYS_fcntl && data.args[0] == 0 && data.args[1] == F_GETFD);
      if (!began_) return 0;
      const uint64_t number = ++counts_[i];
      if (i != wanted_.call) return 0;
      return number == wanted_.number || (wanted_.on && number > wanted_.number) ? wanted_.error
                                                                                 : 0;
    }
    return 0;
  }

  int fd_;
  Wanted wanted_;
  bool began_ = false;
  std::array<uint64_t, calls.size()> counts_ = {};
};

// "CALL:NUMBER:ERRNO[:on]"
bool parse(const std::string& text, Wanted& to) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  for (size_t i = 0; i < calls.size(); ++i) {
    if (text.compare(0, colon, calls[i].name) == 0) to.call = i;
  }
  unsigned long long number = 0;
  char on[3] = {};
  const int fields = std::sscanf(text.c_str() + colon, ":%llu:%d:%2s", &number, &to.error, on);
  to.number = number;
  to.on = std::strcmp(on, "on") == 0;
  return to.call < calls.size() && fields >= 2;
}

}  // namespace

int main(int argc, char** argv) {
  const bool counts = argc > 1 && std::strcmp(argv[1], "count") == 0;
  const int first = counts ? 3 : 2;
  Wanted wanted;
  if (argc <= first || (!counts && !parse(argv[1], wanted))) {
    std::fputs("usage: fail_call count OUT | CALL:NUMBER:ERRNO[:on]  PROGRAM WORDS...\n", stderr);
    return cannot;
  }
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return fail("socketpair");
  const pid_t child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) become(argv + first, sockets[1]);
  int theirs = -1;
  if (::recv(sockets[0], &theirs, sizeof theirs, 0) != sizeof theirs || theirs < 0)
    return fail("seccomp");
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const int fd = static_cast<int>(::syscall(SYS_pidfd_getfd, process, theirs, 0));
  if (fd < 0) return fail("pidfd_getfd");
  ::send(sockets[0], "", 1, 0);
  Supervisor supervisor(fd, wanted);
  supervisor.run();
  int status = 0;
  ::waitpid(child, &status, 0);
  if (counts) supervisor.write_counts(argv[2]);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
