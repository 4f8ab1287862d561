// Accounts that change all the time, and a report that adds up.
//
//   snapshot [TRANSFERS]   number of transfers of each of two threads (3000000 by default)
//
// Two threads move money between accounts in one table of plain memory. Meanwhile reports are made,
// each from a snapshot: a child process sums up one that it inherited, while this process sums up
// others. A transfer is two stores, and a snapshot may fall between them: then one transfer is in
// progress. But never more than one for each writer, because a snapshot cuts a thread's stores at
// one point: it shows no store without the ones before it.

#include <penstock/base.h>
#include <penstock/rewire.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr uint64_t accounts = 1 << 20;
constexpr uint64_t writers = 2;
constexpr int64_t money_each = 1000;

// An account belongs to one writer: only that one stores to it.
struct Bank {
  int64_t balances[writers][accounts / writers];
};

// Stores to plain memory that several processors read.
void store(int64_t& place, int64_t value) {
  std::atomic_ref(place).store(value, std::memory_order_release);
}

void transfer(Bank& bank, uint64_t writer, uint64_t transfers) {
  uint64_t state = writer + 1;
  int64_t* const balances = bank.balances[writer];
  for (uint64_t i = 0; i < transfers; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t from = (state >> 40) % (accounts / writers);
    const uint64_t to = (state >> 20) % (accounts / writers);
    const auto amount = static_cast<int64_t>(state >> 58);
    store(balances[from], balances[from] - amount);
    store(balances[to], balances[to] + amount);
  }
}

bool adds_up(const Bank& bank, uint64_t transfers_on_their_way) {
  constexpr int64_t all = static_cast<int64_t>(accounts) * money_each;
  constexpr uint64_t amount_max = 63;
  int64_t sum = 0;
  for (const auto& balances : bank.balances)
    for (const int64_t balance : balances) sum += balance;
  return sum <= all && static_cast<uint64_t>(all - sum) <= transfers_on_their_way * amount_max;
}

int run(uint64_t transfers) {
  // The table is 8 MiB; every page that changes under a snapshot needs another page.
  auto pool =
      penstock::PagePool::open({.page_bytes = 64 * penstock::KiB, .bytes_max = 64 * penstock::MiB});
  if (!pool) return std::fprintf(stderr, "%s\n", pool.error().message().c_str()), 1;
  auto table = penstock::RewiredTable::open(*pool, {.bytes = sizeof(Bank), .name = "the bank"});
  if (!table) return std::fprintf(stderr, "%s\n", table.error().message().c_str()), 1;
  Bank& bank = *table->begin<Bank>();
  for (auto& balances : bank.balances)
    for (int64_t& balance : balances) balance = money_each;

  std::vector<std::jthread> threads;
  for (uint64_t writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] { transfer(bank, writer, transfers); });

  int reports = 0, wrong = 0;
  for (; reports < 20; ++reports) {
    auto snapshot = table->snapshot();
    if (!snapshot) return std::fprintf(stderr, "%s\n", snapshot.error().message().c_str()), 1;
    if (reports % 5 == 0) {
      // A report of another process may take its time: this one does not wait for it.
      const pid_t child = fork();
      if (child == 0) _exit(adds_up(*snapshot->begin<Bank>(), writers) ? 0 : 1);
      if (auto kept = snapshot->keep_while(child); !kept) return 1;
    }
    wrong += !adds_up(*snapshot->begin<Bank>(), writers);
  }
  threads.clear();
  for (int status = 0; wait(&status) > 0;) wrong += status != 0;
  wrong += !adds_up(bank, 0);

  const auto counts = table->counts();
  std::printf("%d reports, %d wrong; %llu pages of %llu were copied, %llu writes waited\n", reports,
              wrong, static_cast<unsigned long long>(counts.pages_copied),
              static_cast<unsigned long long>(table->pages()),
              static_cast<unsigned long long>(counts.writes_waited));
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run(argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 3000000);
}
