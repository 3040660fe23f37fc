// Every acquisition is announced and ends in exactly one event; every failed request to the store is one, too.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { BackendError, type LockEvent } from '../../src/index.js'
import { settle } from '../support/fake-clock.js'
import { leakCheck } from '../support/leaks.js'
import { type Script, script } from '../support/scripted-driver.js'

after(leakCheck)

/** The fields that these tests look at. */
interface Told {
  readonly event: LockEvent
  readonly name?: string
  readonly driver?: string
  readonly acquisition?: number
  readonly why?: string
  readonly outcome?: string
  readonly handedOff?: boolean
  readonly operation?: string
  readonly code?: string
  readonly quarantined?: boolean
  readonly error?: Error & { readonly code?: string }
}

function listen(s: Script, ...events: LockEvent[]): Told[] {
  const told: Told[] = []
  for (const event of events) s.locks.on(event, (payload) => told.push({ event, ...(payload as object) }))
  return told
}

/** `event why/outcome acquisition` of each, with the first acquisition as 1. */
function brief(told: readonly Told[]): string[] {
  const first = told[0]?.acquisition ?? 0
  return told.map(({ event, why, outcome, acquisition }) =>
    [event, why, outcome, acquisition === undefined ? undefined : acquisition - first + 1]
      .filter((word) => word !== undefined)
      .join(' '),
  )
}

const ends = ['requested', 'granted', 'denied'] as const

test('a grant, a lock that is not free, a timeout, an abort and a failure each end their acquisition once', async () => {
  const s = script()
  const told = listen(s, ...ends)
  const outcomes: Promise<unknown>[] = []
  const ask = (work: Promise<unknown>) => outcomes.push(work.catch((error: unknown) => error))

  ask(s.locks.mutex('granted').acquire())
  ask(s.locks.mutex('busy').tryAcquire())
  ask(s.locks.mutex('timeout').acquire({ wait: 100 }))
  const controller = new AbortController()
  ask(s.locks.mutex('aborted').acquire({ signal: controller.signal }))
  ask(s.locks.mutex('failed').acquire())
  await settle()
  const [granted, busy, timeout, , failed] = s.asked
  granted?.grant()
  busy?.nothing()
  timeout?.wait.report?.({ position: 1 })
  failed?.fail(new BackendError('scripted', 'refused'))
  controller.abort(new Error('the caller left'))
  await settle()
  await s.clock.advance(100)
  for (const claim of s.asked) claim.nothing()
  await Promise.all(outcomes)
  await settle()
  assert.deepEqual(brief(told).sort(), [
    'denied aborted 4',
    'denied busy 2',
    'denied failed 5',
    'denied timeout 3',
    'granted 1',
    'requested 1',
    'requested 2',
    'requested 3',
    'requested 4',
    'requested 5',
  ])
  const errorOf = (why: string) => told.find((one) => one.why === why)?.error
  assert.equal(errorOf('timeout')?.code, 'ACQUIRE_TIMEOUT')
  assert.equal(errorOf('aborted')?.message, 'the caller left')
  assert.equal(errorOf('failed')?.code, 'BACKEND')
  await s.locks.close()
})

test('an acquisition refused because too many wait is requested and denied', async () => {
  const s = script()
  const told = listen(s, ...ends)
  const first = s.locks.mutex('m').acquire()
  await settle()
  await assert.rejects(s.locks.mutex('m').acquire({ maxPending: 1 }), { code: 'TOO_MANY_WAITERS' })
  s.asked[0]!.grant()
  await (await first).release()
  assert.deepEqual(brief(told), ['requested 1', 'requested 2', 'denied failed 2', 'granted 1'])
})

test('closing denies the waits and releases the leases, each with its event', async () => {
  const s = script()
  const told = listen(s, ...ends, 'released', 'lost')
  const holding = s.locks.mutex('held').acquire()
  const waiting = s.locks.mutex('waited for').acquire()
  waiting.catch(() => undefined)
  await settle()
  s.asked[0]!.grant()
  await holding
  const closing = s.locks.close()
  await settle()
  s.asked[1]!.nothing()
  await settle()
  await closing
  assert.deepEqual(brief(told), [
    'requested 1',
    'requested 2',
    'granted 1',
    'denied failed 2',
    'released released',
  ])
})

test('a hand-over inside the process is a grant of its own acquisition', async () => {
  const s = script()
  const told = listen(s, ...ends, 'released')
  const first = s.locks.mutex('m').acquire()
  const second = s.locks.mutex('m').acquire()
  await settle()
  let token = 100
  s.asked[0]!.grant({ nextReservedToken: () => ++token, contended: () => false })
  await (await first).release()
  await (await second).release()
  assert.deepEqual(brief(told), [
    'requested 1',
    'requested 2',
    'granted 1',
    'released released',
    'granted 2',
    'released released',
  ])
  assert.equal(told[4]?.handedOff, true)
})

test('a failed renewal, a silent one and a failed release are errors of the store', async () => {
  const s = script()
  const told = listen(s, 'storeError')
  const acquiring = s.locks.mutex('m').acquire({ ttl: 3_000 })
  await settle()
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  await s.clock.advance(1_000)
  grant.renewals[0]!.fail(new BackendError('scripted', 'refused'))
  await settle()
  assert.deepEqual(
    told.map(({ operation, code }) => [operation, code]),
    [['renew', 'BACKEND']],
  )
  await s.clock.advance(250)
  assert.equal(grant.renewals.length, 2)
  await s.clock.advance(500)
  await settle()
  assert.equal(told.length, 2, 'the second renewal has no reply in time')
  s.onRelease = () => Promise.reject(new BackendError('scripted', 'refused'))
  assert.equal(await lease.release(), 'unknown')
  const last = told.at(-1)
  assert.deepEqual([last?.name, last?.operation, last?.driver], ['m', 'release', 'scripted'])
  s.onRelease = async () => 'released'
  await s.locks.close()
})

test('a quarantine shows in the error of the store, and a renewal refused before it is sent is none', async () => {
  const s = script()
  const told = listen(s, 'storeError')
  const acquiring = s.locks.mutex('m').acquire()
  await settle()
  s.asked[0]!.wait.report?.({ error: new BackendError('scripted', 'quarantine', { quarantined: true }) })
  const grant = s.asked[0]!.grant()
  const lease = await acquiring
  const extending = lease.extend(1_000)
  grant.renewals[0]!.fail(new RangeError('too long'))
  await assert.rejects(extending, RangeError)
  assert.deepEqual(
    told.map(({ quarantined }) => quarantined),
    [true],
  )
  await lease.release()
})

test('a single attempt that is aborted as a hold that may only be cached refuses it ends once', async () => {
  const s = script()
  const denied = listen(s, 'denied')
  const controller = new AbortController()
  const trying = s.locks.mutex('m').tryAcquire({ signal: controller.signal })
  const holder = {
    attempt: 'other-z',
    mode: { kind: 'exclusive' },
    token: 1,
    heldFor: 1,
    expiresIn: 1_000,
  } as const
  s.asked[0]!.wait.report?.({ holder })
  s.asked[0]!.nothing()
  // The listener of the signal comes a turn of the event loop later.
  controller.abort()
  await assert.rejects(trying, { name: 'AbortError' })
  await settle()
  assert.deepEqual(
    denied.map(({ why }) => why),
    ['aborted'],
  )
  assert.equal(s.asked.length, 1, 'nothing is sent for it any more')
  await s.locks.close()
})
