/**
 * The store of the simulation: the reference table, which random commands on real servers prove equal to what they do
 * (`test/drivers/redis/differential.test.ts`), behind one message handler. Its mistakes are for showing that they are found.
 */
import { table } from '../../test/support/inside.js'
import { nobody, type World } from './world.js'

export type Request =
  | { readonly verb: 'acquire'; readonly name: string; readonly ask: table.Ask }
  | { readonly verb: 'renew'; readonly name: string; readonly attempt: string; readonly ttl: number }
  | {
      readonly verb: 'release' | 'downgrade'
      readonly name: string
      readonly attempt: string
      readonly last: number
    }
  | { readonly verb: 'cancel'; readonly name: string; readonly attempt: string }

export type StoreMistake =
  | 'keeps nobody waiting'
  | 'a release frees whoever holds'
  | 'tokens repeat'
  | 'a repeated acquire is another'
  | 'an overdue hold is renewed'
  | 'readers join a writer'

export interface Twin {
  handle(request: Request): unknown
  readonly rows: ReadonlyMap<string, table.Row>
}

/** @param push tells a waiter that it holds now */
export function makeTwin(world: World, push: (attempt: string) => void, mistake?: StoreMistake): Twin {
  const rows = new Map<string, table.Row>()
  const timers = new Map<string, () => void>()
  const wallAtZero = 1_700_000_000_000

  const apply = <A>(
    name: string,
    command: (row: table.Row, now: number, wall: number) => table.Step<A>,
  ): A => {
    const { now } = world
    const step = command(rows.get(name) ?? table.emptyRow(name), now, wallAtZero + now)
    rows.set(name, mistake === 'tokens repeat' ? { ...step.row, token: 0 } : step.row)
    if (mistake !== 'keeps nobody waiting') for (const hold of step.granted) push(hold.attempt)
    timers.get(name)?.()
    timers.delete(name)
    const due = table.nextExpiry(step.row)
    if (step.row.line.length > 0 && due < Number.POSITIVE_INFINITY) {
      timers.set(
        name,
        world.schedule(due, nobody, () => apply(name, table.expire)),
      )
    }
    return step.answer
  }

  /** Requests as a store with this mistake takes them. */
  const mistaken = (request: Request): Request => {
    const row = rows.get(request.name)
    const [holder] = row?.held ?? []
    if (mistake === 'a release frees whoever holds' && request.verb === 'release' && holder !== undefined) {
      return { ...request, attempt: holder.attempt }
    }
    if (mistake === 'a repeated acquire is another' && request.verb === 'acquire') {
      const ask = { ...request.ask, attempt: `${request.ask.attempt} ${world.steps}` }
      return { ...request, ask }
    }
    if (
      mistake === 'readers join a writer' &&
      request.verb === 'acquire' &&
      request.ask.mode.kind === 'shared'
    ) {
      const joined = row?.held.map((hold) => ({ ...hold, mode: { kind: 'shared' } as const }))
      if (row !== undefined && joined !== undefined) rows.set(request.name, { ...row, held: joined })
    }
    return request
  }

  return {
    rows,
    handle(given) {
      const request = mistaken(given)
      const { name } = request
      switch (request.verb) {
        case 'acquire':
          return apply(name, (row, now, wall) => table.acquire(row, request.ask, now, wall))
        case 'renew':
          if (mistake === 'an overdue hold is renewed') return { attempt: request.attempt }
          return apply(name, (row, now, wall) => table.renew(row, request.attempt, request.ttl, now, wall))
        case 'release':
          return apply(name, (row, now, wall) => table.release(row, request.attempt, request.last, now, wall))
        case 'downgrade':
          return apply(name, (row, now, wall) =>
            table.downgrade(row, request.attempt, request.last, now, wall),
          )
        case 'cancel':
          return apply(name, (row, now, wall) => table.cancel(row, request.attempt, now, wall))
      }
    },
  }
}
