// What keeps strangers out of the page: other hosts' names, other sites' pages, frames, names that are markup.
import '../support/background.js'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createLocks, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { type ForcedRelease, lockPage, type PageOptions } from 'holdfast/ui'
import type { Init } from '../../src/ui/wire.js'
import { leakCheck } from '../support/leaks.js'
import { type Served, send, serving, stream } from './support.js'

const token = 'a-token-of-the-test-suite'
const locks: Locks = createLocks(memory())
after(() => locks.close())

async function page(
  options: Partial<PageOptions> = {},
): Promise<Served & { readonly released: ForcedRelease[] }> {
  const released: ForcedRelease[] = []
  const made = lockPage({
    stores: { main: locks },
    interval: 20,
    onRelease: (one) => void released.push(one),
    ...options,
  })
  const served = await serving(made.node)
  const close = async () => {
    made.close()
    await served.close()
  }
  return { ...served, released, close }
}

async function keyOf(url: string): Promise<string> {
  await using events = await stream(`${url}/events`)
  return (await events.next<Init>('init')).key
}

describe('a page without a token', () => {
  let site: Awaited<ReturnType<typeof page>>
  before(async () => {
    site = await page({ allowRelease: true })
  })
  after(() => site.close())

  for (const [host, status] of [
    ['localhost', 200],
    ['127.0.0.1:7070', 200],
    ['[::1]:7070', 200],
    ['LOCALHOST', 200],
    ['evil.example', 403],
    ['localhost.evil.example', 403],
    ['127.0.0.1.nip.example:7070', 403],
  ] as const)
    for (const path of ['/', '/events', '/page.js'])
      if (status === 403 || path !== '/events')
        test(`asked for ${path} as "${host}" says ${status}`, async () => {
          const reply = await send(`${site.url}${path}`, { headers: { host } })
          assert.equal(reply.status, status)
        })

  test('runs its own scripts only, in no frame, and reaches no other server', async () => {
    for (const path of ['/', '/page.js', '/page.css', '/nowhere', '/release']) {
      const { headers } = await send(`${site.url}${path}`)
      const policy = String(headers['content-security-policy'])
      for (const rule of [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
      ])
        assert.ok(policy.includes(rule), `${path} lacks ${rule}`)
      assert.doesNotMatch(policy, /unsafe|https?:|\*/)
      assert.equal(headers['x-frame-options'], 'DENY')
      assert.equal(headers['x-content-type-options'], 'nosniff')
      assert.equal(headers['referrer-policy'], 'no-referrer')
      assert.equal(headers['access-control-allow-origin'], undefined)
    }
  })

  test('asks for nothing of another host: no address in any of its files', async () => {
    for (const path of ['/', '/page.js', '/page.css', '/icon.svg']) {
      const { body } = await send(`${site.url}${path}`)
      const addresses = (body.match(/(?:https?:)?\/\/[\w-]+\.[\w.-]+[\w/.-]*/g) ?? []).filter(
        (address) => !address.startsWith('http://www.w3.org/'),
      )
      assert.deepEqual(addresses, [], path)
    }
  })

  describe('asked for a forced release', () => {
    const body = (name: string, tokens: readonly number[], more = {}) =>
      JSON.stringify({ store: 'main', name, tokens, why: 'stuck', ...more })

    const strangers: readonly (readonly [who: string, headers: Record<string, string>])[] = [
      ['a form of another site', { 'content-type': 'text/plain', 'sec-fetch-site': 'cross-site' }],
      [
        'a page of another site that knows the key',
        { 'x-holdfast-key': 'KEY', 'sec-fetch-site': 'cross-site' },
      ],
      ['a page of another port of this host', { 'x-holdfast-key': 'KEY', 'sec-fetch-site': 'same-site' }],
      ['an old browser on another site', { 'x-holdfast-key': 'KEY', origin: 'http://evil.example' }],
      ['a sandboxed frame', { 'x-holdfast-key': 'KEY', origin: 'null' }],
      ['somebody with another key', { 'x-holdfast-key': '0'.repeat(32), 'sec-fetch-site': 'same-origin' }],
      ['somebody without a key', { 'sec-fetch-site': 'same-origin' }],
    ]
    for (const [who, given] of strangers)
      test(`refuses ${who}`, async () => {
        await using lease = await locks.mutex('target').acquire()
        const key = await keyOf(site.url)
        const headers = Object.fromEntries(Object.entries(given).map(([a, b]) => [a, b.replace('KEY', key)]))
        const reply = await send(`${site.url}/release`, {
          method: 'POST',
          headers,
          body: body('target', [lease.token]),
        })
        assert.equal(reply.status, 403)
        assert.equal(lease.state, 'held')
        assert.deepEqual(site.released, [])
      })

    test('does it for the page itself, and logs why', async () => {
      const lease = await locks.mutex('target').acquire()
      const reply = await send(`${site.url}/release`, {
        method: 'POST',
        headers: {
          'x-holdfast-key': await keyOf(site.url),
          'sec-fetch-site': 'same-origin',
          origin: site.url,
        },
        body: body('target', [lease.token]),
      })
      assert.deepEqual([reply.status, JSON.parse(reply.body)], [200, { outcome: 'forced' }])
      assert.deepEqual(site.released, [
        { store: 'main', name: 'target', tokens: [lease.token], why: 'stuck', outcome: 'forced' },
      ])
      assert.equal((await locks.inspect('target')).holders.length, 0)
      await lease.release()
    })

    test('spares a holder that came after the one that was shown', async () => {
      await using lease = await locks.mutex('target').acquire()
      const headers = { 'x-holdfast-key': await keyOf(site.url) }
      const reply = await send(`${site.url}/release`, {
        method: 'POST',
        headers,
        body: body('target', [lease.token - 1]),
      })
      assert.equal(reply.status, 409)
      assert.equal(lease.state, 'held')
    })

    const malformed: readonly (readonly [what: string, body: string])[] = [
      ['no JSON', 'store=main'],
      ['no reason', body('target', [1], { why: ' ' })],
      ['a reason that is too long', body('target', [1], { why: 'x'.repeat(201) })],
      ['a reason with a line break', body('target', [1], { why: 'a\nb' })],
      ['no tokens', body('target', [])],
      ['tokens that are texts', body('target', ['1' as never])],
      ['an endless grace period', body('target', [1], { grace: 1e12 })],
      ['an array', '[]'],
    ]
    for (const [what, sent] of malformed)
      test(`refuses ${what}`, async () => {
        const headers = { 'x-holdfast-key': await keyOf(site.url) }
        const reply = await send(`${site.url}/release`, { method: 'POST', headers, body: sent })
        assert.equal(reply.status, 400)
      })

    test('refuses a body that is too long', async () => {
      const headers = { 'x-holdfast-key': await keyOf(site.url) }
      const reply = await send(`${site.url}/release`, { method: 'POST', headers, body: 'x'.repeat(20_000) })
      assert.equal(reply.status, 413)
    })
  })

  test('sends names and notes as JSON on one line, whatever is in them', async () => {
    const name = '</script><img src=x onerror=alert(1)>"\'&'
    await using _lease = await locks.mutex(name).acquire({ note: 'data: <b>\u2028event: init' })
    await using events = await stream(`${site.url}/events`)
    const tick = await events.next<{ changed: { name: string; holders: { note: string }[] }[] }>(
      'tick',
      (one) => one.changed.some((entry) => entry.name === name),
    )
    const entry = tick.changed.find((one) => one.name === name)
    assert.equal(entry?.holders[0]?.note, 'data: <b>\u2028event: init')
  })

  test('has no file but its own, and no other method', async () => {
    for (const path of [
      '/../package.json',
      '/%2e%2e/index.js',
      '/constructor',
      '/page.tsx',
      '//evil.example/',
    ])
      assert.equal((await send(`${site.url}${path}`)).status, 404, path)
    for (const [path, method] of [
      ['/', 'POST'],
      ['/events', 'POST'],
      ['/release', 'GET'],
      ['/release', 'PUT'],
    ] as const)
      assert.equal((await send(`${site.url}${path}`, { method })).status, 405, `${method} ${path}`)
  })
})

test('a page without allowRelease releases nothing, even for itself', async () => {
  const site = await page()
  try {
    await using lease = await locks.mutex('target').acquire()
    const reply = await send(`${site.url}/release`, {
      method: 'POST',
      headers: { 'x-holdfast-key': await keyOf(site.url), 'sec-fetch-site': 'same-origin' },
      body: JSON.stringify({ store: 'main', name: 'target', tokens: [lease.token], why: 'stuck' }),
    })
    assert.equal(reply.status, 403)
    assert.equal(lease.state, 'held')
  } finally {
    await site.close()
  }
})

test('a page with a token serves nothing without it, and moves it from the address into a cookie', async () => {
  const site = await page({ token, hosts: ['*'] })
  try {
    for (const path of [
      '/',
      '/events',
      '/page.js',
      '/release',
      '/?token=wrong-token-of-strangers',
      `/events?token=${token}`,
    ])
      assert.equal((await send(`${site.url}${path}`)).status, 401, path)
    const welcome = await send(`${site.url}/?token=${token}`)
    assert.deepEqual([welcome.status, welcome.headers.location], [303, './'])
    const [cookie = ''] = welcome.headers['set-cookie'] ?? []
    assert.match(cookie, /; HttpOnly; SameSite=Lax/)
    assert.ok(!cookie.includes(token), 'the cookie shows the token')
    const [pair = ''] = cookie.split(';')
    assert.equal((await send(`${site.url}/`, { headers: { cookie: `other=1; ${pair}` } })).status, 200)
    assert.equal((await send(`${site.url}/`, { headers: { cookie: `${pair}0` } })).status, 401)
    assert.equal((await send(`${site.url}/`, { headers: { authorization: `Bearer ${token}` } })).status, 200)
  } finally {
    await site.close()
  }
})

test('authorize is asked for every route', async () => {
  const asked: string[] = []
  const authorize = (request: Request) => {
    asked.push(new URL(request.url).pathname)
    return request.headers.get('x-user') === 'ops'
  }
  const site = await page({ authorize, hosts: ['*'] })
  try {
    for (const path of ['/', '/events', '/page.js', '/release'])
      assert.equal((await send(`${site.url}${path}`)).status, 403, path)
    assert.deepEqual(asked, ['/', '/events', '/page.js', '/release'])
    assert.equal((await send(`${site.url}/`, { headers: { 'x-user': 'ops' } })).status, 200)
  } finally {
    await site.close()
  }
})

test('bad options are refused before anything is served', () => {
  const bad: readonly (readonly [options: unknown, complaint: RegExp])[] = [
    [undefined, /takes options/],
    [{ stores: {} }, /at least one store/],
    [{ stores: { main: {} } }, /stores\.main must be what createLocks\(\) returned/],
    [{ stores: { main: locks }, tokn: 'x' }, /no option 'tokn'/],
    [{ stores: { main: locks }, token: 'short' }, /at least 16 characters/],
    [{ stores: { main: locks }, hosts: ['*'] }, /needs authorize or token/],
    [{ stores: { main: locks }, path: 'locks' }, /must begin with a slash/],
    [{ stores: { main: locks }, budget: 0 }, /budget/],
    [{ stores: { main: locks }, interval: 0 }, /interval/],
    [{ stores: { main: locks }, history: Number.NaN }, /history/],
  ]
  for (const [options, complaint] of bad) assert.throws(() => lockPage(options as PageOptions), complaint)
})

after(leakCheck)
