import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Streams in a JVM, which uses SIGSEGV itself: for null checks that it has left out of compiled code, for the guard pages of
 * its stacks, and to stop loops at safepoints. Guest CASE GUEST_JNI; ends with exit code 0, or with an exception.
 */
final class Guest {
  static native long stream(long numbers, int mechanism);
  static native long checksum(long numbers);
  static native long open(long bytes, long blockBytes);
  static native void close(long pipe);
  static native void fill(long pipe, long first, long last);
  static native boolean finish(long pipe, long numbers);
  /** Waits, fills and finishes. */
  static native void produce(long pipe, long numbers, int delayMs);
  static native long drain(long pipe, long numbers);
  static native ByteBuffer reader(long pipe, long bytes);
  static native boolean prepareRead(long pipe, long offset, long bytes);
  static native boolean installed();
  static native boolean install();
  static native boolean uninstall();
  static native void watch();
  static native long passedOn();

  static final long NUMBERS = 3 << 20; // 24 MiB, through 1.25 MiB of memory
  static final int BLOCK_BYTES = 64 << 10;
  static final int BLOCK_NUMBERS = BLOCK_BYTES / 8;

  static void check(boolean good, String what) {
    if (!good) throw new AssertionError(what);
  }

  // ---------------------------------------------------------------- the JVM's own use of signals

  static final class Node {
    int value = 1;
  }

  static int valueOf(Node node) {
    return node.value;
  }

  /** Dereferences null in compiled code. */
  static void nullPointers() {
    Node node = new Node();
    int sum = 0;
    for (int i = 0; i < 200_000; i++) sum += valueOf(node);
    check(sum == 200_000, "sum");
    int caught = 0;
    for (int i = 0; i < 20; i++) {
      try {
        valueOf(null);
      } catch (NullPointerException e) {
        caught++;
      }
    }
    check(caught == 20, "NullPointerException");
  }

  static int deeper(int depth) {
    return deeper(depth + 1) + 1;
  }

  static void stackOverflows() {
    for (int i = 0; i < 3; i++) {
      try {
        deeper(0);
        check(false, "the stack has no end");
      } catch (StackOverflowError e) {
        // expected
      }
    }
  }

  static volatile long sink;

  /** Stops a thread in a compiled loop, which notices by a fault. */
  static void safepoints() throws InterruptedException {
    AtomicBoolean done = new AtomicBoolean();
    Thread loop = new Thread(() -> {
      long sum = 0;
      for (long i = 0; !done.get(); i++) sum += i ^ (sum >> 3);
      sink = sum;
    });
    loop.start();
    for (int i = 0; i < 10; i++) {
      sink += new byte[1 << 20].length;
      System.gc();
    }
    done.set(true);
    loop.join();
  }

  static void provoke() throws InterruptedException {
    nullPointers();
    stackOverflows();
    safepoints();
  }

  // ---------------------------------------------------------------- the cases

  static void stream() {
    long expected = checksum(NUMBERS);
    for (int mechanism = 0; mechanism < 4; mechanism++) {
      long found = stream(NUMBERS, mechanism);
      check(found == expected || (mechanism != 0 && found == 0), "checksum, mechanism " + mechanism);
    }
    check(installed(), "the library is in front");
  }

  static void before_and_after() throws InterruptedException {
    provoke();
    watch();
    check(!installed(), "another handler is in front");
    stream();
    long before = passedOn();
    provoke();
    check(passedOn() > before, "the JVM's faults came through the library");
    check(uninstall() && !installed(), "uninstall");
    provoke();
    stream();
    provoke();
  }

  static void during() throws InterruptedException {
    install();
    AtomicBoolean done = new AtomicBoolean();
    Thread streams = new Thread(() -> {
      while (!done.get()) stream();
    });
    streams.start();
    for (int i = 0; i < 3; i++) provoke();
    done.set(true);
    streams.join();
    check(installed(), "the library is in front");
  }

  static void provoke_without_library() throws InterruptedException {
    provoke();
  }

  /** A native method waits in a fault for another thread, which collects garbage before it delivers. */
  static void collects_while_a_native_method_waits() throws InterruptedException {
    long pipe = open(NUMBERS * 8, BLOCK_BYTES);
    long[] sum = new long[1];
    Thread consumer = new Thread(() -> sum[0] = drain(pipe, NUMBERS));
    consumer.start();
    Thread.sleep(50);
    provoke();
    fill(pipe, 0, NUMBERS / 2);
    Thread.sleep(50);
    provoke();
    fill(pipe, NUMBERS / 2, NUMBERS);
    check(finish(pipe, NUMBERS), "finish");
    consumer.join();
    check(sum[0] == checksum(NUMBERS), "checksum");
    close(pipe);
  }

  static long sumOf(ByteBuffer reader, int first, int last) {
    long sum = 0;
    for (int i = first; i < last; i++) sum = Long.rotateLeft(sum, 5) + reader.getLong(i * 8);
    return sum;
  }

  static Thread producer(long pipe, int delayMs) {
    Thread producer = new Thread(() -> produce(pipe, NUMBERS, delayMs));
    producer.start();
    return producer;
  }

  /** Java code itself loads from the stream: faults in compiled and interpreted code are served. */
  static void java_code_reads() throws InterruptedException {
    long pipe = open(NUMBERS * 8, BLOCK_BYTES);
    Thread producer = producer(pipe, 0);
    ByteBuffer reader = reader(pipe, NUMBERS * 8).order(ByteOrder.nativeOrder());
    check(sumOf(reader, 0, (int) NUMBERS) == checksum(NUMBERS), "checksum");
    producer.join();
    close(pipe);
  }

  /** Java code loads window by window, each prepared by a native method, in which the JVM can stop the thread. */
  static void java_code_reads_prepared_windows() throws InterruptedException {
    long pipe = open(NUMBERS * 8, BLOCK_BYTES);
    Thread producer = producer(pipe, 200);
    Thread collector = new Thread(() -> {
      for (int i = 0; i < 10; i++) System.gc();
    });
    collector.start();
    ByteBuffer reader = reader(pipe, NUMBERS * 8).order(ByteOrder.nativeOrder());
    long wrong = 0;
    for (int i = 0; i < NUMBERS; i++) {
      if (i % BLOCK_NUMBERS == 0) check(prepareRead(pipe, i * 8L, BLOCK_BYTES), "prepare");
      if (reader.getLong(i * 8) != i * 0x9e3779b97f4a7c15L) wrong++;
    }
    check(wrong == 0, wrong + " wrong numbers");
    producer.join();
    collector.join();
    close(pipe);
  }

  /**
   * A collection stands still while Java code itself waits in a fault, and so does every Java thread; it ends because the
   * producer is native code all the while. (A Java producer would wait for the collection: a deadlock.)
   */
  static void collection_waits_for_java_code() throws InterruptedException {
    long pipe = open(NUMBERS * 8, BLOCK_BYTES);
    Thread producer = producer(pipe, 300);
    ByteBuffer reader = reader(pipe, NUMBERS * 8).order(ByteOrder.nativeOrder());
    long[] sum = new long[1];
    Thread consumer = new Thread(() -> sum[0] = sumOf(reader, 0, (int) NUMBERS));
    consumer.start();
    Thread.sleep(50);
    long start = System.nanoTime();
    System.gc();
    System.out.println("gc_ms " + (System.nanoTime() - start) / 1_000_000);
    consumer.join();
    check(sum[0] == checksum(NUMBERS), "checksum");
    producer.join();
    close(pipe);
  }

  public static void main(String[] arguments) throws Throwable {
    System.load(arguments[1]);
    Guest.class.getDeclaredMethod(arguments[0]).invoke(null);
  }
}
