// The emitted C++, compiled by the host's compiler with the address and undefined-behaviour
// sanitizers, which find nothing. Every tensor has memory of its own, which ends where it does.
#include <cstdlib>
#include <fstream>
#include <map>

#include "device/cpu/cpu_features.h"
#include "tests/cache/temporary_folder.h"
#include "tests/cpu/cpu_check.h"
#include "tests/cpu/cpu_launches.h"
#include "tests/cpu/launch_file.h"

namespace lssar {
namespace {

template <typename T>
void append(std::string& to, const T& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string launch_file(const CpuLaunches& launches) {
  std::string file;
  append(file, LaunchFileHeader{sizeof(launches.params), launches.launches.size(),
                                launches.memory.size()});
  append(file, launches.params);
  for (const CpuLaunches::Launch& launch : launches.launches) {
    LaunchFileStep step = {};
    launch.step.entry.copy(step.entry, sizeof(step.entry) - 1);
    step.first_block = launch.first_block;
    step.num_blocks = launch.num_blocks;
    step.scratch_bytes = static_cast<uint64_t>(launch.step.shared_bytes);
    append(file, step);
  }
  for (const CpuLaunches::Memory& memory : launches.memory) {
    append(file, LaunchFileMemory{reinterpret_cast<uintptr_t>(memory.begin), memory.bytes});
    file.append(static_cast<const char*>(memory.begin), memory.bytes);
  }
  return file;
}

class CpuSanitizers : public testing::Test {
 protected:
  void SetUp() override {
    if (cpu_features().level.empty()) GTEST_SKIP() << "the CPU has no AVX2";
    if (!find_compiler())
      GTEST_SKIP() << "no clang++ or g++ with address and undefined-behaviour sanitizers";
  }

  // Runs the launches in a process of its own. An error has what the sanitizers wrote.
  Status run(const CpuLaunches& launches) {
    std::string& library = libraries_[launches.kernel.source];
    if (library.empty()) {
      const std::string source = in_folder(std::to_string(libraries_.size()) + ".cpp");
      std::ofstream(source) << launches.kernel.source;
      library = source + ".so";
      LSSAR_RETURN_IF_ERROR(shell(compile_ + " -shared -fPIC " + source + " -o " + library));
    }
    const std::string file = in_folder("launches");
    std::ofstream(file, std::ios::binary) << launch_file(launches);
    LSSAR_RETURN_IF_ERROR(shell("ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 " +
                                in_folder("program") + " " + library + " " + file));
    std::ifstream results(file, std::ios::binary);
    for (const CpuLaunches::Memory& memory : launches.memory)
      results.read(static_cast<char*>(memory.begin), static_cast<std::streamsize>(memory.bytes));
    return results ? Status() : internal_error("launch_program wrote too little");
  }

  CpuRun sanitized(int gap) {
    CpuRun run;
    run.gap = gap;
    run.launch = [this](const CpuLaunches& launches) { return this->run(launches); };
    return run;
  }

 private:
  std::string in_folder(const std::string& name) const { return folder_ / name; }

  Status shell(const std::string& command) const {
    const std::string log = in_folder("log");
    if (std::system((command + " > " + log + " 2>&1").c_str()) == 0) return {};
    std::ifstream from(log);
    return internal_error(command + "\n" + std::string(std::istreambuf_iterator<char>(from), {}));
  }

  // Also compiles the program that runs launches. The sources of all levels run on the lowest. The
  // check of called functions' types is off, because the device and the program call a kernel's
  // functions without knowing the type of their argument.
  bool find_compiler() {
    for (const char* name : {"clang++-19", "clang++", "g++"}) {
      compile_ = std::string(name) + " -std=c++17 -O0 -g1 -march=" + cpu_target_names()[0] +
                 " -fsanitize=address,undefined -fno-sanitize-recover=all";
      if (compile_[0] == 'c') compile_ += " -fno-sanitize=function";  // g++ has no such check
      if (shell(compile_ +
                " -I " LSSAR_SOURCE_FOLDER " " LSSAR_SOURCE_FOLDER
                "/tests/cpu/launch_program.cpp -ldl -o " +
                in_folder("program"))
              .ok())
        return true;
    }
    return false;
  }

  const TemporaryFolder folder_;
  std::string compile_;
  std::map<std::string, std::string> libraries_;  // by source
};

struct Sample {
  const char* target;
  DType dtype;
  int dim, dim_v;
};

TEST_F(CpuSanitizers, FindNothing) {
  // All rows of the first end with half a vector.
  for (const auto& [target, dtype, dim, dim_v] :
       {Sample{"x86-64-v4", DType::kFp32, 24, 72}, Sample{"x86-64-v3", DType::kBf16, 40, 24},
        Sample{kPairsTarget, DType::kBf16, 24, 72}}) {
    for (const int p : {15, 0, 100}) {  // the last has the kernels of expressions
      if (p == 100 && dtype == DType::kFp32) continue;
      // Fewer sources: p 0 in one type; with pairs p 100 multiplies all of them.
      if (p == 0 && dtype != DType::kFp32) continue;
      const Problem problem = forward_problem(dtype, dim, dim_v, p, true);
      for (const auto& [q, k, gap] : std::vector<std::tuple<int, int, int>>{
               {1, 1, 0}, {5, 0, 0}, {7, 17, 3}, {49, 97, 0}, {53, 31, 1}}) {
        const Sizes sizes = sizes_with(2, 2, 1, q, k);
        SCOPED_TRACE(to_string(problem) + " " + std::to_string(q) + "x" + std::to_string(k));
        const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 31);
        const auto expected = reference_attention(
            problem, sizes, {widened(in.q), widened(in.k), widened(in.v), widened(in.grad_o)});
        ASSERT_TRUE(expected.ok()) << expected.status().to_string();
        expect_o(problem, *expected,
                 run_cpu_kernel(target, problem, sizes, {in.q, in.k, in.v}, sanitized(gap)));
        expect_gradients(problem, *expected,
                         run_cpu_training(target, problem, sizes, {in.q, in.k, in.v, in.grad_o},
                                          sanitized(gap)));
      }
    }
  }
}

// What the test above would say of a kernel that reads one number too many.
TEST_F(CpuSanitizers, FindAReadPastTheEnd) {
  const Problem problem = forward_problem(DType::kFp32, 8, 8, 15, false);
  const Sizes sizes = sizes_with(1, 1, 1, 3, 5);
  const RandomInputs in = random_inputs(problem, sizes, InputKind::kGauss, 32);
  CpuRun cut = sanitized(0);
  cut.launch = [this](CpuLaunches launches) {
    launches.memory[2].bytes -= sizeof(float);  // of v
    return run(launches);
  };
  const auto out = run_cpu_kernel(cpu_target_names()[0], problem, sizes, {in.q, in.k, in.v}, cut);
  EXPECT_NE(out.status().message().find("ERROR: AddressSanitizer: "), std::string::npos)
      << out.status().to_string();
}

}  // namespace
}  // namespace lssar
