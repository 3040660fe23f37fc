/**
 * Tests of cells.
 * Long because all guarantees of a cell are read together: a driver's author has no other text than this and the contract.
 */
import assert from 'node:assert/strict'
import type { Cell, CellChange } from 'holdfast/driver'
import { maxCellBytes, maxKeyBytes } from 'holdfast/driver'
import { type Client, getCells } from './client.js'
import type { Fixture } from './fixture.js'
import type { It } from './suite.js'
import type { TestContext } from './test-context.js'

/** Long enough for a test, short enough not to linger after a failed one. */
const defaultTtl = 60_000
const never = new AbortController().signal

const kinds = {
  'are given by the driver exactly where its traits say so': async (context, client) => {
    assert.equal(typeof client.driver.cells, 'object')
    assert.equal(await getCells(client).read(context.name(), never), undefined)
  },

  'are replaced only by a client that has seen the newest version': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    assert.equal(await write(a, key, 5, 'no'), undefined, 'there is no version 5')
    const first = await create(a, key, 0, 'one')
    assert.equal(await write(b, key, 0, 'no'), undefined, 'there is one already')
    assert.deepEqual(await read(b, key), first)
    const second = await create(b, key, first.version, 'two')
    assert.equal(await write(a, key, first.version, 'no'), undefined)
    assert.deepEqual(await read(a, key), { version: second.version, value: 'two' })
  },

  'let exactly one of many writers win each round': async (context, a) => {
    const clients = [a, context.client(), context.client(), context.client()]
    const key = context.name()
    const each = 10
    const lanes = clients.flatMap((client) => [client, client]).map((client) => adds(client, key, each))
    await Promise.all(lanes)
    assert.equal((await read(a, key))?.value, String(each * lanes.length))
    await remove(a, key)
  },

  'answer a change that is sent twice the same, and carry it out once': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    const change = toChange(a, 0, 'one')
    const first = await getCells(a).write(key, change, never)
    assert.deepEqual(await getCells(a).write(key, change, never), first)
    assert.deepEqual(await getCells(b).write(key, change, never), first)
    const second = await create(b, key, first?.version ?? 0, 'two')
    await getCells(a).write(key, change, never)
    assert.deepEqual(await read(a, key), second, 'a late repeat must not bring the old value back')
    const removal = toChange(a, second.version, undefined)
    assert.ok((await getCells(a).write(key, removal, never)) !== undefined)
    const again = await create(b, key, 0, 'three')
    assert.equal(await getCells(a).write(key, removal, never), undefined)
    assert.deepEqual(await read(a, key), again, 'a late removal must not take what came after it')
  },

  'have versions that grow and never repeat, over removals too': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    const seen: number[] = []
    let version = 0
    for (let round = 0; round < 8; round++) {
      const cell = await create(round % 2 ? a : b, key, version, `${round}`)
      seen.push(cell.version)
      version = cell.version
      if (round % 3 < 2) continue
      const gone = await write(a, key, version, undefined)
      assert.ok(gone !== undefined, 'it was there to be removed')
      assert.equal(gone.value, '')
      assert.equal(await read(b, key), undefined)
      version = 0
    }
    for (const [i, one] of seen.entries()) {
      assert.ok(Number.isSafeInteger(one) && one > (seen[i - 1] ?? 0), `${one} after ${seen[i - 1]}`)
    }
    await remove(a, key)
  },

  'expire when their ttl is over, and not before': async (context, a) => {
    const [key, ms] = [context.name(), 400]
    const from = performance.now()
    await create(a, key, 0, 'brief', ms)
    await context.until('it to be gone', async () => (await read(a, key)) === undefined, ms + context.timeout)
    const lasted = performance.now() - from
    assert.ok(lasted >= ms - 20, `kept for ${lasted} ms instead of ${ms}`)
    await create(a, key, 0, 'another')
    await remove(a, key)
  },

  'hold any text of up to 64 KiB, under any key of up to 544 bytes': async (context, a) => {
    const b = context.client()
    const texts = ['', ' ', '"\\\'%_{}$1;--', 'ключ 鍵 🔑\n\t\r', 'é'.repeat(maxCellBytes / 2)]
    const base = `${context.name('cell')} 'k"{é}*:%/_`
    const keys = texts.map((_, i) => `${base}${i}`)
    keys[0] = base.padEnd(maxKeyBytes - (Buffer.byteLength(base) - base.length), '~')
    assert.equal(Buffer.byteLength(keys[0]), maxKeyBytes)
    for (const [i, key] of keys.entries()) await create(a, key, 0, texts[i] ?? '')
    for (const [i, key] of keys.entries()) assert.equal((await read(b, key))?.value, texts[i])
    for (const key of keys) await remove(a, key)
  },

  'and locks of the same name have nothing to do with each other': async (context, a) => {
    const key = context.name()
    const lease = await a.locks.mutex(key).acquire()
    await create(a, key, 0, 'beside it')
    await a.locks.forceRelease(key).catch(() => undefined)
    await lease.release()
    assert.equal((await read(a, key))?.value, 'beside it')
    await remove(a, key)
    const { holders, waiters } = await a.locks.inspect(key)
    assert.deepEqual([holders.length, waiters.length], [0, 0])
  },

  'wake the watchers of a change: written, replaced, removed, expired': async (context, a) => {
    const [b, key] = [context.client(), context.name()]
    let version = 0
    const next = async (what: string, act: () => Promise<Cell | undefined>) => {
      const left = leaves(context, b, key, version)
      const cell = await act()
      await context.settlesInTime(`to hear that the cell was ${what}`, left)
      version = cell?.value ? cell.version : 0
    }
    await next('made', () => write(a, key, 0, 'one'))
    await next('replaced', () => write(a, key, version, 'two'))
    await next('removed', () => write(a, key, version, undefined))
    await next('made again', () => write(a, key, 0, 'again'))
    // A late notification finds the cell already expired: either way it has left the previous version.
    await next('made to run out', () => write(a, key, version, 'brief', 500))
    await leaves(context, b, key, version)
    await context.settlesInTime(
      'an answer about what has changed already',
      getCells(b).changed(key, 1, never),
    )
  },

  'are awaited without constant polling': async (context, a) => {
    const key = context.name()
    const cell = await create(a, key, 0, 'still')
    const controller = new AbortController()
    let times = 0
    const watch = async () => {
      while (!controller.signal.aborted) {
        await getCells(a).changed(key, cell.version, controller.signal)
        times++
      }
    }
    const watching = watch().catch((error: unknown) => error)
    const from = performance.now()
    await context.until('the time to pass', () => performance.now() > from + 600)
    controller.abort(new Error('enough'))
    assert.equal(((await watching) as Error).message, 'enough')
    const passed = performance.now() - from
    assert.ok(times <= passed / 100, `told ${times} times of nothing in ${passed} ms`)
    await remove(a, key)
  },

  'stop waiting when their signal aborts': async (context, a) => {
    const key = context.name()
    const controller = new AbortController()
    const { signal } = controller
    const reason = new Error('no longer wanted')
    const waits = [1, 2, 3].map(() => getCells(a).changed(key, 0, signal))
    const ended = Promise.allSettled(waits)
    controller.abort(reason)
    for (const one of await context.settlesInTime('the waits to end', ended)) {
      assert.ok(one.status === 'rejected' && one.reason === reason)
    }
    await assert.rejects(getCells(a).read(key, signal), (error) => error === reason)
    await assert.rejects(getCells(a).write(key, toChange(a, 0, 'no'), signal), (error) => error === reason)
    assert.equal(await read(a, key), undefined)
  },

  'stop waiting when the driver is closed': async (context, a) => {
    const b = context.client()
    await read(b, context.name())
    const wait = getCells(b)
      .changed(context.name(), 0, never)
      .catch((error: unknown) => error)
    await b.locks.close()
    assert.equal(((await context.settlesInTime('the wait to end', wait)) as { code?: string }).code, 'CLOSED')
    await assert.rejects(getCells(b).read('x', never), { code: 'CLOSED' })
    assert.equal(await read(a, context.name()), undefined)
  },
} satisfies Record<string, (context: TestContext, client: Client) => Promise<void>>

export function cells(it: It, { traits }: Fixture): void {
  if (traits.cells !== true) {
    it('are not given by a driver whose traits do not name them', async (context) => {
      assert.equal(context.client().driver.cells, undefined)
    })
    return
  }
  for (const [name, test] of Object.entries(kinds)) it(name, (context) => test(context, context.client()))
}

function toChange(
  client: Client,
  ifVersion: number,
  value: string | undefined,
  ttl = defaultTtl,
): CellChange {
  return { ifVersion, value, ttl, id: client.env.id() }
}

function write(client: Client, key: string, seen: number, value: string | undefined, keep?: number) {
  return getCells(client).write(key, toChange(client, seen, value, keep), never)
}

async function create(
  client: Client,
  key: string,
  seen: number,
  value: string,
  keep?: number,
): Promise<Cell> {
  const cell = await write(client, key, seen, value, keep)
  assert.ok(cell !== undefined, `nobody else writes ${key}`)
  assert.equal(cell.value, value)
  return cell
}

const read = (client: Client, key: string) => getCells(client).read(key, never)

async function remove(client: Client, key: string): Promise<void> {
  await write(client, key, (await read(client, key))?.version ?? 0, undefined)
}

/** Adds 1 `times` times, each in a race with all other clients. */
async function adds(client: Client, key: string, times: number): Promise<void> {
  for (let done = 0; done < times; ) {
    const cell = await read(client, key)
    if (await write(client, key, cell?.version ?? 0, String(Number(cell?.value ?? 0) + 1))) done++
  }
}

/** Resolves once the cell has certainly left `version`, with a real wait in between. */
async function leaves(context: TestContext, client: Client, key: string, version: number): Promise<void> {
  const limit = AbortSignal.timeout(context.timeout)
  while (((await read(client, key))?.version ?? 0) === version) {
    await getCells(client).changed(key, version, limit)
  }
}
