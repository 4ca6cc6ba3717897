// Errors of CPU targets and of the cpu device, with their texts.
#include <dlfcn.h>

#include <cstdlib>

#include <nlohmann/json.hpp>

#include "codegen/shapes.h"
#include "compile/compiler.h"
#include "compile/object_loader.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_features.h"
#include "score/known.h"
#include "tests/cpu/cpu_check.h"

namespace lssar {
namespace {

Target v3() { return *target_from_name("x86-64-v3"); }
Target v4() { return *target_from_name("x86-64-v4"); }

CpuFeatures machine(const std::string& level) {
  CpuFeatures features;
  features.name = "Test CPU";
  features.level = level;
  return features;
}

TEST(CpuTarget, NamesAndJson) {
  for (const CpuLevel& level : cpu_levels()) {
    const std::string name = level.name;
    const auto target = target_from_name(name);
    ASSERT_TRUE(target.ok());
    EXPECT_TRUE(target->is_cpu());
    EXPECT_EQ(target->name(), name);
    const auto again = target_from_json(to_json(*target));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(*again, *target);
  }
  EXPECT_FALSE(target_from_name("sm_80")->is_cpu());
  EXPECT_NE(
      target_from_name("x86-64-v5").status().message().find("x86-64-v3, x86-64-v4, x86-64-v4-bf16"),
      std::string::npos);
}

TEST(CpuTarget, IsTheMachinesOwnOrANarrowerOne) {
  EXPECT_EQ(cpu_target_for("", machine("x86-64-v3"))->name(), "x86-64-v3");
  EXPECT_EQ(cpu_target_for("", machine("x86-64-v4"))->name(), "x86-64-v4");
  EXPECT_EQ(cpu_target_for("x86-64-v3", machine("x86-64-v4"))->name(), "x86-64-v3");
  const Status wider = cpu_target_for("x86-64-v4", machine("x86-64-v3")).status();
  EXPECT_EQ(wider.code(), StatusCode::kUnsupported);
  EXPECT_EQ(wider.message(),
            "target = \"x86-64-v4\": this machine's CPU (Test CPU) runs x86-64-v3 and below; it "
            "lacks AVX-512 (F, BW, CD, DQ and VL)");
  EXPECT_EQ(cpu_target_for("", machine("x86-64-v4-bf16"))->name(), "x86-64-v4-bf16");
  EXPECT_EQ(cpu_target_for("x86-64-v4", machine("x86-64-v4-bf16"))->name(), "x86-64-v4");
  EXPECT_EQ(
      cpu_target_for("x86-64-v4-bf16", machine("x86-64-v4")).status().message(),
      "target = \"x86-64-v4-bf16\": this machine's CPU (Test CPU) runs x86-64-v4 and below; it "
      "lacks AVX512_BF16");
  EXPECT_EQ(
      cpu_target_for("x86-64-v4-bf16", machine("x86-64-v3")).status().message(),
      "target = \"x86-64-v4-bf16\": this machine's CPU (Test CPU) runs x86-64-v3 and below; it "
      "lacks AVX-512 (F, BW, CD, DQ and VL); AVX512_BF16");
  const Status none = cpu_target_for("", machine("")).status();
  EXPECT_EQ(none.code(), StatusCode::kUnsupported);
  EXPECT_EQ(none.message(),
            "device = cpu: kernels need at least x86-64-v3 (AVX2, FMA and F16C), and Test CPU does "
            "not have all of it: use --device virtual");
  const Status gpu = cpu_target_for("sm_80", machine("x86-64-v3")).status();
  EXPECT_EQ(gpu.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(gpu.message(),
            "target = \"sm_80\": with device = cpu allowed are x86-64-v3 x86-64-v4 x86-64-v4-bf16");
}

std::string refusal(const CpuOptions& cpu, const Target& target) {
  const Problem problem;
  Schedule schedule = default_schedule(problem, target);
  schedule.cpu = cpu;
  return validate(schedule, problem, target).message();
}

TEST(CpuSchedule, EveryRuleSaysWhy) {
  EXPECT_EQ(refusal({6, 16, 256, 8192}, v3()), "");
  EXPECT_EQ(refusal({6, 64, 256, 8192}, v4()), "");
  EXPECT_EQ(refusal({0, 16, 256, 8192}, v3()), "schedule.cpu.rows = 0: allowed are 1 and more");
  EXPECT_EQ(refusal({7, 16, 256, 8192}, v3()),
            "schedule.cpu.rows = 7: with cpu.panel_keys 16 the two products need 17 vector "
            "registers (rows times 2 accumulators, 2 for the panel, 1 for the row), and x86-64-v3 "
            "has 16");
  EXPECT_EQ(refusal({6, 24, 240, 240}, v4()),
            "schedule.cpu.panel_keys = 24: allowed are multiples of 16, at least 16, because it "
            "must be whole vectors");
  EXPECT_EQ(refusal({6, 16, 100, 8192}, v3()),
            "schedule.cpu.block_keys = 100: allowed are multiples of 16, at least 16, because it "
            "must be whole panels");
  EXPECT_EQ(refusal({6, 16, 8192, 8192}, v3()),
            "schedule.cpu.block_keys = 8192: allowed are at most 4096, because float sums over a "
            "block lose precision");
  EXPECT_EQ(refusal({6, 16, 256, 300}, v3()),
            "schedule.cpu.kept_keys = 300: allowed are multiples of 256, at least 0, because it "
            "must be whole blocks");
  EXPECT_NE(refusal({6, 16, 256, 1 << 20}, v3()).find("a thread has at most 16777216"),
            std::string::npos);
}

TEST(CpuSchedule, FieldsOfAGpusBackwardAreRefused) {
  Problem problem;
  for (const Pass pass : {Pass::kForward, Pass::kForwardTrain, Pass::kBackward}) {
    problem.pass = pass;
    const Schedule usual = default_schedule(problem, v3());
    EXPECT_TRUE(validate(usual, problem, v3()).ok());
    Schedule schedule = usual;
    schedule.epsilon = EpsilonFrom::kPass;
    EXPECT_EQ(validate(schedule, problem, v3()).message(),
              pass == Pass::kForward
                  ? ""
                  : "schedule.epsilon = pass: allowed is x on x86-64-v3, whose backward has no "
                    "pass for it");
    schedule = usual;
    schedule.dq_mode = DqMode::kAtomic;
    EXPECT_EQ(validate(schedule, problem, v3()).message(),
              pass != Pass::kBackward
                  ? ""
                  : "schedule.dq_mode = atomic: allowed are ordered and split on x86-64-v3, whose "
                    "results are repeatable");
  }
}

// Where a score function's epsilon is a sum over the keys, the backward always sums it.
TEST(CpuSchedule, EpsilonOfAScoreFunctionComesFromAPass) {
  Problem problem;
  problem.p = 65;
  problem.pass = Pass::kBackward;
  Schedule schedule = default_schedule(problem, v3());
  EXPECT_TRUE(validate(schedule, problem, v3()).ok());
  schedule.epsilon = EpsilonFrom::kX;
  EXPECT_EQ(validate(schedule, problem, v3()).message(),
            "schedule.epsilon = x: allowed is pass on x86-64-v3 with this problem.score");
  problem.offset = 0;  // then it is 0
  EXPECT_TRUE(validate(schedule, problem, v3()).ok());
}

// One pass over the keys comes back to none of them.
TEST(CpuSchedule, KeysAreKeptForASecondPassOnly) {
  Problem problem;
  problem.p = 0;
  problem.score.phi = Activation(*named_activation("exp"));
  EXPECT_EQ(default_schedule(problem, v3()).cpu.kept_keys, 0);
  problem.p = 3;
  EXPECT_EQ(default_schedule(problem, v3()).cpu.kept_keys, 4096);
}

// The bytes that docs/cpu.md names.
TEST(CpuSizes, WorkspaceOfTheBackward) {
  Problem problem;  // d 64, bf16
  problem.pass = Pass::kBackward;
  Schedule schedule = default_schedule(problem, v3());
  const Sizes sizes = [] {
    Sizes of_call;
    of_call.batch = 1, of_call.heads = 4, of_call.kv_heads = 2;
    of_call.seq_q = of_call.seq_k = 1024;
    return of_call;
  }();
  const size_t keys = 2 * 1024, queries = 4 * 1024;
  const size_t turns = 4 * 22 * 4, aligned_turns = 512;  // a tile has 48 queries
  EXPECT_EQ(workspace_layout(problem, schedule, sizes)->total_bytes,
            keys * (64 + 64 + 1) * 4 + queries * (32 + 64 * 4) + aligned_turns);
  EXPECT_LE(turns, aligned_turns);
  schedule.dq_mode = DqMode::kSplit;
  EXPECT_EQ(workspace_layout(problem, schedule, sizes)->total_bytes,
            keys * (64 + 64 + 1) * 4 + queries * 32);
  const auto saved = saved_bytes(problem, schedule, sizes);
  ASSERT_TRUE(saved.ok());
  EXPECT_EQ(saved->o, queries * 64 * 2);
  EXPECT_EQ(saved->stats, queries * 4 * 4);
  EXPECT_EQ(saved->x, queries * 64 * 2);
}

// The bytes that docs/cpu.md names: of few queries, which take less than packed keys, and turns.
TEST(CpuSizes, WorkspaceOfFewQueries) {
  Problem problem;  // d 64, bf16
  const Schedule schedule = default_schedule(problem, v3());
  const auto layout = [&](int64_t kv_heads, int64_t rows, int64_t keys) {
    Sizes sizes;
    sizes.batch = 1, sizes.heads = sizes.kv_heads = kv_heads;
    sizes.seq_q = rows, sizes.seq_k = keys;
    return *workspace_layout(problem, schedule, sizes);
  };
  const size_t of_row = 4 * (65536 + 3 * 128 + 128 * 64);
  EXPECT_EQ(layout(8, 1, 65536).total_bytes, 8 * of_row);
  EXPECT_EQ(layout(2, 16, 65536).total_bytes, 2 * 16 * of_row);
  EXPECT_EQ(layout(2, 17, 65536).total_bytes, 2u * 65536 * 64 * 4) << "packed";
  EXPECT_LT(layout(8, 1, 65536).total_bytes, layout(8, 65536, 65536).total_bytes);
  EXPECT_EQ(layout(8, 1, 1 << 20).panel_slices, 4) << "two turns";
  EXPECT_LE(layout(8, 1, 1 << 20).total_bytes, size_t{32} << 20);
  EXPECT_EQ(layout(8, 16, 1 << 20).panel_slices, 1);
}

// Whatever the sequences are, the workspace of their totals has room for each one's part.
TEST(CpuSizes, TotalsOfSequencesSuffice) {
  for (const int dim : {8, 64}) {
    Problem problem;
    problem.head_dim = dim, problem.head_dim_v = 256;
    const Schedule schedule = default_schedule(problem, v3());
    for (const std::vector<int64_t>& lengths :
         {std::vector<int64_t>{1}, {0, 0, 0}, {511, 512, 513}, {1, 17, 33, 65, 1025}, {40000, 3}})
      for (const int64_t seq_q : {1, 16, 17, 300}) {
        int64_t needed = 0, total_k = 0;
        for (const int64_t seq_k : lengths) {
          const Sizes sizes = {1, 1, 1, seq_q, seq_k};
          needed += cpu_slice_bytes(problem, schedule, sizes);
          total_k += seq_k;
        }
        EXPECT_LE(needed, cpu_sequences_slice_bytes(problem, schedule,
                                                    static_cast<int64_t>(lengths.size()), total_k))
            << dim << ", " << seq_q << " queries, " << total_k << " keys";
      }
  }
}

TEST(CpuSchedule, VariantAndTargetBelongTogether) {
  const Problem problem;
  const Target gpu = *target_from_name("sm_80");
  EXPECT_EQ(validate(default_schedule(problem, gpu), problem, v3()).message(),
            "schedule.variant = portable: allowed is cpu on x86-64-v3, because it is a CPU");
  EXPECT_EQ(
      validate(default_schedule(problem, v3()), problem, gpu).message(),
      "schedule.variant = cpu: allowed are portable and hopper on sm_80, because it is a GPU");
}

TEST(CpuCompiler, NvrtcMakesNoObjects) {
  const Status status = open_compiler_for(CompilerChoice::kNvrtc, ImageKind::kObject).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("the kernels of a CPU target need llvm"), std::string::npos);
}

TEST(CpuCompiler, ImagesOfTheOtherKindAreUnsupported) {
  LSSAR_NEEDS_CPU_KERNELS();
  CompileRequest request;
  request.name = "none";
  request.target = v3();
  request.kind = ImageKind::kPtx;
  const auto compiler = open_compiler(CompilerChoice::kLlvm);
  EXPECT_EQ((*compiler)->compile(request).status().message(),
            "kernel none: image = ptx: for x86-64-v3 the llvm compiler makes only object");
  request.target = *target_from_name("sm_80");
  request.kind = ImageKind::kObject;
  EXPECT_EQ((*compiler)->compile(request).status().message(),
            "kernel none: image = object: for sm_80 the llvm compiler makes only ptx");
}

TEST(CpuCompiler, AnErrorOfTheSourceIsACompileError) {
  LSSAR_NEEDS_CPU_KERNELS();
  CompileRequest request;
  request.name = "broken";
  request.target = v3();
  request.kind = ImageKind::kObject;
  request.source = "int f() { return x; }\n";
  const auto image = (*open_compiler(CompilerChoice::kLlvm))->compile(request);
  EXPECT_EQ(image.status().code(), StatusCode::kCompileError);
  EXPECT_NE(image.status().message().find("undeclared identifier 'x'"), std::string::npos);
}

Image object_of(const std::string& source) {
  CompileRequest request;
  request.name = "small";
  request.target = v3();
  request.kind = ImageKind::kObject;
  request.source = source;
  return (*open_compiler(CompilerChoice::kLlvm))->compile(request).value();
}

TEST(CpuLoader, WhatAnObjectLacksIsNamed) {
  LSSAR_NEEDS_CPU_KERNELS();
  EXPECT_EQ(load_object("no object").status().code(), StatusCode::kDeviceError);
  const auto loaded = load_object(object_of("extern \"C\" int f() { return 7; }\n").bytes);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  const auto f = (*loaded)->function("f");
  ASSERT_TRUE(f.ok()) << f.status().to_string();
  EXPECT_EQ(reinterpret_cast<int (*)()>(*f)(), 7);
  const Status none = (*loaded)->function("g").status();
  EXPECT_EQ(none.code(), StatusCode::kDeviceError);
  EXPECT_NE(none.message().find("g"), std::string::npos);
  // An object does not find other functions of the process by accident.
  const auto needy = load_object(object_of("extern \"C\" int puts(const char*);\n"
                                           "extern \"C\" int f() { return puts(\"\"); }\n")
                                     .bytes);
  ASSERT_TRUE(needy.ok());
  EXPECT_NE((*needy)->function("f").status().message().find("puts"), std::string::npos);
}

// Pages that are mapped and may be executed.
int64_t executable_bytes() {
  FILE* maps = std::fopen("/proc/self/maps", "r");
  int64_t bytes = 0;
  unsigned long from = 0, to = 0;
  char mode[8] = {};
  while (std::fscanf(maps, "%lx-%lx %7s%*[^\n]", &from, &to, mode) == 3)
    if (mode[2] == 'x') bytes += static_cast<int64_t>(to - from);
  std::fclose(maps);
  return bytes;
}

TEST(CpuLoader, UnloadingFreesTheMemory) {
  LSSAR_NEEDS_CPU_KERNELS();
  const Image image = object_of("extern \"C\" int f() { return 7; }\n");
  const auto load_once = [&] {
    const auto loaded = load_object(image.bytes);
    ASSERT_TRUE(loaded.ok());
    ASSERT_TRUE((*loaded)->function("f").ok());
  };
  load_once();
  const int64_t before = executable_bytes();
  for (int i = 0; i < 100; ++i) load_once();
  EXPECT_EQ(executable_bytes(), before);
}

// Another LLVM of the process would take our LLVM's functions for its own.
TEST(CpuLoader, LlvmIsNotVisibleToOtherLibraries) {
  LSSAR_NEEDS_CPU_KERNELS();
  ASSERT_TRUE(load_object(object_of("extern \"C\" int f() { return 7; }\n").bytes).ok());
  for (const char* name : {"LLVMContextCreate", "LLVMOrcCreateLLJIT", "lssar_llvm_load"})
    EXPECT_EQ(dlsym(RTLD_DEFAULT, name), nullptr) << name;
}

TEST(CpuDevice, RefusesOtherImages) {
  LSSAR_NEEDS_CPU_KERNELS();
  const auto device = make_cpu_device(v3());
  EXPECT_EQ(device->info().kind, "cpu");
  EXPECT_GE(device->info().num_sms, 1);
  Image ptx;
  ptx.kind = ImageKind::kPtx;
  EXPECT_EQ(device->load(ptx).status().message(),
            "cpu device: it runs objects, and the image is ptx");
  if (cpu_features().level != "x86-64-v3") return;
  Image wide = object_of("extern \"C\" int f() { return 7; }\n");
  wide.target = "x86-64-v4";
  EXPECT_EQ(device->load(wide).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace lssar
