/** Three of the [stories](../../examples/stories), to watch: the history records who works on the account or the order, and when. */
import type { Lock, Locks } from 'holdfast'
import { type Recorder, recordLocks } from 'holdfast/verify'
import { earlyRelease } from '../../examples/stories/early-release.js'
import { orders } from '../../examples/stories/orders.js'
import { points } from '../../examples/stories/points.js'
import { crowd } from '../../examples/stories/run-story.js'
import type { Host, Mode, Story as Told } from '../../examples/stories/story.js'
import { databaseUrl } from './database.js'
import { recordedLock } from './recorded-lock.js'
import type { Scene, Side } from './scene.js'

const workers = 6

/** One of the stories, with a few workers. */
interface Story extends Pick<Scene, 'name' | 'title' | 'story' | 'holdfastDoes' | 'page'> {
  readonly text: Told
  /** The name of its lock. */
  readonly lock: string
  readonly naive: string
  /** Does it have a lock even where it fails? Then work begins with that. */
  readonly locked?: boolean
  readonly loss: (count: number) => string
}

function watched({ text, naive, lock, locked = false, loss, ...telling }: Story): Scene {
  const side = (mode: Mode, title: string): Side => ({
    title,
    async play(place) {
      const work: Told['work'] = (host, _, worker, pause) => {
        const recorder = place.history.recorder(String.fromCharCode(65 + worker), worker + 1)
        const part = (as: Host) => text.work(as, mode, worker, pause)
        if (mode === 'locked') return part({ ...host, locks: recordLocks(host.locks as Locks, recorder) })
        if (locked) return believing(recorder, lock, (entered) => part(entering(host, entered)))
        return believing(recorder, lock, (entered) => {
          entered()
          return part(host)
        })
      }
      const lost = await crowd(await databaseUrl(place), { ...text, workers, work }, mode)
      return { ok: lost === 0, saw: loss(lost) }
    },
  })
  return {
    ...telling,
    lock,
    store: 'mariadb',
    naive: side('bare', naive),
    holdfast: side('locked', 'holdfast/mysql'),
  }
}

/** A worker believes that nobody interferes between its start and its end. */
async function believing(
  recorder: Recorder,
  name: string,
  work: (entered: () => void) => Promise<void>,
): Promise<void> {
  let entered = () => {}
  const inside = new Promise<void>((resolve) => {
    entered = resolve
  })
  const held = recordedLock(recorder, { name, wait: 60_000 }, async () => {
    await inside
    return async () => 'done'
  })
  await work(entered)
  await (await held)?.release()
}

/** The same host, whose lock reports when it is acquired. */
function entering(host: Host, entered: () => void): Host {
  const mutex: Host['locks']['mutex'] = (name) => {
    const lock = host.locks.mutex(name)
    const run: Lock['run'] = (fn, options) =>
      lock.run((lease) => {
        entered()
        return fn(lease)
      }, options)
    return {
      name,
      run,
      acquire: (options) => lock.acquire(options),
      tryAcquire: (options) => lock.tryAcquire(options),
      waitUntilFree: (options) => lock.waitUntilFree(options),
    }
  }
  return { ...host, locks: { mutex } }
}

export const releaseBeforeCommit: Scene = watched({
  name: 'release-before-commit',
  title: 'Released before the commit',
  story: `${workers} spend 10 points each. The lock is inside the transaction: it is released, and then the transaction commits.`,
  holdfastDoes:
    'The lock goes around the transaction, or is part of it (`inTransaction`). No lock helps if it is released too early: the next holder reads data that is not committed yet.',
  page: 'stories.md#release-before-commit',
  text: earlyRelease,
  lock: 'account:42',
  naive: 'lock inside, transaction around',
  locked: true,
  loss: (count) => `${count} of ${10 * workers} points were spent and are still there`,
})

export const pointsRace: Scene = watched({
  name: 'points-race',
  title: 'Points redeemed while points are granted',
  story: `${workers} change one balance, half of them up and half of them down. Each reads it, computes the new value, and writes it.`,
  holdfastDoes: 'Each worker holds the account’s lock from the read to the write.',
  page: 'stories.md',
  text: points,
  lock: 'account:42',
  naive: 'read, compute, write',
  loss: (count) => `the balance is ${count} points away from what the ledger says`,
})

export const duplicateOrder: Scene = watched({
  name: 'duplicate-order',
  title: 'An order is placed twice',
  story: `One order comes ${workers} times. Each request checks whether the order exists, and inserts it if it does not.`,
  holdfastDoes:
    'The check and the insert are one section under the lock of that order. A unique key belongs there as well.',
  page: 'stories.md#duplicate-order-five-ways-to-insert-only-once',
  text: orders,
  lock: 'order:981',
  naive: 'look, then insert',
  loss: (count) => `${count} orders too many`,
})
