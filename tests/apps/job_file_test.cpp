// SPDX-License-Identifier: BSD-3-Clause
// Job files: what a good one resolves to, what --set does, and every message about a broken one.
#include "apps/config/job_file.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include "apps/config/job_draft.hpp"
#include "protocols/catalog.hpp"
#include "tests/apps/corpus.hpp"

namespace troupe::config {
namespace {

using testing::temporary_file;

const std::string smallest = "[model]\nlayers = [\"flatten\", \"linear 10\"]\n[stop]\nepochs = 1\n";

/// A job that is expected to load, with `sets` like "data.batch=3".
loaded_job load_good(const std::string& text, const std::vector<std::string>& sets = {}) {
  const temporary_file file(text);
  std::vector<setting> settings;
  for (const std::string& set : sets)
    settings.push_back(parse_setting(set).value());
  auto loaded = load_job(file.path(), settings);
  if (!loaded)
    throw std::runtime_error(loaded.error().text());
  return std::move(*loaded);
}

const resolved_value& find(const loaded_job& job, const std::string& key) {
  const auto it = std::find_if(job.values.begin(), job.values.end(), [&](const auto& v) { return v.key == key; });
  if (it == job.values.end())
    throw std::runtime_error("no value " + key);
  return *it;
}

TEST(JobFile, EveryBrokenFileIsRefusedWithTheMessagesItExpects) {
  using clock = std::chrono::steady_clock;
  clock::duration longest{};
  for (const auto& file : testing::read_corpus("bad_jobs")) {
    const auto begin = clock::now();
    const auto loaded = load_job(file.path, file.sets);
    longest = std::max(longest, clock::now() - begin);
    ASSERT_FALSE(loaded) << file.name << " was accepted";
    EXPECT_EQ(testing::without_path(loaded.error(), file.path), file.expected) << file.name;
  }
  std::cout << "the slowest refusal took " << std::chrono::duration<double, std::milli>(longest).count() << " ms\n";
}

TEST(JobFile, FilesThatComeWithTheProgramAreAccepted) {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TROUPE_SOURCE_DIR "/config")) {
    if (entry.path().extension() != ".toml" || entry.path().stem() == "cluster")
      continue; // cluster_file_test has that one
    const auto loaded = load_job(entry.path());
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(loaded->job.name, entry.path().stem());
    ++found;
  }
  EXPECT_GE(found, 21u);
}

TEST(JobFile, EveryProtocolHasAJob) {
  for (const auto& entry : protocols::catalog()) {
    const auto loaded = load_job(std::string(TROUPE_SOURCE_DIR "/config/protocols/") + entry.name + ".toml");
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(loaded->job.protocol.name, entry.name);
    EXPECT_EQ(loaded->job.cluster.workers, 8u);
  }
}

TEST(JobFile, AMissingFileAndAFolderAreRefusedByName) {
  const auto missing = load_job("no/such/job.toml");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().text(),
            "no/such/job.toml: cannot be read: No such file or directory; give the path of a TOML file\n");
  const auto folder = load_job(TROUPE_SOURCE_DIR);
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().all.front().where, TROUPE_SOURCE_DIR);
}

std::vector<std::string> left_out(const loaded_job& job) {
  std::vector<std::string> keys;
  for (const problem& p : job.left_out)
    keys.push_back(p.message.substr(0, p.message.find(' ')));
  return keys;
}

TEST(JobFile, WhatTheCommandLineReplacesHasItsDefaultAgain) {
  const std::string file =
      smallest + "[optimizer]\nmomentum = 0.9\nlr = 0.5\n[protocol]\nname = \"easgd\"\nsteps = 4\nbeta = 0.5\n";
  const auto job = load_good(file, {"optimizer.name=adamw", "protocol.name=local"});
  EXPECT_EQ(left_out(job), (std::vector<std::string>{"protocol.steps", "protocol.beta", "optimizer.momentum"}));
  EXPECT_EQ(job.job.optimizer.momentum, 0);
  EXPECT_EQ(job.job.optimizer.lr, 0.5) << "it means the same to both";
  EXPECT_EQ(job.job.protocol.parameters.at("steps"), protocols::spec_value{std::int64_t{10}}) << "another's key of the same name";
  EXPECT_EQ(job.further_protocols.at("easgd").parameters.at("steps"), protocols::spec_value{std::int64_t{4}})
      << "compare may ask for it";
  EXPECT_EQ(find(job, "optimizer.momentum").from, "does not apply");
  EXPECT_TRUE(load_good(file, {"protocol.name=easgd"}).left_out.empty()) << "it is the file's own";
  EXPECT_EQ(left_out(load_good(smallest + "[protocol]\nname = \"snyc\"\nfan_in = 2\n", {"protocol.name=ssp"})),
            (std::vector<std::string>{"protocol.fan_in"}));
}

TEST(JobFile, AKeyThatIsUnsetIsAsIfNobodyHadGivenIt) {
  const std::string file =
      smallest + "[optimizer]\nmomentum = 0.9\n[protocol]\nname = \"easgd\"\nsteps = 4\n[inject]\nstraggler = \"factor=2\"\n";
  const auto job = load_good(file, {"optimizer.momentum=", "protocol.steps=", "inject.straggler=", "name="});
  EXPECT_EQ(find(job, "optimizer.momentum").from, "default");
  EXPECT_EQ(job.job.protocol.parameters.at("steps"), protocols::spec_value{std::int64_t{10}});
  EXPECT_TRUE(job.job.inject.stragglers.empty());
  EXPECT_EQ(load_good(file, {"optimizer.momentum=", "optimizer.momentum=0.5"}).job.optimizer.momentum, 0.5);
}

TEST(JobFile, AFileOfEndlessTextIsRefusedBeforeItIsParsed) {
  const temporary_file file(std::string((1U << 20U) + 1, '#'));
  const auto loaded = load_job(file.path());
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().all.front().message, "is larger than 1 MiB; a configuration is a small TOML file");
}

TEST(JobFile, EveryKeyArrivesInItsField) {
  const actors::job job = load_good(R"(
name = "all"
seed = 7
[data]
source = "csv"
path = "train.csv"
test_path = "test.csv"
batch = 32
scale = "unit"
partition = "by-worker"
sorted_fraction = 0.5
label_noise = 0.25
[model]
layers = ["linear 4 relu", "linear 2"]
init = "start.safetensors"
[optimizer]
name = "sgd"
lr = 1
momentum = 0.5
nesterov = true
weight_decay = 0.25
schedule = "step"
gamma = 0.75
step_epochs = 2
warmup_epochs = 3
scale_with_workers = true
[compute]
device = "cuda:1"
threads = 2
precision = "fp32"
shard_device = "cuda"
[protocol]
name = "sync"
fan_in = 2
[cluster]
nodes = 3
workers = 4
shards = 5
placement = "colocated"
[evaluate]
every_s = 1.5
train_samples = 100
[checkpoint]
dir = "here/./saved/"
every_steps = 11
keep = 12
[stop]
epochs = 6
steps = 7
seconds = 8.5
samples = 9
target_accuracy = 0.5
)")
                              .job;
  EXPECT_EQ(job.name, "all");
  EXPECT_EQ(job.seed, 7U);
  data_spec data{.source = "csv",
                 .path = "train.csv",
                 .test_path = "test.csv",
                 .batch = 32,
                 .scale = "unit",
                 .partition = "by-worker",
                 .sorted_fraction = 0.5,
                 .label_noise = 0.25};
  EXPECT_EQ(job.data, data);
  const auto data_of = [](const std::string& keys) {
    return load_good("[data]\n" + keys + "[model]\nlayers = [\"embedding 2\", \"head\"]\n[stop]\nepochs = 1\n").job.data;
  };
  EXPECT_EQ(
      data_of(
          "source = \"tokens\"\npath = \"a\"\ntest_path = \"b\"\ntoken_type = \"uint32\"\nvocabulary_size = 9\ncontext = 5\n"),
      (data_spec{.source = "tokens",
                 .path = "a",
                 .test_path = "b",
                 .token_type = "uint32",
                 .vocabulary_size = 9,
                 .context = 5,
                 .stride = 5}));
  EXPECT_EQ(
      data_of("source = \"npy\"\npath = \"a\"\nlabels_path = \"b\"\ntest_path = \"c\"\ntest_labels_path = \"d\"\naugment = "
              "[\"flip\"]\n"),
      (data_spec{
          .source = "npy", .path = "a", .test_path = "c", .labels_path = "b", .test_labels_path = "d", .augment = {"flip"}}));
  EXPECT_EQ(job.model.layers, (std::vector<std::string>{"linear 4 relu", "linear 2"}));
  EXPECT_EQ(job.init, "start.safetensors");
  optimizer_spec optimizer;
  optimizer.lr = 1;
  optimizer.momentum = 0.5;
  optimizer.nesterov = true;
  optimizer.weight_decay = 0.25;
  optimizer.schedule = "step";
  optimizer.gamma = 0.75;
  optimizer.step_epochs = 2;
  optimizer.warmup_epochs = 3;
  optimizer.scale_with_workers = true;
  EXPECT_EQ(job.optimizer, optimizer);
  EXPECT_EQ(job.compute.device, "cuda:1");
  EXPECT_EQ(job.compute.threads, 2);
  EXPECT_EQ(job.compute.shard_device, "cuda");
  EXPECT_EQ(job.protocol.name, "sync");
  EXPECT_EQ(job.protocol.fan_in, 2U);
  EXPECT_EQ(job.cluster.nodes, 3U);
  EXPECT_EQ(job.cluster.workers, 4U);
  EXPECT_EQ(job.cluster.shards, 5U);
  EXPECT_EQ(job.cluster.where, actors::placement::colocated);
  EXPECT_EQ(job.evaluate.every_samples, 0U);
  EXPECT_EQ(job.evaluate.every_s, 1.5);
  EXPECT_EQ(job.evaluate.train_samples, 100);
  EXPECT_EQ(job.stop.epochs, 6);
  EXPECT_EQ(job.stop.steps, 7U);
  EXPECT_EQ(job.stop.seconds, 8.5);
  EXPECT_EQ(job.stop.samples, 9U);
  EXPECT_EQ(job.stop.target_accuracy, 0.5);
  EXPECT_EQ(job.checkpoint.dir, std::filesystem::current_path() / "here/saved");
  EXPECT_EQ(job.checkpoint.every_steps, 11U);
  EXPECT_EQ(job.checkpoint.every_s, 0);
  EXPECT_EQ(job.checkpoint.keep, 12U);
}

TEST(JobFile, KeysOfAdamwAndCosineArriveInTheirFields) {
  const auto optimizer = load_good(smallest
                                   + "[optimizer]\nname = \"adamw\"\nlr = 0.5\nbeta1 = 0.25\nbeta2 = 0.75\nepsilon = 0.125\n"
                                     "schedule = \"cosine\"\nmin_lr = 0.0625\ntotal_epochs = 12\n")
                             .job.optimizer;
  EXPECT_EQ(optimizer.name, "adamw");
  EXPECT_EQ(optimizer.beta1, 0.25);
  EXPECT_EQ(optimizer.beta2, 0.75);
  EXPECT_EQ(optimizer.epsilon, 0.125);
  EXPECT_EQ(optimizer.min_lr, 0.0625);
  EXPECT_EQ(optimizer.total_epochs, 12);
}

TEST(JobFile, TheNameIsTheFilesUnlessGiven) {
  const temporary_file file(smallest);
  const auto loaded = load_job(file.path());
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(file.path().ends_with("/" + loaded->job.name)) << loaded->job.name;
}

TEST(JobFile, WorkersAndShardsFollowTheNodes) {
  const auto separate = load_good(smallest, {"cluster.nodes=4"}).job.cluster;
  EXPECT_EQ(separate.workers, 3U);
  EXPECT_EQ(separate.shards, 1U);
  const auto alone = load_good(smallest).job.cluster;
  EXPECT_EQ(alone.workers, 1U);
  EXPECT_EQ(alone.shards, 1U);
  const auto colocated = load_good(smallest, {"cluster.nodes=4", "cluster.placement=colocated"}).job.cluster;
  EXPECT_EQ(colocated.workers, 4U);
  EXPECT_EQ(colocated.shards, 4U);
  EXPECT_EQ(load_good(smallest, {"cluster.nodes=4", "cluster.placement=colocated", "cluster.shards=1"}).job.cluster.shards, 1U);
  const auto summed = load_good(smallest, {"cluster.nodes=4", "cluster.placement=colocated", "protocol.name=allreduce"});
  EXPECT_EQ(summed.job.cluster.shards, 1U) << "it has no more";
}

TEST(JobFile, WhatAFlagDoesWithoutIsLeftOutWithANote) {
  const temporary_file file("[checkpoint]\ndir = \"here\"\nevery_s = 2\n" + smallest);
  const auto loaded = load_job(file.path(), {{"checkpoint.dir", "", "compare"}, {"model.init", "", "--resume"}});
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_FALSE(loaded->job.checkpoint.enabled());
  EXPECT_EQ(loaded->left_out,
            (problems{{file.path() + ":2:1", "checkpoint.dir = \"here\" is left out: compare does without it"},
                      {file.path() + ":3:11", "checkpoint.every_s = 2 is left out: compare unsets checkpoint.dir"}}));
}

TEST(JobFile, ChildrenAreStartedAnewUnlessTold) {
  EXPECT_TRUE(load_good(smallest).respawn);
  EXPECT_FALSE(load_good(smallest, {"cluster.respawn=false"}).respawn);
}

TEST(JobFile, TheCosineEndsWithTheJobUnlessTold) {
  EXPECT_EQ(load_good(smallest, {"optimizer.schedule=cosine", "stop.epochs=3.5"}).job.optimizer.total_epochs, 3.5);
  EXPECT_EQ(load_good(smallest, {"optimizer.schedule=cosine", "optimizer.total_epochs=9"}).job.optimizer.total_epochs, 9);
  EXPECT_EQ(load_good(smallest, {}).job.optimizer.total_epochs, 0);
}

/// A job whose `[protocol]` and `data.partition` have been read; the protocol need not be in the catalog.
job_draft draft_of(const protocols::protocol_spec& protocol, const std::string& partition = "") {
  job_draft draft("job.toml");
  draft.out.job.protocol = protocol;
  if (!partition.empty()) {
    draft.out.job.data.partition = partition;
    draft.given["data.partition"] = {{2, 13}, "", 0};
  }
  return draft;
}

std::string rules_of(job_draft draft) {
  apply_protocol_rules(draft);
  return draft.problems.empty() ? "" : draft.problems.take().text();
}

TEST(JobFile, ByWorkerGoesWithProtocolsWhoseWorkersShareNoSamples) {
  for (const auto& entry : protocols::catalog()) {
    const bool shares = entry.per_push || entry.name == "coded";
    const std::string wrong = rules_of(draft_of({.name = entry.name}, "by-worker"));
    EXPECT_EQ(wrong.find("\"by-worker\" does not go with " + entry.name) != std::string::npos, shares) << entry.name << wrong;
    EXPECT_EQ(rules_of(draft_of({.name = entry.name}, "shuffled")), "");
  }
  const std::string wrong = "job.toml:2:13: data.partition = \"by-worker\" does not go with coded, whose workers compute each "
                            "other's parts; write \"shuffled\"\n";
  EXPECT_EQ(rules_of(draft_of({.name = "coded"}, "by-worker")), wrong);
  const protocols::spec_value candidates = std::vector<std::string>{"sync", "coded"};
  EXPECT_EQ(rules_of(draft_of({.name = "auto", .parameters = {{"candidates", candidates}}}, "by-worker")), wrong);
}

TEST(JobFile, AdmmKeepsAWorkersSamplesItsOwn) {
  job_draft admm = draft_of({.name = "admm"});
  apply_rules(admm);
  EXPECT_EQ(admm.out.job.data.partition, "by-worker");
  EXPECT_EQ(admm.from.at("data.partition"), "protocol.name");
  EXPECT_FALSE(admm.idle.contains("data.sorted_fraction"));

  job_draft shuffled = draft_of({.name = "admm"}, "shuffled");
  apply_rules(shuffled);
  const std::string wrong = shuffled.problems.take().text();
  EXPECT_NE(wrong.find("job.toml:2:13: data.partition = \"shuffled\" leaves admm's workers no samples of their own"),
            std::string::npos)
      << wrong;

  job_draft sync = draft_of({.name = "sync"});
  apply_rules(sync);
  EXPECT_EQ(sync.out.job.data.partition, "shuffled");
}

TEST(JobFile, AnMlpHasAsManyOutputsAsTheDataHasClasses) {
  const std::string mlp = "[model]\nkind = \"mlp\"\nhidden = [8, 4]\n[stop]\nepochs = 1\n";
  loaded_job job = load_good(mlp);
  EXPECT_EQ(job.job.model.layers, mlp_layers({8, 4}, 10));
  complete_model(job, 3);
  EXPECT_EQ(job.job.model.layers, mlp_layers({8, 4}, 3));
  EXPECT_EQ(std::get<std::vector<std::string>>(find(job, "model.layers").resolved), mlp_layers({8, 4}, 3));
  EXPECT_TRUE(load_good(mlp, {"data.source=csv", "data.path=x.csv"}).job.model.layers.empty()) << "only the data knows";
}

TEST(JobFile, CompletingAJobThatListsItsLayersChangesNothing) {
  loaded_job job = load_good(smallest);
  complete_model(job, 3);
  EXPECT_EQ(job.job.model.layers, (std::vector<std::string>{"flatten", "linear 10"}));
}

TEST(Set, WinsOverTheFileAndTheLastOneWins) {
  const std::string text = "seed = 1\n" + smallest;
  EXPECT_EQ(load_good(text, {"seed=2"}).job.seed, 2U);
  EXPECT_EQ(load_good(text, {"seed=2", "seed=3"}).job.seed, 3U);
}

TEST(Set, RepairsABrokenValueOfTheFile) {
  EXPECT_EQ(load_good("[data]\nbatch = \"many\"\n" + smallest, {"data.batch=8"}).job.data.batch, 8);
}

TEST(Set, WhatIsNotTomlIsAString) {
  const auto data = load_good(smallest, {"data.source=idx", "data.path=../some where/mnist=1"}).job.data;
  EXPECT_EQ(data.source, "idx");
  EXPECT_EQ(data.path, "../some where/mnist=1");
  EXPECT_EQ(load_good(smallest, {"name=\"quoted\""}).job.name, "quoted");
  EXPECT_EQ(load_good(smallest, {"name=\"\""}).job.name, "");
}

TEST(Set, ALineBreakInAValueIsNoSecondAssignment) {
  const auto job = load_good(smallest, {"name=1\nseed = 5"}).job;
  EXPECT_EQ(job.name, "1\nseed = 5");
  EXPECT_EQ(job.seed, 1U);
}

TEST(Set, TakesListsAndNumbers) {
  const auto job = load_good(smallest, {R"(model.layers=["flatten", "linear 3"])", "optimizer.lr=1e-3"}).job;
  EXPECT_EQ(job.model.layers, (std::vector<std::string>{"flatten", "linear 3"}));
  EXPECT_EQ(job.optimizer.lr, 1e-3);
}

TEST(Set, WithoutKeyOrEqualsSignIsRefused) {
  EXPECT_FALSE(parse_setting("data.batch"));
  EXPECT_FALSE(parse_setting("=3"));
  EXPECT_EQ(parse_setting("data.batch").error().text(), "--set data.batch: is not key=value; write --set data.batch=64\n");
}

TEST(Values, SayWhereTheyCameFrom) {
  const temporary_file file("seed = 4\n[cluster]\nnodes = 3\n" + smallest);
  const auto loaded = load_job(file.path(), {{"data.batch", "8", ""}, {"stop.epochs", "2", "--epochs"}});
  ASSERT_TRUE(loaded) << loaded.error().text();
  EXPECT_EQ(find(*loaded, "seed").from, "job file line 1");
  EXPECT_EQ(find(*loaded, "cluster.nodes").from, "job file line 3");
  EXPECT_EQ(find(*loaded, "cluster.workers").from, "cluster.nodes");
  EXPECT_EQ(find(*loaded, "data.batch").from, "--set");
  EXPECT_EQ(find(*loaded, "stop.epochs").from, "--epochs");
  EXPECT_EQ(find(*loaded, "optimizer.lr").from, "default");
  EXPECT_EQ(find(*loaded, "stop.steps").from, "not given");
  EXPECT_EQ(find(*loaded, "optimizer.beta1").from, "does not apply");
  EXPECT_EQ(where_of(*loaded, "cluster.nodes"), file.path() + ":3:9");
  EXPECT_EQ(where_of(*loaded, "data.batch"), "--set data.batch");
}

TEST(Values, BecomeAnObjectPerSectionWithNullForWhatDoesNotApply) {
  const auto config = to_json(load_good("seed = 4\n" + smallest));
  EXPECT_EQ(config.at("seed").as_int64(), 4);
  EXPECT_EQ(config.at("data").at("source").as_string(), "digits");
  EXPECT_EQ(config.at("optimizer").at("lr").as_double(), 0.05);
  EXPECT_TRUE(config.at("optimizer").at("beta1").is_null());
  EXPECT_TRUE(config.at("data").at("path").is_null());
  EXPECT_TRUE(config.at("stop").at("steps").is_null());
  EXPECT_EQ(config.at("stop").at("epochs").as_double(), 1);
  EXPECT_EQ(config.at("protocol").at("name").as_string(), "sync");
  EXPECT_TRUE(config.at("checkpoint").at("dir").is_null());
}

TEST(Values, ListEveryKeyOfTheDocumentation) {
  const std::string listing = describe_keys();
  for (const char* line : {"[data]", "batch", "target_accuracy", "clip_norm            a number from 0", "default 64"})
    EXPECT_NE(listing.find(line), std::string::npos) << line;
}

TEST(JobFile, AnAggregatorForEachNodeIsAskedForByAWord) {
  const auto loaded = load_good(R"(
[model]
layers = ["flatten", "linear 10"]
[protocol]
name = "sync"
fan_in = "node"
[cluster]
nodes = 3
workers = 5
[stop]
epochs = 1
)");
  EXPECT_EQ(loaded.job.protocol.fan_in, protocols::fan_in_of_nodes);
  EXPECT_EQ(loaded.job.cluster.blocks, (std::vector<std::uint32_t>{3, 2}));
  const auto listed = std::ranges::find(loaded.values, "protocol.fan_in", &resolved_value::key);
  ASSERT_NE(listed, loaded.values.end());
  EXPECT_EQ(listed->resolved, value{std::string("node")}) << "as it was written";
}

} // namespace
} // namespace troupe::config
