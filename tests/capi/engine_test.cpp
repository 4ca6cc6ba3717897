// The engine on a fake compiler and a fake device: what is compiled, cached, loaded and launched.
#include "runtime/engine.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "runtime/plan.h"
#include "tests/cache/temporary_folder.h"
#include "tests/capi/fakes.h"

namespace lssar {
namespace {

class EngineTest : public testing::Test {
 protected:
  std::shared_ptr<Engine> make_engine(const std::string& cache = "none") {
    EngineOptions options;
    options.cache.directory = cache;
    return Engine::create(options, device_, compiler_);
  }

  static Problem small_problem(Pass pass = Pass::kForward) {
    Problem problem;
    problem.causal = true;
    problem.pass = pass;
    problem.head_dim = problem.head_dim_v = 32;
    problem.heads = problem.kv_heads = 2;
    return problem;
  }

  // Tensors at made-up addresses, 1 MiB apart, contiguous.
  static Tensors tensors_of(const Problem& p, const Sizes& s) {
    DevicePtr next = 1 << 20;
    const auto place = [&] { return next += 1 << 20; };
    Tensors t;
    t.q = contiguous_tensor(place(), s.heads, s.seq_q, p.head_dim);
    t.k = contiguous_tensor(place(), s.kv_heads, s.seq_k, p.head_dim);
    t.v = contiguous_tensor(place(), s.kv_heads, s.seq_k, p.head_dim_v);
    t.o = contiguous_tensor(place(), s.heads, s.seq_q, p.head_dim_v);
    t.grad_o = contiguous_tensor(place(), s.heads, s.seq_q, p.head_dim_v);
    t.grad_q = contiguous_tensor(place(), s.heads, s.seq_q, p.head_dim);
    t.grad_k = contiguous_tensor(place(), s.kv_heads, s.seq_k, p.head_dim);
    t.grad_v = contiguous_tensor(place(), s.kv_heads, s.seq_k, p.head_dim_v);
    t.saved_o = place();
    t.saved_stats = place();
    t.saved_x = place();
    return t;
  }

  std::shared_ptr<FakeCompiler> compiler_ = std::make_shared<FakeCompiler>();
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  const Workspace workspace_{64 << 20, 1 << 20};
};

TEST_F(EngineTest, PreparesOnceForTheSameProblem) {
  const auto engine = make_engine();
  const auto first = engine->prepare(small_problem());
  const auto second = engine->prepare(small_problem());
  ASSERT_TRUE(first.ok()) << first.status().to_string();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(compiler_->num_compiles_, 1);
  EXPECT_EQ(device_->loaded_.size(), 1u);
  EXPECT_EQ((*first)->cache_source, CacheSource::kComputed);
  EXPECT_EQ((*second)->cache_source, CacheSource::kMemory);
  EXPECT_EQ((*first)->loaded, (*second)->loaded);
}

TEST_F(EngineTest, LoadsAgainAfterTheLastKernelIsGone) {
  const auto engine = make_engine();
  ASSERT_TRUE(engine->prepare(small_problem()).ok());
  ASSERT_TRUE(engine->prepare(small_problem()).ok());
  EXPECT_EQ(device_->loaded_.size(), 2u);
}

TEST_F(EngineTest, BatchAndHeadsAreNotPartOfTheKey) {
  const auto engine = make_engine();
  Problem other = small_problem();
  other.batch = 3;
  other.heads = 8;
  const auto a = engine->prepare(small_problem()), b = engine->prepare(other);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ((*a)->key, (*b)->key);
}

TEST_F(EngineTest, CompilerVersionIsPartOfTheKey) {
  const auto a = make_engine()->prepare(small_problem());
  compiler_->version_ = "1.1";
  const auto b = make_engine()->prepare(small_problem());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)->key, (*b)->key);
}

TEST_F(EngineTest, ImageKindIsPartOfTheKeyAndWhatTheCompilerCanMake) {
  const auto a = make_engine()->prepare(small_problem());
  compiler_->makes_cubin_ = true;
  const auto b = make_engine()->prepare(small_problem());
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)->key, (*b)->key);
  EXPECT_EQ(device_->loaded_[0].kind, ImageKind::kPtx);
  EXPECT_EQ(device_->loaded_[1].kind, ImageKind::kCubin);
}

TEST_F(EngineTest, AnotherEngineFindsTheImageOnDisk) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_engine(folder.path())->prepare(small_problem()).ok());
  const auto found = make_engine(folder.path())->prepare(small_problem());
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ(compiler_->num_compiles_, 1);
  EXPECT_EQ((*found)->cache_source, CacheSource::kDisk);
  EXPECT_EQ(device_->loaded_[0].bytes, device_->loaded_[1].bytes);
  EXPECT_EQ(device_->loaded_[1].target, "sm_80");
  EXPECT_EQ((*found)->timings.compile_ms, 0);
}

TEST_F(EngineTest, ResourcesAreTheAssemblersWhereItReportedAndElseTheDevices) {
  const TemporaryFolder folder;
  ASSERT_TRUE(make_engine(folder.path())->prepare(small_problem()).ok());
  const auto found = make_engine(folder.path())->prepare(small_problem());
  ASSERT_TRUE(found.ok());
  for (const KernelResources& r : (*found)->resources) {
    EXPECT_EQ(r.registers, r.entry == "lssar_forward" ? 168 : 1) << r.entry;
    EXPECT_EQ(r.spill_load_bytes, r.entry == "lssar_forward" ? 12 : -1) << r.entry;
  }
  EXPECT_EQ((*found)->resources.size(), (*found)->source.steps.size());
}

TEST_F(EngineTest, AssemblerWarningsAreFoundAgainWithTheImage) {
  const TemporaryFolder folder;
  compiler_->makes_cubin_ = true;
  compiler_->log_ = "ptxas info    : (C7510) Potential Performance Loss\nptxas info : 0 bytes\n";
  const auto made = make_engine(folder.path())->prepare(small_problem());
  const auto found = make_engine(folder.path())->prepare(small_problem());
  ASSERT_TRUE(made.ok() && found.ok());
  EXPECT_EQ((*found)->cache_source, CacheSource::kDisk);
  const std::vector<std::string> expected = {"(C7510) Potential Performance Loss"};
  EXPECT_EQ((*made)->loaded->image.assembler_warnings, expected);
  EXPECT_EQ((*found)->loaded->image.assembler_warnings, expected);
}

TEST_F(EngineTest, EntryWithMetadataOfAnotherVersionIsMadeAnew) {
  const auto engine = make_engine();
  const auto first = engine->prepare(small_problem());
  ASSERT_TRUE(first.ok());
  engine->store().insert((*first)->key, {"{\"image\": \"elf\"}", "bytes"});
  const auto second = engine->prepare(small_problem());
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  EXPECT_EQ(compiler_->num_compiles_, 2);
  EXPECT_EQ((*second)->cache_source, CacheSource::kComputed);
}

TEST_F(EngineTest, CompileErrorIsNotStored) {
  const auto engine = make_engine();
  compiler_->fails_ = true;
  const auto failed = engine->prepare(small_problem());
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.status().code(), StatusCode::kCompileError);
  compiler_->fails_ = false;
  EXPECT_TRUE(engine->prepare(small_problem()).ok());
}

TEST_F(EngineTest, EightThreadsCompileAndLoadOnce) {
  const auto engine = make_engine();
  compiler_->delay_ms_ = 50;
  std::vector<std::shared_ptr<const PreparedKernel>> kernels(8);
  {
    std::vector<std::jthread> threads;
    for (auto& kernel : kernels) {
      threads.emplace_back([&] {
        auto prepared = engine->prepare(small_problem());
        if (prepared.ok()) kernel = *prepared;
      });
    }
  }
  for (const auto& kernel : kernels) ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(compiler_->num_compiles_, 1);
  EXPECT_EQ(device_->loaded_.size(), 1u);
}

TEST_F(EngineTest, LaunchesOneBlockPerRowsOfAHead) {
  const auto engine = make_engine();
  const auto kernel = engine->prepare(small_problem());
  ASSERT_TRUE(kernel.ok());
  const Sizes sizes{3, 2, 1, 130, 70};
  const Tensors tensors = tensors_of(small_problem(), sizes);
  const Status status = engine->execute(**kernel, sizes, tensors, workspace_, nullptr);
  ASSERT_TRUE(status.ok()) << status.to_string();
  ASSERT_EQ(device_->launches_.size(), (*kernel)->source.steps.size());
  for (size_t i = 0; i < device_->launches_.size(); ++i) {
    const LaunchStep& step = (*kernel)->source.steps[i];
    const FakeLaunch& launch = device_->launches_[i];
    const bool is_queries = step.grid_rows == GridRows::kQueries;
    const int64_t rows = is_queries ? 130 : 70;
    const int64_t row_blocks = (rows + step.rows_per_block - 1) / step.rows_per_block;
    EXPECT_EQ(launch.entry, step.entry);
    EXPECT_EQ(launch.config.grid[0], row_blocks * (is_queries ? 2 : 1) * 3);
    EXPECT_EQ(launch.config.block[0], static_cast<uint32_t>(step.threads));
    EXPECT_EQ(launch.config.shared_bytes, static_cast<uint32_t>(step.shared_bytes));
    EXPECT_EQ(launch.params.q.data, reinterpret_cast<void*>(tensors.q.data));
    EXPECT_EQ(launch.params.q.head_stride, 130 * 32);
    EXPECT_EQ(launch.params.seq_k, 70);
    EXPECT_EQ(launch.params.batch, 3);
    EXPECT_EQ(launch.params.kv_heads, 1);
    EXPECT_EQ(launch.params.saved_o, nullptr);
    EXPECT_EQ(launch.params.grad_q.data, nullptr);
  }
}

TEST_F(EngineTest, SkipsLaunchesWithoutRows) {
  const auto engine = make_engine();
  const auto kernel = engine->prepare(small_problem());
  ASSERT_TRUE(kernel.ok());
  const Sizes no_keys{1, 2, 2, 10, 0};
  ASSERT_TRUE(
      engine->execute(**kernel, no_keys, tensors_of(small_problem(), no_keys), workspace_, nullptr)
          .ok());
  for (const FakeLaunch& launch : device_->launches_) EXPECT_NE(launch.config.grid[0], 0u);
  EXPECT_EQ(device_->launches_.back().entry, "lssar_forward");
  device_->launches_.clear();
  const Sizes nothing{0, 2, 2, 10, 10};
  ASSERT_TRUE(engine->execute(**kernel, nothing, Tensors{}, Workspace{}, nullptr).ok());
  EXPECT_TRUE(device_->launches_.empty());
}

TEST_F(EngineTest, ImportsTheMemoryOfACallForItsLaunchesOnly) {
  const auto engine = make_engine();
  const Problem problem = small_problem(Pass::kForwardTrain);
  const auto kernel = engine->prepare(problem);
  ASSERT_TRUE(kernel.ok());
  const Sizes sizes{1, 2, 2, 16, 16};
  ASSERT_TRUE(
      engine->execute(**kernel, sizes, tensors_of(problem, sizes), workspace_, nullptr).ok());
  EXPECT_EQ(device_->ranges_at_launch_, 8);  // q k v o, saved o stats x, workspace
  EXPECT_EQ(device_->num_ranges_, 0);
}

TEST_F(EngineTest, ReleasesWhatItImportedWhenAnImportFails) {
  const auto engine = make_engine();
  const auto kernel = engine->prepare(small_problem());
  ASSERT_TRUE(kernel.ok());
  const Sizes sizes{1, 2, 2, 16, 16};
  device_->fails_import_at_ = 3;
  const Status status =
      engine->execute(**kernel, sizes, tensors_of(small_problem(), sizes), workspace_, nullptr);
  EXPECT_EQ(status.code(), StatusCode::kDeviceError);
  EXPECT_EQ(device_->num_ranges_, 0);
  EXPECT_TRUE(device_->launches_.empty());
}

TEST_F(EngineTest, PlanTakesTheKernelThatPointersAndStridesAllow) {
  const auto engine = make_engine();
  PlanOptions options;
  options.passes = {Pass::kForward};
  auto plan = Plan::create(engine, small_problem(), options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  ASSERT_TRUE((*plan)->prepare().ok());
  EXPECT_EQ(compiler_->num_compiles_, 2);
  const auto fast = (*plan)->kernel(Pass::kForward, true);
  const auto plain = (*plan)->kernel(Pass::kForward, false);
  ASSERT_NE(fast, nullptr);
  ASSERT_NE(plain, nullptr);
  EXPECT_EQ(fast->schedule.load_path, LoadPath::kCpAsync);
  EXPECT_EQ(plain->schedule.load_path, LoadPath::kPlain);

  const Sizes sizes{1, 2, 2, 16, 16};
  Tensors tensors = tensors_of(small_problem(), sizes);
  const auto launched = [&]() -> const DeviceFunction* {
    const Status status = (*plan)->execute(Pass::kForward, sizes, tensors, workspace_, nullptr);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return device_->launches_.back().function;
  };
  EXPECT_EQ(launched(), fast->functions.back().function);
  tensors.k.data += 2;
  EXPECT_EQ(launched(), plain->functions.back().function);
  tensors.k.data -= 2;
  tensors.v.row_stride += 4;
  tensors.v.head_stride *= 2;
  EXPECT_EQ(launched(), plain->functions.back().function);
  tensors.v.row_stride += 4;
  EXPECT_EQ(launched(), fast->functions.back().function);
}

TEST_F(EngineTest, PlanAsksForTheScheduleOfEveryVariantAndPreparesIt) {
  const auto engine = make_engine();
  PlanOptions options;
  options.passes = {Pass::kForward, Pass::kBackward};
  const Target& target = engine->device().info().target;
  std::vector<Problem> asked;
  options.choose = [&](const Problem& problem) {
    asked.push_back(problem);
    ScheduleChoice choice{default_schedule(problem, target), ScheduleOrigin::kExact, "a record"};
    choice.schedule.softplus_degree = problem.alignment >= 16 ? 6 : 7;
    return choice;
  };
  auto plan = Plan::create(engine, small_problem(), options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ(asked.size(), 4u);
  ASSERT_TRUE((*plan)->prepare().ok());
  for (const Pass pass : options.passes) {
    EXPECT_EQ((*plan)->kernel(pass, true)->schedule.softplus_degree, 6);
    EXPECT_EQ((*plan)->kernel(pass, false)->schedule.softplus_degree, 7);
    EXPECT_EQ((*plan)->choice(pass, true)->reason, "a record");
  }
  EXPECT_EQ((*plan)->choice(Pass::kForwardTrain, true), nullptr);
}

TEST_F(EngineTest, PlanRefusesAScheduleThatIsChosenAndNotLegal) {
  PlanOptions options;
  options.passes = {Pass::kForward};
  options.choose = [](const Problem&) {
    ScheduleChoice choice;
    choice.schedule.softplus_degree = 99;
    return choice;
  };
  const auto plan = Plan::create(make_engine(), small_problem(), options);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
}

TEST_F(EngineTest, PlanRefusesGivenSchedulesWithTwoSourcesOfEpsilon) {
  const auto engine = make_engine();
  PlanOptions options;
  options.passes = {Pass::kForwardTrain, Pass::kBackward};
  const Target& target = engine->device().info().target;
  options.choose = [&](const Problem& problem) {
    const bool is_backward = problem.pass == Pass::kBackward;
    return ScheduleChoice{default_schedule(problem, target, DqMode::kSplit,
                                           is_backward ? EpsilonFrom::kPass : EpsilonFrom::kX),
                          ScheduleOrigin::kGiven, "given"};
  };
  const auto plan = Plan::create(engine, small_problem(), options);
  EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument);
  const std::string message = plan.status().message();
  for (const char* named : {"backward at alignment 16 has schedule.epsilon = pass",
                            "forward-train at alignment 16 has schedule.epsilon = x"})
    EXPECT_NE(message.find(named), std::string::npos) << message;
}

// Whatever alignment a call of either pass has.
TEST_F(EngineTest, PlanHasOneSourceOfEpsilonForAllItsKernels) {
  const auto engine = make_engine();
  PlanOptions options;
  options.passes = {Pass::kForwardTrain, Pass::kBackward};
  const Target& target = engine->device().info().target;
  options.choose = [&](const Problem& problem) {
    Schedule schedule = default_schedule(problem, target);
    const bool is_backward = problem.pass == Pass::kBackward;
    if (is_backward && problem.alignment == 16) schedule.epsilon = EpsilonFrom::kPass;
    return ScheduleChoice{schedule, ScheduleOrigin::kExact, "a record"};
  };
  const Sizes sizes = {1, 2, 2, 50, 50};
  const auto plan = Plan::create(engine, small_problem(), options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  EXPECT_EQ((*plan)->saved(sizes)->x, 0u);
  for (const Pass pass : options.passes) {
    for (const bool is_fast : {false, true})
      EXPECT_EQ((*plan)->choice(pass, is_fast)->schedule.epsilon, EpsilonFrom::kPass);
  }
}

TEST_F(EngineTest, PlanKeepsWhatSucceededWhenOneKernelFails) {
  const auto engine = make_engine();
  PlanOptions options;
  options.passes = {Pass::kForward};
  auto plan = Plan::create(engine, small_problem(), options);
  ASSERT_TRUE(plan.ok());
  compiler_->fails_ = true;
  EXPECT_EQ((*plan)->prepare().code(), StatusCode::kCompileError);
  EXPECT_FALSE((*plan)->is_prepared());
  compiler_->fails_ = false;
  EXPECT_TRUE((*plan)->prepare().ok());
  EXPECT_TRUE((*plan)->is_prepared());
}

}  // namespace
}  // namespace lssar
