#include "trace/capture/bpf/kernel_watch.h"

#if PENSTOCK_HAS_BPF

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/check.h"
#include "os/fd.h"
#include "trace/capture/bpf/call_shapes.h"

// The compiled programs are embedded in this program's own file.
asm(R"(
.pushsection .rodata, "a"
.balign 16
.global penstock_bpf_object
.hidden penstock_bpf_object
penstock_bpf_object:
.incbin ")" PENSTOCK_BPF_OBJECT R"("
.global penstock_bpf_object_end
.hidden penstock_bpf_object_end
penstock_bpf_object_end:
.byte 0
.popsection
)");
extern "C" const std::byte penstock_bpf_object[];
extern "C" const std::byte penstock_bpf_object_end[];

namespace penstock::trace {
namespace {

// Properties of the kernel, from its BTF, that decide which programs can be loaded.
struct Kernel {
  bool sees_rings = false;
  bool done_has_entry = false;
};

Result<Kernel> describe_kernel() {
  btf* types = ::btf__load_vmlinux_btf();
  if (types == nullptr) {
    return failure(ErrorCode::unsupported, "read the kernel's description of itself", "bpf",
                   "a kernel with /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF), or the ptrace "
                   "backend");
  }
  const auto has = [&](const char* name, uint32_t kind) {
    return ::btf__find_by_name_kind(types, name, kind) > 0;
  };
  Kernel kernel;
  kernel.sees_rings = has("btf_trace_io_uring_create", BTF_KIND_TYPEDEF) &&
                      has("btf_trace_io_uring_submit_req", BTF_KIND_TYPEDEF) &&
                      has("io_rw", BTF_KIND_STRUCT) && has("io_open", BTF_KIND_STRUCT) &&
                      has("io_close", BTF_KIND_STRUCT) && has("io_sync", BTF_KIND_STRUCT);
  // The typedef leads to a pointer to a function of (its own data, arguments of the tracepoint).
  const int done = ::btf__find_by_name_kind(types, "btf_trace_io_uring_complete", BTF_KIND_TYPEDEF);
  const btf_type* type = done > 0 ? ::btf__type_by_id(types, static_cast<uint32_t>(done)) : nullptr;
  for (int i = 0; i < 2 && type != nullptr; ++i) type = ::btf__type_by_id(types, type->type);
  if (type == nullptr || !::btf_is_func_proto(type)) {
    kernel.sees_rings = false;
  } else {
    kernel.done_has_entry = ::btf_vlen(type) == 4;
  }
  ::btf__free(types);
  return kernel;
}

Error load_error(int error) {
  const bool denied = error == EPERM || error == EACCES;
  return system_error(error, "load programs into the kernel", "bpf",
                      denied ? "as root (CAP_BPF and CAP_PERFMON), or the ptrace backend"
                             : "Linux 5.13 or later, or the ptrace backend")
      .error();
}

}  // namespace

struct KernelWatch::State {
  bpf_object* object = nullptr;
  std::vector<bpf_link*> links;
  ring_buffer* ring = nullptr;
  int threads = -1;                      // the map of traced threads
  kernel::Counters* counters = nullptr;  // the programs' counters, mapped
  bool sees_rings = false;
  const std::function<void(std::span<const std::byte>)>* take = nullptr;
  size_t left = 0;

  ~State() {
    ::ring_buffer__free(ring);
    for (bpf_link* link : links) ::bpf_link__destroy(link);
    ::bpf_object__close(object);
    if (counters != nullptr) ::munmap(counters, sizeof *counters);
  }

  Status load(const WatchOptions& options, const Kernel& kernel_found) {
    sees_rings = kernel_found.sees_rings;
    object = ::bpf_object__open_mem(
        penstock_bpf_object, static_cast<size_t>(penstock_bpf_object_end - penstock_bpf_object),
        nullptr);
    if (object == nullptr) return std::unexpected(load_error(errno));
    size_t settings_bytes = 0;
    auto* settings = static_cast<kernel::Settings*>(const_cast<void*>(::bpf_map__initial_value(
        ::bpf_object__find_map_by_name(object, ".rodata.settings"), &settings_bytes)));
    PENSTOCK_CHECK(settings != nullptr && settings_bytes == sizeof *settings,
                   "the programs have other settings");
    *settings = {.attached = options.attached,
                 .done_has_entry = kernel_found.done_has_entry ? 1u : 0u};
    fill_settings(*settings, sees_rings);
    bpf_map* ring_map = ::bpf_object__find_map_by_name(object, "ring");
    ::bpf_map__set_max_entries(ring_map, static_cast<uint32_t>(options.ring_bytes));
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, object) {
      const std::string name = ::bpf_program__name(program);
      if (name == "at_ring" || name == "at_submit" || name == "at_done") {
        ::bpf_program__set_autoload(program, sees_rings);
      }
    }
    if (const int error = ::bpf_object__load(object); error != 0) {
      return std::unexpected(load_error(-error));
    }
    void* mapped =
        ::mmap(nullptr, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED,
               ::bpf_map__fd(::bpf_object__find_map_by_name(object, ".bss.counters")), 0);
    if (mapped == MAP_FAILED) return std::unexpected(load_error(errno));
    counters = static_cast<kernel::Counters*>(mapped);
    threads = ::bpf_map__fd(::bpf_object__find_map_by_name(object, "threads"));
    const auto heard = [](void* context, void* data, size_t bytes) {
      auto* self = static_cast<State*>(context);
      (*self->take)({static_cast<const std::byte*>(data), bytes});
      return --self->left == 0 ? -ECANCELED : 0;
    };
    ring = ::ring_buffer__new(::bpf_map__fd(ring_map), heard, this, nullptr);
    if (ring == nullptr) return std::unexpected(load_error(errno));
    bpf_object__for_each_program(program, object) {
      if (!::bpf_program__autoload(program)) continue;
      bpf_link* link = ::bpf_program__attach(program);
      if (link == nullptr) return std::unexpected(load_error(errno));
      links.push_back(link);
    }
    return {};
  }
};

KernelWatch::KernelWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelWatch::~KernelWatch() = default;

Result<std::unique_ptr<KernelWatch>> KernelWatch::open(const WatchOptions& options) {
  struct stat space = {};
  constexpr ino_t first_space = 0xEFFFFFFC;  // PROC_PID_INIT_INO
  if (::stat("/proc/self/ns/pid", &space) == 0 && space.st_ino != first_space) {
    return failure(ErrorCode::unsupported,
                   "trace in a container whose processes have numbers of their own", "bpf",
                   "outside of it, or the ptrace backend");
  }
  // The error replaces libbpf's messages.
  ::libbpf_set_print(nullptr);
  auto kernel = describe_kernel();
  if (!kernel) return std::unexpected(kernel.error());
  while (true) {
    auto state = std::make_unique<State>();
    Status loaded = state->load(options, *kernel);
    if (loaded) return std::unique_ptr<KernelWatch>(new KernelWatch(std::move(state)));
    // io_uring's internal structures may have changed: the next try does without them.
    if (!kernel->sees_rings || loaded.error().code == ErrorCode::permission) {
      return std::unexpected(loaded.error());
    }
    kernel->sees_rings = false;
  }
}

Status KernelWatch::trace(int32_t process) {
  const os::Fd handle(::syscall(SYS_pidfd_open, process, 0));
  if (!handle) {
    return system_error(errno, "trace this process", std::to_string(process));
  }
  std::vector<std::byte> value(
      ::bpf_map__value_size(::bpf_object__find_map_by_name(state_->object, "threads")));
  // The thread counts as running before it is traced: nobody else changes the counter yet.
  __atomic_fetch_add(&state_->counters->running, 1, __ATOMIC_RELAXED);
  const int pidfd = handle.get();
  const int error =
      ::bpf_map_update_elem(state_->threads, &pidfd, value.data(), BPF_ANY) == 0 ? 0 : errno;
  if (error != 0) return system_error(error, "trace this process", std::to_string(process));
  return {};
}

bool KernelWatch::drain(const std::function<void(std::span<const std::byte>)>& take) {
  state_->take = &take;
  state_->left = drained_at_once;
  ::ring_buffer__consume(state_->ring);
  state_->take = nullptr;
  return state_->left == 0;
}

kernel::Counters KernelWatch::counters() const {
  const auto read = [](const uint64_t& counter) {
    return __atomic_load_n(&counter, __ATOMIC_ACQUIRE);
  };
  const kernel::Counters& c = *state_->counters;
  return {.lost = read(c.lost),
          .running = read(c.running),
          .failed_calls = read(c.failed_calls),
          .stream_calls = read(c.stream_calls),
          .other_requests = read(c.other_requests)};
}

bool KernelWatch::sees_rings() const {
  return state_->sees_rings;
}

}  // namespace penstock::trace

#else  // PENSTOCK_HAS_BPF

namespace penstock::trace {

struct KernelWatch::State {};
KernelWatch::KernelWatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
KernelWatch::~KernelWatch() = default;
Result<std::unique_ptr<KernelWatch>> KernelWatch::open(const WatchOptions&) {
  return failure(ErrorCode::unsupported, "load programs that were not built", "bpf",
                 "libbpf-dev and clang when building, or the ptrace backend");
}
Status KernelWatch::trace(int32_t) {
  return {};
}
bool KernelWatch::drain(const std::function<void(std::span<const std::byte>)>&) {
  return false;
}
kernel::Counters KernelWatch::counters() const {
  return {};
}
bool KernelWatch::sees_rings() const {
  return false;
}

}  // namespace penstock::trace

#endif  // PENSTOCK_HAS_BPF
