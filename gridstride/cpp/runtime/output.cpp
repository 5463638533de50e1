#include <atomic>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include "output.h"
#include "signals.h"

namespace gridstride {

static std::string printed;
static std::atomic_flag printing = {};
void fork_output(Fork now) {
    if (now == Fork::before)
        while (printing.test_and_set()) {}
    else printing.clear();
}
static void (*sink)(const char *, size_t) = nullptr;
void (*warn)(const Finding *) = nullptr;

static int print_all(const char *format, va_list args) {
    SignalDeferral here;
    va_list again;
    va_copy(again, args);
    char text[1024];
    const int n = vsnprintf(text, sizeof text, format, args);
    while (printing.test_and_set()) {}
    if (n >= int(sizeof text)) {
        const size_t before = printed.size();
        printed.resize(before + size_t(n) + 1);
        vsnprintf(&printed[before], size_t(n) + 1, format, again);
        printed.pop_back();
    } else if (n > 0) printed.append(text, size_t(n));
    printing.clear();
    va_end(again);
    if (!on_device()) flush_printed();
    return n;
}
int print(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = print_all(format, args);
    va_end(args);
    end_if_interrupted(__builtin_return_address(0));
    return n;
}
static int count_arguments(const char *format) {
    int n = 0;
    for (const char *p = format; *p; p++) {
        if (*p != '%') continue;
        if (p[1] == '%') p++;
        else
            for (n++; p[1] && strchr("+- #0123456789.*hljztL", p[1]); p++) n += p[1] == '*';
    }
    return n;
}
void flush_printed() {
    // host code may have written to stdout by other means before
    fflush(stdout);
    std::string text;
    while (printing.test_and_set()) {}
    text.swap(printed);
    printing.clear();
    if (text.empty()) return;
    const SignalDeferral here;
    if (sink && !is_child()) sink(text.data(), text.size());
    else fwrite(text.data(), 1, text.size(), stdout), fflush(stdout);
}
}

int gridstride_printf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = gridstride::print_all(format, args);
    va_end(args);
    gridstride::end_if_interrupted(__builtin_return_address(0));
    return gridstride::on_device() ? gridstride::count_arguments(format) : n;
}

extern "C" {
void gridstride_send_output_to(void (*f)(const char *, size_t)) { gridstride::sink = f; }
void gridstride_send_warnings_to(void (*f)(const gridstride::Finding *)) { gridstride::warn = f; }
}
