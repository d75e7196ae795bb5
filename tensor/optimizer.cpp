// SPDX-License-Identifier: BSD-3-Clause
// Optimizer state and the scalars that change from step to step.
#include "tensor/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fnmatch.h>

#include "kernels/assert.hpp"
#include "tensor/parse_number.hpp"

namespace troupe {

namespace {

using kernels::optimizer_scalar_count;

std::size_t bytes_of_floats(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

bool positive(double value) {
  return value > 0 && std::isfinite(value);
}

struct scaled_rate {
  std::string name; ///< may have *
  double factor = 1;
};

/// Of "NAME = FACTOR", with or without spaces; nothing where it is none or its factor is not above 0.
std::optional<scaled_rate> parse_scaled_rate(std::string_view text) {
  const auto trimmed = [](std::string_view part) {
    const auto begin = part.find_first_not_of(' ');
    return begin == std::string_view::npos ? "" : part.substr(begin, part.find_last_not_of(' ') + 1 - begin);
  };
  const auto at = text.rfind('=');
  if (at == std::string_view::npos)
    return std::nullopt;
  const auto name = trimmed(text.substr(0, at));
  const auto factor = parse_number<double>(trimmed(text.substr(at + 1)));
  return !name.empty() && factor && positive(*factor) ? std::optional<scaled_rate>{{std::string{name}, *factor}} : std::nullopt;
}

} // namespace

/// A sentence begins with the key that it is about.
result<void> validate(const optimizer_spec& spec) {
  std::string wrong;
  const auto refuse = [&wrong](bool fits, const char* message, const auto&... values) {
    if (!fits && wrong.empty())
      wrong = fmt::format(fmt::runtime(message), values...);
  };
  const bool adamw = spec.name == "adamw", cosine = spec.schedule == "cosine";
  const auto below_one = [](double rate) { return rate >= 0 && rate < 1; };
  const auto from_zero = [](double value) { return value >= 0 && std::isfinite(value); };
  refuse(adamw || spec.name == "sgd" || spec.name == "lars", "name = \"{}\" is unknown; write \"sgd\", \"lars\" or \"adamw\"",
         spec.name);
  refuse(cosine || spec.schedule == "constant" || spec.schedule == "step",
         "schedule = \"{}\" is unknown; write \"constant\", \"step\" or \"cosine\"", spec.schedule);
  refuse(positive(spec.lr), "lr = {} must be above 0", spec.lr);
  refuse(below_one(spec.momentum), "momentum = {} must be at least 0 and below 1", spec.momentum);
  refuse(!spec.nesterov || adamw || spec.momentum != 0,
         "nesterov looks ahead along the momentum, which is 0; write momentum = 0.9");
  refuse(from_zero(spec.weight_decay), "weight_decay = {} must be at least 0", spec.weight_decay);
  refuse(spec.weight_decay_on == "all" || spec.weight_decay_on == "matrices",
         "weight_decay_on = \"{}\" is unknown; write \"all\" or \"matrices\"", spec.weight_decay_on);
  refuse(below_one(spec.beta1), "beta1 = {} must be at least 0 and below 1", spec.beta1);
  refuse(below_one(spec.beta2), "beta2 = {} must be at least 0 and below 1", spec.beta2);
  refuse(positive(spec.epsilon), "epsilon = {} must be above 0", spec.epsilon);
  refuse(positive(spec.trust), "trust = {} must be above 0", spec.trust);
  refuse(spec.clip_norm == 0 || (spec.clip_norm >= 1e-12 && spec.clip_norm <= 1e12),
         "clip_norm = {} must be between 1e-12 and 1e12, or 0: not clipped", spec.clip_norm);
  refuse(from_zero(spec.warmup_epochs), "warmup_epochs = {} must be at least 0", spec.warmup_epochs);
  refuse(spec.schedule != "step" || positive(spec.step_epochs), "step_epochs = {} must be above 0", spec.step_epochs);
  refuse(spec.schedule != "step" || positive(spec.gamma), "gamma = {} must be above 0", spec.gamma);
  refuse(!cosine || !(spec.min_lr > spec.lr), "min_lr = {} is above lr = {}; the cosine falls from lr to min_lr", spec.min_lr,
         spec.lr);
  refuse(!cosine || spec.total_epochs > spec.warmup_epochs,
         "warmup_epochs = {} leaves nothing to the cosine, which ends at total_epochs = {}; give fewer, or a larger total_epochs",
         spec.warmup_epochs, spec.total_epochs);
  for (const auto& text : spec.lr_scale)
    refuse(parse_scaled_rate(text).has_value(),
           "lr_scale = \"{}\" is no name with a factor above 0; write one such as \"h.0.* = 0.1\"", text);
  if (!wrong.empty())
    return error{errc::bad_option, std::move(wrong)};
  return {};
}

result<void> choose_slots(parameter_layout& layout, const optimizer_spec& spec) {
  const auto trained = [](const parameter_slot& slot) { return slot.kind == slot_kind::trained; };
  for (auto& slot : layout.slots) {
    slot.decay = spec.weight_decay_on == "all" || slot.dims.rank() > 1;
    slot.own_rate = spec.name == "lars" && slot.dims.rank() > 1;
  }
  const bool any = std::ranges::any_of(layout.slots, trained);
  const auto nameless = [&layout](const char* key, const std::string& text, const char* whose) {
    return error{errc::bad_option, fmt::format("optimizer.{} = \"{}\" is the name of no {}parameter; `check` lists them, and "
                                               "{} is the first",
                                               key, text, whose, layout.slots.empty() ? "none" : layout.slots.front().name)};
  };
  const auto named = [&layout, trained](const std::string& pattern) {
    std::vector<parameter_slot*> found;
    for (auto& slot : layout.slots)
      if (trained(slot) && fnmatch(pattern.c_str(), slot.name.c_str(), 0) == 0)
        found.push_back(&slot);
    return found;
  };
  std::vector<parameter_slot*> frozen;
  for (const auto& pattern : spec.freeze) {
    const auto found = named(pattern);
    if (found.empty())
      return nameless("freeze", pattern, "");
    frozen.insert(frozen.end(), found.begin(), found.end());
  }
  for (auto* slot : frozen)
    slot->kind = slot_kind::frozen;
  if (any && std::ranges::none_of(layout.slots, trained))
    return error{errc::bad_option, "optimizer.freeze leaves no parameter to train; name fewer"};
  for (const auto& text : spec.lr_scale) {
    const auto scaled = parse_scaled_rate(text);
    const auto found = scaled ? named(scaled->name) : std::vector<parameter_slot*>{};
    if (found.empty())
      return nameless("lr_scale", text, "trained ");
    for (auto* slot : found)
      slot->lr_scale = scaled->factor;
  }
  return {};
}

optimizer::optimizer(const optimizer_spec& spec, kernels::backend& queue, std::int64_t count, std::vector<update_range> ranges)
    : spec_(spec), queue_(queue), count_(count), ranges_(std::move(ranges)),
      scalars_(queue.allocate(bytes_of_floats(optimizer_scalar_count))), copied_(std::make_unique<std::atomic<std::int64_t>>(0)) {
  TROUPE_ASSERT(validate(spec).has_value());
  if (ranges_.empty())
    ranges_.push_back({.where = {0, count}});
  TROUPE_ASSERT(ranges_.front().where.begin == 0 && ranges_.back().where.end == count);
  if (spec.name == "adamw" || spec.momentum != 0)
    velocity_ = queue.allocate(bytes_of_floats(count));
  if (spec.name == "adamw")
    second_ = queue.allocate(bytes_of_floats(count));
  allocate_rates();
  reset();
}

void optimizer::allocate_rates() {
  std::int64_t longest = 0;
  for (const auto& range : ranges_)
    if (range.own_rate) {
      rated_[range.where.begin] = {};
      longest = std::max(longest, range.where.size());
    }
  if (rated_.empty())
    return;
  rates_ = queue_.allocate(bytes_of_floats(std::ssize(rated_)));
  auto* next = rates_.as<float>();
  for (auto& [begin, own] : rated_)
    own.rate = next++;
  gradient_ = queue_.allocate(bytes_of_floats(longest));
  const auto blocks = static_cast<std::size_t>(kernels::sum_squares{.count = longest}.block_count());
  g_squares_ = queue_.allocate(blocks * sizeof(double));
  p_squares_ = queue_.allocate(blocks * sizeof(double));
}

void optimizer::apply(std::span<const kernels::term> terms, const float* p, float* p_out, double lr) {
  begin_step(lr);
  apply_range(terms, p, p_out, 0, count_);
}

void optimizer::begin_step(double lr) {
  ++steps_;
  stage_scalars(lr);
  for (auto& [begin, own] : rated_)
    own.measured = false;
}

void optimizer::apply_range(std::span<const kernels::term> terms, const float* p, float* p_out, std::int64_t begin,
                            std::int64_t end) {
  TROUPE_ASSERT(0 <= begin && begin < end && end <= count_);
  each_alike(ranges_, {begin, end}, [&](const update_range& piece) { apply_alike(piece, terms, p, p_out); });
}

/// Measured at the first of its pieces in a step: the others may find their parameters stepped.
const float* optimizer::local_rate(const update_range& piece, std::span<const kernels::term> terms, const float* p) {
  if (!piece.own_rate)
    return nullptr;
  auto& own = std::prev(rated_.upper_bound(piece.where.begin))->second;
  if (std::exchange(own.measured, true))
    return own.rate;
  const auto& whole = *std::prev(
      std::ranges::upper_bound(ranges_, piece.where.begin, {}, [](const update_range& each) { return each.where.begin; }));
  const auto begin = whole.where.begin, count = whole.where.size();
  moved_.assign(terms.begin(), terms.end());
  for (auto& term : moved_)
    term.data += begin;
  const auto* gradient = gradient_.as<const float>();
  queue_.enqueue(kernels::weighted_sum{.terms = moved_, .y = gradient_.as<float>(), .count = count});
  const kernels::sum_squares of_gradient{.x = gradient, .count = count, .blocks = g_squares_.as<double>()};
  queue_.enqueue(of_gradient);
  queue_.enqueue(kernels::sum_squares{.x = p + begin, .count = count, .blocks = p_squares_.as<double>()});
  queue_.enqueue(kernels::lars_rate{.blocks = of_gradient.block_count(),
                                    .g_squares = g_squares_.as<const double>(),
                                    .p_squares = p_squares_.as<const double>(),
                                    .rate = own.rate,
                                    .trust = static_cast<float>(spec_.trust),
                                    .weight_decay = piece.decay ? static_cast<float>(spec_.weight_decay) : 0.0F});
  return own.rate;
}

void optimizer::apply_alike(const update_range& part, std::span<const kernels::term> terms, const float* p, float* p_out) {
  const auto begin = part.where.begin, count = part.where.size();
  const float* rate = local_rate(part, terms, p);
  moved_.clear();
  if (part.kind == slot_kind::statistic)
    moved_.push_back({p, 1});
  for (const auto& term : terms)
    moved_.push_back({term.data, part.kind == slot_kind::statistic ? -term.weight : term.weight});
  for (auto& term : moved_)
    term.data += begin;
  if (part.kind == slot_kind::statistic) {
    queue_.enqueue(kernels::weighted_sum{.terms = moved_, .y = p_out + begin, .count = count});
    return;
  }
  if (part.kind == slot_kind::frozen) {
    if (p != p_out)
      queue_.copy(p_out + begin, p + begin, bytes_of_floats(count));
    return;
  }
  auto range_of = [begin](const kernels::buffer& state) { return state ? state.as<float>() + begin : nullptr; };
  const auto weight_decay = part.decay ? static_cast<float>(spec_.weight_decay) : 0.0F;
  const auto lr_scale = static_cast<float>(part.lr_scale);
  if (spec_.name == "adamw")
    queue_.enqueue(kernels::adamw{.count = count,
                                  .terms = moved_,
                                  .p = p + begin,
                                  .p_out = p_out + begin,
                                  .m = range_of(velocity_),
                                  .v = range_of(second_),
                                  .step_scalars = scalars_.as<float>(),
                                  .beta1 = static_cast<float>(spec_.beta1),
                                  .beta2 = static_cast<float>(spec_.beta2),
                                  .epsilon = static_cast<float>(spec_.epsilon),
                                  .weight_decay = weight_decay,
                                  .lr_scale = lr_scale});
  else
    queue_.enqueue(kernels::sgd{.count = count,
                                .terms = moved_,
                                .p = p + begin,
                                .p_out = p_out + begin,
                                .velocity = range_of(velocity_),
                                .step_scalars = scalars_.as<float>(),
                                .momentum = static_cast<float>(spec_.momentum),
                                .weight_decay = weight_decay,
                                .nesterov = spec_.nesterov,
                                .lr_scale = lr_scale,
                                .rate = rate});
}

void optimizer::reset() {
  for (auto* state : {&velocity_, &second_})
    if (*state)
      queue_.enqueue(kernels::fill{.y = state->as<float>(), .count = count_});
  steps_ = 0;
}

std::vector<std::pair<std::string, kernels::buffer>> optimizer::buffers() const {
  std::vector<std::pair<std::string, kernels::buffer>> out;
  if (velocity_)
    out.emplace_back("velocity", velocity_);
  if (second_)
    out.emplace_back("second", second_);
  return out;
}

float* optimizer::next_slot() {
  const auto slot = staged_ % slots_per_block;
  if (slot == 0) {
    // The oldest block's last copy was enqueued this many steps ago.
    const auto oldest_end = staged_ - (std::ssize(host_scalars_) - 1) * slots_per_block;
    if (!host_scalars_.empty() && copied_->load(std::memory_order_acquire) >= oldest_end) {
      std::rotate(host_scalars_.begin(), host_scalars_.begin() + 1, host_scalars_.end());
    } else {
      host_scalars_.push_back(queue_.allocate_host(bytes_of_floats(slots_per_block * optimizer_scalar_count)));
    }
  }
  return host_scalars_.back().as<float>() + slot * optimizer_scalar_count;
}

void optimizer::stage_scalars(double lr) {
  auto* staging = next_slot();
  const auto t = static_cast<double>(steps_);
  staging[kernels::scalar_lr] = static_cast<float>(lr);
  staging[kernels::scalar_correction1] = static_cast<float>(1 - std::pow(spec_.beta1, t));
  staging[kernels::scalar_correction2] = static_cast<float>(1 - std::pow(spec_.beta2, t));
  queue_.copy_from_host(scalars_.data(), staging, bytes_of_floats(optimizer_scalar_count));
  ++staged_;
  if (staged_ % slots_per_block == 0) {
    // A count of copies that have run; two words of capture, so that std::function allocates nothing.
    queue_.notify([copied = copied_.get(), count = staged_] { copied->store(count, std::memory_order_release); });
  }
}

} // namespace troupe
