/** The queue as it moves: each waiter keeps its box, which slides forward when one in front of it is gone. */
import { lasted, visible } from '../stats.js'
import type { Entry } from '../wire.js'

/** As in page.css. */
const step = 132
const mostBoxes = 24

export function Queue({ entry, now }: { entry: Entry; now: number }) {
  const { waiters, waiting } = entry
  if (waiting === 0) return <p class="empty">Nobody waits.</p>
  const boxes = waiters.slice(0, mostBoxes)
  return (
    <div class="queue">
      <ol style={{ width: `${boxes.length * step}px` }}>
        {boxes.map((waiter, i) => (
          <li key={waiter.attempt} style={{ transform: `translateX(${i * step}px)` }}>
            <b>{i + 1}</b> {waiter.mode}
            <span>{visible(waiter.client ?? 'unknown')}</span>
            <span>{lasted(now - waiter.since)}</span>
            {waiter.note !== undefined && <em>{visible(waiter.note)}</em>}
          </li>
        ))}
      </ol>
      {waiting > boxes.length && <p>and {waiting - boxes.length} more</p>}
    </div>
  )
}
