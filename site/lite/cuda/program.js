// Runs a module of compiled CUDA C, linked with the emulator's runtime (platform). Fibers and jumps of
// the runtime are stacks of WebAssembly that JavaScript Promise Integration suspends. Asyncify, the other way to suspend,
// rewrites each module, for which Binaryen took six seconds, and is another 15 MB to load.
import {rewrite} from './rewrite.js'

export const isSupported = () => 'Suspending' in WebAssembly
export const NOT_SUPPORTED = 'CUDA C needs a browser that can suspend stacks of WebAssembly (JavaScript Promise '
    + 'Integration): Chrome or Edge from version 137, or Firefox from 153.'

const SIGILL = 4, SIGBUS = 7, SIGFPE = 8, SIGSEGV = 11
const TRAPS = [
    [/divide by zero|division by zero|remainder by zero/i, SIGFPE, 0],
    [/unrepresentable|integer overflow/i, SIGFPE, 1],
    [/call stack|recursion/i, SIGBUS, 0],
    [/unreachable/i, SIGILL, 0],
    [/.*/, SIGSEGV, 0],
]
const TICKS = 1 << 20       // iterations of loops between two checks of the time limit
const ERRNO_BADF = 8, ERRNO_NOSYS = 52

export class Program {
    // `symbolize(words)`: runs addr2line with these arguments for this module, returns its output, or a promise;
    // `print(text)`, `warn(bytes of a finding)`, `ask(operation, words, n, address of the result)`, with addresses,
    // `retain(tensor)` and `release(tensor)`
    static async load(bytes, callbacks) {
        const program = new Program(callbacks)
        const {bytes: rewritten, offsetOf} = rewrite(bytes)
        program.offsetOf = offsetOf
        const {instance} = await WebAssembly.instantiate(rewritten, program.imports())
        program.exports = instance.exports
        program.stack = instance.exports.__stack_pointer
        program.runFiber = WebAssembly.promising(instance.exports.gridstride_run_fiber)
        program.runFunction = WebAssembly.promising(instance.exports.gridstride_run_guarded_function)
        program.describeTrap = WebAssembly.promising(instance.exports.gridstride_trapped)
        program.trapStack = instance.exports.malloc(1 << 16) + (1 << 16)
        program.refuel()
        await WebAssembly.promising(instance.exports._initialize)()
        return program
    }
    constructor(callbacks) {
        this.callbacks = callbacks
        this.waiting = new Map()        // fiber -> what resumes it
        this.guards = new Map()         // buffer of a jump -> what ends the guarded function
    }
    refuel() { this.exports.gridstride_fuel.value = TICKS }
    get memory() { return this.exports.memory.buffer }
    text(at, n) { return new TextDecoder().decode(new Uint8Array(this.memory, at, n)) }
    bytes(at, n) { return new Uint8Array(this.memory, at, Math.min(n, this.memory.byteLength - at)) }
    allocate(n) { return this.exports.malloc(n || 1) }
    release(at) { this.exports.free(at) }
    setPointer(at, value) { new DataView(this.memory).setUint32(at, value, true) }
    copyIn(bytes) {
        const at = this.exports.malloc(bytes.length || 1)
        new Uint8Array(this.memory, at, bytes.length).set(bytes)
        return at
    }

    // The stack pointer, and the address below which a stack overflows: that of host code traps there
    stackState() { return {sp: this.stack.value, end: this.exports.gridstride_stack_limit.value} }
    useStack({sp, end}) { this.stack.value = sp, this.exports.gridstride_stack_limit.value = end }

    switchFiber(from, to) {
        return new Promise(resume => {
            this.waiting.set(from, {resume, ...this.stackState()})
            const next = this.waiting.get(to)
            if (next) {
                this.waiting.delete(to)
                this.useStack(next)
                next.resume()
            } else queueMicrotask(() => this.startFiber(to))
        })
    }
    startFiber(fiber) {
        this.useStack({sp: this.exports.gridstride_stack_top(fiber), end: this.exports.gridstride_stack_end(fiber)})
        this.runFiber(fiber).catch(error => this.trap(error)).catch(error => this.fail?.(error))
    }
    completes(buffer, f, argument) {
        const state = this.stackState()
        return new Promise(resolve => {
            this.guards.set(buffer, done => { this.guards.delete(buffer), this.useStack(state), resolve(done) })
            queueMicrotask(() => this.runFunction(f, argument).then(() => this.guards.get(buffer)(1),
                error => this.trap(error)).catch(error => this.fail?.(error)))
        })
    }
    jump(buffer) {
        this.waiting.clear()
        this.guards.get(buffer)(0)
        return new Promise(() => {})    // what has jumped never continues
    }
    async trap(error) {
        const [, signal, overflows] = TRAPS.find(([pattern]) => pattern.test(error.message))
        const frames = this.framesOf(error)
        this.useStack({sp: this.trapStack, end: 0})
        const at = this.copyIn(new Uint8Array(Uint32Array.from(frames).buffer))
        const buffer = await this.describeTrap(signal, overflows, at, frames.length)   // may wait for addr2line
        if (!this.guards.has(buffer)) return this.fail?.(error)
        this.waiting.clear()
        this.guards.get(buffer)(0)
    }
    // The offsets of the user's calls on the stack, the innermost first
    framesOf(error) {
        const offsets = [...error.stack.matchAll(/wasm-function\[\d+\]:0x([0-9a-f]+)/g)].map(m => parseInt(m[1], 16))
        return offsets.map(at => this.offsetOf(at)).filter(at => at !== null).map(at => at + 1)
    }
    backtrace(at, size) {
        const limit = Error.stackTraceLimit
        Error.stackTraceLimit = 100
        const frames = this.framesOf(new Error()).slice(0, size)
        Error.stackTraceLimit = limit
        new Uint32Array(this.memory, at, frames.length).set(frames)
        return frames.length
    }
    symbolize(at, n, result) {
        const store = output => {
            this.setPointer(result, this.copyIn(new TextEncoder().encode(output + '\0')))
            return 1
        }
        const output = this.callbacks.symbolize(this.text(at, n).trim().split('\n'))
        return output instanceof Promise ? output.then(store) : store(output)
    }

    // The functions that the module exports to Python: {name, types, call, isKernel}, the last one of the source first
    exported() {
        const view = new DataView(this.memory), res = [], table = this.exports.__indirect_function_table
        for (let at = this.exports.gs_exports(); at; at = view.getUint32(at + 24, true)) res.push({
            name: this.string(view.getUint32(at, true)),
            call: table.get(view.getUint32(at + 4, true)),
            types: this.string(table.get(view.getUint32(at + 8, true))()),
            isKernel: view.getBigInt64(at + 16, true) != 0n,
        })
        return res
    }
    string(at) {
        const bytes = new Uint8Array(this.memory)
        return this.text(at, bytes.indexOf(0, at) - at)
    }
    // Sets the options of the next call; `options`: the bytes of `gridstride_options`, whose layout is that of Python;
    // `allowedFindings`: the lines for `gridstride_allow_findings`
    setOptions(options, swaps, allowedFindings) {
        const at = this.copyIn(options), lines = this.copyIn(new TextEncoder().encode(`${allowedFindings}\0`))
        this.exports.gridstride_set_options(at)
        this.exports.gridstride_limit_swaps(swaps)
        this.exports.gridstride_allow_findings(lines)
        this.exports.free(at)
        this.exports.free(lines)
    }
    // Calls an exported function. `words`: its n arguments (gridstride/torch/gridstride/bindings.h), already in the
    // memory of the module. Returns {code, result, message, argument}: addresses of words and of text.
    async call(f, words, n, {
        grid = [0, 0, 0], block = [0, 0, 0], shared = 0, cluster = [1, 1, 1], largeClusters = 0,
    } = {}) {
        const at = this.exports.malloc(136), view = () => new DataView(this.memory)
        const put = (offset, value) => view().setBigInt64(at + offset, BigInt(value), true)
        new Uint8Array(this.memory, at, 136).fill(0)
        view().setUint32(at, words, true)
        put(8, n)
        for (const [offset, sizes] of [[32, grid], [56, block], [88, cluster]])
            for (const axis of [0, 1, 2]) put(offset + 8 * axis, sizes[axis])
        put(80, shared)
        put(128, largeClusters)
        const code = await new Promise((resolve, reject) => {
            this.fail = reject
            WebAssembly.promising(f)(at).then(resolve, reject)
        })
        const field = offset => view().getUint32(at + offset, true)
        const message = field(116) && this.string(field(116))
        return {code: Number(code), result: field(112), message, argument: field(120)}
    }
    finding() {
        const at = this.exports.gridstride_finding()
        const [, , , , bytes] = new Int32Array(this.memory, this.exports.gridstride_abi(), 5)
        return new Uint8Array(this.memory.slice(at, at + bytes))
    }

    imports() {
        const suspending = f => new WebAssembly.Suspending(f)
        return {
            gridstride: {
                switch_fiber: suspending((from, to) => this.switchFiber(from, to)),
                completes: suspending((buffer, f, argument) => this.completes(buffer, f, argument)),
                jump: suspending(buffer => this.jump(buffer)),
                backtrace: (at, size) => this.backtrace(at, size),
                symbolize: suspending((at, n, result) => this.symbolize(at, n, result)),
                print: (at, n) => this.callbacks.print(this.text(at, n)),
                warn: (at, n) => this.callbacks.warn(new Uint8Array(this.memory.slice(at, at + n))),
                ask: (operation, words, n, result) => this.callbacks.ask(operation, words, n, result),
                retain: tensor => this.callbacks.retain?.(tensor),
                release: tensor => this.callbacks.release?.(tensor),
                refuel: () => this.refuel(),
            },
            wasi_snapshot_preview1: new Proxy(this.wasi(), {get: (calls, name) => calls[name] ?? (() => ERRNO_NOSYS)}),
        }
    }
    // The system calls of the C library that a program without files makes
    wasi() {
        const view = () => new DataView(this.memory)
        return {
            fd_write: (fd, vectors, n, result) => {
                let total = 0
                for (let i = 0; i < n; i++) {
                    const [at, size] = [0, 4].map(offset => view().getUint32(vectors + 8 * i + offset, true))
                    this.callbacks.print(this.text(at, size))
                    total += size
                }
                view().setUint32(result, total, true)
                return 0
            },
            clock_time_get: (id, precision, result) => {
                const milliseconds = id == 0 ? Date.now() : performance.now()
                view().setBigUint64(result, BigInt(Math.round(1e6 * milliseconds)), true)
                return 0
            },
            random_get: (at, n) => { crypto.getRandomValues(new Uint8Array(this.memory, at, n)); return 0 },
            environ_sizes_get: (count, size) => {
                for (const at of [count, size]) view().setUint32(at, 0, true)
                return 0
            },
            environ_get: () => 0,
            fd_fdstat_get: (fd, result) => {
                if (fd > 2) return ERRNO_BADF
                new Uint8Array(this.memory, result, 24).fill(0)
                view().setUint8(result, 2)      // a character device
                return 0
            },
            fd_prestat_get: () => ERRNO_BADF,
            proc_exit: status => { throw new Error(`exit(${status})`) },
        }
    }
}
