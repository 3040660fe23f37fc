/**
 * The rows of a list of names: a real table of which only the rows in sight exist, so that 5,000 names cost as much as 30. For Tab the whole
 * list is one stop; the arrow keys, Page Up, Page Down, Home and End move within it.
 */
import type { RefObject } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { StoreModel } from '../model.js'
import { lasted, visible } from '../stats.js'
import type { Entry } from '../wire.js'
import { hrefOf } from './route.js'
import { Strip } from './strip.js'

/** As in page.css. */
const rowHeight = 52
const spare = 6

interface Props {
  readonly store: StoreModel
  readonly now: number
  readonly entries: readonly Entry[]
  /** The name whose page was left for this list: the keyboard goes on there. */
  readonly left: string | undefined
  /** What is said instead of rows. */
  readonly children: string
}

export function Rows({ store, now, entries, left, children }: Props) {
  const box = useRef<HTMLElement>(null)
  const { top, height, scrolled } = useScroll(box)
  const inSight = Math.floor(top / rowHeight)
  const { stop, focused, move } = useStop(box, entries, inSight, left)
  const first = Math.max(0, inSight - spare)
  const length = Math.ceil(height / rowHeight) + 2 * spare
  const shown = entries.slice(first, first + length).map((_, i) => first + i)
  // The stop exists even out of sight: a row that is removed takes the focus with it.
  if (stop >= 0 && stop < first) shown.unshift(stop)
  if (stop >= first + length) shown.push(stop)
  return (
    <section
      class="rows"
      ref={box}
      tabIndex={-1}
      aria-label={`names of ${store.id}`}
      onScroll={scrolled}
      onFocusIn={focused}
      onKeyDown={(event) => move(event, Math.max(1, Math.floor(height / rowHeight) - 1))}
    >
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
          {shown.flatMap((row, i) => {
            const entry = entries[row]
            if (entry === undefined) return []
            const before = row - (shown[i - 1] ?? -1) - 1
            return [
              ...(before > 0 ? [<Space key={`space before ${i === 0}`} rows={before} />] : []),
              <Row key={`row ${entry.name}`} {...{ store, entry, now, row }} stop={row === stop} />,
            ]
          })}
          <Space key="space after" rows={entries.length - 1 - (shown.at(-1) ?? -1)} />
        </tbody>
      </table>
      {entries.length === 0 && <p class="empty">{children}</p>}
    </section>
  )
}

/** Rows that do not exist. */
function Space({ rows }: { rows: number }) {
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: a row of a table cannot have the focus
    <tr class="space" aria-hidden="true">
      <td style={{ height: `${rows * rowHeight}px` }} />
    </tr>
  )
}

function useScroll(box: RefObject<HTMLElement | null>) {
  const [top, setTop] = useState(0)
  const [height, setHeight] = useState(600)
  useEffect(() => {
    const element = box.current
    if (element === null) return
    const watch = new ResizeObserver(() => setHeight(element.clientHeight))
    watch.observe(element)
    return () => watch.disconnect()
  }, [])
  const scrolled = (event: Event) => setTop((event.currentTarget as HTMLElement).scrollTop)
  return { top, height, scrolled }
}

/**
 * Which row Tab goes to: the one that had the focus last, wherever it is by now; when its name is gone, the one in its place.
 * @param inSight the stop before the first focus
 */
function useStop(
  box: RefObject<HTMLElement | null>,
  entries: readonly Entry[],
  inSight: number,
  left: string | undefined,
) {
  const place = useRef<{ name: string | undefined; row: number }>({ name: left, row: -1 })
  const [, render] = useState({})
  const { name, row } = place.current
  const found = name === undefined ? -1 : entries.findIndex((entry) => entry.name === name)
  const stop = Math.min(entries.length - 1, found >= 0 ? found : row >= 0 ? row : inSight)
  const goes = useRef(found >= 0)
  // Rendering moves and removes rows, and the focus with them.
  const inside = box.current?.contains(document.activeElement) === true
  useLayoutEffect(() => {
    if (found >= 0 || row >= 0) place.current = { name: entries[stop]?.name, row: Math.max(0, stop) }
    const lost = inside && box.current?.contains(document.activeElement) === false
    if (!goes.current && !lost) return
    goes.current = false
    const link = box.current?.querySelector<HTMLElement>('a[tabindex="0"]')
    ;(link ?? box.current)?.focus({ preventScroll: true })
    link?.scrollIntoView({ block: 'nearest' })
  })
  const choose = (at: number) => {
    place.current = { name: entries[at]?.name, row: at }
    render({})
  }
  const focused = ({ target }: FocusEvent) => {
    const at = (target as HTMLElement).closest<HTMLElement>('tr.name')?.dataset['row']
    if (at !== undefined) choose(Number(at))
  }
  const move = (event: KeyboardEvent, page: number) => {
    const by = event.ctrlKey || event.metaKey || event.altKey ? undefined : moves(event.key, page)
    if (by === undefined || entries.length === 0) return
    event.preventDefault()
    goes.current = true
    choose(Math.max(0, Math.min(entries.length - 1, stop + by)))
  }
  return { stop, focused, move }
}

function moves(key: string, page: number): number | undefined {
  const by: Readonly<Record<string, number>> = {
    ArrowUp: -1,
    ArrowDown: 1,
    PageUp: -page,
    PageDown: page,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
  }
  return Object.hasOwn(by, key) ? by[key] : undefined
}

interface RowProps {
  readonly store: StoreModel
  readonly entry: Entry
  readonly now: number
  readonly row: number
  /** The one that Tab goes to. */
  readonly stop: boolean
}

function Row({ store, entry, now, row, stop }: RowProps) {
  const { name, holders, waiting } = entry
  const [holder] = holders
  const overdue = holder?.until != null && holder.until < now
  return (
    <tr class="name" aria-rowindex={row + 2} data-row={row}>
      <td>
        <a href={hrefOf(store.id, name)} tabIndex={stop ? 0 : -1}>
          {visible(name)}
        </a>
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
