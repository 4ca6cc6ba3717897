// Turns templates of Config into plain classes and functions. A kernel has only one Config, so its
// source need not pass it from template to template. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace lssar {

// Removes the parameter `class Config` and the argument Config; names then refer to the struct
// Config. A template without other parameters becomes an ordinary function or class.
std::string without_config(std::string_view text);

// Replaces `#pragma unroll` by the word LSSAR_UNROLL on the line of its loop.
std::string with_unroll_words(std::string_view text);

bool is_template(std::string_view declaration);

// Removes the words `typename` and `template` where they have no meaning outside templates.
std::string without_template_words(std::string_view text);

}  // namespace lssar
