// The playground: runs the program of the editor in a worker, marks the lines of a finding, and keeps the program in
// the fragment of the address, so that a link contains it.
import {EXAMPLES} from './examples.js'

const {createEditor} = await import('./EDITOR').catch(() => import('./plain.js'))

const byId = id => document.getElementById(id)
const [result, status, choice] = ['result', 'status', 'example'].map(byId)
const editor = createEditor(byId('editor'), () => byId('run').click())
// The worker is terminated if it reports nothing for this long. The time limit of a kernel is shorter.
const MAX_SECONDS = 180
let worker = null, onReply = null, timer = null

// The fragment: `#example=NAME`, or `#program=` and the text, compressed, in base64 for addresses
async function convert(bytes, stream) {
    return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer())
}
async function encode(text) {
    const bytes = await convert(new TextEncoder().encode(text), new CompressionStream('deflate-raw'))
    return btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '')
}
async function decode(text) {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'))
    const bytes = Uint8Array.from(binary, c => c.charCodeAt(0))
    return new TextDecoder().decode(await convert(bytes, new DecompressionStream('deflate-raw')))
}
async function readFragment() {
    const [name, value] = location.hash.slice(1).split(/=(.*)/s)
    if (name == 'program') return decode(value).catch(() => '// This link is incomplete, so its program cannot be read.\n')
    choice.value = name == 'example' && EXAMPLES[value] ? value : Object.keys(EXAMPLES)[0]
    return EXAMPLES[choice.value].text
}

function show(text) { result.textContent = text }

const BLOCKED = 'Reload the page. If an extension of the browser blocks workers, allow this site.'
function start() {
    worker = new Worker('worker.js')
    worker.onmessage = ({data}) => {
        if (data.status === undefined) return onReply?.(data)
        status.textContent = data.status
        if (timer) watch()
    }
    worker.onerror = event => onReply?.({error: `The worker cannot start (${event.message || 'blocked'}). ${BLOCKED}`})
}
function stop() {
    worker?.terminate()
    worker = null
}
function watch() {
    clearTimeout(timer)
    const error = `Stopped after ${MAX_SECONDS} s without a response. Run the program again; if that does not help, reload `
        + 'the page, and close other tabs, which frees memory.'
    timer = setTimeout(() => onReply({error}), 1000 * MAX_SECONDS)
}
function ask(program) {
    return new Promise(resolve => {
        onReply = resolve
        try {
            if (!worker) start()
            worker.postMessage(program)
        } catch (error) {
            resolve({error: `The worker cannot start (${error.message}). ${BLOCKED}`})
        }
    })
}
async function run() {
    byId('run').disabled = true
    editor.mark(null)
    show('')
    watch()
    const data = await ask(editor.text())
    timer = clearTimeout(timer)
    if (data.error) stop()      // the next run begins with a new worker
    status.textContent = data.seconds === undefined ? '' : `${data.seconds.toFixed(1)} s`
    const lines = [data.printed, data.message ?? data.error].filter(Boolean)
    show(lines.join('\n') || 'No finding, and nothing was printed.')
    result.dataset.code = data.code ?? ''
    editor.mark(data)
    byId('run').disabled = false
}

for (const [name, {title}] of Object.entries(EXAMPLES)) choice.add(new Option(title, name))
choice.onchange = () => { location.hash = `example=${choice.value}` }
byId('run').onclick = run
byId('share').onclick = async () => {
    history.replaceState(null, '', `#program=${await encode(editor.text())}`)
    await navigator.clipboard?.writeText(location.href).catch(() => {})
    status.textContent = 'The address of this page contains the program.'
}
addEventListener('hashchange', async () => { editor.setText(await readFragment()), show('') })
editor.setText(await readFragment())
byId('run').disabled = false
const small = matchMedia('(max-width: 40rem)').matches
status.textContent = small ? 'Running needs a desktop browser.' : 'The first run loads MEGABYTES MB.'
// If an earlier visit has loaded Python, it starts before the first click.
const python = await globalThis.caches?.match(new URL('../pyodide/pyodide.asm.wasm', location.href)).catch(() => null)
if (python) ask(null).then(stop)      // an error
if ('serviceWorker' in navigator) navigator.serviceWorker.register('offline.js').catch(() => {})
