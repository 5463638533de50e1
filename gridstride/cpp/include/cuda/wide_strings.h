// std::to_wstring, and std::stoi to std::stold of wide strings, which emulator.h leaves out.
#pragma once
#include <string>
#if defined(__GLIBCXX__) && !_GLIBCXX_USE_C99_WCHAR && __has_include(<ext/string_conversions.h>)
#include <cwchar>
#include <ext/string_conversions.h>
#define GRIDSTRIDE_WIDE(type, name, function) \
    inline type name(const wstring &s, size_t *end = nullptr, int base = 10) { \
        using Read = decltype(function(nullptr, nullptr, 10)); \
        return __gnu_cxx::__stoa<Read, type>(&function, #name, s.c_str(), end, base); \
    }
#define GRIDSTRIDE_WIDE_FLOAT(type, name, function) \
    inline type name(const wstring &s, size_t *end = nullptr) { \
        return __gnu_cxx::__stoa(&function, #name, s.c_str(), end); \
    }
#define GRIDSTRIDE_TO_WIDE(type) \
    inline wstring to_wstring(type value) { const string s = to_string(value); return wstring(s.begin(), s.end()); }
namespace std {
GRIDSTRIDE_WIDE(int, stoi, wcstol)
GRIDSTRIDE_WIDE(long, stol, wcstol)
GRIDSTRIDE_WIDE(unsigned long, stoul, wcstoul)
GRIDSTRIDE_WIDE(long long, stoll, wcstoll)
GRIDSTRIDE_WIDE(unsigned long long, stoull, wcstoull)
GRIDSTRIDE_WIDE_FLOAT(float, stof, wcstof)
GRIDSTRIDE_WIDE_FLOAT(double, stod, wcstod)
GRIDSTRIDE_WIDE_FLOAT(long double, stold, wcstold)
GRIDSTRIDE_TO_WIDE(int)
GRIDSTRIDE_TO_WIDE(unsigned)
GRIDSTRIDE_TO_WIDE(long)
GRIDSTRIDE_TO_WIDE(unsigned long)
GRIDSTRIDE_TO_WIDE(long long)
GRIDSTRIDE_TO_WIDE(unsigned long long)
GRIDSTRIDE_TO_WIDE(float)
GRIDSTRIDE_TO_WIDE(double)
GRIDSTRIDE_TO_WIDE(long double)
}
#undef GRIDSTRIDE_WIDE
#undef GRIDSTRIDE_WIDE_FLOAT
#undef GRIDSTRIDE_TO_WIDE
#endif
