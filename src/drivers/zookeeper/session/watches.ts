/** The registered watches. A watch fires once. The server has one watch per path and kind, for any number of listeners. */
import type { Writer } from './jute.js'
import type { Watch, WatchKind } from './protocol.js'

/** Bytes of paths in one setWatches message: a server refuses messages beyond 1 MiB, headers included. */
const maxBytes = 128 * 1024

export class Watches {
  readonly #listening: Readonly<Record<WatchKind, Map<string, Set<() => void>>>> = {
    data: new Map(),
    child: new Map(),
    exist: new Map(),
  }

  add({ kind, path, fired }: Watch): void {
    const set = this.#listening[kind].get(path) ?? new Set()
    this.#listening[kind].set(path, set)
    set.add(fired)
  }

  /** Removes a listener. The server keeps its watch, which fires at most once more. */
  drop({ kind, path, fired }: Watch): void {
    const set = this.#listening[kind].get(path)
    set?.delete(fired)
    if (set?.size === 0) this.#listening[kind].delete(path)
    if (kind === 'data') this.drop({ kind: 'exist', path, fired })
  }

  /** Handles an event of the server. Types: 1 created, 2 deleted, 3 data changed, 4 children changed. */
  fire(type: number, path: string): void {
    if (type === 1) this.#notify('exist', path)
    if (type !== 4) this.#notify('data', path)
    if (type === 4 || type === 2) this.#notify('child', path)
  }

  /** The session has ended, and its watches with it. */
  clear(): void {
    this.#listening.data.clear()
    this.#listening.child.clear()
    this.#listening.exist.clear()
  }

  /**
   * The watches to set on a new connection of the same session, in pieces. The server then reports everything that has changed since, deletions
   * above all.
   */
  pieces(): readonly ((to: Writer) => void)[] {
    const all = (['data', 'child', 'exist'] as const).flatMap((kind) =>
      [...this.#listening[kind].keys()].map((path) => ({ kind, path })),
    )
    const pieces: { readonly data: string[]; readonly child: string[]; readonly exist: string[] }[] = []
    let bytes = Number.POSITIVE_INFINITY
    for (const { kind, path } of all) {
      if (bytes > maxBytes) {
        pieces.push({ data: [], child: [], exist: [] })
        bytes = 0
      }
      bytes += Buffer.byteLength(path) + 4
      pieces.at(-1)?.[kind].push(path)
    }
    return pieces.map(
      ({ data, child, exist }) =>
        (to) =>
          void to.texts(data).texts(exist).texts(child),
    )
  }

  #notify(kind: WatchKind, path: string): void {
    const set = this.#listening[kind].get(path)
    this.#listening[kind].delete(path)
    for (const fired of set ?? []) fired()
  }
}
