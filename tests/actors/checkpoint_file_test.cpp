// SPDX-License-Identifier: BSD-3-Clause
// Checkpoints on a disk: what was written is read again, and what is damaged is never believed.
#include "actors/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <thread>

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
#include "actors/checkpoint/durable_file.hpp"
#include "actors/checkpoint/names.hpp"
#include "kernels/assert.hpp"

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;
using protocols::version;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void overwrite(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string refusal_of(const auto& action) {
  try {
    action();
  } catch (const std::runtime_error& wrong) {
    return wrong.what();
  }
  return "";
}

/// Element i of the flat parameters is i; of their velocity, -i.
struct Checkpoint : testing::Test {
  void SetUp() override {
    std::string name = testing::TempDir() + "checkpoint.XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    dir = name;
    folder = dir + "/step-40";
  }
  void TearDown() override { fs::remove_all(dir); }

  static std::vector<float> counting(flat_range range, float sign = 1) {
    std::vector<float> out(static_cast<std::size_t>(range.size()));
    std::iota(out.begin(), out.end(), static_cast<float>(range.begin));
    for (float& each : out)
      each *= sign;
    return out;
  }

  written_file write_shard(std::uint32_t shard, flat_range range) const {
    const auto parameters = counting(range), velocity = counting(range, -1);
    return write_shard_file(folder, head_of(shard, range),
                            std::vector<named_block>{{"parameters", parameters}, {"velocity", velocity}});
  }

  static shard_head head_of(std::uint32_t shard, flat_range range) {
    return {.shard = shard, .ver = {40}, .range = range, .numbers = {{"optimizer.steps", 39}}};
  }

  /// A checkpoint of these ranges.
  checkpoint_manifest write(const std::vector<flat_range>& ranges) const {
    checkpoint_manifest what{.job = "digits",
                             .facts = {{"optimizer.name", "sgd"}, {"optimizer.lr", "0.1"}},
                             .ver = {40},
                             .samples = 2'560,
                             .training_ns = 1'500'000'000,
                             .floats = static_cast<std::uint64_t>(ranges.back().end),
                             .lead = {1, 2, 3},
                             .coordinator = {4},
                             .files = {},
                             .tensors = {},
                             .data = {{"data/digits.bin", "e3b0c442"}}};
    if (what.floats > 0)
      what.tensors = {{"linear1.weight", shape{3, 4}, 0}, {"linear1.bias", shape{3}, 12}};
    for (std::uint32_t i = 0; i < ranges.size(); ++i)
      what.files.push_back(write_shard(i, ranges[i]));
    write_manifest(folder, what);
    return what;
  }

  /// What fault_of says when the file has these bytes.
  std::string fault_with(const std::string& file, const std::string& text) const {
    overwrite(folder + "/" + file, text);
    return fault_of(folder).value_or("");
  }

  std::string dir, folder;
};

TEST(Crc32c, OfTheKnownVectors) {
  const std::string zeros(32, '\0'), ones(32, '\xff');
  for (const auto of : {crc32c, crc32c_by_table}) {
    EXPECT_EQ(of(bytes_of("123456789"), 0), 0xe306'9283U);
    EXPECT_EQ(of(bytes_of(zeros), 0), 0x8a91'36aaU) << "RFC 3720, B.4";
    EXPECT_EQ(of(bytes_of(ones), 0), 0x62a8'ab43U) << "RFC 3720, B.4";
    EXPECT_EQ(of({}, 0), 0U);
  }
}

TEST(Crc32c, IsTheSameByTableAndInPieces) {
  std::string text;
  for (int i = 0; i < 100; ++i)
    text += static_cast<char>(i * 37);
  for (std::size_t begin = 0; begin < 9; ++begin)
    for (std::size_t end = begin; end <= text.size(); ++end) {
      const auto part = bytes_of(text).subspan(begin, end - begin);
      const std::size_t half = part.size() / 2;
      ASSERT_EQ(crc32c(part), crc32c_by_table(part));
      ASSERT_EQ(crc32c(part.subspan(half), crc32c(part.first(half))), crc32c(part));
      ASSERT_EQ(crc32c_by_table(part.subspan(half), crc32c_by_table(part.first(half))), crc32c(part));
    }
}

TEST_F(Checkpoint, IsReadAsItWasWritten) {
  const auto written = write({{0, 1'024}, {1'024, 3'008}});
  EXPECT_EQ(read_manifest(folder), written);
  EXPECT_EQ(fault_of(folder), std::nullopt);
  const shard_file second(folder, written.files[1]);
  EXPECT_EQ(second.head(), head_of(1, {1'024, 3'008}));
  EXPECT_THAT(second.blocks(), ElementsAre("parameters", "velocity"));
  EXPECT_TRUE(second.has("velocity"));
  EXPECT_FALSE(second.has("second"));
  std::vector<float> some(10);
  second.read("velocity", {1'030, 1'040}, some.data());
  EXPECT_EQ(some, counting({1'030, 1'040}, -1));
  second.verify();
}

TEST_F(Checkpoint, OfManyPiecesIsReadAsItWasWritten) {
  const flat_range range{16, 16 + 5'000'016}; // two blocks of 19 MiB: pieces that end in both, and writes of several 8 MiB
  const auto file = write_shard(3, range);
  const shard_file mapped(folder, file);
  std::vector<float> all(static_cast<std::size_t>(range.size()));
  mapped.read("velocity", range, all.data());
  EXPECT_EQ(all, counting(range, -1));
  mapped.read("parameters", range, all.data());
  EXPECT_EQ(all, counting(range));
  mapped.verify();
}

TEST_F(Checkpoint, OfNothingIsGood) {
  const auto written = write({{0, 0}});
  EXPECT_EQ(fault_of(folder), std::nullopt);
  EXPECT_TRUE(read_block(folder, written, "parameters", {0, 0}, nullptr));
}

TEST_F(Checkpoint, IsReadInAnyOtherDivision) {
  const auto written = write({{0, 48}, {48, 160}, {160, 176}, {176, 320}});
  for (const int shards : {1, 2, 3, 5, 20})
    for (const flat_range part : cut_into_shards(320, shards)) {
      std::vector<float> to(static_cast<std::size_t>(part.size()));
      EXPECT_TRUE(read_block(folder, written, "velocity", part, to.data()));
      EXPECT_EQ(to, counting(part, -1));
    }
  EXPECT_FALSE(read_block(folder, written, "mean_square", {0, 320}, nullptr));
  EXPECT_EQ(read_number(folder, written, "optimizer.steps"), 39U);
  EXPECT_EQ(read_number(folder, written, "others"), 0U);
}

TEST_F(Checkpoint, WithAShardMissingInItsManifestIsNone) {
  auto written = write({{0, 48}, {48, 160}, {160, 176}});
  written.files.erase(written.files.begin() + 1);
  write_manifest(folder, written);
  EXPECT_EQ(fault_of(folder), folder + ": no file has element 48 of the parameters");
  std::vector<float> to(176);
  EXPECT_EQ(refusal_of([&] {
              read_block(folder, written, "velocity", {0, 176}, to.data());
            }),
            folder + ": no file has element 48 of block \"velocity\"");
  EXPECT_TRUE(read_block(folder, written, "velocity", {0, 48}, to.data()));
}

TEST_F(Checkpoint, OfNumbersThatDifferTheLargestIsTaken) {
  auto written = write({{0, 16}, {16, 32}});
  auto other = head_of(1, {16, 32});
  other.numbers["optimizer.steps"] = 38;
  written.files[1] = write_shard_file(folder, other, {});
  EXPECT_EQ(read_number(folder, written, "optimizer.steps"), 39U);
}

/// Of three parameters, by workers that each have their own.
struct CheckpointOfReplicas : Checkpoint {
  checkpoint_manifest what{.job = "digits", .facts = {}, .ver = {40}, .floats = 3, .files = {}, .tensors = {}, .data = {}};

  void add(std::uint32_t worker, std::vector<named_block> blocks) {
    what.files.push_back(
        write_worker_file(folder, 0, {.shard = worker, .ver = {40}, .range = {0, 3}, .numbers = {{position_name, 7}}}, blocks));
  }
  std::vector<float> mean(flat_range part) const {
    std::vector<float> out(static_cast<std::size_t>(part.size()));
    EXPECT_TRUE(read_block(folder, what, parameters_name, part, out.data()));
    return out;
  }
};

TEST_F(CheckpointOfReplicas, ItsParametersAreTheirMean) {
  const std::vector<float> first{1, 2, 3}, second{5, 2, -1}, velocity{9, 9, 9};
  add(0, {{replica_name, first}, {"velocity", velocity}});
  add(1, {{replica_name, second}});
  add(2, {{"velocity", velocity}}); // of no use: it had diverged
  write_manifest(folder, what);
  EXPECT_THAT(faults_of(folder), IsEmpty());
  EXPECT_FALSE(what.has_shards());
  EXPECT_THAT(mean({0, 3}), ElementsAre(3, 2, 1));
  EXPECT_THAT(mean({1, 3}), ElementsAre(2, 1));
  float other = 7;
  EXPECT_FALSE(read_block(folder, what, "velocity", {0, 1}, &other)) << "that each has for itself";
  EXPECT_EQ(shard_file(folder, what.files[0]).number(position_name), 7U);
  EXPECT_EQ(shard_file(folder, what.files[0]).number(weight_name), 0U);
}

TEST_F(CheckpointOfReplicas, OfManyPiecesItIsTheMeanOfEach) {
  constexpr std::int64_t count = 600'001; // a piece is 2^18
  what.floats = static_cast<std::uint64_t>(count);
  const auto up = counting({0, count}), down = counting({0, count}, -3);
  for (const auto& [worker, replica] : {std::pair{0U, &up}, {1U, &down}})
    what.files.push_back(write_worker_file(folder, 0, {.shard = worker, .ver = {40}, .range = {0, count}, .numbers = {}},
                                           std::vector<named_block>{{replica_name, *replica}}));
  EXPECT_EQ(mean({5, count}), counting({5, count}, -1));
}

TEST_F(CheckpointOfReplicas, OneOfAnotherModelIsNamed) {
  const std::vector<float> whole{1, 2, 3}, part{5, 2};
  add(0, {{replica_name, whole}});
  what.files.push_back(write_worker_file(folder, 0, {.shard = 1, .ver = {40}, .range = {0, 2}, .numbers = {}},
                                         std::vector<named_block>{{replica_name, part}}));
  write_manifest(folder, what);
  EXPECT_THAT(faults_of(folder), ElementsAre(HasSubstr("worker-1-0.ckpt: is of another model")));
  std::vector<float> out(3);
  EXPECT_THAT(refusal_of([&] {
                read_block(folder, what, parameters_name, {0, 3}, out.data());
              }),
              HasSubstr("worker-1-0.ckpt: is of another model"));
}

TEST_F(CheckpointOfReplicas, WithoutAnyItIsNone) {
  add(0, {});
  write_manifest(folder, what);
  EXPECT_THAT(faults_of(folder), ElementsAre(HasSubstr("no file has element 0 of the parameters")));
  float first = 0;
  EXPECT_THAT(refusal_of([&] {
                read_block(folder, what, parameters_name, {0, 1}, &first);
              }),
              HasSubstr("no file has element 0 of the parameters"));
}

TEST_F(Checkpoint, EveryFlippedByteIsNoticedAndItsFileNamed) {
  write({{0, 16}, {16, 32}});
  for (const std::string file : {"manifest", "shard-0.ckpt", "shard-1.ckpt"}) {
    const std::string path = folder + "/" + file, whole = contents(path);
    std::fstream raw(path, std::ios::in | std::ios::out | std::ios::binary); // a file that is cut for every byte is slow
    const auto put = [&](std::size_t at, int value) {
      raw.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(value)).flush();
    };
    for (std::size_t i = 0; i < whole.size(); ++i) {
      put(i, whole[i] ^ (1 << (i % 8)));
      const auto fault = fault_of(folder).value_or("");
      ASSERT_TRUE(fault.starts_with(path + ": ")) << "byte " << i << ": " << fault;
      put(i, whole[i]);
    }
    EXPECT_EQ(fault_of(folder), std::nullopt);
  }
}

TEST_F(Checkpoint, CutShortAnywhereIsNoticed) {
  write({{0, 16}});
  for (const std::string file : {"manifest", "shard-0.ckpt"}) {
    const std::string whole = contents(folder + "/" + file);
    for (std::size_t length = whole.size(); length-- > 0;) {
      fs::resize_file(folder + "/" + file, length);
      const auto fault = fault_of(folder).value_or("");
      ASSERT_TRUE(fault.starts_with(folder + "/" + file + ": ")) << length << " bytes: " << fault;
    }
    EXPECT_NE(fault_with(file, whole + std::string(8, '\0')), "") << "longer";
    EXPECT_EQ(fault_with(file, whole), "");
  }
}

TEST_F(Checkpoint, DamageIsToldByBlockAndByte) {
  const auto written = write({{0, 524'288}}); // blocks of 2 MiB
  std::string bad = contents(folder + "/shard-0.ckpt");
  bad[4096 + (2 << 20) + 17] ^= 1; // in the first piece of the second block
  const auto fault = fault_with("shard-0.ckpt", bad);
  EXPECT_THAT(fault, HasSubstr("/shard-0.ckpt: block \"velocity\" is damaged: the CRC32C of bytes 2101248 to 3149824 is "));
  const shard_file mapped(folder, written.files[0]);
  std::vector<float> to(524'288);
  mapped.read("parameters", {0, 524'288}, to.data());
  mapped.read("velocity", {262'144, 524'288}, to.data());
  EXPECT_EQ(refusal_of([&] { mapped.read("velocity", {262'143, 262'144}, to.data()); }), fault);
  EXPECT_EQ(refusal_of([&] { mapped.verify(); }), fault);
  EXPECT_EQ(refusal_of([&] { mapped.read("velocity", {0, 524'288}, to.data()); }), fault);
}

TEST_F(Checkpoint, DamageInTheLastPieceThatIsReadIsNoticed) {
  const auto written = write({{0, 524'288}});
  std::string bad = contents(folder + "/shard-0.ckpt");
  bad[4096 + (2 << 20) - 1] ^= 1;
  overwrite(folder + "/shard-0.ckpt", bad);
  const shard_file mapped(folder, written.files[0]);
  std::vector<float> to(524'288);
  EXPECT_THAT(refusal_of([&] { mapped.read("parameters", {0, 524'288}, to.data()); }), HasSubstr("bytes 1052672 to 2101248"));
}

TEST_F(Checkpoint, HasOneFaultAFile) {
  write({{0, 16}, {16, 32}, {32, 48}});
  overwrite(folder + "/shard-0.ckpt", "");
  fs::remove(folder + "/shard-2.ckpt");
  const auto faults = faults_of(folder);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_THAT(faults[0], HasSubstr("/shard-0.ckpt: has 0 bytes and should have "));
  EXPECT_THAT(faults[1], HasSubstr("/shard-2.ckpt: cannot open it: No such file or directory"));
}

TEST_F(Checkpoint, AFileOfAnotherCheckpointIsNotTaken) {
  const auto written = write({{0, 16}, {16, 32}});
  auto other = head_of(1, {16, 32});
  other.ver = {41};
  const auto parameters = counting(other.range), velocity = counting(other.range, -1);
  const auto file = write_shard_file(folder, other, std::vector<named_block>{{"parameters", parameters}, {"velocity", velocity}});
  ASSERT_EQ(file.bytes, written.files[1].bytes);
  EXPECT_THAT(fault_of(folder).value_or(""), HasSubstr("/shard-1.ckpt: is not the file that the manifest names"));
}

TEST_F(Checkpoint, IsReadByManyThreads) {
  const flat_range range{0, 4'000'000};
  const shard_file mapped(folder, write_shard(0, range));
  std::vector<std::jthread> threads;
  std::vector<std::vector<float>> read(4, std::vector<float>(4'000'000));
  for (auto& to : read)
    threads.emplace_back([&] { mapped.read("parameters", range, to.data()); });
  threads.clear();
  for (const auto& each : read)
    EXPECT_EQ(each, counting(range));
}

/// `file` with a format of 2, and a checksum, at byte `crc`, that is right.
void make_newer(const std::string& file, std::size_t crc) {
  std::string text = contents(file);
  text[8] = 2;
  const std::uint32_t right =
      crc == 12 ? crc32c(bytes_of(text).subspan(16), crc32c(bytes_of(text).first(12))) : crc32c(bytes_of(text).first(crc));
  std::memcpy(text.data() + crc, &right, sizeof right);
  overwrite(file, text);
}

TEST_F(Checkpoint, OfANewerFormatIsRefusedInASentence) {
  write({{0, 16}});
  const std::string sentence = "is of format 2, and this program reads 1; use the program that wrote it, or a newer one";
  make_newer(folder + "/shard-0.ckpt", 60);
  EXPECT_EQ(fault_of(folder), folder + "/shard-0.ckpt: " + sentence);
  make_newer(folder + "/manifest", 12);
  EXPECT_EQ(fault_of(folder), folder + "/manifest: " + sentence);
}

TEST_F(Checkpoint, ItsManifestMustNotLeadOutOfTheFolder) {
  auto written = write({{0, 16}});
  written.files[0].name = "../step-40/shard-0.ckpt";
  write_manifest(folder, written);
  EXPECT_EQ(fault_of(folder),
            folder + "/manifest: names a file \"../step-40/shard-0.ckpt\", which is no shard's and no worker's");
}

TEST_F(Checkpoint, ItsTensorsMustBeWithinTheParameters) {
  auto written = write({{0, 32}});
  for (const tensor_place& bad : {tensor_place{"a", shape{17}, 16},
                                  {"a", shape{1}, -16},
                                  {"a", shape{-1}, 0},
                                  {"a", shape{1}, 48},
                                  {"a", shape{1LL << 32, 1LL << 32}, 0}}) {
    written.tensors = {bad};
    write_manifest(folder, written);
    EXPECT_THAT(fault_of(folder).value_or(""), HasSubstr("/manifest: tensor \"a\" is ")) << bad.dims.to_string();
  }
}

TEST_F(Checkpoint, NamesGoBothWays) {
  EXPECT_EQ(checkpoint_name({40}), "step-40");
  EXPECT_EQ(checkpoint_version("step-40"), version{40});
  EXPECT_EQ(checkpoint_version("step-18446744073709551615"), version{~0ULL});
  for (const char* other :
       {"", "step-", "step-040", "step-+4", "step--4", "step-4 ", "Step-4", "step-4x", "step-18446744073709551616"})
    EXPECT_EQ(checkpoint_version(other), std::nullopt) << other;
}

TEST_F(Checkpoint, OfAFolderAreListedInOrderWithoutStrangers) {
  EXPECT_THAT(checkpoints_in(dir + "/none"), IsEmpty());
  for (const std::uint64_t step : {100, 9, 40}) {
    folder = dir + "/" + checkpoint_name({step});
    write({{0, 16}});
  }
  fs::remove(dir + "/step-9/manifest"); // not finished
  for (const char* stranger : {"step-50", "step-007", "steps", "step-60"})
    fs::create_directory(dir + "/" + stranger);
  overwrite(dir + "/step-60/manifest.new", "");
  overwrite(dir + "/step-70", "");
  fs::copy(dir + "/step-9", dir + "/step-09");
  EXPECT_THAT(checkpoints_in(dir), ElementsAre(version{9}, version{40}, version{100}));
}

TEST_F(Checkpoint, IsRemovedAndStrangersAreNot) {
  write({{0, 16}, {16, 32}});
  overwrite(folder + "/manifest.new", "");
  overwrite(folder + "/notes.txt", "mine");
  overwrite(folder + "/shard-x.ckpt", "mine");
  remove_checkpoint(dir, {40});
  EXPECT_THAT(checkpoints_in(dir), IsEmpty());
  std::vector<std::string> left;
  for (const auto& each : fs::directory_iterator(folder))
    left.push_back(each.path().filename());
  EXPECT_THAT(left, testing::UnorderedElementsAre("notes.txt", "shard-x.ckpt"));
  fs::remove_all(folder);
  write({{0, 16}});
  remove_checkpoint(dir, {40});
  EXPECT_FALSE(fs::exists(folder));
  remove_checkpoint(dir, {40});
}

TEST_F(Checkpoint, OfWhichOnlyStrayFilesAreLeftIsRemovedAndOthersAreNot) {
  for (const std::uint64_t ver : {10, 20, 30, 40, 50}) {
    folder = fmt::format("{}/step-{}", dir, ver);
    ver == 30 ? void(write({{0, 15}})) : void(write_shard(0, {0, 15}));
  }
  remove_strays(dir, {10}, {50});
  EXPECT_THAT(checkpoints_in(dir), ElementsAre(version{10}, version{30}, version{50})) << "of before, whole, and under way";
  remove_strays(dir + "/none", {10}, {50});
}

TEST_F(Checkpoint, WrittenAgainLeavesWhoReadsTheOldOneAlone) {
  const flat_range range{0, 16};
  const shard_file before(folder, write_shard(0, range));
  write_shard_file(folder, head_of(0, range), {});
  std::vector<float> to(16);
  before.read("velocity", range, to.data());
  EXPECT_EQ(to, counting(range, -1));
}

/// What `action`, with the limits that `prepare` sets, throws in a process of its own; "cannot prepare" where these cannot be
/// set.
std::string refusal_in_child(const auto& prepare, const auto& action) {
  int ends[2];
  TROUPE_ASSERT(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string why = prepare() ? refusal_of(action) : "cannot prepare";
    ::_exit(::write(ends[1], why.data(), why.size()) == static_cast<ssize_t>(why.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string why(1'000, '\0');
  why.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], why.data(), why.size()))));
  ::close(ends[0]);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return why;
}

/// No file grows beyond this: a full disk.
auto limit_files(rlim_t bytes) {
  return [bytes] {
    const rlimit small{bytes, bytes};
    return std::signal(SIGXFSZ, SIG_IGN) != SIG_ERR && ::setrlimit(RLIMIT_FSIZE, &small) == 0;
  };
}

/// This system call fails with EIO: a broken disk.
auto break_call(unsigned number) {
  return [number] {
    sock_filter steps[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                           BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const sock_fprog program{std::size(steps), steps};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
  };
}

TEST_F(Checkpoint, ThatDoesNotFitOnTheDiskLeavesNoFile) {
  EXPECT_EQ(refusal_in_child(limit_files(1 << 20),
                             [&] {
                               write_shard(0, {0, 200'000});
                             }),
            folder + "/shard-0.ckpt: cannot write it: File too large");
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(Checkpoint, OnABrokenDiskLeavesNoFile) {
  fs::create_directory(folder);
  for (const unsigned call : {SYS_fsync, SYS_sync_file_range}) {
    const auto why = refusal_in_child(break_call(call), [&] { write_shard(0, {0, 5'000'000}); });
    if (why == "cannot prepare")
      GTEST_SKIP() << "no process may have a filter of system calls here";
    EXPECT_EQ(why, folder + "/shard-0.ckpt: cannot write it to the disk: Input/output error") << call;
    EXPECT_TRUE(fs::is_empty(folder));
  }
}

TEST_F(Checkpoint, AManifestThatCannotBeWrittenLeavesTheOldOne) {
  const auto what = write({{0, 16}});
  auto larger = what;
  larger.lead.resize(1'000);
  EXPECT_EQ(refusal_in_child(limit_files(4096), [&] { write_manifest(folder, larger); }),
            folder + "/manifest.new: cannot write it: File too large");
  const auto why = refusal_in_child(break_call(SYS_fsync), [&] { write_manifest(folder, larger); });
  EXPECT_THAT(why, testing::AnyOf(folder + "/manifest.new: cannot write it to the disk: Input/output error", "cannot prepare"));
  EXPECT_EQ(read_manifest(folder), what);
  EXPECT_FALSE(fs::exists(folder + "/manifest.new"));
}

TEST_F(Checkpoint, WhereNoFolderCanBeIsRefusedByName) {
  overwrite(dir + "/file", "");
  folder = dir + "/file/step-40";
  EXPECT_EQ(refusal_of([&] { write_shard(0, {0, 16}); }), folder + ": cannot make the folder: Not a directory");
  EXPECT_EQ(refusal_of([&] { write_manifest(folder, {}); }), folder + ": cannot make the folder: Not a directory");
  EXPECT_EQ(refusal_of([] { make_folder("/proc/kept/step-40"); }),
            "/proc/kept: cannot make the folder: No such file or directory");
}

} // namespace
} // namespace troupe::actors
