// What browsers, proxies and servers do to the page's requests: they disconnect early, rewrite hosts and prefixes, speak HTTP/2, send nonsense.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, createServer as createServer2 } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { type LockPage, lockPage, type PageOptions } from 'holdfast/ui'
import type { Init, Tick } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { send, serving, stream } from './support.js'

const token = 'a-token-of-the-test-suite'
const locks: Locks = createLocks(memory())
after(() => locks.close())

const made = (options: Partial<PageOptions> = {}) =>
  lockPage({ stores: { main: locks }, interval: 20, ...options })

function settled<T>(): { readonly promise: Promise<T>; readonly resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined
  const promise = new Promise<T>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

test('a browser that leaves while it is authorized does not stay a viewer', async () => {
  const asked = settled<void>()
  const answer = settled<boolean>()
  const page = made({
    authorize: () => {
      asked.resolve()
      return answer.promise
    },
  })
  const left = settled<void>()
  const served = await serving((request, response) => {
    response.once('close', () => left.resolve())
    page.node(request, response)
  })
  const gone = new AbortController()
  const reply = fetch(`${served.url}/events`, { signal: gone.signal })
  await asked.promise
  gone.abort()
  await assert.rejects(reply)
  await left.promise
  answer.resolve(true)
  // Whatever follows from the answer has happened before another request is answered.
  assert.equal((await send(`${served.url}/page.css`)).status, 200)
  assert.equal(page.viewers, 0)
  page.close()
  await served.close()
})

test('an invalid lock name disturbs nobody', async () => {
  const page = made()
  const served = await serving(page.node)
  await using lease = await locks.mutex('seen by all').acquire()
  for (const name of ['x'.repeat(600), '', 'a\tb']) {
    await using other = await stream(`${served.url}/events?${new URLSearchParams({ store: 'main', name })}`)
    await using events = await stream(`${served.url}/events?store=main&name=seen+by+all`)
    await events.next<Init>('init')
    await using follower = await locks.mutex(`beside ${name.length}`).acquire()
    const tick = await events.next<Tick>(
      'tick',
      ({ health, changed }) =>
        health.state === 'trouble' || changed.some((one) => one.name === follower.name),
    )
    assert.equal(tick.health.trouble, undefined)
    await other.next<Init>('init')
  }
  assert.equal(lease.state, 'held')
  page.close()
  await served.close()
})

test('over HTTP/2, where the host is a pseudo-header', async () => {
  const page = made({ path: '/locks' })
  const server = createServer2(page.node as never).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect(`http://localhost:${port}`)
  const ask = async (headers: Record<string, string>) => {
    const sent = client.request(headers).resume()
    const [got] = await once(sent, 'response')
    return (got as Record<string, unknown>)[':status']
  }
  assert.equal(await ask({ ':path': '/locks/' }), 200)
  assert.equal(await ask({ ':path': '/nothing' }), 404)
  assert.equal(await ask({ ':path': '/locks/', ':authority': 'evil.example' }), 403)
  client.close()
  server.close()
  await once(server, 'close')
})

/** As `proxy_pass http://127.0.0.1:PORT/` behind `location /tools/`: the prefix is gone, and the host is the page's own. */
const proxied = (page: LockPage) =>
  serving((request, response) => {
    request.url = (request.url ?? '').replace(/^\/tools/, '')
    request.headers.host = '127.0.0.1:7070'
    page.node(request, response)
  })

test('behind a proxy that takes a prefix away, redirects and the cookie lead to where the browser is', async () => {
  const page = made({ token, path: '/locks' })
  const served = await proxied(page)
  const at = `${served.url}/tools/locks`
  const bare = await send(`${at}?token=${token}`)
  assert.equal(new URL(String(bare.headers.location), `${at}?token=x`).href, at)
  const welcome = await send(`${at}/?token=${token}`)
  assert.equal(new URL(String(welcome.headers.location), `${at}/?token=x`).href, `${at}/`)
  const [cookie = ''] = welcome.headers['set-cookie'] ?? []
  // Without a path, a browser takes the folder of the page as it sees it.
  assert.doesNotMatch(cookie, /path=/i)
  assert.match(cookie, /HttpOnly; SameSite=Lax/)
  page.close()
  await served.close()
})

test('behind a proxy that rewrites the host, the page itself can release, and no other site', async () => {
  const page = made({ allowRelease: true, onRelease: () => undefined })
  const served = await proxied(page)
  await using lease = await locks.mutex('proxied').acquire()
  const key = await (async () => {
    await using events = await stream(`${served.url}/tools/events`)
    return (await events.next<Init>('init')).key
  })()
  const body = JSON.stringify({ store: 'main', name: 'proxied', tokens: [lease.token], why: 'stuck' })
  const ask = (headers: Record<string, string>) =>
    send(`${served.url}/tools/release`, {
      method: 'POST',
      headers: { 'x-holdfast-key': key, ...headers },
      body,
    })
  const origin = 'https://ops.example.com'
  assert.equal((await ask({ origin: 'https://evil.example' })).status, 403)
  assert.equal((await ask({ origin, 'sec-fetch-site': 'cross-site' })).status, 403)
  assert.equal((await ask({ origin, 'sec-fetch-site': 'same-origin' })).status, 200)
  page.close()
  await served.close()
})

test('a closed page sends no more requests, although its server keeps running', async () => {
  const page = made()
  const served = await serving(page.node)
  page.close()
  assert.equal((await send(`${served.url}/events`)).status, 503)
  assert.equal(page.viewers, 0)
  await served.close()
})

test('a path is the same in every spelling', async () => {
  for (const path of ['/löcks', '/a/../l%C3%B6cks/']) {
    const page = made({ path })
    const served = await serving(page.node)
    assert.equal((await send(`${served.url}/l%C3%B6cks/`)).status, 200, path)
    page.close()
    await served.close()
  }
})

test('a host is the same in every spelling', async () => {
  const page = made({ hosts: ['Ops.Example.com'] })
  const served = await serving(page.node)
  assert.equal((await send(served.url, { headers: { host: 'ops.example.com:8443' } })).status, 200)
  page.close()
  await served.close()
})

for (const [options, message] of [
  // As a text, a part of it would be enough: 'example.com'.
  [{ hosts: 'ops.example.com' }, /hosts must be a list of host names/],
  [{ hosts: ['ops:8443'] }, /hosts.*without a port.*'ops:8443'/],
  [{ hosts: [] }, /hosts must be a list/],
  [{ allowRelease: 'false' }, /allowRelease must be true or false, got 'false'/],
  [{ authorize: 'ops' }, /authorize must be a function/],
  [{ onRelease: 1 }, /onRelease must be a function/],
  [{ prefix: 5 }, /prefix must be a text/],
  [{ stores: { main: null } }, /stores\.main must be what createLocks\(\) returned/],
] as const)
  test(`lockPage(${JSON.stringify(options)}) is refused`, () => {
    assert.throws(() => made(options as never), message)
  })

after(leakCheck)
