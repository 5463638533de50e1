#include <atomic>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include "output.h"
#include "signals.h"

namespace gridstride {

static std::string buffered_output;
static std::atomic_flag buffer_lock = {};
void fork_output(Fork phase) {
    if (phase == Fork::before)
        while (buffer_lock.test_and_set()) {}
    else buffer_lock.clear();
}
static void (*write_output)(const char *, size_t) = nullptr;
void (*warn)(const Finding *) = nullptr;

static int vprint(const char *format, va_list args) {
    SignalDeferral deferral;
    va_list args_copy;
    va_copy(args_copy, args);
    char short_output[1024];
    const int length = vsnprintf(short_output, sizeof short_output, format, args);
    while (buffer_lock.test_and_set()) {}
    if (length >= int(sizeof short_output)) {
        const size_t old_size = buffered_output.size();
        buffered_output.resize(old_size + size_t(length) + 1);
        vsnprintf(&buffered_output[old_size], size_t(length) + 1, format, args_copy);
        buffered_output.pop_back();
    } else if (length > 0) buffered_output.append(short_output, size_t(length));
    buffer_lock.clear();
    va_end(args_copy);
    if (!on_device()) flush_printed();
    return length;
}
int print(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int length = vprint(format, args);
    va_end(args);
    end_if_interrupted(__builtin_return_address(0));
    return length;
}
static int count_arguments(const char *format) {
    int count = 0;
    for (const char *c = format; *c; c++) {
        if (*c != '%') continue;
        if (c[1] == '%') c++;
        else
            for (count++; c[1] && strchr("+- #0123456789.*hljztL", c[1]); c++) count += c[1] == '*';
    }
    return count;
}
void flush_printed() {
    // host code may have written to stdout directly
    fflush(stdout);
    std::string output;
    while (buffer_lock.test_and_set()) {}
    output.swap(buffered_output);
    buffer_lock.clear();
    if (output.empty()) return;
    const SignalDeferral deferral;
    if (write_output && !is_child()) write_output(output.data(), output.size());
    else fwrite(output.data(), 1, output.size(), stdout), fflush(stdout);
}
}

int gridstride_printf(const char *format, ...) {
    va_list args;
    va_start(args, format);
    const int n = gridstride::vprint(format, args);
    va_end(args);
    gridstride::end_if_interrupted(__builtin_return_address(0));
    return gridstride::on_device() ? gridstride::count_arguments(format) : n;
}

extern "C" {
void gridstride_send_output_to(void (*f)(const char *, size_t)) { gridstride::write_output = f; }
void gridstride_send_warnings_to(void (*f)(const gridstride::Finding *)) { gridstride::warn = f; }
}
