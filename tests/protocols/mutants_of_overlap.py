# SPDX-License-Identifier: BSD-3-Clause
"""The mutants of what hides behind computing in virtual time, and of links that carry some of it first. See mutants.py."""

LINK = "emulate/shared_link.hpp"
DELIVERY = "sim/delivery.cpp"
NETWORK = "sim/network.hpp"
OVERLAP = "sim/step_overlap.hpp"
WORKERS = "sim/workers.cpp"

# file, text, replacement, what it breaks; where no test can notice it, why
MUTANTS = [
    (LINK, "= waiting_[order];", "= waiting_[0];", "all messages are equally urgent"),
    (LINK, "std::max(at->first, among.served);", "at->first;", "what is through is paid for when it gets longer"),
    (LINK, "      among.ends.erase(at);\n", "", "a message that gets longer is two"),
    (LINK, "      if (among.left() <= 0)\n        return now_;\n", "      (void)among;\n", "what is through waits for what is more urgent"),
    (DELIVERY, "mail.bytes - std::min(mail.bytes, begun->bytes)", "mail.bytes", "what has left of a push is sent again"),
    (DELIVERY, "    id = begun->transmission;", "    id = network_.next();", "a push comes without waiting for what has left of it"),
    (DELIVERY, "|| !by_layers ", "", "sums go by layers in any case"),
    (DELIVERY, "chunk->head.round * partitions + place);", "place);", "the next round's first layers go before what is left of this one"),
    (NETWORK, "    begun.bytes += bytes;\n", "    begun.bytes = bytes;\n", "of a push only the newest part has left"),
    (WORKERS, "own == nullptr && order.parts.size() == 1 && done", "order.parts.size() == 1 && done", "a step on a worker's own parameters begins before they are there"),
    (WORKERS, " && done.samples <= in.options_.job.batch;", ";", "a step of several batches begins before all is there"),
    (WORKERS, "    totals.waiting += begun - since;", "    totals.waiting += in.now_ - since;", "who computes ahead is said to wait"),
    (OVERLAP, "share_of(part.until - part.since, last)", "share_of(part.until - part.since, 1)", "all parameters of a shard come at once"),
    (OVERLAP, "there_[i] - share_of(compute, of_[i].needed)", "there_[i]", "forward needs all parameters at once"),
    (WORKERS, "ahead && idle_since >= 0 ? ", "ahead ? ", "the first step is begun ahead, before a worker has rows"),
    (WORKERS, "ready_at(each) + in.options_.measured.message,", "ready_at(each),", "a part of a push goes without what a message takes"),
    (WORKERS, "share_in(end, index, shards) - share_in(begin, index, shards);", "share_in(end, index, shards);", "with a partition goes all before it"),
    (WORKERS, "const std::uint32_t index = shard ? target.value : 0;", "const std::uint32_t index = 0;", "every shard is taken for the first"),
    (WORKERS, " || in.host_of(to) == host)", ")", "what stays on a host is on its link"),
    (WORKERS, "  overlap.came(order.part, in.now_);\n", "", "sums among workers let nobody begin"),
]
