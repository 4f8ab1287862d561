#include <linux/fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <linux/stat.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// What descriptors and paths stand for, asked of the kernel once and then remembered.

namespace penstock::trace::preload {
namespace {

using kernel::FileFacts;
using kernel::FileIdentity;

constexpr uint64_t get_descriptor_flags = 1, get_status_flags = 3;  // F_GETFD, F_GETFL
constexpr uint32_t type_mask = 0170000, regular = 0100000, block_device = 0060000,
                   character_device = 0020000;

bool equal(const FileIdentity& a, const FileIdentity& b) {
  return a.inode == b.inode && a.device == b.device && a.generation == b.generation;
}

uint32_t device_of(uint32_t major, uint32_t minor) {
  return major << 20 | (minor & ((1u << 20) - 1));
}

uint64_t birth_of(const struct statx& found) {
  if ((found.stx_mask & STATX_BTIME) == 0 || (found.stx_mode & type_mask) != regular) return 0;
  return static_cast<uint64_t>(found.stx_btime.tv_sec) * 1'000'000'000u + found.stx_btime.tv_nsec;
}

// An inode is used again by the next file; its time of birth is not.
FileIdentity identity_of(const struct statx& found) {
  const uint64_t birth = birth_of(found);
  return {.inode = found.stx_ino,
          .device = device_of(found.stx_dev_major, found.stx_dev_minor),
          .generation = static_cast<uint32_t>((birth * 0x9e3779b97f4a7c15u) >> 32)};
}

// Files that the trace was told of, and whether they are storage: some, by identity.
struct Told {
  FileIdentity identity;
  uint32_t is_storage;
  uint32_t version;  // odd: being written
};
constexpr size_t told_max = 1024;
Told told_files[told_max];

Told& told_place(const FileIdentity& identity) {
  const uint64_t mixed = (identity.inode ^ uint64_t{identity.device} << 32 ^ identity.generation) *
                         0x9e3779b97f4a7c15u;
  return told_files[mixed >> 54];
}

bool was_told(const FileIdentity& identity, uint8_t& is_storage) {
  const Told& place = told_place(identity);
  const uint32_t version = __atomic_load_n(&place.version, __ATOMIC_ACQUIRE);
  if (version == 0 || (version & 1) != 0 || !equal(place.identity, identity)) return false;
  is_storage = static_cast<uint8_t>(place.is_storage);
  // Another thread may have written meanwhile.
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return __atomic_load_n(&place.version, __ATOMIC_RELAXED) == version;
}

void remember_told(const FileIdentity& identity, bool is_storage) {
  Told& place = told_place(identity);
  uint32_t version = __atomic_load_n(&place.version, __ATOMIC_RELAXED) & ~1u;
  if (!__atomic_compare_exchange_n(&place.version, &version, version + 1, false, __ATOMIC_ACQUIRE,
                                   __ATOMIC_RELAXED)) {
    return;  // another thread remembers something else
  }
  __atomic_thread_fence(__ATOMIC_RELEASE);
  place.identity = identity;
  place.is_storage = is_storage;
  __atomic_store_n(&place.version, version + 2, __ATOMIC_RELEASE);
}

bool is_pseudo(uint64_t magic) {
  for (const uint64_t system : control->settings.pseudo_systems) {
    if (system != 0 && system == magic) return true;
  }
  return false;
}

bool starts_with(const char* text, const char* with) {
  for (; *with != 0; ++text, ++with) {
    if (*text != *with) return false;
  }
  return true;
}

// "/proc/self/fd/N"
struct DescriptorPath {
  char text[32];
  explicit DescriptorPath(int32_t descriptor) {
    constexpr char folder[] = "/proc/self/fd/";
    size_t at = 0;
    for (; folder[at] != 0; ++at) text[at] = folder[at];
    char digits[12];
    size_t count = 0;
    auto left = static_cast<uint32_t>(descriptor);
    do {
      digits[count++] = static_cast<char>('0' + left % 10);
      left /= 10;
    } while (left > 0);
    while (count > 0) text[at++] = digits[--count];
    text[at] = 0;
  }
};

uint64_t file_system_of(int32_t descriptor, const char* path) {
  uint64_t system[16] = {};  // struct statfs: its magic number stands first
  if (path != nullptr) {
    raw_call(__NR_statfs, address_of(path), address_of(system));
  } else {
    raw_call(__NR_fstatfs, static_cast<uint64_t>(descriptor), address_of(system));
  }
  return system[0];
}

size_t read_link(const char* path, char* into, size_t bytes) {
  const int64_t length = raw_call(__NR_readlink, address_of(path), address_of(into), bytes);
  return length < 0 ? 0 : static_cast<size_t>(length);
}

// `scratch` has the path. Tells of the file; whether it is storage.
bool tell(Scratch& scratch, size_t length, const struct statx& found, const FileIdentity& identity,
          uint64_t magic) {
  kernel::FileRecord& record = scratch.file;
  const uint32_t type = found.stx_mode & type_mask;
  record.names[length] = 0;
  const bool is_special = type == block_device || type == character_device;
  const bool is_memory = starts_with(record.names, "/memfd:");
  const bool is_storage =
      type == block_device || (type == regular && !is_memory && !is_pseudo(magic));
  record.head = head_of(kernel::record_file);
  record.identity = identity;
  record.birth_ns = is_storage ? birth_of(found) : 0;
  record.bytes = found.stx_size;
  record.file_system = magic;
  record.special = is_special ? device_of(found.stx_rdev_major, found.stx_rdev_minor) : 0;
  record.mode = static_cast<uint16_t>(found.stx_mode);
  record.length = static_cast<uint16_t>(length);
  record.is_storage = is_storage;
  record.is_apart = 0;
  record.is_deleted = found.stx_nlink == 0;
  record.is_cut = 0;
  record.is_path = 1;
  send(&record, offsetof(kernel::FileRecord, names) + length + 1);
  remember_told(identity, is_storage);
  return is_storage;
}

// False: there is no room now, and the trace does not know of it.
bool tell_descriptor(int32_t descriptor, const struct statx& found, const FileIdentity& identity,
                     uint8_t& is_storage) {
  if (was_told(identity, is_storage)) return true;
  is_storage = 0;
  Scratch* scratch = take_scratch();
  if (scratch == nullptr) return false;
  const DescriptorPath path(descriptor);
  const size_t length = read_link(path.text, scratch->file.names, kernel::names_bytes);
  // A disk has a major number; most of what only looks like files has none.
  const uint64_t magic = found.stx_dev_major == 0 ? file_system_of(descriptor, nullptr) : 0;
  is_storage = tell(*scratch, length, found, identity, magic);
  give_back_scratch(scratch);
  return true;
}

bool status_of(int32_t folder, const char* path, uint32_t flags, struct statx& found) {
  return raw_call(__NR_statx, static_cast<uint64_t>(int64_t{folder}), address_of(path),
                  flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME,
                  address_of(&found)) >= 0;
}

// A descriptor of this process that is the same open file description: its place, or 0.
uint64_t place_of_same(int32_t descriptor, const FileIdentity& identity) {
  const int32_t end = entries_end();
  const auto self = static_cast<uint64_t>(process_id());
  for (int32_t other = 0; other < end; ++other) {
    const Entry* entry = entry_of(other);
    if (other == descriptor || entry->place == 0 || entry->knowledge != told ||
        !equal(entry->identity, identity)) {
      continue;
    }
    const int64_t order = raw_call(__NR_kcmp, self, self, KCMP_FILE,
                                   static_cast<uint64_t>(descriptor), static_cast<uint64_t>(other));
    if (order == 0) return entry->place;
    if (order < 0) {  // a container forbids it
      count(control->unknown_sharing);
      return 0;
    }
  }
  return 0;
}

// Puts the path, from the root, to `into`. Its length without the zero byte; 0: too long.
size_t put_path(int32_t folder, const char* path, char* into, size_t bytes) {
  size_t length = 0;
  if (path[0] != '/') {
    if (folder == AT_FDCWD) {
      length = read_link("/proc/self/cwd", into, bytes);
    } else {
      length = read_link(DescriptorPath(folder).text, into, bytes);
    }
    if (length == 0 || length + 2 > bytes) return 0;
    if (into[length - 1] != '/') into[length++] = '/';
  }
  for (; *path != 0; ++path) {
    if (length + 2 > bytes) return 0;
    into[length++] = *path;
  }
  into[length] = 0;
  return length;
}

}  // namespace

bool look_at(int32_t descriptor, Look how, FileFacts& facts) {
  Entry* entry = entry_of(descriptor);
  if (entry != nullptr && how != Look::just_opened) {
    const uint32_t known = __atomic_load_n(&entry->knowledge, __ATOMIC_ACQUIRE);
    if (known == told || (known == looked && how == Look::storage_only)) {
      facts.file = entry->place;
      facts.identity = entry->identity;
      facts.is_storage = static_cast<uint8_t>(entry->is_storage);
      return true;
    }
  }
  struct statx found = {};
  if (!status_of(descriptor, "", AT_EMPTY_PATH, found)) return false;
  facts.identity = identity_of(found);
  facts.bytes = found.stx_size;
  facts.mode = static_cast<uint16_t>(found.stx_mode);
  const uint32_t type = found.stx_mode & type_mask;
  const bool may_be_storage = type == regular || type == block_device;
  const bool tells = may_be_storage || how != Look::storage_only;
  facts.is_storage = 0;
  const bool is_known =
      !tells || tell_descriptor(descriptor, found, facts.identity, facts.is_storage);
  facts.file = how == Look::just_opened || entry == nullptr ? 0 : entry->place;
  if (how != Look::just_opened && facts.is_storage) {
    // It was there before, or came unseen: what it is and where it stands is told once, before
    // anybody can take it for known.
    if (facts.file == 0) facts.file = place_of_same(descriptor, facts.identity);
    if (facts.file == 0) facts.file = new_identity();
    const auto number = static_cast<uint64_t>(int64_t{descriptor});
    const int64_t position = raw_call(__NR_lseek, number, 0, 1);  // SEEK_CUR
    const int64_t flags = raw_call(__NR_fcntl, number, get_status_flags);
    facts.position = position < 0 ? 0 : static_cast<uint64_t>(position);
    facts.flags = flags < 0 ? 0 : static_cast<uint32_t>(flags);
    facts.close_on_exec = raw_call(__NR_fcntl, number, get_descriptor_flags) == 1;
    const kernel::LookRecord record{.head = head_of(kernel::record_look),
                                    .start_ns = now_ns(),
                                    .descriptor = descriptor,
                                    .padding = 0,
                                    .file = facts};
    send(&record, sizeof record);
  } else if (facts.file == 0) {
    facts.file = new_identity();
  }
  if (entry != nullptr) {
    entry->place = facts.file;
    entry->identity = facts.identity;
    entry->is_storage = facts.is_storage;
    // Of what could not be told now, the next use tells.
    const uint32_t knowledge = !is_known ? not_looked : tells ? told : looked;
    __atomic_store_n(&entry->knowledge, knowledge, __ATOMIC_RELEASE);
  }
  return true;
}

bool look_at_path(int32_t folder, const char* path, bool follow, FileFacts& facts) {
  struct statx found = {};
  if (path == nullptr || !status_of(folder, path, follow ? 0 : AT_SYMLINK_NOFOLLOW, found)) {
    return false;
  }
  const uint32_t type = found.stx_mode & type_mask;
  if (type != regular && type != block_device) return false;
  facts.identity = identity_of(found);
  facts.bytes = found.stx_size;
  facts.mode = static_cast<uint16_t>(found.stx_mode);
  facts.file = 1;  // of no descriptor, but known
  uint8_t is_storage = 0;
  if (!was_told(facts.identity, is_storage)) {
    Scratch* scratch = take_scratch();
    if (scratch == nullptr) return false;
    const size_t length = put_path(folder, path, scratch->file.names, kernel::names_bytes);
    const uint64_t magic = found.stx_dev_major == 0 ? file_system_of(-1, scratch->file.names) : 0;
    is_storage = length > 0 && tell(*scratch, length, found, facts.identity, magic);
    give_back_scratch(scratch);
  }
  facts.is_storage = is_storage;
  return is_storage;
}

void send_name(uint32_t index, int32_t folder, const char* path) {
  Scratch* scratch = take_scratch();
  if (scratch == nullptr) return;
  kernel::NameRecord& record = scratch->name;
  const size_t length = put_path(folder, path, record.path, kernel::names_bytes);
  record.head = head_of(kernel::record_name);
  record.index = index;
  record.length = static_cast<uint16_t>(length + 1);
  record.folder_bytes = 0;
  if (length > 0) send(&record, offsetof(kernel::NameRecord, path) + length + 1);
  give_back_scratch(scratch);
}

void tell_program(FileIdentity& identity) {
  struct statx found = {};
  identity = {};
  if (!status_of(AT_FDCWD, "/proc/self/exe", 0, found)) return;
  identity = identity_of(found);
  Scratch* scratch = take_scratch();
  if (scratch == nullptr) return;
  const size_t length = read_link("/proc/self/exe", scratch->file.names, kernel::names_bytes);
  const uint64_t magic = found.stx_dev_major == 0 ? file_system_of(-1, "/proc/self/exe") : 0;
  tell(*scratch, length, found, identity, magic);
  give_back_scratch(scratch);
}

uint64_t bytes_of(int32_t descriptor) {
  struct statx found = {};
  return status_of(descriptor, "", AT_EMPTY_PATH, found) ? found.stx_size : 0;
}

}  // namespace penstock::trace::preload
