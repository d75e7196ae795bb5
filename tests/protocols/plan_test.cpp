// SPDX-License-Identifier: BSD-3-Clause
// Plans, the tree of aggregators and the catalog.
#include <gtest/gtest.h>

#include "protocols/catalog.hpp"
#include "protocols/tree.hpp"
#include "tests/protocols/making.hpp"

namespace troupe::protocols {
namespace {

TEST(Plan, GlobalBatchIsAllWorkersBatches) {
  EXPECT_EQ(plan_of(1, {0, 1, 2}, 10, 100).after(30), 60u);
}

TEST(Plan, GlobalBatchEndsWithTheEpochOfTheData) {
  const plan three = plan_of(1, {0, 1, 2}, 10, 100);
  EXPECT_EQ(three.after(90), 100u);
  EXPECT_EQ(three.after(100), 130u);
  EXPECT_EQ(three.after(190), 200u);
}

TEST(Plan, BeforeAPositionIsWhereItsBatchBegan) {
  const plan three = plan_of(1, {0, 1, 2}, 10, 100);
  for (std::uint64_t begin = 0; begin < 300; begin = three.after(begin))
    EXPECT_EQ(three.before(three.after(begin)), begin);
  EXPECT_EQ(three.before(0), 0u);
  EXPECT_EQ(three.before(131), 130u) << "of other workers, perhaps";
  EXPECT_EQ(plan_of(1, {}, 10, 100).before(30), 30u);
  EXPECT_EQ(plan_of(1, {0}, 10, 0).before(30), 30u);
}

TEST(Plan, WithoutWorkersOrDataNothingIsHandedOut) {
  EXPECT_EQ(plan_of(1, {}).after(30), 30u);
  EXPECT_EQ((plan_of(1, {0}, 10, 0).after(30)), 30u);
  EXPECT_EQ((plan_of(1, {0}, -1, 100).after(30)), 30u);
}

TEST(Plan, RankIsThePlaceAmongTheWorkers) {
  const plan some = plan_of(1, {0, 2, 7});
  EXPECT_EQ(some.rank_of(w(0)), 0);
  EXPECT_EQ(some.rank_of(w(7)), 2);
  EXPECT_EQ(some.rank_of(w(1)), -1);
  EXPECT_EQ(some.rank_of(w(8)), -1);
}

TEST(Plan, HasThatLifeOnly) {
  const plan some = plan_of(1, {0, 2});
  EXPECT_TRUE(some.has({w(2), {}}));
  EXPECT_FALSE(some.has({w(2), {1}}));
  EXPECT_FALSE(some.has({w(1), {}}));
}

TEST(Tree, WithoutFanInThereAreOnlyShards) {
  const std::vector<holder_place> flat{{.self = h(0), .workers = {w(0), w(1), w(2)}},
                                       {.self = h(1), .workers = {w(0), w(1), w(2)}}};
  EXPECT_EQ(holder_tree({3, 2, 0}), flat);
  EXPECT_EQ(holder_tree({3, 2, 1}), flat);
  EXPECT_EQ(holder_tree({3, 2, 3}), flat) << "all fit under a shard";
}

/// As one of a tree.
holder_place in(const tree_shape& shape, holder_place place) {
  place.commits = true;
  place.tree = shape;
  return place;
}

TEST(Tree, OneLevelOfAggregatorsSendsToEveryShard) {
  const tree_shape of{3, 2, 2};
  EXPECT_EQ(holder_tree(of), (std::vector<holder_place>{
                                 in(of, {.self = h(0), .children = {h(2), h(3)}}),
                                 in(of, {.self = h(1), .children = {h(2), h(3)}}),
                                 in(of, {.self = h(2), .is_shard = false, .parents = {h(0), h(1)}, .workers = {w(0), w(1)}}),
                                 in(of, {.self = h(3), .is_shard = false, .parents = {h(0), h(1)}, .workers = {w(2)}}),
                             }));
}

TEST(Tree, LevelsAreAddedUntilTheShardsHaveAtMostFanInChildren) {
  // 5 workers: aggregators 1, 2, 3 below 4 and 5.
  const tree_shape of{5, 1, 2};
  EXPECT_EQ(holder_tree(of), (std::vector<holder_place>{
                                 in(of, {.self = h(0), .children = {h(4), h(5)}}),
                                 in(of, {.self = h(1), .is_shard = false, .parents = {h(4)}, .workers = {w(0), w(1)}}),
                                 in(of, {.self = h(2), .is_shard = false, .parents = {h(4)}, .workers = {w(2), w(3)}}),
                                 in(of, {.self = h(3), .is_shard = false, .parents = {h(5)}, .workers = {w(4)}}),
                                 in(of, {.self = h(4), .is_shard = false, .children = {h(1), h(2)}, .parents = {h(0)}}),
                                 in(of, {.self = h(5), .is_shard = false, .children = {h(3)}, .parents = {h(0)}}),
                             }));
}

TEST(Tree, TheChildrenOfAnAggregatorThatIsGoneAreItsParentsInItsPlace) {
  const tree_shape of{5, 1, 2};
  const auto one = holder_tree(of, {h(4)});
  EXPECT_EQ(one[0].children, (std::vector{h(1), h(2), h(5)}));
  EXPECT_EQ(one[1].parents, (std::vector{h(0)}));
  EXPECT_EQ(one[4], in(of, {.self = h(4), .is_shard = false}));
  const auto lower = holder_tree(of, {h(2)});
  EXPECT_EQ(lower[4].children, (std::vector{h(1)}));
  EXPECT_EQ(lower[4].workers, (std::set{w(2), w(3)}));
}

TEST(Tree, WithoutAnyAggregatorLeftAllPushToEveryShard) {
  const auto tree = holder_tree({3, 2, 2}, {h(2), h(3)});
  for (const std::uint32_t shard : {0U, 1U}) {
    EXPECT_EQ(tree[shard].workers, (std::set{w(0), w(1), w(2)}));
    EXPECT_TRUE(tree[shard].children.empty());
  }
  EXPECT_EQ(takers_of({3, 2, 2}, {h(2), h(3)}, w(2)), (std::vector{h(0), h(1)}));
  EXPECT_EQ(takers_of({3, 2, 2}, {}, w(2)), (std::vector{h(3)}));
}

TEST(Tree, WorkersThatComeLaterPushToEveryShard) {
  for (const tree_shape& of : {tree_shape{3, 2, 2}, tree_shape{3, 2, 0},
                               tree_shape{.workers = 3, .shards = 2, .fan_in = fan_in_of_nodes, .blocks = {2, 1}}})
    for (const std::uint32_t worker : {3U, 100U})
      EXPECT_EQ(takers_of(of, {}, w(worker)), (std::vector{h(0), h(1)}));
}

TEST(Tree, EachNodesWorkersHaveAnAggregatorAndBackupsCountFromBehindAllThatThereMightBe) {
  const tree_shape of{.workers = 4, .shards = 2, .fan_in = fan_in_of_nodes, .replicas = 2, .blocks = {3, 1}};
  const auto tree = holder_tree(of);
  ASSERT_EQ(tree.size(), 8U);
  EXPECT_EQ(tree[1].children, (std::vector{h(2), h(3)}));
  EXPECT_TRUE(tree[1].commits);
  EXPECT_EQ(tree[2], in(of, {.self = h(2), .is_shard = false, .parents = {h(0), h(1)}, .workers = {w(0), w(1), w(2)}}));
  EXPECT_EQ(tree[3], in(of, {.self = h(3), .is_shard = false, .parents = {h(0), h(1)}, .workers = {w(3)}}));
  EXPECT_TRUE(is_vacant(tree[4]) && is_vacant(tree[5]));
  EXPECT_FALSE(is_vacant(tree[3]) || is_vacant(tree[0]));
  EXPECT_EQ(tree[7].backup_of, h(1));
  EXPECT_EQ(takers_of(of, {}, w(1)), (std::vector{h(2)}));
  auto unknown = of;
  unknown.blocks = {}; // a coordinator's, which knows no more
  EXPECT_EQ(first_backup(of), h(6));
  EXPECT_EQ(first_backup(unknown), h(6));
  EXPECT_EQ(shard_of(unknown, h(7)), h(1));
  EXPECT_EQ(holder_tree(unknown)[7].backup_of, h(1));
}

TEST(Tree, AWorkersBlockFollowsFromTheSizesBeforeIt) {
  EXPECT_EQ(block_of({3, 1}, w(2)), 0U);
  EXPECT_EQ(block_of({3, 1}, w(3)), 1U);
  EXPECT_EQ(block_of({3, 1}, w(4)), std::nullopt);
  EXPECT_EQ(block_of({}, w(0)), std::nullopt);
}

TEST(Tree, WhereNoNodeHasTwoWorkersTheyPushToEveryShard) {
  const tree_shape of{.workers = 2, .shards = 2, .fan_in = fan_in_of_nodes, .blocks = {1, 1}};
  EXPECT_TRUE(is_flat(of));
  const auto tree = holder_tree(of);
  EXPECT_EQ(tree[1], (holder_place{.self = h(1), .workers = {w(0), w(1)}}));
  EXPECT_TRUE(is_vacant(tree[2]) && is_vacant(tree[3]));
  EXPECT_FALSE(is_flat({.workers = 3, .fan_in = fan_in_of_nodes, .blocks = {2, 1}}));
}

TEST(Tree, WhenANodesAggregatorIsGoneItsWorkersPushToEveryShard) {
  const tree_shape of{.workers = 4, .shards = 2, .fan_in = fan_in_of_nodes, .blocks = {3, 1}};
  const auto tree = holder_tree(of, {h(2)});
  EXPECT_EQ(takers_of(of, {h(2)}, w(2)), (std::vector{h(0), h(1)}));
  EXPECT_EQ(takers_of(of, {h(2)}, w(3)), (std::vector{h(3)}));
  EXPECT_EQ(tree[0].children, (std::vector{h(3)}));
}

TEST(Tree, BackupsComeBehindTheAggregatorsAndStandWhereTheirShardsDo) {
  const tree_shape of{.workers = 3, .shards = 2, .fan_in = 2, .replicas = 2};
  const auto tree = holder_tree(of, {h(2)});
  ASSERT_EQ(tree.size(), 6u);
  EXPECT_EQ(tree[5].backup_of, h(1));
  EXPECT_EQ(tree[5].children, tree[1].children);
  EXPECT_EQ(tree[5].workers, (std::set{w(0), w(1)}));
  EXPECT_EQ(takers_of(of, {h(2)}, w(0)), (std::vector{h(0), h(1)})) << "backups are sent no pushes";
}

TEST(Tree, WorkersBelowAnAggregatorAreThoseOfItsSubtree) {
  const auto tree = holder_tree({5, 1, 2});
  EXPECT_EQ(workers_below(tree, h(2)), (std::set{w(2), w(3)}));
  EXPECT_EQ(workers_below(tree, h(4)), (std::set{w(0), w(1), w(2), w(3)}));
  EXPECT_EQ(workers_below(tree, h(0)).size(), 5u);
  EXPECT_TRUE(workers_below(tree, h(6)).empty());
}

const protocol& sync_entry() {
  static const auto entries = catalog();
  return entries.at(0);
}

TEST(Catalog, SyncIsBuiltWithItsRuleAndItsWorker) {
  ASSERT_EQ(sync_entry().name, "sync");
  EXPECT_FALSE(sync_entry().per_push);
  EXPECT_EQ(count<send_params>(sync_entry().make_rule({}, 1)->on(plan_of(1, {0}))), 1u);
  const auto worker = sync_entry().make_worker({}, {w(0), {}}, 1);
  worker->on(plan_of(1, {0}));
  EXPECT_EQ(count<compute>(worker->on(params{.epoch = e(1)})), 1u);
}

TEST(Catalog, SoundSpecHasNoProblems) {
  EXPECT_TRUE(validate(sync_entry(), {}, 1).empty());
  EXPECT_TRUE(validate(sync_entry(), {.fan_in = 2}, 4).empty());
}

TEST(Catalog, EveryProblemIsNamedAtOnce) {
  protocol_spec wrong{.fan_in = 1, .parameters = {{"bound", std::int64_t{4}}}};
  EXPECT_EQ(validate(sync_entry(), wrong, 0),
            (std::vector<std::string>{"a job needs at least 1 worker", "fan_in must be at least 2, or 0 for no aggregators",
                                      "protocol 'sync' has no parameter 'bound'; it takes none"}));
}

TEST(Catalog, ParametersAreCheckedByTheirEntry) {
  const protocol entry{
      .name = "ssp",
      .takes_fan_in = false,
      .parameters = {{.name = "bound", .default_value = std::int64_t{4}, .validate = [](const spec_value& value) {
                        return std::get<std::int64_t>(value) < 0 ? "must be at least 0" : "";
                      }}}};
  EXPECT_TRUE(validate(entry, {.parameters = {{"bound", std::int64_t{0}}}}, 2).empty());
  EXPECT_EQ(validate(entry, {.fan_in = 2, .parameters = {{"bond", std::int64_t{1}}, {"bound", std::int64_t{-1}}}}, 2),
            (std::vector<std::string>{"protocol 'ssp' takes no fan_in; remove it",
                                      "protocol 'ssp' has no parameter 'bond'; it takes bound", "bound must be at least 0"}));
}

} // namespace
} // namespace troupe::protocols
