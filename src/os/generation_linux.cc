// A page that the kernel empties in every child that gets a copy of it (MADV_WIPEONFORK) holds the
// number of the address space. Who finds it empty numbers its address space: one more than any
// ancestor's, for the last number given is copied to children like other memory.

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

Word* make_wiped_word() noexcept {
  const KeepErrno keep;
  Word* word = nullptr;
  void* const page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page != MAP_FAILED) {
    const bool wiped = madvise(page, page_bytes, MADV_WIPEONFORK) == 0;
    // acq_rel: whoever sees the page sees it as it was made.
    if (wiped &&
        wiped_word.compare_exchange_strong(word, new (page) Word(0), std::memory_order_acq_rel)) {
      word = static_cast<Word*>(page);
    } else {
      munmap(page, page_bytes);  // another thread was first, and `word` is its page
    }
  }
  return word;
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
    // Counted before it is used: a child forked in between must not get the same.
    const uint64_t number = last_number.fetch_add(1, std::memory_order_seq_cst) + 1;
    if (word->compare_exchange_strong(generation.number_, number, std::memory_order_seq_cst))
      generation.number_ = number;
  }
  return generation;
}

}  // namespace penstock::os
