// Functions of glibc 2.35 and 2.36 that gcc's archives call, written with functions of older versions: with them, what the preset static
// links needs only glibc 2.34 (Ubuntu 22.04, RHEL 9). Hidden, so that other libraries of the process keep glibc's.
#include <dlfcn.h>
#include <link.h>
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>
#include <span>

extern "C" {

#if __GLIBC_PREREQ(2, 35)
// Finds the object that contains an address, for libgcc's unwinder. It reads only dlfo_eh_frame.
[[gnu::visibility("hidden")]] int _dl_find_object(void* address,
                                                  struct dl_find_object* found) noexcept {
  *found = {};
  found->dlfo_map_start = address;
  const auto look = [](dl_phdr_info* object, size_t, void* argument) {
    auto* const result = static_cast<struct dl_find_object*>(argument);
    const auto sought = reinterpret_cast<uintptr_t>(result->dlfo_map_start);
    bool contains = false;
    void* frames = nullptr;
    for (const auto& part : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
      const uintptr_t begin = object->dlpi_addr + part.p_vaddr;
      if (part.p_type == PT_LOAD) contains |= sought - begin < part.p_memsz;
      if (part.p_type == PT_GNU_EH_FRAME) frames = reinterpret_cast<void*>(begin);
    }
    if (contains) result->dlfo_eh_frame = frames;
    return contains ? 1 : 0;
  };
  dl_iterate_phdr(look, found);
  return found->dlfo_eh_frame != nullptr ? 0 : -1;
}
#endif

#if __GLIBC_PREREQ(2, 36)
// Returns a random number, for std::random_device.
[[gnu::visibility("hidden")]] uint32_t arc4random() noexcept {
  uint32_t number;
  if (getentropy(&number, sizeof number) != 0) std::abort();
  return number;
}
#endif

}  // extern "C"
