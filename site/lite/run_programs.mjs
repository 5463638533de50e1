// Runs the programs of tests/cuda in Pyodide, and compares the findings with those of the native emulator, which each
// program states in its first line: programs.json.
//
//     node run_programs.mjs [PART OF A NAME ...]     after build.py; needs a Node.js with JSPI, like run_lessons.mjs
//
// The file has an entry per program: "as natively", or what was expected and what came instead. A part of all programs
// can be run; the entries of others remain.
import fs from 'node:fs'
import {createRequire} from 'node:module'
import {fileURLToPath} from 'node:url'

const require = createRequire(import.meta.url)
const path = name => fileURLToPath(new URL(name, import.meta.url))
const lite = process.env.GRIDSTRIDE_LITE ?? path('../_build/lite')
const file = path('programs.json'), folder = path('../../tests/cuda'), chosen = process.argv.slice(2)
const SAME = 'as natively'
// These are not stopped, as on a GPU; the warning is tested in tests/test_cpp_programs.py.
const WARNED = ['wrong/46_return_before_a_barrier', 'wrong/88_return_before_the_grid']

// Returns {kind, lines}, as the first line says; kind '' if nothing is found.
function expected(name, text) {
    const match = /^\/\/ expect: (\w+) line ([\d or]+)\n/.exec(text)
    if (name.startsWith('right/') || WARNED.includes(name) || !match) return {kind: '', lines: []}
    return {kind: match[1], lines: match[2].split(' or ').map(Number)}
}
function compare({kind, lines}, {code = '', line, message}) {
    const found = code.split(' ')[0]
    const agrees = found == kind && (!kind || lines.includes(line)) && (kind || !message)
    return agrees ? SAME : {expected: kind && `${kind} line ${lines.join(' or ')}`,
        found: code && `${code} line ${line}`, message: message?.slice(0, 300)}
}
function programs() {
    const names = ['wrong', 'right'].flatMap(kind => fs.readdirSync(`${folder}/${kind}`).sort()
        .filter(name => name.endsWith('.cu')).map(name => `${kind}/${name.slice(0, -3)}`))
    return chosen.length ? names.filter(name => chosen.some(part => name.includes(part))) : names
}
function write(name, result) {
    const all = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {}
    const sorted = Object.entries({...all, [name]: result}).sort(([a], [b]) => a < b ? -1 : 1)
    fs.writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 1)}\n`)
}

globalThis.self ??= globalThis
globalThis.gridstrideCuda = `${lite}/cuda/cuda.js`
const {loadPyodide} = require(`${lite}/pyodide/pyodide.js`)
const python = await loadPyodide({indexURL: `${lite}/pyodide/`, packages: ['numpy', 'gridstride']})
await python.runPythonAsync('import utils\nfrom in_browser import playground')
for (const name of programs()) {
    const text = fs.readFileSync(`${folder}/${name}.cu`, 'utf8')
    python.globals.set('program', text)
    const result = compare(expected(name, text), JSON.parse(await python.runPythonAsync('playground.run(program)')))
    write(name, result)
    console.log(name, result == SAME ? SAME : JSON.stringify(result))
}
process.exit(0)
