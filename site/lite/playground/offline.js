// Keeps what the playground has loaded, so that it works without a network afterwards. A new version of the site has
// another name of the cache.
const CACHE = 'gridstride-VERSION'
// The page itself was loaded before this worker could keep it.
const PAGE = ['index.html', 'playground.css', 'playground.js', 'examples.js', 'worker.js', 'EDITOR',
    ...Object.values(MODULES)]
addEventListener('install', event => {
    skipWaiting()
    event.waitUntil(caches.open(CACHE).then(cache => cache.addAll(PAGE)))
})
addEventListener('activate', event => event.waitUntil((async () => {
    for (const name of await caches.keys())
        if (name.startsWith('gridstride-') && name != CACHE) await caches.delete(name)
    await clients.claim()
})()))
async function respond(request) {
    const cache = await caches.open(CACHE), kept = await cache.match(request, {ignoreSearch: true})
    if (kept) return kept
    const response = await fetch(request)
    if (response.ok && response.status == 200) await cache.put(request, response.clone())
    return response
}
addEventListener('fetch', event => {
    const {method, url} = event.request
    if (method == 'GET' && new URL(url).origin == location.origin) event.respondWith(respond(event.request))
})
