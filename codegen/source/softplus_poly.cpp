#include "codegen/source/softplus_poly.h"

namespace lssar {

namespace {

constexpr double kDegree3[] = {1.44205689f, -0.700107574f, 0.361189723f, -0.103138998f};
constexpr double kDegree4[] = {1.44260514f, -0.716675341f, 0.440068305f, -0.22376892f,
                               0.0577707812f};
constexpr double kDegree5[] = {1.44268203f,  -0.720368922f, 0.468648732f,
                               -0.30137974f, 0.143931374f,  -0.033513397f};
constexpr double kDegree6[] = {1.44269311f,  -0.721149206f,  0.477532983f, -0.338446528f,
                               0.213922143f, -0.0944782943f, 0.0199258234f};
constexpr double kDegree7[] = {1.44269466f,  -0.721308231f, 0.480031163f,  -0.353179872f,
                               0.255339921f, -0.154288635f, 0.0627763793f, -0.0120654209f};
constexpr double kDegree8[] = {1.44269502f,   -0.721339881f,  0.480685502f,
                               -0.358343452f, 0.275364757f,   -0.196483761f,
                               0.112052739f,  -0.0420404151f, 0.00740952976f};

}  // namespace

std::span<const double> softplus_coefficients(int degree) {
  switch (degree) {
    case 3:
      return kDegree3;
    case 4:
      return kDegree4;
    case 5:
      return kDegree5;
    case 6:
      return kDegree6;
    case 7:
      return kDegree7;
    case 8:
      return kDegree8;
    default:
      return {};
  }
}

}  // namespace lssar
