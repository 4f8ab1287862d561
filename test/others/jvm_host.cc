// A program that has streams before it starts a JVM in its process: the JVM's handlers then come
// before the library's, and chain to them. jvm_host LIBJVM CLASSES CASE GUEST_JNI

#include <dlfcn.h>
#include <jni.h>

#include <cstdio>
#include <string>
#include <thread>

#include "guest.h"

namespace {

constexpr uint64_t numbers = 3 << 20;

int fail(const char* what) {
  std::fprintf(stderr, "jvm_host: %s\n", what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 5) return fail("LIBJVM CLASSES CASE GUEST_JNI");
  const uint64_t expected = guest_checksum(numbers);
  if (guest_stream(numbers, 0) != expected || !guest_installed()) return fail("no JVM yet");
  guest_pipe* const pipe = guest_open(numbers * 8, 1 << 16, 0);

  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return fail(dlerror());
  const auto create =
      reinterpret_cast<jint (*)(JavaVM**, void**, void*)>(dlsym(library, "JNI_CreateJavaVM"));
  std::string class_path = std::string("-Djava.class.path=") + arguments[2];
  JavaVMOption option{class_path.data(), nullptr};
  JavaVMInitArgs options{JNI_VERSION_1_8, 1, &option, JNI_FALSE};
  JavaVM* jvm = nullptr;
  JNIEnv* env = nullptr;
  if (create(&jvm, reinterpret_cast<void**>(&env), &options) != JNI_OK) return fail("no JVM");
  if (guest_installed()) return fail("the JVM has not put its handlers in front");

  // A stream opened before the JVM: its faults come through the JVM's handlers.
  std::jthread producer(guest_produce, pipe, numbers, 0);
  if (guest_drain(pipe, numbers) != expected) return fail("a stream from before the JVM");
  producer.join();
  guest_close(pipe);
  if (guest_installed()) return fail("nobody has put the library back in front yet");

  const jclass guest = env->FindClass("Guest");
  if (guest == nullptr) return fail("no class Guest");
  const jmethodID run = env->GetStaticMethodID(guest, "main", "([Ljava/lang/String;)V");
  const jobjectArray words = env->NewObjectArray(2, env->FindClass("java/lang/String"), nullptr);
  env->SetObjectArrayElement(words, 0, env->NewStringUTF(arguments[3]));
  env->SetObjectArrayElement(words, 1, env->NewStringUTF(arguments[4]));
  env->CallStaticVoidMethod(guest, run, words);
  const bool thrown = env->ExceptionCheck();
  if (thrown) env->ExceptionDescribe();
  jvm->DestroyJavaVM();
  return thrown ? 1 : guest_stream(numbers, 0) == expected ? 0 : fail("no JVM any more");
}
