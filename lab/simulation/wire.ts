/**
 * The network between a process and a server: connections that keep order, delay messages, and break.
 *
 * When one breaks, messages in flight may be lost or may still arrive, in both directions, and the two ends notice at
 * different times; so a request can reach the server after the next connection is up.
 */
import type { SimulatedProcess } from './process.js'
import type { World } from './world.js'

/** The server's end of one connection. */
export interface Remote<Down> {
  readonly process: SimulatedProcess
  /** Is the connection up, as far as the server has noticed? */
  readonly open: boolean
  send(message: Down): void
}

export interface Service<Up, Down> {
  onMessage(from: Remote<Down>, message: Up): void
  /** The server has noticed the end of a connection. */
  left(from: Remote<Down>): void
}

export interface Wires {
  /** Breaks the connections of one process, or of all. */
  cut(process?: SimulatedProcess): void
  /** The server restarts: it reads nothing of what was sent to it before, and breaks all connections. */
  restart(): void
  /** The server is frozen for this many ms: it replies late. */
  freeze(ms: number): void
  /** Milliseconds added to every delay: a slow network. */
  slow(by: number, ms: number): void
}

/** The process's end. */
export interface Wire<Up> {
  readonly up: boolean
  /** Sends a message over the current connection; does nothing if there is none. */
  send(message: Up): void
  close(): void
}

export interface Network<Up, Down> extends Wires {
  /** Connects, and again whenever the connection breaks. `noticed` is called at every change of `up`. */
  connect(
    process: SimulatedProcess,
    end: { heard(message: Down): void; noticed(up: boolean): void },
  ): Wire<Up>
}

/** The delay of one message, in ms; sometimes ten times as long. */
const way = { least: 0.05, most: 2 }
/** How long a process takes to reconnect, in ms. */
const reconnect = { least: 1, most: 120 }

export function makeNetwork<Up, Down>(world: World, service: Service<Up, Down>): Network<Up, Down> {
  const { chance } = world
  /** Connections whose end the server has not noticed. */
  const connections = new Set<{ readonly process: SimulatedProcess; cut(): void; restart(): void }>()
  let frozenUntil = 0
  let slowUntil = 0
  let slower = 0

  const between = (range: { readonly least: number; readonly most: number }) =>
    range.least + chance() * (range.most - range.least)
  const delay = () =>
    between(way) * (chance() < 0.05 ? 10 : 1) + (world.now < slowUntil ? slower * chance() : 0)

  /** At the server: late if it is frozen. */
  function atServer(at: number, fn: () => void): void {
    world.atServer(at, () => {
      if (world.now < frozenUntil) atServer(frozenUntil, fn)
      else fn()
    })
  }

  const connect: Network<Up, Down>['connect'] = (process, end) => {
    let up = false
    let closed = false
    let current: { send(message: Up): void; cut(): void; end(): void } | undefined

    function open(): void {
      if (closed || !process.alive) return
      let here = true
      let there = true
      let lastUp = world.now
      let lastDown = world.now
      // In the order in which messages were sent: simultaneous events run in any order, and each delivers the first pending message.
      const toServer: (() => void)[] = []
      const toProcess: Down[] = []
      /** A message in flight when the connection breaks may or may not arrive; nothing arrives after a lost one. */
      let broken = false
      let lost = false
      const arrive = () => toServer.shift()?.()
      const remote: Remote<Down> = {
        process,
        get open() {
          return there
        },
        send(message) {
          if (!there) return
          lastDown = Math.max(lastDown, world.now + delay())
          toProcess.push(message)
          process.hears(lastDown, () => {
            const first = toProcess.shift() as Down
            if (here && !closed) end.heard(first)
          })
        },
      }
      const endThere = () => {
        if (!there) return
        there = false
        connections.delete(entry)
        service.left(remote)
      }
      const noticeHere = (after: number) =>
        process.hears(world.now + after, () => {
          if (!here) return
          here = false
          up = false
          current = undefined
          if (closed) return
          end.noticed(false)
          process.clock.at(process.clock.now() + between(reconnect), open)
        })
      const wire = {
        send(message: Up) {
          lastUp = Math.max(lastUp, world.now + delay())
          // A server reads nothing from a connection that it knows has ended.
          toServer.push(() => {
            if (there) service.onMessage(remote, message)
          })
          atServer(lastUp, () => {
            // Lost half of the time; what arrives may be late, as if from a queue in the network.
            if (broken && chance() < 0.5) lost = true
            if (lost) return
            if (broken && chance() < 0.5) atServer(world.now + chance() * 300, arrive)
            else arrive()
          })
        },
        cut() {
          if (broken || closed) return
          broken = true
          atServer(world.now + (chance() < 0.7 ? delay() : chance() * 1_000), endThere)
          noticeHere(chance() < 0.7 ? delay() : chance() * 500)
        },
        end() {
          here = false
          if (broken) return
          // The server notices the end only after everything sent before it.
          toServer.push(endThere)
          atServer(Math.max(lastUp, world.now + delay()), arrive)
        },
      }
      const restart = () => {
        wire.cut()
        endThere()
      }
      const entry = { process, cut: wire.cut, restart }
      connections.add(entry)
      process.hears(world.now + 2 * delay(), () => {
        if (!here || closed) return
        current = wire
        up = true
        end.noticed(true)
      })
    }

    open()
    return {
      get up() {
        return up
      },
      send: (message) => current?.send(message),
      close() {
        closed = true
        up = false
        current?.end()
        current = undefined
      },
    }
  }

  return {
    connect,
    cut(process) {
      for (const one of [...connections]) if (process === undefined || one.process === process) one.cut()
    },
    restart() {
      for (const one of [...connections]) one.restart()
    },
    freeze(ms) {
      frozenUntil = Math.max(frozenUntil, world.now + ms)
    },
    slow(by, ms) {
      slower = by
      slowUntil = world.now + ms
    },
  }
}
