#include "runtime/image_metadata.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "compile/ptxas_log.h"

namespace lssar {
namespace {

nlohmann::json resources_to_json(const KernelResources& r) {
  return {{"entry", r.entry},
          {"registers", r.registers},
          {"shared_bytes", r.shared_bytes},
          {"local_bytes", r.local_bytes},
          {"spill_store_bytes", r.spill_store_bytes},
          {"spill_load_bytes", r.spill_load_bytes}};
}

KernelResources resources_from_json(const nlohmann::json& json) {
  KernelResources r;
  json.at("entry").get_to(r.entry);
  json.at("registers").get_to(r.registers);
  json.at("shared_bytes").get_to(r.shared_bytes);
  json.at("local_bytes").get_to(r.local_bytes);
  json.at("spill_store_bytes").get_to(r.spill_store_bytes);
  json.at("spill_load_bytes").get_to(r.spill_load_bytes);
  return r;
}

}  // namespace

std::string encode_image_metadata(const ImageOrigin& origin, const Image& image) {
  nlohmann::json json = {{"kernel", origin.source.name},
                         {"problem", to_json(origin.problem)},
                         {"schedule", to_json(origin.schedule)},
                         {"compiler", origin.compiler.name()},
                         {"compiler_version", origin.compiler.version()},
                         {"options", origin.compiler.options(origin.request)},
                         {"target", image.target},
                         {"image", image_kind_name(image.kind)},
                         {"log", image.log}};
  json["resources"] = nlohmann::json::array();
  for (const KernelResources& r : image.resources)
    json["resources"].push_back(resources_to_json(r));
  // A compiler's log may quote a source in any encoding, so bytes that are not UTF-8 are replaced.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

Result<Image> decode_image_metadata(const std::string& metadata) {
  try {
    const nlohmann::json json = nlohmann::json::parse(metadata);
    Image image;
    const std::string kind = json.at("image").get<std::string>();
    if (kind == image_kind_name(ImageKind::kPtx)) {
      image.kind = ImageKind::kPtx;
    } else if (kind == image_kind_name(ImageKind::kCubin)) {
      image.kind = ImageKind::kCubin;
    } else if (kind == image_kind_name(ImageKind::kObject)) {
      image.kind = ImageKind::kObject;
    } else {
      return io_error(fmt::format("image = \"{}\": allowed are ptx, cubin, object", kind));
    }
    json.at("target").get_to(image.target);
    json.at("log").get_to(image.log);
    if (image.kind == ImageKind::kCubin)
      image.assembler_warnings = parse_assembler_warnings(image.log);
    for (const nlohmann::json& r : json.at("resources")) {
      image.resources.push_back(resources_from_json(r));
    }
    return image;
  } catch (const nlohmann::json::exception&) {
    return io_error("metadata of a cached image: a field is missing or of another type");
  }
}

}  // namespace lssar
