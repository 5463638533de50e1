// node build.mjs TOOLCHAIN CPP OUT [UNIT ...]: compiles the emulator's runtime (CPP/runtime) by the Clang in the folder
// TOOLCHAIN, and writes to OUT what cuda.js reads: runtime.o, the marks of the user's code, the
// headers, also precompiled.
// With units, only these are compiled again.
import fs from 'node:fs'
import path from 'node:path'
import {pathToFileURL} from 'node:url'
import {PRECOMPILED, RUNTIME_UNITS, kernelFlags, listOfHeaders, runtimeFlags} from './compile.js'

export function readTree(folder) {
    const res = {}
    for (const entry of fs.readdirSync(folder, {withFileTypes: true})) {
        const file = path.join(folder, entry.name)
        if (entry.name != '__pycache__') res[entry.name] = entry.isDirectory() ? readTree(file) : fs.readFileSync(file)
    }
    return res
}
const HERE = path.dirname(new URL(import.meta.url).pathname)
// The sources; a file of `platform` replaces the one of the runtime that has the same name.
export function sourceTree(cpp) {
    const [platform, runtime, include] = [path.join(HERE, 'platform'), path.join(cpp, 'runtime'),
        path.join(cpp, 'include')].map(readTree)
    const replaced = Object.keys(runtime).filter(name => name.endsWith('.cpp') && name in platform)
    for (const name of replaced) runtime[name] = platform[name]
    return {platform, cpp: {include, runtime}}
}

// Runs a tool; its messages are the result's `log`. Throws its error with the log.
export async function runTool(run, args, files) {
    let log = ''
    const stderr = bytes => { if (bytes) log += new TextDecoder().decode(bytes) }
    try {
        return {files: await run(args, {...files}, {stderr, fetchProgress: () => {}}), log}
    } catch (error) {
        throw new Error(`${args.join(' ')}\n${log || error.stack}`)
    }
}

const withoutLogs = {stderr: () => {}, stdout: () => {}, fetchProgress: () => {}}
const write = (out, name, bytes) => fs.writeFileSync(path.join(out, name), bytes)

async function compileUnit(commands, unit, cpp, out) {
    const start = Date.now()
    const {files, log} = await runTool(commands['clang++'], runtimeFlags(unit), sourceTree(cpp))
    write(out, `${path.basename(unit)}.o`, files['unit.o'])
    console.log(`${unit}: ${((Date.now() - start) / 1000).toFixed(1)} s${log && `\n${log}`}`)
}
async function linkRuntime(commands, out) {
    const names = RUNTIME_UNITS.map(unit => `${path.basename(unit)}.o`).filter(name => !name.endsWith('user_code.o'))
    const objects = Object.fromEntries(names.map(name => [name, fs.readFileSync(path.join(out, name))]))
    const {files} = await runTool(commands['wasm-ld'], ['-m', 'wasm32', '-r', ...names, '-o', 'runtime.o'], objects)
    write(out, 'runtime.o', files['runtime.o'])
}
async function precompile(commands, headers, name, out) {
    const args = [...kernelFlags(true, ['-DGRIDSTRIDE_WITHOUT_AT']), '-x', 'c++-header', 'all.h', '-o', `${name}.pch`]
    const {files} = await runTool(commands['clang++'], args, {...headers, ...listOfHeaders(name)})
    write(out, `${name}.pch`, files[`${name}.pch`])
}
function asText(tree) {
    if (tree instanceof Uint8Array) return tree.toString()
    return Object.fromEntries(Object.entries(tree).map(([name, item]) => [name, asText(item)]))
}
async function main([toolchain, cpp, out, ...only]) {
    const {commands} = await import(pathToFileURL(path.join(toolchain, 'bundle.js')))
    await commands['clang++'](['--version'], {}, withoutLogs)
    fs.mkdirSync(out, {recursive: true})
    const units = only.length ? RUNTIME_UNITS.filter(unit => only.includes(unit)) : RUNTIME_UNITS
    for (const unit of units) await compileUnit(commands, unit, cpp, out)
    await linkRuntime(commands, out)
    const {platform, cpp: {include}} = asText(sourceTree(cpp))
    const headers = {platform, cpp: {include}}
    write(out, 'headers.json', JSON.stringify(headers))
    for (const name of Object.keys(PRECOMPILED)) await precompile(commands, headers, name, out)
}
if (process.argv[1] == new URL(import.meta.url).pathname) await main(process.argv.slice(2))
