// SPDX-License-Identifier: BSD-3-Clause
// The main of what tests actors: it registers the message types.

#include <gtest/gtest.h>

#include "actors/system.hpp"

int main(int argc, char** argv) {
  troupe::actors::init_message_types();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
