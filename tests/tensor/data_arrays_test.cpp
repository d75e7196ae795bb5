// SPDX-License-Identifier: BSD-3-Clause
// Arrays as data: .npy and safetensors, scaled or not, and every refusal.
#include "tensor/data/arrays.hpp"

#include <cmath>
#include <limits>

#include "tensor/data/npy.hpp"
#include "tests/tensor/data_files.hpp"

namespace troupe {
namespace {

using namespace troupe::testing;
using floats = std::vector<float>;
using ints = std::vector<std::int32_t>;

template <class T>
bytes raw(const std::vector<T>& values) {
  bytes out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

/// As numpy.save writes it.
bytes npy(const std::string& descr, const std::string& shape, const bytes& data, const std::string& order = "False") {
  auto header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::string head = "\x93NUMPY";
  head += {'\x01', '\x00', static_cast<char>(header.size()), '\x00'};
  head += header;
  return bytes(head.begin(), head.end()) + data;
}

struct named_tensor {
  std::string name, type, shape;
  bytes data;
};

bytes safetensors(const std::vector<named_tensor>& tensors) {
  std::string header = "{";
  bytes data;
  for (const auto& each : tensors) {
    header += (header.size() > 1 ? ", \"" : "\"") + each.name + "\": {\"dtype\": \"" + each.type + "\", \"shape\": [" + each.shape
              + "], \"data_offsets\": [" + std::to_string(data.size()) + ", " + std::to_string(data.size() + each.data.size())
              + "]}";
    data = data + each.data;
  }
  header += "}";
  bytes out(8, 0);
  out[0] = static_cast<std::uint8_t>(header.size());
  out[1] = static_cast<std::uint8_t>(header.size() >> 8);
  return out + bytes(header.begin(), header.end()) + data;
}

class Arrays : public data_files {
protected:
  result<data_pair> load(const bytes& x, const bytes& y, const std::string& scale = "standard") const {
    return load_data({.source = "npy", .path = write("x.npy", x), .labels_path = write("y.npy", y), .scale = scale}, 1);
  }
  result<data_pair> load_tensors(const std::vector<named_tensor>& tensors, const std::string& scale = "standard") const {
    return load_data({.source = "safetensors", .path = write("d.safetensors", safetensors(tensors)), .scale = scale}, 1);
  }
  /// Without the folder's name.
  std::string refusal(const result<data_pair>& read) const {
    auto message = message_of(read);
    for (const auto whole = folder().string() + "/"; message.find(whole) != std::string::npos;)
      message.erase(message.find(whole), whole.size());
    return message;
  }
  template <class T>
  static std::vector<T> samples(const data_set& half, const std::vector<std::uint32_t>& rows) {
    std::vector<T> x(rows.size() * static_cast<std::size_t>(half.sample().elements()));
    floats labels(rows.size() * static_cast<std::size_t>(half.format().labels.elements()));
    half.gather(rows, x.data(), labels.data());
    return x;
  }
  template <class T>
  static std::vector<T> labels(const data_set& half, const std::vector<std::uint32_t>& rows) {
    std::vector<T> out(rows.size() * static_cast<std::size_t>(half.format().labels.elements()));
    floats x(rows.size() * static_cast<std::size_t>(half.sample().elements()));
    half.gather(rows, x.data(), out.data());
    return out;
  }
};

const bytes three_labels = npy("<i8", "3,", raw(std::vector<std::int64_t>{2, 0, 1}));

TEST_F(Arrays, ColumnsAreScaledByTheTrainingRows) {
  // The last tenth, at least one row, is the test half. Columns: mean 2, deviation 1; mean 30, deviation 20; one does not vary.
  const auto x = raw(floats{1, 10, 5, 3, 50, 5, 5, 30, 7});
  for (const auto& data : {load(npy("<f4", "3, 3", x), three_labels).value(),
                           load_tensors({{"labels", "I32", "3", raw(ints{2, 0, 1})}, {"features", "F32", "3, 3", x}}).value()}) {
    EXPECT_EQ(data.train->format(), (data_format{.sample = {3}, .classes = 3}));
    EXPECT_EQ(samples<float>(*data.train, {1, 0}), (floats{1, 1, 0, -1, -1, 0}));
    EXPECT_EQ(samples<float>(*data.test, {0}), (floats{3, 0, 2}));
    EXPECT_EQ(labels<std::int32_t>(*data.train, {1, 0}), (ints{0, 2}));
    EXPECT_EQ(data.test->label(0), 1);
    EXPECT_EQ(data.scaling, (data_scaling{"column", {2, 30, 5}, {1, 20, 1}}));
  }
}

TEST_F(Arrays, NumbersMayBeAsLargeOrSmallAsFloatsCanBe) {
  const auto x = npy("<f4", "3, 2", raw(floats{3e38F, 1e-40F, -3e38F, -1e-40F, 0, 0}));
  const auto data = load(x, three_labels).value();
  const auto found = samples<float>(*data.train, {0, 1});
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_FLOAT_EQ(found[i], i < 2 ? 1.0F : -1.0F);
}

TEST_F(Arrays, BytesArePixelsOfChannels) {
  const auto x = npy("|u1", "3, 2, 1, 2", bytes{0, 100, 7, 7, 100, 200, 7, 7, 50, 0, 9, 7});
  const auto data = load(x, three_labels).value(); // channel 0: 0, 100, 100, 200
  EXPECT_EQ(data.train->sample(), (shape{2, 1, 2}));
  const auto scaled = [](double x) { return static_cast<float>((x - 100) * (1 / std::sqrt(5000.0))); };
  EXPECT_EQ(samples<float>(*data.train, {0}), (floats{scaled(0), 0, 0, 0}));
  EXPECT_EQ(samples<float>(*data.test, {0}), (floats{scaled(50), scaled(0), 2, 0}));
  EXPECT_EQ(data.scaling.pair_of, "channel");
  EXPECT_DOUBLE_EQ(data.scaling.mean[0], 100 / 255.0);
  const auto unit = load(x, three_labels, "unit").value();
  EXPECT_EQ(samples<float>(*unit.test, {0}), (floats{50 / 255.0F, 0, 9 / 255.0F, 7 / 255.0F}));
}

TEST_F(Arrays, WholeNumbersAreIdsAndLabelsMayBeMany) {
  const auto x = npy("<i4", "3, 2", raw(ints{0, 4, 1, 2, 3, 3}));
  const auto y = npy("<i2", "3, 2", raw(std::vector<std::int16_t>{1, -100, 0, -1, 2, 2}));
  const auto data = load(x, y).value();
  EXPECT_EQ(data.train->format(), (data_format{.sample = {2}, .classes = 3, .type = dtype::i32, .ids = 5, .labels = {2}}));
  EXPECT_EQ(samples<std::int32_t>(*data.train, {1}), (ints{1, 2}));
  EXPECT_EQ(labels<std::int32_t>(*data.train, {0, 1}), (ints{1, -100, 0, -1}));
}

TEST_F(Arrays, LabelsMayBeNumbers) {
  const auto y = npy("<f8", "3, 1", raw(std::vector<double>{0.5, -1, 2}));
  const auto data = load(npy("<f4", "3, 1", raw(floats{1, 3, 5})), y, "unit").value();
  EXPECT_EQ(data.train->format(), (data_format{.sample = {1}, .labels = {1}, .label_type = dtype::f32}));
  EXPECT_EQ(labels<float>(*data.train, {1, 0}), (floats{-1, 0.5F}));
  EXPECT_EQ(samples<float>(*data.test, {0}), (floats{5})) << "as they are";
}

TEST_F(Arrays, TheTestHalfMayBeApart) {
  const auto x = write("x.npy", npy("<f4", "3, 1", raw(floats{1, 2, 3}))), y = write("y.npy", three_labels);
  const auto other = write("z.npy", npy("<f4", "1, 1", raw(floats{9})));
  const auto of_other = write("w.npy", npy("<i8", "1,", raw(std::vector<std::int64_t>{7})));
  data_spec spec{.source = "npy", .path = x, .test_path = other, .labels_path = y, .test_labels_path = of_other, .scale = "unit"};
  const auto data = load_data(spec, 1).value();
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(samples<float>(*data.test, {0}), (floats{9}));
  EXPECT_EQ(data.train->classes(), 8);
  spec.test_labels_path = "";
  EXPECT_EQ(message_of(load_data(spec, 1)), "data.test_path and data.test_labels_path belong together; give both or neither");
  const auto tensors = load_tensors({{"features", "F32", "1, 1", raw(floats{1})},
                                     {"labels", "U8", "1", bytes{0}},
                                     {"test_features", "F32", "1, 1", raw(floats{2})},
                                     {"test_labels", "U8", "1", bytes{1}}},
                                    "unit");
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(samples<float>(*tensors->test, {0}), (floats{2}));
}

TEST_F(Arrays, BrokenNpyFilesAreRefused) {
  const auto data = raw(floats{1, 2, 3});
  const auto good = npy("<f4", "3, 1", data);
  const auto refused = [&](const bytes& x) { return refusal(load(x, three_labels)); };
  EXPECT_EQ(refused({}), "x.npy: does not begin as a .npy file does; numpy.save writes such");
  EXPECT_EQ(refused(raw(floats{1, 2, 3, 4})), "x.npy: does not begin as a .npy file does; numpy.save writes such");
  EXPECT_EQ(refused(bytes(good.begin(), good.end() - 1)),
            "x.npy: has 11 bytes of data, and (3, 1) elements of <f4 need more; truncated?");
  EXPECT_EQ(refused(good + bytes{0}),
            "x.npy: has 13 bytes of data, and (3, 1) elements of <f4 need fewer; it is no single array");
  EXPECT_EQ(refused(bytes(good.begin(), good.begin() + 60)), "x.npy: claims a header of 118 bytes and has 60 in all; truncated?");
  EXPECT_EQ(refused(npy(">f4", "3, 1", data)),
            "x.npy: its elements are '>f4'; it takes little-endian numbers of u1, i1, u2, i2, u4, i4, i8, f4 or f8: "
            "x.astype(\"float32\")");
  EXPECT_EQ(refused(npy("<f4", "3, 1", data, "True")), "x.npy: is in Fortran's order; save numpy.ascontiguousarray(x)");
  EXPECT_EQ(refused(npy("<f4", "3", data)), "x.npy: has rank 1; features are (rows, ...), (rows, columns) say");
  EXPECT_EQ(refused(npy("<f4", "3, -1", data)).substr(0, 37), "x.npy: its header is not understood a");
  EXPECT_EQ(refused(npy("<f4", "4611686018427387905, 4", data)).substr(0, 22), "x.npy: has 12 bytes of");
  auto later = good;
  later[6] = 4;
  EXPECT_EQ(refused(later), "x.npy: is of version 4 of the format; 1 to 3 are known");
}

TEST_F(Arrays, HalvesThatDoNotFitAreRefused) {
  const auto x = npy("<f4", "3, 1", raw(floats{1, 2, 3}));
  EXPECT_EQ(refusal(load(x, npy("<i8", "2,", raw(std::vector<std::int64_t>{2, 0})))),
            "y.npy: has 2 rows, and x.npy has 3; each sample has its labels");
  EXPECT_EQ(refusal(load(x, npy("<i8", "3,", raw(std::vector<std::int64_t>{2, -2, 0})))),
            "y.npy: element 1 is -2; labels are from 0 to 16777215, or -1 or -100: not predicted");
  EXPECT_EQ(refusal(load(x, npy("<i8", "3,", raw(std::vector<std::int64_t>{2, 0, std::int64_t{1} << 40})))),
            "y.npy: element 2 is 1099511627776, and must be a whole number of 32 bits");
  EXPECT_EQ(refusal(load(npy("<f4", "3, 1", raw(floats{1, std::numeric_limits<float>::infinity(), 3})), three_labels)),
            "x.npy: element 1 is inf; numbers are finite");
  EXPECT_EQ(
      refusal(load(npy("<f4", "3, 1, 1", raw(floats{1, 2, 3})), three_labels)),
      "x.npy: rows are (1, 1), and data.scale = \"standard\" is for columns of numbers and for bytes; write scale = \"unit\", "
      "which takes numbers as they are");
  EXPECT_EQ(refusal(load(npy("<f4", "1, 1", raw(floats{1})), npy("|u1", "1,", bytes{0}))),
            "x.npy: has one row, and the last tenth of the rows, at least one, is for the test");
  EXPECT_EQ(
      refusal(load_tensors({{"features", "F32", "2, 1", raw(floats{1, 2})}, {"label", "U8", "2", bytes{0, 1}}})),
      "d.safetensors: has no tensor \"labels\"; it takes features and labels and, for the test, test_features and test_labels");
  EXPECT_EQ(refusal(load_tensors({{"features", "BF16", "2, 1", bytes(4, 0)}, {"labels", "U8", "2", bytes{0, 1}}})),
            "d.safetensors: tensor \"features\": its elements are BF16; it takes U8, I8, U16, I16, U32, I32, I64, F32 or F64");
  EXPECT_EQ(refusal(load_tensors({{"features", "F32", "3, 1", raw(floats{1, 2})}, {"labels", "U8", "2", bytes{0, 1}}})),
            "d.safetensors: tensor \"features\" has offsets [0, 8), expected [0, 12)");
  EXPECT_EQ(
      refusal(load_tensors({{"features", "F32", "2, 1", raw(floats{1, 2})},
                            {"labels", "U8", "2", bytes{0, 1}},
                            {"test_features", "F32", "1, 2", raw(floats{1, 2})},
                            {"test_labels", "U8", "1", bytes{0}}})),
      "d.safetensors: tensor \"test_features\": rows are (2) of F32, and those of d.safetensors: tensor \"features\" are (1) of "
      "F32");
}

TEST_F(Arrays, AFileThatBecomesShorterIsAnError) {
  const auto data = load(npy("<f4", "3, 1", raw(floats{1, 2, 3})), three_labels).value();
  ASSERT_EQ(::truncate((folder() / "x.npy").c_str(), 130), 0);
  EXPECT_THROW(samples<float>(*data.test, {0}), std::runtime_error);
}

TEST_F(Arrays, WhatIsSavedIsRead) {
  const auto path = folder() / "out.npy";
  ASSERT_TRUE(save_npy(path, {2, 3}, floats{1, 2, 3, 4, 5, 6}));
  const auto array = open_npy(path);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->extents, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array->begin % 64, 0U);
  floats values(6);
  ASSERT_TRUE(array->read(0, std::span{values}));
  EXPECT_EQ(values, (floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(save_npy(folder() / "no" / "out.npy", {1}, floats{1}).error().message,
            (folder() / "no" / "out.npy").string() + ": cannot write it: No such file or directory");
}

} // namespace
} // namespace troupe
