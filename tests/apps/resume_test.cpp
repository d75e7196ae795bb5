// SPDX-License-Identifier: BSD-3-Clause
// Which checkpoint a run goes on from, and with which jobs it can.
#include "apps/resume.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "actors/checkpoint/job_facts.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::apps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t floats = 3;
constexpr std::int64_t train_samples = 200;
const std::string digits =
    "[data]\ntrain_samples = 200\n[model]\nlayers = [\"flatten\", \"linear 10\"]\n[optimizer]\nmomentum = 0.5\n"
    "[stop]\n";

config::loaded_job job_of(const std::string& text) {
  const config::testing::temporary_file file(text);
  return config::load_job(file.path()).value();
}

class Resume : public ::testing::Test {
protected:
  Resume() { std::filesystem::remove_all(dir_); }
  ~Resume() override { std::filesystem::remove_all(dir_); }

  std::string step(std::uint64_t number) const { return dir_ + "/" + actors::checkpoint_name({number}); }
  /// A checkpoint of one shard after `number` steps of 10 samples and half a second.
  void save(std::uint64_t number, const config::loaded_job& of) const {
    const std::vector<float> values(floats);
    const auto file = actors::write_shard_file(step(number), {.ver = {number}, .range = {0, floats}},
                                               std::vector<actors::named_block>{{"parameters", values}});
    actors::write_manifest(step(number), {.job = of.job.name,
                                          .facts = actors::checkpoint_facts(of.job),
                                          .ver = {number},
                                          .samples = number * 10,
                                          .training_ns = static_cast<std::int64_t>(number) * 500'000'000,
                                          .floats = floats,
                                          .files = {file}});
  }
  /// Cuts the last byte off a shard's file.
  void tear(std::uint64_t number) const {
    for (const auto& each : std::filesystem::directory_iterator(step(number)))
      if (each.path().filename() != "manifest")
        std::filesystem::resize_file(each.path(), each.file_size() - 1);
  }
  static std::vector<std::string> texts(const config::problems& all) {
    std::vector<std::string> out;
    for (const auto& each : all)
      out.push_back(each.message);
    return out;
  }
  /// What is wrong with going on with such a job from the newest checkpoint.
  std::vector<std::string> wrong_with(const std::string& job, std::uint64_t its_floats = floats) const {
    return texts(cannot_resume(job_of(job), find_checkpoint(dir_).value(), its_floats, train_samples));
  }

  const std::string dir_ =
      ::testing::TempDir() + "troupe-resume-" + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(Resume, OfAFolderTheNewestGoodOneIsTaken) {
  const auto job = job_of(digits + "steps = 100\n");
  for (const std::uint64_t number : {8, 20, 100})
    save(number, job);
  tear(100);
  const auto found = find_checkpoint(dir_ + "/");
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->folder, step(20));
  EXPECT_EQ(found->manifest.samples, 200U);
  EXPECT_THAT(texts(found->passed_over), ElementsAre(HasSubstr(step(100) + " cannot be used: ")));
}

TEST_F(Resume, OneThatIsNamedIsTakenOrRefused) {
  const auto job = job_of(digits + "steps = 100\n");
  save(8, job);
  save(20, job);
  EXPECT_EQ(find_checkpoint(step(8)).value().folder, step(8));
  EXPECT_EQ(find_checkpoint(step(8) + "/").value().folder, step(8));
  tear(20);
  EXPECT_THAT(find_checkpoint(step(20)).error().text(), HasSubstr("--resume: " + step(20) + " cannot be used: "));
  tear(8);
  EXPECT_EQ(find_checkpoint(dir_).error().all.size(), 2U);
}

TEST_F(Resume, WhatIsNotThereIsNamed) {
  EXPECT_EQ(find_checkpoint(dir_).error().text(),
            "--resume: there is no folder " + dir_ + "; name a checkpoint, or the checkpoint.dir of a run\n");
  std::filesystem::create_directory(dir_);
  EXPECT_EQ(find_checkpoint(dir_).error().text(), "--resume: " + dir_ + " has no checkpoint, such as " + dir_ + "/step-100\n");
  EXPECT_THAT(find_checkpoint(step(8)).error().text(), HasSubstr("there is no folder " + step(8)));
}

TEST_F(Resume, TheLearningRateAndTheClusterMayDiffer) {
  save(8, job_of(digits + "steps = 9\n"));
  EXPECT_THAT(wrong_with("[cluster]\nworkers = 3\nshards = 2\n[evaluate]\nevery_s = 2\n" + digits + "epochs = 0.5\n"),
              ElementsAre());
  std::string other = digits;
  other.replace(other.find("momentum"), 0, "lr = 0.5\nschedule = \"step\"\n");
  other.replace(other.find("linear 10"), 9, " linear  10");
  EXPECT_THAT(wrong_with(other + "samples = 81\n"), ElementsAre());
}

TEST_F(Resume, AnotherModelDataSetOrOptimizerIsRefused) {
  save(8, job_of(digits + "steps = 9\n"));
  const auto with = [&](const std::string& was, const std::string& is) {
    std::string text = digits + "steps = 9\n";
    return text.replace(text.find(was), was.size(), is);
  };
  const std::string made = ", and " + step(8) + " was made with ", remedy = "; give that, or leave out --resume";
  EXPECT_THAT(wrong_with(with("linear 10", "linear 9 relu")),
              ElementsAre(R"(model.layers is ["flatten", "linear 9 relu"])" + made + R"(["flatten", "linear 10"])" + remedy));
  EXPECT_THAT(wrong_with(with("200", "300")), ElementsAre("data.train_samples is 300" + made + "200" + remedy));
  EXPECT_THAT(wrong_with(with("0.5", "0.25")), ElementsAre("optimizer.momentum is 0.25" + made + "0.5" + remedy));
  EXPECT_THAT(wrong_with(with("momentum = 0.5", "name = \"adamw\"")),
              ElementsAre("optimizer.name is adamw" + made + "sgd" + remedy));
  EXPECT_THAT(wrong_with(with("train_samples = 200", "source = \"idx\"\npath = \"x\"")),
              ElementsAre("data.source is idx" + made + "digits" + remedy));
  EXPECT_THAT(wrong_with("seed = 2\n[protocol]\nname = \"deadline\"\n" + digits + "steps = 9\n"),
              ElementsAre("protocol.name is deadline" + made + "sync" + remedy, "seed is 2" + made + "1" + remedy));
  EXPECT_THAT(wrong_with(digits + "steps = 9\n", 4),
              ElementsAre("" + step(8) + " has 3 parameters, and this job's model has 4; give it the job that made it"));
}

TEST_F(Resume, AJobThatWouldEndAtOnceIsRefused) {
  save(8, job_of(digits + "steps = 9\n"));
  const std::string where = " ends the job where " + step(8) + " already is, after ";
  EXPECT_THAT(wrong_with(digits + "steps = 8\n"), ElementsAre("stop.steps = 8" + where + "8 steps; give more"));
  EXPECT_THAT(wrong_with(digits + "samples = 80\n"), ElementsAre("stop.samples = 80" + where + "80 samples; give more"));
  EXPECT_THAT(wrong_with(digits + "seconds = 4\n"), ElementsAre("stop.seconds = 4" + where + "4.0 s of training; give more"));
  EXPECT_THAT(wrong_with(digits + "epochs = 0.4\n"), ElementsAre("stop.epochs = 0.4" + where + "80 samples; give more"));
  EXPECT_THAT(wrong_with(digits + "epochs = 0.41\nsteps = 9\nsamples = 81\nseconds = 4.5\n"), ElementsAre());
}

} // namespace
} // namespace troupe::apps
