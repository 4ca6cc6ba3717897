// The main program of virtual_test. With --coverage it tests the tests: for every row of the opcode
// table there must be a test whose result depends on the row's instruction. (--coverage TEXT: for
// the rows whose name contains TEXT.)
//
// That a text loads proves nothing. So each row in turn is made to do nothing, and the tests that
// use it run until one fails: that test executed the instruction and compared its result. Each such
// run is a process of its own. Only suites that compare results count (kSuites), because a test
// that expects a report says nothing about values.
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/virtual/conformance/conformance_exceptions.h"
#include "tests/virtual/conformance/conformance_rows.h"
#include "virtual/program/opcode_table.h"

namespace lssar::test {
namespace {

constexpr rlim_t kSecondsPerRun = 1;  // CPU time; a broken wait may never end
constexpr int kHeapFill = 0xa5;

// The suite's name without its instantiation.
std::string suite_of(const std::string& test) {
  const std::string suite = test.substr(0, test.find('.'));
  return suite.substr(suite.find('/') + 1);
}

std::vector<std::string> counted_tests(std::set<std::string>& suites_seen) {
  std::vector<std::string> names;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int s = 0; s < unit.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *unit.GetTestSuite(s);
    const std::string plain = suite_of(std::string(suite.name()) + ".");
    if (std::find(std::begin(kSuites), std::end(kSuites), plain) == std::end(kSuites)) continue;
    suites_seen.insert(plain);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      names.push_back(fmt::format("{}.{}", suite.name(), suite.GetTestInfo(t)->name()));
    }
  }
  return names;
}

// Memory that a child writes and its parent reads.
template <class T>
class Shared {
 public:
  explicit Shared(size_t count) : count_(count) {
    void* const at =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    data_ = static_cast<T*>(at);
  }
  ~Shared() { munmap(data_, count_ * sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t count_;
  T* data_;
};

// Runs tests in a child without output. Returns its exit status; -1: it did not end by itself.
int run_in_child(const std::string& filter, rlim_t seconds, const std::function<void()>& prepare) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) std::abort();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(2);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(2);
    // A value that an earlier launch left in a register must not pass for a result.
    mallopt(M_PERTURB, kHeapFill);
    const rlimit limit = {seconds, seconds};
    if (setrlimit(RLIMIT_CPU, &limit) != 0) _exit(2);
    prepare();
    GTEST_FLAG_SET(filter, filter);
    _exit(RUN_ALL_TESTS());
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// What each test uses, found by running all of them.
class Usage {
 public:
  Usage(const std::vector<std::string>& tests, size_t rows)
      : tests_(tests), rows_(rows), used_(tests.size() * rows), times_(tests.size()) {}

  bool record() {
    std::string filter;
    for (const std::string& test : tests_) filter += test + ":";
    return run_in_child(filter, RLIM_INFINITY, [this] {
             testing::UnitTest::GetInstance()->listeners().Append(new Recorder(*this));
           }) == 0;
  }

  // The tests that use a row: one to begin with, if it does, and then the quickest first.
  std::vector<size_t> of_row(size_t row, size_t first) {
    std::vector<size_t> found;
    for (size_t t = 0; t < tests_.size(); ++t) {
      if (used_[t * rows_ + row]) found.push_back(t);
    }
    std::stable_sort(found.begin(), found.end(),
                     [this](size_t a, size_t b) { return times_[a] < times_[b]; });
    const auto at = std::find(found.begin(), found.end(), first);
    if (at != found.end()) std::rotate(found.begin(), at, at + 1);
    return found;
  }

 private:
  class Recorder : public testing::EmptyTestEventListener {
   public:
    explicit Recorder(Usage& usage) : usage_(usage) {
      on_row_used(
          [this](size_t row, std::string_view) { usage_.used_[test_ * usage_.rows_ + row] = 1; });
    }
    void OnTestStart(const testing::TestInfo& info) override {
      const std::string name = fmt::format("{}.{}", info.test_suite_name(), info.name());
      test_ = static_cast<size_t>(std::find(usage_.tests_.begin(), usage_.tests_.end(), name) -
                                  usage_.tests_.begin());
    }
    void OnTestEnd(const testing::TestInfo& info) override {
      usage_.times_[test_] = static_cast<uint32_t>(info.result()->elapsed_time());
    }

   private:
    Usage& usage_;
    size_t test_ = 0;
  };

  const std::vector<std::string>& tests_;
  size_t rows_;
  Shared<uint8_t> used_;
  Shared<uint32_t> times_;  // ms
};

// One level after the other, because each is separate code.
std::vector<std::vector<SimdLevel>> levels_to_break(size_t row) {
  if (is_compiled_once(row)) return {available_simd_levels()};
  std::vector<std::vector<SimdLevel>> each;
  for (const SimdLevel level : available_simd_levels()) each.push_back({level});
  return each;
}

// Whether one of the tests fails without the row. That test moves to the front.
bool is_proven(size_t row, const std::vector<SimdLevel>& levels,
               const std::vector<std::string>& tests, std::vector<size_t>& candidates) {
  const auto found = std::find_if(candidates.begin(), candidates.end(), [&](size_t test) {
    return run_in_child(tests[test], kSecondsPerRun, [&] { break_row(row, levels); }) == 1;
  });
  if (found == candidates.end()) return false;
  std::rotate(candidates.begin(), found, found + 1);
  return true;
}

const Exception* exception_of(const std::string& name) {
  const auto found = std::find_if(std::begin(kExceptions), std::end(kExceptions),
                                  [&](const Exception& e) { return name.starts_with(e.begin); });
  return found == std::end(kExceptions) ? nullptr : found;
}

// What is wrong with the tests of a row, or "". The test that proved it moves to the front.
std::string complaint(size_t row, const std::vector<std::string>& tests,
                      std::vector<size_t>& candidates) {
  const std::string name = row_name(row);
  const bool excepted = exception_of(name) != nullptr;
  if (excepted && candidates.empty()) return fmt::format("no test uses {}", name);
  for (const auto& levels : levels_to_break(row)) {
    const bool proven = is_proven(row, levels, tests, candidates);
    if (proven && excepted) {
      return fmt::format("a test depends on {}: take the exception out", name);
    }
    if (!proven && !excepted) {
      return fmt::format("no test depends on {} at level {}; {} use it", name,
                         simd_level_name(levels.front()), candidates.size());
    }
  }
  return "";
}

// Checks all rows, or those whose name contains a text.
int check_coverage(std::string_view only) {
  std::vector<std::string> complaints;
  std::set<std::string> suites;
  const std::vector<std::string> tests = counted_tests(suites);
  for (const char* suite : kSuites) {
    if (suites.count(suite) == 0) complaints.push_back(fmt::format("there is no suite {}", suite));
  }
  const size_t rows = table_rows(SimdLevel::kPlain).size();
  Usage usage(tests, rows);
  if (!usage.record()) complaints.emplace_back("not all tests pass");

  std::set<const Exception*> used;
  size_t excepted = 0, proven = 0;
  size_t last = tests.size();  // the test that proved the row before: likely to prove this one
  for (size_t row = 0; row < rows; ++row) {
    const std::string name = row_name(row);
    if (name.find(only) == std::string::npos) continue;
    const Exception* const exception = exception_of(name);
    used.insert(exception);
    excepted += exception != nullptr ? 1 : 0;
    std::vector<size_t> candidates = usage.of_row(row, last);
    const std::string wrong = complaint(row, tests, candidates);
    if (!candidates.empty()) last = candidates.front();
    if (!wrong.empty()) complaints.push_back(wrong);
    proven += wrong.empty() && exception == nullptr ? 1 : 0;
  }
  for (const Exception& e : kExceptions) {
    if (only.empty() && used.count(&e) == 0) {
      complaints.push_back(fmt::format("no row {}: take the exception out", e.begin));
    }
  }
  for (const std::string& text : complaints) fmt::print("{}\n", text);
  fmt::print("{} of {} rows have a test that fails without them, {} are exceptions; {} tests\n",
             proven, rows, excepted, tests.size());
  return complaints.empty() ? 0 : 1;
}

}  // namespace
}  // namespace lssar::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc >= 2 && std::string_view(argv[1]) == "--coverage") {
    return lssar::test::check_coverage(argc == 3 ? argv[2] : "");
  }
  return RUN_ALL_TESTS();
}
