// SPDX-License-Identifier: BSD-3-Clause
// `troupe checkpoint`: what it prints of good and damaged checkpoints, and what it refuses.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/checkpoint/checkpoint_file.hpp"
#include "apps/command_line.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using testing::HasSubstr;
using testing::MatchesRegex;

struct outcome {
  int code = 0;
  std::string out, err;
  json::object report() const {
    const auto begin = out.rfind('\n', out.size() - 2);
    return json::parse(out.substr(begin == std::string::npos ? 0 : begin + 1)).as_object();
  }
};

outcome troupe_checkpoint(std::vector<std::string> words) {
  words.insert(words.begin(), {"troupe", "checkpoint"});
  std::vector<const char*> argv;
  for (const std::string& each : words)
    argv.push_back(each.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const auto parsed = parse_command_line(static_cast<int>(argv.size()), argv.data());
  const int code = std::holds_alternative<exit_code>(parsed)
                       ? std::get<exit_code>(parsed)
                       : execute(std::get<checkpoint_options>(std::get<command_options>(parsed)));
  std::string out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
  return {code, std::move(out), std::move(err)};
}

/// "linear1.weight" (2, 3) of 1 to 6 at 0 and "linear1.bias" (2) of 17 and 18 at 16, in two shards, at steps 9, 40 and 100.
struct CheckpointCommand : testing::Test {
  void SetUp() override {
    std::string name = testing::TempDir() + "checkpoints.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir = name;
    for (const std::uint64_t step : {9, 40, 100})
      write(step);
  }
  void TearDown() override { fs::remove_all(dir); }

  std::string folder(std::uint64_t step) const { return fmt::format("{}/step-{}", dir, step); }

  void write(std::uint64_t step) const {
    std::vector<float> all(32);
    std::iota(all.begin(), all.end(), 1.F);
    actors::checkpoint_manifest what{.job = "digits",
                                     .facts = {{"optimizer.name", "sgd"}, {"model.layers", "[\"flatten\", \"linear 2\"]"}},
                                     .ver = {step},
                                     .samples = 64 * step,
                                     .training_ns = static_cast<std::int64_t>(step) * 500'000'000,
                                     .floats = 32,
                                     .tensors = {{"linear1.weight", shape{2, 3}, 0}, {"linear1.bias", shape{2}, 16}}};
    for (std::uint32_t shard = 0; shard < 2; ++shard) {
      const flat_range range{16 * shard, 16 * shard + 16};
      const std::span<const float> part(all.data() + range.begin, 16);
      what.files.push_back(write_shard_file(folder(step), {shard, {step}, range, {{"optimizer.steps", step}}},
                                            std::vector<actors::named_block>{{"parameters", part}, {"velocity", part}}));
    }
    write_manifest(folder(step), what);
  }

  void damage(std::uint64_t step, const std::string& name, std::streamoff at) const {
    std::fstream file(folder(step) + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at).put('!');
  }

  std::string dir;
};

TEST_F(CheckpointCommand, ListsThemNewestLast) {
  damage(40, "shard-1.ckpt", 4096);
  fs::remove(folder(100) + "/manifest");
  const auto done = troupe_checkpoint({"list", dir});
  EXPECT_EQ(done.code, exit_done);
  EXPECT_THAT(done.out, MatchesRegex("step +samples +training +size +state\n"
                                     "9 +576 +4.5 s +2[0-9.]+ kB +good\n"
                                     "40 +2560 +20.0 s +2[0-9.]+ kB +.*/step-40/shard-1.ckpt: blocks .* damaged.*\n"
                                     "100 +.*/step-100/manifest: cannot open it: No such file or directory\n"));
  const auto report = troupe_checkpoint({"list", dir, "--json"}).report();
  const auto& list = report.at("checkpoints").as_array();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].at("samples").to_number<int>(), 576);
  EXPECT_EQ(list[0].at("training_s").to_number<double>(), 4.5);
  EXPECT_TRUE(list[0].at("good").as_bool());
  EXPECT_FALSE(list[1].at("good").as_bool());
  EXPECT_TRUE(list[2].at("samples").is_null());
}

TEST_F(CheckpointCommand, InspectsTheNewestGoodOneAndSaysWhichItPassedOver) {
  damage(100, "shard-0.ckpt", 9000);
  const auto done = troupe_checkpoint({"inspect", dir});
  EXPECT_EQ(done.code, exit_done);
  EXPECT_THAT(done.err, HasSubstr("troupe: passed over: " + folder(100)
                                  + "/shard-0.ckpt: blocks \"parameters\", \"velocity\" are damaged"));
  EXPECT_THAT(done.out, HasSubstr(folder(40) + ": job \"digits\", step 40, 2560 samples, 20.0 s of training\n"));
  for (const char* part : {"optimizer.name  sgd", "shard-1.ckpt", "16 to 32", "optimizer.steps 40", "parameters, velocity",
                           "linear1.bias    (2)     16"})
    EXPECT_THAT(done.out, HasSubstr(part));
  const auto report = troupe_checkpoint({"inspect", folder(9) + "/", "--json"}).report();
  EXPECT_EQ(report.at("step").to_number<int>(), 9);
  EXPECT_EQ(report.at("facts").at("optimizer.name").as_string(), "sgd");
  EXPECT_EQ(report.at("files").at(1).at("begin").to_number<int>(), 16);
  EXPECT_EQ(report.at("tensors").at(0).at("shape"), (json::value{2, 3}));
}

TEST_F(CheckpointCommand, VerifiesAllOfThem) {
  const auto good = troupe_checkpoint({"verify", dir});
  EXPECT_EQ(good.code, exit_done);
  EXPECT_THAT(good.out, HasSubstr(folder(100) + ": good (2 files, "));
  damage(40, "shard-0.ckpt", 4100);
  damage(40, "shard-1.ckpt", 8192);
  const auto bad = troupe_checkpoint({"verify", dir});
  EXPECT_EQ(bad.code, exit_failed);
  EXPECT_THAT(bad.out, MatchesRegex(".*step-9: good [^\n]*\n[^\n]*step-40/shard-0.ckpt: [^\n]*damaged[^\n]*\n"
                                    "[^\n]*step-40/shard-1.ckpt: [^\n]*damaged[^\n]*\n[^\n]*step-100: good [^\n]*\n"));
  EXPECT_EQ(troupe_checkpoint({"verify", folder(9)}).code, exit_done);
  const auto one = troupe_checkpoint({"verify", folder(40), "--json"});
  EXPECT_EQ(one.code, exit_failed);
  EXPECT_FALSE(one.report().at("good").as_bool());
  EXPECT_EQ(one.report().at("checkpoints").at(0).at("faults").as_array().size(), 2U);
}

TEST_F(CheckpointCommand, ExportsTheParameters) {
  const std::string to = dir + "/out.safetensors";
  const auto done = troupe_checkpoint({"export", dir, "--to", to});
  EXPECT_EQ(done.code, exit_done);
  EXPECT_THAT(done.out, HasSubstr(to + ": the parameters of step 100, 2 tensors (weights "));
  parameter_layout layout;
  layout.slots = {{"linear1.weight", shape{2, 3}, 0, {}}, {"linear1.bias", shape{2}, 16, {}}};
  std::vector<float> flat(32);
  const auto loaded = load_safetensors(to, layout, flat.data());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_THAT(std::vector(flat.begin(), flat.begin() + 6), testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(std::vector(flat.begin() + 16, flat.begin() + 18), testing::ElementsAre(17, 18));
  const auto metadata = read_safetensors_metadata(to).value();
  EXPECT_EQ(metadata.at("step"), "100");
  EXPECT_EQ(metadata.at("layers"), "[\"flatten\", \"linear 2\"]");
}

TEST_F(CheckpointCommand, ExportsNothingOfADamagedOne) {
  damage(40, "shard-0.ckpt", 4100);
  const auto done = troupe_checkpoint({"export", folder(40), "--to", dir + "/out.safetensors"});
  EXPECT_EQ(done.code, exit_failed);
  EXPECT_THAT(done.err, HasSubstr("step-40/shard-0.ckpt: "));
  EXPECT_FALSE(fs::exists(dir + "/out.safetensors"));
}

TEST_F(CheckpointCommand, RefusesWhatIsNoCheckpointAndSaysWhatIs) {
  fs::create_directory(dir + "/empty");
  std::ofstream(dir + "/file") << "text";
  const auto refused = [](const std::string& verb, const std::string& folder) {
    const auto done = troupe_checkpoint({verb, folder});
    EXPECT_EQ(done.code, exit_usage) << done.out;
    EXPECT_EQ(done.out, "");
    return done.err;
  };
  EXPECT_EQ(refused("list", dir + "/none"), dir + "/none: no such folder; give a folder of checkpoints, or one of its step-N\n");
  EXPECT_EQ(refused("verify", dir + "/file"), dir + "/file: not a folder; give a folder of checkpoints, or one of its step-N\n");
  EXPECT_EQ(refused("list", dir + "/empty"),
            dir + "/empty: holds no checkpoint; give a folder of checkpoints, with folders step-N in it, or one of these\n");
  EXPECT_EQ(refused("inspect", dir + "/step-41"),
            dir + "/step-41: no such checkpoint; " + dir + " has step-9, step-40, step-100\n");
}

TEST_F(CheckpointCommand, RefusesMistypedVerbsAndFlags) {
  const auto message = [](const std::vector<std::string>& words) {
    const auto done = troupe_checkpoint(words);
    EXPECT_EQ(done.code, exit_usage);
    return done.err;
  };
  EXPECT_THAT(message({"verfy", dir}), HasSubstr("did you mean verify?"));
  EXPECT_THAT(message({"export", dir, "--two", "x"}), HasSubstr("did you mean --to?"));
  EXPECT_THAT(message({"export", dir}), HasSubstr("--to is required"));
  EXPECT_THAT(message({"list"}), HasSubstr("folder is required; see `troupe checkpoint list --help`"));
  EXPECT_THAT(message({}), HasSubstr("see `troupe checkpoint --help`"));
}

} // namespace
} // namespace troupe::apps
