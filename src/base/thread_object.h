#pragma once

// Objects that each thread has for itself and that need a destructor, such as a string that keeps
// its room from call to call.
//
// A plain `thread_local std::string` asks the C library at its first use in a thread to remember
// the destructor, which ends the process if the heap is used up. Here the first use throws
// std::bad_alloc, as any allocation does.

#include <memory>

namespace penstock {

// Base of objects that are destroyed when the thread ends.
struct EndsWithThread {
  virtual ~EndsWithThread() = default;
  EndsWithThread* next = nullptr;
};
// Hands `object` to the thread. Throws std::bad_alloc; then `object` is destroyed.
void end_with_thread(std::unique_ptr<EndsWithThread> object);

// One object of type T for each thread. REQUIRES: thread_local and constinit.
template <class T>
class ThreadObject {
 public:
  // Throws std::bad_alloc at the first use in a thread.
  T& get() {
    if (object_ == nullptr) {
      auto made = std::make_unique<Holder>();
      T* const object = &made->object;
      end_with_thread(std::move(made));
      object_ = object;
    }
    return *object_;
  }

 private:
  struct Holder final : EndsWithThread {
    T object{};
  };
  T* object_ = nullptr;
};

}  // namespace penstock
