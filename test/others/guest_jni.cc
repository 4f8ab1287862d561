// The guest's functions as native methods of Guest.java.

#include <jni.h>

#include "guest.h"

namespace {

guest_pipe* pipe_of(jlong handle) {
  return reinterpret_cast<guest_pipe*>(handle);
}

}  // namespace

extern "C" {

JNIEXPORT jlong JNICALL Java_Guest_stream(JNIEnv*, jclass, jlong numbers, jint mechanism) {
  return static_cast<jlong>(guest_stream(numbers, mechanism));
}
JNIEXPORT jlong JNICALL Java_Guest_checksum(JNIEnv*, jclass, jlong numbers) {
  return static_cast<jlong>(guest_checksum(numbers));
}
JNIEXPORT jlong JNICALL Java_Guest_open(JNIEnv*, jclass, jlong bytes, jlong block_bytes) {
  return reinterpret_cast<jlong>(guest_open(bytes, block_bytes, 0));
}
JNIEXPORT void JNICALL Java_Guest_close(JNIEnv*, jclass, jlong pipe) {
  guest_close(pipe_of(pipe));
}
JNIEXPORT void JNICALL Java_Guest_fill(JNIEnv*, jclass, jlong pipe, jlong first, jlong last) {
  guest_fill(pipe_of(pipe), first, last);
}
JNIEXPORT jboolean JNICALL Java_Guest_finish(JNIEnv*, jclass, jlong pipe, jlong numbers) {
  return static_cast<jboolean>(guest_finish(pipe_of(pipe), numbers));
}
JNIEXPORT void JNICALL Java_Guest_produce(JNIEnv*, jclass, jlong pipe, jlong numbers,
                                          jint delay_ms) {
  guest_produce(pipe_of(pipe), numbers, delay_ms);
}
JNIEXPORT jlong JNICALL Java_Guest_drain(JNIEnv*, jclass, jlong pipe, jlong numbers) {
  return static_cast<jlong>(guest_drain(pipe_of(pipe), numbers));
}
JNIEXPORT jobject JNICALL Java_Guest_reader(JNIEnv* env, jclass, jlong pipe, jlong bytes) {
  return env->NewDirectByteBuffer(guest_reader(pipe_of(pipe)), bytes);
}
JNIEXPORT jboolean JNICALL Java_Guest_prepareRead(JNIEnv*, jclass, jlong pipe, jlong offset,
                                                  jlong bytes) {
  return static_cast<jboolean>(
      guest_prepare_read(pipe_of(pipe), guest_reader(pipe_of(pipe)) + offset, bytes));
}
JNIEXPORT jboolean JNICALL Java_Guest_installed(JNIEnv*, jclass) {
  return static_cast<jboolean>(guest_installed());
}
JNIEXPORT jboolean JNICALL Java_Guest_install(JNIEnv*, jclass) {
  return static_cast<jboolean>(guest_install());
}
JNIEXPORT jboolean JNICALL Java_Guest_uninstall(JNIEnv*, jclass) {
  return static_cast<jboolean>(guest_uninstall());
}
JNIEXPORT void JNICALL Java_Guest_watch(JNIEnv*, jclass) {
  guest_watch();
}
JNIEXPORT jlong JNICALL Java_Guest_passedOn(JNIEnv*, jclass) {
  return static_cast<jlong>(guest_passed_on());
}
}
