// Runs programs of the playground in Python: CUDA C with a `main`, or a cell of Python.
const say = text => postMessage({status: text})
self.gridstrideCuda = new URL('../cuda/cuda.js', location.href).href

const PYTHON = new URL('../pyodide/pyodide.asm.wasm', location.href)

// On the first visit the compiler loads at the same time; later it may not be needed, because modules are cached
// (cuda/store.js), and it would compete with Python for the CPU.
async function load() {
    say('Loading Python …')
    if (!self.WebAssembly) throw new Error('WebAssembly is not defined')
    if (!await self.caches?.match(PYTHON).catch(() => null)) loadCompiler()
    importScripts('../pyodide/pyodide.js')
    const indexURL = new URL('../pyodide/', location.href).href
    const python = await Promise.race([loadPyodide({indexURL, packages: ['numpy', 'gridstride']}), failure()])
    await python.runPythonAsync('from in_browser import playground')
    return python
}
// Rejects if Pyodide's module cannot be loaded: Pyodide itself then only prints a warning, and never resolves.
function failure() {
    const {warn} = console
    return new Promise((_, reject) => {
        console.warn = (...words) => { warn(...words), words[0] instanceof Error && reject(words[0]) }
    })
}
// What to do about an error
const REMEDIES = [
    [/WebAssembly is not defined/, 'This browser has no WebAssembly, or it is turned off: use Chrome or Edge from '
        + 'version 137, or Firefox from 153.'],
    [/memory/i, 'Close other tabs, which frees memory, and run the program again.'],
    [/fetch|load|network/i, 'Check the connection, and run the program again. An extension of the browser that blocks '
        + 'content must allow this site.'],
    [/(?:)/, 'Reload the page, and run the program again.'],
]
function describe(message) {
    const [, remedy] = REMEDIES.find(([pattern]) => pattern.test(message))
    return {error: `The program cannot run here: ${message}\n${remedy}`}
}
// A program that needs the compiler reports the error if this fails.
async function loadCompiler() {
    if (!HAS_COMPILER) return
    const {isSupported, prepare} = await import(self.gridstrideCuda)
    const show = (done, all) => say(`Loading the compiler: ${Math.round(done / 1e6)} of ${Math.round(all / 1e6)} MB`)
    if (isSupported()) await prepare(show).catch(() => {})
    say(isRunning ? 'Running …' : '')
}
let loaded = null, isRunning = false
// Runs a program; null: only loads what programs need.
self.onmessage = async ({data}) => {
    try {
        loaded ??= load()
        const python = await loaded
        if (data === null) {
            say('')
            return setTimeout(() => { if (!isRunning) loadCompiler() }, 1000)
        }
        isRunning = true
        say('Running …')
        python.globals.set('program', data)
        const found = JSON.parse(await python.runPythonAsync('playground.run(program)'))
        postMessage(/^JsException: /.test(found.message) ? describe(found.message) : found)
    } catch (error) {
        loaded = null
        postMessage(describe(error.message))
    }
    isRunning = false
}
