// Runs alone because it measures how long a browser's main thread is busy.
// Second tier because it needs the machine for itself, and a browser.
//
// The page in Chromium, over real stores under contention: what it shows is what happened.
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { createLocks, type DriverFactory, type Locks } from 'holdfast'
import { memory } from 'holdfast/memory'
import { postgres } from 'holdfast/postgres'
import { redis } from 'holdfast/redis'
import { lockPage, type PageOptions } from 'holdfast/ui'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { Page } from 'playwright-core'
import type { Tick } from '../../src/ui/wire.js'
import { type StartedBrowser, startBrowser } from '../support/browser.js'
import { leakCheck } from '../support/leaks.js'
import { startPostgres } from '../support/servers/postgres.js'
import { startRedis } from '../support/servers/redis.js'
import { contend, type Held } from './contention.js'
import { open as openPage } from './opened.js'
import { listening, stream } from './support.js'

let chromium: StartedBrowser
before(async () => {
  chromium = await startBrowser()
})
after(() => chromium.close())

const open = (locks: Locks, options: Partial<PageOptions> = {}, look: object = {}) =>
  openPage(chromium.browser, locks, options, look)

const stores: Readonly<
  Record<string, () => Promise<{ driver: () => DriverFactory; stop: () => Promise<void> }>>
> = {
  redis: async () => {
    const server = await startRedis()
    const client = new Redis(server.url)
    const stop = async () => {
      client.disconnect()
      await server.stop()
    }
    return { driver: () => redis({ client }), stop }
  },
  postgres: async () => {
    const server = await startPostgres()
    const pools: pg.Pool[] = []
    const driver = () => {
      const pool = new pg.Pool({ connectionString: server.url, max: 4 })
      pools.push(pool)
      return postgres({ pool })
    }
    const stop = async () => {
      await Promise.all(pools.map((pool) => pool.end()))
      await server.stop()
    }
    return { driver, stop }
  },
}

for (const [name, start] of Object.entries(stores))
  test(`${name}: while 200 clients contend, the page shows what happened, and one holder at a time`, async () => {
    const store = await start()
    const processes = Array.from({ length: 8 }, () => createLocks(store.driver()))
    const watching = createLocks(store.driver())
    const { view, site, wrong, close } = await open(watching)
    const readings: (readonly [from: number, to: number])[] = []
    const events = await stream(`${site.url}/events`)
    const end = new AbortController()
    const contention = contend(processes, { clients: 200, names: 20, signal: end.signal })
    // Forty readings, however long they take.
    while (readings.length < 40) {
      const { now, health } = await events.next<Tick>('tick', (tick) => tick.health.state === 'ok')
      readings.push([now - health.took - 1, now])
    }
    end.abort()
    const diary = await contention
    // A reading that began after the last hold had ended; the page has heard it once it has heard the next one.
    const done = Date.now()
    await events.next<Tick>('tick', ({ now, health }) => now - health.took > done + 1)
    await events.next<Tick>('tick')
    await events[Symbol.asyncDispose]()
    const shown: Shown[] = []
    for (let i = 0; i < 20; i++) shown.push(...(await pastOf(view, `account:${i}`)))
    assert.deepEqual(wrong, [])
    await close()
    for (const locks of [...processes, watching]) await locks.close()
    await store.stop()
    compare(shown, diary, readings)
  })

interface Shown {
  readonly name: string
  readonly token: number
  readonly note: string
  readonly end: string
}

/** The rows of a name's own page, oldest first. */
async function pastOf(view: Page, name: string): Promise<Shown[]> {
  await view.evaluate(`location.hash = ${JSON.stringify(`#/main/${encodeURIComponent(name)}`)}`)
  await view.getByRole('heading', { name, exact: true, level: 1 }).waitFor()
  await view.locator('table.past').waitFor()
  const rows = await view
    .locator('table.past tbody tr')
    .evaluateAll((all) =>
      all.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent ?? '')),
    )
  return rows
    .map(([, , token, , , end = '', note = '']) => ({ name, token: Number(token), note, end }))
    .reverse()
}

/** The page shows the last fifty holds of a name: a slow machine sees more of them than that before it has its forty readings. */
function oldest(shown: readonly Shown[], name: string): number {
  const tokens = shown.filter((one) => one.name === name).map(({ token }) => token)
  return tokens.length < 50 ? Number.NEGATIVE_INFINITY : Math.min(...tokens)
}

function compare(
  shown: readonly Shown[],
  diary: readonly Held[],
  readings: readonly (readonly [number, number])[],
) {
  const happened = new Map(diary.map((held) => [`${held.name} ${held.token}`, held]))
  assert.ok(diary.length > 100, `${diary.length} holds`)
  for (const { name, token, note, end } of shown) {
    const held = happened.get(`${name} ${token}`)
    assert.ok(held !== undefined, `${name} was never held with token ${token}`)
    assert.deepEqual([note, end], [held.note, 'ended'], `${name} ${token}`)
  }
  const seen = new Set(shown.map(({ name, token }) => `${name} ${token}`))
  assert.equal(seen.size, shown.length, 'a hold is shown twice')
  const during = (held: Held) => readings.some(([from, to]) => held.from <= from && to <= held.to)
  const missing = diary.filter(
    (held) =>
      during(held) && held.token >= oldest(shown, held.name) && !seen.has(`${held.name} ${held.token}`),
  )
  assert.deepEqual(missing, [], 'held during a whole reading, but not shown')
  for (const name of new Set(shown.map((one) => one.name))) {
    const tokens = shown.filter((one) => one.name === name).map(({ token }) => token)
    assert.deepEqual(
      tokens,
      [...tokens].sort((a, b) => a - b),
      `${name}: not in the order of the grants`,
    )
  }
}

describe('over one store', () => {
  const locks = createLocks(memory())
  after(() => locks.close())

  test('a forced release asks for confirmation, notifies the holder, and leaves its reason on the page', async () => {
    const { view, wrong, close } = await open(locks, { allowRelease: true })
    const lease = await locks.mutex('stuck').acquire({ note: 'import' })
    const asked = new Promise<string | undefined>((resolve) => {
      locks.onRevoke(lease, ({ why }) => resolve(why))
    })
    await view.getByRole('link', { name: 'stuck' }).click()
    await view.getByRole('button', { name: 'Release by force…' }).click()
    const dialog = view.getByRole('dialog', { name: 'Take “stuck” from its holder?' })
    assert.match((await dialog.textContent()) ?? '', new RegExp(`token ${lease.token}`))
    const sure = dialog.getByRole('button', { name: 'Release it' })
    assert.equal(await sure.isDisabled(), true)
    assert.equal(lease.state, 'held')
    await dialog.getByLabel('Ask the holder first').uncheck()
    await dialog.getByLabel('Why?').fill('its host is gone')
    await sure.click()
    await view.getByText('Released by force.').waitFor()
    assert.equal(await asked, 'its host is gone')
    await view.getByRole('cell', { name: 'forced: its host is gone' }).waitFor()
    assert.equal((await locks.inspect('stuck')).holders.length, 0)
    assert.deepEqual(wrong, [])
    await lease.release()
    await close()
  })

  test('names and notes that are markup stay text', async () => {
    const name = '<img src=x onerror=alert(1)>"\'&</title><script>alert(2)</script>'
    await using _lease = await locks.mutex(name).acquire({ note: '<svg onload=alert(3)>{{7*7}}\u202e' })
    const { view, wrong, close } = await open(locks)
    await view.getByRole('link', { name }).click()
    await view.getByRole('heading', { name, exact: true }).waitFor()
    await view.getByRole('cell', { name: '<svg onload=alert(3)>{{7*7}}\\u{202e}' }).waitFor()
    assert.equal(await view.locator('img, script:not([src]), svg[onload]').count(), 0)
    assert.equal(await view.title(), `${name} · holdfast`)
    assert.deepEqual(wrong, [])
    await close()
  })

  test('it can be used by keyboard alone, and by its roles', async () => {
    await using _one = await locks.mutex('account:1').acquire()
    await using _two = await locks.mutex('account:2').acquire()
    const { view, wrong, close } = await open(locks)
    await view.getByRole('table').getByRole('link', { name: 'account:2' }).waitFor()
    await view.keyboard.press('/')
    await view.keyboard.type('account:2')
    await view.getByText('1 of 2 names').waitFor()
    await view.keyboard.press('Escape')
    await view.getByText('2 names', { exact: true }).waitFor()
    await view.getByRole('link', { name: 'account:1' }).focus()
    await view.keyboard.press('ArrowDown')
    await view.keyboard.press('Enter')
    await view.getByRole('heading', { name: 'account:2' }).waitFor()
    await view.getByRole('img', { name: /holds by \d+ processes/ }).waitFor()
    await view.keyboard.press('Escape')
    await view.getByRole('link', { name: 'account:1' }).waitFor()
    await view.keyboard.press('?')
    await view.getByRole('dialog', { name: 'Keys' }).waitFor()
    await view.keyboard.press('Escape')
    await view.keyboard.press('p')
    await view.getByText('frozen').waitFor()
    assert.deepEqual(wrong, [])
    await close()
  })

  test('it fits a phone, and is dark where the system is', async () => {
    await using _lease = await locks.mutex(`a-very-long-name-${'x'.repeat(200)}`).acquire()
    const look = { viewport: { width: 360, height: 740 }, colorScheme: 'dark' }
    const { view, close } = await open(locks, {}, look)
    await view.getByRole('link', { name: /a-very-long-name/ }).waitFor()
    const width = () => view.evaluate('document.documentElement.scrollWidth')
    const back = () => view.evaluate('getComputedStyle(document.body).backgroundColor')
    assert.equal(await width(), 360)
    const dark = await back()
    await view.getByRole('button', { name: 'Light' }).click()
    await view.getByRole('button', { name: 'Dark' }).waitFor()
    assert.notEqual(await back(), dark)
    await view.getByRole('link', { name: /a-very-long-name/ }).click()
    await view.getByRole('heading', { name: /a-very-long-name/ }).waitFor()
    assert.equal(await width(), 360)
    await close()
  })

  test('on a phone the page of one name does not scroll sideways, and its text can be read', async () => {
    const { view, wrong, close } = await open(locks, {}, { viewport: { width: 360, height: 740 } })
    const lease = await locks.mutex('phone').acquire({ note: 'nightly import' })
    await view.getByRole('link', { name: 'phone' }).click()
    await view.getByRole('cell', { name: 'exclusive' }).waitFor()
    await lease.release()
    await using _next = await locks.mutex('phone').acquire({ note: 'the next one' })
    await view.getByRole('table').last().getByRole('cell', { name: 'nightly import' }).waitFor()
    await view.getByRole('table').first().getByRole('cell', { name: 'the next one' }).waitFor()
    for (const part of ['main', 'document.documentElement'])
      assert.equal(await view.evaluate(`${part}.scrollWidth - ${part}.clientWidth`), 0, part)
    const lines = (cell: string) =>
      view
        .getByRole('cell', { name: cell })
        .first()
        .evaluate((element) => {
          const range = element.ownerDocument.createRange()
          range.selectNodeContents(element)
          return range.getClientRects().length
        })
    assert.equal(await lines('exclusive'), 1)
    assert.equal(await lines('nightly import'), 1)
    const size = await view
      .locator('.timeline text')
      .first()
      .evaluate((text) => text.getBoundingClientRect().height)
    assert.ok(size > 9, `the text of the timeline is ${size} pixels high`)
    assert.deepEqual(wrong, [])
    await close()
  })

  test('it comes back by itself after its server was away, and says so meanwhile', async () => {
    await using _lease = await locks.mutex('kept').acquire()
    const page = lockPage({ stores: { main: locks }, interval: 100 })
    const server = createServer(page.node)
    const first = await listening(server)
    const view = await chromium.browser.newPage()
    await view.goto(first.url)
    await view.getByRole('link', { name: 'kept' }).waitFor()
    await first.close()
    await view.getByText('connection lost, trying again').waitFor()
    await using _more = await locks.mutex('taken meanwhile').acquire()
    const second = await listening(createServer(page.node), first.port)
    await view.getByText('live', { exact: true }).waitFor()
    await view.getByRole('link', { name: 'taken meanwhile' }).waitFor()
    await view.close()
    page.close()
    await second.close()
  })
})

test('a store that goes down is shown as such, and again when it is back', async () => {
  const server = await startRedis()
  const client = new Redis(server.url, { maxRetriesPerRequest: 1 })
  client.on('error', () => undefined)
  const locks = createLocks(redis({ client }))
  const { view, close } = await open(locks)
  await view.getByText(/answers in/).waitFor()
  await server.kill9()
  await view.getByText(/cannot be read/).waitFor()
  await server.restart()
  await view.getByText(/answers in/).waitFor()
  await close()
  await locks.close()
  client.disconnect()
  await server.stop()
})

test('5,000 names: as many rows as fit, and no task that a person would notice', async () => {
  const locks = createLocks(memory())
  const leases = await Promise.all(
    Array.from({ length: 5_000 }, (_, i) => locks.mutex(`account:${i}`).acquire({ ttl: 600_000 })),
  )
  const { view, wrong, close } = await open(locks, { interval: 500, budget: 100_000 })
  await view.getByText('5000 names', { exact: true }).waitFor()
  await view.evaluate(`
    window.tasks = []
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' })
  `)
  const churn = async () => {
    for (let i = 0; i < 500; i++) await leases[i]?.release()
    for (let i = 0; i < 500; i++) leases[i] = await locks.mutex(`account:${i}`).acquire({ ttl: 600_000 })
  }
  for (let round = 0; round < 8; round++) {
    await churn()
    await view.locator('.rows').evaluate((box, top) => box.scrollTo(0, top), round * 30_000)
    await view.evaluate('new Promise((resolve) => setTimeout(resolve, 800))')
  }
  await view.getByRole('searchbox').fill('account:4999')
  await view.getByText('1 of 5000 names').waitFor()
  const tasks = (await view.evaluate('tasks')) as number[]
  assert.ok((await view.locator('tr.name').count()) < 60)
  assert.deepEqual(wrong, [])
  const longest = Math.max(0, ...tasks)
  console.log(`5,000 names: ${tasks.length} tasks over 50 ms, the longest ${Math.round(longest)} ms`)
  assert.ok(longest < 250, `the longest task took ${longest} ms: ${tasks.map(Math.round).join(', ')}`)
  await close()
  await locks.close()
})

after(leakCheck)
