// SPDX-License-Identifier: BSD-3-Clause
// Moving images.
#include "actors/roles/codec/parameters_image.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include <fmt/format.h>

#include "actors/checkpoint/names.hpp"
#include "actors/roles/device.hpp"
#include "kernels/codec.hpp"
#include "kernels/sparse.hpp"

namespace troupe::actors {

namespace {

/// Apart from the streams of layers, and from those of workers' pushes.
constexpr std::uint32_t image_stream = 3U << 30U;

kernels::coded_range elements_of(flat_range where) {
  return {where.begin, where.size()};
}

std::size_t float_bytes(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

} // namespace

std::vector<parameters_part> encoded_parameters::whole() const {
  std::vector<parameters_part> out;
  for (const auto part : partitions_)
    out.push_back({part, image_.slice(float_bytes(part.begin - range_.begin), float_bytes(part.size()))});
  return out;
}

std::vector<encoded_parameters::sending> encoded_parameters::on(const protocols::send_order& order,
                                                                const kernels::buffer& parameters, protocols::version marked) {
  auto step = carried_out(course_.on(order), order.ver, parameters);
  std::vector<sending> out;
  for (auto& each : step.sendings) {
    out.push_back({std::move(each.to), each.base ? codes_ : whole()});
    for (auto& part : out.back().parts) {
      part.base = each.base.value_or(protocols::version{});
      part.marked = marked;
    }
  }
  return out;
}

/// What has changed is found from the version itself: there is nothing to follow.
void encoded_parameters::follow(const protocols::send_order& order, const kernels::buffer& parameters) {
  if (!kernels::is_sparse(form_))
    carried_out(course_.follow(order), order.ver, parameters);
}

protocols::image_course::step encoded_parameters::carried_out(protocols::image_course::step step, protocols::version ver,
                                                              const kernels::buffer& parameters) {
  if (step.moves && !move(ver, parameters))
    course_.cannot_build(step);
  return step;
}

void encoded_parameters::save_to(role_snapshot& part) const {
  if (const auto ver = course_.image(); ver && !kernels::is_sparse(form_)) {
    part.add(image_name, image_);
    part.number(image_version_name, static_cast<std::int64_t>(ver->value));
  }
}

void encoded_parameters::resume(const saved_state& from) {
  if (!from.image || kernels::is_sparse(form_))
    return;
  image_ = from.image;
  course_.resume(from.image_ver);
}

bool encoded_parameters::move(protocols::version ver, const kernels::buffer& parameters) {
  if (image_ && encode(ver, parameters))
    return true;
  image_ = parameters;
  codes_.clear();
  return false;
}

/// False, and nothing has changed, if a difference is not finite.
bool encoded_parameters::encode(protocols::version ver, const kernels::buffer& parameters) {
  if (form_ == kernels::form::sparse_fp32) {
    encode_changes(parameters);
    return true;
  }
  const kernels::random_key key{.seed = seed_, .stream = image_stream, .step = ver.value};
  std::vector<parameters_part> codes;
  for (const auto part : partitions_) {
    const auto at = static_cast<std::size_t>(part.begin - range_.begin), count = static_cast<std::size_t>(part.size());
    const auto now = parameters.span<const float>().subspan(at, count), before = image_.span<const float>().subspan(at, count);
    difference_.resize(count);
    std::ranges::transform(now, before, difference_.begin(), std::minus{});
    parameters_part made{.where = part, .data = allocate_(kernels::encoded_bytes(form_, elements_of(part))), .as = form_};
    if (!kernels::encode(form_, elements_of(part), key, difference_, made.data.span<std::byte>()))
      return false;
    codes.push_back(std::move(made));
  }
  if (!nobody_else_holds(image_)) { // the version itself, or still on its way
    auto own = allocate_(image_.bytes());
    std::memcpy(own.data(), image_.data(), image_.bytes());
    image_ = std::move(own);
  }
  for (const auto& each : codes)
    kernels::add_decoded(form_, elements_of(each.where), each.data.span<const std::byte>(), 1,
                         image_.span<float>().subspan(static_cast<std::size_t>(each.where.begin - range_.begin),
                                                      static_cast<std::size_t>(each.where.size())));
  codes_ = std::move(codes);
  return true;
}

/// The image is the parameters themselves. A partition that has changed too much is sent as it is.
void encoded_parameters::encode_changes(const kernels::buffer& parameters) {
  codes_.clear();
  for (const auto part : partitions_) {
    const std::size_t begin = float_bytes(part.begin - range_.begin), bytes = float_bytes(part.size());
    const auto now = parameters.slice(begin, bytes);
    const auto places = kernels::choose_changed(now.span<const float>(), image_.slice(begin, bytes).span<const float>());
    const std::size_t shorter = kernels::sparse_bytes(form_, elements_of(part), places);
    if (shorter >= bytes) {
      codes_.push_back({.where = part, .data = now});
      continue;
    }
    codes_.push_back({.where = part, .data = allocate_(shorter), .as = form_});
    kernels::encode_sparse(form_, elements_of(part), places, now.span<const float>(), codes_.back().data.span<std::byte>());
  }
  image_ = parameters;
}

/// What is sent whole may come in pieces: lanes cut it.
bool decoded_parameters::has(flat_range where, protocols::version ver) const {
  auto next = where.begin;
  for (auto at = has_.find(next); next < where.end && at != has_.end() && at->second.second == ver; at = has_.find(next))
    next = at->second.first;
  return next == where.end;
}

std::optional<std::string> decoded_parameters::take(flat_range where, protocols::version ver, kernels::form as,
                                                    protocols::version base, std::span<const std::byte> bytes,
                                                    std::span<float> out) {
  if (where.begin < 0 || where.end > static_cast<std::int64_t>(image_.size())
      || (!kernels::is_sparse(as) && bytes.size() != kernels::encoded_bytes(as, elements_of(where))))
    return fmt::format("parameters {} to {} of version {}: not of this model", where.begin, where.end, ver.value);
  const auto own = std::span{image_}.subspan(static_cast<std::size_t>(where.begin), static_cast<std::size_t>(where.size()));
  if (as == kernels::form::fp32) {
    std::memcpy(own.data(), bytes.data(), bytes.size());
  } else {
    if (as != form_ || !kernels::is_sound(as, elements_of(where), bytes))
      return fmt::format("parameters {} to {} of version {}: not as this job encodes them", where.begin, where.end, ver.value);
    if (!has(where, base))
      return fmt::format("parameters {} to {} of version {} build on version {}, which is not here", where.begin, where.end,
                         ver.value, base.value);
    if (as == kernels::form::sparse_fp32)
      kernels::overwrite_sparse(as, bytes, own);
    else
      kernels::add_decoded(as, elements_of(where), bytes, 1, own);
  }
  has_.erase(has_.lower_bound(where.begin), has_.lower_bound(where.end));
  has_.insert_or_assign(where.begin, std::pair{where.end, ver});
  if (static_cast<const void*>(out.data()) != bytes.data()) // a lane has read it to there
    std::ranges::copy(own, out.begin());
  return {};
}

} // namespace troupe::actors
