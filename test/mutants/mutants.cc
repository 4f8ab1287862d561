// The switches of a mutated program's mutants. It includes no header of ours, because it is compiled into the lowest layer of the mutated tree.
//
//   PENSTOCK_MUTANT=17            the mutant that is on
// PENSTOCK_MUTANTS_REACHED=FILE a byte for each mutant, set to 1 when a run reaches it. Processes share the file.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace {

int on = 0;
int mutants = 0;
char* reached = nullptr;

// Runs before all other constructors.
[[gnu::constructor(101)]] void read_environment() {
  if (const char* number = std::getenv("PENSTOCK_MUTANT")) on = std::atoi(number);
  const char* path = std::getenv("PENSTOCK_MUTANTS_REACHED");
  if (path == nullptr) return;
  const int file = ::open(path, O_RDWR | O_CLOEXEC);
  struct stat about = {};
  if (file < 0 || ::fstat(file, &about) != 0) std::abort();
  void* const map = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ | PROT_WRITE,
                           MAP_SHARED, file, 0);
  if (map == MAP_FAILED) std::abort();
  ::close(file);
  mutants = static_cast<int>(about.st_size);
  reached = static_cast<char*>(map);
}

}  // namespace

// Called in signal handlers and between any two steps of other code, so it must not change anything that they see.
extern "C" [[gnu::visibility("default")]] bool penstock_mutant_is_on(int number) noexcept {
  if (number < mutants) __atomic_store_n(&reached[number], char{1}, __ATOMIC_RELAXED);
  return number == on;
}
