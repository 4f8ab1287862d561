#pragma once

// Objects that each thread has for itself and that need a destructor, such as a string whose room is kept from call to
// call.
//
// A plain `thread_local std::string` asks the C library at its first use in a thread to remember the destructor, and
// where the heap is used up that ends the process. Here the first use throws std::bad_alloc, as any allocation does.

#include <memory>

namespace penstock {

// Something that is destroyed when the thread ends.
struct EndsWithThread {
  virtual ~EndsWithThread() = default;
  EndsWithThread* next = nullptr;
};
// Throws std::bad_alloc; then `object` is gone.
void end_with_thread(std::unique_ptr<EndsWithThread> object);

// REQUIRES: thread_local and constinit.
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
