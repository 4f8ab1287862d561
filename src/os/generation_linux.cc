// A page that the kernel clears in every child that gets a copy of it (MADV_WIPEONFORK) holds the
// number of the address space. A process that finds it empty numbers its address space: one more
// than any ancestor's, because children get a copy of the last number like of other memory.
//
// If the system has no such page (gVisor), a handler of pthread_atfork() clears an ordinary word in
// the child. Children of a bare clone() are not recognized there.

#include <pthread.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <new>

#include "base/keep_errno.h"
#include "os/generation.h"
#include "os/memory.h"

namespace penstock::os {
namespace {

using Word = std::atomic<uint64_t>;
std::atomic<Word*> wiped_word = nullptr;  // never unmapped
std::atomic<uint64_t> last_number = 0;

Word word_without_page = 0;

// A second registration, by a concurrent thread, does no harm.
Word* make_word_without_page() noexcept {
  const auto empty = [] { word_without_page.store(0, std::memory_order_relaxed); };
  return pthread_atfork(nullptr, nullptr, empty) == 0 ? &word_without_page : nullptr;
}

Word* make_wiped_word() noexcept {
  const KeepErrno keep;
  void* const page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool wiped = page != MAP_FAILED && madvise(page, page_bytes, MADV_WIPEONFORK) == 0;
  Word* const made = wiped ? new (page) Word(0) : make_word_without_page();
  Word* word = nullptr;
  // acq_rel: a thread that sees the word sees it initialized. On failure another thread was first,
  // and `word` is that thread's.
  const bool first =
      made != nullptr && wiped_word.compare_exchange_strong(word, made, std::memory_order_acq_rel);
  if (page != MAP_FAILED && !(first && wiped)) munmap(page, page_bytes);
  return first ? made : word;
}

}  // namespace

Generation Generation::now() noexcept {
  Generation generation;
  Word* word = wiped_word.load(std::memory_order_acquire);
  if (word == nullptr) word = make_wiped_word();
  if (word == nullptr) return generation;
  // Relaxed: the number orders nothing; threads that number at once agree on the first.
  generation.number_ = word->load(std::memory_order_relaxed);
  if (generation.number_ == 0) {
    // The number is counted before it is used: a child forked in between must not get the same.
    const uint64_t number = last_number.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (word->compare_exchange_strong(generation.number_, number, std::memory_order_seq_cst))
      generation.number_ = number;
  }
  return generation;
}

}  // namespace penstock::os
