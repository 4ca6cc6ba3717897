// lssar cache: ls, stat, verify, prune, export, import.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cache/file_system.h"
#include "cache/store.h"
#include "tests/cache/temporary_folder.h"
#include "tests/command/command_runner.h"

namespace lssar {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string key_of(const std::string& name) { return CacheKeyBuilder().add("name", name).hex(); }

class CacheCommand : public ::testing::Test {
 protected:
  // What a kernel's entry says of itself, for the architecture `target`.
  void insert(const std::string& name, const std::string& target = "sm_80") {
    const nlohmann::json metadata = {{"kernel", "kernel_" + name},
                                     {"target", target},
                                     {"image", "cubin"},
                                     {"compiler", "nvrtc"},
                                     {"compiler_version", "13.0.48"}};
    Store::open({.directory = directory_, .layers = {"none"}})
        ->insert(key_of(name), {metadata.dump(), "payload of " + name});
  }
  std::string entry(const std::string& name) const {
    return directory_ + "/entries/" + key_of(name);
  }
  void age(const std::string& name, double days) const {
    FileSystem& fs = posix_file_system();
    ASSERT_TRUE(fs.stamp(entry(name), fs.now_ns() - static_cast<int64_t>(days * 86400e9)).ok());
  }
  CommandResult run(std::vector<std::string> arguments,
                    std::vector<std::string> environment = {}) const {
    arguments.insert(arguments.begin(), "cache");
    environment.push_back("LSSAR_CACHE_DIR=" + directory_);
    return command_.run(arguments, environment);
  }
  // What the command printed; it must have succeeded.
  std::string out(const std::vector<std::string>& arguments) const {
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  nlohmann::json json(std::vector<std::string> arguments, int exit_code = 0) const {
    arguments.emplace_back("--json");
    const CommandResult result = run(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  }
  static void expect_failure(const CommandResult& result, int exit_code, const std::string& text) {
    EXPECT_EQ(result.exit_code, exit_code) << result.out;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(result.err.rfind("lssar: ", 0), 0u) << result.err;
  }

  CommandRunner command_;
  const std::string directory_ = command_.path("kernels");
  const std::string pack_ = command_.path("kernels.pack");
};

TEST_F(CacheCommand, ListsEveryKernelTheLastUsedFirst) {
  insert("old");
  insert("new", "sm_90a");
  age("old", 2);
  const std::string text = out({"ls"});
  EXPECT_THAT(text, HasSubstr("kernel_old  sm_80 cubin  nvrtc 13.0.48"));
  EXPECT_LT(text.find("kernel_new"), text.find("kernel_old"));
  EXPECT_THAT(text, HasSubstr("2 entries"));
  const nlohmann::json rows = json({"ls"});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["key"], key_of("new"));
  EXPECT_EQ(rows[0]["target"], "sm_90a");
  EXPECT_EQ(rows[0]["payload_bytes"], std::string("payload of new").size());
  EXPECT_EQ(rows[1]["problem"], "");
}

TEST_F(CacheCommand, AStrangersTextMovesNoCursor) {
  insert("x\x1b]0;title\a\ny\xc2\x9b" "2J", "sm\r80");
  EXPECT_THAT(out({"ls"}), HasSubstr("kernel_x\\x1b]0;title\\x07\\ny\\u009b2J  sm\\x0d80 cubin"));
  EXPECT_THAT(out({"ls", "--json"}), HasSubstr("kernel_x\\u001b]0;title\\u0007\\ny\\u009b2J"));
}

TEST_F(CacheCommand, ListsAnEmptyCacheAndOneThatIsNotThereYet) {
  EXPECT_THAT(out({"ls"}), HasSubstr("0 entries"));
  EXPECT_EQ(json({"ls"}).size(), 0u);
}

TEST_F(CacheCommand, VerifyFindsWhatIsDamagedAndRemovesItWhenAsked) {
  insert("good");
  insert("bad");
  EXPECT_THAT(out({"verify"}), HasSubstr("2 good, 0 not good"));
  spill(entry("bad"), slurp(entry("bad")).substr(0, 50));
  const CommandResult found = run({"verify"});
  EXPECT_EQ(found.exit_code, 2);
  EXPECT_THAT(found.err, HasSubstr(key_of("bad") + ": the file is truncated"));
  EXPECT_THAT(out({"ls"}), HasSubstr("NOT GOOD: the file is truncated"));
  EXPECT_EQ(json({"verify"}, 2)["problems"][0]["key"], key_of("bad"));
  EXPECT_THAT(out({"verify", "--remove"}), HasSubstr("1 good, 1 not good, 1 removed"));
  EXPECT_FALSE(std::filesystem::exists(entry("bad")));
  EXPECT_THAT(out({"verify"}), HasSubstr("1 good, 0 not good"));
}

TEST_F(CacheCommand, VerifyLeavesTheEntriesOfAnotherVersion) {
  insert("other");
  std::string bytes = slurp(entry("other"));
  bytes[8] = 9;
  spill(entry("other"), bytes);
  EXPECT_EQ(run({"verify", "--remove"}).exit_code, 2);
  EXPECT_EQ(slurp(entry("other")), bytes);
}

TEST_F(CacheCommand, PruneKeepsTheLastUsedWithinTheSize) {
  for (const char* name : {"a", "b", "c"}) insert(name);
  age("a", 3);
  age("b", 1);
  age("c", 2);
  const nlohmann::json done = json({"prune", "--max-size", "5K"});  // an entry is one 4 KiB block
  EXPECT_EQ(done["removed"], 2);
  EXPECT_EQ(done["kept"], 1);
  EXPECT_TRUE(std::filesystem::exists(entry("b")));
  EXPECT_THAT(out({"prune"}), HasSubstr("0 entries and 0 temporaries removed"));
}

TEST_F(CacheCommand, PruneRemovesWhatWasNotUsedForLongAndCrashedWritersFiles) {
  for (const char* name : {"a", "b"}) insert(name);
  age("a", 31);
  age("b", 29);
  const std::string left = directory_ + "/tmp/left-behind.lssar";
  spill(left, "part");
  ASSERT_TRUE(posix_file_system().stamp(left, 0).ok());
  EXPECT_THAT(out({"prune", "--older-than", "30"}),
              HasSubstr("1 entries and 1 temporaries removed"));
  EXPECT_FALSE(std::filesystem::exists(entry("a")));
  EXPECT_TRUE(std::filesystem::exists(entry("b")));
}

TEST_F(CacheCommand, PruneKeepsWhatIsInUseUnlessAllIsSaid) {
  insert("a");
  EXPECT_EQ(json({"prune", "--max-size", "0"})["kept"], 1);
  EXPECT_EQ(json({"prune", "--all"})["kept"], 0);
  EXPECT_THAT(out({"ls"}), HasSubstr("0 entries"));
}

TEST_F(CacheCommand, ExportedKernelsAreImportedElsewhere) {
  for (const char* name : {"a", "b"}) insert(name);
  EXPECT_THAT(out({"export", pack_}), HasSubstr("2 entries"));
  EXPECT_THAT(out({"verify", pack_}), HasSubstr("2 good"));
  EXPECT_THAT(out({"ls", pack_}), HasSubstr("kernel_a  sm_80"));
  const std::string other = command_.path("other");
  std::filesystem::create_directory(other);
  ::chmod(other.c_str(), 0700);
  EXPECT_THAT(out({"--dir", other, "import", pack_}), HasSubstr("2 entries"));
  EXPECT_EQ(slurp(other + "/entries/" + key_of("a")), slurp(entry("a")));
  EXPECT_THAT(out({"--dir", other, "import", pack_}), HasSubstr("0 entries, 0 B, 2 were there"));
  EXPECT_THAT(out({"--dir", command_.path("third"), "import", other}), HasSubstr("2 entries"));
}

TEST_F(CacheCommand, TheSameKernelsMakeTheSamePack) {
  insert("a");
  insert("b");
  out({"export", pack_});
  const std::string first = slurp(pack_);
  age("b", 3);
  out({"export", pack_});
  EXPECT_EQ(slurp(pack_), first);
}

TEST_F(CacheCommand, ExportTakesOneTargetWhereAsked) {
  insert("a", "sm_80");
  insert("b", "sm_90a");
  EXPECT_THAT(out({"export", "--target", "sm_90a", pack_}), HasSubstr("1 entries"));
  const std::string text = out({"ls", pack_});
  EXPECT_THAT(text, HasSubstr("kernel_b"));
  EXPECT_THAT(text, Not(HasSubstr("kernel_a")));
}

TEST_F(CacheCommand, ExportLeavesOutWhatIsDamagedAndSaysSo) {
  insert("a");
  insert("b");
  spill(entry("a"),
        "not an entry at all, and long enough to have all of the fixed part"
        "........................................................");
  const nlohmann::json done = json({"export", pack_}, 2);
  EXPECT_EQ(done["copied"], 1);
  EXPECT_THAT(done["problems"][0], HasSubstr("does not begin with LSSARBIN"));
  EXPECT_THAT(out({"verify", pack_}), HasSubstr("1 good, 0 not good"));
}

TEST_F(CacheCommand, APackIsNeverChanged) {
  insert("a");
  out({"export", pack_});
  expect_failure(run({"verify", "--remove", pack_}), 2, "a pack is never changed");
}

TEST_F(CacheCommand, StatShowsTheLayersTheDirectoryAndTheLocks) {
  insert("a");
  out({"export", pack_});
  insert("b");
  const CommandResult text =
      run({"stat"}, {"LSSAR_CACHE_LAYERS=" + pack_ + ":" + command_.path("absent")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr(pack_ + ", pack, 1 entries"));
  EXPECT_THAT(text.out, HasSubstr("absent, not used: cannot open"));
  EXPECT_THAT(text.out, HasSubstr(directory_ + ", directory, 2 entries"));
  EXPECT_THAT(text.out, HasSubstr("locks"));
  const nlohmann::json state = json({"stat"});
  EXPECT_EQ(state["directory"]["entries"], 2);
  EXPECT_EQ(json({"stat", pack_})["kind"], "pack");
}

TEST_F(CacheCommand, AKernelOfALayerIsNotCompiled) {
  const std::vector<std::string> one = {"verify", "--head-dim", "32",       "--seq",  "32",
                                        "--p",    "1",          "--device", "virtual"};
  const std::string filled = command_.path("filled"), empty = command_.path("empty");
  const CommandResult compiled = command_.run(one, {"LSSAR_CACHE_DIR=" + filled});
  if (compiled.exit_code == 3) GTEST_SKIP() << compiled.err;
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  out({"--dir", filled, "export", pack_});
  const CommandResult again = command_.run(
      one, {"LSSAR_CACHE_DIR=" + empty, "LSSAR_CACHE_LAYERS=" + pack_, "LSSAR_LOG=debug"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("cache hit"));
  EXPECT_THAT(again.err, Not(HasSubstr("compiled")));
  EXPECT_THAT(again.err, Not(HasSubstr("cache miss")));
  EXPECT_TRUE(names_in(empty + "/entries").empty());
}

TEST_F(CacheCommand, ErrorsNameWhatIsAllowed) {
  expect_failure(run({}), 2, "allowed are ls, stat, verify, prune, export and import");
  expect_failure(run({"prune", "--max-size", "many"}), 2, "--max-size many: allowed are");
  expect_failure(run({"prune", "--max-size", "-1"}), 2, "--max-size -1: allowed are");
  expect_failure(run({"prune", "--max-size", "5X"}), 2, "--max-size 5X: allowed are");
  expect_failure(run({"prune", "--older-than", "-1"}), 2, "--older-than = -1: allowed are 0 and more");
  expect_failure(run({"export"}), 2, "PACK is required");
  expect_failure(run({"ls", command_.path("absent")}), 5, "No such file");
  expect_failure(run({"verify", command_.write("no.pack", "no pack")}), 5,
                 "no.pack' is not a usable pack: it is truncated");
  expect_failure(run({"export", command_.path("absent/kernels.pack")}), 5,
                 "kernels.pack': folder '" + command_.path("absent") + "': No such file");
  expect_failure(run({"import", command_.path("absent.pack")}), 5, "No such file");
  expect_failure(command_.run({"cache", "ls"}, {"LSSAR_CACHE_DIR=none"}), 3,
                 "no cache directory: LSSAR_CACHE_DIR is none");
}

TEST_F(CacheCommand, ADirectoryThatOthersCanWriteIsRefused) {
  insert("a");
  ::chmod(directory_.c_str(), 0777);
  for (const char* one : {"ls", "verify", "prune"}) {
    expect_failure(run({one}), 5, "group and others must not be able to write");
  }
}

}  // namespace
}  // namespace lssar
