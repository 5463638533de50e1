// Finds the source location of a finding with addr2line, stores the finding, and ends the launch or the host code.
#include <algorithm>
#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "detector.h"
#include "findings.h"
#include "loader.h"
#include "platform.h"
#include "signals.h"
#ifdef GRIDSTRIDE_BACKTRACE
#include <execinfo.h>
#endif

namespace gridstride {

struct CodeInfo {
    Kind kind;
    const char *name;
};
static constexpr CodeInfo code_infos[] = {
#define X(kind, code) {kind, #code},
    GRIDSTRIDE_CODES(X)
#undef X
};

Field::Field(const char *name, Code code, int num_fields) : Field(name, phrase, num_fields) {
    copy(string, code_infos[int(code)].name);
}
void Finding::add(Fields new_fields) {
    for (const Field &field : new_fields)
        if (num_fields < int(sizeof fields / sizeof *fields)) fields[num_fields++] = field;
}

// Copies a path; of a path that is too long, only the end, because the ends of paths differ.
template <size_t n> static void copy_path(char (&buffer)[n], const char *path) {
    const size_t length = strlen(path);
    Field::copy(buffer, length < n ? path : path + length - (n - 1));
}

void Location::add_call(const char *function, const char *call_file, int call_line) {
    if (num_calls == int(sizeof calls / sizeof *calls)) return;
    Frame &call = calls[num_calls++];
    call.line = call_line;
    Field::copy(call.function, function);
    copy_path(call.file, call_file);
}

static std::string to_hexadecimal(size_t n) {
    char text[24];
    snprintf(text, sizeof text, "%#zx", n);
    return text;
}

void fill(Finding &finding, Code code, Fields fields) {
    memset(&finding, 0, sizeof finding);
    finding.kind = code_infos[int(code)].kind;
    Field::copy(finding.code, code_infos[int(code)].name);
    finding.add(fields);
}
void begin_finding(Code code, Fields fields) { fill(current_finding, code, fields); }

bool is_user_source(const char *file) {
    return !strstr(file, "cpp/include/") && !strstr(file, "cpp/runtime/") && !strstr(file, "/include/c++/") &&
           strncmp(file, "/usr/", 5);
}
// Returns whether a function copies or moves a struct, such as `A::operator=(A const&)` and `A::A(A&&)`. The line of
// such an implicit function is that of the struct, not of the copy.
static bool is_copy(const std::string &function) {
    const size_t parenthesis = function.rfind('('), separator = function.rfind("::", parenthesis);
    if (parenthesis == std::string::npos || separator == std::string::npos) return false;
    const std::string type = function.substr(0, separator),
        method = function.substr(separator + 2, parenthesis - separator - 2),
                      parameters = function.substr(parenthesis + 1);
    if (parameters != type + " const&)" && parameters != type + "&&)") return false;
    return method == "operator=" || method == base_name(type.c_str());
}
// Returns whether a function belongs to the emulator; the compiler may assign lines of the user's source to it.
static bool is_emulator_function(const std::string &function) {
    const auto starts_with = [&](const char *prefix) { return !function.compare(0, strlen(prefix), prefix); };
    return starts_with("gs_exports") || starts_with("gs_connect") || starts_with("_GLOBAL__") ||
           starts_with("__static_init") ||
           function.substr(0, function.find_first_of("<(")).find("gridstride::") != std::string::npos;
}
// Returns the unqualified name of a function that addr2line prints: `k` for `void a::k<4>(float*)`, `const` for a
// lambda.
static std::string unqualified_name(const char *function) {
    std::string name;
    int depth = 0;
    for (const char *c = function; *c && *c != '\n'; c++) {
        depth += strchr("(<{", *c) != nullptr;
        if (!depth && strchr(" :", *c)) name.clear();
        else if (!depth) name += *c;
        depth -= strchr(")>}", *c) != nullptr;
    }
    return name;
}

// Returns the name of a function for messages: `lambda` for a lambda, `operator()` for a function object.
static std::string display_name(std::string function) {
    function.resize(std::min({function.find('\n'), function.find(" [clone"), function.size()}));
    if (const size_t end = function.rfind(" const"); end != std::string::npos && end + 6 == function.size())
        function.resize(end);
    const std::string name = unqualified_name(function.c_str());
    if (name != "operator") return name;
    const size_t operator_name = function.rfind("::operator()");
    return operator_name != std::string::npos && operator_name && function[operator_name - 1] == '}' ? "lambda"
        : "operator()";
}

// Finds the source location of a code address: the innermost line in the user's files, and the calls that are inlined
// there.
void locate(const void *pc, Location &location) {
    Dl_info info;
    if (!pc || !find_symbol(pc, info) || !strncmp(info.dli_fname, "/lib", 4) || !is_user_source(info.dli_fname)) return;
    std::string function;
#ifdef __APPLE__
    const std::vector<std::string> command = {"atos", "-i", "-fullPath", "-o", info.dli_fname, "-l",
        to_hexadecimal(reinterpret_cast<size_t>(info.dli_fbase)), to_hexadecimal(reinterpret_cast<size_t>(pc))};
#else
    // An access that clang has moved and the jump of an empty loop have no line. For them, addr2line also gets nearby
    // addresses of the same function.
    const char *code = static_cast<const char *>(pc);
    std::vector<std::string> command = {"addr2line", "-a", "-f", "-C", "-i", "-e", info.dli_fname};
    for (int offset : {0, 8, 16, 24, -4, -8, -16, -32}) {
        Dl_info nearby;
        if (find_symbol(code + offset, nearby) && nearby.dli_saddr == info.dli_saddr)
            command.push_back(to_hexadecimal(size_t(code + offset - static_cast<char *>(info.dli_fbase))));
    }
#endif
    ProgramOutput output(command);
    bool has_emulator_function = false;
    location.num_calls = 0;
    while (char *text = output.next()) {
#ifndef __APPLE__
        // the first address with a user's line, or inside a function of the emulator, ends the search
        if ((has_emulator_function || location.num_calls) && !strncmp(text, "0x", 2)) break;
        if (!strncmp(text, "0x", 2)) continue;
#endif
        function = text;                                    // the location follows on the next line
#ifdef __APPLE__
        if (char *open = strrchr(text, '(')) memmove(text, open + 1, strlen(open));
#else
        if (!(text = output.next())) break;
#endif
        char *colon = strrchr(text, ':');
        has_emulator_function = has_emulator_function || is_emulator_function(function);
        if (!colon || is_copy(function) || is_emulator_function(function) || !is_user_source(text) || !atoi(colon + 1))
            continue;
        const int line = atoi(colon + 1);
        *colon = 0;
        if (!location.num_calls) location.line = line, copy_path(location.file, text);
        location.add_call(display_name(function).c_str(), text, line);
    }
}

bool is_on_stack(const Fiber &fiber) {
    char local;
    return size_t(&local - fiber.stack) < stack_bytes;
}

// Returns the line of the kernel from which the current code was called, directly or not; 0 if that line is unknown, or
// if the finding belongs to a thread that is not running. Adds the call stack to `location`, and the file if only the
// line is known.
int find_call_in_kernel(const Worker &w, Location &location, void *const *given_frames, int depth) {
#ifdef __APPLE__
    return (void)w, (void)location, (void)given_frames, (void)depth, 0;
#else
    void *own_frames[64];
    Dl_info kernel, info;
    const bool is_running = !given_frames && is_on_stack(*w.fiber[w.current_slot]);
    if (!(given_frames || is_running || w.signal) ||
        !find_symbol(reinterpret_cast<const void *>(w.launch->thread), kernel)) return 0;
    void *const *frames = given_frames ? given_frames : is_running ? own_frames : w.frames;
    const int num_frames = given_frames ? depth : is_running ? backtrace(own_frames, 64) : w.depth;
    std::vector<std::string> command = {"addr2line", "-f", "-C", "-i", "-e", kernel.dli_fname};
    for (int i = 0; i < num_frames; i++)
        if (find_symbol(frames[i], info) && info.dli_fbase == kernel.dli_fbase)
            command.push_back(to_hexadecimal(
                size_t(static_cast<char *>(frames[i]) - static_cast<char *>(info.dli_fbase)) - (frames[i] != w.pc)));
    ProgramOutput output(command);
    const std::string name = base_name(w.launch->kernel);
    Location stack = {};
    int num_calls = 0, kernel_line = 0;
    // Inlined functions come first, so the last function with the kernel's name is the kernel.
    while (const char *function_line = output.next()) {
        const std::string function = function_line;
        char *file_line = output.next();
        if (!file_line) break;
        char *colon = strrchr(file_line, ':');
        if (!colon) continue;
        *colon = 0;
        const int call_line = atoi(colon + 1);
        if (!call_line) continue;
        if (location.file[0] <= 1 && call_line == location.line && is_user_source(file_line))
            copy_path(location.file, file_line);
        if (is_user_source(file_line) && !is_emulator_function(function) && !is_copy(function))
            stack.add_call(display_name(function).c_str(), file_line, call_line);
        if (unqualified_name(function.c_str()) == name) kernel_line = call_line, num_calls = stack.num_calls;
    }
    if (num_calls) location.num_calls = num_calls, memcpy(location.calls, stack.calls, sizeof stack.calls);
    return kernel_line;
#endif
}
int collect_frames(void *(&frames)[24]) {
#ifdef __APPLE__
    return (void)frames, 0;
#else
    return backtrace(frames, 24);
#endif
}

void set_thread(Worker &w, int rank, uint64_t block, Location &p) {
    set_thread(w.launch->grid, w.launch->block, rank, block, p);
}
void set_thread(dim3 grid, dim3 threads, int rank, uint64_t block, Location &location) {
    const uint64_t gx = grid.x, gy = grid.y;
    const unsigned bx = threads.x, by = threads.y, r = unsigned(rank);
    const int block_index[3] = {int(block % gx), int(block / gx % gy), int(block / (gx * gy))},
              thread_index[3] = {int(r % bx), int(r / bx % by), int(r / (bx * by))};
    memcpy(location.block, block_index, sizeof block_index);
    memcpy(location.thread, thread_index, sizeof thread_index);
    location.device = device_count() > 1 ? current_device() : -1;
}

void set_thread_of_finding(Worker &w) {
    Field::copy(current_finding.kernel, base_name(w.launch->kernel).c_str());
    current_finding.has_thread = w.is_thread_unknown ? 2 : 1;
    set_thread(w, w.rank[w.current_slot], w.block, current_finding.location);
}

// Ends the launch: jumps back to `run_blocks`, from any fiber.
[[noreturn]] void end_launch() { siglongjmp(worker->root->escape, 1); }

static std::atomic_flag finding_lock = {};
void fork_findings(Fork phase) {
    if (phase == Fork::child) finding_lock.clear();
}
template <class F> static bool claim(F store) {
    while (finding_lock.test_and_set()) {}
    const bool is_first = !stops_launch.exchange(true);
    if (is_first) store();
    finding_lock.clear();
    return is_first;
}
bool claim_finding(Code code, Fields fields) {
    const Finding *cause = detector.cause_of(code_infos[int(code)].kind);
    if (cause) return claim_finding(*cause), false;
    return claim([&] { begin_finding(code, fields); });
}
void claim_finding(const Finding &finding) {
    claim([&] { current_finding = finding; });
}

Location *begin_warning(Code code, int line, Fields fields) {
    for (const Finding &finding : pending_warnings)
        if (line && finding.location.line == plain_line(line) && !strcmp(finding.code, code_infos[int(code)].name))
            return nullptr;
    if (pending_warnings.size() == max_warnings) return nullptr;
    Finding &finding = pending_warnings.emplace_back();
    finding.kind = warning, set_source_line(finding.location, line);
    Field::copy(finding.code, code_infos[int(code)].name);
    Field::copy(finding.kernel, base_name(worker->launch->kernel).c_str());
    finding.add(fields);
    return &finding.location;
}

void set_source_line(Location &location, int line) {
    location.line = plain_line(line);
    if (!location.file[0] && line >> line_bits) location.file[0] = 1, location.file[1] = char(line >> line_bits);
}
void locate_finding(const void *pc, int line) {
    set_thread_of_finding(*worker);
    locate(pc, current_finding.location);
    if (line) set_source_line(current_finding.location, line);
    current_finding.call_line = find_call_in_kernel(*worker, current_finding.location);
}
void report(Code code, Fields fields, const void *pc, int line) {
    if (claim_finding(code, fields)) locate_finding(pc, line);
}

// Prints a finding's code and fields, for programs without Python.
void print_finding(FILE *stream) {
    std::string line = current_finding.code;
    for (int i = 0; i < current_finding.num_fields; i++) {
        const Field &f = current_finding.fields[i];
        line += (i ? ", " : ": ") + std::string(f.name) + "=" + f.string;
        for (int k = 0; k < f.count && f.type != Field::phrase; k++)
            line += (k ? " " : "") + std::to_string(f.values[k]);
    }
    const auto location_text = [](const Location &location) {
        return std::string(location.file) + ":" + std::to_string(location.line);
    };
    line += " (" + location_text(current_finding.location) +
        (current_finding.has_other ? ", against " + location_text(current_finding.other) : "") + ")\n";
    fputs(line.c_str(), stream);           // in one call, because several processes may print at the same time
}

[[noreturn]] void end_host_code() {
    if (crash_guard) siglongjmp(*crash_guard, 1);
    if (running_calls) {                       // in a thread of host code: the call from Python reports it
        end_host_code_later();
        pthread_exit(nullptr);
    }
    print_finding(stderr);
    abort();
}
[[noreturn]] void fail_at(Code code, Fields fields, const void *pc, int line) {
    if (on_device()) {
        report(code, fields, pc, line);
        end_launch();
    }
    if (!is_launch_stopped()) {
        begin_finding(code, fields);
        locate(pc, current_finding.location);
        if (line) set_source_line(current_finding.location, line);
    }
    end_host_code();
}
[[noreturn]] void fail(Code code, Fields fields, int line) { fail_at(code, fields, nullptr, line); }

// Reports an index that is out of bounds for the array's type. The column identifies the array in the source line.
[[noreturn]] void fail_index(long long index, const char *type, const void *pc, int column) {
    if (claim_finding(Code::outside_type, {{"index", &index, 1}, {"type", type}})) {
        locate_finding(pc, 0);
        current_finding.column = column;
    }
    end_launch();
}

void assert_failed(const char *expression, const char *, int line) {
    fail(Code::fails, {{"expression", expression}}, line);
}
// The return address minus one belongs to the call instruction.
#define CALLER (static_cast<char *>(__builtin_return_address(0)) - 1)
[[noreturn]] static void trap_at(const void *pc, Code operation) {
    fail_at(Code::trap, {{"operation", operation}}, pc, 0);
}
void trap(Code operation) { trap_at(CALLER, operation); }
void report_local_overrun(void *pc) {
    fail_at(Code::local_array, {{"access", "write"}}, static_cast<char *>(pc) - 1, 0);
}
void *exception_alloc(size_t bytes, void *pc) {
    if (on_device()) trap_at(static_cast<char *>(pc) - 1, Code::exception_thrown);
    return abi::__cxa_allocate_exception(bytes);
}
#ifdef GRIDSTRIDE_BACKTRACE
// Returns an addr2line command for the addresses in the library of the first one that is not in the runtime
static std::vector<std::string> addr2line_command(void *const *frames, int depth) {
    Dl_info runtime_info, info;
    find_symbol(reinterpret_cast<void *>(&end_launch), runtime_info);
    const void *base = nullptr;
    std::vector<std::string> command = {"addr2line", "-f", "-C", "-i", "-e"};
    for (int i = 0; i < depth; i++) {
        if (!find_symbol(frames[i], info) || info.dli_fbase == runtime_info.dli_fbase ||
            (base && info.dli_fbase != base))
            continue;
        if (!base) command.push_back(info.dli_fname);
        base = info.dli_fbase;
        command.push_back(to_hexadecimal(size_t(static_cast<char *>(frames[i]) - static_cast<const char *>(base)) - 1));
    }
    return command;
}
#endif
// Finds the innermost line of host code on the call stack, outside the function `excluded`, which may be inlined.
static void locate_caller(const char *excluded, Location &location) {
#ifdef GRIDSTRIDE_BACKTRACE
    void *frames[24];
    ProgramOutput output(addr2line_command(frames, backtrace(frames, 24)));
    while (const char *function_line = location.line ? nullptr : output.next()) {
        const std::string function = function_line;
        char *file_line = output.next();
        char *colon = file_line ? strrchr(file_line, ':') : nullptr;
        if (!colon || unqualified_name(function.c_str()) == excluded || is_emulator_function(function) ||
            !is_user_source(file_line)) continue;
        location.line = atoi(colon + 1);
        *colon = 0;
        snprintf(location.file, sizeof location.file, "%.255s", file_line);
    }
#else
    (void)excluded, (void)location;
#endif
}
// Reports a kernel that host code calls instead of launching it.
void not_launched(const char *name) {
    if (is_launch_stopped()) end_host_code();
    begin_finding(Code::not_launched, {{"kernel", name}});
    Field::copy(current_finding.kernel, name);
    locate_caller(name, current_finding.location);
    end_host_code();
}
void not_emulated(const char *function) {
    if (on_device()) fail_at(Code::not_emulated, {{"function", function}}, CALLER, 0);
    if (is_launch_stopped()) end_host_code();
    begin_finding(Code::not_emulated, {{"function", function}});
    locate_caller(function, current_finding.location);
    end_host_code();
}
void report_wrong_policy(const char *algorithm, bool device) {
    if (is_launch_stopped()) end_host_code();
    begin_finding(device ? Code::host_memory_given : Code::device_memory_given, {{"algorithm", algorithm}});
    locate_caller("", current_finding.location);
    end_host_code();
}
void report_library_memory() {
    if (!checks(memcheck)) return;
    if (is_launch_stopped()) end_host_code();
    begin_finding(Code::library_memory, {});
    locate_caller("", current_finding.location);
    end_host_code();
}
void wait_for_device() {
    if (on_device()) fail_at(Code::waits_in_kernel, {}, CALLER, 0);
}
// If a launch was rejected and the host has not read the error, the rejected launch is reported instead of the exit,
// because it is the probable cause.
[[noreturn]] static void exit_from(int code, const void *caller) {
    if (is_child()) end_child(code);
    if (!on_device() && crash_guard && was_launch_rejected()) siglongjmp(*crash_guard, 1);
    fail_at(on_device() ? Code::exits_in_kernel : Code::exits, {{"status", code}}, caller, 0);
}
void exit_program(int code) { exit_from(code, CALLER); }
void report_host_only_call(const char *function, int line) {
    if (on_device()) fail(Code::host_called, {{"function", function}}, line);
}
void report_index_outside(
    const char *access, const char *array, const long long *index, const long long *sizes, int rank, int line) {
    const bool is_negative = std::any_of(index, index + rank, [](long long i) { return i < 0; });
    fail(is_negative ? Code::before : Code::outside,
        {{"access", access}, {"array", array}, {"index", index, rank}, {"shape", sizes, rank}}, line);
}
}

extern "C" {
// The linker redirects calls of _exit, _Exit and quick_exit in modules to these (../toolchain/compilers.py). In a
// thread that host code has created, they end the process.
#define GRIDSTRIDE_WRAP(name) \
    [[noreturn]] GRIDSTRIDE_API void __wrap_##name(int code) { \
        if (!gridstride::crash_guard && !gridstride::on_device()) _exit(code); \
        gridstride::exit_from(code, CALLER); \
    }
GRIDSTRIDE_WRAP(_exit)
GRIDSTRIDE_WRAP(_Exit)
GRIDSTRIDE_WRAP(quick_exit)
const gridstride::Abi *gridstride_abi() {
    using namespace gridstride;
    static const Abi abi = {
        GRIDSTRIDE_ABI_CHECKSUM, sizeof(gridstride_options), sizeof(Location), sizeof(Field), sizeof(Finding)};
    return &abi;
}
const char *gridstride_codes() {
#define X(kind, code) #kind " " #code "\n"
    return GRIDSTRIDE_CODES(X);
#undef X
}
// for modules without checks; checked ones have their own (../include/cuda/emulator.h)
GRIDSTRIDE_API void *__wrap___cxa_allocate_exception(size_t bytes) noexcept {
    return abi::__cxa_allocate_exception(bytes);
}
}
