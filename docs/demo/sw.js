// Keeps every file of the page, so that it works without a network once it was loaded.
const CACHE = "omnidc-demo-BUILD"; // the build writes a digest of the files here

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) if (name !== CACHE) await caches.delete(name);
  const cache = await caches.open(CACHE);
  await cache.addAll(await (await fetch("files.json")).json());
  await self.clients.claim();
})()));

self.addEventListener("fetch", (event) => {
  if (event.request.method !== "GET" || new URL(event.request.url).origin !== location.origin) return;
  event.respondWith(caches.match(event.request).then((kept) => kept ?? fetch(event.request)));
});
