/** The names of a store: a real table of which only the rows in sight exist, so that 5,000 names cost as much as 30. */
import { useEffect, useRef, useState } from 'preact/hooks'
import type { StoreModel } from '../model.js'
import { lasted, listed, type Order, visible } from '../stats.js'
import type { Entry } from '../wire.js'
import { hrefOf } from './route.js'
import { Strip } from './strip.js'

/** As in page.css. */
const rowHeight = 52
const spare = 6
const orders: readonly (readonly [Order, string])[] = [
  ['waiting', 'most waiters'],
  ['age', 'longest held'],
  ['name', 'name'],
]

export function Names({ store, now, wanted }: { store: StoreModel; now: number; wanted: string }) {
  const [order, setOrder] = useState<Order>('waiting')
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  const box = useRef<HTMLElement>(null)
  const entries = listed(store, wanted, order)
  const first = Math.max(0, Math.floor(top / rowHeight) - spare)
  const shown = entries.slice(first, first + Math.ceil(height / rowHeight) + 2 * spare)
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const watch = new ResizeObserver(() => setHeight(element.clientHeight))
    watch.observe(element)
    return () => watch.disconnect()
  }, [])
  const below = Math.max(0, entries.length - first - shown.length)
  return (
    <div class="names">
      <div class="orders">
        <span>
          {entries.length === store.entries.size
            ? `${entries.length} ${entries.length === 1 ? 'name' : 'names'}`
            : `${entries.length} of ${store.entries.size} names`}
        </span>
        <label>
          by{' '}
          <select value={order} onChange={(event) => setOrder(event.currentTarget.value as Order)}>
            {orders.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      </div>
      <section
        class="rows"
        ref={box}
        aria-label={`names of ${store.id}`}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        onKeyDown={(event) => move(event, box.current)}
      >
        <div style={{ paddingTop: `${first * rowHeight}px`, paddingBottom: `${below * rowHeight}px` }}>
          <table aria-rowcount={entries.length + 1}>
            <thead>
              <tr aria-rowindex={1}>
                <th scope="col">name, holder</th>
                <th scope="col">held for</th>
                <th scope="col">queue</th>
                <th scope="col" class="wide">
                  last two minutes
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry, i) => (
                <Row key={entry.name} store={store} entry={entry} now={now} index={first + i + 2} />
              ))}
            </tbody>
          </table>
        </div>
        {entries.length === 0 && (
          <p class="empty">{wanted === '' ? 'No lock is held or waited for.' : 'Nothing matches.'}</p>
        )}
      </section>
    </div>
  )
}

function Row({ store, entry, now, index }: { store: StoreModel; entry: Entry; now: number; index: number }) {
  const { name, holders, waiting } = entry
  const [holder] = holders
  const overdue = holder?.until != null && holder.until < now
  return (
    <tr class="name" aria-rowindex={index}>
      <td>
        <a href={hrefOf(store.id, name)}>{visible(name)}</a>
        <small>
          {holder === undefined ? 'free, waited for' : visible(holder.client ?? 'holder unknown')}
          {holders.length > 1 && ` and ${holders.length - 1} more`}
          {holder?.note !== undefined && <em> {visible(holder.note)}</em>}
        </small>
      </td>
      <td class={overdue ? 'overdue' : ''}>
        {holder === undefined ? '–' : lasted(now - holder.since)}
        {overdue && <small>overdue</small>}
      </td>
      <td>
        <Dots waiting={waiting} />
      </td>
      <td class="wide">
        <Strip store={store} entry={entry} now={now} />
      </td>
    </tr>
  )
}

const mostDots = 8

function Dots({ waiting }: { waiting: number }) {
  if (waiting === 0) return <span class="none">none</span>
  const dots = Math.min(waiting, mostDots)
  return (
    <span class="dots">
      <span aria-hidden="true">{'●'.repeat(dots)}</span> {waiting}
    </span>
  )
}

/** Arrow keys move from name to name. */
function move(event: KeyboardEvent, box: HTMLElement | null): void {
  if (box === null || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return
  const links = [...box.querySelectorAll<HTMLElement>('tr.name a')]
  const at = links.indexOf(document.activeElement as HTMLElement)
  const next = links[at + (event.key === 'ArrowDown' ? 1 : -1)]
  if (at < 0 || next === undefined) return
  event.preventDefault()
  next.focus({ preventScroll: true })
  next.scrollIntoView({ block: 'center' })
}
