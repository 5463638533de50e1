// node compile.js FOLDER ARCHIVE: load Pyodide and all packages from FOLDER, import what lessons (its `imports.py`) and
// the playground import, and write the bytecode of these modules to the zip file ARCHIVE, under their sources' names.
const fs = require('fs'), path = require('path'), [folder, archive] = process.argv.slice(2)
const read = name => fs.readFileSync(path.join(folder, name), 'utf-8')
const COMPILE = `
import importlib.util, io, sys, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
def compiled(module):
    "(name of the source, bytecode that Python loads without checking the source); None where there is no source"
    name, loader = getattr(module, '__file__', None) or '', getattr(module, '__loader__', None)
    if not name.endswith('.py') or not hasattr(loader, 'get_data'): return None
    source = loader.get_data(name)
    code = compile(source, name, 'exec', dont_inherit=True)
    return name, bytes(_code_to_hash_pyc(code, importlib.util.source_hash(source), False))
archive = io.BytesIO()
with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as z:
    for name, code in dict(filter(None, map(compiled, [*sys.modules.values()]))).items(): z.writestr(name, code)
archive.getvalue()`

async function main() {
    const {loadPyodide} = require(path.resolve(folder, 'pyodide.js'))
    const packages = Object.keys(JSON.parse(read('pyodide-lock.json')).packages)
    const python = await loadPyodide({indexURL: path.resolve(folder) + path.sep, packages})
    python.runPython(read('imports.py'))
    python.runPython('from in_browser import playground')
    fs.writeFileSync(archive, python.runPython(COMPILE).toJs())
}
main().catch(e => { process.stderr.write(`${e.message}\n`); process.exit(1) })
