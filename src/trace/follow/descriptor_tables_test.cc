#include "trace/follow/descriptor_tables.h"

#include <gtest/gtest.h>

#include <map>

namespace penstock::trace {
namespace {

struct Entry {
  uint32_t file = 0;
  bool empty() const { return file == 0; }
};

std::map<int32_t, uint32_t> all_of(DescriptorTable<Entry>& table) {
  std::map<int32_t, uint32_t> all;
  table.visit(0, INT32_MAX,
              [&](int32_t descriptor, Entry& entry) { all[descriptor] = entry.file; });
  return all;
}

TEST(DescriptorTable, KeepsSmallAndLargeNumbersUntilTheyAreErased) {
  DescriptorTable<Entry> table;
  for (const int32_t descriptor : {0, 7, 1023, 1024, 1 << 30, INT32_MAX}) {
    table.set(descriptor, {static_cast<uint32_t>(descriptor) + 1});
    ASSERT_NE(table.find(descriptor), nullptr);
    EXPECT_EQ(table.find(descriptor)->file, static_cast<uint32_t>(descriptor) + 1);
  }
  EXPECT_EQ(all_of(table).size(), 6u);
  table.set(-1, {1});
  for (const int32_t descriptor : {-1, 1, 1025}) EXPECT_EQ(table.find(descriptor), nullptr);

  table.set(7, {});
  table.set(1 << 30, {});
  EXPECT_EQ(table.find(7), nullptr);
  EXPECT_EQ(table.find(1 << 30), nullptr);
  table.erase(1023, INT32_MAX - 1);
  EXPECT_EQ(all_of(table), (std::map<int32_t, uint32_t>{{0, 1}, {INT32_MAX, 1u << 31}}));
  table.erase(-5, 0);
  table.erase(0, -1);
  EXPECT_EQ(all_of(table).size(), 1u);
}

TEST(DescriptorTables, ChildHasTheParentsTableOrACopy) {
  DescriptorTables<Entry> tables;
  tables.of(1).set(3, {30});
  tables.fork(1, 2, true);
  tables.fork(1, 5, false);
  tables.of(1).set(3, {31});
  tables.of(5).set(4, {40});
  EXPECT_EQ(tables.get(2, 3).file, 31u);
  EXPECT_EQ(tables.get(5, 3).file, 30u);
  EXPECT_EQ(tables.get(1, 4).file, 0u);

  tables.forget(1);
  EXPECT_EQ(tables.find(1, 3), nullptr);
  EXPECT_EQ(tables.get(2, 3).file, 31u);
  tables.clear();
  EXPECT_EQ(tables.find(2, 3), nullptr);
  EXPECT_EQ(tables.find(5, 3), nullptr);
}

TEST(DescriptorTables, AliasIsAnotherDescriptorOfTheFileThatSharesThePosition) {
  DescriptorTables<Entry> tables;
  tables.of(1).set(3, {30});
  tables.of(1).set(4, {31});
  tables.of(2).set(2000, {30});
  Event event{.process = 1, .descriptor = 3, .file = 30};
  EXPECT_FALSE(tables.find_alias(event, [](auto...) { return false; }));
  EXPECT_EQ(event.child, 0);
  EXPECT_TRUE(tables.find_alias(event, [](int32_t process, int32_t descriptor, const Entry&) {
    EXPECT_TRUE(process == 2 && descriptor == 2000) << process << " " << descriptor;
    return true;
  }));
  EXPECT_EQ(event.child, 2);
  EXPECT_EQ(event.descriptor2, 2000);
}

}  // namespace
}  // namespace penstock::trace
