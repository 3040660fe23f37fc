/** What the page knows, from the messages of the server. Without a browser: a test can drive it. */
import type { Entry, Gap, GaveUp, Init, Past, StoreState, Tick } from './wire.js'

export interface StoreModel extends Omit<StoreState, 'entries' | 'past' | 'gaveUp' | 'gaps'> {
  readonly entries: Map<string, Entry>
  /** The holds that are over, oldest first: all, and by name. */
  past: Past[]
  readonly pastOf: Map<string, Past[]>
  gaveUp: GaveUp[]
  gaps: Gap[]
}

export interface Model {
  readonly key: string
  readonly keeps: number
  /** The server's clock minus the browser's, in ms. */
  skew: number
  readonly stores: StoreModel[]
}

/** @param now the browser's clock */
export function begin(init: Init, now: number): Model {
  const { key, keeps } = init
  const stores = init.stores.map(({ entries, past, gaveUp, gaps, ...rest }) => ({
    ...rest,
    entries: new Map(entries.map((entry) => [entry.name, entry])),
    past: [...past],
    pastOf: byName(past),
    gaveUp: [...gaveUp],
    gaps: [...gaps],
  }))
  return { key, keeps, skew: init.now - now, stores }
}

function byName(past: readonly Past[]): Map<string, Past[]> {
  const found = new Map<string, Past[]>()
  for (const hold of past) add(found, hold)
  return found
}

function add(to: Map<string, Past[]>, hold: Past): void {
  const list = to.get(hold.name)
  if (list === undefined) to.set(hold.name, [hold])
  else list.push(hold)
}

/** The most holds that a browser keeps. */
const mostPast = 5_000

/** Changes the model by what the server said. */
export function advance(model: Model, tick: Tick, now: number): void {
  const store = model.stores.find(({ id }) => id === tick.id)
  if (store === undefined) return
  model.skew = tick.now - now
  for (const name of tick.gone) store.entries.delete(name)
  for (const entry of tick.changed) store.entries.set(entry.name, entry)
  for (const hold of tick.past) {
    store.past.push(hold)
    add(store.pastOf, hold)
  }
  store.gaveUp.push(...tick.gaveUp)
  if (tick.gap !== undefined) store.gaps.push(tick.gap)
  Object.assign(store, { health: tick.health }, tick.doctor !== undefined && { doctor: tick.doctor })
  forget(store, tick.now - model.keeps)
}

function forget(store: StoreModel, since: number): void {
  const keep = store.past.findIndex(({ to }) => to >= since)
  const first = Math.max(keep < 0 ? store.past.length : keep, store.past.length - mostPast)
  for (const hold of store.past.splice(0, first)) {
    const list = store.pastOf.get(hold.name)
    list?.shift()
    if (list?.length === 0) store.pastOf.delete(hold.name)
  }
  store.gaveUp = store.gaveUp.filter(({ at }) => at >= since).slice(-mostPast)
  store.gaps = store.gaps.filter(({ to }) => to >= since)
}
