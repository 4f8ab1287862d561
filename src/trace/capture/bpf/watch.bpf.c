// The programs that the kernel runs for a capture by BPF, in one file: clang makes one object of it, and
// the kernel verifies each program with all functions that it calls.
//
// The programs run at each system call of a traced thread, when a thread makes another or ends, and at
// each request of an io_uring. Their records go through a ring to the capture (capture_bpf.cc), which
// reads them later in another process: the file may be closed then, and the process may have ended. So
// every record contains the kernel's state of the descriptor (FileFacts), and a FileRecord with the path
// precedes the first record that names the file.
//
//   entry of a call   [relevant? of a traced thread? of a file?] -> the thread's ThreadState
//   its exit          [succeeded?] -> a CallRecord from the ThreadState
//
// An irrelevant call costs a lookup in a table. Calls on pipes and sockets are counted and not recorded.
// Records are in the ring in the order in which they were reserved; the record of close() is reserved
// before the call, since its number is free for others before it returns.
//
// Memory behind the program's pointers is read at the exit: the kernel has read it by then, so the page
// is in memory. (A program here cannot load a page.)
//
// The layout of the kernel's structures differs from version to version. The structures below name the
// members that are needed; the loader finds their offsets in the running kernel's description (BTF).
// Reads may follow stale pointers: they return nonsense or an error, and do no harm.

// clang-format off
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "records.h"
// clang-format on

// ---- members of the kernel's structures

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#if defined(__TARGET_ARCH_x86)
struct pt_regs {
  unsigned long di, si, dx, r10, r8, r9, orig_ax;
};
struct thread_info {
  uint32_t status;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
  uint64_t regs[31];
  uint64_t orig_x0;
  int32_t syscallno;
};
struct thread_info {
  unsigned long flags;
};
#endif

struct super_block {
  uint32_t s_dev;
  unsigned long s_flags;
  unsigned long s_magic;
};
// (On some file systems a file has several inodes: see real_inode().)
struct inode {
  uint16_t i_mode;
  struct super_block* i_sb;
  unsigned long i_ino;
  uint32_t i_rdev;
  int64_t i_size;
  uint32_t i_generation;
};
struct qstr {
  const unsigned char* name;
};
struct hlist_bl_node {
  void** pprev;
};
struct dentry {
  struct hlist_bl_node d_hash;
  struct dentry* d_parent;
  struct qstr d_name;
  struct inode* d_inode;
};
struct vfsmount {
  struct dentry* mnt_root;
};
struct mount {
  struct mount* mnt_parent;
  struct dentry* mnt_mountpoint;
  struct vfsmount mnt;
};
struct path {
  struct vfsmount* mnt;
  struct dentry* dentry;
};
struct file {
  struct inode* f_inode;
  unsigned int f_flags;
  struct path f_path;
  int64_t f_pos;
};
struct fdtable {
  unsigned int max_fds;
  struct file** fd;
  unsigned long* close_on_exec;
};
struct files_struct {
  struct fdtable* fdt;
};
struct fs_struct {
  struct path pwd;
};
struct mm_struct {
  struct file* exe_file;
};
typedef struct {
  int counter;
} atomic_t;
struct signal_struct {
  atomic_t live;
};
struct task_struct {
  struct thread_info thread_info;
  struct mm_struct* mm;
  int pid;
  int tgid;
  struct fs_struct* fs;
  struct files_struct* files;
  struct signal_struct* signal;
};

// overlayfs and btrfs, which may be modules, or missing.
struct ovl_path {
  struct dentry* dentry;
};
struct ovl_entry {
  unsigned int __numlower;
  struct ovl_path __lowerstack[];
};
struct ovl_inode {
  struct inode vfs_inode;
  struct dentry* __upperdentry;
  struct ovl_entry* oe;
};
struct btrfs_key {
  uint64_t objectid;
};
struct btrfs_root {
  struct btrfs_key root_key;
};
struct btrfs_inode {
  struct btrfs_root* root;
  struct inode vfs_inode;
};

// io_uring. Each kind of operation has its own structure for the first part of a request.
struct io_cqe {
  int32_t res;
  int fd;
};
struct io_kiocb {
  struct file* file;
  uint8_t opcode;
  uint64_t flags;
  struct io_cqe cqe;
  void* ctx;
};
struct kiocb {
  int64_t ki_pos;
};
struct io_rw {
  struct kiocb kiocb;
  uint32_t len;
  uint32_t flags;
};
struct open_how {
  uint64_t flags;
};
struct io_open {
  uint32_t file_slot;
  struct open_how how;
};
struct io_close {
  int fd;
  uint32_t file_slot;
};
struct io_sync {
  int64_t len;
  int64_t off;
  int flags;
  int mode;
};
struct io_uring_cqe {
  int32_t res;
};
#pragma clang attribute pop

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define AT_FDCWD (-100)
#define MAP_ANONYMOUS 0x20
#define SB_KERNMOUNT (1ul << 22)  // the kernel's own mounts: memfd, sockets, io_urings
#define OVERLAYFS_SUPER_MAGIC 0x794c7630
#define BTRFS_SUPER_MAGIC 0x9123683e

// ---- state

const volatile struct Settings settings SEC(".rodata.settings");
struct Counters counters SEC(".bss.counters");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 25);
} ring SEC(".maps");

// The state of a traced thread, which ends with the thread.
struct ThreadState {
  uint64_t call;  // number + 1 of the current call; 0: no relevant one
  uint64_t start_ns;
  uint64_t arguments[8];  // six arguments; a power of two lets the verifier bound the index
  struct FileFacts file;
  struct FileFacts file2;
};
struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct ThreadState);
} threads SEC(".maps");

// Files that have a FileRecord, and whether they are storage. An evicted file gets another record.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1 << 14);
  __type(key, struct FileIdentity);
  __type(value, uint8_t);
} sent_files SEC(".maps");

// io_urings of traced processes, and their processes: kernel threads complete requests as well.
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 1 << 12);
  __type(key, uint64_t);
  __type(value, int32_t);
} rings SEC(".maps");

// Buffers for records that are too long for the stack, one per processor: programs do not interrupt
// each other.
struct Scratch {
  uint32_t length;  // length of names; in memory, so that the verifier does not track each value
  union {
    struct FileRecord file;
    struct NameRecord name;
  };
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, uint32_t);
  __type(value, struct Scratch);
} scratches SEC(".maps");

static __always_inline void add(uint64_t* counter, uint64_t value) {
  __sync_fetch_and_add(counter, value);
}

static __always_inline void set_head(struct RecordHead* head, uint32_t kind) {
  const uint64_t who = bpf_get_current_pid_tgid();
  head->kind = kind;
  head->lost = (uint32_t)counters.lost;
  head->process = (int32_t)(who >> 32);
  head->thread = (int32_t)who;
}

// Submits a record without a wakeup: the capture polls the ring many times a second, and a wakeup per
// record would cost more than everything else.
static __always_inline void send(void* record) {
  bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}
static __always_inline int send_copy(void* record, uint64_t bytes) {
  if (bpf_ringbuf_output(&ring, record, bytes, BPF_RB_NO_WAKEUP) == 0) return 1;
  add(&counters.lost, 1);
  return 0;
}

// Returns nullptr if the thread is not traced.
static __always_inline struct ThreadState* state_of(struct task_struct* task) {
  struct ThreadState* state = bpf_task_storage_get(&threads, task, 0, 0);
  if (state || settings.attached == 0 || task->tgid != settings.attached) return state;
  if (counters.attached_ended) return 0;
  // A thread that is older than the trace counts like a new one, since its children may outlive its
  // process.
  state = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (state) add(&counters.running, 1);
  return state;
}

// Returns whether the call is a 32-bit one, which have other numbers.
static __always_inline int is_foreign(struct task_struct* task) {
#if defined(__TARGET_ARCH_x86)
  return (task->thread_info.status & 2) != 0;  // TS_COMPAT
#else
  return (task->thread_info.flags & (1ul << 22)) != 0;  // TIF_32BIT
#endif
}

// ---- paths

// Writes the names of a path up to the root, the last one first. Returns their length.
static __always_inline uint32_t put_names(struct Scratch* scratch, char* names, struct path* path,
                                          uint8_t* is_apart, uint8_t* is_cut) {
  struct vfsmount* mount = path->mnt;
  struct dentry* dentry = path->dentry;
  volatile uint32_t* length = &scratch->length;
  *length = 0;
  const uint32_t member = bpf_core_field_offset(struct mount, mnt);
  *is_apart = 0;
  *is_cut = 1;
  for (int i = 0; i < path_names_max; ++i) {
    struct dentry* parent = BPF_CORE_READ(dentry, d_parent);
    if (dentry == BPF_CORE_READ(mount, mnt_root)) {
      // The path continues at the mount point of this file system.
      struct mount* of = (struct mount*)((char*)mount - member);
      struct mount* above = BPF_CORE_READ(of, mnt_parent);
      if (above == of || above == 0) {
        *is_cut = 0;
        break;
      }
      dentry = BPF_CORE_READ(of, mnt_mountpoint);
      mount = (struct vfsmount*)((char*)above + member);
      continue;
    }
    const uint32_t end = *length;
    if (end >= names_bytes) break;
    const long got =
        bpf_probe_read_kernel_str(names + end, name_bytes, BPF_CORE_READ(dentry, d_name.name));
    if (got <= 0) break;
    *length = end + (uint32_t)got;
    if (parent == dentry || parent == 0) {
      *is_apart = 1;
      *is_cut = 0;
      break;
    }
    dentry = parent;
  }
  const uint32_t all = *length;
  return all <= names_bytes + name_bytes ? all : 0;
}

// ---- files

static __always_inline struct file* file_of(struct task_struct* task, uint64_t descriptor) {
  struct files_struct* files = task->files;
  if (!files) return 0;
  struct fdtable* table = files->fdt;
  if (!table || (uint32_t)descriptor >= table->max_fds) return 0;
  struct file* file = 0;
  bpf_probe_read_kernel(&file, sizeof file, table->fd + (uint32_t)descriptor);
  return file;
}

static __noinline int is_storage_of(uint16_t mode, uint64_t magic, uint64_t flags) {
  if ((mode & S_IFMT) == S_IFBLK) return 1;
  if ((mode & S_IFMT) != S_IFREG || (flags & SB_KERNMOUNT)) return 0;
  for (int i = 0; i < pseudo_systems_max && settings.pseudo_systems[i]; ++i) {
    if (magic == settings.pseudo_systems[i]) return 0;
  }
  return 1;
}

// Sends a FileRecord unless the file has one. Returns whether the file is storage.
static __noinline int send_file(struct file* file, struct FileFacts* facts) {
  if (!facts) return 0;
  struct FileIdentity key = facts->identity;
  const uint8_t* known = bpf_map_lookup_elem(&sent_files, &key);
  if (known) return *known;
  const uint32_t zero = 0;
  struct Scratch* scratch = bpf_map_lookup_elem(&scratches, &zero);
  if (!scratch) return 0;
  struct FileRecord* record = &scratch->file;
  set_head(&record->head, record_file);
  record->identity = key;
  record->birth_ns = 0;
  record->bytes = facts->bytes;
  record->mode = facts->mode;
  struct inode* inode = BPF_CORE_READ(file, f_inode);
  record->special = BPF_CORE_READ(inode, i_rdev);
  record->file_system = BPF_CORE_READ(inode, i_sb, s_magic);
  struct path path;
  bpf_core_read(&path.mnt, sizeof path.mnt, &file->f_path.mnt);
  bpf_core_read(&path.dentry, sizeof path.dentry, &file->f_path.dentry);
  const uint32_t length =
      put_names(scratch, record->names, &path, &record->is_apart, &record->is_cut);
  record->length = (uint16_t)length;
  record->is_deleted = BPF_CORE_READ(path.dentry, d_hash.pprev) == 0 &&
                       BPF_CORE_READ(path.dentry, d_parent) != path.dentry;
  const uint8_t storage = (uint8_t)is_storage_of(record->mode, record->file_system,
                                                 BPF_CORE_READ(inode, i_sb, s_flags));
  record->is_storage = storage;
  if (send_copy(record, __builtin_offsetof(struct FileRecord, names) + length)) {
    bpf_map_update_elem(&sent_files, &key, &storage, BPF_ANY);
  }
  return storage;
}

// Returns the inode that identifies a file. An inode of overlayfs has no generation, and its number may
// be that of a file in another layer: the file below it has both. Returns the inode itself if that is
// not known.
static __noinline struct inode* real_inode(struct inode* inode) {
  if (!bpf_core_field_exists(struct ovl_inode, __upperdentry)) return inode;
  struct ovl_inode* overlay =
      (struct ovl_inode*)((char*)inode - bpf_core_field_offset(struct ovl_inode, vfs_inode));
  struct inode* real = BPF_CORE_READ(overlay, __upperdentry, d_inode);
  if (!real && bpf_core_field_exists(struct ovl_inode, oe) &&
      bpf_core_field_exists(struct ovl_entry, __lowerstack)) {
    real = BPF_CORE_READ(overlay, oe, __lowerstack[0].dentry, d_inode);
  }
  return real ? real : inode;
}

// Returns the subvolume of an inode of btrfs: subvolumes use the same numbers on one device.
static __noinline uint32_t btrfs_subvolume(struct inode* inode) {
  if (!bpf_core_field_exists(struct btrfs_root, root_key)) return 0;
  struct btrfs_inode* of =
      (struct btrfs_inode*)((char*)inode - bpf_core_field_offset(struct btrfs_inode, vfs_inode));
  return (uint32_t)BPF_CORE_READ(of, root, root_key.objectid);
}

// Reads the state of an open file. Returns 0 without one.
static __always_inline int look(struct file* file, struct FileFacts* facts) {
  facts->file = (uint64_t)file;
  if (!file) return 0;
  struct inode* inode = BPF_CORE_READ(file, f_inode);
  if (!inode) {
    facts->file = 0;
    return 0;
  }
  facts->mode = BPF_CORE_READ(inode, i_mode);
  facts->flags = BPF_CORE_READ(file, f_flags);
  facts->position = (uint64_t)BPF_CORE_READ(file, f_pos);
  facts->bytes = (uint64_t)BPF_CORE_READ(inode, i_size);
  facts->close_on_exec = 0;
  uint32_t apart = 0;
  const uint64_t file_system = BPF_CORE_READ(inode, i_sb, s_magic);
  if (file_system == OVERLAYFS_SUPER_MAGIC) {
    inode = real_inode(inode);
    // The kernel allows one overlay on top of another.
    if (BPF_CORE_READ(inode, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC) inode = real_inode(inode);
  }
  if (file_system == BTRFS_SUPER_MAGIC) apart = btrfs_subvolume(inode);
  facts->identity.inode = BPF_CORE_READ(inode, i_ino);
  facts->identity.generation = BPF_CORE_READ(inode, i_generation) ^ apart * 0x9e3779b9u;
  facts->identity.device = BPF_CORE_READ(inode, i_sb, s_dev);
  return 1;
}

static __always_inline int may_be_storage(const struct FileFacts* facts) {
  const uint16_t kind = facts->mode & S_IFMT;
  return kind == S_IFREG || kind == S_IFBLK;
}

// Reads the state of a descriptor of the current thread, and sends its file: always, or only if it is
// storage. Returns 0 if the descriptor is not open.
static __always_inline int look_at(struct task_struct* task, uint64_t descriptor,
                                   struct FileFacts* facts, int always) {
  struct file* file = file_of(task, descriptor);
  facts->is_storage = 0;
  if (!look(file, facts)) return 0;
  if (always || may_be_storage(facts)) {
    facts->is_storage = (uint8_t)send_file(file, facts);
    unsigned long word = 0;
    bpf_probe_read_kernel(&word, sizeof word,
                          task->files->fdt->close_on_exec + (uint32_t)descriptor / 64);
    facts->close_on_exec = (word >> (descriptor % 64)) & 1;
  }
  return 1;
}

// ---- calls

// Returns whether an index of the table names an argument: -1 does not.
static __always_inline int is_argument(int8_t index) {
  return index >= 0 && index < 6;
}

// Sends a path argument, and the folder at which it begins.
static __always_inline void send_name(struct task_struct* task, uint32_t index, uint64_t address,
                                      int has_folder, uint64_t folder) {
  const uint32_t zero = 0;
  struct Scratch* scratch = bpf_map_lookup_elem(&scratches, &zero);
  if (!scratch) return;
  struct NameRecord* record = &scratch->name;
  set_head(&record->head, record_name);
  record->index = index;
  long got = bpf_probe_read_user_str(record->path, names_bytes, (const void*)address);
  if (got <= 0 || got > names_bytes) return;
  uint32_t length = (uint32_t)got & (2 * names_bytes - 1);
  if (length > names_bytes) return;
  record->length = (uint16_t)length;
  uint32_t folder_bytes = 0;
  if (record->path[0] != '/') {
    struct path path = {};
    if (has_folder && (int32_t)folder != AT_FDCWD) {
      struct file* file = file_of(task, folder);
      if (!file) return;
      bpf_core_read(&path.mnt, sizeof path.mnt, &file->f_path.mnt);
      bpf_core_read(&path.dentry, sizeof path.dentry, &file->f_path.dentry);
    } else {
      struct fs_struct* fs = task->fs;
      if (!fs) return;
      bpf_core_read(&path.mnt, sizeof path.mnt, &fs->pwd.mnt);
      bpf_core_read(&path.dentry, sizeof path.dentry, &fs->pwd.dentry);
    }
    uint8_t is_apart, is_cut;
    folder_bytes = put_names(scratch, record->path + length, &path, &is_apart, &is_cut);
    if (is_cut) return;
  }
  record->folder_bytes = (uint16_t)folder_bytes;
  const uint64_t bytes = __builtin_offsetof(struct NameRecord, path) + length + folder_bytes;
  if (bytes <= sizeof *record) send_copy(record, bytes);
}

static __always_inline void send_call(struct ThreadState* state, int64_t result, uint64_t end_ns,
                                      const uint64_t* pointed, uint64_t bytes_after) {
  struct CallRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
  if (!record) {
    add(&counters.lost, 1);
    return;
  }
  set_head(&record->head, record_call);
  record->start_ns = state->start_ns;
  record->end_ns = end_ns;
  record->result = result;
  record->number = state->call - 1;
  __builtin_memcpy(record->arguments, state->arguments, sizeof record->arguments);
  record->pointed[0] = pointed[0];
  record->pointed[1] = pointed[1];
  record->bytes_after = bytes_after;
  record->file = state->file;
  record->file2 = state->file2;
  send(record);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(at_entry, struct pt_regs* registers, long number) {
  if ((uint64_t)number >= calls_max) return 0;
  const volatile struct CallShape* shape = &settings.calls[number];
  const uint16_t what = shape->what;
  if (what == 0) return 0;
  struct task_struct* task = bpf_get_current_task_btf();
  struct ThreadState* state = state_of(task);
  if (!state || is_foreign(task)) return 0;
  state->call = 0;  // drops a call whose exit was not seen
#if defined(__TARGET_ARCH_x86)
  state->arguments[0] = registers->di;
  state->arguments[1] = registers->si;
  state->arguments[2] = registers->dx;
  state->arguments[3] = registers->r10;
  state->arguments[4] = registers->r8;
  state->arguments[5] = registers->r9;
#else
  state->arguments[0] = registers->orig_x0;
  state->arguments[1] = registers->regs[1];
  state->arguments[2] = registers->regs[2];
  state->arguments[3] = registers->regs[3];
  state->arguments[4] = registers->regs[4];
  state->arguments[5] = registers->regs[5];
#endif
  if (is_argument(shape->chosen_by)) {
    const uint32_t value = (uint32_t)state->arguments[shape->chosen_by & 7];
    if (value != shape->choices[0] && value != shape->choices[1] && value != shape->choices[2] &&
        value != shape->choices[3]) {
      return 0;
    }
  }
  if ((what & call_maps) &&
      ((state->arguments[3] & MAP_ANONYMOUS) || (int32_t)state->arguments[4] < 0)) {
    return 0;
  }
  state->file.file = 0;
  state->file2.file = 0;
  if (is_argument(shape->descriptor)) {
    const int always = (what & call_storage_only) == 0;
    if (!look_at(task, state->arguments[shape->descriptor & 7], &state->file, always)) {
      add(&counters.failed_calls, 1);  // the call will fail
      return 0;
    }
    if (is_argument(shape->descriptor2)) {
      look_at(task, state->arguments[shape->descriptor2 & 7], &state->file2, 1);
    }
    const int second = (what & call_either) && state->file2.file && state->file2.is_storage;
    if ((what & call_streams) && (!state->file.is_storage || ((what & call_either) && !second))) {
      add(&counters.stream_calls, 1);
    }
    if ((what & (call_storage_only | call_either)) && !state->file.is_storage && !second) return 0;
  }
  state->call = (uint64_t)number + 1;
  state->start_ns = bpf_ktime_get_ns();
  if (what & call_at_entry) {
    const uint64_t nothing[2] = {0, 0};
    send_call(state, 0, state->start_ns, nothing, 0);
    state->call = 0;
  }
  return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(at_exit, struct pt_regs* registers, long result) {
#if defined(__TARGET_ARCH_x86)
  const uint64_t number = registers->orig_ax;
#else
  const uint64_t number = (uint64_t)(int64_t)registers->syscallno;
#endif
  if (number >= calls_max) return 0;
  const volatile struct CallShape* shape = &settings.calls[number];
  const uint16_t what = shape->what;
  if (what == 0 || (what & call_at_entry)) return 0;
  struct task_struct* task = bpf_get_current_task_btf();
  struct ThreadState* state = bpf_task_storage_get(&threads, task, 0, 0);
  if (!state || state->call != number + 1) return 0;
  const uint64_t end_ns = bpf_ktime_get_ns();
  const int failed = result < 0;
  if (failed && !(what & call_failures)) {
    add(&counters.failed_calls, 1);
    state->call = 0;
    return 0;
  }
  if ((what & call_makes_file) && !failed) {
    // A duplicate has its first descriptor already; an open has only this one.
    struct FileFacts* made = is_argument(shape->descriptor) ? &state->file2 : &state->file;
    look_at(task, (uint64_t)result, made, 1);
  }
  uint64_t bytes_after = 0;
  if ((what & call_sizes) && state->file.file) {
    struct file* file = (struct file*)state->file.file;
    bytes_after = (uint64_t)BPF_CORE_READ(file, f_inode, i_size);
  }
  uint64_t pointed[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    if (!is_argument(shape->points[i])) continue;
    const uint64_t address = state->arguments[shape->points[i] & 7];
    if (address == 0) continue;
    bpf_probe_read_user(&pointed[i], sizeof pointed[i],
                        (const void*)(address + shape->points_ahead));
  }
  for (uint32_t i = 0; i < 2; ++i) {
    if (!is_argument(shape->path[i]) || (!failed && (what & call_failures))) continue;
    const int8_t folder = shape->folder[i];
    send_name(task, i, state->arguments[shape->path[i] & 7], is_argument(folder),
              state->arguments[folder & 7]);
  }
  send_call(state, result, end_ns, pointed, bytes_after);
  state->call = 0;
  return 0;
}

// ---- processes

SEC("tp_btf/sched_process_fork")
int BPF_PROG(at_fork, struct task_struct* parent, struct task_struct* child) {
  if (!state_of(parent)) return 0;
  if (!bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE)) {
    add(&counters.lost, 1);
    return 0;
  }
  add(&counters.running, 1);
  if (child->tgid == parent->tgid) return 0;
  struct ForkRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
  if (!record) {
    add(&counters.lost, 1);
    return 0;
  }
  set_head(&record->head, record_fork);
  record->start_ns = bpf_ktime_get_ns();
  record->child = child->tgid;
  record->shares_descriptors = child->files == parent->files;
  send(record);
  return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(at_exec, struct task_struct* task) {
  struct ThreadState* state = state_of(task);
  if (!state) return 0;
  struct file* program = BPF_CORE_READ(task, mm, exe_file);
  struct FileFacts* facts = &state->file;
  if (look(program, facts)) send_file(program, facts);
  struct ExecRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
  if (!record) {
    add(&counters.lost, 1);
    return 0;
  }
  set_head(&record->head, record_exec);
  record->start_ns = bpf_ktime_get_ns();
  record->program = facts->identity;
  send(record);
  return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(at_end, struct task_struct* task) {
  if (!state_of(task)) return 0;
  if (task->signal->live.counter == 0) {
    struct EndRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
    if (record) {
      set_head(&record->head, record_exit);
      record->start_ns = bpf_ktime_get_ns();
      send(record);
    } else {
      add(&counters.lost, 1);
    }
  }
  if (task->signal->live.counter == 0 && task->tgid == settings.attached) {
    counters.attached_ended = 1;
  }
  // The counter comes last: a reader that sees 0 has all records.
  add(&counters.running, -1ull);
  return 0;
}

// ---- io_uring

static __always_inline int is_transfer(uint8_t operation) {
  return operation == op_readv || operation == op_writev || operation == op_read_fixed ||
         operation == op_write_fixed || operation == op_read || operation == op_write;
}
static __always_inline int is_watched(uint8_t operation) {
  return is_transfer(operation) || operation == op_fsync || operation == op_fallocate ||
         operation == op_openat || operation == op_openat2 || operation == op_close;
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(at_ring, int descriptor, void* context) {
  struct task_struct* task = bpf_get_current_task_btf();
  if (!state_of(task)) return 0;
  const uint64_t key = (uint64_t)context;
  const int32_t process = task->tgid;
  bpf_map_update_elem(&rings, &key, &process, BPF_ANY);
  return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(at_submit, struct io_kiocb* request) {
  const uint64_t key = (uint64_t)request->ctx;
  const int32_t* process = bpf_map_lookup_elem(&rings, &key);
  if (!process) {
    // A ring that is older than the trace belongs to the process of its first request.
    struct task_struct* task = bpf_get_current_task_btf();
    if (!state_of(task)) return 0;
    const int32_t owner = task->tgid;
    bpf_map_update_elem(&rings, &key, &owner, BPF_ANY);
    process = bpf_map_lookup_elem(&rings, &key);
    if (!process) return 0;
  }
  const uint8_t operation = request->opcode;
  if (!is_watched(operation)) {
    add(&counters.other_requests, 1);
    return 0;
  }
  struct SubmitRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
  if (!record) {
    add(&counters.lost, 1);
    return 0;
  }
  set_head(&record->head, record_submit);
  record->head.process = *process;
  record->request = (uint64_t)request;
  record->ring = key;
  record->descriptor = BPF_CORE_READ(request, cqe.fd);
  record->operation = operation;
  record->is_registered = BPF_CORE_READ(request, flags) & 1;  // IOSQE_FIXED_FILE
  record->makes_registered = 0;
  record->offset = ~0ull;
  record->bytes = 0;
  record->flags = 0;
  if (is_transfer(operation)) {
    const struct io_rw* rw = (const struct io_rw*)request;
    record->offset = (uint64_t)BPF_CORE_READ(rw, kiocb.ki_pos);
    record->bytes = BPF_CORE_READ(rw, len);
    record->flags = BPF_CORE_READ(rw, flags);
  } else if (operation == op_fsync || operation == op_fallocate) {
    const struct io_sync* sync = (const struct io_sync*)request;
    record->offset = (uint64_t)BPF_CORE_READ(sync, off);
    record->bytes = (uint64_t)BPF_CORE_READ(sync, len);
    record->flags = operation == op_fsync ? (uint64_t)BPF_CORE_READ(sync, flags)
                                          : (uint64_t)BPF_CORE_READ(sync, mode);
  } else if (operation == op_close) {
    const struct io_close* close = (const struct io_close*)request;
    record->descriptor = BPF_CORE_READ(close, fd);
    record->makes_registered = BPF_CORE_READ(close, file_slot) != 0;
  } else {
    const struct io_open* open = (const struct io_open*)request;
    record->flags = BPF_CORE_READ(open, how.flags);
    record->makes_registered = BPF_CORE_READ(open, file_slot) != 0;
  }
  record->start_ns = bpf_ktime_get_ns();
  send(record);
  return 0;
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(at_done, void* context, void* request_at) {
  const uint64_t key = (uint64_t)context;
  const int32_t* process = bpf_map_lookup_elem(&rings, &key);
  if (!process || !request_at) return 0;  // a further completion of one request has no request
  struct io_kiocb* request = request_at;
  const uint8_t operation = BPF_CORE_READ(request, opcode);
  if (!is_watched(operation)) return 0;
  int32_t result = 0;
  if (settings.done_has_entry) {
    const struct io_uring_cqe* entry = (const struct io_uring_cqe*)ctx[2];
    bpf_core_read(&result, sizeof result, &entry->res);
  } else {
    result = (int32_t)ctx[3];
  }
  // The file is sent before the record that names it is reserved.
  struct FileFacts facts = {};
  if (operation == op_openat || operation == op_openat2) {
    const struct io_open* open = (const struct io_open*)request;
    if (result >= 0 && BPF_CORE_READ(open, file_slot) == 0) {
      look_at(bpf_get_current_task_btf(), (uint64_t)result, &facts, 1);
    }
  } else if (operation != op_close) {
    struct file* file = BPF_CORE_READ(request, file);
    if (look(file, &facts) && may_be_storage(&facts))
      facts.is_storage = (uint8_t)send_file(file, &facts);
  }
  struct DoneRecord* record = bpf_ringbuf_reserve(&ring, sizeof *record, 0);
  if (!record) {
    add(&counters.lost, 1);
    return 0;
  }
  set_head(&record->head, record_done);
  record->head.process = *process;
  record->request = (uint64_t)request_at;
  record->result = result;
  record->end_ns = bpf_ktime_get_ns();
  record->file = facts;
  send(record);
  return 0;
}

// This file is Apache-2.0 like all others, and offered to the kernel under the GPL as well, which the
// helpers above require. The kernel has no name for this pair of licences.
char LICENSE[] SEC("license") = "GPL";
