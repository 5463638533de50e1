// CUDA C in a browser: compiles modules with Clang, and loads them. All files are next to this one.
import {kernelFlags, linkArguments, listOfHeaders} from './compile.js'
import {Program, isSupported, NOT_SUPPORTED} from './program.js'
import {withoutNames} from './rewrite.js'
import {find, keep, keyOf, noteOf} from './store.js'

const here = name => new URL(name, import.meta.url)
const isNode = globalThis.process?.release?.name == 'node'
async function read(name) {
    if (isNode) return new Uint8Array(await (await import('node:fs/promises')).readFile(here(name)))
    const response = await fetch(here(name))
    if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`)
    return new Uint8Array(await response.arrayBuffer())
}
const OBJECTS = ['runtime.o', 'begin_of_user_code.o', 'end_of_user_code.o']

// The tools, the headers as a tree, the runtime's object files, and precompiled headers; loaded once
let files = null, tools = null
async function load(progress) {
    const [{commands}, headers, ...objects] = await Promise.all([import('./bundle.js'), read('headers.json'),
        ...OBJECTS.map(read)])
    const quiet = {stderr: () => {}, stdout: () => {}, fetchProgress: e => progress?.(e.doneLength, e.totalLength)}
    await commands['clang++'](['--version'], {}, quiet)
    tools = commands
    return {commands, headers: JSON.parse(new TextDecoder().decode(headers)),
        objects: Object.fromEntries(OBJECTS.map((name, i) => [name, objects[i]])), precompiled: {}}
}
export function prepare(progress) {
    files ??= load(progress).catch(error => { files = null; throw error })
    return files
}
async function precompiled(name) {
    const {precompiled} = await files
    return precompiled[name] ??= await read(name).catch(() => null)
}

// Runs a tool; returns {status, log, files}.
function run(tool, args, tree) {
    let log = ''
    const stderr = bytes => { if (bytes) log += new TextDecoder().decode(bytes) }
    try {
        const res = tool(args, tree, {stderr, stdout: () => {}, synchronously: true})
        return {status: 0, log, files: res}
    } catch (error) {
        return {status: 1, log: log || `${error.message}\n${error.stack}`, files: {}}
    }
}

// Compiles with precompiled headers; returns null if Clang rejects them, or then cannot open another header, such as
// <map> ("Out of memory"). Without precompiled headers, a compilation takes seconds longer.
function withHeaders(clang, args, files, name, pch) {
    const all = {...files, ...listOfHeaders(name), [`${name}.pch`]: pch}
    const res = run(clang, ['-include-pch', `${name}.pch`, ...args], all)
    if (/cannot open file/.test(res.log)) return null
    if (!/PCH|AST file|precompiled/.test(res.log)) return res
    console.warn(`precompiled headers are rejected: ${res.log}`)
    return null
}

// Compiles `sources`, a JSON object {file name: text}: its `units` without `.cpp`. `headers`: the name of the
// precompiled headers with which each unit begins, '' for none. Returns {status, log, wasm}.
export async function compile(sources, units, isChecked, flags, headers) {
    const key = await keyOf(JSON.stringify([sources, [...units], isChecked, [...flags], headers]))
    const cached = await find('module', key)
    if (cached) return {status: 0, log: noteOf(cached), wasm: new Uint8Array(await cached.arrayBuffer())}
    const res = await compileUncached(sources, units, isChecked, flags, headers)
    if (!res.status) keep('module', key, res.wasm, res.log)
    return res
}
async function compileUncached(sources, units, isChecked, flags, headers) {
    const {commands, headers: tree, objects} = await prepare()
    const texts = JSON.parse(sources), compiled = {}
    const pch = isChecked && headers ? await precompiled(`${headers}.pch`) : null
    const folder = nest(texts)
    let logs = ''
    for (const unit of units) {
        const args = [...kernelFlags(isChecked, flags), '-c', `${unit}.cpp`, '-o', 'unit.o']
        const files = {...tree, ...folder}
        let res = pch && withHeaders(commands['clang++'], args, files, headers, pch)
        res ??= run(commands['clang++'], args, files)
        logs += res.log
        if (res.status) return {status: 1, log: logs}
        compiled[`${unit}.o`] = res.files['unit.o']
    }
    const linked = run(commands['wasm-ld'], linkArguments(units, 'module.wasm'), {...compiled, cpp: objects})
    return {status: linked.status, log: logs + linked.log, wasm: linked.files['module.wasm']}
}
// The tree of files in folders that paths with slashes name
export function nest(texts) {
    const res = {}
    for (const [path, text] of Object.entries(texts)) {
        const names = path.split('/'), file = names.pop()
        let folder = res
        for (const name of names) folder = folder[name] ??= {}
        folder[file] = text
    }
    return res
}

// Loads a module that `compile` returned. `callbacks`: print, warn, ask, retain, release (program.js).
export async function open(wasm, callbacks) {
    if (!isSupported()) throw new Error(NOT_SUPPORTED)
    return Program.load(wasm, {symbolize: await symbolizer(wasm), ...callbacks})
}
// Returns a function that runs addr2line for a module. Its result is a promise only if the tools are not loaded yet.
async function symbolizer(wasm) {
    const key = await keyOf(wasm), cached = await find('lines', key), lines = cached ? await cached.json() : {}
    const module = withoutNames(wasm)
    const run = words => {
        let output = ''
        const stdout = bytes => { if (bytes) output += new TextDecoder().decode(bytes) }
        const [program, ...more] = words
        tools[program](more, {'program.wasm': module}, {stdout, stderr: () => {}, synchronously: true})
        lines[words.join(' ')] = output
        keep('lines', key, JSON.stringify(lines))
        return output
    }
    return words => lines[words.join(' ')] ?? (tools ? run(words) : prepare().then(() => run(words)))
}
export {isSupported, NOT_SUPPORTED}
