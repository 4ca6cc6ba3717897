// Files that a user names: what stands at the path decides how it is written.
#include "base/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tests/cache/temporary_folder.h"

namespace lssar {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct stat info_of(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
  return info;
}

unsigned mode_of(const std::string& path) { return info_of(path).st_mode & 07777; }

class OutputFileTest : public testing::Test {
 protected:
  std::string make(const std::string& name, const std::string& bytes, mode_t mode) {
    spill(folder_ / name, bytes);
    ::chmod((folder_ / name).c_str(), mode);
    return folder_ / name;
  }
  std::string link(const std::string& name, const std::string& target) {
    EXPECT_EQ(::symlink(target.c_str(), (folder_ / name).c_str()), 0);
    return folder_ / name;
  }
  // What write_output_file says, which must be an I/O error and leave nothing.
  std::string refusal(const std::string& path, const OutputOptions& options = {}) {
    const std::vector<std::string> before = names_in(folder_.path());
    EXPECT_EQ(check_output_file(path, options).code(), StatusCode::kIoError) << path;
    const Status status = write_output_file(path, "new", options);
    EXPECT_EQ(status.code(), StatusCode::kIoError) << path;
    EXPECT_EQ(names_in(folder_.path()), before);
    return status.message();
  }

  TemporaryFolder folder_;
};

TEST_F(OutputFileTest, ANewFileHasTheModeOfTheUmask) {
  const mode_t before = ::umask(027);
  EXPECT_TRUE(write_output_file(folder_ / "a", "new").ok());
  EXPECT_TRUE(write_output_file(folder_ / "b", "new", {.mode = 0600}).ok());
  ::umask(before);
  EXPECT_EQ(slurp(folder_ / "a"), "new");
  EXPECT_EQ(mode_of(folder_ / "a"), 0640u);
  EXPECT_EQ(mode_of(folder_ / "b"), 0600u);
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a", "b"));
}

TEST_F(OutputFileTest, AnOldFileIsReplacedAndKeepsItsMode) {
  const std::string path = make("a", "old", 0764);
  const ino_t before = info_of(path).st_ino;
  ASSERT_TRUE(write_output_file(path, "new").ok());
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(mode_of(path), 0764u);
  EXPECT_NE(info_of(path).st_ino, before);
  ASSERT_TRUE(write_output_file(path, "newer", {.mode = 0600}).ok());
  EXPECT_EQ(mode_of(path), 0700u);  // no more than its kind may have
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("a"));
}

TEST_F(OutputFileTest, AnOldFileKeepsItsOwner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = make("a", "old", 0644);
  ASSERT_EQ(::chown(path.c_str(), 12345, 23456), 0);
  ASSERT_TRUE(write_output_file(path, "new").ok());
  EXPECT_EQ(info_of(path).st_uid, 12345u);
  EXPECT_EQ(info_of(path).st_gid, 23456u);
}

TEST_F(OutputFileTest, WhatIsNotCommittedLeavesTheOldFile) {
  const std::string path = make("a", "old", 0600);
  {
    Result<OutputFile> file = OutputFile::open(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->append("half").ok());
  }
  EXPECT_EQ(slurp(path), "old");
  EXPECT_THAT(names_in(folder_.path()), ElementsAre("a"));
}

TEST_F(OutputFileTest, AReadOnlyFileIsRespectedForRootToo) {
  const std::string path = make("a", "old", 0444);
  EXPECT_THAT(refusal(path), HasSubstr("'" + path + "' is read-only (mode 0444)"));
  EXPECT_THAT(refusal(link("to_a", path)), HasSubstr("is read-only (mode 0444)"));
  EXPECT_EQ(slurp(path), "old");
}

TEST_F(OutputFileTest, LinksAreResolvedAndStay) {
  std::filesystem::create_directory(folder_ / "sub");
  make("sub/a", "old", 0640);
  link("first", "second");
  link("second", "sub/a");
  ASSERT_TRUE(write_output_file(folder_ / "first", "new").ok());
  EXPECT_TRUE(S_ISLNK(info_of(folder_ / "first").st_mode));
  EXPECT_TRUE(S_ISLNK(info_of(folder_ / "second").st_mode));
  EXPECT_EQ(slurp(folder_ / "sub/a"), "new");
  EXPECT_EQ(mode_of(folder_ / "sub/a"), 0640u);
  EXPECT_THAT(names_in(folder_ / "sub"), ElementsAre("a"));
}

TEST_F(OutputFileTest, ADanglingLinkMakesWhatItNames) {
  std::filesystem::create_directory(folder_ / "sub");
  ASSERT_TRUE(write_output_file(link("here", "sub/there"), "new").ok());
  EXPECT_TRUE(S_ISLNK(info_of(folder_ / "here").st_mode));
  EXPECT_EQ(slurp(folder_ / "sub/there"), "new");
  EXPECT_THAT(refusal(link("nowhere", "missing/there")), HasSubstr(folder_ / "nowhere"));
}

TEST_F(OutputFileTest, ALinkToItselfIsAnError) {
  EXPECT_THAT(refusal(link("loop", "loop")), HasSubstr("Too many levels of symbolic links"));
}

TEST_F(OutputFileTest, AHardLinkKeepsTheOldFileUnderItsOtherNames) {
  make("a", "old", 0600);
  std::filesystem::create_hard_link(folder_ / "a", folder_ / "b");
  ASSERT_TRUE(write_output_file(folder_ / "a", "new").ok());
  EXPECT_EQ(slurp(folder_ / "a"), "new");
  EXPECT_EQ(slurp(folder_ / "b"), "old");
}

TEST_F(OutputFileTest, ADeviceIsWrittenThrough) {
  const std::string path = folder_ / "null";
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0)
    GTEST_SKIP() << "only root can make a device";
  EXPECT_TRUE(check_output_file(path).ok());
  for (const std::string& name : {path, link("to_null", path)}) {
    EXPECT_TRUE(write_output_file(name, "new").ok());
    EXPECT_TRUE(S_ISCHR(info_of(path).st_mode));
  }
  const std::string full = folder_ / "full";
  ASSERT_EQ(::mknod(full.c_str(), S_IFCHR | 0666, makedev(1, 7)), 0);
  const Status status = write_output_file(full, "new");
  EXPECT_EQ(status.code(), StatusCode::kIoError);
  EXPECT_THAT(status.message(), HasSubstr("'" + full + "': No space left on device"));
}

TEST_F(OutputFileTest, AFifoIsWrittenThrough) {
  const std::string path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = slurp(path); });
  EXPECT_TRUE(write_output_file(path, "new").ok());
  reader.join();
  EXPECT_EQ(read, "new");
  EXPECT_TRUE(S_ISFIFO(info_of(path).st_mode));
}

TEST_F(OutputFileTest, AFifoWhoseReaderLeavesIsAnErrorAndNoSignal) {
  const std::string path = folder_ / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::thread reader([&] { ::close(::open(path.c_str(), O_RDONLY)); });
  Result<OutputFile> file = OutputFile::open(path);
  reader.join();
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->append("new").message(), HasSubstr("Broken pipe"));
}

TEST_F(OutputFileTest, FoldersAndSocketsAreRefused) {
  std::filesystem::create_directory(folder_ / "sub");
  EXPECT_THAT(refusal(folder_ / "sub"), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(folder_ / "sub/"), HasSubstr("is a folder"));
  EXPECT_THAT(refusal(folder_ / "new/"), HasSubstr("names a folder"));
  EXPECT_THAT(refusal(folder_ / "missing/a"), HasSubstr("a': folder '" + (folder_ / "missing")));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ / "socket";
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(refusal(path), HasSubstr("is a socket"));
  EXPECT_EQ(write_output_file("", "new").code(), StatusCode::kInvalidArgument);
}

TEST_F(OutputFileTest, AFileThatMustBeNewIsNotReplaced) {
  const std::string path = make("a", "old", 0600);
  EXPECT_THAT(refusal(path, {.replaces = false}), HasSubstr("is there already"));
  ASSERT_TRUE(write_output_file(folder_ / "b", "new", {.replaces = false}).ok());
  EXPECT_EQ(slurp(folder_ / "b"), "new");
  // One that comes while ours is written wins.
  Result<OutputFile> file = OutputFile::open(folder_ / "c", {.replaces = false});
  ASSERT_TRUE(file.ok());
  make("c", "another's", 0600);
  EXPECT_EQ(file->commit().code(), StatusCode::kIoError);
  EXPECT_EQ(slurp(folder_ / "c"), "another's");
}

TEST_F(OutputFileTest, ANameOfOurOwnFollowsNoLink) {
  const std::string target = make("a", "old", 0600);
  ASSERT_TRUE(write_output_file(link("b", target), "new", {.is_own_name = true}).ok());
  EXPECT_EQ(slurp(target), "old");
  EXPECT_TRUE(S_ISREG(info_of(folder_ / "b").st_mode));
}

TEST_F(OutputFileTest, SeveralFilesAreAllWrittenOrNone) {
  const std::string first = make("a", "old", 0600);
  const auto both = [&](const std::string& second) -> Status {
    std::vector<OutputFile> files;
    for (const std::string& path : {first, second}) {
      LSSAR_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path));
      LSSAR_RETURN_IF_ERROR(file.append("new"));
      files.push_back(std::move(file));
    }
    return commit_all(std::move(files));
  };
  EXPECT_FALSE(both(folder_.path()).ok());
  EXPECT_EQ(slurp(first), "old");
  EXPECT_TRUE(both(folder_ / "b").ok());
  EXPECT_EQ(slurp(first) + slurp(folder_ / "b"), "newnew");
  EXPECT_THAT(names_in(folder_.path()), UnorderedElementsAre("a", "b"));
}

// Opened anew, /proc/self/fd/N of a file begins at its beginning: what lay there would be lost.
TEST_F(OutputFileTest, ALinkToAnOpenFileGoesOnBehindWhatIsThere) {
  const FileDescriptor open(::open((folder_ / "a").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(open.get(), "before ", 7), 7);
  const std::string path = "/proc/self/fd/" + std::to_string(open.get());
  EXPECT_FALSE(is_standard_output(path));
  EXPECT_TRUE(write_output_file(path, "after").ok());
  EXPECT_EQ(slurp(folder_ / "a"), "before after");
  EXPECT_TRUE(is_standard_output("-"));
  EXPECT_TRUE(is_standard_output("/dev/stdout"));
}

}  // namespace
}  // namespace lssar
