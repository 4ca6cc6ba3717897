// Compiles fmt's functions once. Header-only fmt would be compiled with every file that formats
// text, which takes a quarter of the build time. Only those for char are here.

#include <fmt/format-inl.h>

// NOTE: fmt/format.h declares these extern, so each must be instantiated by name here.
FMT_BEGIN_NAMESPACE
namespace detail {

template FMT_API dragonbox::decimal_fp<float> dragonbox::to_decimal(float x) noexcept;
template FMT_API dragonbox::decimal_fp<double> dragonbox::to_decimal(double x) noexcept;

template FMT_API locale_ref::locale_ref(const std::locale& locale);
template FMT_API std::locale locale_ref::get<std::locale>() const;
template FMT_API thousands_sep_result<char> thousands_sep_impl(locale_ref locale);
template FMT_API char decimal_point_impl(locale_ref locale);

template FMT_API void buffer<char>::append(const char* begin, const char* end);
template FMT_API void vformat_to(buffer<char>& out, string_view text,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)> args,
                                 locale_ref locale);

}  // namespace detail
FMT_END_NAMESPACE
