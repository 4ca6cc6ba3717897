// A warm problem: computes the key and reads an entry of the size of a kernel's PTX from disk and
// from memory. Then a whole prepare, once with a warm directory and once without a cache. Targets:
// warm, at most 5 ms from lookup to image in memory; cold, a forward in at most 1.5 CPU-seconds.
#include <benchmark/benchmark.h>

#include <filesystem>

#include "base/file.h"
#include "cache/store.h"
#include "codegen/emit.h"
#include "codegen/schedule.h"
#include "runtime/engine.h"
#include "tools/bench/bench_cases.h"

namespace lssar::bench {
namespace {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_(std::filesystem::temp_directory_path() / unique_file_name()) {}
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

// Text that compresses about as well as PTX: five to one.
CacheEntry entry_of(size_t bytes) {
  CacheEntry entry{R"({"problem": "benchmark"})", ""};
  for (uint32_t i = 1; entry.payload.size() < bytes; ++i) {
    const uint32_t mixed = i * 2654435761u;
    entry.payload += "\tfma.rn.f32 \t%f" + std::to_string(mixed >> 20) + ", %f" +
                     std::to_string(i) + ", %f" + std::to_string(i + 1) + ", %f" +
                     std::to_string(i / 2) + ";\n";
  }
  return entry;
}

void make_key(benchmark::State& state) {
  const std::string source(50'000, 'x');
  const std::vector<std::string> options = {"-arch=sm_90", "--std=c++20"};
  for (auto _ : state) {
    CacheKeyBuilder builder;
    builder.add("source", source).add("options", options);
    benchmark::DoNotOptimize(builder.hex());
  }
}

void hit_memory(benchmark::State& state) {
  const auto store = Store::open({.directory = "none"});
  const std::string hex = CacheKeyBuilder().hex();
  store->insert(hex, entry_of(static_cast<size_t>(state.range(0))));
  for (auto _ : state) benchmark::DoNotOptimize(store->find(hex));
}

// A new store each time, as in a new process: opening the directory is part of the time.
void hit_disk(benchmark::State& state) {
  const TemporaryDirectory directory;
  const std::string hex = CacheKeyBuilder().hex();
  Store::open({.directory = directory.path()})
      ->insert(hex, entry_of(static_cast<size_t>(state.range(0))));
  for (auto _ : state) {
    const auto store = Store::open({.directory = directory.path()});
    if (store->find(hex) == nullptr) {
      state.SkipWithError(("the entry was not found: " + store->problem()).c_str());
      return;
    }
  }
}

void write_entry(benchmark::State& state) {
  const TemporaryDirectory directory;
  const auto store = Store::open({.directory = directory.path()});
  const CacheEntry entry = entry_of(static_cast<size_t>(state.range(0)));
  const std::string hex = CacheKeyBuilder().hex();
  for (auto _ : state) store->insert(hex, entry);
  if (store->stats().write_failures != 0) state.SkipWithError("a write failed");
}

// Prepares a kernel that an earlier process compiled. The reported time is that of the lookup (key,
// file, image in memory). The CPU time covers everything from opening the device on.
void warm_prepare(benchmark::State& state, Case which) {
  const TemporaryDirectory directory;
  EngineOptions options;
  options.device = DeviceChoice::kRecord;
  options.cache.directory = directory.path();
  const Problem problem = standard_problem(which.pass, which.head_dim);
  const auto prepare = [&]() -> Result<std::shared_ptr<const PreparedKernel>> {
    LSSAR_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::open(options));
    return engine->prepare(problem);
  };
  if (stopped(state, prepare().status())) return;  // compiles

  for (auto _ : state) {
    const auto kernel = prepare();
    if (stopped(state, kernel.status())) return;
    if ((*kernel)->cache_source != CacheSource::kDisk) {
      state.SkipWithError("a kernel compiled before was not found on disk");
      return;
    }
    state.SetIterationTime((*kernel)->timings.lookup_ms * 1e-3);
  }
}

// The same without a cache, on the best available device: emission, compile and load.
void cold_prepare(benchmark::State& state, Case which) {
  EngineOptions options;
  options.cache.directory = "none";
  const Problem problem = standard_problem(which.pass, which.head_dim);
  for (auto _ : state) {
    const auto engine = Engine::open(options);
    if (stopped(state, engine.status())) return;
    if (stopped(state, (*engine)->prepare(problem).status())) return;
    state.SetLabel((*engine)->device().info().name);
  }
}

}  // namespace
}  // namespace lssar::bench

int main(int argc, char** argv) {
  using namespace lssar::bench;
  benchmark::RegisterBenchmark("cache/key", make_key)
      ->Unit(benchmark::kMicrosecond)
      ->MinTime(kMinSeconds);
  for (auto* entry : {benchmark::RegisterBenchmark("cache/memory_hit", hit_memory),
                      benchmark::RegisterBenchmark("cache/disk_hit", hit_disk),
                      benchmark::RegisterBenchmark("cache/write", write_entry)}) {
    entry->Unit(benchmark::kMicrosecond)
        ->MinTime(kMinSeconds)
        ->ArgName("bytes")
        ->Arg(50'000)
        ->Arg(500'000);
  }
  for (const Case& which : all_cases()) {
    const std::string name = case_name(which.pass, which.head_dim);
    benchmark::RegisterBenchmark(("cache/warm_prepare/" + name).c_str(), warm_prepare, which)
        ->Unit(benchmark::kMillisecond)
        ->UseManualTime()
        ->Iterations(20);
    benchmark::RegisterBenchmark(("cache/cold_prepare/" + name).c_str(), cold_prepare, which)
        ->Unit(benchmark::kMillisecond)
        ->MeasureProcessCPUTime()
        ->Iterations(2);
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
