// SPDX-License-Identifier: BSD-3-Clause
// What a node finds at the paths of a job's data, whatever is there.
#include "actors/node/probe.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tensor/data/byte_source.hpp"

namespace troupe::actors {
namespace {

class Probe : public testing::Test {
protected:
  std::filesystem::path folder;

  Probe() {
    std::string name = std::filesystem::temp_directory_path() / "troupe-probe-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no folder for the test: " + name);
    folder = name;
  }
  ~Probe() override { std::filesystem::remove_all(folder); }

  /// A file without blocks on the disk.
  std::filesystem::path hollow(std::uint64_t bytes) const {
    auto path = folder / "hollow";
    std::ofstream{path};
    std::filesystem::resize_file(path, bytes);
    return path;
  }
  static file_probe look(const std::filesystem::path& at, const std::stop_token& ends = {}) {
    const auto seen = look_around({.data = {.source = "csv", .path = at.string()}}, ends);
    return seen.files.at(0);
  }
};

TEST_F(Probe, AFileHasItsSizeAndDigest) {
  std::ofstream{folder / "abc"} << "abc";
  const auto seen = look(folder / "abc");
  EXPECT_EQ(seen.wrong, "");
  EXPECT_EQ(seen.bytes, 3U);
  EXPECT_EQ(seen.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); // FIPS 180-2, appendix B.1
}

TEST_F(Probe, WhatIsNoRegularFileIsNotOpened) {
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(look(folder / "pipe").wrong, "is no regular file") << "nobody writes to it";
  EXPECT_EQ(look("/dev/zero").wrong, "is no regular file") << "it has no end";
  EXPECT_EQ(look(folder).wrong, "is a folder");
  EXPECT_EQ(look(folder / "nothing").wrong, "No such file or directory");
}

TEST_F(Probe, AFileThatNoJobWouldReadIsNotRead) {
  const auto seen = look(hollow(max_data_bytes + 1));
  EXPECT_EQ(seen.wrong, "has more than 4294967296 bytes, the most that is read");
  EXPECT_EQ(seen.bytes, 0U);
  EXPECT_EQ(seen.sha256, "");
}

TEST_F(Probe, OfAHugeTextThatStaysOnTheDiskPartsAreRead) {
  const auto path = hollow(2 * max_data_bytes + 5);
  const auto look_at = [&] { return look_around({.data = {.source = "text", .path = path.string()}}).files.at(0); };
  const auto seen = look_at();
  EXPECT_EQ(seen.wrong, "");
  EXPECT_EQ(seen.bytes, 2 * max_data_bytes + 5);
  std::fstream{path, std::ios::in | std::ios::out}.seekp(33 << 20).put('x'); // of 33 blocks the first is read
  EXPECT_NE(look_at().sha256, seen.sha256);
}

TEST_F(Probe, ALookThatIsToldToStopStops) {
  std::stop_source ends;
  ends.request_stop();
  const auto seen = look(hollow(max_data_bytes), ends.get_token());
  EXPECT_EQ(seen.wrong, "was not read to its end: the node ends");
  EXPECT_EQ(seen.bytes, 0U);
}

TEST_F(Probe, WhoSharesAFolderSeesItsMark) {
  const auto one = look_at_folder(folder / "made" / "one"), again = look_at_folder(folder / "made" / "one"),
             other = look_at_folder(folder / "other");
  EXPECT_EQ(one.wrong, "");
  EXPECT_EQ(one.mark.size(), 16U);
  EXPECT_EQ(fault_of(again, one, "a"), "");
  EXPECT_EQ(fault_of(other, one, "a"),
            "checkpoint.dir = \"" + other.path + "\" is another folder than node a's; name one that all nodes share");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "other"), {}), 1) << "only the mark stays";
}

TEST_F(Probe, AFolderThatCannotBeWrittenIsNamedWithItsReason) {
  std::ofstream{folder / "file"};
  for (const auto& at : {std::filesystem::path("/proc/kept"), folder / "file", folder / "file" / "below"}) {
    const auto seen = look_at_folder(at);
    EXPECT_TRUE(seen.wrong.starts_with(at.string()) || seen.wrong.starts_with(at.parent_path().string())) << seen.wrong;
    EXPECT_EQ(fault_of(seen, seen, "a"), "checkpoint.dir: " + seen.wrong + "; let it be a folder that this node can write");
    EXPECT_NE(why_not_writable(at), "") << at;
  }
}

TEST_F(Probe, AskingWhetherAFolderCouldBeMadeLeavesNothing) {
  EXPECT_EQ(why_not_writable(folder / "a" / "b"), "");
  EXPECT_EQ(why_not_writable(folder), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

} // namespace
} // namespace troupe::actors
