// Caches compiled modules for later visits, and the lines of their code that findings have named, which then need no
// compiler. Only browsers have this cache, except in private windows.
const PREFIX = 'compiled-by-gridstride-', NAME = `${PREFIX}VERSION`, LIMIT = 100
let opened = null

async function open() {
    const outdated = (await caches.keys()).filter(name => name.startsWith(PREFIX) && name != NAME)
    await Promise.all(outdated.map(name => caches.delete(name)))
    return caches.open(NAME)
}
const addressOf = (key, kind) => new URL(`${kind}/${key}`, import.meta.url).href

// Returns the key of bytes or a text; null where nothing can be cached.
export async function keyOf(data) {
    if (!globalThis.caches || !globalThis.crypto?.subtle) return null
    const bytes = typeof data == 'string' ? new TextEncoder().encode(data) : data
    const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
    return Array.from(hash, byte => byte.toString(16).padStart(2, '0')).join('')
}

// Returns a cached entry as a `Response`; null if there is none.
export async function find(kind, key) {
    if (!key) return null
    try {
        return await (await (opened ??= open())).match(addressOf(key, kind)) ?? null
    } catch {
        return null
    }
}

// Caches bytes or a text, with a note; the oldest entries are deleted.
export async function keep(kind, key, body, note = '') {
    if (!key) return
    try {
        const store = await (opened ??= open())
        const entries = await store.keys()
        await Promise.all(entries.slice(0, Math.max(0, entries.length - LIMIT)).map(entry => store.delete(entry)))
        await store.put(addressOf(key, kind), new Response(body, {headers: {'x-note': encodeURIComponent(note)}}))
    } catch {}      // the disk is full: the next visit compiles again
}
export const noteOf = response => decodeURIComponent(response.headers.get('x-note'))
