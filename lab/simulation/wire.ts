/**
 * The way between a process and a server: connections that keep order, take their time, and break.
 *
 * When one breaks, what is on its way may be lost or may still arrive, in both directions, and the two ends notice at
 * different moments; a request can then reach the server after the next connection is up.
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
  /** The server ends and begins anew: it reads nothing any more of what was sent to it, and breaks the connections of all. */
  restart(): void
  /** The server stands still for so many ms: it answers late. */
  freeze(ms: number): void
  /** Milliseconds added to every way: a slow network. */
  slow(by: number, ms: number): void
}

/** The process's end. */
export interface Wire<Up> {
  readonly up: boolean
  /** Says it over the connection that is up; nothing happens if none is. */
  send(message: Up): void
  close(): void
}

export interface Network<Up, Down> extends Wires {
  /** Connects, and again whenever the connection breaks. `noticed` is called at every change of `up`. */
  connect(
    process: SimulatedProcess,
    ear: { heard(message: Down): void; noticed(up: boolean): void },
  ): Wire<Up>
}

/** One way takes this long, in ms, and sometimes ten times as long. */
const way = { least: 0.05, most: 2 }
/** Until a process has connected again, in ms. */
const reconnect = { least: 1, most: 120 }

export function makeNetwork<Up, Down>(world: World, service: Service<Up, Down>): Network<Up, Down> {
  const { chance } = world
  /** Those that the server has not seen end. */
  const connections = new Set<{ readonly process: SimulatedProcess; cut(): void; restart(): void }>()
  let frozenUntil = 0
  let slowUntil = 0
  let slower = 0

  const between = (range: { readonly least: number; readonly most: number }) =>
    range.least + chance() * (range.most - range.least)
  const delay = () =>
    between(way) * (chance() < 0.05 ? 10 : 1) + (world.now < slowUntil ? slower * chance() : 0)

  /** At the server: late if it stands still. */
  function atServer(at: number, fn: () => void): void {
    world.atServer(at, () => {
      if (world.now < frozenUntil) atServer(frozenUntil, fn)
      else fn()
    })
  }

  const connect: Network<Up, Down>['connect'] = (process, ear) => {
    let up = false
    let closed = false
    let current: { send(message: Up): void; cut(): void; end(): void } | undefined

    function open(): void {
      if (closed || !process.alive) return
      let here = true
      let there = true
      let lastUp = world.now
      let lastDown = world.now
      // In the order in which it was sent: events of one moment come in any order, and each hands on what is first in line.
      const toServer: (() => void)[] = []
      const toProcess: Down[] = []
      /** What is still on its way when it breaks, arrives or not; after what is lost nothing arrives. */
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
            if (here && !closed) ear.heard(first)
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
          ear.noticed(false)
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
            // Lost half of the time; what arrives may be late, as from a queue on the way.
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
          // The server notices the end after what was sent before it.
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
        ear.noticed(true)
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
