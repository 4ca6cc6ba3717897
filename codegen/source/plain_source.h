// Templates of Config as plain classes and functions: a kernel has one Config, so that its source
// need not carry it from template to template. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace lssar {

// Without the parameter `class Config` and the argument Config: then the struct of that name is
// meant. A template without other parameters is none any more.
std::string without_config(std::string_view text);

// `#pragma unroll` as the word LSSAR_UNROLL on the line of its loop.
std::string with_unroll_words(std::string_view text);

bool is_template(std::string_view declaration);

// Without the words `typename` and `template`, which say nothing outside templates.
std::string without_template_words(std::string_view text);

}  // namespace lssar
