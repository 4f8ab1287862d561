#include "base/thread_object.h"

#include <pthread.h>

#include <new>

namespace penstock {
namespace {

void destroy_all(void* first) {
  for (auto* object = static_cast<EndsWithThread*>(first); object != nullptr;) {
    const std::unique_ptr<EndsWithThread> ends(object);
    object = ends->next;
  }
}

// Makes the key of each thread's list of objects, the newest first.
pthread_key_t make_key() {
  pthread_key_t key = 0;
  if (::pthread_key_create(&key, &destroy_all) != 0) throw std::bad_alloc();
  return key;
}

}  // namespace

void end_with_thread(std::unique_ptr<EndsWithThread> object) {
  static const pthread_key_t key = make_key();
  object->next = static_cast<EndsWithThread*>(::pthread_getspecific(key));
  if (::pthread_setspecific(key, object.get()) != 0) throw std::bad_alloc();
  (void)object.release();
}

}  // namespace penstock
