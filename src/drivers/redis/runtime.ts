/** Shared driver state: request pipeline, subscriber, waiters, holds. */
import { type Clock, ttlWithDelay } from '../../core/clock.js'
import type { Claim, Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { quote } from '../../core/name.js'
import { tokenReserve } from '../../core/token.js'
import { MaxTtlError } from '../kit/max-ttl-error.js'
import { livenessWindow } from '../kit/push-schedule.js'
import { Retries } from '../kit/retries.js'
import { micros } from './acquire-codec.js'
import type { CellListener } from './cells.js'
import type { Connection } from './client.js'
import { toFailure } from './failure.js'
import type { Hold } from './hold.js'
import { bootKey, channelName, type Keys, slotMarkerKey } from './keys.js'
import { toResult } from './multi-step-reply.js'
import type { Settings } from './options.js'
import { answerTo, createPipeline, type Pipeline, type Preamble } from './pipeline.js'
import { keySlot } from './redirections.js'
import { cancel } from './scripts/verbs.js'
import { createServer, type Identity, type Server } from './server.js'
import { createSubscriber, type Notification, type Subscriber } from './subscriber.js'
import type { Waiter } from './waiter.js'

export interface Runtime {
  readonly clock: Clock
  readonly random: () => number
  readonly settings: Settings
  readonly pipeline: Pipeline
  readonly server: Server
  readonly subscriber: Subscriber
  readonly waiters: Map<string, Waiter>
  readonly holds: Map<string, Hold>
  /** Listeners of each cell, by its key as the server sees it. */
  readonly cellListeners: Map<string, Set<CellListener>>
  /** @throws RangeError when the ttl, without its share of `lockDelay`, is longer than a quarantine. Nobody relies on the `lockDelay` */
  ensureCompatible(ttl: number, claim: Claim): void
  /**
   * Ends an attempt. If the server does not answer now, retries in the background for as long as the attempt could block others: while it
   * counts as alive it may be granted the lock, for its ttl. Retries once more at `close()`. Resolves after the first try.
   * @param ghost how long the server refuses late requests of the attempt, in ms
   */
  cancel(attempt: string, keys: Keys, ttl: number, ghost: number): Promise<void>
  notEnoughReplicas(replicas: number): BackendError
  /** Waits for pending cancels, at most as long as a request may take, then ends everything. */
  close(): Promise<void>
}

/** @param listener its connection is reserved for the subscription (`dedicated`), or the subscriber duplicates it */
export function createRuntime(
  connection: Connection,
  listener: { readonly connection: Connection | undefined; readonly setApart: boolean },
  settings: Settings,
  env: Env,
): Runtime {
  const { clock } = env
  const waiters = new Map<string, Waiter>()
  const holds = new Map<string, Hold>()
  const cellListeners = new Map<string, Set<CellListener>>()
  const later = new Set<() => void>()
  const cancels = new Retries(clock, (error) => toFailure(error, connection).transient)
  let closed = false
  const { replicas, replicaTimeout } = settings
  const needed = { needed: replicas, timeout: replicaTimeout }
  const pipeline = createPipeline(connection, clock, settings.commandTimeout, header, needed, {
    up: () => check(),
    answer: (now) => server.isCurrent(now),
  })
  const server = createServer(connection, settings, clock, env.id().slice(0, 16), () => subscriber.move())
  const channel = channelName(settings.prefix, env.id())
  const subscriber = createSubscriber(listener.connection, listener.setApart, channel, {
    push: (push) => onNotification(push),
    up: () => {
      for (const waiter of waiters.values()) waiter.ask()
      // Somebody may have taken them by force while no notification arrived.
      check()
      // They read again, and register the channel.
      for (const listeners of cellListeners.values()) for (const listener of listeners) listener.changed()
    },
  })
  const by = env.client.replace(/\s/g, '_') || '?'

  const { cluster, keyPrefix } = connection
  const marked = settings.quarantine === 'strict'
  const refusal = settings.eviction === 'refuse' ? ' e' : ''

  // Rebuilt only when a part has changed: every command carries it. In a Cluster the first and the last argument are those of the slot.
  let made: Preamble | undefined
  let madeFor: Identity | undefined
  let madeOn: string | undefined
  function header(key: string): Preamble {
    const { identity, maxTtl } = server
    const { channel } = subscriber
    if (made === undefined || identity !== madeFor || channel !== madeOn) {
      made = compose(identity)
      madeFor = identity
      madeOn = channel
    }
    if (!cluster) return made
    const slot = keySlot(keyPrefix + key)
    const marker = marked ? keyPrefix + slotMarkerKey(settings.prefix, slot) : ''
    const last = `${slot} ${micros(maxTtl)}${refusal}`
    return { boot: undefined, args: [marker, ...made.args.slice(1, 4), last] }
  }

  function compose(identity: Identity | undefined): Preamble {
    return {
      boot: identity === undefined ? undefined : bootKey(settings.prefix),
      args: [
        identity === undefined ? '' : `0 ${identity.boot} ${identity.lineage} `,
        `${subscriber.channel} ${by}`,
        String(tokenReserve),
        String(settings.retention),
        '0',
      ],
    }
  }

  /** The connection or the subscription is back: report leases lost meanwhile at once, not at their next renewal. */
  function check(tries = 40): void {
    if (closed || holds.size === 0) return
    // Notifications may have been lost, and the server may be another one: what is cached goes back.
    for (const hold of [...holds.values()]) hold.onContended?.()
    const all = () => {
      for (const hold of holds.values()) hold.check()
    }
    // The server may be loading its data.
    const again = () => {
      if (!closed && tries > 0) soon(250, () => check(tries - 1))
    }
    const known = server.reached(pipeline.epoch)
    if (known === undefined) all()
    else known.then(all, again)
  }

  function soon(ms: number, work: () => void): void {
    const run = () => {
      later.delete(stop)
      work()
    }
    const stop = clock.at(clock.now() + ms, run, { ref: false })
    later.add(stop)
  }

  function onNotification(push: Notification): void {
    if (push.is === 'changed') for (const listener of cellListeners.get(push.key) ?? []) listener.changed()
    else if (push.is === 'next') waiters.get(push.attempt)?.expectTurnIn(push.left / 1000)
    else if (push.is === 'turn') waiters.get(push.attempt)?.onNotification(push.is)
    // The reply that makes it a holder comes over another connection, and may come later.
    else (holds.get(push.attempt) ?? waiters.get(push.attempt))?.onNotification(push.is)
  }

  const runtime: Runtime = {
    clock,
    random: env.random,
    settings,
    pipeline,
    server,
    subscriber,
    waiters,
    holds,
    cellListeners,
    ensureCompatible(ttl, { name, lockDelay = 0 }) {
      const reliedOn = ttl - ttlWithDelay(0, lockDelay)
      const { maxTtl } = settings
      if (reliedOn > maxTtl) throw new MaxTtlError(`redis: ${quote(name)}`, reliedOn, maxTtl)
    },
    cancel(attempt, keys, ttl, ghost) {
      const once = async (): Promise<void> => {
        const [reply, flight] = await answerTo(pipeline, cancel, keys, [attempt, micros(ghost)])
        toResult(runtime, keys, reply, flight)
      }
      return cancels.try(once, clock.now() + livenessWindow.reachable + ttl)
    },
    notEnoughReplicas: (got) =>
      new BackendError(
        'redis',
        `${got} of ${replicas} replicas acknowledged within ${replicaTimeout} ms; the grant does not count`,
        { transient: true },
      ),
    async close() {
      closed = true
      for (const waiter of waiters.values()) waiter.stop()
      const over = new BackendError('redis', 'these locks were closed', { closed: true })
      for (const listeners of cellListeners.values()) for (const listener of listeners) listener.closed(over)
      await cancels.close(settings.commandTimeout)
      for (const hold of holds.values()) hold.drop()
      for (const stop of later) stop()
      later.clear()
      subscriber.close()
      pipeline.close()
    },
  }
  return runtime
}
