/** Everything about one name. */
import type { StoreModel } from '../model.js'
import { lasted, visible } from '../stats.js'
import type { Entry, Past } from '../wire.js'
import { Queue } from './queue.js'
import { Release } from './release.js'
import { HealthLine } from './store.js'
import { Tiles } from './tiles.js'
import { Timeline } from './timeline.js'

interface Props {
  readonly store: StoreModel
  readonly name: string
  readonly now: number
  readonly keeps: number
  readonly sendKey: string
}

export function NamePage({ store, name, now, keeps, sendKey }: Props) {
  const entry: Entry = store.entries.get(name) ?? { name, at: now, holders: [], waiters: [], waiting: 0 }
  const past = (store.pastOf.get(name) ?? []).slice(-50).reverse()
  return (
    <main id="main" class="name-page">
      <p>
        <a href="#/">← all names</a> · {store.about}
      </p>
      <HealthLine store={store} />
      <h1>{visible(name)}</h1>
      <Holders entry={entry} now={now} />
      <Release store={store} entry={entry} sendKey={sendKey} now={now} />
      <h2>Queue ({entry.waiting})</h2>
      <Queue entry={entry} now={now} />
      <h2>Last {lasted(keeps)}</h2>
      <Timeline store={store} name={name} now={now} keeps={keeps} />
      <Legend />
      <Tiles store={store} now={now} name={name} keeps={keeps} />
      <h2>Holds that are over, newest first</h2>
      <PastTable past={past} now={now} />
    </main>
  )
}

function Holders({ entry, now }: { entry: Entry; now: number }) {
  if (entry.holders.length === 0) return <p class="standing free">Free.</p>
  const rows = entry.holders.map((hold) => ({
    key: `${hold.attempt} ${hold.token}`,
    'held by': visible(hold.client ?? 'unknown'),
    mode: hold.mode,
    for: lasted(now - hold.since),
    'ends unless renewed in':
      hold.until === null ? 'with its connection' : hold.until < now ? 'overdue' : lasted(hold.until - now),
    token: `${hold.token}`,
    note: visible(hold.note ?? ''),
  }))
  return <Table kind="holders" rows={rows} />
}

function PastTable({ past, now }: { past: readonly Past[]; now: number }) {
  if (past.length === 0) return <p class="empty">None has been observed.</p>
  const rows = past.map((hold) => ({
    key: `${hold.attempt} ${hold.token}`,
    look: hold.end,
    ended: `${lasted(now - hold.to)} ago`,
    'held by': visible(hold.client ?? 'unknown'),
    token: `${hold.token}`,
    waited: hold.waited === undefined ? 'not seen' : lasted(hold.waited),
    held: lasted(hold.to - hold.since),
    end: `${hold.end === 'unseen' ? 'unseen: last seen then' : hold.end}${hold.why === undefined ? '' : `: ${visible(hold.why)}`}`,
    note: visible(hold.note ?? ''),
  }))
  return <Table kind="past" rows={rows} />
}

/** The texts of a row by the headings of their columns. */
interface TableRow extends Readonly<Record<string, string>> {
  readonly key: string
}

/** A table; on a phone each row is a card whose lines begin with the heading. */
function Table({ kind, rows }: { kind: string; rows: readonly TableRow[] }) {
  const headings = Object.keys(rows[0] ?? {}).filter((name) => name !== 'key' && name !== 'look')
  return (
    <table class={`plain ${kind}`}>
      <thead>
        <tr>
          {headings.map((heading) => (
            <th key={heading} scope="col">
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.key} class={row['look'] ?? ''}>
            {headings.map((heading) => (
              <td key={heading} data-heading={heading}>
                {row[heading]}
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function Legend() {
  return (
    <p class="legend">
      <span class="swatch waited" /> waited <span class="swatch exclusive" /> exclusive{' '}
      <span class="swatch shared" /> shared <span class="swatch permits" /> permits{' '}
      <span class="swatch lost" /> lost: its time ran out <span class="swatch forced" /> taken by force here.
      The number is the token. A hold that begins and ends between two readings is not seen.
    </p>
  )
}
