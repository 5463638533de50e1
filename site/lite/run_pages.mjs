// Runs the programs of the pages of messages in Pyodide, and compares what they end with: pages.json.
//
//     node run_pages.mjs [PART OF A NAME ...]     after build.py; needs a Node.js with JSPI, like run_lessons.mjs
//
// The file has an entry per program: "as natively" if a wrong program prints the message of its page, and a right one
// has no finding; otherwise what it ends with here. Pages link only programs of the first kind to the playground.
import {execFileSync} from 'node:child_process'
import fs from 'node:fs'
import {createRequire} from 'node:module'
import {fileURLToPath} from 'node:url'

const require = createRequire(import.meta.url)
const path = name => fileURLToPath(new URL(name, import.meta.url))
const lite = process.env.GRIDSTRIDE_LITE ?? path('../_build/lite')
const file = path('pages.json'), chosen = process.argv.slice(2)
const LIST = 'import json, findings_pages; print(json.dumps(findings_pages.programs()))'
const read = path => JSON.parse(fs.readFileSync(path, 'utf8'))
const recorded = fs.existsSync(file) ? read(file) : {}

function write() {
    const sorted = Object.entries(recorded).sort(([a], [b]) => a < b ? -1 : 1)
    fs.writeFileSync(file, `${JSON.stringify(Object.fromEntries(sorted), null, 1)}\n`)
}
// Without addresses and lines: tests/test_messages.py records the messages of kernels that are compiled in one module
const constant = text => text.replace(/0x[0-9a-f.]+/g, '0x').replace(/\d+ of them in use/g, '0 of them in use')
    .replace(/\bline \d+/g, 'line')
// What a program ends with: the first line of its message, or the warnings that it prints
const ending = ({message, printed}) => (message ?? printed).trim().split('\n')[0].slice(0, 200)
function isAsNatively({message, printed}, expected) {
    return expected ? constant(`${message}\n${printed}`).includes(constant(expected)) : !message
}

globalThis.self ??= globalThis
globalThis.gridstrideCuda = `${lite}/cuda/cuda.js`
const programs = JSON.parse(execFileSync('python', ['-c', LIST], {cwd: path('..'), encoding: 'utf8', maxBuffer: 1 << 28}))
const {loadPyodide} = require(`${lite}/pyodide/pyodide.js`)
const python = await loadPyodide({indexURL: `${lite}/pyodide/`, packages: ['numpy', 'gridstride']})
await python.runPythonAsync('import numpy, torch, utils\nfrom in_browser import playground')
for (const {name, text, expected} of programs) {
    if (chosen.length && !chosen.some(part => name.includes(part))) continue
    python.globals.set('program', text)
    await python.runPythonAsync('numpy.random.seed(0)\ntorch.manual_seed(0)')
    const result = JSON.parse(await python.runPythonAsync('playground.run(program)'))
    recorded[name] = isAsNatively(result, expected) ? 'as natively' : ending(result) || 'no finding'
    write()
    console.log(name, recorded[name])
}
process.exit()
