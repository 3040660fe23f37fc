/** One store: its health, its figures, its names. */
import type { StoreModel } from '../model.js'
import { lasted } from '../stats.js'
import type { Finding } from '../wire.js'
import { Names } from './names.js'
import { Rate, Tiles } from './tiles.js'

export function StorePanel({
  store,
  now,
  keeps,
  wanted,
  left,
}: {
  store: StoreModel
  now: number
  keeps: number
  wanted: string
  /** The name whose page was left for the list. */
  left: string | undefined
}) {
  return (
    <section class="store" aria-labelledby={`store-${store.id}`}>
      <header>
        <h2 id={`store-${store.id}`}>{store.about}</h2>
        <HealthLine store={store} />
      </header>
      <Doctor store={store} />
      <Tiles store={store} now={now} keeps={keeps} />
      <Rate store={store} now={now} keeps={keeps} />
      {store.lists ? (
        <Names store={store} now={now} wanted={wanted} left={left} />
      ) : (
        <p class="empty">This store cannot list its names. Type one above and press Enter to see it.</p>
      )}
    </section>
  )
}

export function HealthLine({ store }: { store: StoreModel }) {
  const { state, took, every, trouble } = store.health
  const words = {
    starting: 'being read',
    ok: `${store.driver} · answers in ${lasted(took)} · read every ${lasted(every)}`,
    trouble: `cannot be read: ${trouble ?? 'no reason given'}`,
  }[state]
  return <p class={`health ${state}`}>{words}</p>
}

const icons: Readonly<Record<Finding['level'], string>> = {
  problem: '✖',
  warning: '▲',
  unknown: '?',
  ok: '✔',
}

export function Doctor({ store }: { store: StoreModel }) {
  if (!store.examines) return null
  if (store.doctor === undefined) return <p class="doctor">doctor: checking</p>
  const bad = store.doctor.filter(({ level }) => level === 'problem').length
  const weak = store.doctor.filter(({ level }) => level === 'warning').length
  const verdict =
    bad > 0
      ? `${count(bad, 'problem')}, ${count(weak, 'warning')}`
      : weak > 0
        ? count(weak, 'warning')
        : 'set up for locks'
  return (
    <details class={`doctor ${bad > 0 ? 'problem' : weak > 0 ? 'warning' : 'ok'}`}>
      <summary>doctor: {verdict}</summary>
      <ul>
        {store.doctor.map(({ level, what, found, means, remedy }) => (
          <li key={`${what} ${found}`} class={level}>
            <span aria-hidden="true">{icons[level]}</span> <b>{what}</b>: {found}
            {level !== 'ok' && <span class="visually-hidden"> ({level})</span>}
            {means !== undefined && <p>{means}</p>}
            {remedy !== undefined && <p>Change: {remedy}</p>}
          </li>
        ))}
      </ul>
    </details>
  )
}

const count = (n: number, what: string) => `${n} ${what}${n === 1 ? '' : 's'}`
