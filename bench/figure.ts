/** The results of a suite: our own figures, each a row of its table, and comparisons, each a table. */
import type { Spread } from './spread.js'

export type Result = Figure | Comparison

/** One of our own figures, beside its floor, its counts and its target. */
export interface Figure {
  readonly suite: string
  readonly what: string
  readonly unit: string
  readonly ours: Spread
  /** The minimum possible cost, measured in the same run, in the same unit. */
  readonly floor?: Floor
  /** Related exact counts: commands, messages, hand-overs. */
  readonly counts?: Readonly<Record<string, number>>
  readonly aim?: Aim
  /** Necessary to interpret the number. */
  readonly note?: string
}

/** Several libraries side by side. */
export interface Comparison {
  readonly suite: string
  readonly what: string
  readonly columns: readonly string[]
  readonly rows: readonly Row[]
  readonly note?: string
}

export interface Row {
  readonly library: string
  readonly settings: string
  /** One per column; undefined if there is nothing to measure. */
  readonly values: readonly (Spread | undefined)[]
}

export interface Floor {
  readonly what: string
  readonly value: Spread
  /** Ours divided by the floor, within each round. */
  readonly ratio: Spread
}

export interface Aim {
  readonly text: string
  readonly met: boolean
}

export function atLeast(value: number, least: number, unit: string): Aim {
  return { text: `≥ ${least.toLocaleString('en')} ${unit}`.trim(), met: value >= least }
}

export function atMost(value: number, most: number, unit: string): Aim {
  return { text: `≤ ${most.toLocaleString('en')} ${unit}`.trim(), met: value <= most }
}

/** Combines several targets: met if each of them is. */
export function both(...aims: readonly Aim[]): Aim {
  return { text: aims.map(({ text }) => text).join('; '), met: aims.every(({ met }) => met) }
}
