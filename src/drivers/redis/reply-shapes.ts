/**
 * The replies that each script can give. Anything else did not come from it: a proxy has garbled it, a command was renamed, or the
 * server is no Redis. Such a reply says neither "acquired" nor "lost", and it is refused before any other file sees it.
 */
import { printable, quote } from '../../core/name.js'
import type { Reply } from './client.js'

export type ScriptName =
  | 'acquire'
  | 'together'
  | 'release'
  | 'renew'
  | 'cancel'
  | 'downgrade'
  | 'force'
  | 'further'
  | 'inspect'
  | 'meet'
  | 'readCell'
  | 'writeCell'
  | 'watchCell'

/** @param args of the script's items */
type Shape = (reply: Reply, args: readonly string[]) => boolean

/** A client may return integers as text. */
const matches =
  (pattern: RegExp): Shape =>
  (reply) =>
    (typeof reply === 'string' || typeof reply === 'number') && pattern.test(String(reply))
const isList = (reply: Reply | undefined): reply is readonly Reply[] => Array.isArray(reply)
const isNumber = matches(/^-?\d+(\.\d+)?$/)
const isText: Shape = (reply) => typeof reply === 'string'
/** Groups of `size` texts. */
const isGroups = (reply: Reply | undefined, size: number) =>
  isList(reply) && reply.length % size === 0 && reply.every((one) => isText(one, []) || isNumber(one, []))

const isGrant = matches(/^[1-9]\d{0,15} [01]( \S+)?$/)
const isRefusal = matches(/^(o|l \d+)$/)
/** Five numbers, of which the last is a score or empty; with a holder nine parts more: see `acquire.ts`. */
const isBlocked: Shape = (reply) => {
  if (!isList(reply) || (reply.length !== 5 && reply.length !== 14)) return false
  const [place = null, left = null, canPush = null, till = null, further = null, ...holder] = reply
  const numbers = [place, left, canPush, till, ...holder.slice(2, 7)]
  return numbers.every((one) => isNumber(one, [])) && matches(/^\S*$/)(further, []) && isGroups(holder, 1)
}

const shapes: Readonly<Record<ScriptName, Shape>> = {
  acquire: (reply, args) => isGrant(reply, args) || isRefusal(reply, args) || isBlocked(reply, args),
  together: (reply, args) =>
    isList(reply)
      ? reply.length === args.length / 5 && reply.every((one) => isGrant(one, args))
      : matches(/^(o|b|z|m|l \d+ \d+)$/)(reply, args),
  release: matches(/^[012]( \S+)?$/),
  renew: matches(/^[01]$/),
  cancel: matches(/^[01]( \S+)?$/),
  downgrade: matches(/^\d+( \S+)?$/),
  force: matches(/^\d+( \S+)?$/),
  further: matches(/^\S*$/),
  inspect: (reply) => {
    if (!isList(reply) || reply.length !== 6) return false
    const [state = null, now = null, of = null, holds, waits, more = null] = reply
    const plain = matches(/^$|^[-xsp] [01] \d+ \d+ \d+ \d+ \S+ /)(state, [])
    return (
      plain && [now, of, more].every((one) => isNumber(one, [])) && isGroups(holds, 3) && isGroups(waits, 2)
    )
  },
  meet: (reply) =>
    reply === 'aof' ||
    reply === 'noinfo' ||
    (isList(reply) &&
      reply.length === 3 &&
      matches(/^\S+$/)(reply[0] ?? null, []) &&
      matches(/^\S+$/)(reply[1] ?? null, []) &&
      isNumber(reply[2] ?? null, [])),
  readCell: (reply) =>
    reply === null ||
    (isList(reply) && reply.length === 2 && isNumber(reply[0] ?? null, []) && isText(reply[1] ?? null, [])),
  writeCell: (reply) => reply === null || matches(/^[1-9]\d*$/)(reply, []),
  watchCell: matches(/^(changed|-?\d+)$/),
}

/** Neither a refusal nor silence: whether the server has executed the command is not known. */
export class GarbledReply extends Error {
  /** @param command as in `EVALSHA (acquire)` */
  constructor(command: string, reply: unknown) {
    super(
      `the reply to ${command} is garbled: ${show(reply)}; is there a proxy that changes replies, a renamed command, or is this no Redis?`,
    )
  }
}

export function isReply(name: ScriptName, reply: Reply, args: readonly string[]): boolean {
  return shapes[name](reply, args)
}

/** @throws GarbledReply when the script cannot have given this reply */
export function checkReply(
  script: { readonly name: ScriptName },
  reply: Reply,
  args: readonly string[],
): Reply {
  if (!isReply(script.name, reply, args)) throw new GarbledReply(`EVALSHA (${script.name})`, reply)
  return reply
}

/** The reply to a command that counts, such as WAIT. @throws GarbledReply when it is none */
export function toCount(command: string, reply: unknown): number {
  const count = typeof reply === 'string' && reply !== '' ? Number(reply) : reply
  if (typeof count !== 'number' || !Number.isSafeInteger(count) || count < 0)
    throw new GarbledReply(command, reply)
  return count
}

/** The reply to INFO. @throws GarbledReply when it is none */
export function toInfo(reply: unknown): string {
  if (typeof reply !== 'string' || !/^(redis_version|run_id):/m.test(reply))
    throw new GarbledReply('INFO', reply)
  return reply
}

function show(reply: unknown): string {
  if (typeof reply === 'string') return quote(reply)
  if (reply === undefined) return 'undefined'
  return printable(JSON.stringify(reply).slice(0, 80))
}
