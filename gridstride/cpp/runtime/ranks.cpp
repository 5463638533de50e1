// Ranks exchange data through a bootstrap, as NCCL calls it: an anonymous file (memfd) that all of them map. It has no
// name in a file system, so nothing is left when its processes have ended, however they end. Another process opens it
// by the ID of a process that has it open, /proc/PID/fd/N; this needs no permission except that both belong to the same
// user. Device memory that processes share is such a file, too.
//
// An exchange: each rank announces its call when the host calls it (`announce`), publishes its data when its stream
// arrives there, and then waits until all have published. Each rank counts its exchanges in a channel, and the n-th
// of all ranks belong together. Channel 0 is that of collectives; another is for messages from one rank to another,
// with the sender in slot 0 and the receiver in slot 1.
#include "ranks.h"
#include <algorithm>
#include <map>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include "detector.h"
#include "findings.h"
#include "platform.h"
#include "queue.h"
#include "signals.h"
#ifdef GRIDSTRIDE_ELF
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#endif

namespace gridstride {

constexpr int num_channels = 1 + max_ranks * max_ranks;
constexpr uint32_t max_outstanding = 256;      // exchanges of a rank that others have not finished
struct AnnouncedCall : ExchangeCall {
    uint64_t offset;                   // of the published data, in the region of its slot
};
struct ExchangeSlot {
    std::atomic<uint32_t> announced, published, finished;      // the number of its last such exchange
    uint64_t used;                     // bytes of its region that have been published
    AnnouncedCall calls[max_outstanding];
};
struct BootstrapState {
    uint64_t nonce;
    std::atomic<int> num_ranks;        // 0: no rank has joined
    std::atomic<int> processes[max_ranks];             // by rank; 0: has not joined, < 0: has left
    int devices[max_ranks];            // by rank; -1: the only one that its process sees; < -1: any
    ExchangeSlot slots[num_channels][max_ranks];
};
struct Bootstrap {
    BootstrapState *state;
    int fd, num_users;
    uint64_t nonce;
    std::map<uint64_t, std::vector<char>> bytes;       // by offset; only used without a file
};

// A process that waits in this loop sleeps most of the time, even on a busy machine, where it waits for a processor
// each time that it wakes. So the processor time is compared with the time in which the process did not wait for one.
bool RankWatch::is_active(const ProcessorTime &now, double seconds) const {
    constexpr double min_load = .03;
    const ProcessorTime *const before = time_before(now.process);
    const double used = before ? double(now.used - before->used) * 1e-9 : 0;
    return !before || (used ? used > min_load * (seconds - seconds_waited(now)) : now.is_ready);
}
const ProcessorTime *RankWatch::time_before(int process) const {
    const auto before = std::find_if(times, times + num_times,
        [process](const ProcessorTime &time) { return time.process == process; });
    return before == times + num_times ? nullptr : before;
}
double RankWatch::seconds_waited(const ProcessorTime &now) const {
    const ProcessorTime *const before = time_before(now.process);
    return before ? double(now.waited - before->waited) * 1e-9 : 0;
}
RankWatch::Verdict RankWatch::check(const int *processes, int count, bool needs_all, int &ended_process) {
    constexpr double idle_limit = 5, idle_limit_after_end = 1;
    const double now = seconds_now();
    if (!begin) begin = idle_since = now;
    sleep();
    if (now < next_check) return wait;
    next_check = now + .05;
    ProcessorTime current[max_processes];
    int num_current = 0, num_ended = 0, num_unknown = 0;
    double most_waited = 0;
    bool is_any_active = false;
    for (int i = 0; i < count; i++) {
        if (!processes[i]) num_unknown++;
        else if (is_ended(processes[i])) num_ended++, ended_process = processes[i];
        else if (num_current == max_processes) is_any_active = true;
        else {
            const ProcessorTime &time = current[num_current++] = processor_time(processes[i]);
            is_any_active |= is_active(time, now - idle_since);
            most_waited = std::max(most_waited, seconds_waited(time));
        }
    }
    if (num_ended && (needs_all || num_ended == count)) return ended;
    if (is_any_active) {
        begin += std::min(most_waited, now - idle_since);   // the time limit is for what does not wait for a processor
        std::copy(current, current + num_current, times);
        num_times = num_current, idle_since = now;
    }
    const bool are_idle = !num_unknown && now - idle_since > (num_ended ? idle_limit_after_end : idle_limit);
    return !are_idle && now - begin < options.seconds ? wait : num_ended ? ended : stuck;
}
void RankWatch::sleep() {
    if (DeviceLock::depth()) DeviceLock::pause(pause);       // other threads of the host may be ranks
    else usleep(pause);
    pause = std::min(pause * 5 / 4, 2000u);
}

#ifdef GRIDSTRIDE_ELF
static ssize_t read_text(const char *path, char *text, size_t size) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0) close(fd);
    if (length >= 0) text[length] = 0;
    return length;
}
// Reads /proc/.../stat. Returns the state of a process, or a thread, as a letter; 0: it does not exist.
static char read_state(const char *path, long long *ticks = nullptr) {
    char text[512];
    const char *const name_end = read_text(path, text, sizeof text) > 0 ? strrchr(text, ')') : nullptr;
    if (!name_end) return 0;                               // a name may contain a parenthesis
    unsigned long user = 0, system = 0;
    sscanf(name_end + 3, "%*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    if (ticks) *ticks = static_cast<long long>(user + system);
    return name_end[2];
}
bool is_ended(int process) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    const char state = read_state(path);
    return !state || state == 'Z' || state == 'X';
}
ProcessorTime processor_time_of_thread(int process, int thread) {
    char path[64], text[128];
    long long used = 0, waited = 0, ticks = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", process, thread);
    const bool is_ready = read_state(path, &ticks) == 'R';
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", process, thread);
    const bool is_exact = read_text(path, text, sizeof text) > 0 && sscanf(text, "%lld %lld", &used, &waited) == 2;
    return {process, is_exact ? used : ticks * (1000000000 / sysconf(_SC_CLK_TCK)), waited, is_ready};
}
ProcessorTime processor_time(int process) {
    ProcessorTime sum = {process, 0, 0, false};
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    DIR *const threads = opendir(path);
    const dirent *entry;
    while (threads && (entry = readdir(threads))) {
        const int thread = atoi(entry->d_name);            // 0: . or ..
        if (!thread) continue;
        const ProcessorTime time = processor_time_of_thread(process, thread);
        sum.used += time.used, sum.waited += time.waited, sum.is_ready |= time.is_ready;
    }
    if (threads) closedir(threads);
    return sum;
}
// An anonymous file of `bytes` zeros; < 0: error
static int create_file(size_t bytes) {
    const int fd = memfd_create("gridstride", MFD_CLOEXEC);
    if (fd >= 0 && !ftruncate(fd, off_t(bytes))) return fd;
    if (fd >= 0) close(fd);
    return -1;
}
static bool extend_file(int fd, size_t bytes) {    // to `bytes`, if it is shorter
    struct stat file;
    return !fstat(fd, &file) && (size_t(file.st_size) >= bytes || !ftruncate(fd, off_t(bytes)));
}
static uint64_t random_number() {
    uint64_t number = 0;
    while (!number && getrandom(&number, sizeof number, 0) < 0 && errno == EINTR) {}
    return number;
}
static void *map_file(int fd, size_t bytes, void *address = nullptr, off_t offset = 0) {
    void *const p = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (address ? MAP_FIXED : 0), fd, offset);
    return p == MAP_FAILED ? nullptr : p;
}
static BootstrapState *map_bootstrap(int fd) {
    return static_cast<BootstrapState *>(fd < 0 ? nullptr : map_file(fd, sizeof(BootstrapState)));
}
// Both return whether all bytes have been transferred.
static bool write_file(int fd, const void *from, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pwrite(fd, static_cast<const char *>(from) + done, bytes - done, off_t(offset + done));
        if (n <= 0) return false;
        done += size_t(n);
    }
    return true;
}
static bool read_file(int fd, void *to, size_t bytes, uint64_t offset) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(fd, static_cast<char *>(to) + done, bytes - done, off_t(offset + done));
        if (n <= 0) return false;
        done += size_t(n);
    }
    return true;
}
static int open_file(const FileHandle &handle) {
    char path[48];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.process, handle.fd);
    uint64_t nonce = 0;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && read_file(fd, &nonce, sizeof nonce, 0) && nonce == handle.nonce) return fd;
    if (fd >= 0) close(fd);
    return -1;
}
static bool write_bytes(Bootstrap &bootstrap, const void *from, size_t bytes, uint64_t offset) {
    return write_file(bootstrap.fd, from, bytes, offset);
}
static bool read_bytes(Bootstrap &bootstrap, void *to, size_t bytes, uint64_t offset) {
    return read_file(bootstrap.fd, to, bytes, offset);
}
static void discard_file(int fd, uint64_t offset, uint64_t bytes) {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off_t(offset), off_t(bytes));
}
static void discard_bytes(Bootstrap &bootstrap, uint64_t offset, uint64_t bytes) {
    discard_file(bootstrap.fd, offset, bytes);
}
#else
// Elsewhere ranks are threads of one process, a bootstrap is ordinary memory, and a process shares no device memory.
bool is_ended(int) { return false; }
ProcessorTime processor_time(int process) { return {process, 0, 0, false}; }
ProcessorTime processor_time_of_thread(int process, int) { return {process, 0, 0, false}; }
static int create_file(size_t) { return -1; }
static int open_file(const FileHandle &) { return -1; }
static uint64_t random_number() {
    static uint64_t last = 0;
    return ++last;
}
static void *map_file(int, size_t, void * = nullptr, off_t = 0) { return nullptr; }
static bool write_file(int, const void *, size_t, uint64_t) { return false; }
static bool read_file(int, void *, size_t, uint64_t) { return false; }
static void discard_file(int, uint64_t, uint64_t) {}
static bool extend_file(int, size_t) { return false; }
static BootstrapState *map_bootstrap(int) { return new BootstrapState(); }
static std::mutex bytes_lock;
static bool write_bytes(Bootstrap &bootstrap, const void *from, size_t bytes, uint64_t offset) {
    std::lock_guard<std::mutex> guard(bytes_lock);
    const char *const begin = static_cast<const char *>(from);
    bootstrap.bytes[offset].assign(begin, begin + bytes);
    return true;
}
static bool read_bytes(Bootstrap &bootstrap, void *to, size_t bytes, uint64_t offset) {
    std::lock_guard<std::mutex> guard(bytes_lock);
    const auto published = std::prev(bootstrap.bytes.upper_bound(offset));
    memcpy(to, published->second.data() + (offset - published->first), bytes);
    return true;
}
static void discard_bytes(Bootstrap &bootstrap, uint64_t offset, uint64_t bytes) {
    std::lock_guard<std::mutex> guard(bytes_lock);
    bootstrap.bytes.erase(bootstrap.bytes.lower_bound(offset), bootstrap.bytes.lower_bound(offset + bytes));
}
#endif

// Bootstraps

static std::vector<Bootstrap *> bootstraps;
static std::mutex bootstraps_lock;
void fork_ranks(Fork phase) { handle_fork(phase, bootstraps_lock); }
static Bootstrap *add_bootstrap(int fd, uint64_t nonce) {
    BootstrapState *const state = map_bootstrap(fd);
    if (!state) return nullptr;
    state->nonce = nonce;
    bootstraps.push_back(new Bootstrap{state, fd, 0, nonce, {}});
    return bootstraps.back();
}
static void discard_bootstrap(Bootstrap *bootstrap) {
    bootstraps.erase(std::find(bootstraps.begin(), bootstraps.end(), bootstrap));
    BootstrapState *const state = bootstrap->state;
    if (bootstrap->fd >= 0) munmap(static_cast<void *>(state), sizeof *state), close(bootstrap->fd);
    else delete state;
    delete bootstrap;
}
// Discards bootstraps that this process has created for others, if all of them have joined.
static void discard_unused_bootstraps() {
    const auto is_unused = [](const Bootstrap *bootstrap) {
        const BootstrapState &state = *bootstrap->state;
        const auto end = state.processes + state.num_ranks;
        return !bootstrap->num_users && state.num_ranks && std::find(state.processes, end, 0) == end;
    };
    for (size_t i = bootstraps.size(); i-- > 0;)
        if (is_unused(bootstraps[i])) discard_bootstrap(bootstraps[i]);
}
bool create_bootstrap(FileHandle &handle) {
    std::lock_guard<std::mutex> guard(bootstraps_lock);
    discard_unused_bootstraps();
    const int fd = create_file(sizeof(BootstrapState));
    handle = {random_number(), getpid(), fd};
    return add_bootstrap(fd, handle.nonce);
}
static Bootstrap *find_bootstrap(const FileHandle &handle) {
    const auto found = std::find_if(bootstraps.begin(), bootstraps.end(),
        [&](const Bootstrap *bootstrap) { return bootstrap->nonce == handle.nonce; });
    if (found != bootstraps.end()) return *found;
    const int fd = open_file(handle);
    return fd < 0 ? nullptr : add_bootstrap(fd, handle.nonce);
}
// A process that sees only one device may see another one than other processes do.
static bool is_device_taken(const BootstrapState &state, int num_ranks, int device) {
    for (int rank = 0; rank < num_ranks; rank++)
        if (const int process = state.processes[rank];
            process && state.devices[rank] == device && (process == getpid() || device >= 0))
            return true;
    return false;
}
Bootstrap *join_bootstrap(const FileHandle &handle, int rank, int num_ranks, int device) {
    std::lock_guard<std::mutex> guard(bootstraps_lock);
    const bool is_valid = rank >= 0 && rank < num_ranks && num_ranks <= max_ranks;
    Bootstrap *const bootstrap = is_valid ? find_bootstrap(handle) : nullptr;
    if (!bootstrap) return nullptr;
    int none = 0, unset = 0;
    if (!bootstrap->state->num_ranks.compare_exchange_strong(unset, num_ranks) && unset != num_ranks) return nullptr;
    if (device_count() == 1 && device >= 0) device = -1;
    if (is_device_taken(*bootstrap->state, num_ranks, device)) return nullptr;
    bootstrap->state->devices[rank] = device;
    if (!bootstrap->state->processes[rank].compare_exchange_strong(none, getpid())) return nullptr;
    bootstrap->num_users++;
    return bootstrap;
}
void leave_bootstrap(Bootstrap *bootstrap, int rank) { bootstrap->state->processes[rank] = -getpid(); }
void close_bootstrap(Bootstrap *bootstrap) {
    std::lock_guard<std::mutex> guard(bootstraps_lock);
    if (!--bootstrap->num_users) discard_bootstrap(bootstrap);
}

// Exchanges

static int num_members(const RankExchange &e) { return e.channel ? 2 : e.bootstrap->state->num_ranks.load(); }
static int rank_of(const RankExchange &e, int slot) {
    const int pair = e.channel - 1;
    return !e.channel ? slot : slot ? pair % max_ranks : pair / max_ranks;
}
static ExchangeSlot &slot_of(const RankExchange &e, int slot) { return e.bootstrap->state->slots[e.channel][slot]; }
static AnnouncedCall &call_of(const RankExchange &e, int slot) {
    return slot_of(e, slot).calls[e.sequence_number % max_outstanding];
}
static uint64_t region_of(const RankExchange &e, int slot) {
    return (uint64_t(1 + e.channel * max_ranks + slot)) << 40;
}
static uint32_t num_finished_by_all(const RankExchange &e) {
    uint32_t num_finished = ~0u;
    for (int slot = 0; slot < num_members(e); slot++)
        num_finished = std::min(num_finished, slot_of(e, slot).finished.load());
    return num_finished;
}
static bool agree(const AnnouncedCall &a, const AnnouncedCall &b, bool is_message) {
    return a.count == b.count && a.type == b.type &&
        (is_message || (a.kind == b.kind && a.op == b.op && a.root == b.root));
}
// Returns the slot of another rank whose call differs; -1: none
static int find_disagreement(const RankExchange &e) {
    const AnnouncedCall &own = call_of(e, e.slot);
    for (int slot = 0; slot < num_members(e); slot++)
        if (slot_of(e, slot).announced >= e.sequence_number && !agree(own, call_of(e, slot), e.channel)) return slot;
    return -1;
}
static void begin_disagreement(const RankExchange &e, int other) {
    const AnnouncedCall &own = call_of(e, e.slot), &theirs = call_of(e, other);
    begin_finding(Code::ranks_disagree,
        {{"rank", rank_of(e, e.slot)}, {"call", own.text}, {"rank_before", rank_of(e, other)},
            {"call_before", theirs.text}});
    set_source_line(current_finding.location, own.line);
    set_source_line(current_finding.other, theirs.line);
    current_finding.has_other = 1;
}
bool announce(RankExchange &e, const ExchangeCall &call) {
    ExchangeSlot &slot = slot_of(e, e.slot);
    e.sequence_number = slot.announced + 1;
    RankWatch watch;
    for (RankExchange oldest = e; e.sequence_number > num_finished_by_all(e) + max_outstanding - 1;) {
        oldest.sequence_number = e.sequence_number - max_outstanding + 1;
        if (!may_wait(oldest, watch)) return false;
    }
    AnnouncedCall &entry = call_of(e, e.slot);
    entry = AnnouncedCall{call, 0};
    slot.announced = e.sequence_number;
    const int other = find_disagreement(e);
    if (other >= 0 && !is_launch_stopped()) begin_disagreement(e, other);
    return other < 0;
}
void publish(const RankExchange &e, const void *data, size_t bytes) {
    ExchangeSlot &slot = slot_of(e, e.slot);
    AnnouncedCall &call = call_of(e, e.slot);
    if (const uint32_t finished = num_finished_by_all(e); finished + 1 == e.sequence_number && slot.used) {
        discard_bytes(*e.bootstrap, region_of(e, e.slot), slot.used);
        slot.used = 0;
    }
    call.offset = slot.used, slot.used += (bytes + 4095) / 4096 * 4096;
    if (!write_bytes(*e.bootstrap, data, bytes, region_of(e, e.slot) + call.offset))
        fail(Code::no_addresses, {}, call.line);
    record_published(e);
    record_host_wait(detector.now + 1);                    // because other ranks wait for the operations before it
    slot.published = e.sequence_number;
}
uint32_t count_outstanding(const RankExchange &e) { return slot_of(e, e.slot).announced - slot_of(e, e.slot).finished; }
bool is_announced_by_all(const RankExchange &e) {
    for (int slot = 0; slot < num_members(e); slot++)
        if (slot_of(e, slot).announced < e.sequence_number) return false;
    return true;
}
bool is_published(const RankExchange &e) {
    for (int slot = 0; slot < num_members(e); slot++)
        if (slot_of(e, slot).published < e.sequence_number) return false;
    return true;
}
void read_published(const RankExchange &e, int slot, size_t offset, void *to, size_t bytes) {
    const uint64_t begin = region_of(e, slot) + call_of(e, slot).offset + offset;
    if (bytes && !read_bytes(*e.bootstrap, to, bytes, begin)) fail(Code::no_addresses, {}, call_of(e, e.slot).line);
}
void finish(const RankExchange &e) { slot_of(e, e.slot).finished = e.sequence_number; }

// Waiting

// The ranks that have not published an exchange, or have not joined
namespace {
struct MissingRanks {
    const Bootstrap &bootstrap;
    int count = 0, ranks[max_ranks], processes[max_ranks];         // a process that has left has a negative ID
    explicit MissingRanks(const RankExchange &e) : bootstrap(*e.bootstrap) {
        for (int slot = 0; slot < num_members(e); slot++)
            if (slot_of(e, slot).published < e.sequence_number) add(rank_of(e, slot));
    }
    explicit MissingRanks(const Bootstrap &new_board) : bootstrap(new_board) {
        for (int rank = 0; rank < bootstrap.state->num_ranks; rank++)
            if (!bootstrap.state->processes[rank]) add(rank);
    }
    bool has_any_left() const {
        return std::any_of(processes, processes + count, [](int process) { return process < 0; });
    }
    template <class F> void keep_if(F f) {
        const int all = count;
        count = 0;
        for (int i = 0; i < all; i++)
            if (f(processes[i])) add(ranks[i]);
    }
    std::string text() const {
        std::string names = count > 1 ? "ranks " : "rank ";
        for (int i = 0; i < count; i++) names += (i ? ", " : "") + std::to_string(ranks[i]);
        return names;
    }
    void add(int rank) { processes[count] = bootstrap.state->processes[rank], ranks[count++] = rank; }
};
}
static Code why_missing(const RankExchange &e, RankWatch::Verdict verdict, MissingRanks &missing) {
    if (missing.has_any_left()) return missing.keep_if([](int process) { return process < 0; }), Code::rank_left;
    if (verdict == RankWatch::ended) return missing.keep_if(is_ended), Code::rank_ended;
    return is_announced_by_all(e) ? Code::rank_not_arrived : Code::rank_not_called;
}
static void report_missing(const char *call, int rank, int line, const MissingRanks &missing, Code why) {
    begin_finding(Code::ranks_missing, {{"call", call}, {"rank", rank}, {"ranks", missing.text().c_str()},
        {"why", why}});
    set_source_line(current_finding.location, line);
}
bool may_wait(const RankExchange &e, RankWatch &watch) {
    if (is_launch_stopped()) return false;
    const int other = find_disagreement(e);
    if (other >= 0) return begin_disagreement(e, other), false;
    MissingRanks missing(e);
    int ended_process = 0;
    const RankWatch::Verdict verdict = missing.has_any_left() ? RankWatch::ended
        : watch.check(missing.processes, missing.count, true, ended_process);
    if (verdict == RankWatch::wait || is_published(e)) return true;
    const Code why = why_missing(e, verdict, missing);
    report_missing(call_of(e, e.slot).text, rank_of(e, e.slot), call_of(e, e.slot).line, missing, why);
    return false;
}
void wait_for_exchange(const RankExchange &e) {
    RankWatch watch;
    while (!is_published(e))
        if (!may_wait(e, watch)) end_host_code();
}
void wait_for_ranks(Bootstrap *bootstrap, const char *call, int rank, int line) {
    RankWatch watch;
    for (MissingRanks missing(*bootstrap); missing.count;) {
        int ended_process = 0;
        if (is_launch_stopped()) end_host_code();
        if (watch.check(missing.processes, missing.count, true, ended_process) != RankWatch::wait) {
            report_missing(call, rank, line, missing, Code::rank_not_called);
            end_host_code();
        }
        missing.keep_if([](int) { return true; });             // reads the processes again
        missing.keep_if([](int process) { return !process; });
    }
}
void report_missing_group(const RankExchange &e, int other_rank) {
    MissingRanks missing(*e.bootstrap);
    missing.add(other_rank);
    const AnnouncedCall &call = call_of(e, e.slot);
    if (!is_launch_stopped())
        report_missing(call.text, rank_of(e, e.slot), call.line, missing, Code::rank_without_group);
    end_host_code();
}
void end_if_stopped() {
    if (is_launch_stopped()) end_host_code();
}

// The world of NVSHMEM

static Bootstrap *world = nullptr;
static int world_rank = 0;
bool is_in_world() { return world; }
int my_element() { return world ? world_rank : current_device(); }
int num_elements() { return world ? world->state->num_ranks.load() : device_count(); }
bool join_world(const FileHandle &handle, int rank, int ranks, int line) {
    if (world) return true;
    const int any_device = -2 - rank;                    // because a rank may choose its device later
    world = join_bootstrap(handle, rank, ranks, any_device), world_rank = rank;
    if (world) wait_for_ranks(world, "nvshmem_init", rank, line);
    return world;
}
void leave_world() {
    if (!world) return;
    leave_bootstrap(world, world_rank);
    close_bootstrap(world);
    world = nullptr;
}
void exchange_in_world(const char *call, size_t count, int line, void *entries, size_t bytes) {
    RankExchange e = {world, 0, world_rank};
    ExchangeCall description = {};
    description.count = count, description.line = line;
    snprintf(description.text, sizeof description.text, count ? "%s(%zu)" : "%s()", call, count);
    for (const char *c = call; *c; c++) description.kind = description.kind * 31 + *c;
    if (!announce(e, description)) end_host_code();
    char *const first = static_cast<char *>(entries);
    publish(e, first + bytes * size_t(world_rank), bytes);
    wait_for_exchange(e);
    for (int rank = 0; rank < num_elements(); rank++) read_published(e, rank, 0, first + bytes * size_t(rank), bytes);
    finish(e);
}
void synchronize_world(const char *call, int line) {
    host_waits();
    if (world) exchange_in_world(call, 0, line, nullptr, 0);
}

// Device memory that processes share

bool has_shared_memory = false;
static size_t header_bytes() { return memory.page; }
static bool add_sharer(SharedHeader &header) {
    for (std::atomic<int> &sharer : header.sharers) {
        int none = 0, own = getpid();
        if (sharer == own || sharer.compare_exchange_strong(none, own)) return true;
    }
    for (std::atomic<int> &sharer : header.sharers)        // if there are too many: replaces one that has ended
        if (int other = sharer; &sharer != header.sharers && is_ended(other) &&
            sharer.compare_exchange_strong(other, getpid()))
            return true;
    return false;
}
static void remove_sharer(SharedHeader &header) {
    for (std::atomic<int> &sharer : header.sharers) {
        int own = getpid();
        sharer.compare_exchange_strong(own, 0);
    }
}
// Maps the file of an allocation over its pages.
static bool map_shared(Allocation &allocation, int fd) {
    const auto [from, to] = memory.span(allocation);
    void *const header = map_file(fd, header_bytes());
    if (!header || !map_file(fd, to - from, memory.base + from, off_t(header_bytes()))) return false;
    allocation.shared = new SharedMemory{static_cast<SharedHeader *>(header), fd};
    allocation.is_uninitialized = false;                 // because other processes may write it
    return has_shared_memory = add_sharer(*allocation.shared->header);
}
static bool make_shared(Allocation &allocation) {
    const auto [from, to] = memory.span(allocation);
    const int fd = create_file(header_bytes() + to - from);
    const uint64_t nonce = random_number();
    return fd >= 0 && write_file(fd, &nonce, sizeof nonce, 0) &&
        write_file(fd, memory.base + from, to - from, header_bytes()) && map_shared(allocation, fd);
}
bool share_memory(const void *p, MemoryHandle &handle) {
    DeviceLock device_lock;
    Allocation *const allocation = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!allocation || !allocation->is_live || allocation->is_symbol) return false;
    if (!allocation->shared && !make_shared(*allocation)) return false;
    handle = {{allocation->shared->header->nonce, getpid(), allocation->shared->fd}, allocation->lo,
        allocation->hi - allocation->lo, uint32_t(allocation->itemsize), allocation->device};
    return true;
}
void *open_shared(const MemoryHandle &handle) {
    DeviceLock device_lock;
    if (handle.file.process == getpid()) {
        const Allocation *const own = memory.at(handle.address);
        const bool is_valid = own && own->is_live && own->shared && own->shared->header->nonce == handle.file.nonce;
        return is_valid ? reinterpret_cast<void *>(own->lo) : nullptr;
    }
    const int fd = open_file(handle.file);
    if (fd < 0) return nullptr;
    char *const p = memory.alloc(handle.bytes, handle.itemsize, false, false, false, "");
    if (!p || !map_shared(memory.allocations.back(), fd)) return nullptr;
    if (is_device_index(handle.device)) memory.allocations.back().device = handle.device;
    return p;
}
bool close_shared(void *p) {
    DeviceLock device_lock;
    const Allocation *const allocation = memory.at(reinterpret_cast<uintptr_t>(p));
    if (!allocation || !allocation->is_live || !allocation->shared) return false;
    return allocation->shared->header->sharers[0] == getpid() || device_free(p);
}
void release_shared(Allocation &allocation) {
#ifdef GRIDSTRIDE_ELF
    const auto [from, to] = memory.span(allocation);
    remove_sharer(*allocation.shared->header);
    munmap(static_cast<void *>(allocation.shared->header), header_bytes());
    if (SharedShadow *const shadow = allocation.shared->shadow)
        munmap(static_cast<void *>(shadow), allocation.shared->mapped_bytes);
    close(allocation.shared->fd);
    mmap(memory.base + from, to - from, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    delete allocation.shared;
#endif
    allocation.shared = nullptr;
}
uint64_t new_pool_id() { return random_number(); }
int export_pool(uint64_t id) {
    const int fd = create_file(sizeof id);
    return fd >= 0 && write_file(fd, &id, sizeof id, 0) ? fd : -1;
}
uint64_t import_pool(int descriptor) {
    uint64_t id = 0;
    return read_file(descriptor, &id, sizeof id, 0) ? id : 0;
}
void set_pool(const void *p, uint64_t id) {
    DeviceLock device_lock;
    if (Allocation *const allocation = memory.at(reinterpret_cast<uintptr_t>(p))) allocation->pool = id;
}
uint64_t pool_of(const void *p) {
    DeviceLock device_lock;
    const Allocation *const allocation = memory.at(reinterpret_cast<uintptr_t>(p));
    return allocation && allocation->is_live ? allocation->pool : 0;
}
static SharedHeader *header_at(const void *address) {
    const Allocation *const allocation = memory.at(reinterpret_cast<uintptr_t>(address));
    return allocation && allocation->shared ? allocation->shared->header : nullptr;
}
void lock_shared(const void *address) {
    SharedHeader *const header = header_at(address);
    if (!header) return;
    for (int tries = 0, owner = 0; !header->lock.compare_exchange_weak(owner, getpid()); owner = 0)
        if (++tries % 1000 == 0 && (usleep(50), is_ended(owner))) header->lock.compare_exchange_strong(owner, 0);
}
void unlock_shared(const void *address) {
    if (SharedHeader *const header = header_at(address)) header->lock = 0;
}
void unlock_all_shared() {
    for (Allocation &allocation : memory.allocations)
        if (int own = getpid(); allocation.is_live && allocation.shared)
            allocation.shared->header->lock.compare_exchange_strong(own, 0);
}
std::vector<int> sharers_of(const void *address) {
    std::vector<int> processes;
    const SharedHeader *const header = header_at(address);
    if (!header) return processes;
    for (const std::atomic<int> &sharer : header->sharers)
        if (sharer && sharer != getpid()) processes.push_back(sharer);
    if (processes.empty()) processes.push_back(0);           // another process may still open it
    return processes;
}
}

extern "C" {
// Creates the bootstrap of a job, and returns its ID for the variable GRIDSTRIDE_JOB; null: this system has none. The
// bootstrap exists until this process and all ranks have ended.
const char *gridstride_create_job() {
    static char id[64];
    gridstride::FileHandle handle;
    if (!gridstride::create_bootstrap(handle)) return nullptr;
    snprintf(id, sizeof id, "%llx:%d:%d", static_cast<unsigned long long>(handle.nonce), handle.process, handle.fd);
    return id;
}
}
