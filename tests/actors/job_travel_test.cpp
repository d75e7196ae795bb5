// SPDX-License-Identifier: BSD-3-Clause
// What crosses hosts arrives as it was sent: every message, whatever its fields hold.
#include <map>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <gtest/gtest.h>

#include "actors/messages/cluster.hpp"
#include "actors/messages/dialect.hpp"
#include "actors/messages/spelling.hpp"
#include "actors/version.hpp"

namespace troupe::actors {
namespace {

/// With a system of actors: none of their handles travels without.
class JobTravel : public testing::Test {
protected:
  template <class What>
  What arrival_of(What sent) {
    caf::byte_buffer bytes;
    caf::binary_serializer out{system_, bytes};
    EXPECT_TRUE(out.apply(sent));
    What arrived;
    caf::binary_deserializer in{system_, bytes};
    EXPECT_TRUE(in.apply(arrived));
    return arrived;
  }
  template <caf::type_id_t id>
  void expect_arrival();

private:
  caf::actor_system_config config_;
  caf::actor_system system_{config_};
};

TEST_F(JobTravel, WhatAProgramHasAddedArrivesByName) {
  job sent;
  sent.own_data = {"spirals", {{"arms", std::int64_t{3}}, {"noise", 0.5}}};
  sent.own_model = {"tapered", {{"steep", true}, {"shape", std::string{"cone"}}, {"parts", std::vector<std::string>{"a", "b"}}}};
  const auto arrived = arrival_of(sent);
  EXPECT_EQ(arrived.own_data, sent.own_data);
  EXPECT_EQ(arrived.own_model, sent.own_model);
  EXPECT_EQ(arrival_of(node_hello{"b", "1", 7, {"model \"tapered\""}}).added, std::vector<std::string>{"model \"tapered\""});
}

// -- every message of the control plane, with all that its fields may hold

template <class T>
struct kind_of {
  static constexpr bool list = false, optional = false, variant = false, local = false;
};
template <class T>
struct kind_of<std::vector<T>> : kind_of<void> {
  static constexpr bool list = true;
};
template <class T>
struct kind_of<std::optional<T>> : kind_of<void> {
  static constexpr bool optional = true;
};
template <class... T>
struct kind_of<std::variant<T...>> : kind_of<void> {
  static constexpr bool variant = true;
};
template <class T>
struct kind_of<stays_here<T>> : kind_of<void> {
  static constexpr bool local = true;
};

/// Sets everything that is in `x` to something else than it was made with, but for handles of actors.
class filler {
public:
  explicit filler(std::uint32_t seed) : random_(seed) {}

  template <class T>
  void fill(T& x) {
    if constexpr (kind_of<T>::local || requires { x.address(); })
      return;
    else if constexpr (std::is_same_v<T, bool>)
      x = !x;
    else if constexpr (std::is_enum_v<T>)
      x = static_cast<T>(random_() % enumerators<T>());
    else if constexpr (std::is_arithmetic_v<T>)
      x = static_cast<T>(x + 1 + static_cast<T>(random_() % 100));
    else if constexpr (std::is_same_v<T, std::string>)
      x += "text " + std::to_string(random_());
    else if constexpr (kind_of<T>::optional)
      fill(x.emplace());
    else if constexpr (kind_of<T>::variant)
      std::visit([this](auto& held) { fill(held); }, x);
    else if constexpr (kind_of<T>::list)
      for (int i = 0; i < 3; ++i)
        add(x);
    else if constexpr (requires { typename T::mapped_type; }) {
      for (int i = 0; i < 3; ++i) {
        typename T::key_type key{};
        fill(key), fill(x[std::move(key)]);
      }
    } else if constexpr (requires { typename T::key_type; }) { // std::set
      for (int i = 0; i < 3; ++i) {
        typename T::key_type key{};
        fill(key), x.insert(std::move(key));
      }
    } else if constexpr (requires { x.fill(x.front()); }) { // std::array
      for (auto& each : x)
        fill(each);
    } else if constexpr (requires { x.first, x.second; })
      fill(x.first), fill(x.second);
    else
      boost::pfr::for_each_field(x, [this](auto& field) { fill(field); });
  }

private:
  template <class T>
  void add(std::vector<T>& to) {
    T one{};
    fill(one);
    to.push_back(std::move(one));
  }
  std::minstd_rand random_;
};

template <class T>
void expect_same(const T& one, const T& other, const std::string& where) {
  if constexpr (kind_of<T>::local || requires { one.address(); })
    return;
  else if constexpr (kind_of<T>::variant || std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string>)
    EXPECT_TRUE(one == other) << where;
  else if constexpr (kind_of<T>::optional) {
    ASSERT_EQ(one.has_value(), other.has_value()) << where;
    if (one)
      expect_same(*one, *other, where);
  } else if constexpr (requires { one.begin(), one.size(); }) {
    ASSERT_EQ(one.size(), other.size()) << where;
    for (auto at = one.begin(), beside = other.begin(); at != one.end(); ++at, ++beside)
      expect_same(*at, *beside, where);
  } else if constexpr (requires { one.first, one.second; }) {
    expect_same(one.first, other.first, where);
    expect_same(one.second, other.second, where);
  } else {
    [&]<std::size_t... field>(std::index_sequence<field...>) {
      (expect_same(boost::pfr::get<field>(one), boost::pfr::get<field>(other), where + "." + std::to_string(field)), ...);
    }
    (std::make_index_sequence<boost::pfr::tuple_size_v<T>>());
  }
}

template <caf::type_id_t id>
void JobTravel::expect_arrival() {
  using message = caf::type_by_id_t<id>;
  if constexpr (!caf::is_allowed_unsafe_message_type_v<message> && !requires(message x) { x.address(); }) {
    const auto seed = std::random_device{}();
    SCOPED_TRACE(seed);
    message sent{};
    filler{seed}.fill(sent);
    expect_same(arrival_of(sent), sent, std::string{caf::type_name_v<message>.begin(), caf::type_name_v<message>.end()});
  }
}

TEST_F(JobTravel, EveryMessageArrivesAsItWasSent) {
  constexpr caf::type_id_t first = caf::id_block::troupe_inspection::begin, end = caf::id_block::troupe_cluster::end;
  [&]<caf::type_id_t... offset>(std::integer_sequence<caf::type_id_t, offset...>) {
    (expect_arrival<first + offset>(), ...);
  }
  (std::make_integer_sequence<caf::type_id_t, end - first>());
}

TEST_F(JobTravel, WhatStaysHereArrivesEmpty) {
  job_result sent;
  sent.trace.resize(3);
  EXPECT_TRUE(arrival_of(sent).trace.empty());
}

TEST_F(JobTravel, EnumeratorsAreCounted) {
  enum class answer : std::uint8_t { no, yes };
  static_assert(enumerators<answer>() == 2);
  static_assert(enumerators<role_verb>() == 4);
}

TEST_F(JobTravel, ANumberThatNamesNoEnumeratorIsRefused) {
  caf::byte_buffer bytes(1, caf::byte{200});
  caf::binary_deserializer in{nullptr, bytes};
  protocols::fault_spec::kind kind{};
  EXPECT_FALSE(in.apply(kind));
}

// -- what it looks like

enum class mood : std::uint8_t { glad, sad };
struct inner {
  mood how{};
  std::vector<std::optional<double>> values;
};
struct outer {
  std::uint64_t number = 0;
  std::string text;
  std::variant<bool, inner> either;
  std::vector<outer> more;
};

template <class T>
std::string spelled() {
  spelling one;
  one.add<T>();
  return one.text();
}

TEST(Spelling, IsOfEveryFieldInItsOrder) {
  EXPECT_EQ(spelled<inner>().substr(0, 8), "{e2<<f8>") << spelled<inner>();
  const auto all = spelled<outer>();
  EXPECT_TRUE(all.starts_with("{u8s<u1{e2<<f8>")) << all;
  EXPECT_TRUE(all.ends_with("}")) << all;
}

TEST(Spelling, AnotherFieldIsAnotherDialect) {
  struct before {
    std::uint32_t a = 0;
    std::string b;
  };
  struct after {
    std::uint32_t a = 0;
    std::string b;
    bool c = false;
  };
  struct turned {
    std::string b;
    std::uint32_t a = 0;
  };
  EXPECT_NE(spelled<before>(), spelled<after>());
  EXPECT_NE(spelled<before>(), spelled<turned>());
  EXPECT_TRUE(message_dialect().starts_with(version)) << message_dialect();
}

} // namespace
} // namespace troupe::actors
