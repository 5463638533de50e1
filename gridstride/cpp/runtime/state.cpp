#include "state.h"
#include <pthread.h>
#include "detector.h"
#include "memory.h"
#include "worker.h"

__thread uint3 threadIdx, blockIdx;
__thread dim3 blockDim, gridDim = dim3(0, 1, 1);           // empty unless a launch is at work

namespace gridstride {

Memory memory;
__attribute__((tls_model("initial-exec"))) thread_local Worker *worker = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local bool looked_at = false;
Detector detector;

gridstride_options options = {0, 0, 0, 0, 60, 0};
Finding found;
std::vector<Finding> warned;
std::atomic<bool> stop{false};
thread_local sigjmp_buf *guard = nullptr;
std::atomic<int> calls{0};
const Names *all_names = nullptr;
thread_local int error_code = 0;
thread_local bool touches = false;
bool launching = false;

static pthread_mutex_t device = PTHREAD_MUTEX_INITIALIZER;
static thread_local int turns = 0;
Turn::Turn() : mine(!on_device()) {
    if (mine && !turns++) pthread_mutex_lock(&device);
}
Turn::~Turn() {
    if (mine && !--turns) pthread_mutex_unlock(&device);
}
int Turn::taken() { return turns; }
void Turn::give_back(int but) {
    if (turns > but && !but) pthread_mutex_unlock(&device);
    turns = but;
}

std::string base_name(const char *text) {
    std::string s(text);
    while (!s.empty() && (s[0] == '(' || s[0] == '&' || s[0] == ' ')) {
        const size_t close = s.find(')');
        const bool cast = s[0] == '(' && close != std::string::npos && close + 1 < s.size() && s.find('*') < close;
        s = s.substr(cast ? close + 1 : 1);
    }
    s = s.substr(0, s.find_first_of("<,) "));
    const size_t colon = s.rfind("::");
    return colon == std::string::npos ? s : s.substr(colon + 2);
}
}
