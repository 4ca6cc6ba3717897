// Several processes use one tuning table: kills and appends at the same time.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "autotune/table/table_lines.h"
#include "autotune/table/tuning_table.h"
#include "tests/autotune/sample_records.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

pid_t start(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int wait_for(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

std::set<int> samples_of(const TuningTable& table) {
  std::set<int> samples;
  for (const TuningRecord& record : table.records()) samples.insert(record.samples);
  return samples;
}

// The numbers that a child said it had appended: the next `count`, or all until it is gone.
std::vector<int> acknowledged(int pipe_end, size_t count) {
  std::vector<int> numbers;
  int number = 0;
  while (numbers.size() < count && ::read(pipe_end, &number, sizeof number) == sizeof number) {
    numbers.push_back(number);
  }
  return numbers;
}

TEST(TableProcesses, KilledAtAnyMomentLoseNothingThatWasAcknowledged) {
  const TemporaryFolder folder;
  const std::string path = folder / "tuning.jsonl";
  std::mt19937 random(20261121);
  std::set<int> promised;
  int first = 0;
  for (int round = 0; round < 50; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    // Sometimes many at a time, so that a kill can hit a write.
    const int batch = round % 2 == 0 ? 1 : 10;
    const pid_t child = start([&] {
      std::vector<TuningRecord> records = many_records(batch);
      for (int number = first;; number += batch) {
        for (int i = 0; i < batch; ++i) records[static_cast<size_t>(i)].samples = number + i;
        if (!append_records(path, records).ok()) return 1;
        if (::write(ends[1], &number, sizeof number) != sizeof number) return 1;
      }
    });
    ASSERT_GT(child, 0);
    ::close(ends[1]);
    // At some moment of its work, on a machine of any speed: after some appends and a little more.
    std::vector<int> numbers = acknowledged(ends[0], random() % 4);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child))) << "an append failed";
    const std::vector<int> later = acknowledged(ends[0], SIZE_MAX);
    numbers.insert(numbers.end(), later.begin(), later.end());
    for (const int number : numbers) {
      for (int i = 0; i < batch; ++i) promised.insert(number + i);
    }
    ::close(ends[0]);

    const auto table = TuningTable::load(path);
    ASSERT_TRUE(table.ok()) << table.status().message();
    const std::set<int> found = samples_of(*table);
    for (const int number : promised) EXPECT_EQ(found.count(number), 1u) << number;
    // Every line that is a record is as it was written: all its other fields are equal.
    TuningRecord expected = many_records(1)[0];
    for (const TuningRecord& record : table->records()) {
      expected.samples = record.samples;
      expected.search = record.search;
      ASSERT_EQ(record, expected);
    }
    first = found.empty() ? 0 : *found.rbegin() + 1;
  }
  EXPECT_GT(promised.size(), 50u) << "the children were killed too early to say anything";
  ASSERT_TRUE(append_records(path, many_records(1, 1'000'000'000)).ok());
  EXPECT_EQ(samples_of(*TuningTable::load(path)).count(1'000'000'000), 1u);
}

TEST(TableProcesses, FourThatAppendAtOnceLoseNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "tuning.jsonl";
  constexpr int kProcesses = 4;
  constexpr int kAppends = 25;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(start([&] {
      for (int i = 0; i < kAppends; ++i) {
        if (!append_records(path, many_records(1 + i % 3, 1000 * process + 3 * i)).ok()) return 1;
      }
      return 0;
    }));
    ASSERT_GT(children.back(), 0);
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  const auto table = TuningTable::load(path);
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(table->defects().malformed_lines, 0) << table->defects().first;
  std::set<int> expected;
  for (int process = 0; process < kProcesses; ++process) {
    for (int i = 0; i < kAppends; ++i) {
      for (int j = 0; j < 1 + i % 3; ++j) expected.insert(1000 * process + 3 * i + j);
    }
  }
  EXPECT_EQ(samples_of(*table), expected);
  EXPECT_EQ(table->records().size(), expected.size());
}

TuningTable reversed(const TuningTable& table) {
  TuningTable turned;
  for (auto at = table.records().rbegin(); at != table.records().rend(); ++at) turned.add(*at);
  return turned;
}

TEST(TableProcesses, ARewriteLosesNoAppendThatComesMeanwhile) {
  const TemporaryFolder folder;
  const std::string path = folder / "tuning.jsonl";
  constexpr int kAppends = 40;
  ASSERT_TRUE(append_records(path, many_records(1, kAppends)).ok());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t writer = start([&] {
    for (int i = 0; i < kAppends; ++i) {
      if (!append_records(path, many_records(1, i)).ok()) return 1;
      if (::write(ends[1], &i, sizeof i) != sizeof i) return 1;
    }
    return 0;
  });
  ASSERT_GT(writer, 0);
  ::close(ends[1]);
  // A rewrite for every finished append, while the next append is under way: as often as possible
  // without keeping the lock from the writer for ever.
  int rewrites = 0;
  while (!acknowledged(ends[0], 1).empty()) {
    const auto done = rewrite_table(path, "", reversed);
    ASSERT_TRUE(done.ok()) << done.status().message();
    EXPECT_TRUE(*done);
    ++rewrites;
  }
  ::close(ends[0]);
  EXPECT_EQ(wait_for(writer), 0);
  EXPECT_EQ(rewrites, kAppends);
  EXPECT_EQ(samples_of(*TuningTable::load(path)).size(), kAppends + 1u);
}

// An import adds what the file lacks at the moment when it has the lock.
TEST(TableProcesses, ManyThatAddTheSameRecordsAddEachOnce) {
  const TemporaryFolder folder;
  const std::string path = folder / "tuning.jsonl";
  TuningTable given;
  for (const TuningRecord& record : many_records(50)) given.add(record);
  constexpr int kProcesses = 8;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(start([&] { return append_missing_records(path, given).ok() ? 0 : 1; }));
    ASSERT_GT(children.back(), 0);
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(TuningTable::load(path)->records(), given.records());
}

// `lssar table merge a b -o a`, and `export` onto the table itself, read the file that they
// replace.
TEST(TableProcesses, AWriteOfTheFileThatItReadsLosesNoAppend) {
  const TemporaryFolder folder;
  const std::string path = folder / "tuning.jsonl";
  ASSERT_TRUE(append_records(path, many_records(1)).ok());
  std::thread writer;
  const Status status = write_table_text(path, [&]() -> Result<std::string> {
    const TuningTable table = *TuningTable::load(path);
    writer = std::thread([&] { EXPECT_TRUE(append_records(path, many_records(1, 1)).ok()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // enough without a lock
    return table.canonical_text();
  });
  writer.join();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(samples_of(*TuningTable::load(path)), (std::set<int>{0, 1}));
}

}  // namespace
}  // namespace lssar
