// runtime/unit_python.cpp for WebAssembly, whose C++ library does not unwind stacks: an exception in host code ends the
// call, with the outcome that `run_and_catch` would return.
// the user's module has these functions, too, which the linker must choose
#define gs_exports gridstride_runtime_exports
#define gs_connect gridstride_runtime_connect
#include "cpp/runtime/unit_python.cpp"
#include <typeinfo>

// the offsets that `call` of ../program.js writes and reads
static_assert(offsetof(gs_call, n) == 8 && offsetof(gs_call, grid) == 32 && offsetof(gs_call, block) == 56 &&
    offsetof(gs_call, shared) == 80 && offsetof(gs_call, cluster) == 88 && offsetof(gs_call, result) == 112 &&
    offsetof(gs_call, message) == 116 && offsetof(gs_call, argument) == 120 &&
    offsetof(gs_call, large_clusters) == 128 && sizeof(gs_call) == 136);

#define IMPORT(name) extern "C" __attribute__((import_module("gridstride"), import_name(#name)))
IMPORT(ask) int gridstride_js_ask(const char *operation, const int64_t *args, int n, const int64_t **result);
IMPORT(retain) void gridstride_js_retain(void *tensor);
IMPORT(release) void gridstride_js_release(void *tensor);

namespace gridstride {
namespace bindings {

static const bool is_connected = [] {
    static const gs_python by_javascript = {
        [](const char *operation, const int64_t *args, int64_t n, const int64_t **result) {
            return int64_t(gridstride_js_ask(operation, args, int(n), result));
        },
        [] { return 1; }, [] { return 0; }, [](int) {}, gridstride_js_retain, gridstride_js_release};
    connect(&by_javascript);
    return true;
}();

static int thrown_outcome = done;
// The jump skipped destructors: only these lists still refer to the arguments.
static void recount_references() {
    for (auto &handle : argument_handles) handle->references = 0;
    for (auto &range : memory_ranges) range.handle->references = 0;
    for (auto &handle : argument_handles) handle->references++;
    for (auto &range : memory_ranges) range.handle->references++;
}
int outcome_of_jump() {
    recount_references();
    if (thrown_outcome == done) return store_outcome(finding, "");
    const int outcome = thrown_outcome;
    thrown_outcome = done;
    return outcome;
}
struct StandardException {
    const std::type_info &type;
    int outcome;
};
static const StandardException standard_exceptions[] = {{typeid(std::out_of_range), index_error},
    {typeid(std::overflow_error), overflow_error}, {typeid(std::invalid_argument), value_error},
    {typeid(std::domain_error), value_error}, {typeid(std::length_error), value_error},
    {typeid(std::bad_alloc), memory_error}, {typeid(std::runtime_error), runtime_error},
    {typeid(std::logic_error), runtime_error}};

static int store_thrown(const void *object, const std::type_info &type) {
    if (type == typeid(RejectedArgument)) {
        const auto &rejected = *static_cast<const RejectedArgument *>(object);
        current()->argument = rejected.argument;
        return store_outcome(type_error, rejected.reason ? rejected.reason : "");
    }
    if (type == typeid(torch::Error) || type == typeid(PythonError)) {
        const auto &error = *static_cast<const torch::Error *>(object);
        return store_outcome(error.outcome, error.what());
    }
    for (const auto &known : standard_exceptions)
        if (type == known.type)
            return store_outcome(known.outcome, static_cast<const std::exception *>(object)->what());
    return store_outcome(runtime_error, "an exception was thrown whose type is unknown in a browser");
}
}
}
// Called by __cxa_throw in host code.
void gridstride_store_thrown(const void *object, const std::type_info &type) {
    using namespace gridstride::bindings;
    if (current() && type != typeid(gridstride::LaunchStopped)) thrown_outcome = store_thrown(object, type);
}
