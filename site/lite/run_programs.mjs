// Runs the wrong and right programs of tests/cuda in Pyodide and on the native emulator, and compares what they print
// and the findings: programs.json.
//
//     node run_programs.mjs [PART OF A NAME ...]     after build.py; needs a Node.js with JSPI, like run_lessons.mjs
//
// The file has an entry per program: "as natively" if all fields agree, byte for byte except for addresses, or what
// differs, natively and here, and why. A difference without a reason in `REASONS` is a fault: the exit status is 1. If
// only some of the programs are run, the entries of the others remain.
import {execFileSync} from 'node:child_process'
import fs from 'node:fs'
import {createRequire} from 'node:module'
import {fileURLToPath} from 'node:url'

const require = createRequire(import.meta.url)
const path = name => fileURLToPath(new URL(name, import.meta.url))
const lite = process.env.GRIDSTRIDE_LITE ?? path('../_build/lite')
const file = path('programs.json'), folder = path('../../tests/cuda'), chosen = process.argv.slice(2)
const SAME = 'as natively', FIELDS = ['code', 'line', 'other', 'message', 'printed']
const REASONS = {
    'wrong/27_bit_fields': 'Clang reads and writes the word of a bit field, where GCC only writes its 16 bits.',
    'wrong/82_wild_address': 'Addresses of WebAssembly have 32 bits: the byte offset 2^42 becomes 0.',
}

function compare(name, native, here) {
    const text = value => typeof value == 'string' ? value.replace(/0x[0-9a-f]+/g, '0x...') : value ?? ''
    const differs = FIELDS.filter(field => text(native[field]) !== text(here[field]))
    const of = result => Object.fromEntries(differs.map(field => [field, text(result[field])]))
    return differs.length ? {reason: REASONS[name] ?? null, native: of(native), browser: of(here)} : SAME
}
function programs() {
    const names = ['wrong', 'right'].flatMap(kind => fs.readdirSync(`${folder}/${kind}`).sort()
        .filter(name => name.endsWith('.cu')).map(name => `${kind}/${name.slice(0, -3)}`))
    return chosen.length ? names.filter(name => chosen.some(part => name.includes(part))) : names
}
function runNatively(names) {
    const paths = names.map(name => `${folder}/${name}.cu`), options = {encoding: 'utf8', maxBuffer: 1 << 28}
    const output = execFileSync('python', [path('native_findings.py'), ...paths], options)
    return output.trim().split('\n').map(line => JSON.parse(line))
}
function write(name, result) {
    const all = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {}
    const sorted = Object.entries({...all, [name]: result}).sort(([a], [b]) => a < b ? -1 : 1)
    fs.writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 1)}\n`)
}

globalThis.self ??= globalThis
globalThis.gridstrideCuda = `${lite}/cuda/cuda.js`
const names = programs(), natively = runNatively(names)
const {loadPyodide} = require(`${lite}/pyodide/pyodide.js`)
const python = await loadPyodide({indexURL: `${lite}/pyodide/`, packages: ['numpy', 'gridstride']})
await python.runPythonAsync('import utils\nfrom in_browser import playground')
let faults = 0
for (const [i, name] of names.entries()) {
    python.globals.set('program', fs.readFileSync(`${folder}/${name}.cu`, 'utf8'))
    const result = compare(name, natively[i], JSON.parse(await python.runPythonAsync('playground.run(program)')))
    write(name, result)
    if (result != SAME && !result.reason) faults++
    console.log(name, result == SAME ? SAME : JSON.stringify(result))
}
process.exit(faults ? 1 : 0)
