#include "trace/capture/decoded_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

namespace penstock::trace {
namespace {

TEST(DecodedCall, CommandsAreDecoded) {
  EXPECT_EQ(decode({SYS_fcntl, {3, F_DUPFD_CLOEXEC, 10}}).effect, Effect::duplicate);
  EXPECT_EQ(decode({SYS_fcntl, {3, F_DUPFD_CLOEXEC, 10}}).flags, flag::close_on_exec);
  EXPECT_EQ(decode({SYS_fcntl, {3, F_SETFL, O_APPEND | O_CREAT}}).flags,
            flag::status_flags | flag::append);
  EXPECT_EQ(decode({SYS_fcntl, {3, F_GETFL}}).effect, Effect::nothing);
  EXPECT_EQ(decode({SYS_ioctl, {3, FIOCLEX}}).flags, flag::descriptor_flags | flag::close_on_exec);
  EXPECT_EQ(decode({SYS_ioctl, {3, F_SETFD}}).effect, Effect::nothing);
}

TEST(DecodedCall, ArgumentsDecideWhetherACallIsRelevant) {
  EXPECT_EQ(decode({SYS_unlinkat, {3, 100, AT_REMOVEDIR}}).effect, Effect::nothing);
  EXPECT_EQ(decode({SYS_unlinkat, {3, 100, 0}}).path_at, 100u);
  constexpr uint64_t shared = MAP_SHARED, anonymous = MAP_SHARED | MAP_ANONYMOUS;
  EXPECT_EQ(decode({SYS_mmap, {0, 4096, PROT_WRITE, anonymous, 3, 0}}).effect, Effect::nothing);
  EXPECT_EQ(decode({SYS_mmap, {0, 4096, PROT_WRITE, shared, ~uint64_t{0}, 0}}).effect,
            Effect::nothing);
  const DecodedCall map = decode({SYS_mmap, {0, 4096, PROT_WRITE, shared, 3, 8192}});
  EXPECT_EQ(map.flags, flag::read | flag::write);
  EXPECT_EQ(event_of(map, 0x7f0000000000).result, 4096u);
  EXPECT_EQ(decode({SYS_lseek, {3, 100, SEEK_SET}}).offset, no_offset);
}

TEST(DecodedCall, RequestsOfRingsAreDecodedAsCallsAre) {
  const DecodedCall range{.descriptor = 3, .offset = 10, .bytes = 20};
  const DecodedCall vectors = decode_request(IORING_OP_WRITEV, range, RWF_APPEND | RWF_DSYNC);
  EXPECT_EQ(vectors.flags, flag::ring | flag::vector | flag::append | flag::synchronous);
  EXPECT_EQ(event_of(vectors, 7).bytes, 7u);
  const Event read = event_of(decode_request(IORING_OP_READ_FIXED, range, 0), 5);
  EXPECT_EQ(read, (Event{.offset = 10,
                         .bytes = 20,
                         .result = 5,
                         .descriptor = 3,
                         .flags = flag::ring,
                         .call = Call::read}));
  const DecodedCall sync = decode_request(IORING_OP_FSYNC, range, IORING_FSYNC_DATASYNC);
  EXPECT_EQ(sync.flags, flag::ring | flag::data_only);
  EXPECT_EQ(sync.offset, no_offset);
  EXPECT_EQ(sync.bytes, 0u);
  EXPECT_EQ(decode_request(IORING_OP_NOP, range, 0).effect, Effect::nothing);
}

}  // namespace
}  // namespace penstock::trace
