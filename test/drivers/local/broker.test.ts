// The broker without sockets: what clients are told, and what becomes of those who go away. Its journal is a real file.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { type Broker, createBroker } from '../../../src/drivers/local/broker.js'
import type { Client, Connection } from '../../../src/drivers/local/clients.js'
import { type Journal, openJournal, readJournal } from '../../../src/drivers/local/journal.js'
import { type ProcessIdentity, thisProcess } from '../../../src/drivers/local/processes.js'
import type { Hello, Verb, WireMode } from '../../../src/drivers/local/protocol.js'
import { type FakeClock, fakeClock } from '../../support/fake-clock.js'
import { leakCheck } from '../../support/leaks.js'
import { endAll, freshDirectory } from './processes.js'

const here = thisProcess()

interface Peer {
  readonly client: Client
  readonly gone: readonly string[]
  readonly said: unknown[][]
  /** What was said since the last look. */
  heard(): unknown[][]
  call(...verb: Verb): void
  leave(bye?: boolean): void
}

interface Setup {
  readonly clock: FakeClock
  readonly broker: Broker
  readonly directory: string
  /** Appends fail with this while it is set. */
  full: Error | undefined
  /** How often the journal was used after it was closed. */
  usedClosed: number
  enter(who?: Partial<Hello>): Peer
  /** Another broker after this one, from its journal. */
  successor(): Setup
}

function setUp(directory = freshDirectory(), clock = fakeClock()): Setup {
  const self = { full: undefined as Error | undefined, usedClosed: 0 }
  const failing = (journal: Journal): Journal => {
    let closed = false
    const use = () => {
      if (closed) self.usedClosed++
    }
    return {
      ...journal,
      get large() {
        return journal.large
      },
      get deleted() {
        use()
        return !closed && journal.changed
      },
      append(lines) {
        use()
        if (self.full) throw self.full
        if (!closed) journal.append(lines)
      },
      close() {
        closed = true
        journal.close()
      },
    }
  }
  const broker = createBroker(readJournal(directory), {
    clock,
    wall: () => 1_700_000_000_000 + clock.now(),
    uptime: () => 5_000_000 + clock.now(),
    here,
    open: (snapshot) => failing(openJournal(directory, here, snapshot)),
  })
  let calls = 0
  let clients = 0
  const enter = (who: Partial<Hello> = {}): Peer => {
    clients += 1
    const said: unknown[][] = []
    const connection: Connection = { send: (message) => void said.push([...message]), end: () => undefined }
    const entering = {
      client: `client-${clients}`,
      by: `host:${clients}`,
      mark: here,
      held: [],
      asked: [],
      ...who,
    }
    const { client, gone } = broker.enter(connection, entering)
    return {
      client,
      gone,
      said,
      heard: () => said.splice(0),
      call(...verb) {
        calls += 1
        broker.call(client, [calls, ...verb])
      },
      leave: (bye = false) => broker.clientLeft(client, connection, bye),
    }
  }
  return Object.assign(self, {
    clock,
    broker,
    directory,
    enter,
    successor() {
      broker.stop()
      return setUp(directory, clock)
    },
  })
}

const acquire = (
  attempt: string,
  more: { mode?: WireMode; ttl?: number; wait?: boolean; ticket?: number } = {},
): Verb => {
  const { mode = 'x', ttl = 1000, wait = true, ticket = 0 } = more
  return ['acquire', 'x', attempt, mode, ttl, wait, ticket, '']
}

/** A process that has ended, and the name it had. */
async function endedProcess(): Promise<ProcessIdentity> {
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'])
  const text = readFileSync(`/proc/${child.pid}/stat`, 'latin1')
  const start = text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  child.kill('SIGKILL')
  await once(child, 'exit')
  return { ...here, pid: child.pid ?? 0, start }
}

test('a free lock is granted, a taken one is waited for, and the release grants it in the same step', () => {
  const { enter, clock, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a'))
  b.call(...acquire('b'))
  clock.stall(20)
  const [granted] = a.heard()
  assert.deepEqual([granted?.[1], granted?.[4], granted?.[5]], ['granted', 0, false])
  assert.deepEqual(b.heard()[0]?.slice(1, 3), ['waiting', 1])
  a.call('release', 'x', 'a', granted?.[2] as number)
  assert.deepEqual(a.heard().at(-1)?.slice(1), ['done', 'released'])
  const [given] = b.heard()
  assert.deepEqual([given?.[1], given?.[4]], ['granted', 20], 'the age is the time since its call')
  assert.equal(given?.[2], (granted?.[2] as number) + 20_000)
  broker.stop()
})

test('the holder learns when another client starts and stops waiting, and not of its own waits', () => {
  const { enter, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a'))
  a.call(...acquire('a2'))
  assert.deepEqual(
    a.heard().filter(([id]) => id === 0),
    [],
  )
  b.call(...acquire('b'))
  assert.deepEqual(a.heard(), [[0, 'contended', 'a', true]])
  b.call('cancel', 'x', 'b')
  assert.deepEqual(a.heard(), [[0, 'contended', 'a', false]])
  broker.stop()
})

test('an overdue and a forced holder are notified that they have lost', async () => {
  const { enter, clock, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a', { ttl: 100 }))
  b.call(...acquire('b', { ttl: 9000 }))
  a.heard()
  await clock.advance(100)
  assert.deepEqual(a.heard(), [[0, 'lost', 'a']])
  a.call('force', 'x', ['b'])
  assert.deepEqual(a.heard()[0]?.slice(1), ['done', 1])
  assert.deepEqual(b.heard().at(-1), [0, 'lost', 'b'])
  broker.stop()
})

test('a client that disconnects cleanly releases everything, including queue entries', () => {
  const { enter, broker } = setUp()
  const [a, b, c] = [enter(), enter(), enter()]
  a.call(...acquire('a'))
  b.call(...acquire('b'))
  c.call(...acquire('c'))
  b.leave(true)
  a.leave(true)
  assert.equal(c.heard().at(-1)?.[1], 'granted')
  broker.stop()
})

test('a client that is cut off and lives keeps its hold, and not its position in the queue', async () => {
  const { enter, clock, broker } = setUp()
  const [a, b, c] = [enter(), enter(), enter()]
  a.call(...acquire('a', { ttl: 10_000 }))
  b.call(...acquire('b'))
  c.call(...acquire('c'))
  a.leave()
  b.leave()
  await clock.advance(500)
  assert.equal(c.said.length, 1)
  const again = enter({ client: 'client-1', held: ['a', 'never held'] })
  assert.deepEqual(again.gone, ['never held'])
  again.call('renew', 'x', 'a', 10_000)
  assert.deepEqual(again.heard().at(-1)?.slice(1), ['done', true])
  broker.stop()
})

test('a call that arrives again does not shorten a hold extended since, nor after the broker was replaced', async () => {
  const place = setUp()
  const a = place.enter()
  const ends = async (at: Setup) => {
    const reader = at.enter({ client: 'reader' })
    reader.call('inspect', 'x')
    const [, , answer] = reader.heard()[0] as [number, string, { holders: { expiresIn: number }[] }]
    return answer.holders[0]?.expiresIn
  }
  a.call(...acquire('a', { ttl: 10_000 }))
  a.call('renew', 'x', 'a', 1_000, 1)
  assert.equal(await ends(place), 1_000)
  a.call('renew', 'x', 'a', 60_000, 2)
  a.call('renew', 'x', 'a', 1_000, 1)
  a.call(...acquire('a', { ttl: 10_000 }))
  assert.equal(await ends(place), 60_000)
  const next = place.successor()
  assert.equal(await ends(next), 60_000)
  next.broker.stop()
})

test('a waiter that is cut off and comes back keeps waiting', () => {
  const { enter, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a'))
  b.call(...acquire('b'))
  b.leave()
  const back = enter({ client: 'client-2', asked: ['b'] })
  back.call(...acquire('b'))
  assert.equal(back.heard().at(-1)?.[1], 'waiting')
  // Over a second connection while the first one is still open.
  const again = enter({ client: 'client-2', asked: ['b'] })
  again.call(...acquire('b'))
  assert.equal(again.heard().at(-1)?.[1], 'waiting')
  a.leave(true)
  assert.equal(again.heard().at(-1)?.[1], 'granted')
  broker.stop()
})

test('a client that reconnects without naming a hold has released it; an attempt it still asks for keeps it', () => {
  const { enter, broker } = setUp()
  const [a, c] = [enter(), enter()]
  a.call(...acquire('a'))
  c.call(...acquire('c'))
  const [granted] = a.heard()
  a.leave()
  const back = enter({ client: 'client-1', asked: ['a'] })
  back.call(...acquire('a'))
  assert.deepEqual(back.heard()[0]?.slice(1, 3), granted?.slice(1, 3), 'the same token for the same attempt')
  back.leave()
  enter({ client: 'client-1' })
  assert.equal(c.heard().at(-1)?.[1], 'granted')
  broker.stop()
})

test('a client that reconnects learns whether others wait now', () => {
  const { enter, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a'))
  a.leave()
  b.call(...acquire('b'))
  const back = enter({ client: 'client-1', held: ['a'] })
  assert.deepEqual(back.heard(), [[0, 'contended', 'a', true]])
  broker.stop()
})

test('a process that is over has released everything the moment its connection ends', async () => {
  const { enter, broker } = setUp()
  const dead = enter({ mark: await endedProcess() })
  const next = enter()
  dead.call(...acquire('a'))
  next.call(...acquire('b'))
  dead.leave()
  assert.equal(next.heard().at(-1)?.[1], 'granted')
  broker.stop()
})

test('a client that could not read which boot it is of keeps its hold when it is cut off', () => {
  const { enter, broker } = setUp()
  const [holder, next] = [enter({ mark: { ...here, boot: '', start: '' } }), enter()]
  holder.call(...acquire('a'))
  holder.leave()
  next.call(...acquire('b', { wait: false }))
  assert.equal(next.heard().at(-1)?.[1], 'busy')
  broker.stop()
})

test('an absent holder loses by its ttl, as any other', async () => {
  const { enter, clock, broker } = setUp()
  const [a, b] = [enter(), enter()]
  a.call(...acquire('a', { ttl: 300 }))
  b.call(...acquire('b'))
  a.leave()
  await clock.advance(299)
  assert.equal(b.said.length, 1)
  await clock.advance(1)
  assert.equal(b.said.at(-1)?.[1], 'granted')
  broker.stop()
})

test('a repeated claim whose hold has expired unnoticed is answered: the hold is lost, and a new one is granted', () => {
  const { enter, clock, broker } = setUp()
  const [a, b] = [enter(), enter()]
  const told = ({ heard }: Peer) => heard().map(([id, what]) => [id === 0, what])
  a.call(...acquire('a', { ttl: 100 }))
  const first = a.heard()[0]?.[2] as number
  clock.stall(150)
  a.call(...acquire('a', { ttl: 100 }))
  assert.ok((a.said[1]?.[2] as number) > first)
  assert.deepEqual(told(a), [
    [true, 'lost'],
    [false, 'granted'],
  ])
  clock.stall(150)
  // Adopted too late.
  b.call(...acquire('a', { ttl: 100, wait: false }))
  assert.deepEqual(told(a), [[true, 'lost']])
  assert.deepEqual(told(b).at(-1), [false, 'granted'])
  clock.stall(150)
  b.call('together', [['x', 'a', 'x', 100, '']])
  assert.deepEqual(told(b), [
    [true, 'lost'],
    [false, 'all'],
  ])
  b.leave(true)
  a.call(...acquire('next', { wait: false }))
  assert.deepEqual(told(a), [[false, 'granted']], 'it is given back with its client')
  broker.stop()
})

test('the next broker keeps what live processes hold, frees what the dead held, and mints greater tokens', async () => {
  const first = setUp()
  const [a, dead] = [first.enter(), first.enter({ mark: await endedProcess() })]
  a.call(...acquire('a', { ttl: 5000 }))
  dead.call('acquire', 'y', 'd', 'x', 5000, true, 0, '')
  const token = a.heard()[0]?.[2] as number
  const next = first.successor()
  const b = next.enter({ client: 'another' })
  b.call('acquire', 'y', 'b-y', 'x', 1000, false, 0, '')
  assert.equal(b.heard().at(-1)?.[1], 'granted')
  b.call(...acquire('b', { wait: false }))
  assert.equal(b.heard().at(-1)?.[1], 'busy')
  await next.clock.advance(4900)
  const back = next.enter({ client: 'client-1', held: ['a'] })
  assert.deepEqual(back.gone, [])
  back.call('release', 'x', 'a', token)
  assert.deepEqual(back.heard().at(-1)?.slice(1), ['done', 'released'])
  b.call(...acquire('b2'))
  assert.ok((b.heard().at(-1)?.[2] as number) > token + 65_536)
  next.broker.stop()
})

test('the next broker knows what was released, so that a repeated release is no loss', () => {
  const first = setUp()
  const a = first.enter()
  a.call(...acquire('a'))
  a.call('release', 'x', 'a', 0)
  const next = first.successor()
  const back = next.enter({ client: 'client-1', held: ['a'] })
  assert.deepEqual(back.gone, ['a'])
  back.call('release', 'x', 'a', 0)
  assert.deepEqual(back.heard()[0]?.slice(1), ['done', 'already-released'])
  next.broker.stop()
})

test('those who come back with a ticket stand ahead of those who came later', () => {
  const first = setUp()
  const [a, b] = [first.enter(), first.enter()]
  a.call(...acquire('a'))
  b.call(...acquire('b'))
  const ticket = b.heard()[0]?.[3] as number
  first.clock.stall(10)
  const next = first.successor()
  const [late, back] = [next.enter({ client: 'late' }), next.enter({ client: 'client-2', asked: ['b'] })]
  late.call(...acquire('late'))
  back.call(...acquire('b', { ticket }))
  assert.deepEqual(back.heard()[0]?.slice(1, 3), ['waiting', 1])
  next.broker.stop()
})

test('on a full disk nothing is granted or prolonged, ends go on, and nothing refused is in the journal', () => {
  const place = setUp()
  const [a, b] = [place.enter(), place.enter()]
  a.call(...acquire('a'))
  b.call(...acquire('b'))
  a.heard()
  b.heard()
  place.full = new Error('ENOSPC: no space left')
  a.call('acquire', 'y', 'y', 'x', 1000, true, 0, '')
  assert.match(String(a.heard()[0]?.slice(1)), /^failed,.*nothing is granted: ENOSPC/)
  a.call('renew', 'x', 'a', 1000)
  assert.deepEqual(a.heard()[0]?.slice(1), ['done', true], 'the same ttl needs no line')
  a.call('renew', 'x', 'a', 9000)
  assert.equal(a.heard()[0]?.[1], 'failed', 'a longer one would not be known to the next broker')
  a.call('release', 'x', 'a', 0)
  assert.deepEqual(a.heard()[0]?.slice(1), ['done', 'released'])
  assert.equal(b.heard()[0]?.[1], 'failed')
  place.full = undefined
  b.call(...acquire('b2'))
  assert.equal(b.heard()[0]?.[1], 'granted')
  assert.deepEqual(
    readJournal(place.directory).holds.map(({ hold }) => hold.attempt),
    ['b2'],
  )
  place.broker.stop()
})

test('the first waiting process is asked to stand by, and the next one when it has gone', () => {
  const { enter, broker } = setUp()
  const other = { ...here, pid: here.pid + 1 }
  const [a, same, one, two] = [enter(), enter(), enter({ mark: other }), enter({ mark: other })]
  const asked = (peer: Peer) => peer.heard().filter(([id, what]) => id === 0 && what === 'standby').length
  a.call(...acquire('a'))
  same.call(...acquire('same'))
  one.call(...acquire('one'))
  two.call(...acquire('two'))
  assert.deepEqual([asked(a), asked(same), asked(one), asked(two)], [0, 0, 1, 0])
  one.leave(true)
  two.call('acquire', 'x', 'two-2', 'x', 1000, true, 0, '')
  assert.equal(asked(two), 1)
  broker.stop()
})

test('a broker that has stopped answers nothing, and leaves its journal alone: the number may be that of another file by then', async () => {
  const stopping = setUp()
  const { enter, clock, broker } = stopping
  const [a, b, c] = [enter(), enter({ mark: await endedProcess() }), enter()]
  a.call(...acquire('a', { ttl: 60_000 }))
  b.call('acquire', 'y', 'b', 'x', 60_000, false, 0, '')
  for (const peer of [a, b, c]) assert.equal(peer.heard().length, peer === c ? 0 : 1)
  broker.stop()
  a.call('renew', 'x', 'a', 60_000, 1)
  c.call('acquire', 'z', 'c', 'x', 1000, true, 0, '')
  c.call('write', 'key', 0, 'value', null, 'id')
  a.call('release', 'x', 'a', 1)
  a.leave(true)
  b.leave()
  broker.repair()
  clock.stall(120_000)
  for (const peer of [a, b, c]) assert.deepEqual(peer.heard(), [])
  assert.equal(stopping.usedClosed, 0)
})

test('list and inspect show holders and waiters, and nothing overdue', async () => {
  const { enter, clock, broker } = setUp()
  const a = enter()
  a.call('acquire', 'p:1', 'a', 'x', 1000, true, 0, 'a note')
  a.call('acquire', 'p:2', 'b', 's', 10, true, 0, '')
  a.call('acquire', 'q', 'c', [1, 2], 1000, true, 0, '')
  await clock.advance(10)
  const answer = (...verb: Verb) => {
    a.call(...verb)
    return a.heard().at(-1)?.[2]
  }
  const listed = answer('list', 'p:') as { name: string }[]
  assert.deepEqual(
    listed.map(({ name }) => name),
    ['p:1'],
  )
  const standing = answer('inspect', 'p:1') as { holders: { note: string; client: string }[] }
  assert.deepEqual([standing.holders[0]?.note, standing.holders[0]?.client], ['a note', 'host:1'])
  broker.stop()
})

after(async () => {
  await endAll()
  await leakCheck()
})
