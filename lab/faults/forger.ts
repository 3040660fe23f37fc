/**
 * An attacker with an account that may read everything and send messages, but change nothing. Resends messages it overheard: unchanged,
 * with larger numbers, truncated, with the ids of other attempts, and as noise. A message is only a hint, so none of this may gain or cost
 * anything.
 */
import type { Chance } from './chance.js'

/** What a forger has overheard. */
export interface Overheard {
  readonly channels: readonly string[]
  readonly messages: readonly string[]
  /** Attempt ids, from messages and from the store. */
  readonly attempts: readonly string[]
}

const attemptIds = /\b[0-9a-f]{32}\b/g

/** @returns a forged message and its channel; undefined until something has been overheard */
export function forge(heard: Overheard, dice: Chance): { channel: string; text: string } | undefined {
  if (heard.channels.length === 0) return undefined
  const channel = dice.pick(heard.channels)
  if (heard.messages.length === 0 || dice.next() < 0.1) return { channel, text: noise(dice) }
  return { channel, text: changed(dice.pick(heard.messages), heard.attempts, dice) }
}

function changed(message: string, attempts: readonly string[], dice: Chance): string {
  const aimed = () =>
    attempts.length === 0 ? message : message.replace(attemptIds, () => dice.pick(attempts))
  const way = dice.below(5)
  if (way === 0) return message
  if (way === 1) return aimed()
  if (way === 2) return aimed().replace(/\b\d{1,17}\b/g, (digits) => `${Number(digits) + dice.below(1e9)}`)
  if (way === 3) return aimed().replace(/\b\d+\b/g, `${Number.MAX_SAFE_INTEGER}`)
  return message.slice(0, dice.below(message.length + 1))
}

function noise(dice: Chance): string {
  const size = dice.pick([0, 1, 40, 4_000])
  return Array.from({ length: size }, () => String.fromCharCode(32 + dice.below(95))).join('')
}

/** Keeps the latest overheard messages, except the forger's own. */
export class Listener implements Overheard {
  readonly channels: string[] = []
  readonly messages: string[] = []
  readonly attempts: string[] = []
  readonly #sent = new Set<string>()

  hears(channel: string, text: string): void {
    if (this.#sent.delete(text)) return
    keep(this.channels, channel, 40)
    keep(this.messages, text, 60)
    this.sees(text)
  }

  knows(channel: string): void {
    keep(this.channels, channel, 40)
  }

  /** Attempt ids, wherever they occur. */
  sees(text: string): void {
    for (const [id] of text.matchAll(attemptIds)) keep(this.attempts, id, 60)
  }

  sends(text: string): void {
    this.#sent.add(text)
    if (this.#sent.size > 5_000) this.#sent.clear()
  }
}

function keep(list: string[], one: string, most: number): void {
  const at = list.indexOf(one)
  if (at >= 0) list.splice(at, 1)
  list.push(one)
  if (list.length > most) list.shift()
}
