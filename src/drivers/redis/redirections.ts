/**
 * Sends the commands for one slot of a Cluster in order over one connection, wherever the slot is. A client on its own follows
 * redirections command by command, so that another node would answer WAIT than the script before it.
 */
import type { Clock } from '../../core/clock.js'
import { another } from './node-subscription.js'

type Command = readonly [string, ...string[]]

/** What a client must provide. */
export interface Nodes<N> {
  /** The masters that the client knows. */
  masters(): readonly N[]
  /** The node that a redirection sent by `from` names. */
  at(address: string, from: N): N | undefined
  /** Sends the commands in order over one connection; replies and errors come in the same order. @throws when the connection breaks */
  send(node: N, commands: readonly Command[]): Promise<readonly unknown[]>
  /** Makes the client look up the node of the key. */
  learn(key: string): Promise<unknown>
}

/** A node that has left a request unanswered for this long, in ms, is not asked again before others are. */
const silenceTimeout = 1_000
const maxRedirections = 8
/** Pause before asking the nodes again who owns a slot, in ms; grows by the same amount each time. */
const agreement = 10

interface Known<N> {
  readonly node: N
  /** Clock reading of the oldest request the node has not answered. */
  since: number | undefined
}

/** @returns a function that sends commands to the node of a key; it throws the first error that is not a redirection */
export function following<N extends object>(
  nodes: Nodes<N>,
  clock: Clock,
): (key: string, commands: readonly Command[]) => Promise<readonly unknown[]> {
  const owners = new Map<number, Known<N>>()
  let left: N | undefined

  const findOwner = async (slot: number, key: string): Promise<Known<N>> => {
    const known = owners.get(slot)
    const masters = nodes.masters()
    // Asked for a node it has dropped, a client opens a new connection and never closes it.
    const answers = known?.since === undefined || clock.now() - known.since < silenceTimeout
    if (known !== undefined && masters.includes(known.node) && answers) return known
    left = known?.node ?? left
    if (nodes.masters().length === 0) await nodes.learn(key)
    const node = another(nodes.masters(), left)
    if (node === undefined) throw new Error('the Cluster client knows no node')
    return owned(slot, node)
  }
  const owned = (slot: number, node: N): Known<N> => {
    const known = { node, since: undefined }
    owners.set(slot, known)
    return known
  }
  const ask = async (slot: number, known: Known<N>, commands: readonly Command[]) => {
    known.since ??= clock.now()
    try {
      const answers = await nodes.send(known.node, commands)
      known.since = undefined
      return answers
    } catch (error) {
      giveUp(slot, known)
      throw error
    }
  }
  const giveUp = (slot: number, known: Known<N>) => {
    left = known.node
    if (owners.get(slot) === known) owners.delete(slot)
  }

  return async (key, commands) => {
    const slot = keySlot(key)
    let known: Known<N> = await findOwner(slot, key)
    let asking = false
    for (let n = 1; ; n++) {
      const answers: readonly unknown[] = await ask(
        slot,
        known,
        asking ? [['ASKING'], ...commands] : commands,
      )
      const own: readonly unknown[] = asking ? answers.slice(1) : answers
      const error = own.find((answer): answer is Error => answer instanceof Error)
      if (error === undefined) return own
      const [what, , address = ''] = error.message.split(' ')
      if ((what !== 'MOVED' && what !== 'ASK') || n > maxRedirections) {
        // An error of the client, not a reply of a server: the node may be gone for good, so ask another one next time.
        if (!/^[A-Z]+( |$)/.test(error.message)) giveUp(slot, known)
        throw error
      }
      let next = nodes.at(address, known.node)
      if (next === undefined) {
        await nodes.learn(key)
        next = nodes.at(address, known.node)
      }
      if (next === undefined) {
        // After a fail-over not all nodes know the new master yet, nor does a client that asked one of them.
        owners.delete(slot)
        await new Promise<void>((resolve) => void clock.at(clock.now() + n * agreement, resolve))
        known = await findOwner(slot, key)
        asking = false
        continue
      }
      asking = what === 'ASK'
      known = asking ? { node: next, since: undefined } : owned(slot, next)
    }
  }
}

export const isRedirection = (error: unknown): boolean =>
  error instanceof Error && /^(MOVED|ASK) /.test(error.message)

/** The `host:port` that a redirection names. Without a host it means that of the node which sent it; an IPv6 host begins with a colon as well. */
export const withHost = (address: string, host: string | undefined): string =>
  /^:\d+$/.test(address) ? `${host}${address}` : address

/** CRC-16/XMODEM of the part in braces, or of the whole key, modulo 16,384: as the Cluster specification says. */
export function keySlot(key: string): number {
  const from = key.indexOf('{')
  const to = key.indexOf('}', from + 1)
  const tag = from >= 0 && to > from + 1 ? key.slice(from + 1, to) : key
  let crc = 0
  for (const byte of Buffer.from(tag)) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++)
      crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  }
  return crc % 16_384
}
