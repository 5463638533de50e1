// The kernel calls this instead of Pyodide's own script: it does the same, and runs `imports.py` before it is ready. At
// that time the folder of the notebooks is not mounted yet. Later each import searches it, and waits for the page.
self.loadPyodide = async options => {
    importScripts(`${options.indexURL}pyodide.js`)
    self.gridstrideCuda = new URL('../cuda/cuda.js', new URL(options.indexURL, location.href)).href
    const python = await self.loadPyodide(options)
    python.FS.mkdirTree('/drive')
    python.FS.chdir('/drive')
    const imports = await fetch(`${options.indexURL}imports.py`)
    python.runPython(await imports.text())
    return python
}
