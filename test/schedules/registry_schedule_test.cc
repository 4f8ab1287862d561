// Schedule tests of faults that race with the removal of their regions: the registry's own code, from the signal handler on.

#include <gtest/gtest.h>
#include <ucontext.h>

#include <csignal>
#include <cstddef>
#include <memory>

#include "memory/fault/registry.h"
#include "schedules/expectations.h"

namespace penstock::schedules {
namespace {

std::byte memory[3 * 4096];

// A handler whose memory may be reused when its registration has ended.
struct Server final : fault::Handler {
  fault::Outcome on_fault(const fault::Fault&) noexcept override {
    require(!has_ended, "a handler runs that has ended");
    ++served;
    point();
    require(!has_ended, "a handler has ended under a thread that is inside");
    return fault::Outcome::retry;
  }
  void end() { has_ended = true; }
  bool has_ended = false;
  int served = 0;
};

int unserved = 0;  // faults that reached the older handlers

// Calls the handler as the kernel does for a fault.
void fault_at(const void* address) {
  struct sigaction action = {};
  sigaction(SIGSEGV, nullptr, &action);
  siginfo_t info = {};
  info.si_signo = SIGSEGV;
  info.si_code = SEGV_ACCERR;
  info.si_addr = const_cast<void*>(address);
  ucontext_t context = {};
  context.uc_mcontext.gregs[REG_TRAPNO] = 14;
  context.uc_mcontext.gregs[REG_ERR] = 2;
  action.sa_sigaction(SIGSEGV, &info, &context);
}

fault::Registration serve(int page, fault::Handler& handler) {
  auto registration = fault::Registration::add(memory + page * 4096, 4096, handler);
  require(registration.has_value(), "a region cannot be registered");
  return std::move(*registration);
}

void stand_behind() {
  struct sigaction action = {};
  action.sa_handler = [](int) { ++unserved; };
  sigaction(SIGSEGV, &action, nullptr);
  unserved = 0;
}

// A region is removed while a thread faults in it: afterwards no thread is inside its handler.
void removal(Run& run) {
  stand_behind();
  Server server;
  fault::Registration region = serve(0, server);
  run.thread([&] { fault_at(memory); });
  run.thread([&] {
    region = {};
    server.end();
  });
  run.go();
  require(server.served + unserved == 1, "a fault was served twice, or by nobody");
}

// Two regions are removed one after the other while a thread faults in the second: a lookup that read
// the phase before the first removal is counted in the other counter.
void second_removal(Run& run) {
  stand_behind();
  Server server, other_server;
  fault::Registration region = serve(0, server), other = serve(1, other_server);
  run.thread([&] { fault_at(memory); });
  run.thread([&] {
    other = {};
    region = {};
    server.end();
  });
  run.go();
  require(server.served + unserved == 1, "a fault was served twice, or by nobody");
}

// The slot of a removed region is reused by the next one, whose handler must not get the faults of the first.
void reuse(Run& run) {
  stand_behind();
  Server first, second;
  fault::Registration region = serve(0, first), other;
  run.thread([&] { fault_at(memory + 8); });
  run.thread([&] {
    region = {};
    first.end();
    other = serve(1, second);
  });
  run.go();
  require(second.served == 0, "a region's handler was asked for an address of another one");
  require(first.served + unserved == 1, "a fault was served twice, or by nobody");
}

// Two threads change the table; a fault of a remaining region is served.
void changes(Run& run) {
  stand_behind();
  Server stays, ends;
  const fault::Registration region = serve(0, stays);
  fault::Registration first = serve(1, ends), second = serve(2, ends);
  run.thread([&] { fault_at(memory + 16); });
  run.thread([&] { first = {}; });
  run.thread([&] { second = {}; });
  run.go();
  require(stays.served == 1 && unserved == 0, "a fault was not served");
}

// ---- handlers of others

int others_called = 0;
void older(int) {
  ++others_called;
}
void newer(int) {
  ++others_called;
}
// Installs another handler above ours, and ours above that.
void come_above(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigaction(SIGSEGV, &action, nullptr);
  require(fault::install().has_value(), "our handler cannot be installed");
}

// The chain of older handlers is replaced while a fault of no region goes down it.
void chaining(Run& run) {
  come_above(newer);
  come_above(older);  // each order begins with these two handlers, the older one last
  others_called = 0;
  run.thread([&] { fault_at(memory); });
  run.thread([&] { come_above(newer); });
  run.go();
  require(others_called == 1, "a fault did not come to one handler of the others");
}

class RegistrySchedules : public testing::Test {
 protected:
  void TearDown() override { plant(0); }
};

TEST_F(RegistrySchedules, ARemovedRegionHasNobodyInside) {
  expect_right({"registry.removal", removal, {.deviations = 4}});
}
TEST_F(RegistrySchedules, ARegionThatEndsBehindAnotherHasNobodyInside) {
  expect_right({"registry.second_removal", second_removal, {.deviations = 3}});
}
TEST_F(RegistrySchedules, ASlotServesItsOwnRegionAlone) {
  expect_right({"registry.reuse", reuse, {.deviations = 4}});
}
TEST_F(RegistrySchedules, ARegionThatStaysIsServed) {
  expect_right({"registry.changes", changes, {.deviations = 3, .orders_max = 2'000'000}});
}
TEST_F(RegistrySchedules, AFaultOfNoRegionGoesDownTheChain) {
  expect_right({"registry.chaining", chaining, {.deviations = 4}});
}
TEST_F(RegistrySchedules, PlantedFaultsAreFound) {
  for (const int fault : {7, 8})
    expect_found(fault, {"registry.chaining", chaining, {.deviations = 4}});
  expect_found(1, {"registry.second_removal", second_removal, {.deviations = 3}});
  for (int fault = 2; fault <= 6; ++fault) {
    SCOPED_TRACE(fault);
    plant(fault);
    const Found removed = explore("registry.removal", {.deviations = 3, .random = 0}, removal);
    const Found reused = explore("registry.reuse", {.deviations = 3, .random = 0}, reuse);
    EXPECT_TRUE(removed.failure || reused.failure);
    for (const Found* found : {&removed, &reused}) {
      EXPECT_TRUE(found->repeats);
      if (found->failure) std::printf("planted %d: %s\n", fault, found->failure->c_str());
    }
  }
}

}  // namespace
}  // namespace penstock::schedules
