// Failures: missing compilers, sources that do not compile, unknown targets.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compile/compile_failure.h"
#include "compile/llvm_compiler.h"
#include "compile/llvm_library.h"
#include "compile/nvrtc_compiler.h"
#include "compile/nvrtc_library.h"
#include "tests/cache/temporary_folder.h"
#include "tests/compile/compiler_fixture.h"

namespace lssar {
namespace {

// Sets a variable of the environment for the life of the object; null unsets it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old;
    set(value);
  }
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

// The third line is wrong.
constexpr char kWrongSource[] =
    "extern \"C\" __global__ void wrong(int* x) {\n"
    "  *x = 1;\n"
    "  *x = no_such_name;\n"
    "}\n";

void expect_text(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << "no \"" << part << "\" in:\n" << message;
  }
}

// The text after "source: " in the message of a compile error.
std::string dumped_path(const std::string& message) {
  const std::string marker = "\nsource: ";
  const size_t at = message.find(marker);
  if (at == std::string::npos) return "";
  const size_t first = at + marker.size();
  return message.substr(first, message.find('\n', first) - first);
}

void expect_missing(const Status& status, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), StatusCode::kMissing) << status.to_string();
  expect_text(status.message(), parts);
}

TEST(CompilerMissing, HiddenNvrtcSaysHowToGetIt) {
  const Environment hidden("LSSAR_NVRTC_PATH", "none");
  EXPECT_TRUE(nvrtc_candidates().empty());
  expect_missing(make_nvrtc_compiler().status(),
                 {"hidden by LSSAR_NVRTC_PATH=none", "libnvrtc.so.13", "libnvrtc.so.12",
                  "cuda-nvrtc-13-0", "nvidia-cuda-nvrtc"});
}

TEST(CompilerMissing, HiddenLlvmSaysHowToGetIt) {
  const Environment hidden("LSSAR_LLVM_PATH", "none");
  EXPECT_TRUE(llvm_candidates().empty());
  expect_missing(make_llvm_compiler().status(),
                 {"hidden by LSSAR_LLVM_PATH=none", "liblssar_llvm.so", "libclang-cpp19"});
}

TEST(CompilerMissing, AWrongPathIsNamedAndNothingElseIsTried) {
  const Environment nvrtc("LSSAR_NVRTC_PATH", "/no/such/libnvrtc.so");
  const Environment llvm("LSSAR_LLVM_PATH", "/no/such/liblssar_llvm.so");
  EXPECT_EQ(nvrtc_candidates(), std::vector<std::string>{"/no/such/libnvrtc.so"});
  EXPECT_EQ(llvm_candidates(), std::vector<std::string>{"/no/such/liblssar_llvm.so"});
  expect_missing(make_nvrtc_compiler().status(), {"Tried:", "/no/such/libnvrtc.so"});
  expect_missing(make_llvm_compiler().status(), {"Tried:", "/no/such/liblssar_llvm.so"});
}

TEST(CompilerMissing, ALibraryOfAnotherKindIsRefused) {
  const Environment nvrtc("LSSAR_NVRTC_PATH", "libm.so.6");
  const Environment llvm("LSSAR_LLVM_PATH", "libm.so.6");
  expect_missing(make_nvrtc_compiler().status(), {"libm.so.6", "functions are missing"});
  expect_missing(make_llvm_compiler().status(), {"libm.so.6", "functions are missing"});
}

TEST(CompilerMissing, ToolkitAndWheelFoldersAreSearched) {
  const TemporaryFolder folder;
  const std::string toolkit = folder / "cuda/lib64";
  const std::string wheel = folder / "venv/lib/python3.11/site-packages/nvidia/cu13/lib";
  for (const std::string& path : {toolkit, wheel}) {
    std::filesystem::create_directories(path);
    spill(path + "/libnvrtc.so.13", "");
  }
  const Environment unset("LSSAR_NVRTC_PATH", nullptr);
  const Environment cuda("CUDA_HOME", (folder / "cuda").c_str());
  const Environment python("VIRTUAL_ENV", (folder / "venv").c_str());
  const std::vector<std::string> candidates = nvrtc_candidates();
  const auto has = [&](const std::string& path) {
    return std::find(candidates.begin(), candidates.end(), path) != candidates.end();
  };
  EXPECT_TRUE(has(toolkit + "/libnvrtc.so.13"));
  EXPECT_TRUE(has(wheel + "/libnvrtc.so.13"));
  EXPECT_TRUE(has("libnvrtc.so.12")) << "by name, for the loader";
}

// open_compiler keeps what it opened, so these tests run in a process that has opened nothing. Each
// prints its findings and exits with 0.
class CompilerMissingFresh : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void exit_printing(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::_Exit(0);
}

std::string outcome_of(CompilerChoice choice) {
  const auto opened = open_compiler(choice);
  return opened.ok() ? (*opened)->name() + " opened" : opened.status().to_string();
}

TEST_F(CompilerMissingFresh, AutoNamesBothWhenBothAreHidden) {
  const Environment nvrtc("LSSAR_NVRTC_PATH", "none");
  const Environment llvm("LSSAR_LLVM_PATH", "none");
  EXPECT_EXIT(exit_printing(outcome_of(CompilerChoice::kAuto)), ::testing::ExitedWithCode(0),
              "missing: no compiler(.|\n)*LSSAR_NVRTC_PATH=none(.|\n)*LSSAR_LLVM_PATH=none");
}

TEST_F(CompilerMissingFresh, TheListTellsWhyThereIsNone) {
  const Environment nvrtc("LSSAR_NVRTC_PATH", "none");
  const Environment llvm("LSSAR_LLVM_PATH", "none");
  const auto list = [] {
    std::string text;
    for (const CompilerReport& report : list_compilers()) {
      text += report.name + (report.found ? " found" : " not found: " + report.error) + "\n";
    }
    return text;
  };
  EXPECT_EXIT(exit_printing(list()), ::testing::ExitedWithCode(0),
              "nvrtc not found: NVRTC is hidden.*\nllvm not found: the LLVM compiler is hidden");
}

TEST_F(CompilerMissingFresh, AutoTakesLlvmWhereNvrtcIsHidden) {
  if (!make_llvm_compiler().ok()) GTEST_SKIP() << make_llvm_compiler().status().message();
  const Environment nvrtc("LSSAR_NVRTC_PATH", "none");
  EXPECT_EXIT(exit_printing(outcome_of(CompilerChoice::kAuto)), ::testing::ExitedWithCode(0),
              "llvm opened");
}

TEST_F(CompilerMissingFresh, AFailureIsNotKept) {
  if (!make_llvm_compiler().ok()) GTEST_SKIP() << make_llvm_compiler().status().message();
  const auto fail_then_open = [] {
    std::string outcomes;
    {
      const Environment hidden("LSSAR_LLVM_PATH", "none");
      outcomes = outcome_of(CompilerChoice::kLlvm);
    }
    return outcomes + "\nthen " + outcome_of(CompilerChoice::kLlvm);
  };
  EXPECT_EXIT(exit_printing(fail_then_open()), ::testing::ExitedWithCode(0),
              "hidden by(.|\n)*then llvm opened");
}

TEST(CompilerChoice, UnknownNameListsTheKnown) {
  const auto choice = parse_compiler_choice("gcc");
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.status().code(), StatusCode::kInvalidArgument);
  expect_text(choice.status().message(), {"gcc", "auto", "nvrtc", "llvm"});
}

class CompilerErrors : public CompilerTest {};

INSTANTIATE_TEST_SUITE_P(Compilers, CompilerErrors, every_compiler(),
                         [](const auto& tested) { return compiler_choice_name(tested.param); });

TEST_P(CompilerErrors, CarryNameTargetOptionsAndTheLine) {
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  CompileRequest request = make_request("wrong", kWrongSource, ImageKind::kPtx, "sm_90");
  request.extra_options = {"-lineinfo"};
  const Result<Image> image = compiler_->compile(request);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kCompileError);
  const std::string& message = image.status().message();
  expect_text(message, {"kernel wrong for sm_90", compiler_->name() + " " + compiler_->version(),
                        join_options(compiler_->options(request)), "no_such_name"});
  // nvrtc: "wrong.cu(3): error", llvm: "wrong.cu:3:8: error".
  EXPECT_TRUE(message.find("wrong.cu(3)") != std::string::npos ||
              message.find("wrong.cu:3:") != std::string::npos)
      << message;
}

TEST_P(CompilerErrors, LeaveTheSourceInTheDumpFolder) {
  const TemporaryFolder folder;
  const std::string wanted = folder / "made/when/needed";
  const Environment dump("LSSAR_DUMP_DIR", wanted.c_str());
  const Result<Image> image = compiler_->compile(make_request("wrong", kWrongSource));
  ASSERT_FALSE(image.ok());
  const std::string path = dumped_path(image.status().message());
  EXPECT_EQ(path.rfind(wanted + "/wrong-sm_80-", 0), 0u) << path;
  EXPECT_EQ(slurp(path), kWrongSource);
}

TEST_P(CompilerErrors, AreNotHiddenByADumpFolderThatCannotBeWritten) {
  const TemporaryFolder folder;
  spill(folder / "file", "in the way");  // works for root too, unlike a folder's mode
  const std::string wanted = folder / "file/dumps";
  const Environment dump("LSSAR_DUMP_DIR", wanted.c_str());
  const Result<Image> image = compiler_->compile(make_request("wrong", kWrongSource));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kCompileError);
  expect_text(image.status().message(), {"no_such_name", "source: not written (", wanted});
}

TEST_P(CompilerErrors, OfAnOptionNameTheOption) {
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  CompileRequest request = add_one_request();
  request.extra_options = {"--no-such-option"};
  const Result<Image> image = compiler_->compile(request);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kCompileError);
  const std::string& message = image.status().message();
  const size_t log = message.find("log:\n");
  ASSERT_NE(log, std::string::npos) << message;
  EXPECT_NE(message.find("no-such-option", log), std::string::npos) << message;
}

TEST_P(CompilerErrors, AnUnknownTargetIsNotReplacedByAnother) {
  CompileRequest request = add_one_request();
  request.target.major = 7;  // below every target of both
  request.target.minor = 1;
  const Result<Image> image = compiler_->compile(request);
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kUnsupported) << image.status().to_string();
  expect_text(image.status().message(), {"sm_71", "sm_80"});
}

TEST_P(CompilerErrors, TheCompilerWorksAfterAnError) {
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  ASSERT_FALSE(compiler_->compile(make_request("wrong", kWrongSource)).ok());
  const Result<Image> image = compiler_->compile(add_one_request());
  EXPECT_TRUE(image.ok()) << image.status().to_string();
}

TEST(LlvmErrors, ATargetNewerThanLlvmIsRefusedWithTheKnownOnes) {
  const auto opened = open_compiler(CompilerChoice::kLlvm);
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const Result<Image> image = (*opened)->compile(add_one_request(ImageKind::kPtx, "sm_120"));
  ASSERT_FALSE(image.ok());
  EXPECT_EQ(image.status().code(), StatusCode::kUnsupported);
  expect_text(image.status().message(), {"sm_120", "LLVM 19", "sm_90a", "nvrtc"});
}

// LSSAR_FAST_COMPILE is read where NVRTC is opened. Its option is part of the cache's key.
TEST(NvrtcFastCompile, ChangesTheOptionsOfPortableTargetsAlone) {
  const auto usual = make_nvrtc_compiler();
  if (!usual.ok()) GTEST_SKIP() << usual.status().message();
  const Environment fast("LSSAR_FAST_COMPILE", "1");
  const auto opened = make_nvrtc_compiler();
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const CompileRequest portable = add_one_request();
  const CompileRequest hopper = add_one_request(ImageKind::kPtx, "sm_90a");
  EXPECT_EQ((*opened)->options(hopper), (*usual)->options(hopper));
  EXPECT_EQ((*opened)->options(portable) == (*usual)->options(portable),
            (*opened)->version().starts_with("12."));
  const auto image = (*opened)->compile(portable);
  EXPECT_TRUE(image.ok()) << image.status().to_string();
}

TEST(NvrtcFastCompile, OtherValuesAreErrors) {
  if (const auto usual = make_nvrtc_compiler(); !usual.ok())
    GTEST_SKIP() << usual.status().message();
  const Environment wrong("LSSAR_FAST_COMPILE", "yes");
  const auto opened = make_nvrtc_compiler();
  ASSERT_FALSE(opened.ok());
  expect_text(opened.status().message(), {"LSSAR_FAST_COMPILE = yes", "0 and 1"});
}

#ifdef LSSAR_HAS_LLVM_COMPILER
TEST(LlvmErrors, TheCompilerOfThisBuildIsFound) {
  const auto opened = open_compiler(CompilerChoice::kLlvm);
  EXPECT_TRUE(opened.ok()) << opened.status().to_string();
}
#endif

// LLVM 19 has no instruction for this and calls report_fatal_error, which would end the process. It
// runs in a process of its own, because such a compile leaks what it allocated.
TEST(LlvmErrorsDeathTest, AFatalErrorOfLlvmIsAnErrorAndTheProcessGoesOn) {
  const auto opened = open_compiler(CompilerChoice::kLlvm);
  if (!opened.ok()) GTEST_SKIP() << opened.status().message();
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  const auto fail_then_compile = [&] {
    const CompileRequest request = make_request("fatal", R"(
extern "C" __global__ void fatal(int* p) { __atomic_store_n(p, 3, __ATOMIC_SEQ_CST); }
)");
    const Status first = (*opened)->compile(request).status();
    const Status second = (*opened)->compile(add_one_request()).status();
    return first.to_string() + "\nthen " + second.to_string();
  };
  EXPECT_EXIT(exit_printing(fail_then_compile()), ::testing::ExitedWithCode(0),
              "compile error: kernel fatal (.|\n)*LLVM failed: Cannot select(.|\n)*then ok");
}

TEST(DumpSource, HostileNamesStayInTheFolder) {
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  const std::string names[] = {"../../etc/x", "", std::string(5000, 'n'), "a b;$(c)\n"};
  for (const std::string& name : names) {
    const Result<std::string> path = dump_source(make_request(name, "source"));
    ASSERT_TRUE(path.ok()) << path.status().to_string();
    EXPECT_EQ(std::filesystem::path(*path).parent_path(), folder.path());
    EXPECT_EQ(slurp(*path), "source");
  }
  EXPECT_EQ(names_in(folder.path()).size(), std::size(names));
}

TEST(DumpSource, OnlyThisUserMayReadIt) {
  const TemporaryFolder folder;
  const Environment dump("LSSAR_DUMP_DIR", folder.path().c_str());
  const Result<std::string> path = dump_source(make_request("secret", "source"));
  ASSERT_TRUE(path.ok()) << path.status().to_string();
  struct stat info;
  ASSERT_EQ(::stat(path->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(JoinOptions, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(join_options({"-a", "b c", ""}), "-a 'b c' ''");
}

}  // namespace
}  // namespace lssar
