/** What the parts of the driver share: the connection, the ear, who waits and who holds. */
import type { Clock } from '../../core/clock.js'
import type { Env } from '../../core/driver.js'
import { BackendError } from '../../core/errors.js'
import { tokenReserve } from '../../core/token.js'
import { micros } from './ask.js'
import type { Connection } from './client.js'
import { createEar, type Ear, type Push } from './ear.js'
import type { Hold } from './hold.js'
import { bootKey, channelOf, type Keys } from './keys.js'
import { answerTo, createLink, type Header, type Link } from './link.js'
import type { Settings } from './options.js'
import { cancel } from './scripts/verbs.js'
import { createServer, type Identity, type Server } from './server.js'
import { troubleOf } from './trouble.js'
import type { Waiter } from './waiter.js'

export interface CellListener {
  /** It may have changed. */
  changed(): void
  /** Nothing will be heard any more. */
  closed(error: BackendError): void
}

export interface Desk {
  readonly clock: Clock
  readonly random: () => number
  readonly settings: Settings
  readonly link: Link
  readonly server: Server
  readonly ear: Ear
  readonly waiters: Map<string, Waiter>
  readonly holds: Map<string, Hold>
  /** Who wants to hear of a cell, by its key as the server sees it. */
  readonly cellListeners: Map<string, Set<CellListener>>
  /** A ttl longer than any before: quarantines must last for it. */
  stretch(ttl: number): void
  /**
   * Ends an attempt, in the background for as long as it could block others if the server does not answer now. Resolves
   * when it has been tried once. @param ghost ms for which a late request of it is to be refused
   */
  cancel(attempt: string, keys: Keys, ttl: number, ghost: number): Promise<void>
  tooFew(replicas: number): BackendError
  /** Waits for what is being cancelled, as long as a request may take, then ends everything. */
  close(): Promise<void>
}

/** @param listener of which the ear makes its own connection, or which is set apart for it */
export function createDesk(
  connection: Connection,
  listener: { readonly connection: Connection | undefined; readonly setApart: boolean },
  settings: Settings,
  env: Env,
): Desk {
  const { clock } = env
  const waiters = new Map<string, Waiter>()
  const holds = new Map<string, Hold>()
  const cellListeners = new Map<string, Set<CellListener>>()
  const later = new Set<() => void>()
  const cancelling = new Set<Promise<void>>()
  let longest = settings.maxTtl
  let closed = false
  const { replicas, replicaTimeout } = settings
  const link = createLink(connection, clock, settings.commandTimeout, header, {
    needed: replicas,
    timeout: replicaTimeout,
  })
  const server = createServer(connection, settings, clock)
  const channel = channelOf(settings.prefix, env.id())
  const ear = createEar(listener.connection, listener.setApart, channel, {
    push: (push) => hear(push),
    up: () => {
      for (const waiter of waiters.values()) waiter.ask()
      // They look again, and say where they can be reached now.
      for (const listeners of cellListeners.values()) for (const listener of listeners) listener.changed()
    },
  })
  const by = env.by.replace(/\s/g, '_') || '?'

  // Made anew only when something in it has changed: it goes with every command.
  let made: Header | undefined
  let madeOf: readonly unknown[] = []
  function header(): Header {
    const { identity, marked } = server
    const upFor = connection.cluster ? server.upFor(longest) : 0
    const of = [identity, marked, ear.channel, longest, upFor]
    if (made === undefined || of.some((part, i) => part !== madeOf[i])) {
      made = compose(identity, marked, upFor)
      madeOf = of
    }
    return made
  }

  function compose(identity: Identity | undefined, marked: Server['marked'], upFor: number): Header {
    const max = micros(longest)
    const boot = identity?.boot ?? '-'
    const since = connection.cluster ? upFor * 1_000 : marked === 'here' ? 0 : (identity?.since ?? 0)
    const strict = marked !== undefined || settings.quarantine === 'strict'
    return {
      boot: identity === undefined ? undefined : bootKey(settings.prefix),
      args: [
        identity === undefined ? '' : `0 ${max} ${boot}`,
        `${ear.channel} ${by}`,
        String(tokenReserve),
        String(settings.retention),
        `${boot} ${since} ${max} ${strict ? 1 : 0} ${connection.cluster ? 1 : 0}`,
      ],
    }
  }

  function hear(push: Push): void {
    const { attempt } = push
    if (push.is === 'changed') {
      for (const listener of cellListeners.get(attempt) ?? []) listener.changed()
      return
    }
    if (push.is === 'next') return waiters.get(attempt)?.foretold(push.left / 1000)
    // The answer that makes it a holder comes over another connection, and may come later.
    if (push.is !== 'granted') return (holds.get(attempt) ?? waiters.get(attempt))?.hear(push.is)
    const waiter = waiters.get(attempt)
    if (waiter !== undefined) return waiter.push(push)
    if (holds.has(attempt)) return
    // Nobody here knows of it: it was given up, or a request of it arrived after that. Others must not wait for its claim.
    const hash = push.hash.slice(connection.keyPrefix.length)
    void desk.cancel(attempt, [hash, `${hash}:q`, `${hash}:d`], push.claim / 1000, 0)
  }

  const desk: Desk = {
    clock,
    random: env.random,
    settings,
    link,
    server,
    ear,
    waiters,
    holds,
    cellListeners,
    stretch(ttl) {
      if (ttl > longest) longest = ttl
    },
    cancel(attempt, keys, ttl, ghost) {
      const until = clock.now() + ttl
      const once = async (): Promise<void> => {
        try {
          await answerTo(link, cancel, keys, [attempt, micros(ghost)])
        } catch (error) {
          if (closed || !troubleOf(error, connection.ended).passing || clock.now() >= until) return
          const again = () => {
            later.delete(stop)
            void once()
          }
          const stop = clock.at(clock.now() + 250, again, { ref: false })
          later.add(stop)
        }
      }
      const first = once()
      cancelling.add(first)
      void first.finally(() => cancelling.delete(first))
      return first
    },
    tooFew: (got) =>
      new BackendError(
        'redis',
        `${got} of ${replicas} replicas acknowledged within ${replicaTimeout} ms; the grant does not count`,
      ),
    async close() {
      closed = true
      for (const waiter of waiters.values()) waiter.stop()
      const over = new BackendError('redis', 'these locks were closed', { closed: true })
      for (const listeners of cellListeners.values()) for (const listener of listeners) listener.closed(over)
      await Promise.allSettled(cancelling)
      for (const hold of holds.values()) hold.drop()
      for (const stop of later) stop()
      later.clear()
      ear.close()
      link.close()
    },
  }
  return desk
}
