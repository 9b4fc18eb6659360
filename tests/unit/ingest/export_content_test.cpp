#include "ingest/export_content.hpp"

#include <gtest/gtest.h>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

class EventCountsTest : public testing::ScratchTest {
 protected:
  void write(const char* sql) {
    testing::Writer writer(file());
    writer(sql);
    // So large that the numbers below could be those of rows.
    writer("CREATE TABLE filling(b BLOB); INSERT INTO filling VALUES (zeroblob(1000000))");
  }
  void write_bytes(const std::string& path, std::size_t bytes) { std::ofstream(path) << std::string(bytes, 'x'); }
};

TEST_F(EventCountsTest, TellsPackedEventsFromOthers) {
  write(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1),(2),(3);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INT); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1),(2);"
      "CREATE TABLE NVTX_EVENTS(start INT); INSERT INTO NVTX_EVENTS(rowid, start) VALUES (9000, 1);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start INT); INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1);"
      "CREATE TABLE added_by_a_tool(start INT); INSERT INTO added_by_a_tool(rowid) VALUES (5000)");
  const EventCounts counts = count_events(file());
  EXPECT_EQ(counts.packed, 3 + 2 + 9000) << "the largest row number: no row is read";
  EXPECT_EQ(counts.others, 1);
}

TEST_F(EventCountsTest, EstimatesArrivalsByNamesOfKernels) {
  write(
      "CREATE TABLE StringIds(id INT, value TEXT); INSERT INTO StringIds VALUES (1, 'gemm'), (2, "
      "'ncclDevKernel_AllReduce'), (3, 'ncclKernel');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(shortName INT);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1),(2),(1),(3),(1)");
  EXPECT_EQ(estimate_arrivals(file()), 2);
  EXPECT_EQ(estimate_arrivals("/nowhere/absent.sqlite"), 0);
}

TEST_F(EventCountsTest, EstimatesNoArrivalsWhereNothingTells) {
  write("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INT); INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1)");
  EXPECT_EQ(estimate_arrivals(file()), 0);
}

TEST_F(EventCountsTest, CountsTablesWithoutRowNumbers) {
  write("CREATE TABLE NVTX_EVENTS(a INTEGER PRIMARY KEY) WITHOUT ROWID; INSERT INTO NVTX_EVENTS VALUES (70), (80)");
  EXPECT_EQ(count_events(file()).packed, 2);
}

TEST_F(EventCountsTest, BelievesNoMoreRowsThanTheFileHasRoomFor) {
  write("CREATE TABLE NVTX_EVENTS(a INT); INSERT INTO NVTX_EVENTS(rowid) VALUES (4000000000000)");
  EXPECT_LT(count_events(file()).packed, 200'000);
  EXPECT_GT(count_events(file()).packed, 0);
}

TEST_F(EventCountsTest, GoesBySizeWhereTheFileIsNotToBeOpened) {
  write_bytes(file("rank.nsys-rep"), 160'000);
  EXPECT_EQ(count_events(file("rank.nsys-rep")).packed, 10'000);
  write_bytes(file("open.sqlite"), 480'000);
  write_bytes(file("open.sqlite-wal"), 10);
  EXPECT_EQ(count_events(file("open.sqlite")).packed, 10'000);
}

TEST_F(EventCountsTest, CountsNothingInWhatCannotBeRead) {
  write_bytes(file("text.sqlite"), 5000);
  for (const char* name : {"text.sqlite", "absent.sqlite"}) EXPECT_EQ(count_events(file(name)).packed, 0) << name;
}

}  // namespace

}  // namespace nsys_explain::ingest
