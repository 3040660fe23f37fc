/** Every counter and gauge, with what it reports of one {@link Counted}. */
import type { ObservableResult } from './api.js'
import type { Counted } from './counted.js'
import { causes, outcomes, type Series } from './series.js'

type Report = (result: ObservableResult, counted: Counted) => void
export type Kind = 'counter' | 'upDown' | 'gauge'

export interface Instrument {
  readonly name: string
  readonly kind: Kind
  readonly unit: string
  readonly description: string
  readonly report: Report
}

/** One observation for each group. */
const each =
  (value: (series: Series) => number): Report =>
  (result, { series }) => {
    for (const one of series.all) result.observe(value(one), one.base)
  }

/** One observation for each group and each value of `label`. */
const by =
  (label: string, values: readonly string[], value: (series: Series, key: never) => number): Report =>
  (result, { series }) => {
    for (const one of series.all)
      for (const key of values) result.observe(value(one, key as never), { ...one.base, [label]: key })
  }

export const instruments: readonly Instrument[] = [
  {
    name: 'holdfast.acquisitions',
    kind: 'counter',
    unit: '{acquisition}',
    description: 'Acquisitions that ended, by holdfast.outcome',
    report: by('holdfast.outcome', outcomes, ({ acquisitions }, key) => acquisitions[key]),
  },
  {
    name: 'holdfast.waiting',
    kind: 'upDown',
    unit: '{acquisition}',
    description: 'Acquisitions under way now',
    report: each(({ waiting }) => waiting),
  },
  {
    name: 'holdfast.held',
    kind: 'upDown',
    unit: '{lease}',
    description: 'Leases held now, including doubtful ones',
    report: each(({ held }) => held),
  },
  {
    name: 'holdfast.doubtful',
    kind: 'upDown',
    unit: '{lease}',
    description: 'Leases whose renewal is overdue now',
    report: each(({ doubtful }) => doubtful.size),
  },
  {
    name: 'holdfast.lost',
    kind: 'counter',
    unit: '{lease}',
    description: 'Leases that ended without a release, by holdfast.cause',
    report: by('holdfast.cause', causes, ({ lost }, key) => lost[key]),
  },
  {
    name: 'holdfast.renewals',
    kind: 'counter',
    unit: '{renewal}',
    description: 'Renewals that the store confirmed',
    report: each(({ renewals }) => renewals),
  },
  {
    name: 'holdfast.renewals.late',
    kind: 'counter',
    unit: '{renewal}',
    description: 'Renewals that became overdue',
    report: each(({ late }) => late),
  },
  {
    name: 'holdfast.handoffs',
    kind: 'counter',
    unit: '{handoff}',
    description: 'Grants that came directly from another holder, by holdfast.handoff',
    report: by('holdfast.handoff', ['local', 'remote'], ({ handOffs }, key) => handOffs[key]),
  },
  {
    name: 'holdfast.queue.length',
    kind: 'gauge',
    unit: '{waiter}',
    description: 'The greatest position in a queue of the store that a waiter of this process has now',
    report: each(({ positions }) => Math.max(0, ...positions.values())),
  },
  {
    name: 'holdfast.store.errors',
    kind: 'counter',
    unit: '{error}',
    description: 'Requests to the store that failed, by error.type and holdfast.operation',
    report: (result, { driver, errors }) => {
      for (const [key, count] of errors) {
        const [operation = '', code = ''] = key.split(' ')
        result.observe(count, {
          'holdfast.driver': driver,
          'holdfast.operation': operation,
          'error.type': code,
        })
      }
    },
  },
  {
    name: 'holdfast.store.quarantined',
    kind: 'gauge',
    unit: '1',
    description: '1 while the store answers but grants nothing, because it may have forgotten locks',
    report: (result, { driver, quarantined }) =>
      result.observe(quarantined ? 1 : 0, { 'holdfast.driver': driver }),
  },
]
