// Runs the lessons in Pyodide, and lists the cells that fail, with the reasons: recorded.json.
//
//     node run_lessons.mjs [NAME ...]       after build.py; needs a Node.js with JSPI (24: --experimental-wasm-jspi)
//
// A cell fails if it raises an error, or runs for longer than a minute; the cell of an exercise also if its solution
// does. Cells that need what it would have defined fail, too. The file says of each such cell what the browser lacks. An
// error that no reason of run_lesson.py explains is a fault: the lesson's entry remains as it was, and the exit status
// is 1.
import fs from 'node:fs'
import {createRequire} from 'node:module'
import {fileURLToPath} from 'node:url'

const require = createRequire(import.meta.url)
const here = fileURLToPath(new URL('.', import.meta.url)), repository = fileURLToPath(new URL('../..', import.meta.url))
const lite = process.env.GRIDSTRIDE_LITE ?? fileURLToPath(new URL('../_build/lite', import.meta.url))
const {loadPyodide} = require(`${lite}/pyodide/pyodide.js`)
const read = path => fs.readFileSync(path, 'utf8')
const settings = JSON.parse(read(`${here}/lite.json`)), file = `${here}/recorded.json`
const names = process.argv.length > 2 ? process.argv.slice(2) : settings.lessons
const PACKAGES = ['numpy', 'gridstride', 'matplotlib', 'ipython', 'pygments']

globalThis.self ??= globalThis
globalThis.gridstrideCuda = `${lite}/cuda/cuda.js`

async function runLesson(name) {
    const python = await loadPyodide({indexURL: `${lite}/pyodide/`, packages: PACKAGES, stdout() {}, stderr() {}})
    python.FS.mkdirTree('/repository')
    python.FS.mount(python.FS.filesystems.NODEFS, {root: repository}, '/repository')
    python.FS.mkdirTree('/drive')
    for (const other of settings.lessons)
        python.FS.writeFile(`/drive/${other}.ipynb`, read(`${lite}/files/${other}.ipynb`))
    python.FS.chdir('/drive')
    python.globals.set('name', name)
    python.globals.set('cpu_seconds', () => { const {user, system} = process.cpuUsage(); return (user + system)/1e6 })
    python.globals.set('report', text => fs.writeSync(1, `${text}\n`))
    return JSON.parse(await python.runPythonAsync(read(`${here}/run_lesson.py`)))
}
function write(name, failed) {
    const recorded = JSON.parse(read(file))
    recorded[name] = failed
    if (!Object.keys(failed).length) delete recorded[name]
    const sorted = Object.fromEntries(Object.entries(recorded).sort(([a], [b]) => a < b ? -1 : 1))
    fs.writeFileSync(file, `${JSON.stringify(sorted, null, 1)}\n`)
}
let faulty = 0
for (const name of names) {
    const failed = await runLesson(name)
    if (Object.values(failed).includes(null)) faulty++
    else write(name, failed)
}
process.exit(faulty ? 1 : 0)
