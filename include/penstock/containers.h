#pragma once

// Containers on the pages of a pool (penstock/rewire.h): a vector that grows without copying, and a
// hash table without rehashing.

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/internal/hash_bucket.h"
#include "penstock/internal/vector_memory.h"
#include "penstock/rewire.h"

namespace penstock {

namespace internal {
// Throws an exception; with -fno-exceptions, ends the program.
template <class Exception, class... Arguments>
[[noreturn]] void raise([[maybe_unused]] const Arguments&... arguments) {
#ifdef __cpp_exceptions
  throw Exception(arguments...);
#else
  std::abort();
#endif
}
}  // namespace internal

enum class VectorGrowth : uint8_t {
  doubling,  // doubles the pages, or takes the rest of the pool
  pages,     // adds grow_pages
};

struct RewiredVectorOptions {
  uint64_t bytes_max = 0;  // longest size: address space; 0: the pool's limit
  uint64_t bytes = 0;      // memory allocated at the beginning
  VectorGrowth growth = VectorGrowth::doubling;
  uint32_t grow_pages = 1;
  // Reaction when the append window needs a page that is not to be had: stop or recover, not zeros.
  ErrorPolicy policy = ErrorPolicy::stop;
  std::string name = "rewired vector";  // for messages
};

// The work that a splice() did.
struct Spliced {
  uint64_t pages_moved = 0;   // moved from vector to vector
  uint64_t copied_bytes = 0;  // copied because pages could not move, in both vectors
};

// An array with std::vector's interface that grows by pages of a pool and copies nothing: another
// page appears behind the last one, and no element changes its address.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 4 * penstock::GiB});
//   auto keys = penstock::RewiredVector<uint64_t>::open(*pool);
//   for (uint64_t i = 0; i < n; ++i) keys->push_back(random());
//
// Code that writes to a plain pointer can fill it as well, and pages appear behind the pointer:
//
//   uint64_t* window = *keys->append_window();
//   window = std::generate_n(window, n, random);
//   keys->append_end(window);
//
// open() reserves addresses for the longest size; memory comes from the pool as the vector grows.
// Pages that other vectors gave back are used again, which spares the system finding and clearing
// them. (Section 5.1 of the paper named in penstock/rewire.h; `bench rewire-vector` compares.)
//
// Validity. An element's address is always begin() + its index, and begin() never changes.
// reserve(), resize(), shrink_to_fit(), clear() and all appending members keep every pointer,
// reference and iterator to elements that remain, and the old end() becomes the address of the
// first appended element. insert(), erase() and splice() keep those in front of the position; those
// behind it refer to the element that is there now, or to none from end() on. After swap() or a
// move they belong to the other vector.
//
// Errors. Members that may need memory throw std::bad_alloc, as in std::vector, and then change
// nothing (except assign() from a single-pass iterator, which has replaced the elements by those
// that it had read). Members named try_ return a Status that names the shortage: pages of the pool,
// addresses (bytes_max), or mappings.
//
// A forked child shares the elements with its parent, in both directions; it cannot grow beyond
// capacity() (unsupported).
//
// Thread safety: as std::vector. In addition, while one thread appends, others may read and write
// the elements that they know of, but call no members. Several threads may store through an append
// window at the same time. The pool may be shared with anyone.
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

  // Opens an empty vector. Errors: invalid_argument; out_of_memory: address space, or pages for
  // Options::bytes; out_of_mappings.
  static Result<RewiredVector> open(const PagePool& pool, const Options& options = {}) {
    auto memory = rewire::VectorMemory::open(pool, options);
    if (!memory) return std::unexpected(std::move(memory.error()));
    return RewiredVector(std::move(*memory), 0);
  }

  // Makes a vector without a pool: it is empty and cannot grow until another vector is moved here.
  RewiredVector() noexcept = default;
  RewiredVector(RewiredVector&& other) noexcept { swap(other); }  // leaves `other` without a pool
  RewiredVector& operator=(RewiredVector&& other) noexcept {
    if (this != &other) RewiredVector(std::move(other)).swap(*this);
    return *this;
  }
  // Copies a vector on the same pool. Throws std::bad_alloc, like all later members without a
  // Status.
  RewiredVector(const RewiredVector& other) {
    if (other.memory_.core() == nullptr) return;
    auto memory = other.memory_.open_like_this();
    if (!memory) internal::raise<std::bad_alloc>();
    *this = RewiredVector(std::move(*memory), 0);
    append(other);
  }
  // Copies elements; keeps its own pool, if there is one.
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
  uint64_t memory_bytes() const noexcept { return memory_.mapped_bytes(); }  // mapped pages

  // Ensures that appending up to `count` elements in all cannot fail.
  void reserve(size_t count) { or_throw(try_reserve(count)); }
  Status try_reserve(size_t count) {
    if (count <= capacity()) return {};
    Status status = memory_.reserve(bytes_of(count));
    find_limit();
    return status;
  }
  // Gives pages without elements back to the pool, unless an append window is open. Only splice()
  // may also give pages back: clear(), erase() and resize() keep capacity().
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
  // Resizes; new elements have the old contents of their pages.
  void resize_for_overwrite(size_t count) {
    if (count > capacity()) grow_or_throw(count);
    end_ = begin_ + count;
  }

  // ---- at the end

  void push_back(const T& value) {
    if (end_ == limit_) [[unlikely]]
      grow_or_throw(size() + 1);
    std::construct_at(end_, value);  // `value` may be an element: nothing has moved
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

  // Opens the append window and returns end(). Until append_end(), memory appears from there on
  // wherever a loop, a library function or several threads touch it. If no page is to be had,
  // Options::policy applies; elements in front stay unchanged. (System calls do not fault: use
  // reserve() before, or penstock/stream.h.) Meanwhile the elements may be used, and the vector may
  // be moved and swapped, and the window goes with it; any other appending, inserting, erasing or
  // splicing overwrites the window's contents. Errors: those of installing signal handlers.
  Result<T*> append_window() {
    if (Status status = memory_.open_window(); !status)
      return std::unexpected(std::move(status.error()));
    return end_;
  }
  // Closes the window and makes `end` the end of the elements; end() drops the window's contents.
  // Pages that were mapped ahead stay as capacity. Errors, which leave the window open:
  // invalid_argument if `end` lies outside; those of try_reserve() if it lies behind everything
  // that was touched.
  Status append_end(const T* end) {
    Status status = memory_.close_window(static_cast<uint64_t>(
        reinterpret_cast<const std::byte*>(end) - reinterpret_cast<const std::byte*>(begin_)));
    find_limit();
    if (status) end_ = begin_ + (end - begin_);
    return status;
  }

  // ---- anywhere
  //
  // If the inserted or erased bytes are a whole number of pages, and those behind them are many,
  // the pages behind are rewired, and at most half a page is copied. Otherwise the elements behind
  // are copied, as std::vector does.

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
      // An element or an iterator that throws leaves the vector as it was.
      struct Restore {
        RewiredVector* vector;
        size_t count;
        ~Restore() {
          if (vector != nullptr) vector->end_ = vector->begin_ + count;
        }
      } restore{this, before};
      for (; first != last; ++first) emplace_back(*first);
      restore.vector = nullptr;
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

  // Moves `count` elements of another vector, from its element `first` on, to `position`. If both
  // vectors have the same pool, and the elements keep their place within a page, their pages move.
  // Nothing is copied if `position` and `first` are at the beginning of a page and the elements
  // fill pages, or both vectors end with them (then spare pages of this vector may go back to the
  // pool, and those of the other do). Otherwise the pages in between may still move, with as many
  // free pages for a moment, or all is copied. Errors, which leave both vectors unchanged: those of
  // try_reserve(); invalid_argument: `other` has too few elements, or is this vector.
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

 private:
  friend struct internal::Access;
  friend class PageView;
  // Adopts memory whose first `count` elements exist.
  RewiredVector(rewire::VectorMemory memory, size_t count) noexcept : memory_(std::move(memory)) {
    begin_ = reinterpret_cast<T*>(memory_.begin());
    end_ = begin_ + count;
    find_limit();
  }
  uint64_t byte_of(const T* element) const {
    return static_cast<uint64_t>(element - begin_) * sizeof(T);
  }
  uint64_t size_bytes() const { return byte_of(end_); }
  // Returns SIZE_MAX, more than any vector has, instead of a number that wraps around.
  static uint64_t bytes_of(size_t count) {
    return count <= SIZE_MAX / sizeof(T) ? count * sizeof(T) : SIZE_MAX;
  }
  size_t checked(size_t index) const {
    if (index >= size())
      internal::raise<std::out_of_range>("an element behind a rewired vector's last");
    return index;
  }
  static void or_throw(const Status& status) {
    if (!status) internal::raise<std::bad_alloc>();
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
    if (size() + count < count) internal::raise<std::bad_alloc>();
    or_throw(memory_.open_gap(byte_of(position), bytes_of(count), size_bytes()));
    find_limit();
    end_ += count;
    return at;
  }

  T* begin_ = nullptr;
  T* end_ = nullptr;
  T* limit_ = nullptr;  // end of the elements that fit the memory
  rewire::VectorMemory memory_;
};

// std::hash, mixed so that all 64 bits depend on the whole key.
template <class K>
struct MixedHash {
  uint64_t operator()(const K& key) const {
    auto hash = static_cast<uint64_t>(std::hash<K>()(key));
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
  }
};

struct RewiredHashOptions {
  // Initial buckets, a power of two: as many as there will be saves the splits.
  uint64_t buckets = 1;
  // Largest directory, in pages of address space. 2^25 at most; 0: four slots per page of the pool.
  uint64_t slots_max = 0;
  std::string name = "rewired hash";  // for messages
};

// A hash table whose directory is the page table: extendible hashing that finds the bucket of a key
// by arithmetic alone.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 4 * penstock::GiB});
//   auto index = penstock::RewiredHash<uint64_t, uint64_t>::open(*pool);
//   index->insert(key, value);
//   if (uint64_t* found = index->find(key)) use(*found);
//
// A bucket is a page. With a directory of depth d, the slot of a key is the low d bits of its hash,
// and the slots are adjacent addresses; so the key's bucket begins at base + slot * page_bytes,
// where another table would look into an array of pointers. A bucket that 2^k slots share is one
// page mapped 2^k times. When a bucket is full, half of its slots are rewired to another page, and
// its entries are divided between the two; if it has only one slot, the directory is doubled
// before, by mapping all of it once more behind itself. Nothing else ever moves, so no insertion
// waits for a copy of the table.
//
// When it pays. Sparing the look-up gains little: an array of pointers is small and stays in a
// cache, and with the same buckets of 2 MiB it finds and inserts as fast. With smaller buckets the
// array is ahead, by half and more, because it can put them into huge pages, which a page table
// cannot: use pages of 2 MiB. The gain is the rest: code without a directory to maintain, two to
// four times the speed of std::unordered_map, and no insertion that waits for rehashing the whole
// table (15 ms against 2 s at 2^23 keys). `bench rewire-hash` measures all of it.
//
// Source: section 6 of the paper named in penstock/rewire.h (hash tables on rewired memory); R.
// Fagin et al., "Extendible hashing" (1979).
//
// Thread safety: as std::unordered_map: one thread that changes it, or any number that only find.
// Directory finds a bucket by its slot: the page table, or a class of the user's.
template <class K, class V, class Hash = MixedHash<K>, class Directory = rewire::HashDirectory>
class RewiredHash {
  static_assert(std::is_trivially_copyable_v<K> && std::is_trivially_copyable_v<V>,
                "entries move between pages without being told");
  static_assert(alignof(K) <= alignof(std::max_align_t) && alignof(V) <= alignof(std::max_align_t));
  using Bucket = rewire::HashBucket<K, V>;

 public:
  using Options = RewiredHashOptions;
  struct Inserted {
    V* value;  // the new value, or the existing one
    bool is_new;
  };

  // Opens an empty table. Errors: invalid_argument if an entry is too large for the pool's pages;
  // out_of_memory, out_of_mappings.
  static Result<RewiredHash> open(const PagePool& pool, const Options& options = {},
                                  Hash hash = {}) {
    if (pool.page_bytes() < 8 * 8 * sizeof(typename Bucket::Entry))
      return failure(ErrorCode::invalid_argument, "open a hash table", options.name,
                     "a pool of larger pages: one must hold 64 entries");
    auto directory = Directory::open(pool, options);
    if (!directory) return std::unexpected(std::move(directory.error()));
    return RewiredHash(std::move(*directory), std::move(hash));
  }

  // Returns nullptr if the key is missing. A pointer is valid until insert, erase of its key, or
  // clear.
  V* find(const K& key) {
    const uint64_t hash = hash_(key);
    auto* const entry = Bucket(directory_.bucket(hash), shape_).find(hash, key);
    return entry == nullptr ? nullptr : &entry->value;
  }
  const V* find(const K& key) const { return const_cast<RewiredHash*>(this)->find(key); }
  bool contains(const K& key) const { return find(key) != nullptr; }

  // Inserts a key, or does nothing if it exists. Errors, which change no entry: out_of_memory,
  // out_of_mappings; invalid_argument if more keys have hashes with the same low bits than a page
  // holds, or slots_max is too small.
  Result<Inserted> insert(const K& key, const V& value) {
    const uint64_t hash = hash_(key);
    Bucket bucket(directory_.bucket(hash), shape_);
    if (auto* const there = bucket.find(hash, key)) return Inserted{&there->value, false};
    if (!bucket.is_full()) return insert_new(hash, key, value);
    // Entries move now, and the key or the value may be part of an entry.
    const typename Bucket::Entry own{key, value};
    do {
      if (Status status = make_room(hash); !status)
        return std::unexpected(std::move(status.error()));
    } while (Bucket(directory_.bucket(hash), shape_).is_full());
    return insert_new(hash, own.key, own.value);
  }

  // Erases a key; returns false if it was missing. The number of pages never falls.
  bool erase(const K& key) {
    const uint64_t hash = hash_(key);
    Bucket bucket(directory_.bucket(hash), shape_);
    const auto* const entry = bucket.find(hash, key);
    if (entry == nullptr) return false;
    bucket.erase(entry);
    --size_;
    return true;
  }

  // Calls visit(const K&, V&) for all entries, in no order. It must not insert or erase.
  template <class Visit>
  void for_each(Visit visit) {
    for_each_bucket([&](Bucket bucket) {
      bucket.for_each(
          [&](typename Bucket::Entry& entry) { visit(std::as_const(entry.key), entry.value); });
    });
  }
  // Erases all entries; the buckets stay.
  void clear() {
    for_each_bucket([](Bucket bucket) { bucket.clear(bucket.head().depth); });
    size_ = 0;
  }

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint64_t slots() const { return directory_.slots(); }
  uint64_t buckets() const { return buckets_; }
  uint64_t memory_bytes() const { return buckets_ * directory_.page_bytes(); }
  uint64_t mappings() const { return directory_.mappings(); }

 private:
  RewiredHash(Directory directory, Hash hash)
      : directory_(std::move(directory)),
        shape_(directory_.page_bytes()),
        hash_(std::move(hash)),
        scratch_(directory_.page_bytes()),
        buckets_(directory_.slots()) {
    for (uint64_t slot = 0; slot < buckets_; ++slot)
      Bucket(directory_.bucket(slot), shape_).clear(directory_.depth());
  }

  // REQUIRES: the key is missing, and its bucket is not full.
  Inserted insert_new(uint64_t hash, const K& key, const V& value) {
    auto* const entry = Bucket(directory_.bucket(hash), shape_).insert(hash, key, value);
    ++size_;
    return {&entry->value, true};
  }

  Status make_room(uint64_t hash) {
    std::byte* to = nullptr;
    const auto head = Bucket(directory_.bucket(hash), shape_).head();
    if (head.graves < head.size) {  // otherwise dropping the graves makes enough room
      if (auto page = directory_.split(hash, head.depth)) {
        to = *page;
        ++buckets_;
      } else if (head.graves == 0) {  // otherwise dropping the graves makes some room
        return std::unexpected(std::move(page.error()));
      }
    }
    // Divides the bucket at its lowest slot, which kept its page.
    const uint64_t lowest = hash & ((uint64_t{1} << head.depth) - 1);
    rewire::divide<K, V>(directory_.bucket(lowest), to, directory_.page_bytes(), scratch_.data(),
                         shape_, hash_);
    return {};
  }

  template <class Visit>
  void for_each_bucket(Visit visit) {
    for (uint64_t slot = 0; slot < directory_.slots(); ++slot) {
      Bucket bucket(directory_.bucket(slot), shape_);
      // Visits a bucket of several slots at its lowest one.
      if (slot >> bucket.head().depth == 0) visit(bucket);
    }
  }

  Directory directory_;
  typename Bucket::Shape shape_;
  Hash hash_;
  std::vector<std::byte> scratch_;
  uint64_t buckets_ = 0;
  uint64_t size_ = 0;
};

}  // namespace penstock
