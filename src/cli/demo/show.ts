/** The demo's result as a table, as a picture in the terminal and as one SVG file. */
import {
  createTimeline,
  renderSvg,
  renderText,
  type Timeline,
  type TimelineSummary,
  type Violation,
  withSharedScale,
} from 'holdfast/verify'
import { table } from '../print.js'
import type { Outcome } from './phase.js'

export interface Halves {
  readonly name: string
  readonly without: Outcome
  readonly with: Outcome
}

export async function comparison({ without, with: held }: Halves): Promise<string> {
  const accounts = Object.keys(held.expected)
  const points = accounts.map((account) => [
    `points of ${account}`,
    `${held.expected[account]}`,
    off(without, account),
    off(held, account),
  ])
  const counts = [
    ['orders booked', `${distinctOrders(held)}`, `${without.booked}`, `${held.booked}`],
    ['booked twice or more', '0', `${without.duplicates}`, `${held.duplicates}`],
    ['bookings overwritten (lost)', '0', `${without.lost}`, `${held.lost}`],
    ['two workers inside at once', '0', `${inside(without)}`, `${inside(held)}`],
  ]
  return await table(['', 'SHOULD BE', 'WITHOUT LOCK', 'WITH LOCK'], [...points, ...counts])
}

const distinctOrders = ({ booked, duplicates, missing }: Outcome) => booked - duplicates + missing

function off({ balances, expected }: Outcome, account: string): string {
  const got = balances[account] ?? 0
  const wrong = got - (expected[account] ?? 0)
  return wrong === 0 ? `${got}` : `${got} (${wrong > 0 ? '+' : ''}${wrong})`
}

function inside({ violations }: Outcome): number {
  return violations.filter((one) => one.rule === 'exclusion').length
}

export function picture(
  title: string,
  name: string,
  outcome: Outcome,
  width: number,
  color: boolean,
): string {
  const text = renderText(drawing(title, name, outcome), { width, color, footnotes: 0 })
  // The table already counts the violations.
  return text.replace(/\n\s*… and \d+ more violations?$/, '')
}

/** Both halves in one file, one below the other. */
export function svg({ name, without, with: held }: Halves): string {
  return stacked(
    withSharedScale([
      { ...drawing('Without the lock', name, without), summary: counted(without) },
      {
        ...drawing('With the lock: one at a time, each hold with its token', name, held),
        summary: counted(held),
      },
    ]).map((timeline) => renderSvg(timeline)),
  )
}

/** By how many points the balances are off, over all accounts. */
function counted({ balances, expected, lost, duplicates }: Outcome): TimelineSummary {
  const wrong = Object.keys(expected).reduce(
    (sum, account) => sum + Math.abs((balances[account] ?? 0) - (expected[account] ?? 0)),
    0,
  )
  if (wrong === 0 && lost === 0 && duplicates === 0) return { text: 'every balance is exact', good: true }
  return {
    text: `balances wrong by ${wrong} points: ${lost} bookings lost, ${duplicates} booked twice or more`,
    good: false,
  }
}

function drawing(title: string, name: string, { history, violations }: Outcome): Timeline {
  const exclusion = violations.filter((one: Violation) => one.rule === 'exclusion')
  return inOrder(
    createTimeline(history, {
      name,
      title,
      violations: exclusion,
      label: (client) => client.split('-')[0] ?? client,
    }),
  )
}

/** Rows arrive in the order in which the workers started; sorted by number they are easy to find. */
function inOrder(timeline: Timeline): Timeline {
  const order = timeline.rows.map((_, i) => i)
  const label = (i: number) => timeline.rows[i]?.label ?? ''
  order.sort((a, b) => label(a).localeCompare(label(b), 'en', { numeric: true }))
  return {
    ...timeline,
    rows: order.flatMap((i) => timeline.rows[i] ?? []),
    bands: timeline.bands.map((band) => ({ ...band, rows: band.rows.map((i) => order.indexOf(i)) })),
  }
}

function stacked(pictures: readonly string[]): string {
  let y = 0
  let width = 0
  const placed = pictures.map((picture, i) => {
    const [, w = '0', h = '0'] = /width="(\d+)" height="(\d+)"/.exec(picture) ?? []
    const at = y
    y += Number(h)
    width = Math.max(width, Number(w))
    // Ids are unique per file, so the pictures must not share any.
    return picture
      .replace('<svg ', `<svg y="${at}" `)
      .replace(
        /(id="|url\(#|aria-labelledby=")([a-z ]+)/g,
        (_, before: string, ids: string) => `${before}${ids.replace(/\w+/g, `$&${i}`)}`,
      )
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${y}" width="${width}" height="${y}">\n${placed.join('')}</svg>\n`
}
