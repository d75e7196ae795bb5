// SPDX-License-Identifier: BSD-3-Clause
// Layers on features and images.
#include <fmt/format.h>

#include "tensor/builder.hpp"
#include "tensor/layers.hpp"
#include "tensor/line.hpp"

namespace troupe::layers {

namespace {

template <class Pool>
result<Pool> parse_pool(line& l) {
  auto size = l.extent();
  if (!size)
    return l.wrong("needs a window size from 1 on", fmt::format("\"{}\"", Pool::example));
  return Pool{*size};
}

} // namespace

result<linear> linear::parse(line& l) {
  auto units = l.extent();
  if (!units)
    return l.wrong(fmt::format("needs a number of units from 1 to {}", largest_extent), "\"linear 128 relu\"");
  return linear{*units, l.optional_activation()};
}
value_id linear::build(builder& b, value_id x) const {
  const auto& in = b.dims(x);
  if (in.rank() != 1 && in.rank() != 2)
    return b.fail(fmt::format("needs a flat input (rows, features), got {}; put \"flatten\" before it", b.at(x).to_string()));
  const auto weight = builder::weight_for(act, in[in.rank() - 1], units);
  return b.activated(b.dense(x, b.number("linear"), units, weight), act);
}

result<conv> conv::parse(line& l) {
  const auto right = fmt::format("\"{}\"", example);
  conv out;
  auto channels = l.extent();
  if (!channels)
    return l.wrong(fmt::format("needs a number of channels from 1 to {}", largest_extent), right);
  out.channels = *channels;
  const auto kernel = l.take();
  const auto cross = kernel.find('x');
  auto h = line::extent_of(kernel.substr(0, cross), 1);
  auto w = cross == std::string_view::npos ? std::nullopt : line::extent_of(kernel.substr(cross + 1), 1);
  if (!h || !w)
    return l.wrong("needs a kernel HxW", right);
  out.kernel_h = *h;
  out.kernel_w = *w;
  out.act = l.optional_activation();
  struct option {
    std::string_view word;
    std::int64_t least;
    std::int64_t conv::*field;
  };
  for (const auto& [word, least, field] : {option{"stride", 1, &conv::stride}, option{"pad", 0, &conv::padding},
                                           option{"dilation", 1, &conv::dilation}, option{"groups", 1, &conv::groups}})
    if (l.take_if(word)) {
      auto value = l.extent(least);
      if (!value)
        return l.wrong(fmt::format("needs a {} from {} on",
                                   word == "pad"      ? "padding"
                                   : word == "groups" ? "number of groups"
                                                      : word,
                                   least),
                       right);
      out.*field = *value;
    }
  return out;
}
value_id conv::build(builder& b, value_id x) const {
  const auto& in = b.dims(x);
  if (in.rank() != 3)
    return b.fail(fmt::format("needs images (rows, C, H, W), got {}; write it before \"flatten\"", b.at(x).to_string()));
  if (in[0] % groups != 0 || channels % groups != 0)
    return b.fail(fmt::format("{} groups do not divide the {} channels of {} and its own {}", groups, in[0], b.at(x).to_string(),
                              channels));
  const auto window = static_cast<double>(kernel_h) * static_cast<double>(kernel_w);
  const auto weight =
      builder::weight_for(act, static_cast<double>(in[0] / groups) * window, static_cast<double>(channels / groups) * window);
  return b.activated(b.conv(x, b.number("conv"), *this, true, weight), act);
}

result<max_pool> max_pool::parse(line& l) {
  return parse_pool<max_pool>(l);
}
value_id max_pool::build(builder& b, value_id x) const {
  return b.apply(ops::max_pool{size, size}, {x});
}

result<avg_pool> avg_pool::parse(line& l) {
  return l.take_if("all") ? avg_pool{0} : parse_pool<avg_pool>(l);
}
value_id avg_pool::build(builder& b, value_id x) const {
  if (size > 0)
    return b.apply(ops::avg_pool{size, size}, {x});
  const auto& in = b.dims(x);
  if (in.rank() != 2 && in.rank() != 3)
    return b.fail(fmt::format("needs images (rows, C, H, W) or sequences (rows, length, width), got {}", b.at(x).to_string()));
  const bool images = in.rank() == 3;
  const auto kept = images ? shape{in[0], 1, 1} : shape{1, in[1]};
  const auto places = static_cast<float>(in.elements() / kept.elements());
  return b.apply(ops::reshape{{kept.elements()}}, {b.apply(ops::sum_to{kept, true, 1 / places}, {x})});
}

value_id flatten::build(builder& b, value_id x) const {
  return b.apply(ops::reshape{{b.dims(x).elements()}}, {x});
}

value_id layernorm::build(builder& b, value_id x) const {
  return b.layernorm(x, b.number("layernorm"));
}

value_id rmsnorm::build(builder& b, value_id x) const {
  const auto features = b.dims(x).rank() == 2 ? shape{b.dims(x)[1]} : b.dims(x);
  const auto gamma = b.add_parameter(b.number("rmsnorm") + ".weight", features, {initializer::kind::ones});
  return b.apply(ops::rmsnorm{}, {x, gamma});
}

result<groupnorm> groupnorm::parse(line& l) {
  auto groups = l.extent();
  if (!groups)
    return l.wrong("needs a number of groups from 1 on", fmt::format("\"{}\"", example));
  return groupnorm{*groups};
}
value_id groupnorm::build(builder& b, value_id x) const {
  const auto& in = b.dims(x);
  if (in.rank() != 3)
    return b.fail(fmt::format("needs images (rows, C, H, W), got {}; elsewhere write \"layernorm\"", b.at(x).to_string()));
  const auto name = b.number("groupnorm");
  const shape per_channel{in[0]};
  const auto gamma = b.add_parameter(name + ".weight", per_channel, {initializer::kind::ones});
  const auto beta = b.add_parameter(name + ".bias", per_channel, {});
  return b.apply(ops::groupnorm{groups}, {x, gamma, beta});
}

value_id batchnorm::build(builder& b, value_id x) const {
  if (b.dims(x).rank() != 1 && b.dims(x).rank() != 3)
    return b.fail(fmt::format("needs images (rows, C, H, W) or features (rows, N), got {}; a sequence takes \"layernorm\"",
                              b.at(x).to_string()));
  return b.batchnorm(x, b.number("batchnorm"));
}

result<dropout> dropout::parse(line& l) {
  auto rate = l.rate();
  if (!rate)
    return l.wrong("needs a rate in [0, 1)", "\"dropout 0.5\"");
  return dropout{*rate};
}
value_id dropout::build(builder& b, value_id x) const {
  return b.apply(ops::dropout{static_cast<float>(rate), b.next_stream()}, {x});
}

result<activate> activate::parse(line& l) {
  return activate{l.optional_activation()};
}
value_id activate::build(builder& b, value_id x) const {
  return b.activated(x, act);
}

} // namespace troupe::layers
