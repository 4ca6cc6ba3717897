// The fields of ScoreFunction: their one list (base/field_list.h). docs/fields.md is made from it.
#pragma once

#include <string>
#include <tuple>

#include "base/field_list.h"
#include "base/json_fields.h"
#include "score/score_function.h"

namespace lssar {

template <>
inline constexpr EnumName<ScaleName> enum_names<ScaleName>[] = {
    {ScaleName::kLogDimLogLength, "log_dim_log_length"},
    {ScaleName::kInvSqrtDim, "inv_sqrt_dim"},
    {ScaleName::kLogLengthInvSqrtDim, "log_length_inv_sqrt_dim"}};
template <>
inline constexpr EnumName<BiasName> enum_names<BiasName>[] = {
    {BiasName::kNone, "none"}, {BiasName::kNegLogLength, "neg_log_length"}};
template <>
inline constexpr EnumName<Normalizer> enum_names<Normalizer>[] = {
    {Normalizer::kSum, "sum"},
    {Normalizer::kSumAbs, "sum_abs"},
    {Normalizer::kNone, "none"},
    {Normalizer::kLength, "length"},
    {Normalizer::kSqrtLength, "sqrt_length"}};
template <>
inline constexpr EnumName<PsiNormalizer> enum_names<PsiNormalizer>[] = {
    {PsiNormalizer::kNone, "none"},
    {PsiNormalizer::kSum, "sum"},
    {PsiNormalizer::kSumAbs, "sum_abs"}};
template <>
inline constexpr EnumName<Sink> enum_names<Sink>[] = {{Sink::kNone, "none"},
                                                      {Sink::kPerHead, "per_head"}};
template <>
inline constexpr EnumName<Alibi> enum_names<Alibi>[] = {{Alibi::kNone, "none"},
                                                        {Alibi::kPerHead, "per_head"}};

// "inv_sqrt_dim", or 0.125.
template <typename Name>
struct FieldForm<NameOrNumber<Name>> {
  using T = NameOrNumber<Name>;
  static std::string allowed() { return allowed_names(enum_names<Name>) + ", or a number"; }
  static std::string text(const T& value) {
    return value.name == Name::kNumber ? fmt::format("{}", value.number) : enum_name(value.name);
  }
  static void write(nlohmann::json& object, const char* name, const T& value);
  static void read(JsonFields& fields, const char* name, T& value);
};

// "activation": "relu" if the expression has a name, else "phi": "relu(x)^3". Readers take either
// field, and either may hold a name or an expression.
template <>
struct FieldForm<Activation> {
  static std::string allowed();
  static std::string text(const Activation& value);
  static void write(nlohmann::json& object, const char* name, const Activation& value);
  static void read(JsonFields& fields, const char* name, Activation& value);
};

// Not written if there is no such stage.
template <>
struct FieldForm<SecondStage> {
  static std::string allowed();
  static std::string text(const SecondStage& value);
  static void write(nlohmann::json& object, const char* name, const SecondStage& value);
  static void read(JsonFields& fields, const char* name, SecondStage& value);
};

template <>
inline constexpr auto fields_of<ScoreFunction> = std::tuple(
    field("scale", &ScoreFunction::scale)
        .text("{}")
        .means("what the dot products of row i are multiplied by: log(d) log(N_i), 1 / sqrt(d), "
               "log(N_i) / sqrt(d)"),
    field("bias", &ScoreFunction::bias).text("/{}").means("added to every score: -log(N_i)"),
    field("qk_norm", &ScoreFunction::qk_norm)
        .text("/qk_norm")
        .text_of(false, "/no_qk_norm")
        .means("q and k are divided by their L2 norms"),
    field("phi", &ScoreFunction::phi)
        .text("/{}")
        .means("applied to each score; a name may also be given as `activation`"),
    field("normalizer", &ScoreFunction::normalizer)
        .text("/{}")
        .means("what a row of activations is divided by"),
    field("normalizer_gain", &ScoreFunction::normalizer_gain)
        .text("/{}")
        .allows("positive finite numbers with `normalizer` sqrt_length, else 1")
        .means("factor of the normalizer sqrt_length"),
    field("psi", &ScoreFunction::psi)
        .text("{}")
        .means("the second stage, in place of the re-weighting; with `p` 0"),
    field("psi_normalizer", &ScoreFunction::psi_normalizer)
        .text("/{}")
        .text_of(PsiNormalizer::kNone, "")
        .means("what a row of psi is divided by"),
    field("sink", &ScoreFunction::sink)
        .text("/sink_{}")
        .text_of(Sink::kNone, "")
        .means(
            "per_head: a learned logit of every head, given with each call, whose exponential is "
            "added to the sum of a row; with `phi` exp and `normalizer` sum"),
    field("soft_cap", &ScoreFunction::soft_cap)
        .text("/soft_cap_{}")
        .text_of(0.0, "")
        .no_json_of_default()
        .allows("0, or numbers from 1e-06 to 1e+06")
        .means("a scaled product x becomes c tanh(x / c), c being this, before the bias; 0: it "
               "stays x"),
    field("alibi", &ScoreFunction::alibi)
        .text("/alibi_{}")
        .text_of(Alibi::kNone, "")
        .no_json_of_default()
        .means("per_head: a slope of every head, given with each call, times the distance between "
               "the positions of query and key is subtracted from every score"));

}  // namespace lssar
