// SPDX-License-Identifier: BSD-3-Clause
// The values that a key accepts, and complaints about others.
#include "apps/config/key.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/config/suggest.hpp"
#include "protocols/overloaded.hpp"

namespace troupe::config {

namespace {

std::string one_of(const std::vector<std::string>& choices) {
  return fmt::format("{}\"{}\"", choices.size() > 1 ? "one of " : "", fmt::join(choices, "\", \""));
}

std::string bounds(std::int64_t least, std::int64_t most) {
  return most == no_limit ? fmt::format("of at least {}", least) : fmt::format("from {} to {}", least, most);
}

std::string bounds(const real& r) {
  if (std::isinf(r.most))
    return r.open_least ? fmt::format("above {}", r.least) : fmt::format("of at least {}", r.least);
  return fmt::format("{} {} {} {}", r.open_least ? "above" : "from", r.least,
                     r.open_most    ? "and below"
                     : r.open_least ? "and at most"
                                    : "to",
                     r.most);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_device(const std::string& name) {
  constexpr std::string_view prefix = "cuda:";
  if (name == "cpu" || name == "cuda")
    return true;
  return name.starts_with(prefix) && name.size() > prefix.size() && name.size() <= prefix.size() + 3
         && std::all_of(name.begin() + prefix.size(), name.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The complaint of a domain's own check about a value of the right type; empty: none.
std::string refuse(const std::string& s, const text& t) {
  if (t.wrong != nullptr)
    return t.wrong(s);
  if (t.choices.empty() || contains(t.choices, s))
    return {};
  if (contains(t.planned, s))
    return "is not implemented yet; today it takes " + one_of(t.choices);
  const std::string likely = nearest(s, t.choices);
  if (!likely.empty())
    return fmt::format("is not known; did you mean \"{}\"? It takes {}", likely, one_of(t.choices));
  return "is not known; it takes " + one_of(t.choices);
}

} // namespace

std::string expected(const domain& accepts) {
  return std::visit(
      overloaded{
          [](const integer& w) { return "a whole number " + bounds(w.least, w.most); },
          [](const real& r) { return "a number " + bounds(r); },
          [](const text& t) { return t.choices.empty() ? "a text in quotes" : one_of(t.choices); },
          [](const device&) { return std::string(R"("cpu", "cuda" or "cuda:N")"); },
          [](const boolean&) { return std::string("true or false"); },
          [](const text_list& t) { return t.choices.empty() ? "a list of texts" : "a list of texts, each " + one_of(t.choices); },
          [](const device_list&) { return std::string(R"(a list of devices, each "cpu", "cuda" or "cuda:N")"); },
          [](const integer_list& w) { return "a list of whole numbers " + bounds(w.least, w.most); },
          [](const integer_or_word& w) {
            return fmt::format("a whole number {} or \"{}\"", bounds(w.range.least, w.range.most), w.word);
          },
          [](const tables&) { return std::string("tables, or texts of key=value[,key=value]"); },
      },
      accepts);
}

boost::json::object to_json(const domain& accepts) {
  namespace json = boost::json;
  const auto number = [](std::int64_t least, std::int64_t most) {
    json::object out{{"least", least}};
    if (most != no_limit)
      out["most"] = most;
    return out;
  };
  const auto typed = [](const char* type, json::object out = {}) {
    out["type"] = type;
    return out;
  };
  const auto choosing = [&](const char* type, const std::vector<std::string>& choices) {
    return choices.empty() ? typed(type) : typed(type, {{"choices", json::value_from(choices)}});
  };
  return std::visit(overloaded{
                        [&](const integer& w) { return typed("whole", number(w.least, w.most)); },
                        [&](const real& r) {
                          json::object out{{r.open_least ? "above" : "least", r.least}};
                          if (!std::isinf(r.most))
                            out[r.open_most ? "below" : "most"] = r.most;
                          return typed("real", std::move(out));
                        },
                        [&](const text& t) { return choosing("text", t.choices); },
                        [&](const device&) { return typed("device"); },
                        [&](const boolean&) { return typed("flag"); },
                        [&](const text_list& t) { return choosing("texts", t.choices); },
                        [&](const device_list&) { return typed("devices"); },
                        [&](const integer_list& w) { return typed("wholes", number(w.least, w.most)); },
                        [&](const integer_or_word& w) {
                          json::object out = number(w.range.least, w.range.most);
                          out["choices"] = json::value_from(std::vector{w.word});
                          return typed("whole", std::move(out));
                        },
                        [&](const tables& t) {
                          json::array keys;
                          for (const table_key& key : t.keys) {
                            json::object one = to_json(key.accepts);
                            one["key"] = key.name;
                            one["accepts"] = expected(key.accepts);
                            one["meaning"] = key.meaning;
                            keys.push_back(std::move(one));
                          }
                          return typed("tables", {{"keys", std::move(keys)}});
                        },
                    },
                    accepts);
}

namespace {

reading wrong_type(const toml_value& from, const domain& accepts) {
  return {{}, fmt::format("is {}; it takes {}", type_name(from), expected(accepts))};
}

/// A list whose every item `item` accepts, as a vector of Item.
template <class Item>
reading read_list(const toml_value& from, const domain& accepts, const domain& item) {
  const auto* items = std::get_if<toml_array>(&from.held);
  if (items == nullptr)
    return wrong_type(from, accepts);
  if (items->empty())
    return {{}, fmt::format("is empty; it takes {}", expected(accepts))};
  std::vector<Item> list;
  for (const toml_value& element : *items) {
    const reading one = read_value(element, item);
    if (!one.wrong.empty())
      return {{}, fmt::format("holds {}, which {}", to_text(element), one.wrong)};
    list.push_back(std::get<Item>(one.accepted));
  }
  return {std::move(list), {}};
}

template <class Check>
reading read_text(const toml_value& from, const domain& accepts, Check refused) {
  const auto* s = std::get_if<std::string>(&from.held);
  if (s == nullptr)
    return wrong_type(from, accepts);
  return {*s, refused(*s)};
}

reading read_whole(const toml_value& from, const integer& w) {
  const auto* i = std::get_if<std::int64_t>(&from.held);
  if (i == nullptr)
    return wrong_type(from, w);
  if (!w.contains(*i))
    return {{}, "is out of range; it takes " + expected(w)};
  return {*i, {}};
}

reading read_real(const toml_value& from, const real& r) {
  double d = 0;
  if (const auto* i = std::get_if<std::int64_t>(&from.held))
    d = static_cast<double>(*i);
  else if (const auto* f = std::get_if<double>(&from.held))
    d = *f;
  else
    return wrong_type(from, r);
  if (!r.contains(d)) // NaN is in no range
    return {{}, "is out of range; it takes " + expected(r)};
  return {d, {}};
}

std::string refuse_device(const std::string& s) {
  return is_device(s) ? "" : "is no device; it takes " + expected(device{});
}

} // namespace

reading read_value(const toml_value& from, const domain& accepts) {
  return std::visit(overloaded{
                        [&](const integer& w) { return read_whole(from, w); },
                        [&](const real& r) { return read_real(from, r); },
                        [&](const text& t) { return read_text(from, t, [&](const std::string& s) { return refuse(s, t); }); },
                        [&](const device& d) { return read_text(from, d, refuse_device); },
                        [&](const boolean& f) {
                          const auto* b = std::get_if<bool>(&from.held);
                          return b != nullptr ? reading{*b, {}} : wrong_type(from, f);
                        },
                        [&](const text_list& t) {
                          return read_list<std::string>(from, t, text{t.choices, {}});
                        },
                        [&](const device_list& d) { return read_list<std::string>(from, d, device{}); },
                        [&](const integer_list& w) {
                          return read_list<std::int64_t>(from, w, integer{w.least, w.most});
                        },
                        [&](const integer_or_word& w) {
                          const auto* s = std::get_if<std::string>(&from.held);
                          if (s != nullptr && *s == w.word)
                            return reading{w.stands_for, {}};
                          const auto* i = std::get_if<std::int64_t>(&from.held);
                          if (i != nullptr && w.range.contains(*i))
                            return reading{*i, {}};
                          return i != nullptr ? reading{{}, "is out of range; it takes " + expected(w)} : wrong_type(from, w);
                        },
                        [&](const tables& t) { return wrong_type(from, t); },
                    },
                    accepts);
}

} // namespace troupe::config
