/** The names of a store, in the order that was chosen. */
import { useState } from 'preact/hooks'
import type { StoreModel } from '../model.js'
import { listed, type Order } from '../stats.js'
import { Rows } from './rows.js'

const orders: readonly (readonly [Order, string])[] = [
  ['waiting', 'most waiters'],
  ['age', 'longest held'],
  ['name', 'name'],
]

interface Props {
  readonly store: StoreModel
  readonly now: number
  readonly wanted: string
  /** The name whose page was left for this list. */
  readonly left: string | undefined
}

export function Names({ store, now, wanted, left }: Props) {
  const [order, setOrder] = useState<Order>('waiting')
  const entries = listed(store, wanted, order)
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
      <Rows store={store} now={now} entries={entries} left={left}>
        {wanted === '' ? 'No lock is held or waited for.' : 'Nothing matches.'}
      </Rows>
    </div>
  )
}
