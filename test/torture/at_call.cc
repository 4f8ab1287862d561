// Runs a program, and fails or holds it at one of its system calls.
//
//   at_call CONTROL RULES PROGRAM WORDS...
//
// CONTROL is the descriptor of a socket (SOCK_SEQPACKET) to the caller. RULES, separated by commas,
// are CALL:NUMBER:ERRNO, which fails the call of that kind and 1-based number, and CALL:NUMBER:ask,
// which holds the call, sends "ask RULE PID CALL" and the call's six arguments to the caller, and
// makes the call after any answer. A `+` after the number means all calls from there on. `count`
// counts the calls of each kind.
//
// At the end it sends "call NAME COUNT" for each kind, "left 1" if a process outlived the program,
// and "ended CODE": the exit code, or minus the signal's number. Exit code: 0; 77 if the system
// cannot do this.
//
// A seccomp filter asks this process before each call of the kinds that the rules name, in any
// thread or child. The loader's calls are not counted: the program's own begin with its F_GETFD
// of descriptor 0 (occupy_standard_streams), or with the fcntl command of `from=COMMAND`.

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
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace {

// A kind of call. openat() has three: past the page cache, without a name, and the rest.
struct Call {
  const char* name;
  int number;
  unsigned flag = 0;  // flag of the third argument
};
#define CALL(name)    \
  Call {              \
    #name, SYS_##name \
  }
constexpr std::array calls = {
    Call{"direct", SYS_openat, O_DIRECT},
    Call{"unnamed", SYS_openat, O_TMPFILE & ~O_DIRECTORY},
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
    CALL(syncfs),
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

struct Rule {
  size_t call = calls.size();
  uint64_t number = 0;
  bool on = false;  // from this number on
  bool ask = false;
  int error = 0;

  bool meets(size_t kind, uint64_t count) const {
    return kind == call && (count == number || (on && count > number));
  }
};

struct Rules {
  bool counts = false;
  unsigned begins_with = F_GETFD;
  std::vector<Rule> all;

  bool parse(const std::string& text) {
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find(',', at), text.size());
      const std::string word = text.substr(at, end - at);
      at = end + 1;
      if (word == "count") {
        counts = true;
        continue;
      }
      if (word.starts_with("from=")) {
        begins_with = std::atoi(word.c_str() + 5);
        continue;
      }
      Rule rule;
      const size_t colon = word.find(':');
      if (colon == std::string::npos) return false;
      for (size_t i = 0; i < calls.size(); ++i) {
        if (word.compare(0, colon, calls[i].name) == 0) rule.call = i;
      }
      char* rest = nullptr;
      rule.number = std::strtoull(word.c_str() + colon + 1, &rest, 10);
      rule.on = *rest == '+';
      if (rule.on) ++rest;
      if (*rest != ':' || rule.call == calls.size()) return false;
      rule.ask = std::strcmp(rest + 1, "ask") == 0;
      rule.error = std::atoi(rest + 1);
      if (!rule.ask && rule.error <= 0) return false;
      all.push_back(rule);
    }
    return true;
  }

  // Whether the filter has to ask about this system call. fcntl() marks the beginning of the program.
  bool wants(int number) const {
    if (counts || number == SYS_fcntl) return true;
    for (const Rule& rule : all) {
      if (calls[rule.call].number == number) return true;
    }
    return false;
  }
};

// Installs a filter that asks for the calls of the rules and allows all others. Returns -1 if the system has no such filter.
int listener(const Rules& rules) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (const Call& call : calls) {
    if (!rules.wants(call.number)) continue;
    program.push_back(
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter{.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  // If the system supports it, a signal that the program catches does not end the question.
  for (const unsigned long killable : {1ul << 5, 0ul}) {
    const long fd = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
                              SECCOMP_FILTER_FLAG_NEW_LISTENER | killable, &filter);
    if (fd >= 0) return static_cast<int>(fd);
  }
  return -1;
}

[[noreturn]] void become(char** words, const Rules& rules, int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int fd = listener(rules);
  // The filter never asks about send().
  if (::send(socket, &fd, sizeof fd, 0) == sizeof fd && fd >= 0) {
    char taken = 0;
    (void)!::recv(socket, &taken, 1, 0);
    ::execvp(words[0], words);
  }
  ::_exit(cannot);
}

class Supervisor {
 public:
  Supervisor(int listener, int control, const Rules& rules)
      : listener_(listener), control_(control), rules_(rules) {}

  // Serves until the program has ended. Returns true if no process with the filter is left, false
  // if some outlived their time. Without a caller, a program that hangs is ended here.
  bool run(int process) {
    constexpr int grace_ms = 2000;
    bool ended = false;
    for (;;) {
      std::array<pollfd, 3> entries = {pollfd{listener_, POLLIN, 0},
                                       pollfd{ended ? -1 : process, POLLIN, 0},
                                       pollfd{control_, 0, 0}};
      const int ready = ::poll(entries.data(), entries.size(), ended ? grace_ms : -1);
      if (ready < 0) continue;
      if (ready == 0) return false;
      if (entries[2].revents != 0) ::kill(0, SIGKILL);
      ended = ended || entries[1].revents != 0;
      if ((entries[0].revents & POLLIN) == 0) {
        if (entries[0].revents != 0) return true;
        continue;
      }
      seccomp_notif asked{};
      if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
        continue;  // the process has ended meanwhile
      const int error = answer_to(asked);
      seccomp_notif_resp answer{};
      answer.id = asked.id;
      answer.flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0;
      // A refused brk() returns the old end, not an error; 0 is below any new end, too.
      answer.error = asked.data.nr == SYS_brk ? 0 : -error;
      (void)::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
  }

  std::string counts() const {
    std::string text;
    for (size_t i = 0; i < calls.size(); ++i) {
      if (counts_[i] != 0)
        text += std::string("call ") + calls[i].name + ' ' + std::to_string(counts_[i]) + '\n';
    }
    return text;
  }

 private:
  // The error of the call; 0: the call is made.
  int answer_to(const seccomp_notif& asked) {
    const seccomp_data& data = asked.data;
    began_ =
        began_ || (data.nr == SYS_fcntl && data.args[0] == 0 && data.args[1] == rules_.begins_with);
    if (!began_) return 0;
    for (size_t i = 0; i < calls.size(); ++i) {
      const Call& call = calls[i];
      if (call.number != data.nr || (data.args[2] & call.flag) != call.flag) continue;
      const uint64_t number = ++counts_[i];
      int error = 0;
      for (size_t rule = 0; rule < rules_.all.size(); ++rule) {
        if (!rules_.all[rule].meets(i, number)) continue;
        if (rules_.all[rule].ask) {
          ask(rule, asked);
        } else {
          error = rules_.all[rule].error;
        }
      }
      return error;
    }
    return 0;
  }

  void ask(size_t rule, const seccomp_notif& asked) const {
    std::string text = "ask " + std::to_string(rule) + ' ' + std::to_string(asked.pid) + ' ' +
                       calls[rules_.all[rule].call].name;
    for (const uint64_t word : asked.data.args) text += ' ' + std::to_string(word);
    if (::send(control_, text.data(), text.size(), 0) < 0) return;
    char answer = 0;
    (void)!::recv(control_, &answer, 1, 0);
  }

  int listener_;
  int control_;
  const Rules& rules_;
  bool began_ = false;
  std::array<uint64_t, calls.size()> counts_ = {};
};

}  // namespace

int main(int argc, char** argv) {
  Rules rules;
  if (argc < 4 || !rules.parse(argv[2])) {
    std::fputs("usage: at_call CONTROL [count|CALL:NUMBER[+]:ERRNO|ask],... PROGRAM WORDS...\n",
               stderr);
    return cannot;
  }
  const int control = std::atoi(argv[1]);
  ::fcntl(control, F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return fail("socketpair");
  const pid_t child = ::fork();
  if (child < 0) return fail("fork");
  if (child == 0) become(argv + 3, rules, sockets[1]);
  int theirs = -1;
  if (::recv(sockets[0], &theirs, sizeof theirs, 0) != sizeof theirs || theirs < 0)
    return fail("seccomp");
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  const int fd = static_cast<int>(::syscall(SYS_pidfd_getfd, process, theirs, 0));
  if (fd < 0) return fail("pidfd_getfd");
  ::send(sockets[0], "", 1, 0);
  Supervisor supervisor(fd, control, rules);
  const bool all_ended = supervisor.run(process);
  int status = 0;
  ::waitpid(child, &status, 0);
  // The program's orphans have become our children. Some may be ending just now.
  unsigned left = 0;
  for (siginfo_t info{}; ::waitid(P_ALL, 0, &info, WEXITED | (all_ended ? 0 : WNOHANG)) == 0;
       info = {}) {
    if (info.si_pid != 0) continue;
    left = 1;
    break;
  }
  std::string report = supervisor.counts();
  report += "left " + std::to_string(left) + '\n';
  report +=
      "ended " + std::to_string(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  return ::send(control, report.data(), report.size(), 0) < 0 ? fail("report") : 0;
}
