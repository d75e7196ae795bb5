// SPDX-License-Identifier: BSD-3-Clause
// The ledger on a disk: what was decided is decided in the next process, one process has it, and a disk that fails is believed.
#include "actors/journal/durable_ledger.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
namespace ledger = protocols::ledger;
namespace raft = protocols::raft;
using testing::HasSubstr;

ledger::submitted job_of(std::uint64_t number, std::size_t size = 8) {
  return {number, true, ledger::bytes(size, std::byte{7})};
}

class DurableLedger : public testing::Test {
protected:
  DurableLedger() { fs::remove_all(folder); }
  ~DurableLedger() override { fs::remove_all(folder); }

  std::string refusal() const {
    try {
      const durable_ledger opened(folder);
    } catch (const std::runtime_error& wrong) {
      return wrong.what();
    }
    return "";
  }
  std::string segment() const {
    for (const auto& each : fs::directory_iterator(folder))
      if (each.path().filename().string().starts_with("journal-"))
        return each.path();
    return "";
  }
  /// In a process of its own: whether all went as it should there.
  static bool child_does(const std::function<bool()>& does) {
    const pid_t id = ::fork();
    if (id == 0)
      ::_exit(does() ? 0 : 1);
    int status = 0;
    ::waitpid(id, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

  const std::string folder = testing::TempDir() + fmt::format("ledger-of-{}", ::getpid());
};

TEST_F(DurableLedger, BeginsWithWhatWasDecidedBefore) {
  ledger::state known;
  {
    durable_ledger made(folder);
    EXPECT_EQ(made.state(), ledger::state{});
    EXPECT_EQ(made.decide(job_of(1)), "");
    EXPECT_EQ(made.decide(job_of(2)), "");
    EXPECT_EQ(made.decide(ledger::started{1, 1, {"a", "b"}}), "");
    EXPECT_EQ(made.decide(ledger::ended{1, ledger::ending::done, "made 60 steps", {}}), "");
    known = made.state();
    EXPECT_EQ(known.jobs.size(), 2U);
    EXPECT_EQ(known.jobs.at(1).life, 1U);
  }
  for (int begun = 0; begun < 3; ++begun) { // each begins a term of its own
    durable_ledger again(folder);
    EXPECT_EQ(again.state(), known);
    EXPECT_EQ(again.torn_bytes(), 0U);
  }
  durable_ledger last(folder);
  EXPECT_EQ(last.decide(job_of(3)), "");
  EXPECT_EQ(last.state().last, 3U);
}

TEST_F(DurableLedger, ASnapshotTakesThePlaceOfALongLog) {
  ledger::state known;
  {
    durable_ledger made(folder);
    for (std::uint64_t number = 1; number <= 30; ++number) { // far more than its log may have
      ASSERT_EQ(made.decide(job_of(number, 100'000)), "");
      ASSERT_EQ(made.decide(ledger::ended{number, ledger::ending::done, {}, {}}), "");
      ASSERT_EQ(made.decide(ledger::forgotten{number}), "");
    }
    known = made.state();
  }
  EXPECT_NE(segment(), folder + "/journal-1");
  EXPECT_LT(fs::file_size(segment()), 2U << 20U);
  EXPECT_EQ(durable_ledger(folder).state(), known);
  EXPECT_EQ(known.last, 30U);
}

TEST_F(DurableLedger, WhatHasNoRoomIsRefusedAndNothingElse) {
  durable_ledger made(folder);
  EXPECT_THAT(made.decide(job_of(1, ledger::most_bytes)), HasSubstr("the queue is full"));
  EXPECT_EQ(made.decide(job_of(2)), "");
  EXPECT_EQ(made.state().jobs.size(), 1U);
}

TEST_F(DurableLedger, OneProcessHasItAtATime) {
  {
    const durable_ledger first(folder);
    EXPECT_THAT(refusal(),
                HasSubstr("another process has this journal; end that one, or give this coordinator a folder of its own"));
    EXPECT_TRUE(child_does([&] { return refusal().find("another process has this journal") != std::string::npos; }));
  }
  EXPECT_EQ(refusal(), "");
}

TEST_F(DurableLedger, AProcessThatIsKilledLetsGoOfIt) {
  EXPECT_FALSE(child_does([&] {
    durable_ledger made(folder);
    static_cast<void>(made.decide(job_of(1)));
    ::raise(SIGKILL);
    return true;
  }));
  EXPECT_EQ(durable_ledger(folder).state().jobs.size(), 1U);
}

TEST_F(DurableLedger, DamageIsNamedWithFileAndOffset) {
  {
    durable_ledger made(folder);
    for (std::uint64_t number = 1; number <= 3; ++number)
      static_cast<void>(made.decide(job_of(number, 100)));
  }
  const auto path = segment();
  const auto middle = fs::file_size(path) / 2;
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(middle));
  file.put('\xee').put('\xee').put('\xee');
  file.close();
  EXPECT_THAT(refusal(), HasSubstr(path + ": damaged at byte "));
  EXPECT_THAT(refusal(), HasSubstr("put back a copy"));
}

TEST_F(DurableLedger, ADiskThatIsFullIsFinal) {
  EXPECT_TRUE(child_does([&] {
    durable_ledger made(folder);
    if (!made.decide(job_of(1)).empty())
      return false;
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit tight{fs::file_size(segment()) + 100, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    const auto throws = [&](std::uint64_t number) {
      try {
        static_cast<void>(made.decide(job_of(number, 1000)));
      } catch (const std::runtime_error& wrong) {
        return std::string(wrong.what()).find("journal-1: ") != std::string::npos;
      }
      return false;
    };
    const bool full = throws(2);
    const rlimit wide{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &wide);
    return full && throws(3) && made.state().last == 1; // room or not
  }));
  durable_ledger again(folder);
  EXPECT_EQ(again.state().last, 1U);
  EXPECT_GT(again.torn_bytes(), 0U);
  EXPECT_EQ(again.decide(job_of(2)), "");
}

/// Three members, whose messages arrive at once.
class Council : public DurableLedger {
protected:
  static constexpr std::uint32_t all = 3;
  const std::vector<std::string> names{"a", "b", "c"};
  std::vector<std::unique_ptr<durable_ledger>> members{all};
  protocols::nanoseconds now = 0;

  std::unique_ptr<durable_ledger> open_member(std::uint32_t self, const std::vector<std::string>& of) const {
    return std::make_unique<durable_ledger>(fmt::format("{}/{}", folder, self),
                                            raft::options{.self = {self}, .members = {{0}, {1}, {2}}, .seed = 5}, of, now);
  }
  void open(std::uint32_t self) { members[self] = open_member(self, names); }
  void deliver(durable_ledger::messages out) {
    for (std::size_t i = 0; i < out.size(); ++i) // what is answered comes last
      if (auto& to = members[out[i].to.value])
        for (auto& more : to->on(raft::message(out[i]), now))
          out.push_back(std::move(more));
  }
  void pass(protocols::nanoseconds time) {
    for (const auto end = now + time; now < end; now += 10'000'000)
      for (auto& each : members)
        if (each)
          deliver(each->on(raft::tick{}, now));
  }
  durable_ledger* leader() {
    for (auto& each : members)
      if (each && each->member().role == raft::role::leader)
        return each.get();
    return nullptr;
  }
};

TEST_F(Council, WhatAMajorityHasIsDecidedAndOutlivesTheLeader) {
  for (std::uint32_t i = 0; i < all; ++i)
    open(i);
  pass(5'000'000'000);
  ASSERT_NE(leader(), nullptr);
  deliver(leader()->propose(job_of(1), now));
  EXPECT_EQ(leader()->state().jobs.size(), 1U);
  pass(1'000'000'000);
  for (const auto& each : members)
    EXPECT_EQ(each->state(), leader()->state());
  for (auto& each : members)
    if (each.get() == leader()) {
      each.reset();
      break;
    }
  pass(5'000'000'000);
  ASSERT_NE(leader(), nullptr);
  EXPECT_EQ(leader()->state().last, 1U);
  deliver(leader()->propose(job_of(2), now));
  EXPECT_EQ(leader()->state().last, 2U);
}

TEST_F(Council, OneAloneDecidesNothing) {
  open(1);
  pass(5'000'000'000);
  EXPECT_EQ(leader(), nullptr);
  EXPECT_TRUE(members[1]->propose(job_of(1), now).empty());
  EXPECT_EQ(members[1]->state(), ledger::state{});
}

TEST_F(Council, AJournalIsOfItsMembers) {
  for (std::uint32_t i = 0; i < all; ++i)
    open(i);
  pass(5'000'000'000);
  members.clear();
  members.resize(all);
  const auto why_not = [&](const std::vector<std::string>& of) -> std::string {
    try {
      static_cast<void>(open_member(0, of));
    } catch (const std::runtime_error& wrong) {
      return wrong.what();
    }
    return "";
  };
  EXPECT_THAT(why_not({"a", "b", "d"}), HasSubstr("this journal is of other coordinators"));
  EXPECT_THAT(why_not({}), HasSubstr("this journal is of other coordinators"));
  EXPECT_EQ(why_not(names), "");
}

TEST_F(DurableLedger, AFolderThatIsNoneIsNamed) {
  std::ofstream(folder) << "a file";
  EXPECT_THAT(refusal(), HasSubstr(folder));
}

} // namespace
} // namespace troupe::actors
