// Runs programs of the playground in Python: CUDA C with a `main`, or a cell of Python.
const say = text => postMessage({status: text})
self.gridstrideCuda = new URL('../cuda/cuda.js', location.href).href

const PYTHON = new URL('../pyodide/pyodide.asm.wasm', location.href)

// On the first visit the compiler loads at the same time; later it may not be needed, because modules are kept
// (cuda/store.js), and it would take the processor from Python.
async function load() {
    say('Loading Python …')
    if (!await self.caches?.match(PYTHON).catch(() => null)) loadCompiler()
    importScripts('../pyodide/pyodide.js')
    const indexURL = new URL('../pyodide/', location.href).href
    const python = await loadPyodide({indexURL, packages: ['numpy', 'gridstride']})
    await python.runPythonAsync('from in_browser import playground')
    return python
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
        postMessage(JSON.parse(await python.runPythonAsync('playground.run(program)')))
    } catch (error) {
        loaded = null
        postMessage({error: `The program cannot run here: ${error.message}`})
    }
    isRunning = false
}
