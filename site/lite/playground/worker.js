// Runs programs of the playground in Python: CUDA C with a `main`, or a cell of Python.
const say = text => postMessage({status: text})
self.gridstrideCuda = new URL('../cuda/cuda.js', location.href).href

async function load() {
    say('Loading Python …')
    importScripts('../pyodide/pyodide.js')
    const indexURL = new URL('../pyodide/', location.href).href
    const python = await loadPyodide({indexURL, packages: ['numpy', 'gridstride']})
    await python.runPythonAsync('from in_browser import playground')
    if (HAS_COMPILER) await loadCompiler()
    return python
}
async function loadCompiler() {
    const {isSupported, prepare} = await import(self.gridstrideCuda)
    const show = (done, all) => say(`Loading the compiler: ${Math.round(done / 1e6)} of ${Math.round(all / 1e6)} MB`)
    if (isSupported()) await prepare(show)
}
let loaded = null
self.onmessage = async ({data}) => {
    try {
        loaded ??= load()
        const python = await loaded
        say('Running …')
        python.globals.set('program', data)
        postMessage(JSON.parse(await python.runPythonAsync('playground.run(program)')))
    } catch (error) {
        loaded = null
        postMessage({error: `The program cannot run here: ${error.message}`})
    }
}
