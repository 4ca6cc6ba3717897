// Candidates in worker processes, on a virtual device: reports are the same as in this process; a
// crash or an endless loop costs one worker and one candidate; nothing is left behind.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "autotune/measure/worker_protocol.h"
#include "autotune/measure/worker_runner.h"
#include "codegen/launch_json.h"
#include "tests/autotune/candidate_fixture.h"

namespace lssar::test {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<CandidateRunner> open_workers(const RunnerTask& task, int compilers = 1,
                                              const std::string& worker = "") {
  Result<std::unique_ptr<CandidateRunner>> runner = open_worker_runner(task, compilers, worker);
  EXPECT_TRUE(runner.ok()) << runner.status().to_string();
  return runner.ok() ? std::move(*runner) : nullptr;
}

CheckReport check(CandidateRunner& runner, const CandidateSpec& candidate) {
  const Result<CheckReport> report = runner.check(candidate, CheckDepth::kQuick);
  EXPECT_TRUE(report.ok()) << report.status().to_string();
  return report.ok() ? *report : CheckReport{};
}

// The child processes that `parent` has not waited for.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (const auto& task :
       fs::directory_iterator(fs::path("/proc") / std::to_string(parent) / "task", ignored)) {
    std::ifstream file(task.path() / "children");
    for (pid_t pid; file >> pid;) children.push_back(pid);
  }
  return children;
}

// Whether it runs. A process that is dead but not waited for does not.
bool is_running(pid_t pid) {
  std::ifstream file(fs::path("/proc") / std::to_string(pid) / "stat");
  std::string text;
  if (!std::getline(file, text)) return false;
  const size_t end = text.rfind(')');
  return end != std::string::npos && text.size() > end + 2 && text[end + 2] != 'Z' &&
         text[end + 2] != 'X';
}

// Waits for what must happen at some time. False only after a time that no machine needs.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

int count_open_files() {
  return static_cast<int>(std::distance(fs::directory_iterator("/proc/self/fd"), {}));
}

// A script that replaces the worker, removed at the end of the scope.
class Script {
 public:
  explicit Script(const std::string& text) {
    std::string name = fs::temp_directory_path() / "lssar_worker_XXXXXX";
    const int fd = mkstemp(name.data());
    EXPECT_GE(fd, 0);
    close(fd);
    path_ = name;
    std::ofstream(path_) << "#!/bin/sh\n" << text;
    fs::permissions(path_, fs::perms::owner_all);
  }
  ~Script() { fs::remove(path_); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Shell commands that send a message.
std::string say(const std::string& message) { return "echo '" + message + "'; "; }
std::string on(const std::string& places, const std::string& phase) {
  return say("{\"on\": [" + places + "], \"phase\": \"" + phase + "\"}");
}

// A worker that greets as a real one does, reads one request, and then does what the script says.
// `$n` is how many such workers there were.
class ScriptedWorker {
 public:
  explicit ScriptedWorker(const std::string& after_a_request)
      : count_(""), script_(greeting() + "read -r request\n" + after_a_request + "read -r end\n") {}
  const std::string& path() const { return script_.path(); }
  int num_started() const {
    std::ifstream file(count_.path());
    int count = 0;
    for (std::string line; std::getline(file, line);) count += line == "started";
    return count;
  }

 private:
  std::string greeting() const {
    DeviceFacts device;
    device.info.kind = "virtual";
    device.info.target = *target_from_name("sm_80");
    const nlohmann::json ready = {
        {"ready", {{"device", worker::encode(device)}, {"machine", to_json(Machine{})}}}};
    const std::string& count = count_.path();
    return "echo started >>" + count + "; n=$(grep -c started " + count + ")\n" +
           say(worker::hello().dump()) + "read -r task\n" + say(ready.dump()) + "\n";
  }

  const Script count_;
  const Script script_;
};

// --- The same answers as without workers ---

TEST(Workers, ReportWhatThisProcessReports) {
  const RunnerTask task = small_task();
  const auto workers = open_workers(task);
  const auto here = open_candidate_host(task);
  ASSERT_NE(workers, nullptr);
  ASSERT_TRUE(here.ok()) << here.status().to_string();
  EXPECT_EQ(workers->machine(), (*here)->machine());
  EXPECT_EQ(workers->evidence(), (*here)->evidence());
  EXPECT_EQ(workers->device_info().target, (*here)->device_info().target);
  EXPECT_EQ(workers->device_info().id, (*here)->device_info().id);

  for (const CandidateSpec& candidate :
       {good_candidate(task), off_by_one_at_the_causal_edge(task), does_not_compile(task)}) {
    SCOPED_TRACE(candidate.id);
    const Result<CompileReport> a = workers->compile(candidate), b = (*here)->compile(candidate);
    ASSERT_TRUE(a.ok()) << a.status().to_string();
    ASSERT_TRUE(b.ok()) << b.status().to_string();
    EXPECT_EQ(a->verdict, b->verdict);
    EXPECT_EQ(a->registers, b->registers);
    EXPECT_EQ(a->spill_bytes, b->spill_bytes);
    EXPECT_EQ(a->shared_bytes, b->shared_bytes);
    const CheckReport c = check(*workers, candidate), d = check(**here, candidate);
    EXPECT_EQ(c.verdict, d.verdict);
    EXPECT_EQ(c.error, d.error);
    EXPECT_EQ(c.baseline_error, d.baseline_error);
  }
  TimeRequest request;
  request.rounds = 2;
  const auto times = workers->time({good_candidate(task), traps(task)}, request);
  const auto times_here = (*here)->time({good_candidate(task), traps(task)}, request);
  ASSERT_TRUE(times.ok()) << times.status().to_string();
  ASSERT_TRUE(times_here.ok());
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*times)[i].verdict, (*times_here)[i].verdict);
    EXPECT_EQ((*times)[i].reason, (*times_here)[i].reason);
    EXPECT_EQ((*times)[i].samples_ms, (*times_here)[i].samples_ms);
  }
  EXPECT_EQ((*times)[0].samples_ms.size(), 2u);
}

TEST(Workers, CompileOnManyThreads) {
  const RunnerTask task = small_task();
  const auto workers = open_workers(task, 2);
  ASSERT_NE(workers, nullptr);
  std::vector<std::thread> threads;
  std::atomic<int> compiled = 0;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      const Result<CompileReport> report = workers->compile(good_candidate(task));
      compiled += report.ok() && report->verdict == Verdict::kOk;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 6);
}

TEST(Workers, ShareWhatTheyCompileWithoutACacheOnDiskToo) {
  RunnerTask task = small_task();
  task.cache_directory = "none";
  const auto workers = open_workers(task);
  ASSERT_NE(workers, nullptr);
  const CandidateSpec candidate = good_candidate(task);
  ASSERT_TRUE(workers->compile(candidate).ok());
  const Result<CompileReport> again = workers->compile(candidate);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->ms, 0);
  EXPECT_EQ(check(*workers, candidate).verdict, Verdict::kOk);
}

// --- What goes wrong costs one candidate ---

TEST(Workers, AnEndlessLoopIsATimeoutAndTheNextIsServed) {
  RunnerTask task = small_task();
  const auto workers = open_workers(task);
  ASSERT_NE(workers, nullptr);
  EXPECT_EQ(check(*workers, never_ends(task)).verdict, Verdict::kTimeout);
  EXPECT_EQ(check(*workers, good_candidate(task)).verdict, Verdict::kOk);
}

// The first worker does `what_it_does` with the first request; the second one answers. Returns the
// first report.
CheckReport first_of_two(const std::string& what_it_does, double run_timeout_s) {
  const ScriptedWorker worker(
      "if [ $n = 1 ]; then " + on("0", "run") + what_it_does + "; fi\n" + on("0", "run") +
      say(R"({"report": {"verdict": "ok", "reason": "", "error": 1, "baseline_error": 1}})"));
  RunnerTask task = small_task();
  task.run_timeout_s = run_timeout_s;
  const auto workers = open_workers(task, 1, worker.path());
  if (workers == nullptr) return {};
  const CheckReport report = check(*workers, good_candidate(task));
  EXPECT_EQ(check(*workers, good_candidate(task)).verdict, Verdict::kOk);
  EXPECT_EQ(worker.num_started(), 2);
  return report;
}

TEST(Workers, ADeathBySignalIsACrashAndTheNextIsServed) {
  const CheckReport report = first_of_two("echo 'bad pointer' >&2; kill -SEGV $$", 600);
  EXPECT_EQ(report.verdict, Verdict::kCrashed) << report.reason;
  expect_reason(report.reason, "running: its process was killed by SIGSEGV");
  expect_reason(report.reason, "bad pointer");
}

TEST(Workers, AnExitIsACrashAndTheNextIsServed) {
  const CheckReport report = first_of_two("exit 9", 600);
  EXPECT_EQ(report.verdict, Verdict::kCrashed) << report.reason;
  expect_reason(report.reason, "exited with code 9");
}

TEST(Workers, AHangIsATimeoutAndTheNextIsServed) {
  // The worker started it, so it ends with the worker.
  const CheckReport report = first_of_two("sleep 1000", 1);
  EXPECT_EQ(report.verdict, Verdict::kTimeout) << report.reason;
  expect_reason(report.reason, "running: no end after 1 s");
}

// Two are queued together when the worker dies. Then each runs alone, which shows whose fault it
// is.
TEST(Workers, ADeathAmongSeveralIsTracedOneByOne) {
  const ScriptedWorker worker(
      "case $n in\n"
      "1) " +
      on("0, 1", "run") + say(R"({"sample": [1, 5]})") +
      "kill -BUS $$ ;;\n"
      "2) " +
      on("0", "run") +
      "kill -BUS $$ ;;\n"
      "3) " +
      on("0", "run") + say(R"({"sample": [0, 6]})") + say(R"({"done": true})") +
      ";;\n"
      "esac\n");
  const RunnerTask task = small_task();
  const auto workers = open_workers(task, 1, worker.path());
  ASSERT_NE(workers, nullptr);
  TimeRequest request;
  request.rounds = 2;
  const auto reports = workers->time({good_candidate(task), good_candidate(task)}, request);
  ASSERT_TRUE(reports.ok()) << reports.status().to_string();
  EXPECT_EQ((*reports)[0].verdict, Verdict::kCrashed);
  expect_reason((*reports)[0].reason, "killed by SIGBUS");
  EXPECT_EQ((*reports)[1].verdict, Verdict::kOk);
  EXPECT_EQ((*reports)[1].samples_ms, (std::vector<double>{5, 6}));
  EXPECT_EQ(worker.num_started(), 3);
}

TEST(Workers, OnesThatDieBeforeTheyTakeARequestAreAnError) {
  const ScriptedWorker worker("kill -KILL $$\n");
  const RunnerTask task = small_task();
  const auto workers = open_workers(task, 1, worker.path());
  ASSERT_NE(workers, nullptr);
  const auto report = workers->check(good_candidate(task), CheckDepth::kQuick);
  EXPECT_EQ(report.status().code(), StatusCode::kDeviceError);
  expect_reason(report.status().message(), "killed by SIGKILL");
  EXPECT_EQ(worker.num_started(), 2);
}

TEST(Workers, OneThatDiedWhileNothingRanIsReplaced) {
  const RunnerTask task = small_task();
  const auto workers = open_workers(task);
  ASSERT_NE(workers, nullptr);
  const std::vector<pid_t> before = children_of(getpid());
  ASSERT_EQ(before.size(), 1u);
  kill(before[0], SIGKILL);
  ASSERT_TRUE(comes_true([&] { return !is_running(before[0]); }));
  EXPECT_EQ(check(*workers, good_candidate(task)).verdict, Verdict::kOk);
}

TEST(Workers, ATimingGoesOnWithoutTheOneThatHangs) {
  RunnerTask task = small_task();
  task.run_timeout_s = 2;
  task.compile_timeout_s = 600;
  const auto workers = open_workers(task);
  ASSERT_NE(workers, nullptr);
  TimeRequest request;
  request.rounds = 3;
  const auto reports =
      workers->time({good_candidate(task), never_ends(task), good_candidate(task)}, request);
  ASSERT_TRUE(reports.ok()) << reports.status().to_string();
  EXPECT_EQ((*reports)[1].verdict, Verdict::kTimeout) << (*reports)[1].reason;
  EXPECT_TRUE((*reports)[1].samples_ms.empty());
  for (const size_t i : {0, 2}) {
    EXPECT_EQ((*reports)[i].verdict, Verdict::kOk) << (*reports)[i].reason;
    EXPECT_EQ((*reports)[i].samples_ms.size(), 3u);
  }
}

// --- Processes ---

TEST(Workers, LeaveNoProcessAndNoFileBehind) {
  const RunnerTask task = small_task();
  { ASSERT_NE(open_workers(task), nullptr); }  // what is opened once stays open
  const int files = count_open_files();
  for (int i = 0; i < 3; ++i) {
    const auto workers = open_workers(task);
    ASSERT_NE(workers, nullptr);
    ASSERT_TRUE(workers->compile(good_candidate(task)).ok());
    EXPECT_EQ(children_of(getpid()).size(), 2u);
  }
  EXPECT_TRUE(children_of(getpid()).empty());
  EXPECT_EQ(count_open_files(), files);
}

TEST(Workers, GetNoFileOfThisProcess) {
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);  // not closed on exec
  const auto workers = open_workers(small_task());
  ASSERT_NE(workers, nullptr);
  for (const pid_t child : children_of(getpid())) {
    for (const auto& file :
         fs::directory_iterator(fs::path("/proc") / std::to_string(child) / "fd")) {
      EXPECT_NE(fs::read_symlink(file).string(),
                fs::read_symlink("/proc/self/fd/" + std::to_string(fds[0])).string());
    }
  }
  close(fds[0]);
  close(fds[1]);
}

// The tuning process is killed while a candidate is in an endless loop.
TEST(Workers, DieWithTheirParent) {
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    RunnerTask task = small_task();
    task.run_timeout_s = task.compile_timeout_s = 600;
    const auto workers = open_worker_runner(task, 1);
    if (!workers.ok()) _exit(1);
    while (true) (void)(*workers)->check(never_ends(task), CheckDepth::kQuick);
  }
  std::vector<pid_t> children;
  ASSERT_TRUE(comes_true([&] { return !(children = children_of(parent)).empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  kill(parent, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status));
  for (const pid_t child : children) {
    EXPECT_TRUE(comes_true([&] { return !is_running(child); }));
  }
}

// A host may ignore SIGCHLD, so that no exit status is kept. SIGPIPE's default action would end it.
TEST(Workers, WorkUnderAHostWithItsOwnSignals) {
  struct sigaction ignore = {}, children = {};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(sigaction(SIGCHLD, &ignore, &children), 0);
  {
    const RunnerTask task = small_task();
    const auto workers = open_workers(task);
    ASSERT_NE(workers, nullptr);
    const std::vector<pid_t> before = children_of(getpid());
    ASSERT_EQ(before.size(), 1u);
    kill(before[0], SIGKILL);
    ASSERT_TRUE(comes_true([&] { return !is_running(before[0]); }));
    EXPECT_EQ(check(*workers, good_candidate(task)).verdict, Verdict::kOk);
  }
  sigaction(SIGCHLD, &children, nullptr);
}

// --- Programs that are no worker ---

TEST(WorkerProgram, ThatIsNotThereIsMissing) {
  const auto runner = open_worker_runner(small_task(), 1, "/nowhere/worker");
  EXPECT_EQ(runner.status().code(), StatusCode::kMissing);
  expect_reason(runner.status().message(), "/nowhere/worker");
  expect_reason(runner.status().message(), "LSSAR_TUNE_WORKER");
}

TEST(WorkerProgram, IsTheOneTheEnvironmentNames) {
  ASSERT_EQ(setenv("LSSAR_TUNE_WORKER", "/nowhere/else", 1), 0);
  const auto runner = open_worker_runner(small_task(), 1);
  unsetenv("LSSAR_TUNE_WORKER");
  EXPECT_EQ(runner.status().code(), StatusCode::kMissing);
  expect_reason(runner.status().message(), "tried /nowhere/else;");
}

TEST(WorkerProgram, OfAnotherVersionIsRefused) {
  const Script script("echo '{\"lssar_tune_worker\": 990000, \"protocol\": 1}'; cat >/dev/null\n");
  const auto runner = open_worker_runner(small_task(), 1, script.path());
  EXPECT_EQ(runner.status().code(), StatusCode::kUnsupported);
  expect_reason(runner.status().message(), "another version (990000, protocol 1)");
}

TEST(WorkerProgram, ThatSpeaksAnotherLanguageIsRefused) {
  const Script script("echo '[1, 2]'; cat >/dev/null\n");
  const auto runner = open_worker_runner(small_task(), 1, script.path());
  EXPECT_EQ(runner.status().code(), StatusCode::kUnsupported);
  expect_reason(runner.status().message(), "no tuning worker");
}

TEST(WorkerProgram, ThatDiesAtOnceIsAnErrorWithItsLastWords) {
  const Script script("echo 'no such library' >&2; exit 7\n");
  const auto runner = open_worker_runner(small_task(), 1, script.path());
  EXPECT_EQ(runner.status().code(), StatusCode::kDeviceError);
  expect_reason(runner.status().message(), "exited with code 7; its last words: no such library");
}

TEST(WorkerProgram, AnErrorOfTheTaskComesBack) {
  RunnerTask task = small_task();
  task.target = "sm_1";
  const auto runner = open_worker_runner(task, 1);
  EXPECT_EQ(runner.status().code(), StatusCode::kInvalidArgument);
  expect_reason(runner.status().message(), "sm_1");
}

// --- Messages ---

TEST(WorkerProtocol, ACandidateArrivesAsItWasSent) {
  const RunnerTask task = small_task(Pass::kBackward, "sm_90a");
  const CandidateSpec candidate = edited(task, good_candidate(task, Variant::kHopper), {});
  const Result<nlohmann::json> line = worker::from_line(worker::to_line(worker::encode(candidate)));
  ASSERT_TRUE(line.ok());
  const Result<CandidateSpec> arrived = worker::decode_candidate(*line);
  ASSERT_TRUE(arrived.ok()) << arrived.status().to_string();
  EXPECT_EQ(arrived->id, candidate.id);
  EXPECT_EQ(arrived->schedule, candidate.schedule);
  ASSERT_TRUE(arrived->source.has_value());
  EXPECT_EQ(arrived->source->source, candidate.source->source);
  EXPECT_EQ(arrived->source->steps, candidate.source->steps);
  // Launches have one JSON form, in captures too.
  EXPECT_EQ(line->at("source").at("steps").at(0), to_json(candidate.source->steps[0]));
}

TEST(WorkerProtocol, ATaskHasItsSequences) {
  RunnerTask task = small_task();
  task.problem.varlen = true;
  task.lengths = {{5, 0, 256}, {7, 3, 256}};
  const Result<RunnerTask> arrived = worker::decode_task(worker::encode(task));
  ASSERT_TRUE(arrived.ok()) << arrived.status().to_string();
  EXPECT_EQ(arrived->problem, task.problem);
  EXPECT_EQ(arrived->lengths, task.lengths);
}

TEST(WorkerProtocol, ATextThatIsNotUtf8StillArrives) {
  CompileReport report;
  report.reason = "\xff\n\"";
  const Result<nlohmann::json> line = worker::from_line(worker::to_line(worker::encode(report)));
  ASSERT_TRUE(line.ok()) << line.status().to_string();
  const Result<CompileReport> arrived = worker::decode_compile_report(*line);
  ASSERT_TRUE(arrived.ok());
  EXPECT_EQ(arrived->reason, "\xef\xbf\xbd\n\"");
}

TEST(WorkerProtocol, AMalformedMessageIsAnError) {
  EXPECT_EQ(worker::from_line("{\"on\":").status().code(), StatusCode::kInternal);
  EXPECT_EQ(worker::decode_candidate({{"id", 5}}).status().code(), StatusCode::kInternal);
  EXPECT_EQ(worker::decode_check_report({}).status().code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace lssar::test
