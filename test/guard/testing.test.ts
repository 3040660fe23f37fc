// Tests of the kit that checks guards: it accepts a correct one, and names the mistake of each broken one.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { StaleTokenError } from 'holdfast'
import type { Fence } from 'holdfast/guard'
import { GuardBrokenError, type GuardedResource, type GuardRule, proveGuard } from 'holdfast/guard/testing'
import { leakCheck } from '../support/leaks.js'

interface Row {
  value?: string
  fence?: number
}
/** How a row is written; `later` stands for a way to the store and back. */
type Write = (row: Row, value: string, fence: Fence, later: () => Promise<void>) => void | Promise<void>

const later = () => new Promise<void>((resolve) => setTimeout(resolve, Math.random() * 3))
const stale = (row: Row, { name, token }: Fence) => new StaleTokenError(name, token, row.fence)

const right: Write = async (row, value, fence, later) => {
  await later()
  if ((row.fence ?? 0) > fence.token) throw stale(row, fence)
  Object.assign(row, { value, fence: fence.token })
}

function table(write: Write): (id: string) => GuardedResource {
  const rows = new Map<string, Row>()
  return (id) => {
    const row = rows.get(id) ?? {}
    rows.set(id, row)
    return { write: async (value, fence) => write(row, value, fence, later), read: async () => row.value }
  }
}

test('a right guard passes, and the proof says what was tried', async () => {
  const { writes, refused } = await proveGuard(table(right), { rounds: 20, clients: 4 })
  assert.ok(writes > 20 * 8)
  assert.ok(refused > 10)
})

const wrong: readonly (readonly [what: string, rule: GuardRule, write: Write])[] = [
  [
    'compares nothing',
    'an older token is refused',
    (row, value, { token }) => void Object.assign(row, { value, fence: token }),
  ],
  [
    'looks before it writes, with the way to the store in between',
    'the newest token wins when all write at once',
    async (row, value, fence, later) => {
      if ((row.fence ?? 0) > fence.token) throw stale(row, fence)
      await later()
      Object.assign(row, { value, fence: fence.token })
    },
  ],
  [
    'writes, and then compares',
    'a refused write changes nothing',
    (row, value, fence) => {
      const { fence: newest = 0 } = row
      Object.assign(row, { value, fence: Math.max(newest, fence.token) })
      if (newest > fence.token) throw stale(row, fence)
    },
  ],
  [
    'refuses its own holder the second time',
    'a holder may write again with its token',
    (row, value, fence) => {
      if ((row.fence ?? 0) >= fence.token) throw stale(row, fence)
      Object.assign(row, { value, fence: fence.token })
    },
  ],
  [
    'says nothing when it refuses',
    'an older token is refused',
    (row, value, { token }) => {
      if ((row.fence ?? 0) <= token) Object.assign(row, { value, fence: token })
    },
  ],
  [
    'refuses everybody',
    'the first write is applied',
    (row, _, fence) => {
      throw stale(row, fence)
    },
  ],
  [
    'compares text',
    'tokens are compared as numbers, exactly',
    (row, value, fence) => {
      if (String(row.fence ?? '') > String(fence.token)) throw stale(row, fence)
      Object.assign(row, { value, fence: fence.token })
    },
  ],
  [
    'keeps 32 bits',
    'tokens are compared as numbers, exactly',
    (row, value, fence) => {
      if ((row.fence ?? -(2 ** 31)) > (fence.token | 0)) throw stale(row, fence)
      Object.assign(row, { value, fence: fence.token | 0 })
    },
  ],
  [
    'keeps the token as a float of 32 bits',
    'an older token is refused',
    (row, value, fence) => {
      if ((row.fence ?? 0) > Math.fround(fence.token)) throw stale(row, fence)
      Object.assign(row, { value, fence: Math.fround(fence.token) })
    },
  ],
  [
    'fails for another reason',
    'a write fails only for being stale',
    () => {
      throw new Error('deadlock found')
    },
  ],
]

for (const [what, rule, write] of wrong) {
  test(`a guard that ${what} is caught`, async () => {
    await assert.rejects(proveGuard(table(write), { rounds: 20 }), (error) => {
      assert.ok(error instanceof GuardBrokenError, String(error))
      assert.equal(error.rule, rule, error.message)
      assert.ok(error.history.length > 0 || rule === 'the first write is applied')
      return true
    })
  })
}

test('a guard that keeps the newest token in its client is caught', async () => {
  const values = new Map<string, string>()
  const forgetful = (id: string): GuardedResource => {
    let newest = 0
    return {
      async write(value, fence) {
        if (newest > fence.token) throw stale({ fence: newest }, fence)
        newest = fence.token
        values.set(id, value)
      },
      read: async () => values.get(id),
    }
  }
  await assert.rejects(proveGuard(forgetful), { rule: 'an older token is refused' })
})

test('a guard that has one token for everything is caught', async () => {
  const values = new Map<string, string>()
  let newest = 0
  const shared = (id: string): GuardedResource => ({
    async write(value, fence) {
      if (newest > fence.token) throw stale({ fence: newest }, fence)
      newest = fence.token
      values.set(id, value)
    },
    read: async () => values.get(id),
  })
  await assert.rejects(proveGuard(shared), GuardBrokenError)
})

test('bad numbers are reported by name', async () => {
  await assert.rejects(proveGuard(table(right), { clients: 1 }), /clients must be .* got 1/)
  await assert.rejects(proveGuard(table(right), { rounds: 0.5 }), /rounds must be .* got 0.5/)
})

after(leakCheck)
