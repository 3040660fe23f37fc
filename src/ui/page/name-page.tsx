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
  return (
    <table class="plain">
      <thead>
        <tr>
          <th scope="col">held by</th>
          <th scope="col">mode</th>
          <th scope="col">for</th>
          <th scope="col">ends unless renewed in</th>
          <th scope="col">token</th>
          <th scope="col">note</th>
        </tr>
      </thead>
      <tbody>
        {entry.holders.map((hold) => (
          <tr key={`${hold.attempt} ${hold.token}`}>
            <td>{visible(hold.client ?? 'unknown')}</td>
            <td>{hold.mode}</td>
            <td>{lasted(now - hold.since)}</td>
            <td>
              {hold.until === null
                ? 'with its connection'
                : hold.until < now
                  ? 'overdue'
                  : lasted(hold.until - now)}
            </td>
            <td>{hold.token}</td>
            <td>{visible(hold.note ?? '')}</td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function PastTable({ past, now }: { past: readonly Past[]; now: number }) {
  if (past.length === 0) return <p class="empty">None was seen.</p>
  return (
    <div class="scrolls">
      <table class="plain past">
        <thead>
          <tr>
            <th scope="col">ended</th>
            <th scope="col">held by</th>
            <th scope="col">token</th>
            <th scope="col">waited</th>
            <th scope="col">held</th>
            <th scope="col">end</th>
            <th scope="col">note</th>
          </tr>
        </thead>
        <tbody>
          {past.map((hold) => (
            <tr key={`${hold.attempt} ${hold.token}`} class={hold.end}>
              <td>{lasted(now - hold.to)} ago</td>
              <td>{visible(hold.client ?? 'unknown')}</td>
              <td>{hold.token}</td>
              <td>{hold.waited === undefined ? 'not seen' : lasted(hold.waited)}</td>
              <td>{lasted(hold.to - hold.since)}</td>
              <td>
                {hold.end === 'unseen' ? 'unseen: last seen then' : hold.end}
                {hold.why !== undefined && `: ${visible(hold.why)}`}
              </td>
              <td>{visible(hold.note ?? '')}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
