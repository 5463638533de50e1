// What the kernel calls in place of Pyodide's own script: the same, and `imports.py` is run before it is ready. At that
// time the folder of the notebooks is not there yet. Later each import looks into it, and waits for an answer of the page.
self.loadPyodide = async options => {
    importScripts(`${options.indexURL}pyodide.js`)
    const python = await self.loadPyodide(options)
    python.FS.mkdirTree('/drive')
    python.FS.chdir('/drive')
    const imports = await fetch(`${options.indexURL}imports.py`)
    python.runPython(await imports.text())
    return python
}
