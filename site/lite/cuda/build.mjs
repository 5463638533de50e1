// node build.mjs TOOLCHAIN CPP OUT [UNIT ...]: compiles the emulator's runtime (CPP/runtime) by the Clang in the folder
// TOOLCHAIN, and writes OUT/runtime.o, OUT/end_of_user_code.o and, of each unit, its object file.
import fs from 'node:fs'
import path from 'node:path'
import {pathToFileURL} from 'node:url'
import {RUNTIME_UNITS, runtimeFlags} from './compile.js'

export function readTree(folder) {
    const res = {}
    for (const entry of fs.readdirSync(folder, {withFileTypes: true})) {
        const file = path.join(folder, entry.name)
        if (entry.name != '__pycache__') res[entry.name] = entry.isDirectory() ? readTree(file) : fs.readFileSync(file)
    }
    return res
}
const HERE = path.dirname(new URL(import.meta.url).pathname)
export const sourceTree = cpp => ({platform: readTree(path.join(HERE, 'platform')),
    cpp: {runtime: readTree(path.join(cpp, 'runtime')), include: readTree(path.join(cpp, 'include'))}})

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

async function main([toolchain, cpp, out, ...only]) {
    const {commands} = await import(pathToFileURL(path.join(toolchain, 'bundle.js')))
    fs.mkdirSync(out, {recursive: true})
    const objects = {}
    for (const unit of RUNTIME_UNITS) {
        const file = path.join(out, `${path.basename(unit)}.o`)
        if (!only.length || only.includes(unit)) {
            const start = Date.now()
            const {files, log} = await runTool(commands['clang++'], runtimeFlags(unit), sourceTree(cpp))
            fs.writeFileSync(file, files['unit.o'])
            console.log(`${unit}: ${((Date.now() - start) / 1000).toFixed(1)} s${log && `\n${log}`}`)
        }
        objects[path.basename(file)] = fs.readFileSync(file)
    }
    const names = Object.keys(objects).filter(name => name != 'end_of_user_code.o')
    const {files} = await runTool(commands['wasm-ld'], ['-m', 'wasm32', '-r', ...names, '-o', 'runtime.o'], objects)
    fs.writeFileSync(path.join(out, 'runtime.o'), files['runtime.o'])
}
if (process.argv[1] == new URL(import.meta.url).pathname) await main(process.argv.slice(2))
