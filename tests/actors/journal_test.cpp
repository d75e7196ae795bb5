// SPDX-License-Identifier: BSD-3-Clause
// The journal on a disk: what was acknowledged is read again, a torn end is cut, and damage is named.
#include "actors/journal/journal.hpp"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/checkpoint/crc32c.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
namespace raft = protocols::raft;
using testing::ElementsAre;
using testing::HasSubstr;

raft::persist vote_of(std::uint64_t term, std::uint32_t who) {
  raft::persist out;
  out.term = {term};
  out.vote = {{who}};
  return out;
}
raft::persist entry_of(std::uint64_t index, std::uint64_t term, std::size_t words = 2) {
  raft::persist out = vote_of(term, 0);
  out.entries.push_back({{index}, {term}, raft::payload(words, index)});
  return out;
}
raft::persist snapshot_of(std::uint64_t index, std::uint64_t term) {
  raft::persist out = vote_of(term, 0);
  out.snapshot = raft::snapshot{{index}, {term}, {index}};
  return out;
}

class Journal : public testing::Test {
protected:
  Journal() { fs::remove_all(folder); }
  ~Journal() override { fs::remove_all(folder); }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(folder))
      out.push_back(each.path().filename());
    std::ranges::sort(out);
    return out;
  }
  std::string segment(int number = 1) const { return fmt::format("{}/journal-{}", folder, number); }
  static std::string bytes_of(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void overwrite(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  std::string refusal() const {
    try {
      const journal opened(folder);
    } catch (const std::runtime_error& wrong) {
      return wrong.what();
    }
    return "";
  }
  /// What is there after each write of a journal with three frames besides the first, and where each frame ends.
  struct prefix {
    std::size_t end;
    raft::stored contents;
  };
  std::vector<prefix> write_four() {
    std::vector<prefix> out;
    journal made(folder);
    out.push_back({fs::file_size(segment()), made.contents()});
    for (const auto& each : {vote_of(1, 2), entry_of(1, 2), entry_of(2, 2)}) {
      made.write(each);
      out.push_back({fs::file_size(segment()), made.contents()});
    }
    return out;
  }
  /// In a process of its own: whether all went as it should there.
  static bool child(const std::function<bool()>& does) {
    const pid_t id = ::fork();
    if (id == 0)
      ::_exit(does() ? 0 : 1);
    int status = 0;
    ::waitpid(id, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  const std::string folder = testing::TempDir() + fmt::format("journal-of-{}", ::getpid());
};

TEST_F(Journal, IsReadAsItWasWritten) {
  {
    journal made(folder);
    EXPECT_EQ(made.contents(), raft::stored{});
    made.write(vote_of(3, 1));
    made.write(entry_of(1, 3));
    made.write(entry_of(2, 3, 0));
    made.write(entry_of(2, 4, 10'000));
  }
  const journal read(folder);
  EXPECT_EQ(read.contents().term.value, 4U);
  EXPECT_EQ(read.contents().vote->value, 0U);
  ASSERT_EQ(read.contents().log.size(), 2U);
  EXPECT_EQ(read.contents().log[1], entry_of(2, 4, 10'000).entries[0]) << "in the place of what stood there";
  EXPECT_EQ(read.torn_bytes(), 0U);
  EXPECT_THAT(names(), ElementsAre("journal-1"));
}

TEST_F(Journal, ASnapshotBeginsASegmentAndEndsTheOneBefore) {
  {
    journal made(folder);
    made.write(entry_of(1, 3));
    made.write(entry_of(2, 3));
    auto half = snapshot_of(1, 3);
    half.entries = entry_of(2, 3).entries;
    made.write(half);
    EXPECT_EQ(made.segment(), segment(2));
    made.write(entry_of(3, 3));
  }
  EXPECT_THAT(names(), ElementsAre("journal-2"));
  {
    journal again(folder);
    EXPECT_EQ(again.contents().snapshot, *snapshot_of(1, 3).snapshot);
    EXPECT_EQ(again.contents().log.size(), 2U);
    again.write(snapshot_of(3, 3));
  }
  EXPECT_THAT(names(), ElementsAre("journal-3"));
  EXPECT_TRUE(journal(folder).contents().log.empty());
}

TEST_F(Journal, ACrashBetweenTwoSegmentsIsCleanedUp) {
  const auto all = write_four();
  const std::string old = bytes_of(segment());
  {
    journal open(folder);
    open.write(snapshot_of(2, 2));
  }
  overwrite(segment(), old);                                 // was not removed yet
  overwrite(folder + "/journal.new", old.substr(0, 20));     // was not whole yet
  overwrite(folder + "/journal-keys", "of somebody else's"); // is none of ours
  EXPECT_EQ(journal(folder).contents().snapshot, *snapshot_of(2, 2).snapshot);
  EXPECT_THAT(names(), ElementsAre("journal-2", "journal-keys"));
}

TEST_F(Journal, CutAnywhereItHasTheFramesThatAreWhole) {
  const auto all = write_four();
  const std::string whole = bytes_of(segment());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    overwrite(segment(), whole.substr(0, length));
    if (length < all[0].end) {
      EXPECT_THAT(refusal(), HasSubstr(segment() + ": damaged at byte ")) << length;
      EXPECT_EQ(fs::file_size(segment()), length) << "nothing is changed";
      continue;
    }
    const auto last = std::prev(std::ranges::find_if(all, [&](const prefix& each) { return each.end > length; }));
    journal cut(folder);
    EXPECT_EQ(cut.contents(), last->contents) << length;
    EXPECT_EQ(cut.torn_bytes(), length - last->end);
    EXPECT_EQ(fs::file_size(segment()), last->end) << "what is written next follows a whole frame";
    cut.write(vote_of(9, 9));
    EXPECT_EQ(journal(folder).contents().term.value, 9U);
  }
}

TEST_F(Journal, AFlippedByteIsDamageUnlessItMayBeATornEnd) {
  const auto all = write_four();
  const std::string whole = bytes_of(segment());
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bits : {0x01, 0x80}) {
      std::string bad = whole;
      bad[at] = static_cast<char>(bad[at] ^ bits);
      overwrite(segment(), bad);
      if (at >= all[2].end) {
        EXPECT_EQ(journal(folder).contents(), all[2].contents) << at;
        continue;
      }
      const std::size_t frame = at < 16 ? 0 : at < all[0].end ? 16 : at < all[1].end ? all[0].end : all[1].end;
      EXPECT_THAT(refusal(), HasSubstr(fmt::format("{}: damaged at byte {}: ", segment(), frame))) << at;
      EXPECT_EQ(bytes_of(segment()), bad) << "nothing is changed";
    }
}

TEST_F(Journal, ZerosAtTheEndAreATornEnd) {
  const auto all = write_four();
  overwrite(segment(), bytes_of(segment()) + std::string(4'096, '\0'));
  EXPECT_EQ(journal(folder).contents(), all[3].contents);
  EXPECT_EQ(fs::file_size(segment()), all[3].end);
}

TEST_F(Journal, WholeFramesThatDoNotFollowEachOtherAreDamage) {
  {
    journal made(folder);
    made.write(entry_of(1, 2));
    made.write(entry_of(3, 2)); // whoever writes that has lost one
  }
  EXPECT_THAT(refusal(), HasSubstr("its entries do not follow those before them"));
}

TEST_F(Journal, ANewerFormatIsRefusedByItsNumber) {
  write_four();
  std::string bytes = bytes_of(segment());
  bytes[8] = 2;
  overwrite(segment(), bytes);
  EXPECT_THAT(refusal(), HasSubstr("damaged at byte 0")) << "without its checksum it is damage";
  const std::uint32_t checksum = crc32c(std::as_bytes(std::span(bytes).first(12)));
  std::memcpy(bytes.data() + 12, &checksum, sizeof checksum);
  overwrite(segment(), bytes);
  EXPECT_THAT(refusal(), HasSubstr("of format 2, and this program reads up to 1"));
}

TEST_F(Journal, AFullDiskIsAnErrorAndFinalAndLosesNothing) {
  const auto all = write_four();
  const auto in_child = [&] {
    journal open(folder);
    const rlimit small{all[3].end + 100, all[3].end + 100};
    if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &small) != 0)
      return false;
    std::string first, second;
    try {
      open.write(entry_of(3, 2, 1'000));
    } catch (const std::runtime_error& wrong) {
      first = wrong.what();
    }
    try {
      open.write(vote_of(3, 1)); // would fit
    } catch (const std::runtime_error& wrong) {
      second = wrong.what();
    }
    return first == segment() + ": cannot write it: File too large"
           && second.find("a write has failed before") != std::string::npos && open.contents() == all[3].contents;
  };
  EXPECT_TRUE(child(in_child));
  EXPECT_EQ(fs::file_size(segment()), all[3].end + 100);
  const journal again(folder);
  EXPECT_EQ(again.contents(), all[3].contents);
  EXPECT_EQ(again.torn_bytes(), 100U);
}

TEST_F(Journal, AFullDiskAtASnapshotLeavesTheSegmentBefore) {
  const auto all = write_four();
  const auto in_child = [&] {
    journal open(folder);
    const rlimit small{50, 50};
    if (std::signal(SIGXFSZ, SIG_IGN) == SIG_ERR || ::setrlimit(RLIMIT_FSIZE, &small) != 0)
      return false;
    try {
      open.write(snapshot_of(2, 2));
    } catch (const std::runtime_error&) {
      return true;
    }
    return false;
  };
  EXPECT_TRUE(child(in_child));
  EXPECT_EQ(journal(folder).contents(), all[3].contents);
  EXPECT_THAT(names(), ElementsAre("journal-1"));
}

/// From now on this call of the system fails with EIO, in this process.
bool fail_call(unsigned call) {
  sock_filter rules[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (EIO & SECCOMP_RET_DATA)),
                         BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{4, rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(Journal, AFailedSyncIsFinal) {
  write_four();
  const auto in_child = [&] {
    journal open(folder);
    if (!fail_call(SYS_fdatasync))
      return false;
    for (const char* const words : {"cannot write it to the disk", "a write has failed before"})
      try {
        open.write(vote_of(3, 1));
        return false;
      } catch (const std::runtime_error& wrong) {
        if (std::string(wrong.what()).find(words) == std::string::npos)
          return false;
      }
    return true;
  };
  EXPECT_TRUE(child(in_child));
}

TEST_F(Journal, KilledAtAnyMomentItHasAllThatWasAcknowledged) {
  std::uint64_t most = 0;
  for (int round = 0; round < 30; ++round) {
    int acknowledged[2];
    ASSERT_EQ(::pipe(acknowledged), 0);
    const std::uint64_t before = fs::exists(folder) ? journal(folder).contents().last().value : 0;
    const pid_t id = ::fork();
    if (id == 0) {
      journal open(folder);
      for (std::uint64_t index = before + 1;; ++index) {
        if (index % 7 == 0)
          open.write(snapshot_of(index - 1, 1));
        open.write(entry_of(index, 1, 500 * (index % 50)));
        if (::write(acknowledged[1], &index, sizeof index) != sizeof index)
          ::_exit(1);
      }
    }
    ::close(acknowledged[1]);
    std::uint64_t last = before, index = 0;
    for (int count = 0; count <= round && ::read(acknowledged[0], &index, sizeof index) == sizeof index; ++count)
      last = index;
    ::kill(id, SIGKILL); // wherever it is now
    ::waitpid(id, nullptr, 0);
    while (::read(acknowledged[0], &index, sizeof index) == sizeof index)
      last = index;
    ::close(acknowledged[0]);
    const journal left(folder);
    const std::uint64_t has = left.contents().last().value;
    ASSERT_GE(has, last) << "round " << round;
    ASSERT_LE(has, last + 1);
    most = std::max(most, has);
  }
  EXPECT_GE(most, 30U);
}

} // namespace
} // namespace troupe::actors
