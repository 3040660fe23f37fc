// ADR 0033: a grant that is passed on inside a process by a request to the store. Waiters that are aborted meanwhile, a pass whose reply
// is lost, a client that is cut off, and a process that is killed during passes.
// Second tier because it repeats for three stores under stress what drivers/kit/sessions/passing.test.ts and each store's faults show once.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { after, type TestContext, test } from 'node:test'
import type { ChildClient } from 'holdfast/conformance'
import { createLocks, type DriverFactory, type Locks } from '../../src/index.js'
import type { Granted, PassingTask } from '../drivers/support/passing-child.js'
import { bound, type Session, type Store, startStores, ttlOf } from '../drivers/support/passing-stores.js'
import { forEver, inventing, nothingLeft, queued, storm, work } from '../drivers/support/storm.js'
import { leakCheck } from '../support/leaks.js'
import { startProxy, type TcpProxy } from '../support/proxy.js'
import { until } from '../support/until.js'

const { stores, stop } = await startStores()
after(stop)

function join(t: TestContext, driver: DriverFactory, session: Session): Locks {
  const locks = createLocks(driver, { ttl: ttlOf[session] })
  t.after(() => locks.close())
  return locks
}

async function behindCable(
  t: TestContext,
  store: Store,
  session: Session,
): Promise<{ locks: Locks; cable: TcpProxy }> {
  const cable = await startProxy({ port: store.port })
  const locks = createLocks(store.at(cable.port, session), { ttl: ttlOf[session] })
  t.after(async () => {
    cable.heal()
    await locks.close()
    await cable.stop()
  })
  return { locks, cable }
}

for (const store of stores) {
  const { name: driver, port, at } = store

  for (const seed of [1, 2])
    test(`${driver}: of 200 waiters 195 are aborted during passes: the others and another client get the lock, and nothing is left (seed ${seed})`, async (t) => {
      const [a, b] = [join(t, at(port, 'long'), 'long'), join(t, at(port, 'long'), 'long')]
      const name = `storm ${seed}`
      const { passed, kept } = await storm(a, b, name, seed)
      assert.ok(passed > 0, 'nothing was passed on')
      assert.equal(kept, 5)
      await nothingLeft(b, name)
    })

  test(`${driver}: a token that was passed on without asking the store is noticed by the same test`, async (t) => {
    const [a, b] = [join(t, inventing(at(port, 'long')), 'long'), join(t, at(port, 'long'), 'long')]
    await assert.rejects(storm(a, b, 'invented', 1), /the store names another token/)
  })

  test(`${driver}: a pass whose reply is lost gives the local waiter no token, and both clients get the lock`, async (t) => {
    const { b, cable, heir, name, minted } = await passing(t, store, 'long')
    const does = work(b, name)
    const other = b.mutex(name).acquire(forEver)
    cable.reset()
    cable.down.pass()
    const leases = [heir, other].map((granted) => granted.then((lease) => does(lease).then(() => lease)))
    for (const { token } of await Promise.all(leases))
      assert.ok(token > minted, `${token} came after ${minted}`)
    await nothingLeft(b, name)
  })

  test(`${driver}: a client that is cut off during a pass gives its local waiter nothing, and another gets the lock`, async (t) => {
    const { b, cable, heir, name, minted } = await passing(t, store, 'short')
    const does = work(b, name)
    let granted = false
    const later = heir.then((lease) => {
      granted = true
      return does(lease)
    })
    cable.refuse()
    cable.reset()
    cable.down.pass()
    const other = await b.mutex(name).acquire({ wait: bound })
    assert.ok(other.token > minted, `${other.token} came after ${minted}`)
    await cable.accept()
    await queued(b, name, 1)
    assert.equal(granted, false, 'the local waiter was granted what another holds')
    await does(other)
    await later
    await nothingLeft(b, name)
  })

  test(`${driver}: a process that is killed during passes blocks others for no longer than its session`, async (t) => {
    const b = join(t, at(port, 'long'), 'long')
    await Promise.all(
      [5, 50].map(async (passes) => {
        const name = `killed after ${passes}`
        const { lease, last } = await afterKill(t, b, store.child, name, passes)
        assert.ok(lease.token > last, `${lease.token} came after ${last}`)
        await work(b, name)(lease)
        await nothingLeft(b, name)
      }),
    )
  })
}

/** A client behind a cable whose request for a pass was carried out, and is not answered. */
async function passing(t: TestContext, store: Store, session: Session) {
  const b = join(t, store.at(store.port, 'long'), 'long')
  const { locks: a, cable } = await behindCable(t, store, session)
  const name = `cut ${session}`
  const lease = await a.mutex(name).acquire()
  const [first] = (await b.inspect(name)).holders
  const heir = a.mutex(name).acquire(forEver)
  cable.down.hold()
  lease.release().catch(() => undefined)
  const newer = async () => (await b.inspect(name)).holders.find(({ token }) => token > lease.token)
  const { token: minted, attempt } = await until(newer, { what: 'the pass to be carried out' })
  // A process that is paused for a moment passes nothing on whose ttl is short, and takes the lock again.
  if (session === 'long') assert.equal(attempt, first?.attempt, 'it was released and taken anew')
  return { b, cable, heir, name, minted }
}

/** Kills a child with its so many-th pass. Resolves with what `b` is granted then, and the last token that the child reported. */
async function afterKill(t: TestContext, b: Locks, client: ChildClient, name: string, passes: number) {
  const task: PassingTask = { client, name, ttl: ttlOf.short, wanting: 20 }
  const file = new URL('../drivers/support/passing-child.js', import.meta.url)
  const child = fork(file, [], { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  t.after(() => void child.kill('SIGKILL'))
  const closed = once(child, 'close')
  let [last, passed] = [0, 0]
  child.on('message', ({ token, handedOff }: Granted) => {
    last = Math.max(last, token)
    if (handedOff && ++passed === passes) child.kill('SIGKILL')
  })
  child.send(task)
  await closed
  assert.ok(passed >= passes, `the child ended after ${passed} passes`)
  return { lease: await b.mutex(name).acquire({ wait: bound }), last }
}

after(leakCheck)
