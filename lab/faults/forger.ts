/**
 * An attacker with an account that may read everything and send messages, but change nothing. Resends messages it overheard: unchanged,
 * with larger numbers, truncated, with the ids of other attempts, and as noise. A message is only a hint, so none of this may gain or cost
 * anything.
 */
import type { Chance } from './chance.js'

/** What a forger has overheard. */
export interface ObservedTraffic {
  readonly channels: readonly string[]
  readonly messages: readonly string[]
  /** Attempt ids, from messages and from the store. */
  readonly attempts: readonly string[]
}

const attemptIds = /\b[0-9a-f]{32}\b/g

/** @returns a forged message and its channel; undefined until something has been overheard */
export function forge(
  observed: ObservedTraffic,
  random: Chance,
): { channel: string; text: string } | undefined {
  if (observed.channels.length === 0) return undefined
  const channel = random.pick(observed.channels)
  if (observed.messages.length === 0 || random.next() < 0.1) return { channel, text: noise(random) }
  return { channel, text: changed(random.pick(observed.messages), observed.attempts, random) }
}

function changed(message: string, attempts: readonly string[], random: Chance): string {
  const aimed = () =>
    attempts.length === 0 ? message : message.replace(attemptIds, () => random.pick(attempts))
  const way = random.below(5)
  if (way === 0) return message
  if (way === 1) return aimed()
  if (way === 2) return aimed().replace(/\b\d{1,17}\b/g, (digits) => `${Number(digits) + random.below(1e9)}`)
  if (way === 3) return aimed().replace(/\b\d+\b/g, `${Number.MAX_SAFE_INTEGER}`)
  return message.slice(0, random.below(message.length + 1))
}

function noise(random: Chance): string {
  const size = random.pick([0, 1, 40, 4_000])
  return Array.from({ length: size }, () => String.fromCharCode(32 + random.below(95))).join('')
}

/** Keeps the latest overheard messages, except the forger's own. */
export class Listener implements ObservedTraffic {
  readonly channels: string[] = []
  readonly messages: string[] = []
  readonly attempts: string[] = []
  readonly #sent = new Set<string>()

  onChannel(channel: string, text: string): void {
    if (this.#sent.delete(text)) return
    keep(this.channels, channel, 40)
    keep(this.messages, text, 60)
    this.onMessage(text)
  }

  knows(channel: string): void {
    keep(this.channels, channel, 40)
  }

  /** Attempt ids, wherever they occur. */
  onMessage(text: string): void {
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
