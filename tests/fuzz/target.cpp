// SPDX-License-Identifier: BSD-3-Clause
// The table of targets, and what they share.
#include "tests/fuzz/target.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace troupe::fuzz {

namespace {

/// In memory where the system has a file system there: a mutant costs a file.
class folder {
public:
  folder() {
    for (const char* pattern : {"/dev/shm/troupe-fuzz-XXXXXX", "/tmp/troupe-fuzz-XXXXXX"}) {
      path_ = pattern;
      if (mkdtemp(path_.data()) != nullptr)
        return;
    }
    throw std::runtime_error("cannot make a folder like " + path_);
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  folder(const folder&) = delete;
  folder& operator=(const folder&) = delete;
  const std::string& path() const { return path_; }

private:
  std::string path_;
};

} // namespace

const std::vector<target>& targets() {
  static const std::vector<std::string> toml{
      "[[",     "]]",    "= ",         "\"",    "\n[",        "'''",     "1e999", "-9223372036854775808", "nan", "true",
      "[data]", "batch", "1979-05-27", "{a=1}", "0x7fffffff", "\\u0000", "\xff"};
  static const std::vector<target> all{
      {"arrays",
       fuzz_arrays,
       arrays_corpus,
       {"F32", "I64", "U8", "BF16", "features", "labels", "test_features", "data_offsets", "[0,", "18446744073709551615", "null",
        "-1"}},
      {"calibration",
       fuzz_calibration,
       calibration_corpus,
       {"traceEvents", "\"ph\":\"X\"", "null", "1e999", "[[[[[[", "\"dur\":-1"},
       2},
      {"cifar10", fuzz_cifar10, cifar10_corpus, {}, 4},
      {"cluster", fuzz_cluster, cluster_corpus, toml, 2},
      {"csv",
       fuzz_csv,
       csv_corpus,
       {"label", "\"", "\"\"", ",,", "\r\n", "nan", "inf", "1e309", "-1", "10000", "\xef\xbb\xbf", "9999999999"}},
      {"http",
       fuzz_http,
       http_corpus,
       {"GET ", " HTTP/1.1", "\r\n", "\r\n\r\n", "Host: ", "localhost", "/events", "/snapshot", "Transfer-Encoding: chunked",
        "Content-Length: 18446744073709551616", "%00", "/.."},
       2},
      {"idx", fuzz_idx, idx_corpus, {std::string("\xff\xff\xff\xff", 4), std::string("\x00\x00\x08\x03", 4), "\x1f\x8b"}},
      {"job", fuzz_job, job_corpus, toml, 4},
      {"lane", fuzz_lane, lane_corpus},
      {"ledger", fuzz_ledger, ledger_corpus},
      {"manifest", fuzz_manifest, manifest_corpus},
      {"metrics", fuzz_metrics, http_corpus, {"GET /metrics", " HTTP/1.1", "\r\n", "\r\n\r\n", "Host: "}, 2},
      {"npy",
       fuzz_npy,
       npy_corpus,
       {"<f4", "|u1", "<i8", ">f4", "True", "(", ",)", "-1", "9223372036854775807", "descr", "shape"},
       2},
      {"onnx",
       fuzz_onnx,
       onnx_corpus,
       {"Gemm", "MatMul", "Reshape", "Transpose", "Gather", "Expand", "Where", "Concat", "Slice", "ConstantOfShape", "input",
        "perm", "axis", std::string("\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9)},
       2},
      {"rounds",
       fuzz_rounds,
       rounds_corpus,
       {"\"epoch\":", "\"members\":", "\"end\":", "null", "-1", "1e999", "[[[[", "18446744073709551615", "\"0x1p3\""}},
      {"safetensors",
       fuzz_safetensors,
       safetensors_corpus,
       {"F32", "BF16", "data_offsets", "__metadata__", "[0,", "18446744073709551615", "null", "-1"}},
      {"shard_file", fuzz_shard_file, shard_file_corpus, {}, 2},
      {"state", fuzz_state, state_corpus},
      {"text",
       fuzz_text,
       text_corpus,
       {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\xa0\x80", "\xc0\xaf", "\xff", "\xef\xbb\xbf"}},
      {"tokens",
       fuzz_tokens,
       tokens_corpus,
       {std::string("\x88\xd8\x34\x01", 4), std::string("\x01\x00\x00\x00", 4), "\xff\xff"}},
  };
  return all;
}

input bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}

input source_file(const std::string& path) {
  std::ifstream in(std::string(TROUPE_SOURCE_DIR) + "/" + path, std::ios::binary);
  must(in.good(), ("a file of the corpus can be read: " + path).c_str());
  return {std::istreambuf_iterator<char>(in), {}};
}

const std::string& own_folder() {
  static const folder own;
  return own.path();
}

const std::string& written(const std::string& name, const std::uint8_t* data, std::size_t size) {
  static std::map<std::string, std::string> paths;
  std::string& path = paths[name];
  if (path.empty())
    path = own_folder() + "/" + name;
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  must(file >= 0 && ::write(file, data, size) == static_cast<ssize_t>(size), "a mutant can be written to a file");
  ::close(file);
  return path;
}

void must(bool kept, const char* promise) {
  if (kept)
    return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

} // namespace troupe::fuzz
