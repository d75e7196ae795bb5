// SPDX-License-Identifier: BSD-3-Clause
// `troupe generate`: a text goes on as a model of next ids predicts.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/flags.hpp"
#include "apps/job_setup.hpp"
#include "apps/prediction.hpp"
#include "apps/report.hpp"
#include "apps/weights_file.hpp"
#include "kernels/random.hpp"
#include "tensor/safetensors.hpp"

namespace troupe::apps {

namespace {

using ids = std::vector<std::int32_t>;

constexpr std::uint32_t sampling_stream = 0x6E00'0000;

/// What the job's model reads and predicts, and what its ids stand for.
struct spoken {
  data_format format;
  std::shared_ptr<const vocabulary> words; ///< null: ids alone
};

/// From the weights, if they say; else from the job's data.
config::checked<spoken> language_of(const config::loaded_job& job, const std::map<std::string, std::string>& metadata) {
  const data_spec& data = job.job.data;
  if (!job.job.own_data.name.empty() || (data.source != "text" && data.source != "tokens"))
    return config::refusal{{{where_of(job, "data.source"), "this job's model predicts no next id, and generate asks for them; it "
                                                           "takes jobs of data.source = \"text\" or \"tokens\""}}};
  const auto of = [&data](std::int64_t count) {
    return data_format{
        .sample = {data.context}, .classes = static_cast<int>(count), .type = dtype::i32, .ids = count, .labels = {data.context}};
  };
  if (data.source == "tokens")
    return spoken{of(data.vocabulary_size), nullptr};
  if (auto words = read_vocabulary(metadata); words && *words) {
    const auto format = of((*words)->size());
    return spoken{format, std::make_shared<const vocabulary>(std::move(**words))};
  } else if (!words) {
    return config::refusal{{{"--weights", words.error().message}}};
  }
  auto read = load_data(job);
  if (!read)
    return read.error();
  return spoken{read->train->format(), read->words};
}

/// The ids of a text; without a vocabulary, it spells them.
result<ids> read_ids(const vocabulary* words, std::int64_t count, const std::string& text) {
  if (words != nullptr) {
    auto read = words->ids(text);
    return read ? read : error{errc::bad_data, read.error().message + ", which the model was trained on"};
  }
  ids out;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const auto id = parse_number<std::int32_t>(word);
    if (!id || *id < 0 || *id >= count)
      return error{errc::bad_data,
                   fmt::format("\"{}\" is no id from 0 to {}; this job's texts are ids, such as \"17 4 25\"", word, count - 1)};
    out.push_back(*id);
  }
  return out.empty() ? result<ids>(error{errc::bad_data, "it has no id; this job's texts are ids, such as \"17 4 25\""}) : out;
}

/// Asks a model for the logits of the id that follows some others.
class next_id {
public:
  next_id(predictor& model, std::int64_t context) : model_(model), context_(static_cast<std::size_t>(context)) {}

  /// The last `context` of `known` count. Those places that they do not fill, behind them, hold `filler`.
  std::span<const float> logits(std::span<const std::int32_t> known, std::int32_t filler = 0) {
    known = known.last(std::min(known.size(), context_));
    const std::span window(static_cast<std::int32_t*>(model_.samples()), context_);
    std::fill(std::ranges::copy(known, window.begin()).out, window.end(), filler);
    const auto all = model_.predict(1);
    const auto classes = all.size() / context_;
    return all.subspan((known.size() - 1) * classes, classes);
  }

  /// Whether what comes later changes what is predicted: then it is no prediction.
  bool looks_ahead(std::span<const std::int32_t> known) {
    if (context_ == 1)
      return false;
    known = known.first(std::min(known.size(), context_ - 1));
    const auto some = logits(known, 0);
    const std::vector<float> before(some.begin(), some.end());
    return std::memcmp(before.data(), logits(known, 1).data(), before.size() * sizeof(float)) != 0;
  }

private:
  predictor& model_;
  std::size_t context_;
};

/// Draws by exp(logit / temperature) among the `top_k` likeliest; at temperature 0 takes the likeliest. Of equals the first.
std::int32_t chosen_id(std::span<const float> logits, const generate_options& how, double uniform) {
  ids order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto kept = how.temperature == 0 ? std::size_t{1}
                    : how.top_k == 0     ? order.size()
                                         : std::min<std::size_t>(how.top_k, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(kept),
                            [&](auto a, auto b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  order.resize(kept);
  if (kept == 1)
    return order[0];
  std::vector<double> upto;
  double sum = 0;
  for (const auto id : order)
    upto.push_back(sum += std::exp((static_cast<double>(logit(id)) - logit(order[0])) / how.temperature));
  const auto found = std::ranges::upper_bound(upto, uniform * sum);
  return order[static_cast<std::size_t>(std::min(found - upto.begin(), std::ssize(upto) - 1))];
}

/// For JSON: bytes that are no characters become U+FFFD.
std::string characters_of(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto size = first_character(text).bytes;
    out += size == 0 ? "\uFFFD" : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return out;
}

} // namespace

job_command generate_command(generate_options& into) {
  return {"generate",
          "Let a model go on with a text",
          "troupe generate config/gpt-char.toml --weights gpt.safetensors --start 'KING'",
          {required_text("--weights", "FILE.safetensors", "a file of run --save", into.weights),
           required_text("--start", "TEXT", "what it goes on with; ids, where the job reads tokens", into.start),
           number_from<std::uint64_t>(1, "--tokens", "N", "how many ids it adds", into.tokens),
           number_from<double>(0, "--temperature", "T", "how freely it draws; at 0 it takes the likeliest", into.temperature),
           number_from<std::uint64_t>(0, "--top-k", "K", "it draws among the K likeliest; 0: among all", into.top_k)}};
}

int execute(const generate_options& options) {
  auto job = load_job(options.job);
  if (!job)
    return refuse(job.error());
  print_notes(job->left_out);
  const auto about_weights = [&](const std::string& why) { return refuse({{{"--weights", why}}}); };
  const auto metadata = read_safetensors_metadata(options.weights);
  if (!metadata)
    return about_weights(metadata.error().message);
  const auto language = language_of(*job, *metadata);
  if (!language)
    return refuse(language.error());
  const auto network = build_model(*job, language->format);
  if (!network)
    return refuse(network.error());
  if (const auto why = other_model(*metadata, job->job); !why.empty())
    return about_weights(fmt::format("{}: {}", options.weights, why));
  auto known = read_ids(language->words.get(), language->format.ids, options.start);
  if (!known)
    return refuse({{{"--start", known.error().message}}});
  const auto queue = kernels::open_backend({.device = "cpu", .threads = job->job.compute.threads});
  auto opened = predictor::open(*network, options.weights, *queue, 1);
  if (!opened)
    return about_weights(opened.error().message);
  next_id next(*opened, language->format.sample[0]);
  if (next.looks_ahead(*known))
    return refuse(
        {{{where_of(*job, "model.layers"),
           "the model's prediction of an id depends on those behind it, so it predicts no next id; write \"causal\" at its "
           "attention layers"}}});
  std::string text = options.start;
  if (!options.json)
    fmt::print("{}", text);
  for (std::uint64_t i = 0; i < options.tokens; ++i) {
    const kernels::random_key key{.seed = job->job.seed, .stream = sampling_stream, .step = i};
    const auto logits = next.logits(*known);
    if (!std::ranges::all_of(logits, [](float each) { return std::isfinite(each); })) {
      fmt::print(stderr, "\ntroupe: {}: with these weights the model's predictions are no numbers\n", options.weights);
      return exit_failed;
    }
    known->push_back(chosen_id(logits, options, kernels::random_uniform(key, 0)));
    const auto added = language->words ? language->words->text(known->back()) : fmt::format(" {}", known->back());
    text += added;
    if (!options.json) {
      fmt::print("{}", added);
      std::fflush(stdout);
    }
  }
  if (options.json)
    print_json({{"job", job->job.name},
                {"weights", options.weights},
                {"seed", job->job.seed},
                {"text", characters_of(text)},
                {"ids", boost::json::value_from(*known)},
                {"version", TROUPE_VERSION}});
  else
    fmt::print("\n");
  return exit_done;
}

} // namespace troupe::apps
