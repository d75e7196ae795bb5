// SPDX-License-Identifier: BSD-3-Clause
// Files of samples, and of weights.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>

#include <zlib.h>

#include "tensor/data/cifar10.hpp"
#include "tensor/data/csv.hpp"
#include "tensor/data/data_set.hpp"
#include "tensor/data/idx.hpp"
#include "tensor/data/npy.hpp"
#include "tensor/safetensors.hpp"
#include "tensor/weights_names.hpp"
#include "tests/fuzz/target.hpp"

namespace troupe::fuzz {

namespace {

input idx_of(std::vector<std::uint8_t> extents) {
  input out{0, 0, 8, static_cast<std::uint8_t>(extents.size())};
  std::size_t elements = 1;
  for (const std::uint8_t extent : extents) {
    out.insert(out.end(), {0, 0, 0, extent});
    elements *= extent;
  }
  for (std::size_t i = 0; i < elements; ++i)
    out.push_back(static_cast<std::uint8_t>(extents.size() == 1 ? i % 10 : i));
  return out;
}

input whole(const std::string& path) {
  input out(std::filesystem::file_size(path));
  auto* in = std::fopen(path.c_str(), "rb");
  must(std::fread(out.data(), 1, out.size(), in) == out.size(), "a file can be read");
  std::fclose(in);
  return out;
}

input packed(const input& bytes) {
  const std::string path = own_folder() + "/packed.gz";
  auto* file = gzopen(path.c_str(), "wb");
  must(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())) == static_cast<int>(bytes.size()), "gzip packs a file");
  gzclose(file);
  return whole(path);
}

/// What a set has can be gathered: its last sample and its first.
void gather(const data_pair& both) {
  for (const auto& set : {both.train, both.test}) {
    must(set->size() > 0, "a data set that is read has samples");
    std::vector<float> x(static_cast<std::size_t>(2 * set->sample().elements()));
    std::int32_t labels[2]{};
    const std::uint32_t which[]{static_cast<std::uint32_t>(set->size() - 1), 0};
    set->gather(which, x.data(), labels);
    for (const std::int32_t label : labels)
      must(label >= 0 && label < set->classes(), "a label is one of the classes");
  }
}

constexpr std::int64_t context = 3;

/// Of both halves: ids are below their number, and labels are what follows.
void follow(const data_pair& both) {
  for (const auto& set : {both.train, both.test}) {
    must(set->size() > 0, "a text that is read has samples");
    const std::uint32_t last[]{static_cast<std::uint32_t>(set->size() - 1)};
    std::int32_t x[context]{}, labels[context]{};
    set->gather(last, x, labels);
    for (std::int64_t i = 0; i < context; ++i) {
      must(x[i] >= 0 && x[i] < set->classes() && labels[i] >= 0 && labels[i] < set->classes(), "an id is one of the vocabulary");
      must(i == 0 || x[i] == labels[i - 1], "a label is the id that follows");
    }
  }
}

/// Ids are below their number, labels are classes or ignored, and numbers are finite; those of the test half, scaled, may be
/// beyond a float.
void gather_arrays(const data_pair& both, const std::string& scale) {
  for (const auto& set : {both.train, both.test}) {
    const bool bounded = scale == "unit" || set == both.train;
    must(set->size() > 0, "a data set that is read has samples");
    const auto& format = set->format();
    std::vector<float> x(static_cast<std::size_t>(2 * format.sample.elements())),
        labels(static_cast<std::size_t>(2 * format.labels.elements()));
    const std::uint32_t which[]{static_cast<std::uint32_t>(set->size() - 1), 0};
    set->gather(which, x.data(), labels.data());
    for (const float& each : x)
      must(format.type == dtype::f32 ? std::isfinite(each) || !bounded
                                     : std::bit_cast<std::uint32_t>(each) < static_cast<std::uint64_t>(format.ids),
           "a number is finite, and an id below their number");
    for (const float& each : labels)
      must(format.label_type == dtype::f32
               ? std::isfinite(each)
               : std::bit_cast<std::int32_t>(each) < format.classes && std::bit_cast<std::int32_t>(each) >= -100,
           "a label is a number, or one of the classes");
  }
}

std::vector<std::uint8_t> npy_of(const std::vector<std::int64_t>& extents, const std::vector<float>& values) {
  const std::string path = own_folder() + "/made.npy";
  must(save_npy(path, extents, values).has_value(), "an array can be saved");
  return whole(path);
}

parameter_layout small_layout() {
  parameter_layout layout;
  layout.slots.push_back({"linear1.weight", shape({3, 4}), 0, {}});
  layout.slots.push_back({"linear1.bias", shape({3}), 16, {}});
  return layout;
}

} // namespace

/// As images and as labels, packed or not; then as a part of a whole folder.
int fuzz_idx(const std::uint8_t* data, std::size_t size) {
  for (const char* name : {"one.idx", "one.idx.gz"})
    for (const int rank : {1, 3})
      if (const auto array = read_idx(written(name, data, size), rank)) {
        std::size_t elements = 1;
        for (const auto extent : array->extents)
          elements *= extent;
        must(std::cmp_equal(array->extents.size(), rank) && elements == array->bytes.size(), "an array is as large as it says");
      }
  static const input images = idx_of({3, 4, 4}), labels = idx_of({3});
  std::filesystem::create_directories(own_folder() + "/idx");
  for (const char* half : {"train", "t10k"}) {
    written(std::string("idx/") + half + "-images-idx3-ubyte", images.data(), images.size());
    written(std::string("idx/") + half + "-labels-idx1-ubyte", labels.data(), labels.size());
  }
  for (const char* name : {"idx/train-images-idx3-ubyte", "idx/t10k-labels-idx1-ubyte"}) {
    written(name, data, size);
    if (const auto both = load_data({.source = "idx", .path = own_folder() + "/idx"}, 1))
      gather(*both);
  }
  return 0;
}

std::vector<input> idx_corpus() {
  const input images = idx_of({3, 4, 4}), labels = idx_of({3});
  return {images, labels, packed(images), packed(labels), idx_of({0, 4, 4})};
}

int fuzz_cifar10(const std::uint8_t* data, std::size_t size) {
  static const input good(3073, 7);
  std::filesystem::create_directories(own_folder() + "/cifar10");
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"})
    written(std::string("cifar10/") + name, good.data(), good.size());
  written("cifar10/test_batch.bin", data, size);
  if (const auto both = load_data({.source = "cifar10", .path = own_folder() + "/cifar10"}, 1))
    gather(*both);
  return 0;
}

std::vector<input> cifar10_corpus() {
  input one(3073, 200);
  one[0] = 9;
  input two = one;
  two.insert(two.end(), one.begin(), one.end());
  return {one, two, {}};
}

int fuzz_csv(const std::uint8_t* data, std::size_t size) {
  if (const auto both = load_data({.source = "csv", .path = written("table.csv", data, size)}, 1))
    gather(*both);
  static const input good = bytes_of("a,b,label\n1,2,0\n3,4,1\n");
  if (const auto both = load_data({.source = "csv",
                                   .path = written("train.csv", good.data(), good.size()),
                                   .test_path = written("table.csv", data, size)},
                                  1))
    gather(*both);
  return 0;
}

std::vector<input> csv_corpus() {
  return {bytes_of("a,b,label\n1,2,0\n3.5,-4e3,1\n0,0,1\n"), bytes_of("1,2,0\r\n3,4,2\r\n\r\n5,6,1"),
          bytes_of("\"x, y\" , label ,z\n\"1\",1, 2\n 3 ,0,\"4\"\n"), bytes_of("label\n1\n0\n")};
}

/// By both vocabularies.
int fuzz_text(const std::uint8_t* data, std::size_t size) {
  for (const char* vocabulary : {"characters", "bytes"}) {
    const data_spec spec{
        .source = "text", .path = written("text.txt", data, size), .vocabulary = vocabulary, .context = context, .stride = 2};
    const auto both = load_data(spec, 1);
    if (!both)
      continue;
    follow(*both);
  }
  return 0;
}

std::vector<input> text_corpus() {
  return {bytes_of(std::string(45, 'a') + "b"),
          bytes_of("To be, or not to be, that is the question: whether 'tis nobler in the mind"),
          bytes_of("\u00e4\u20ac\U0001f600 and then much that is plain, so that a tenth of it suffices")};
}

int fuzz_safetensors(const std::uint8_t* data, std::size_t size) {
  const std::string& path = written("weights.safetensors", data, size);
  static const parameter_layout layout = small_layout();
  std::vector<float> flat(static_cast<std::size_t>(layout.floats()));
  const auto read = load_safetensors(path, layout, flat.data());
  const auto metadata = read_safetensors_metadata(path);
  must(!read || metadata, "a file with all weights has a header that can be read");
  if (const auto file = safetensors_file::open(path))
    if (const auto named = named_tensors(*file))
      for (const named_tensor& each : *named) {
        std::vector<float> values(static_cast<std::size_t>(each.dims.elements()));
        must(values.size() <= each.stored.bytes(), "a tensor is no larger than its bytes");
        static_cast<void>(read_tensor(*file, each, values.data()));
      }
  return 0;
}

std::vector<input> safetensors_corpus() {
  const parameter_layout layout = small_layout();
  std::vector<float> flat(static_cast<std::size_t>(layout.floats()), 0.25F);
  const std::string path = own_folder() + "/made.safetensors";
  must(save_safetensors(path, layout, flat.data(), {{"layers", "[\"linear 3\"]"}, {"mean", "[0.5]"}}).has_value(),
       "weights can be saved");
  return {whole(path)};
}

int fuzz_tokens(const std::uint8_t* data, std::size_t size) {
  for (const char* type : {"uint16", "uint32"}) {
    const data_spec spec{.source = "tokens",
                         .path = written("tokens.bin", data, size),
                         .token_type = type,
                         .vocabulary_size = 60000,
                         .context = context,
                         .stride = 2};
    if (const auto both = load_data(spec, 1))
      follow(*both);
  }
  return 0;
}

std::vector<input> tokens_corpus() {
  input plain(100, 1), headed(1024, 0);
  const std::uint32_t header[]{20240520, 1, 50};
  std::memcpy(headed.data(), header, sizeof header);
  headed.insert(headed.end(), plain.begin(), plain.end());
  return {plain, headed};
}

/// As features and as labels.
int fuzz_npy(const std::uint8_t* data, std::size_t size) {
  static const input features = npy_of({3, 2}, {1, 2, 3, 4, 5, 6}), labels = npy_of({3}, {0, 1, 2});
  const std::string x = written("x.npy", features.data(), features.size()), y = written("y.npy", labels.data(), labels.size());
  const std::string mutant = written("mutant.npy", data, size);
  for (const char* scale : {"standard", "unit"})
    for (const bool of_features : {true, false})
      if (const auto both = load_data(
              {.source = "npy", .path = of_features ? mutant : x, .labels_path = of_features ? y : mutant, .scale = scale}, 1))
        gather_arrays(*both, scale);
  return 0;
}

std::vector<input> npy_corpus() {
  auto bytes = npy_of({3, 2}, {0, 0, 0, 0, 0, 0});
  const std::string text = "'<f4'";
  const auto at = std::search(bytes.begin(), bytes.end(), text.begin(), text.end());
  std::copy_n("'<i4'", text.size(), at);
  return {npy_of({3, 2}, {1, 2, 3, 4, 5, 6}), npy_of({3}, {1, 2, 3}), npy_of({3, 1, 2, 1}, {1, 2, 3, 4, 5, 6}), bytes};
}

int fuzz_arrays(const std::uint8_t* data, std::size_t size) {
  for (const char* scale : {"standard", "unit"})
    if (const auto both =
            load_data({.source = "safetensors", .path = written("arrays.safetensors", data, size), .scale = scale}, 1))
      gather_arrays(*both, scale);
  return 0;
}

std::vector<input> arrays_corpus() {
  const auto file = [](std::string header, std::size_t data_bytes) {
    header.resize((header.size() + 7) / 8 * 8, ' ');
    input out(8, 0);
    out[0] = static_cast<std::uint8_t>(header.size());
    out[1] = static_cast<std::uint8_t>(header.size() >> 8);
    out.insert(out.end(), header.begin(), header.end());
    out.resize(out.size() + data_bytes, 1);
    return out;
  };
  return {
      file(
          R"({"features": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, "labels": {"dtype": "U8", "shape": [3], "data_offsets": [24, 27]}})",
          27),
      file(
          R"({"features": {"dtype": "U8", "shape": [2, 1, 2, 2], "data_offsets": [0, 8]}, "labels": {"dtype": "I16", "shape": [2, 1], "data_offsets": [8, 12]},)"
          R"( "test_features": {"dtype": "U8", "shape": [1, 1, 2, 2], "data_offsets": [12, 16]}, "test_labels": {"dtype": "I16", "shape": [1, 1], "data_offsets": [16, 18]}})",
          18)};
}

} // namespace troupe::fuzz
