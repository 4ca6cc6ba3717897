#include "autotune/table/bucket.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "score/known.h"

namespace lssar {
namespace {

TEST(Bucket, LengthsAreRoundedByTheirLogarithm) {
  EXPECT_EQ(length_bucket(-1), 0);
  EXPECT_EQ(length_bucket(0), 0);
  EXPECT_EQ(length_bucket(1), 1);
  EXPECT_EQ(length_bucket(2), 2);
  EXPECT_EQ(length_bucket(3), 4);  // 3 > 2 sqrt(2)
  EXPECT_EQ(length_bucket(5), 4);
  EXPECT_EQ(length_bucket(6), 8);
  EXPECT_EQ(length_bucket(5792), 4096);  // below 4096 sqrt(2) = 5792.6
  EXPECT_EQ(length_bucket(5793), 8192);
}

Bucket unusual_bucket() {
  Bucket bucket;
  bucket.pass = Pass::kBackward;
  bucket.dtype = DType::kFp16;
  bucket.head_dim = 128;
  bucket.head_dim_v = 96;
  bucket.causal = false;
  bucket.p = 7;
  bucket.has_offset = false;
  bucket.alignment = 2;
  bucket.gqa_ratio = 4;
  bucket.fixed_lengths = true;
  bucket.determinism = Determinism::kAny;
  bucket.seq_q = 512;
  bucket.seq_k = 1024;
  bucket.slices = 32;
  return bucket;
}

TEST(Bucket, EveryFieldSurvivesJsonAndIsNeeded) {
  const Bucket bucket = unusual_bucket();
  const nlohmann::json json = to_json(bucket);
  const nlohmann::json plain = to_json(Bucket());
  const auto again = bucket_from_json(json);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, bucket);
  for (const auto& [name, value] : json.items()) {
    EXPECT_NE(value, plain.at(name)) << name << " has its default here";
    nlohmann::json without = json;
    without.erase(name);
    EXPECT_EQ(bucket_from_json(without).status().message(), "bucket." + name + " is missing");
  }
}

TEST(Bucket, TellsScoreFunctionsApart) {
  Problem problem;
  const Bucket plain = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_FALSE(to_json(plain).contains("score"));
  problem.score.phi = Activation(*named_activation("relu"));
  const Bucket relu = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_FALSE(same_but_sizes(plain, relu));
  EXPECT_NE(to_string(plain), to_string(relu));
  const auto again = bucket_from_json(to_json(relu));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, relu);
  nlohmann::json bad = to_json(relu);
  bad["score"]["activation"] = "rel";
  EXPECT_NE(bucket_from_json(bad).status().message().find("bucket.score.activation"),
            std::string::npos);
}

TEST(Bucket, TellsWindowsApart) {
  Problem problem;
  problem.causal = true;
  const Bucket plain = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_FALSE(to_json(plain).contains("window"));
  problem.window_right = 3;  // without effect beside the causal mask
  EXPECT_EQ(bucket_of(problem, {}, Determinism::kRepeatable), plain);
  problem.window_left = 255;
  problem.window_sinks = 4;
  const Bucket window = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_FALSE(same_but_sizes(plain, window));
  EXPECT_EQ(feature_names(lacking(plain, window)), "the window");
  EXPECT_EQ(lacking(window, plain), 0u);
  EXPECT_EQ(without(window, lacking(plain, window)), plain);
  EXPECT_NE(to_string(window).find(" window 255,0 sinks 4"), std::string::npos)
      << to_string(window);
  problem.window_right = -1;
  EXPECT_EQ(bucket_of(problem, {}, Determinism::kRepeatable), window);
  const auto again = bucket_from_json(to_json(window));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, window);
  nlohmann::json bad = to_json(window);
  bad["window"].erase("chunk");
  EXPECT_EQ(bucket_from_json(bad).status().message(), "bucket.window.chunk is missing");
}

TEST(Bucket, TellsVarlenRotaryAndInvariantApart) {
  const Bucket plain = bucket_of({}, {}, Determinism::kRepeatable);
  for (const char* field : {"varlen", "rotary", "invariant"}) {
    Problem problem;
    problem.varlen = field == std::string("varlen");
    problem.rotary_dim = field == std::string("rotary") ? 32 : 0;
    problem.invariant = field == std::string("invariant");
    const Bucket bucket = bucket_of(problem, {}, Determinism::kRepeatable);
    EXPECT_FALSE(same_but_sizes(plain, bucket)) << field;
    EXPECT_NE(to_string(bucket).find(std::string(" ") + field), std::string::npos);
    EXPECT_EQ(without(bucket, lacking(plain, bucket)), plain) << field;
    // Older versions wrote files without this field. They are still read.
    EXPECT_FALSE(to_json(plain).contains(field));
    EXPECT_EQ(to_json(bucket).at(field), true);
    const auto again = bucket_from_json(to_json(bucket));
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(*again, bucket);
  }
  Problem few;
  few.rotary_dim = 2;
  Problem many = few;
  many.rotary_dim = 64;
  many.rotary_interleaved = true;
  EXPECT_EQ(bucket_of(few, {}, Determinism::kRepeatable),
            bucket_of(many, {}, Determinism::kRepeatable));
}

TEST(Bucket, OfAPlanForSequencesIsNearToAllLengths) {
  Problem problem;
  problem.varlen = true;
  const auto of = [&](const Sizes& sizes) {
    return bucket_of(problem, sizes, Determinism::kRepeatable);
  };
  const Bucket tuned = of({64, 8, 8, 512, 512});
  EXPECT_EQ(widest_size_gap(tuned, of({1, 8, 8, 0, 0})), 0);
  EXPECT_EQ(widest_size_gap(tuned, of({1, 8, 8, 2048, 512})), 2);
  EXPECT_GT(size_distance(tuned, of({1, 8, 8, 0, 0})), 0);
  // Its tiles have few rows.
  EXPECT_EQ(widest_size_gap(of({64, 8, 8, 1, 4096}), of({1, 8, 8, 0, 0})), 12);
  problem.varlen = false;
  EXPECT_EQ(widest_size_gap(tuned, of({1, 8, 8, 0, 0})), 3);
}

TEST(Bucket, NamesWhatARecordLacks) {
  Problem problem;
  problem.varlen = problem.invariant = true;
  problem.rotary_dim = 2;
  problem.window_left = 7;
  const Bucket all = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_EQ(feature_names(lacking(Bucket(), all)), "the window, varlen, invariant, rotary_dim");
  problem.varlen = false;
  const Bucket some = bucket_of(problem, {}, Determinism::kRepeatable);
  EXPECT_EQ(feature_names(lacking(some, all)), "varlen");
  EXPECT_EQ(lacking(all, some), 0u);
}

TEST(Bucket, AnUnknownFieldIsAnError) {
  // It would tell problems apart that this library takes for one.
  nlohmann::json json = to_json(Bucket());
  json["widow"] = 256;
  EXPECT_EQ(bucket_from_json(json).status().code(), StatusCode::kInvalidArgument);
}

TEST(Bucket, AsText) {
  Bucket bucket;
  bucket.seq_q = bucket.seq_k = 4096;
  bucket.slices = 64;
  EXPECT_EQ(to_string(bucket),
            "forward causal bf16 d 64 dv 64 p 15 gqa 1 seq 4096x4096 slices 64 repeatable");
  EXPECT_EQ(to_string(unusual_bucket()),
            "backward full fp16 d 128 dv 96 p 7 no offset gqa 4 seq 512x1024 slices 32 any fixed "
            "lengths alignment 2");
}

TEST(Bucket, OfAProblem) {
  Problem problem;
  problem.causal = true;
  problem.heads = 12;
  problem.kv_heads = 4;
  const Bucket bucket = bucket_of(problem, {.batch = 3, .heads = 12, .kv_heads = 4, .seq_q = 1000},
                                  Determinism::kRepeatable);
  EXPECT_EQ(bucket.gqa_ratio, 3);
  EXPECT_EQ(bucket.seq_q, 1024);
  EXPECT_EQ(bucket.seq_k, 0);
  EXPECT_EQ(bucket.slices, 32);  // 36
  EXPECT_TRUE(bucket.has_offset);
}

TEST(Bucket, FewQueriesShareNoneWithMore) {
  const auto queries = [](int64_t seq_q) {
    const Sizes sizes = {1, 8, 8, seq_q, 4096};
    return bucket_of(Problem(), sizes, Determinism::kRepeatable).seq_q;
  };
  EXPECT_EQ(queries(12), 16);
  EXPECT_EQ(queries(16), 16);
  EXPECT_EQ(queries(17), 32);
  EXPECT_EQ(queries(40), 32);
}

TEST(Bucket, HeadsThatAreNotKnownAreNotShared) {
  Problem problem;
  problem.causal = true;
  const auto ratio = [&](int64_t heads, int64_t kv_heads) {
    const Sizes sizes = {.heads = heads, .kv_heads = kv_heads};
    return bucket_of(problem, sizes, Determinism::kRepeatable).gqa_ratio;
  };
  EXPECT_EQ(ratio(8, 2), 4);
  EXPECT_EQ(ratio(0, 1), 1);
  EXPECT_EQ(ratio(8, 0), 1);
}

TEST(Bucket, OnlyTheBackwardHasAChoiceOfDeterminism) {
  Problem problem;
  problem.causal = true;
  const auto determinism = [&](Pass pass) {
    problem.pass = pass;
    return bucket_of(problem, {}, Determinism::kAny).determinism;
  };
  EXPECT_EQ(determinism(Pass::kForward), Determinism::kRepeatable);
  EXPECT_EQ(determinism(Pass::kForwardTrain), Determinism::kRepeatable);
  EXPECT_EQ(determinism(Pass::kBackward), Determinism::kAny);
}

TEST(Bucket, AlignmentsBelow16AreOne) {
  Problem problem;
  problem.causal = true;
  problem.alignment = 8;
  EXPECT_EQ(bucket_of(problem, {}, Determinism::kRepeatable).alignment, 2);
  problem.alignment = 2;
  EXPECT_EQ(bucket_of(problem, {}, Determinism::kRepeatable).alignment, 2);
  problem.alignment = 16;
  EXPECT_EQ(bucket_of(problem, {}, Determinism::kRepeatable).alignment, 16);
}

TEST(Bucket, DistanceIsInOctavesAndSlicesCountHalf) {
  Bucket a;
  a.seq_q = a.seq_k = 4096;
  a.slices = 64;
  Bucket b = a;
  EXPECT_EQ(size_distance(a, b), 0);
  b.seq_q = 1024;
  EXPECT_EQ(size_distance(a, b), 2);
  b.slices = 256;
  EXPECT_EQ(size_distance(a, b), 3);
  EXPECT_TRUE(same_but_sizes(a, b));
  EXPECT_EQ(size_distance(a, Bucket()), 0);  // what is not known counts as typical
  b.causal = !b.causal;
  EXPECT_FALSE(same_but_sizes(a, b));
}

}  // namespace
}  // namespace lssar
