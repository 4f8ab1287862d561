// Programs that are difficult for a tracer. Each makes few accesses, which the tests know.
//
//   odd_processes no-leader FOLDER   the first thread ends; another one copies, renames and reads
//   odd_processes sibling FOLDER     a child makes a sibling, which reads the child's file
//   odd_processes fuse FOLDER        a file system in user space, served by a traced process; exit
//                                    code 18 if it cannot be mounted

#include <fcntl.h>
#include <liburing.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

namespace {

void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "odd_processes: %s: %s\n", what, std::strerror(errno));
  ::_exit(99);
}
#define REQUIRE(condition) require((condition), #condition)

constexpr int not_here = 18;
std::array<char, 65536> buffer;

int make_file(const std::string& path, size_t bytes) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  REQUIRE(fd >= 0);
  REQUIRE(::write(fd, buffer.data(), bytes) == static_cast<ssize_t>(bytes));
  return fd;
}

void wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child && status == 0);
}

// ---- no-leader

bool has_ended(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::FILE* file = std::fopen(path.c_str(), "r");
  if (file == nullptr) return true;
  char state = 0;
  REQUIRE(std::fscanf(file, "%*d %*s %c", &state) == 1);
  std::fclose(file);
  return state == 'Z';
}

void without_leader(const std::string& folder) {
  while (!has_ended(::getpid())) ::sched_yield();
  const int from = make_file(folder + "/from", buffer.size());
  const int to = make_file(folder + "/to", 0);
  off_t offset = 4096;
  REQUIRE(::sendfile(to, from, &offset, 1000) == 1000);
  // A new name: the file is not opened by it.
  REQUIRE(::rename((folder + "/to").c_str(), (folder + "/renamed").c_str()) == 0);
  io_uring ring;
  if (::io_uring_queue_init(4, &ring, 0) == 0) {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring);
    ::io_uring_prep_read(entry, from, buffer.data(), 2000, 8192);
    REQUIRE(::io_uring_submit_and_wait(&ring, 1) == 1);
    io_uring_cqe* answer = nullptr;
    REQUIRE(::io_uring_peek_cqe(&ring, &answer) == 0 && answer->res == 2000);
    ::io_uring_queue_exit(&ring);
    REQUIRE(::mkdir((folder + "/by-ring").c_str(), 0700) == 0);
  }
  ::_exit(0);
}

// ---- sibling

void sibling(const std::string& folder) {
  const int first = make_file(folder + "/first", 4096);
  const pid_t child = ::fork();
  if (child == 0) {
    REQUIRE(::close(first) == 0);
    const int second = make_file(folder + "/second", 4096);
    REQUIRE(second == first);
    REQUIRE(::lseek(second, 1000, SEEK_SET) == 1000);
    const long made = ::syscall(SYS_clone, CLONE_PARENT, nullptr, nullptr, nullptr, nullptr);
    REQUIRE(made >= 0);
    if (made == 0) REQUIRE(::read(second, buffer.data(), 500) == 500);
    ::_exit(0);
  }
  REQUIRE(child > 0);
  int status = 0;
  for (int i = 0; i < 2; ++i) REQUIRE(::waitpid(-1, &status, __WALL) > 0 && status == 0);
}

// ---- fuse: files in memory, in one folder. The kernel may cache names for a while, attributes
// never.

struct File {
  uint64_t node;
  std::string bytes;
};
std::map<std::string, File> files;
uint64_t last_node = FUSE_ROOT_ID;

File* file_of(uint64_t node) {
  static File removed;  // a removed file that is still open
  for (auto& [name, file] : files) {
    if (file.node == node) return &file;
  }
  return &removed;
}

fuse_attr attributes_of(uint64_t node) {
  fuse_attr attributes = {};
  attributes.ino = node;
  attributes.size = node == FUSE_ROOT_ID ? 0 : file_of(node)->bytes.size();
  attributes.mode = node == FUSE_ROOT_ID ? S_IFDIR | 0700 : S_IFREG | 0600;
  attributes.nlink = 1;
  attributes.uid = ::getuid();
  attributes.gid = ::getgid();
  attributes.blksize = 4096;
  return attributes;
}

fuse_entry_out entry_of(const File& file) {
  fuse_entry_out entry = {};
  entry.nodeid = file.node;
  entry.entry_valid = 600;
  entry.attr = attributes_of(file.node);
  return entry;
}

void answer(int device, uint64_t unique, int error, const void* data = nullptr, size_t bytes = 0) {
  std::string whole(sizeof(fuse_out_header), 0);
  if (bytes > 0) whole.append(static_cast<const char*>(data), bytes);
  const fuse_out_header head{static_cast<uint32_t>(whole.size()), -error, unique};
  std::memcpy(whole.data(), &head, sizeof head);
  // The requesting process may have been interrupted meanwhile (ENOENT).
  (void)!::write(device, whole.data(), whole.size());
}
template <class T>
void answer_with(int device, uint64_t unique, const T& value) {
  answer(device, unique, 0, &value, sizeof value);
}

void serve(int device) {
  static std::array<char, 1 << 18> request;
  while (true) {
    const ssize_t got = ::read(device, request.data(), request.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // ENODEV: unmounted
    fuse_in_header head;
    std::memcpy(&head, request.data(), sizeof head);
    const char* const body = request.data() + sizeof head;
    File& file = *file_of(head.nodeid);
    switch (head.opcode) {
      case FUSE_INIT: {
        fuse_init_in in = {};
        std::memcpy(&in, body, std::min(sizeof in, static_cast<size_t>(got) - sizeof head));
        fuse_init_out out = {};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = std::min<uint32_t>(FUSE_KERNEL_MINOR_VERSION, in.minor);
        out.max_write = 65536;
        answer_with(device, head.unique, out);
        break;
      }
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        break;  // requests without an answer
      case FUSE_LOOKUP:
        if (const auto found = files.find(body); found != files.end()) {
          answer_with(device, head.unique, entry_of(found->second));
        } else {
          answer(device, head.unique, ENOENT);
        }
        break;
      case FUSE_CREATE: {
        File& made = files[body + sizeof(fuse_create_in)];
        made.node = ++last_node;
        struct {
          fuse_entry_out entry;
          fuse_open_out open;
        } out = {entry_of(made), {}};
        answer_with(device, head.unique, out);
        break;
      }
      case FUSE_GETATTR:
      case FUSE_SETATTR: {
        fuse_setattr_in in = {};
        if (head.opcode == FUSE_SETATTR) {
          std::memcpy(&in, body, sizeof in);
          if (in.valid & FATTR_SIZE) file.bytes.resize(in.size);
        }
        fuse_attr_out out = {};
        out.attr = attributes_of(head.nodeid);
        answer_with(device, head.unique, out);
        break;
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR:
        answer_with(device, head.unique, fuse_open_out{});
        break;
      case FUSE_WRITE: {
        fuse_write_in in;
        std::memcpy(&in, body, sizeof in);
        file.bytes.resize(std::max<size_t>(file.bytes.size(), in.offset + in.size));
        file.bytes.replace(in.offset, in.size, body + sizeof in, in.size);
        fuse_write_out out = {};
        out.size = in.size;
        answer_with(device, head.unique, out);
        break;
      }
      case FUSE_FALLOCATE: {
        fuse_fallocate_in in;
        std::memcpy(&in, body, sizeof in);
        file.bytes.resize(std::max<size_t>(file.bytes.size(), in.offset + in.length));
        answer(device, head.unique, 0);
        break;
      }
      case FUSE_RENAME:
      case FUSE_RENAME2: {
        const char* const from =
            body + (head.opcode == FUSE_RENAME ? sizeof(fuse_rename_in) : sizeof(fuse_rename2_in));
        const char* const to = from + std::strlen(from) + 1;
        auto moved = files.extract(from);
        moved.key() = to;
        files.insert(std::move(moved));
        answer(device, head.unique, 0);
        break;
      }
      case FUSE_UNLINK:
        files.erase(body);
        answer(device, head.unique, 0);
        break;
      case FUSE_STATFS:
        answer_with(device, head.unique, fuse_statfs_out{});
        break;
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
      case FUSE_FLUSH:
      case FUSE_FSYNC:
        answer(device, head.unique, 0);
        break;
      case FUSE_DESTROY:
        return;
      default:
        answer(device, head.unique, ENOSYS);
    }
  }
}

bool write_text(const char* path, const std::string& text) {
  const int fd = ::open(path, O_WRONLY);
  if (fd < 0) return false;
  const bool good = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return good;
}

// Gives this process a mount namespace of its own, whose mounts end with it.
bool own_mounts() {
  const unsigned user = ::getuid(), group = ::getgid();
  if (user != 0) {
    if (::unshare(CLONE_NEWUSER) != 0) return false;
    (void)write_text("/proc/self/setgroups", "deny");
    if (!write_text("/proc/self/uid_map", "0 " + std::to_string(user) + " 1") ||
        !write_text("/proc/self/gid_map", "0 " + std::to_string(group) + " 1")) {
      return false;
    }
  }
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

int own_file_system(const std::string& folder) {
  const int device = ::open("/dev/fuse", O_RDWR);
  if (device < 0 || !own_mounts()) return not_here;
  const std::string options = "fd=" + std::to_string(device) +
                              ",rootmode=40000,user_id=" + std::to_string(::getuid()) +
                              ",group_id=" + std::to_string(::getgid());
  const std::string mounted = folder + "/mounted";
  REQUIRE(::mkdir(mounted.c_str(), 0700) == 0);
  if (::mount("odd_processes", mounted.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) !=
      0) {
    return not_here;
  }
  const pid_t server = ::fork();
  if (server == 0) {
    serve(device);
    ::_exit(0);
  }
  REQUIRE(server > 0);
  REQUIRE(::close(device) == 0);
  const std::string name = mounted + "/new", other = mounted + "/renamed";
  const int fd = make_file(name, 1000);
  REQUIRE(::fallocate(fd, 0, 0, 8192) == 0);
  REQUIRE(::rename(name.c_str(), other.c_str()) == 0);
  REQUIRE(::truncate(other.c_str(), 500) == 0);
  REQUIRE(::pwrite(fd, buffer.data(), 300, 2000) == 300);
  REQUIRE(::unlink(other.c_str()) == 0);
  REQUIRE(::close(fd) == 0);
  REQUIRE(::umount2(mounted.c_str(), MNT_DETACH) == 0);
  wait_for(server);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(argc == 3);
  const std::string what = argv[1];
  const std::string folder = argv[2];
  if (what == "no-leader") {
    std::thread(without_leader, folder).detach();
    ::pthread_exit(nullptr);
  }
  // The process does not return from main(): a sanitizer would look for leaks there, and cannot
  // while it is traced.
  if (what == "sibling") {
    sibling(folder);
    ::_exit(0);
  }
  ::_exit(own_file_system(folder));
}
