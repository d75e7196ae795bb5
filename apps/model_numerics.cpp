// SPDX-License-Identifier: BSD-3-Clause
// Real gradients in virtual time.
#include "apps/model_numerics.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "actors/checkpoint/first_parameters.hpp"
#include "actors/roles/codec/chunk_encoder.hpp"
#include "actors/roles/codec/parameters_image.hpp"
#include "actors/roles/codec/push_encoder.hpp"
#include "actors/roles/gradient_norm.hpp"
#include "actors/roles/holder/shard_step.hpp"
#include "actors/roles/worker/replica.hpp"
#include "apps/evaluation.hpp"
#include "kernels/backend.hpp"
#include "tensor/data/batch_loader.hpp"
#include "tensor/data/sample_assignment.hpp"
#include "tensor/layout.hpp"
#include "tensor/plan.hpp"

namespace troupe::apps {

namespace {

namespace sim = protocols::sim;
using actors::replica_term;

struct flat_tensor final : sim::tensor_data {
  explicit flat_tensor(kernels::buffer data, copied_factors factors = {}) : data(std::move(data)), factors(std::move(factors)) {}
  kernels::buffer data;
  copied_factors factors; ///< of a gradient, where they travel
};

sim::tensor wrap(kernels::buffer data) {
  return std::make_shared<flat_tensor>(std::move(data));
}
const kernels::buffer& data_of(const sim::tensor& data) {
  return static_cast<const flat_tensor&>(*data).data;
}

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

/// What the roles of one simulated job share.
struct workshop {
  workshop(const actors::job& described_job, const model& network, const data_pair& both)
      : job(described_job), net(network), data(both),
        queue(kernels::open_backend({.device = "cpu", .threads = described_job.compute.threads})),
        floats(network.layout().floats()), factored(actors::factored_slots_of(job, net)), source(job, net.layout()) {
    auto training = plan::compile(net, *queue,
                                  {.max_rows = job.data.batch,
                                   .piece_rows = job.data.piece_rows(),
                                   .training = true,
                                   .recompute = job.compute.recomputes(),
                                   .factors = job.codec.factors()});
    if (!training)
      throw std::runtime_error(training.error().message);
    step = std::move(*training);
    first = source.flat(allocate());
  }

  std::vector<flat_range> cuts(std::uint32_t shards_there) const {
    return cut_into_shards(floats, static_cast<int>(shards_there), job.codec.cut_unit());
  }

  std::function<kernels::buffer(std::size_t)> allocate() const {
    return [this](std::size_t bytes) { return queue->allocate_host(bytes); };
  }

  kernels::buffer weighted_sum(const std::vector<kernels::term>& terms, std::int64_t count) const {
    auto out = queue->allocate(bytes_of(count));
    if (terms.empty())
      queue->enqueue(kernels::fill{.y = out.as<float>(), .count = count});
    else
      queue->enqueue(kernels::weighted_sum{.terms = terms, .y = out.as<float>(), .count = count});
    return out;
  }

  const actors::job& job;
  const model& net;
  const data_pair& data;
  std::shared_ptr<kernels::backend> queue;
  std::int64_t floats;
  factored_slots factored;
  std::unique_ptr<plan> step;
  actors::first_parameters source;
  kernels::buffer first; ///< parameters
};

class model_worker final : public sim::worker_numerics {
public:
  model_worker(workshop& shop, protocols::member self)
      : shop_(shop), self_(self),
        replica_(*shop.queue, shop.job.optimizer, shop.floats, nullptr, update_ranges(shop.net.layout(), {0, shop.floats})),
        assignment_(
            assignment_for(shop.job.data, static_cast<int>(self.worker.value), static_cast<int>(shop.job.cluster.workers))),
        loader_(
            shop.data.train, shop.job.seed, [queue = shop.queue](std::size_t bytes) { return queue->allocate_host(bytes); },
            assignment_) {}

  sim::gradient gradient_at(const sim::tensor& parameters, const sim::batch& minibatch) override {
    return compute(data_of(parameters), minibatch);
  }

  void adopt(const sim::tensor& parameters) override { anchor_ = data_of(parameters); }

  sim::gradient local_step(const sim::batch& minibatch, const sim::local_step_rule& how) override {
    const auto epochs = static_cast<double>(minibatch.position) / static_cast<double>(shop_.data.train->size());
    const double lr = learning_rate(shop_.job.optimizer, epochs, static_cast<int>(minibatch.workers));
    actors::local_update update{anchor_, how.proximal, how.dual, how.momentum, lr};
    sim::gradient out = compute(replica_.parameters_for(update), minibatch);
    update.squares = out.squares;
    if (out.value && out.finite)
      replica_.step(data_of(out.value), update);
    out.value = nullptr;
    return out;
  }

  void mix(std::span<const sim::operand> terms) override { replica_.mix(resolve(terms)); }
  void dual(double rho) override { replica_.dual_step(anchor_, rho); }
  sim::tensor sum(std::span<const sim::operand> terms) override { return wrap(replica_.sum(resolve(terms))); }
  void forget_momentum() override { replica_.forget_momentum(); }

  sim::encoded_push encoded(const protocols::push& head, const sim::tensor& pushed,
                            const std::optional<protocols::push_density>& how_dense) override {
    if (!shop_.job.codec.encodes_pushes() || !pushed)
      return {pushed};
    if (!encoder_)
      begin(encoder_.emplace(shop_.job, self_.worker, shop_.floats, shop_.allocate(), shop_.factored));
    if (how_dense)
      encoder_->allow(*how_dense);
    encoder_->measure(data_of(pushed).span<const float>());
    for (const auto part :
         cut_into_partitions({0, shop_.floats}, static_cast<std::int64_t>(bytes_of(shop_.floats)), shop_.factored))
      encoder_->encode(head, part, data_of(pushed).slice(bytes_of(part.begin), bytes_of(part.size())).span<const float>(),
                       static_cast<const flat_tensor&>(*pushed).factors);
    encoder_->settle(head);
    sim::encoded_push out{wrap(encoder_->decoded())};
    if (kernels::says_bytes(encoder_->form()))
      out.bytes = encoder_->bytes();
    return out;
  }

  sim::tensor encoded(const protocols::peer_message& chunk, protocols::collective::cargo cargo, std::uint32_t segment,
                      const sim::tensor& sent) override {
    const flat_range where = shop_.cuts(chunk.part.of)[segment];
    if (where.size() == 0)
      return sent;
    if (!chunks_)
      begin(chunks_.emplace(shop_.job, self_, shop_.floats, shop_.allocate(), shop_.factored));
    auto out = shop_.queue->allocate(bytes_of(where.size()));
    for (const auto part : chunks_->cut(where)) {
      const auto here = [&](const kernels::buffer& all) {
        return all.slice(bytes_of(part.begin - where.begin), bytes_of(part.size()));
      };
      const auto codes = chunks_->encode(chunk, cargo, part, here(data_of(sent)).span<const float>(),
                                         static_cast<const flat_tensor&>(*sent).factors);
      const auto head = chunks_->head_of(cargo, {{}, {}, {part.begin, part.end}});
      actors::chunk_encoder::decode(head.as, part, codes, here(out).span<float>());
    }
    return wrap(out);
  }
  void made(protocols::version ver) override {
    if (chunks_)
      chunks_->made(ver);
  }

private:
  template <class Encoder>
  void begin(Encoder& encoder) const {
    if (self_.incarnation == protocols::incarnation{})
      encoder.resume(shop_.source.of_worker(self_.worker.value, shop_.allocate()));
  }

  static std::vector<replica_term> resolve(std::span<const sim::operand> terms) {
    std::vector<replica_term> out;
    for (const sim::operand& term : terms)
      switch (term.from) {
      case sim::operand::source::own:
        out.push_back({replica_term::source::own, {}, term.weight});
        break;
      case sim::operand::source::dual:
        out.push_back({replica_term::source::dual, {}, term.weight});
        break;
      case sim::operand::source::given:
        out.push_back({replica_term::source::given, data_of(term.tensor), term.weight});
        break;
      }
    return out;
  }

  slice rows_of(const sim::batch& minibatch, const sim::batch_part& part) const {
    if (assignment_.by_worker)
      return step_rows(assignment_,
                       {minibatch.position, shop_.job.data.batch, static_cast<int>(minibatch.cuts), static_cast<int>(part.index)},
                       shop_.data.train->size());
    const auto size = static_cast<std::uint64_t>(shop_.data.train->size());
    const auto begin = static_cast<std::int64_t>(part.begin % size);
    return {part.begin / size, begin, begin + static_cast<std::int64_t>(part.end - part.begin)};
  }

  /// Part by part, each in chunks of a batch, as the worker actor does.
  sim::gradient compute(const kernels::buffer& parameters, const sim::batch& minibatch) {
    sim::gradient out;
    double counted = 0;
    kernels::buffer total;
    copied_factors factors;
    for (const sim::batch_part& part : minibatch.parts) {
      const slice whole = rows_of(minibatch, part);
      for (std::int64_t begin = whole.begin; begin < whole.end; begin += shop_.job.data.batch) {
        const std::int64_t end = std::min(begin + shop_.job.data.batch, whole.end);
        const kernels::buffer g = step({whole.epoch, begin, end}, parameters, factors);
        const step_outcome& outcome = shop_.step->outcome();
        out.loss += outcome.loss_sum;
        counted += static_cast<double>(outcome.counted);
        out.ignored += outcome.ignored_rows();
        out.finite = out.finite && outcome.finite;
        const double weight = part.weight * static_cast<double>(end - begin) / static_cast<double>(whole.size());
        if (!total && weight == 1) {
          total = g;
          continue;
        }
        factors = {};
        if (!total)
          total = shop_.weighted_sum({{g.as<const float>(), weight}}, shop_.floats);
        else
          total = shop_.weighted_sum({{total.as<const float>(), 1}, {g.as<const float>(), weight}}, shop_.floats);
      }
    }
    if (counted > 0)
      out.loss /= counted;
    if (total) {
      out.value = std::make_shared<flat_tensor>(total, std::move(factors));
      out.squares = actors::squares_of(total.as<const float>(), replica_.ranges(), shop_.job.optimizer.clip_norm);
    }
    return out;
  }

  /// Where they travel, with the factors of the gradient.
  kernels::buffer step(const slice& rows, const kernels::buffer& parameters, copied_factors& factors) {
    const batch loaded = loader_.load(rows);
    auto gradient = shop_.queue->allocate(bytes_of(shop_.floats));
    step_args args;
    args.parameters = parameters.as<const float>();
    args.gradients = gradient.as<float>();
    args.x = loaded.x.data();
    args.labels = loaded.labels.data();
    args.rows = loaded.rows;
    args.counted = loaded.counted;
    args.key = {.seed = shop_.job.seed, .step = loaded.place};
    if (!shop_.factored.empty()) {
      factors = {shop_.queue->allocate(bytes_of(factor_floats(shop_.factored, shop_.job.data.batch))), loaded.rows};
      args.factors = factors.block.as<float>();
    }
    shop_.step->enqueue_step(args);
    shop_.queue->synchronize();
    return gradient;
  }

  workshop& shop_;
  protocols::member self_;
  actors::replica replica_;
  kernels::buffer anchor_;
  sample_assignment assignment_;
  batch_loader loader_;
  std::optional<actors::push_encoder> encoder_; ///< this and the next: once something is encoded
  std::optional<actors::chunk_encoder> chunks_;
};

class model_shard final : public sim::shard_numerics {
public:
  model_shard(workshop& shop, flat_range range)
      : shop_(shop), range_(range), step_(shop.job.shard_optimizer(), *shop.queue, range.size(), shop.data.train->size(),
                                          update_ranges(shop.net.layout(), range)),
        newest_(shop.first.slice(bytes_of(range.begin), bytes_of(range.size()))) {
    const auto from = shop.source.of_shard(range, shop.allocate());
    step_.resume(from);
    if (const auto form = shop.job.codec.params_form(); form != kernels::form::fp32 && !kernels::is_sparse(form))
      image_.emplace(form, shop.job.seed, range, std::vector{range}, shop.allocate()).resume(from);
  }

  sim::tensor parameters() const override { return wrap(newest_); }

  sim::tensor move_image(protocols::version ver) override {
    if (!image_)
      return parameters();
    image_->move(ver, newest_);
    return wrap(image_->image());
  }

  void step(std::span<const sim::operand> sum, const protocols::close& how, const sim::tensor& backup) override {
    std::vector<kernels::term> terms;
    for (const sim::operand& term : sum)
      terms.push_back({data_of(term.tensor).as<const float>(), term.weight});
    if (terms.empty() || range_.size() == 0) // a small model has fewer pieces than some jobs shards
      return;
    kernels::buffer compensated;
    if (how.compensate.lambda != 0 && backup) {
      compensated = step_.compensated(terms.front().data, newest_.as<const float>(), data_of(backup).as<const float>(), how);
      terms.front().data = compensated.as<const float>();
    }
    auto next = shop_.queue->allocate(bytes_of(range_.size()));
    step_.begin(how);
    step_.apply(terms, how, newest_.as<const float>(), next.as<float>(), {0, range_.size()});
    newest_ = next;
  }

  protocols::squared_norm squares_of(const sim::tensor& sum) const override {
    return actors::squares_of(data_of(sum).as<const float>(), step_.ranges(), shop_.job.optimizer.clip_norm);
  }

  std::unique_ptr<sim::shard_numerics> clone() const override {
    auto out = std::make_unique<model_shard>(shop_, range_);
    out->newest_ = newest_; // a step writes to another block
    const auto to = out->step_.buffers(), from = step_.buffers();
    for (std::size_t i = 0; i < from.size(); ++i)
      std::memcpy(to[i].second.data(), from[i].second.data(), from[i].second.bytes());
    out->step_.take(step_.memory());
    return out;
  }

private:
  workshop& shop_;
  flat_range range_;
  actors::shard_step step_;
  kernels::buffer newest_;
  std::optional<actors::encoded_parameters> image_; ///< none: workers have the version itself
};

class model_numerics final : public sim::numerics {
public:
  model_numerics(const actors::job& job, const model& net, const data_pair& data) : shop_(job, net, data) {}

  std::unique_ptr<sim::worker_numerics> make_worker(protocols::member self) override {
    return std::make_unique<model_worker>(shop_, self);
  }
  std::unique_ptr<sim::shard_numerics> make_shard(std::uint32_t index, std::uint32_t shards) override {
    return std::make_unique<model_shard>(shop_, shop_.cuts(shards)[index]);
  }
  sim::tensor slice(const sim::tensor& whole, std::uint32_t index, std::uint32_t shards) override {
    const flat_range range = shop_.cuts(shards)[index];
    return wrap(data_of(whole).slice(bytes_of(range.begin), bytes_of(range.size())));
  }
  sim::tensor join(std::span<const sim::tensor> ranges, std::uint32_t index, std::uint32_t shards) override {
    if (ranges.size() == 1)
      return ranges.front();
    auto out = shop_.queue->allocate(bytes_of(shop_.cuts(shards)[index].size()));
    std::byte* to = out.data();
    for (const sim::tensor& range : ranges) {
      std::memcpy(to, data_of(range).data(), data_of(range).bytes());
      to += data_of(range).bytes();
    }
    return wrap(out);
  }
  sim::tensor sum(std::span<const sim::operand> terms) override {
    std::vector<kernels::term> parts;
    for (const sim::operand& term : terms)
      parts.push_back({data_of(term.tensor).as<const float>(), term.weight});
    return wrap(shop_.weighted_sum(parts, static_cast<std::int64_t>(data_of(terms.front().tensor).bytes() / sizeof(float))));
  }
  sim::evaluation evaluate(const sim::tensor& whole) override {
    const float* parameters = data_of(whole).as<const float>();
    const auto evaluate_on = [&](const std::shared_ptr<const data_set>& set, std::int64_t samples) {
      auto found = evaluate_model(shop_.net, parameters, set, *shop_.queue, shop_.job.data.piece_rows(), samples);
      if (!found)
        throw std::runtime_error(found.error().message);
      return *found;
    };
    const auto train = evaluate_on(shop_.data.train, std::min(shop_.job.evaluate.train_samples, shop_.data.train->size()));
    const auto test = evaluate_on(shop_.data.test, shop_.data.test->size());
    sim::evaluation out{.train_loss = train.loss, .test_loss = test.loss, .test_accuracy = test.accuracy};
    if (const auto& held_out = shop_.data.validation)
      out.validation_loss = evaluate_on(held_out, held_out->size()).loss;
    return out;
  }

private:
  workshop shop_;
};

} // namespace

const float* values_of(const sim::tensor& data) {
  return data_of(data).as<const float>();
}

std::unique_ptr<sim::numerics> make_model_numerics(const actors::job& job, const model& net, const data_pair& data) {
  return std::make_unique<model_numerics>(job, net, data);
}

} // namespace troupe::apps
