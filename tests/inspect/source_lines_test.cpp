// From PTX back to the source, and what ran there.
#include "inspect/source_lines.h"

#include <gtest/gtest.h>

namespace lssar {
namespace {

constexpr const char* kPtx =
    ".visible .entry k()\n"  // 1
    "{\n"
    "\t.loc\t1 12 3\n"  // 3
    "\tmov.u32 %r1, 0;\n"
    "\t.loc\t1 40 5, function_name $L__info_string0, inlined_at 1 13 7\n"
    "\tst.shared.u32 [%r1], %r1;\n"  // 6
    "\tret;\n"
    "}\n"
    ".file\t1 \"f.cu\"\n";

TEST(SourceLines, FollowLocDirectives) {
  const std::vector<SourcePlace> places = places_of_ptx(kPtx);
  ASSERT_EQ(places.size(), 10u);
  EXPECT_EQ(places[1], (SourcePlace{0, 0}));
  EXPECT_EQ(places[4], (SourcePlace{12, 0}));
  EXPECT_EQ(places[6], (SourcePlace{40, 13}));
  EXPECT_EQ(places[9], (SourcePlace{0, 0}));
}

TEST(SourceLines, AddUpWhatInstructionsDid) {
  LineCounters mov, store, unknown;
  mov.line = 4, mov.executed = {2, 64};
  store.line = 6, store.executed = {3, 96};
  store.shared = {3, 384, 6, 3};
  unknown.line = 1000, unknown.executed = {1, 32};
  const auto activity = activity_by_place({mov, store, store, unknown}, places_of_ptx(kPtx));
  ASSERT_EQ(activity.size(), 3u);
  EXPECT_EQ(activity.at({12, 0}).warp_instructions, 2u);
  EXPECT_EQ(activity.at({40, 13}).lanes, 192u);
  EXPECT_EQ(activity.at({40, 13}).shared.lost(), 6u);
  EXPECT_EQ(activity.at({0, 0}).warp_instructions, 1u);
}

}  // namespace
}  // namespace lssar
