// racecheck across processes. A process that shares device memory with others (ranks.cpp) also records its accesses
// there, in cells that all of them map, after the memory's own pages. Each process writes only its own cells, and
// checks an access against the cells of the others.
//
// Times and thread indices are those of the process. In a vector clock the threads of another process have indices of
// their own: its index in `numbered_processes`, times 2^25. An atomic store to shared memory also stores the
// state that it releases, as words that do not depend on these indices; an atomic load reads them (`FlagRecord`). Both
// hold the memory's lock until the value itself is stored or loaded.
//
// The hosts of two processes may order their launches by means that the emulator does not see: a pipe, a barrier of
// MPI. So accesses for which the host of their process had waited when a launch began happen before this launch.
#include "detector.h"
#include "devices.h"
#include "findings.h"
#include "loader.h"
#include "operations.h"
#include "ranks.h"
#include "residents.h"

namespace gridstride {

struct PeerAccess {
    uint32_t thread, time, location, bytes;        // time 0: none; bytes: a mask of the bytes of the word
};
struct PeerCell { PeerAccess write, read, second_read; };
struct FlagRecord {                                // the state that the last atomic store to a word has released
    std::atomic<uint32_t> version, observed;       // counts the stores; the last one that another process has loaded
    uint32_t words, capacity, device, writer;      // writer: the process, as an index of `SharedShadow::peers`
    uint32_t value_before;                         // of the word, before the last store
    uint64_t offset;                               // in the file
};
struct PeerState {
    std::atomic<uint64_t> nonce;                   // of the process; 0: none
    std::atomic<uint32_t> host_waited_until;       // its host has waited for its accesses before this time
    int process, rank;
    std::atomic<uint32_t> num_launches;            // since it has chosen its cells
    static constexpr uint32_t max_launches = 8;    // that are stored
    struct Launch {
        uint32_t begin, first_block, num_blocks;   // `begin`: a time
        int device;
        dim3 grid, block;
        char image[256];                           // the path of the library with the kernel
    } launches[max_launches];
    // Returns the launch that made an access; null: it is not among the last ones.
    const Launch *launch_of(const PeerAccess &access) const {
        for (uint32_t i = num_launches, end = i < max_launches ? 0 : i - max_launches; i-- > end;) {
            const Launch &l = launches[i % max_launches];
            if (l.begin <= access.time && access.thread / max_threads - 1 - l.first_block < l.num_blocks) return &l;
        }
        return nullptr;
    }
};
struct SharedShadow {
    std::atomic<uint64_t> end_of_records;
    PeerState peers[SharedHeader::max_sharers + 1];
};
constexpr uint32_t log_peer_threads = 25, num_peers = SharedHeader::max_sharers + 1;
static size_t shadow_header_bytes() { return memory.pages(sizeof(SharedShadow)); }
static size_t shadow_bytes(size_t words) {
    return shadow_header_bytes() + memory.pages(words * sizeof(FlagRecord)) +
        num_peers * memory.pages(words * sizeof(PeerCell));
}
static FlagRecord *records_of(const SharedMemory &m) {
    return reinterpret_cast<FlagRecord *>(reinterpret_cast<char *>(m.shadow) + shadow_header_bytes());
}
static PeerCell *cells_of(const SharedMemory &m, uint32_t peer) {
    const size_t before = memory.pages(m.words * sizeof(FlagRecord)) + peer * memory.pages(m.words * sizeof(PeerCell));
    return reinterpret_cast<PeerCell *>(reinterpret_cast<char *>(m.shadow) + shadow_header_bytes() + before);
}
static PeerState &own_state(const SharedMemory &m) { return m.shadow->peers[m.own_peer]; }
static size_t shared_word_of(const Allocation &allocation, uintptr_t a) {
    return (a - reinterpret_cast<uintptr_t>(memory.base) - memory.span(allocation).first) / 4;
}

// Processes by number; the first is this one.
static std::vector<uint64_t> numbered_processes;
static uint64_t own_nonce() {
    static int process = 0;
    static uint64_t nonce;
    if (process == getpid()) return nonce;
    process = getpid(), nonce = random_number(), numbered_processes = {nonce};
    detector.peers_before = detector.peers_next = {};      // their indices are those of the parent
    return nonce;
}
static uint32_t number_of(uint64_t nonce) {
    own_nonce();
    const auto known = std::find(numbered_processes.begin(), numbered_processes.end(), nonce);
    if (known != numbered_processes.end()) return uint32_t(known - numbered_processes.begin());
    numbered_processes.push_back(nonce);
    return uint32_t(numbered_processes.size() - 1) % 128;
}

static bool map_shadow(Allocation &allocation) {
    SharedMemory &m = *allocation.shared;
    const auto [from, to] = memory.span(allocation);
    const size_t bytes = shadow_bytes((to - from) / 4), begin = header_bytes() + to - from;
    if (!extend_file(m.fd, begin + bytes)) return false;
    m.shadow = static_cast<SharedShadow *>(map_file(m.fd, bytes, nullptr, off_t(begin)));
    m.words = (to - from) / 4, m.mapped_bytes = bytes;
    uint64_t unset = 0;
    if (m.shadow) m.shadow->end_of_records.compare_exchange_strong(unset, begin + bytes);
    return m.shadow;
}
// Determines which of the cells belong to this process, and clears those of a process that has ended.
static bool choose_cells(Allocation &allocation) {
    SharedMemory &m = *allocation.shared;
    if (!m.shadow && !map_shadow(allocation)) return false;
    if (!add_sharer(*m.header)) return false;
    const auto &sharers = m.header->sharers;
    m.own_peer = uint32_t(std::find(sharers, sharers + num_peers, getpid()) - sharers);
    PeerState &own = own_state(m);
    if (own.nonce == own_nonce()) return true;
    own.nonce = 0;
    const size_t bytes = memory.pages(m.words * sizeof(PeerCell));
    const auto address_of = [](void *p) { return reinterpret_cast<uintptr_t>(p); };
    const size_t offset = address_of(cells_of(m, m.own_peer)) - address_of(m.shadow);
    const auto [from, to] = memory.span(allocation);
    discard_file(m.fd, header_bytes() + to - from + offset, bytes);
    own.process = getpid(), own.host_waited_until = 0, own.num_launches = 0, own.nonce = own_nonce();
    return true;
}

// Begins a launch: returns whether it shares memory with other processes.
bool Detector::begin_peers() {
    const Operation *const operation = current_operation();
    if (!has_shared_memory || !checks(racecheck) || !operation) return false;
    const uint32_t first_block = operation->first_block, num_blocks = uint32_t(blocks_of(*launch));
    if (first_block + num_blocks >= 1u << log_peer_threads >> 10) return false;
    bool is_any_shared = false;
    own_nonce();
    num_timed_out_waits = 0;
    peers_before.join(peers_next);
    for (Allocation &allocation : memory.allocations) {
        if (!allocation.is_live || !allocation.shared || !choose_cells(allocation)) continue;
        is_any_shared = true, allocation.usable_in = 0;
        SharedMemory &m = *allocation.shared;
        PeerState &own = own_state(m);
        own.rank = world ? world_rank : -1;
        PeerState::Launch &entry = own.launches[own.num_launches % PeerState::max_launches];
        entry = {now, first_block, num_blocks, current_device(), launch->grid, launch->block, ""};
        Dl_info info;
        const bool is_known = find_symbol(reinterpret_cast<void *>(launch->thread), info);
        snprintf(entry.image, sizeof entry.image, "%s", is_known ? info.dli_fname : "");
        own.num_launches++;
        for (uint32_t peer = 0; peer < num_peers; peer++) {
            const PeerState &state = m.shadow->peers[peer];
            const bool has_ended = state.nonce && peer != m.own_peer && is_ended(state.process);
            m.ordered_until[peer] = has_ended ? ~0u : state.host_waited_until.load();
        }
    }
    return is_any_shared;
}
void record_host_wait(uint32_t until) {
    if (!has_shared_memory) return;
    for (const Allocation &allocation : memory.allocations)
        if (allocation.is_live && allocation.shared && allocation.shared->shadow)
            if (PeerState &own = own_state(*allocation.shared); own.nonce == own_nonce())
                own.host_waited_until = std::max(until, own.host_waited_until.load());
}

// Accesses

static void set_access(PeerAccess &to, const PeerAccess &access) {
    to.location = access.location, to.bytes = access.bytes;
    uint64_t thread_and_time;
    memcpy(&thread_and_time, &access, sizeof thread_and_time);
    __atomic_store_n(reinterpret_cast<uint64_t *>(&to), thread_and_time, __ATOMIC_RELEASE);
}
static PeerAccess load_access(const PeerAccess &from) {
    PeerAccess access = {};
    const uint64_t thread_and_time = __atomic_load_n(reinterpret_cast<const uint64_t *>(&from), __ATOMIC_ACQUIRE);
    memcpy(&access, &thread_and_time, sizeof thread_and_time);
    access.location = from.location, access.bytes = from.bytes;
    return access;
}
void Detector::access_peers(const Allocation &allocation, uintptr_t a, unsigned n, bool write, uint32_t location) {
    const SharedMemory &m = *allocation.shared;
    const bool is_asynchronous = location & async_proxy_bit || !(~location & (line_bit | async_bit));
    if (!m.shadow || is_asynchronous || (!write && location & modify_bit) || self >> log_peer_threads) return;
    const uintptr_t end = a + n;
    const auto bytes_at = [=](uintptr_t word) {
        uint32_t mask = 0;
        for (uintptr_t byte = 0; byte < 4; byte++)
            if (word + byte >= a && word + byte < end) mask |= 1u << byte;
        return mask;
    };
    PeerCell *const own = cells_of(m, m.own_peer);
    for (uintptr_t word = a / 4 * 4; word < end; word += 4) {
        PeerCell &cell = own[shared_word_of(allocation, word)];
        const bool replaces_read = cell.read.thread == self || cell.read.time < launch_start;
        set_access(write ? cell.write : replaces_read ? cell.read : cell.second_read,
            {self, now, location, bytes_at(word)});
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);               // so that one of two concurrent accesses sees the other
    for (uint32_t peer = 0; peer < num_peers; peer++) {
        if (peer == m.own_peer || !m.shadow->peers[peer].nonce) continue;
        const PeerCell *const cells_of_peer = cells_of(m, peer);
        for (uintptr_t word = a / 4 * 4; word < end; word += 4) {
            const PeerCell &cell = cells_of_peer[shared_word_of(allocation, word)];
            check_peer(allocation, peer, cell.write, "written", word, bytes_at(word), write, location);
            if (!write) continue;
            check_peer(allocation, peer, cell.read, "read", word, bytes_at(word), write, location);
            check_peer(allocation, peer, cell.second_read, "read", word, bytes_at(word), write, location);
        }
    }
}
static std::string name_of_process(int rank, int process) {
    return rank < 0 ? "process " + std::to_string(process) : "rank " + std::to_string(rank);
}
void Detector::check_peer(const Allocation &allocation, uint32_t peer, const PeerAccess &stored, const char *kind,
    uintptr_t word, uint32_t bytes, bool write, uint32_t location) {
    if (!stored.time || !(stored.bytes & bytes)) return;
    const PeerAccess earlier = load_access(stored);
    const SharedMemory &m = *allocation.shared;
    const PeerState &state = m.shadow->peers[peer];
    if (earlier.time < m.ordered_until[peer]) return;
    const PeerState::Launch *const other = state.launch_of(earlier);
    const bool is_other_device = !other || other->device != current_device();
    const bool is_device_scope = is_of_device_scope({0, 0, earlier.location}) || is_of_device_scope({0, 0, location});
    const bool are_both_atomic = earlier.location & location & atomic_bit;
    const bool has_block_scope = (earlier.location | location) & block_scope_bit;
    if (are_both_atomic && !has_block_scope && !(is_device_scope && is_other_device)) return;
    const bool may_be_observed = earlier.location & atomic_bit && !are_both_atomic && kind[0] == 'w';
    const Flag *const flag = may_be_observed ? flag_at(word) : nullptr;
    if (flag && flag->version) return;                     // the current process has observed the atomic store
    const uint32_t thread = number_of(state.nonce) << log_peer_threads | earlier.thread;
    const auto includes = [=](const VectorClock &clock) { return clock.includes(thread, earlier.time); };
    const ThreadView *const my_view = any_acquired ? &views[self % max_threads] : nullptr;
    if (includes(peers_before) || (my_view && (includes(my_view->acquired) || includes(block_view.acquired)))) return;
    const bool is_not_acquired = my_view && std::any_of(my_view->loaded, my_view->loaded + scope_levels, includes);
    const bool is_scope_too_narrow = my_view && (includes(my_view->any_scope) || includes(block_view.any_scope));
    const ElementName element = element_name(word, 0, &allocation);
    const std::string own = name_of_process(world ? world_rank : -1, getpid()),
                      owner = name_of_process(state.rank, state.process);
    const char *const later_kind = !write ? "read" : location & atomic_bit ? "changed atomically" : "written";
    const auto report = [&](Code code, Fields fields) { report_peer_race(code, fields, state, earlier, location); };
    report(are_both_atomic ? has_block_scope ? Code::atomic_of_block : Code::atomic_of_device
           : is_not_acquired     ? Code::flag_not_acquired
           : is_scope_too_narrow ? is_other_device ? Code::scope_of_device : Code::fence_of_block
                                 : Code::race_of_processes,
        {element.array(), element.index(), {"before", kind}, {"now", later_kind}, {"barrier", barrier_line},
            {"process", own.c_str()}, {"process_before", owner.c_str()}});
}
// Returns the base address of a library that this process has loaded, too; 0: it has not.
static uintptr_t base_of_image(const char *path) {
    uintptr_t base = 0;
#ifdef GRIDSTRIDE_ELF
    visit_modules([&base, path](const dl_phdr_info &library) {
        if (library.dlpi_name && !strcmp(library.dlpi_name, path)) base = library.dlpi_addr;
    });
#endif
    return base;
}
void Detector::report_peer_race(
    Code code, Fields fields, const PeerState &state, const PeerAccess &earlier, uint32_t location) {
    finish_pending_writes();
    const Access current = {self, now, location};
    if (is_allowed(code, current)) return;
    if (!claim_finding(code, fields)) end_launch();
    describe(current_finding, current, nullptr, nullptr);
    current_finding.has_other = 1;
    const PeerState::Launch *const l = state.launch_of(earlier);
    if (l) set_thread(l->grid, l->block, int(earlier.thread % max_threads),
        earlier.thread / max_threads - 1 - l->first_block, current_finding.other);
    current_finding.other.device = l && device_count() > 1 ? l->device : -1;
    const uintptr_t base = l ? base_of_image(l->image) : 0;
    if (base || line_of(earlier.location)) set_line({0, 0, earlier.location}, current_finding.other, base);
    end_launch();
}

// Flags

static SharedMemory *shared_memory_at(uintptr_t a) {
    const Allocation *const allocation = memory.at(a);
    return allocation && allocation->shared && allocation->shared->shadow ? allocation->shared : nullptr;
}
// Waits, but not for long, until another process has loaded the value that the current store or atomic operation
// replaces. Otherwise a writer that does not wait for its readers could end before they load anything, and no race
// would be found.
void Detector::await_peers(const void *address) {
    constexpr unsigned max_microseconds = 5000, max_timed_out_waits = 20;
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    const SharedMemory *const m = shared_memory_at(a);
    if (!m || num_timed_out_waits >= max_timed_out_waits) return;
    const FlagRecord &record = records_of(*m)[shared_word_of(*memory.at(a), a)];
    const auto is_observed = [&] {
        const bool is_unchanged = __atomic_load_n(reinterpret_cast<const uint32_t *>(a / 4 * 4), __ATOMIC_RELAXED) ==
            record.value_before;                           // as after the atomicAdd of 0 of a thread that polls
        return record.writer != m->own_peer || record.observed == record.version || is_unchanged;
    };
    for (unsigned waited = 0; waited < max_microseconds && !is_observed(); waited += 50) usleep(50);
    num_timed_out_waits += !is_observed();
}
using Words = std::vector<uint32_t>;
// A clock as the number of its processes, and per process its nonce, the number of its words, and the words
static void write_clock(const VectorClock &clock, Words &words) {
    const size_t count_at = words.size();
    words.push_back(0);
    clock.visit_processes([&](uint32_t number, const VectorClock &threads) {
        const uint64_t nonce = number < numbered_processes.size() ? numbered_processes[number] : 0;
        if (!nonce) return;
        words[count_at]++;
        words.push_back(uint32_t(nonce)), words.push_back(uint32_t(nonce >> 32));
        threads.write(words);
    });
}
static VectorClock read_clock(const uint32_t *&words) {
    VectorClock clock;
    for (uint32_t count = *words++; count; count--) {
        const uint64_t nonce = words[0] | uint64_t(words[1]) << 32;
        words += 2;
        clock.join(VectorClock::of_process(number_of(nonce), VectorClock::read(words)));
    }
    return clock;
}
void Detector::import_flag(uintptr_t a) {
    const SharedMemory *const m = shared_memory_at(a);
    if (!m) return;
    FlagRecord &record = records_of(*m)[shared_word_of(*memory.at(a), a)];
    const auto known = flags.find(a / 4);
    const uint32_t version = known == flags.end() ? 0 : known->second.version;
    if (record.version == version) return;
    if (record.writer != m->own_peer) record.observed = record.version.load();
    Flag &flag = flags[a / 4];
    flag = {};
    flag.version = record.version, flag.thread = ~0u, flag.time = now;
    if (!record.words) return;
    Words words(record.words);
    if (!read_file(m->fd, words.data(), words.size() * 4, record.offset)) return;
    const uint32_t *p = words.data();
    flag.is_fenced = *p++;
    const VectorClock of_device = read_clock(p);
    if (int(record.device) == current_device()) flag.of_device(device) = of_device;
    flag.system = read_clock(p), flag.any_scope = read_clock(p);
}
void Detector::export_flag(uintptr_t a) {
    SharedMemory *const m = shared_memory_at(a);
    if (!m) return;
    FlagRecord &record = records_of(*m)[shared_word_of(*memory.at(a), a)];
    Flag &flag = flags[a / 4];
    flag.version = ++record.version, flag.time = now, flag.thread = self;
    record.value_before = *reinterpret_cast<const uint32_t *>(a / 4 * 4);
    record.words = 0, record.writer = m->own_peer, record.device = uint32_t(current_device());
    if (!flag.any_scope && !flag.system && !flag.of_device(device)) return;
    // The accesses of earlier launches, which a clock of this launch does not contain
    VectorClock before = VectorClock::of_process(0, VectorClock::of_all(ordered_until()));
    before.join(peers_before);
    Words words = {flag.is_fenced};
    for (VectorClock clock : {flag.of_device(device), flag.system, flag.any_scope}) {
        if (clock) clock.join(before);
        write_clock(clock, words);
    }
    if (words.size() > record.capacity) {
        record.capacity = uint32_t(words.size()) * 2;
        record.offset = m->shadow->end_of_records.fetch_add(uint64_t(record.capacity) * 4);
    }
    if (write_file(m->fd, words.data(), words.size() * 4, record.offset)) record.words = uint32_t(words.size());
}
}
