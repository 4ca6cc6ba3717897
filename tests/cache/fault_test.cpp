// Every system call of the cache fails, one after the other, with every likely error. Nothing
// crashes, every request gets the right bytes, and files on disk are complete.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "cache/entry.h"
#include "cache/maintenance.h"
#include "cache/open_store.h"
#include "cache/pack.h"
#include "tests/cache/fake_file_system.h"
#include "tests/cache/faulty_calls.h"
#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

constexpr int64_t kHourNs = 3'600'000'000'000;

std::string key_of(const std::string& name) { return CacheKeyBuilder().add("name", name).hex(); }

Sha256Digest digest_of(const std::string& name) {
  Sha256Digest digest = {};
  EXPECT_TRUE(from_hex(key_of(name), &digest));
  return digest;
}

CacheEntry entry_of(const std::string& name) {
  return {R"({"kernel": ")" + name + "\"}", name + std::string(2000, 'p') + name};
}

// In memory if there is such a folder, because thousands of files are made and removed.
std::string parent_folder() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir();
}

// The initial state of a run: a pack, a shared directory, and a cache with a good entry, a damaged
// one, an unused one, and what a crashed writer left.
class Scene {
 public:
  Scene() {
    write_pack(pack(), {"packed"});
    open_store({.directory = folder_ / "shared", .layers = {"none"}, .lock_timeout_ms = 0}, fs_)
        ->insert(key_of("shared"), entry_of("shared"));
    const auto store =
        open_store({.directory = directory(), .layers = {"none"}, .lock_timeout_ms = 0}, fs_);
    for (const char* name : {"warm", "unused"}) store->insert(key_of(name), entry_of(name));
    spill(directory() + "/entries/" + key_of("damaged"), "not an entry");
    spill(directory() + "/tmp/left-behind.lssar", "part of an en");
    fs_.clock_offset_ns = 2 * kHourNs;  // existing files are old: stamped, swept, evicted
  }

  std::string directory() const { return folder_ / "cache"; }
  std::string pack() const { return folder_ / "kernels.pack"; }
  FileSystem& fs() { return fs_; }

  static void write_pack(const std::string& path, const std::vector<std::string>& names) {
    Result<PackWriter> writer = PackWriter::create(path);
    ASSERT_TRUE(writer.ok());
    for (const std::string& name : names) {
      const auto bytes = encode_entry(digest_of(name), entry_of(name));
      ASSERT_TRUE(bytes.ok() && writer->add(digest_of(name), *bytes).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
  }

  std::unique_ptr<Store> open() {
    return open_store({.directory = directory(),
                       .max_bytes = 8192,
                       .layers = {pack(), folder_ / "shared"},
                       .lock_timeout_ms = 3'600'000,  // a failing lock must not be waited for
                       .lock_directory = folder_ / "locks"},
                      fs_);
  }

  // Everything that a store is asked for. Returns what was wrong.
  std::string run() {
    const auto store = open();
    for (const char* name : {"packed", "shared", "warm", "damaged", "cold"}) {
      if (const std::string wrong = get(*store, name); !wrong.empty()) return wrong;
    }
    if (store->find(key_of("absent")) != nullptr) return "an absent entry was found";
    store->insert(key_of("more"), entry_of("more"));
    return get(*open(), "cold");
  }

  // Every file in entries/ is a complete entry of its key, or was damaged before.
  void expect_whole_entries() const {
    for (const std::string& name : names_in(directory() + "/entries")) {
      Sha256Digest key;
      ASSERT_TRUE(from_hex(name, &key)) << name;
      const std::string bytes = slurp(directory() + "/entries/" + name);
      CacheEntry entry;
      DecodeFailure failure;
      EXPECT_TRUE(decode_entry(bytes, key, &entry, &failure) || bytes == "not an entry")
          << failure.reason;
    }
  }

 private:
  static std::string get(Store& store, const std::string& name) {
    const auto found = store.get_or_compute(
        key_of(name), [&]() -> Result<CacheEntry> { return entry_of(name); }, nullptr);
    if (!found.ok()) return name + ": " + found.status().to_string();
    const CacheEntry right = entry_of(name);
    const bool is_right =
        (*found)->payload == right.payload && (*found)->metadata == right.metadata;
    return is_right ? "" : name + " has the wrong bytes";
  }

  const TemporaryFolder folder_{parent_folder()};
  FakeFileSystem fs_;
};

TEST(FaultyCalls, SeeEveryKindOfCallThatTheCacheMakes) {
  Scene scene;
  arm_faults(Fault::kNone, 0, 0);
  EXPECT_EQ(scene.run(), "");
  const std::vector<std::string> calls = disarm_faults();
  EXPECT_EQ(std::set<std::string>(calls.begin(), calls.end()),
            (std::set<std::string>{"open", "close", "pread", "write", "fsync", "rename", "unlink",
                                   "mkdir", "lstat", "fstat", "fstatat", "statfs", "utimensat",
                                   "fcntl", "opendir", "readdir"}));
}

struct FaultCase {
  const char* name;
  int error;
};
void PrintTo(const FaultCase& c, std::ostream* out) { *out << c.name; }

class Faults : public ::testing::TestWithParam<std::tuple<FaultCase, Fault>> {
 protected:
  // Runs `body(scene)` with the fault at call 0, 1, 2, ... until a run makes fewer calls; after
  // each of them `check(scene)`.
  template <typename Body, typename Check>
  void at_every_call(const Body& body, const Check& check) {
    const auto& [error, fault] = GetParam();
    for (int call = 0;; ++call) {
      Scene scene;
      arm_faults(fault, call, error.error);
      const std::string wrong = body(scene);
      const std::vector<std::string> calls = disarm_faults();
      const bool was_reached = static_cast<int>(calls.size()) > call;
      const std::string at =
          std::string(was_reached ? calls[call] : "no") + " call, number " + std::to_string(call);
      ASSERT_EQ(wrong, "") << at;
      check(scene);
      ASSERT_FALSE(HasFailure()) << at;
      if (was_reached) continue;
      EXPECT_GT(call, 10) << "the run made hardly any call";
      return;
    }
  }
};

TEST_P(Faults, AtAnyCallCostNoRequest) {
  at_every_call([](Scene& scene) { return scene.run(); },
                [](Scene& scene) {
                  scene.expect_whole_entries();
                  EXPECT_EQ(scene.run(), "") << "afterwards";
                });
}

TEST_P(Faults, AtAnyCallOfAnExportLeaveTheOldPackOrTheNewOne) {
  std::string before;
  at_every_call(
      [&](Scene& scene) {
        before = slurp(scene.pack());
        const auto source = EntrySource::open(scene.fs(), scene.directory());
        if (source.ok()) (void)export_pack(**source, scene.pack());
        return "";
      },
      [&](Scene& scene) {
        if (slurp(scene.pack()) == before) return;
        const Result<PackFile> pack = PackFile::open(scene.pack());
        ASSERT_TRUE(pack.ok()) << pack.status().to_string();
        for (const PackEntry& packed : pack->entries()) {
          const Result<std::string> bytes = pack->bytes(packed);
          CacheEntry entry;
          DecodeFailure failure;
          ASSERT_TRUE(bytes.ok() && decode_entry(*bytes, packed.key, &entry, &failure));
        }
      });
}

TEST_P(Faults, AtAnyCallOfAnImportLeaveWholeEntries) {
  at_every_call(
      [](Scene& scene) {
        std::string problem;
        const auto source = EntrySource::open(scene.fs(), scene.pack());
        const auto directory = DiskLayer::open(scene.fs(), scene.directory(), 0, &problem);
        if (source.ok() && directory) (void)import_entries(**source, scene.fs(), *directory);
        return "";
      },
      [](Scene& scene) {
        scene.expect_whole_entries();
        EXPECT_EQ(scene.run(), "") << "afterwards";
      });
}

INSTANTIATE_TEST_SUITE_P(
    Errors, Faults,
    ::testing::Combine(::testing::Values(FaultCase{"ENOSPC", ENOSPC}, FaultCase{"EROFS", EROFS},
                                         FaultCase{"ESTALE", ESTALE}, FaultCase{"EBUSY", EBUSY},
                                         FaultCase{"EACCES", EACCES}, FaultCase{"EIO", EIO},
                                         FaultCase{"EMFILE", EMFILE}),
                       ::testing::Values(Fault::kOnce, Fault::kFromThen, Fault::kLateOnce)),
    [](const auto& suite) {
      const Fault fault = std::get<1>(suite.param);
      return std::string(std::get<0>(suite.param).name) + (fault == Fault::kOnce       ? "Once"
                                                           : fault == Fault::kFromThen ? "FromThen"
                                                                                       : "TooLate");
    });

TEST(FaultyCalls, TransfersOfAFewBytesWithInterruptionsLoseNothing) {
  Scene scene;
  arm_short_transfers(7);
  EXPECT_EQ(scene.run(), "");
  const auto source = EntrySource::open(scene.fs(), scene.directory());
  ASSERT_TRUE(source.ok());
  EXPECT_TRUE(export_pack(**source, scene.pack()).ok());
  disarm_faults();
  scene.expect_whole_entries();
  EXPECT_EQ(scene.run(), "");
}

}  // namespace
}  // namespace lssar
