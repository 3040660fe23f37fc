/**
 * Input of the demo: opening balances, and orders in order of arrival. A repeated order was submitted more than once (a double click, a
 * redelivered message) and must count once.
 *
 * ```json
 * { "balances": { "ann": 1000 },
 *   "orders": [{ "order": "R-01", "account": "ann", "points": -999 }, { "order": "A-01", "account": "ann", "points": 100 }] }
 * ```
 */
import { readFileSync } from 'node:fs'
import { badInput } from '../exit.js'

export interface Order {
  readonly order: string
  readonly account: string
  /** Negative: redeemed. */
  readonly points: number
}

export interface Input {
  readonly balances: Readonly<Record<string, number>>
  readonly orders: readonly Order[]
}

/** @throws CliError that names the file and the fault in it. */
export function readInput(path: string): Input {
  let found: unknown
  try {
    found = JSON.parse(readFileSync(path, 'utf8'))
  } catch (error) {
    throw badInput(`cannot read orders from ${path}: ${(error as Error).message}`)
  }
  const { balances, orders } = (found ?? {}) as Partial<Record<keyof Input, unknown>>
  const bad = (what: string) => badInput(`${path}: ${what}`)
  if (!isRecord(balances) || !Object.values(balances).every(Number.isSafeInteger)) {
    throw bad('"balances" must give every account its points as a whole number')
  }
  if (!Array.isArray(orders) || orders.length === 0)
    throw bad('"orders" must be a list of at least one order')
  for (const [i, one] of orders.entries()) {
    const { order, account, points } = (one ?? {}) as Partial<Record<keyof Order, unknown>>
    const at = `order ${i + 1}`
    if (typeof order !== 'string' || order === '') throw bad(`${at} needs an "order" that names it`)
    if (typeof account !== 'string' || !Object.hasOwn(balances, account))
      throw bad(`${at} ("${order}") is for no account in "balances"`)
    if (!Number.isSafeInteger(points)) throw bad(`${at} ("${order}") needs "points", a whole number`)
  }
  const input = { balances, orders } as Input
  checkCovered(input, bad)
  return input
}

/** The correct result must not depend on the order of execution; otherwise there would be nothing to compare with. */
function checkCovered({ balances, orders }: Input, bad: (what: string) => Error): void {
  const byName = new Map<string, Order>()
  for (const one of orders) {
    const first = byName.get(one.order) ?? one
    if (first.account !== one.account || first.points !== one.points) {
      throw bad(`order "${one.order}" comes with two different contents; a repeated order must be the same`)
    }
    byName.set(one.order, first)
  }
  for (const [account, opening] of Object.entries(balances)) {
    const redeemed = [...byName.values()]
      .filter((one) => one.account === account && one.points < 0)
      .reduce((sum, one) => sum - one.points, 0)
    if (redeemed > opening) {
      throw bad(
        `"${account}" redeems ${redeemed} of ${opening} points, so which order is refused would depend on who comes first; redeem less`,
      )
    }
  }
}

/** The balances after each order was applied once. */
export function expectedBalances({ balances, orders }: Input): Record<string, number> {
  const expected = { ...balances }
  for (const one of distinct(orders)) expected[one.account] = (expected[one.account] ?? 0) + one.points
  return expected
}

export function distinct(orders: readonly Order[]): Order[] {
  return [...new Map(orders.map((one) => [one.order, one])).values()]
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
