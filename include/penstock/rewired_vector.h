#pragma once

// An array of std::vector's interface that grows by pages of a pool, and copies nothing when it
// does: behind the last page another one appears, and no element ever changes its address for it.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 4 * penstock::GiB});
//   auto keys = penstock::RewiredVector<uint64_t>::open(*pool);
//   for (uint64_t i = 0; i < n; ++i) keys->push_back(random());
//
// or, by whatever code can write to a plain pointer, behind which pages appear by themselves:
//
//   uint64_t* window = *keys->append_window();
//   window = std::generate_n(window, n, random);
//   keys->append_end(window);
//
// Addresses for the longest that the vector may become are reserved when it is opened; memory comes
// from the pool as it grows. What other vectors gave back is used again without the system, which
// would have to find and clear it. (Section 5.1 of the paper named in penstock/page_pool.h; `bench
// rewire-vector` compares.)
//
// What stays valid. An element's address is begin() + its index, always, and begin() never changes:
// reserve(), resize(), shrink_to_fit(), clear() and everything that appends leave all pointers,
// references and iterators to elements that remain as they are, and end() as it was becomes the
// address of the first element appended. insert(), erase() and splice() leave those in front of
// the place; behind it they refer to whichever element is there now, or to none from end() on.
// After swap() or a move they belong to the other vector.
//
// Errors. What may need memory throws std::bad_alloc, as users of std::vector expect, and changes
// nothing then (but for assign() from an iterator that can read once: it has replaced the elements
// by those that it had read); members named try_ return a Status that says what was missing: pages
// of the pool, addresses (bytes_max), or mappings.
//
// A forked child sees the same elements, and its parent sees what it stores there; growing beyond
// capacity() is refused in it (unsupported).

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/page_pool.h"

namespace penstock {

enum class VectorGrowth : uint8_t {
  doubling,  // as many pages again as there are, or what the pool has left of them
  pages,     // grow_pages more
};

struct RewiredVectorOptions {
  uint64_t bytes_max = 0;  // the longest that it may become: address space; 0: the pool's limit
  uint64_t bytes = 0;      // memory that is there from the beginning
  VectorGrowth growth = VectorGrowth::doubling;
  uint32_t grow_pages = 1;
  // When a page is missing behind the append window's pointer: stop or recover. No zeros.
  ErrorPolicy policy = ErrorPolicy::stop;
  std::string name = "rewired vector";  // for messages
};

// What splice() did.
struct Spliced {
  uint64_t pages_moved = 0;   // from vector to vector
  uint64_t copied_bytes = 0;  // what pages could not do, in both vectors
};

namespace rewire {

class VectorCore;

// A vector without its type: bytes of which the first ones are mapped. (For RewiredVector, and the
// library itself.) `size` is always the vector's, in bytes. The one that has no pool, moved from or
// made by default, has neither bytes nor addresses, and refuses to grow.
class VectorMemory {
 public:
  static Result<VectorMemory> open(const PagePool& pool, const RewiredVectorOptions& options);
  VectorMemory() noexcept;
  explicit VectorMemory(std::unique_ptr<VectorCore> core) noexcept;
  VectorMemory(VectorMemory&&) noexcept;
  VectorMemory& operator=(VectorMemory&&) noexcept;
  ~VectorMemory();

  Result<VectorMemory> open_like_this() const;  // of the same pool, and the same options

  std::byte* begin() const noexcept;
  uint64_t mapped_bytes() const noexcept;  // from begin() on; whole pages
  uint64_t bytes_max() const noexcept;
  size_t page_bytes() const noexcept;
  VectorCore* core() const noexcept { return core_.get(); }

  Status grow(uint64_t bytes);     // to at least so many mapped bytes, by the growth's rule
  Status reserve(uint64_t bytes);  // to just as many pages as that takes
  void shrink(uint64_t bytes) noexcept;
  // [at, size) moves up by `bytes`, and between is a gap of undefined contents.
  Status open_gap(uint64_t at, uint64_t bytes, uint64_t size);
  // [at + bytes, size) moves down to `at`.
  void close_gap(uint64_t at, uint64_t bytes, uint64_t size) noexcept;
  Result<Spliced> splice(uint64_t at, uint64_t size, VectorMemory& other, uint64_t first,
                         uint64_t bytes, uint64_t other_size);
  Status open_window();
  Status close_window(uint64_t size);

 private:
  std::unique_ptr<VectorCore> core_;
};

}  // namespace rewire

// Thread safety: as std::vector, and one thing more: while one thread appends, others may read, and
// write, the elements that they know to be there, as long as they do not ask the vector itself.
// Several threads may store through an append window at the same time. The pool may be anybody's.
template <class T>
class RewiredVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                "pages move without the elements' being told");
  static_assert(alignof(T) <= 4096, "pages are aligned to pages");

 public:
  using Options = RewiredVectorOptions;
  using value_type = T;
  using size_type = size_t;
  using difference_type = ptrdiff_t;
  using reference = T&;
  using const_reference = const T&;
  using pointer = T*;
  using const_pointer = const T*;
  using iterator = T*;
  using const_iterator = const T*;
  using reverse_iterator = std::reverse_iterator<iterator>;
  using const_reverse_iterator = std::reverse_iterator<const_iterator>;

  // Empty. Errors: invalid_argument; out_of_memory: address space, or pages for Options::bytes;
  // out_of_mappings.
  static Result<RewiredVector> open(const PagePool& pool, const Options& options = {}) {
    auto memory = rewire::VectorMemory::open(pool, options);
    if (!memory) return std::unexpected(std::move(memory.error()));
    return RewiredVector(std::move(*memory), 0);
  }

  // Without a pool: empty, and nothing can be added, until another vector is moved here.
  RewiredVector() noexcept = default;
  // For the library itself: the first `count` elements are there.
  RewiredVector(rewire::VectorMemory memory, size_t count) noexcept : memory_(std::move(memory)) {
    begin_ = reinterpret_cast<T*>(memory_.begin());
    end_ = begin_ + count;
    find_limit();
  }
  RewiredVector(RewiredVector&& other) noexcept { swap(other); }  // leaves one without a pool
  RewiredVector& operator=(RewiredVector&& other) noexcept {
    if (this != &other) RewiredVector(std::move(other)).swap(*this);
    return *this;
  }
  // A vector on the same pool. Throws std::bad_alloc, as do all of the following that return no
  // Status.
  RewiredVector(const RewiredVector& other) {
    if (other.memory_.core() == nullptr) return;
    auto memory = other.memory_.open_like_this();
    if (!memory) throw std::bad_alloc();
    *this = RewiredVector(std::move(*memory), 0);
    append(other);
  }
  // Keeps its own pool, if it has one.
  RewiredVector& operator=(const RewiredVector& other) {
    if (this == &other) return *this;
    if (memory_.core() == nullptr) return *this = RewiredVector(other);
    or_throw(try_reserve(other.size()));
    clear();
    append(other);
    return *this;
  }
  RewiredVector& operator=(std::initializer_list<T> items) {
    assign(items);
    return *this;
  }
  ~RewiredVector() = default;  // all pages go back to the pool
  void swap(RewiredVector& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(limit_, other.limit_);
    std::swap(memory_, other.memory_);
  }
  friend void swap(RewiredVector& a, RewiredVector& b) noexcept { a.swap(b); }

  // ---- elements

  T* data() noexcept { return begin_; }
  const T* data() const noexcept { return begin_; }
  T& operator[](size_t index) { return begin_[index]; }
  const T& operator[](size_t index) const { return begin_[index]; }
  T& at(size_t index) { return begin_[checked(index)]; }  // throws std::out_of_range
  const T& at(size_t index) const { return begin_[checked(index)]; }
  T& front() { return *begin_; }
  const T& front() const { return *begin_; }
  T& back() { return end_[-1]; }
  const T& back() const { return end_[-1]; }

  iterator begin() noexcept { return begin_; }
  const_iterator begin() const noexcept { return begin_; }
  const_iterator cbegin() const noexcept { return begin_; }
  iterator end() noexcept { return end_; }
  const_iterator end() const noexcept { return end_; }
  const_iterator cend() const noexcept { return end_; }
  reverse_iterator rbegin() noexcept { return reverse_iterator(end_); }
  const_reverse_iterator rbegin() const noexcept { return const_reverse_iterator(end_); }
  reverse_iterator rend() noexcept { return reverse_iterator(begin_); }
  const_reverse_iterator rend() const noexcept { return const_reverse_iterator(begin_); }
  const_reverse_iterator crbegin() const noexcept { return rbegin(); }
  const_reverse_iterator crend() const noexcept { return rend(); }

  friend bool operator==(const RewiredVector& a, const RewiredVector& b) {
    return std::equal(a.begin_, a.end_, b.begin_, b.end_);
  }
  friend auto operator<=>(const RewiredVector& a, const RewiredVector& b)
    requires std::three_way_comparable<T>
  {
    return std::lexicographical_compare_three_way(a.begin_, a.end_, b.begin_, b.end_);
  }

  // ---- size and memory

  bool empty() const noexcept { return begin_ == end_; }
  size_t size() const noexcept { return static_cast<size_t>(end_ - begin_); }
  size_t capacity() const noexcept { return static_cast<size_t>(limit_ - begin_); }
  size_t max_size() const noexcept { return memory_.bytes_max() / sizeof(T); }
  uint64_t memory_bytes() const noexcept { return memory_.mapped_bytes(); }  // of its pages

  // Afterwards appending up to `count` elements in all cannot fail.
  void reserve(size_t count) { or_throw(try_reserve(count)); }
  Status try_reserve(size_t count) {
    if (count <= capacity()) return {};
    Status status = memory_.reserve(bytes_of(count));
    find_limit();
    return status;
  }
  // Pages that hold no element go back to the pool, unless an append window is open. Nothing else
  // gives pages back: clear(), erase() and resize() leave capacity() as it is; but see splice().
  void shrink_to_fit() noexcept {
    memory_.shrink(size_bytes());
    find_limit();
  }
  void clear() noexcept { end_ = begin_; }
  void resize(size_t count) {
    const size_t before = size();
    resize_for_overwrite(count);
    if (count > before) std::uninitialized_value_construct(begin_ + before, end_);
  }
  void resize(size_t count, const T& value) {
    const T copy = value;
    const size_t before = size();
    resize_for_overwrite(count);
    if (count > before) std::uninitialized_fill(begin_ + before, end_, copy);
  }
  // New elements are whatever the pages held before.
  void resize_for_overwrite(size_t count) {
    if (count > capacity()) grow_or_throw(count);
    end_ = begin_ + count;
  }

  // ---- at the end

  void push_back(const T& value) {
    if (end_ == limit_) [[unlikely]]
      grow_or_throw(size() + 1);
    std::construct_at(end_, value);  // also where it is one of ours: nothing has moved
    ++end_;
  }
  Status try_push_back(const T& value) {
    if (end_ == limit_) [[unlikely]] {
      if (Status status = grow(size() + 1); !status) return status;
    }
    std::construct_at(end_, value);
    ++end_;
    return {};
  }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (end_ == limit_) [[unlikely]]
      grow_or_throw(size() + 1);
    std::construct_at(end_, std::forward<Arguments>(arguments)...);
    return *end_++;
  }
  void pop_back() { --end_; }
  void append(std::span<const T> items) { or_throw(try_append(items)); }
  Status try_append(std::span<const T> items) {
    if (items.size() > capacity() - size()) {
      if (Status status = grow(size() + items.size()); !status) return status;
    }
    if (!items.empty()) std::memcpy(static_cast<void*>(end_), items.data(), items.size_bytes());
    end_ += items.size();
    return {};
  }

  // Returns end(). From now on, until append_end(), memory appears wherever it is touched from
  // there on: written by a loop, a library function, or several threads. Where no page is to be
  // had, Options::policy says what happens; what lies in front stays as it is. (System calls do not
  // fault: reserve() before, or penstock/system_calls.h.) Meanwhile the elements may be used, and
  // the vector be moved and swapped, and the window goes with it; whatever else adds, inserts,
  // erases or splices overwrites what the window holds. Errors: signal handlers.
  Result<T*> append_window() {
    if (Status status = memory_.open_window(); !status)
      return std::unexpected(std::move(status.error()));
    return end_;
  }
  // Closes the window, and makes `end` the end of the elements; end() drops what the window holds.
  // Pages that were mapped ahead stay, as capacity. Errors, all of which leave the window open:
  // invalid_argument, where it lies outside; what try_reserve() may report, where it lies behind
  // all that was touched.
  Status append_end(const T* end) {
    Status status = memory_.close_window(static_cast<uint64_t>(
        reinterpret_cast<const std::byte*>(end) - reinterpret_cast<const std::byte*>(begin_)));
    find_limit();
    if (status) end_ = begin_ + (end - begin_);
    return status;
  }

  // ---- anywhere
  //
  // Where the bytes inserted or erased are a whole number of pages, and those behind them many, the
  // pages behind are rewired, and at most half a page is copied. Otherwise, what lies behind is
  // copied, as std::vector does.

  iterator insert(const_iterator position, const T& value) {
    const T copy = value;
    T* const at = open_gap(position, 1);
    return std::construct_at(at, copy);
  }
  iterator insert(const_iterator position, size_t count, const T& value) {
    const T copy = value;
    T* const at = open_gap(position, count);
    std::uninitialized_fill_n(at, count, copy);
    return at;
  }
  // REQUIRES: the elements are not this vector's.
  template <std::input_iterator Iterator>
  iterator insert(const_iterator position, Iterator first, Iterator last) {
    if constexpr (std::forward_iterator<Iterator>) {
      T* const at = open_gap(position, static_cast<size_t>(std::distance(first, last)));
      std::uninitialized_copy(first, last, at);
      return at;
    } else {
      const size_t index = static_cast<size_t>(position - begin_), before = size();
      try {
        for (; first != last; ++first) emplace_back(*first);
      } catch (...) {
        end_ = begin_ + before;
        throw;
      }
      std::rotate(begin_ + index, begin_ + before, end_);
      return begin_ + index;
    }
  }
  iterator insert(const_iterator position, std::initializer_list<T> items) {
    return insert(position, items.begin(), items.end());
  }
  template <class... Arguments>
  iterator emplace(const_iterator position, Arguments&&... arguments) {
    return insert(position, T(std::forward<Arguments>(arguments)...));
  }

  iterator erase(const_iterator position) { return erase(position, position + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    memory_.close_gap(byte_of(first), byte_of(last) - byte_of(first), size_bytes());
    end_ -= last - first;
    return begin_ + (first - begin_);
  }
  friend size_t erase_if(RewiredVector& vector, auto predicate) {
    T* const end = std::remove_if(vector.begin_, vector.end_, predicate);
    return static_cast<size_t>(std::exchange(vector.end_, end) - end);
  }
  friend size_t erase(RewiredVector& vector, const T& value) {
    return erase_if(vector, [copy = value](const T& item) { return item == copy; });
  }

  void assign(size_t count, const T& value) {
    const T copy = value;
    resize_for_overwrite(count);
    std::uninitialized_fill_n(begin_, count, copy);
  }
  // REQUIRES: the elements are not this vector's.
  template <std::input_iterator Iterator>
  void assign(Iterator first, Iterator last) {
    if constexpr (std::forward_iterator<Iterator>) {
      resize_for_overwrite(static_cast<size_t>(std::distance(first, last)));
      std::uninitialized_copy(first, last, begin_);
    } else {
      clear();
      for (; first != last; ++first) emplace_back(*first);
    }
  }
  void assign(std::initializer_list<T> items) { assign(items.begin(), items.end()); }

  // Moves `count` elements of another vector, from its element `first` on, to `position`. On the
  // same pool their pages move, where elements lie at the same place in a page before and after:
  // nothing is copied where `position` and `first` are at the beginning of a page and the elements
  // fill pages, or both vectors end with them (then the pages that this vector had in reserve may
  // go back to the pool, and all that the other had do). Otherwise the pages in between may still
  // move, and as many free ones are needed for a moment; or all is copied. Errors, which leave both
  // as they were: what try_reserve() may report; invalid_argument: not so many elements, or
  // `other` is this vector.
  Result<Spliced> splice(const_iterator position, RewiredVector& other, size_t first,
                         size_t count) {
    if (first > other.size() || count > other.size() - first)
      return failure(ErrorCode::invalid_argument, "splice elements " + std::to_string(first) +
                                                      " to " + std::to_string(first + count) +
                                                      " of " + std::to_string(other.size()));
    auto spliced = memory_.splice(byte_of(position), size_bytes(), other.memory_, first * sizeof(T),
                                  count * sizeof(T), other.size_bytes());
    if (!spliced) return spliced;
    end_ += count;
    other.end_ -= count;
    find_limit();
    other.find_limit();
    return spliced;
  }

  // For the library itself.
  const rewire::VectorMemory& internal() const noexcept { return memory_; }

 private:
  uint64_t byte_of(const T* element) const {
    return static_cast<uint64_t>(element - begin_) * sizeof(T);
  }
  uint64_t size_bytes() const { return byte_of(end_); }
  // More than any vector has, rather than a number that wraps around.
  static uint64_t bytes_of(size_t count) {
    return count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : SIZE_MAX;
  }
  size_t checked(size_t index) const {
    if (index >= size()) throw std::out_of_range("an element behind a rewired vector's last");
    return index;
  }
  static void or_throw(const Status& status) {
    if (!status) throw std::bad_alloc();
  }
  void find_limit() noexcept { limit_ = begin_ + memory_.mapped_bytes() / sizeof(T); }
  Status grow(size_t count) {
    Status status = memory_.grow(bytes_of(count));
    find_limit();
    return status;
  }
  [[gnu::noinline]] void grow_or_throw(size_t count) { or_throw(grow(count)); }
  T* open_gap(const T* position, size_t count) {
    T* const at = begin_ + (position - begin_);
    if (count == 0) return at;
    // A sum that wraps around is below `count`.
    if (size() + count < count) throw std::bad_alloc();
    or_throw(memory_.open_gap(byte_of(position), bytes_of(count), size_bytes()));
    find_limit();
    end_ += count;
    return at;
  }

  T* begin_ = nullptr;
  T* end_ = nullptr;
  T* limit_ = nullptr;  // end of the elements that there is memory for
  rewire::VectorMemory memory_;
};

}  // namespace penstock
