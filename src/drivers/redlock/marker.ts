/**
 * The marker of a server: in which of its lives its data were last known to be whole (`voters.ts`).
 *
 * A marker is changed only if it is still what was read. To make that work for a missing marker, its first reader leaves a *note*
 * there: the time and a unique id. Deleting the data deletes the note, too, so a change decided before that and arriving late finds
 * something else.
 */
import type { Script } from './state.js'

/** KEYS: the marker. ARGV: 1 an id. Result: the marker, or the note now in its stead. */
export const readMarker: Script = {
  name: 'read-marker',
  text: `#!lua flags=allow-oom
local marker = redis.call('GET', KEYS[1])
if not marker then
  local tm = redis.call('TIME')
  marker = string.format('n %d %s', tm[1] * 1000000 + tm[2], ARGV[1])
  redis.call('SET', KEYS[1], marker)
end
return { marker }`,
}

/** KEYS: the marker. ARGV: 1 the value read · 2 the new value. Result: the value now. */
export const changeMarker: Script = {
  name: 'change-marker',
  text: `#!lua flags=allow-oom
local marker = redis.call('GET', KEYS[1])
if marker == ARGV[1] then
  marker = ARGV[2]
  redis.call('SET', KEYS[1], marker)
end
return { marker }`,
}

/** KEYS: the group. Result: its members. A script, because clients add their key prefix to the keys of scripts, and not to all others. */
export const readGroup: Script = {
  name: 'read-group',
  text: `return redis.call('SMEMBERS', KEYS[1])`,
}

/** KEYS: the group. ARGV: the boot ids to add. */
export const joinGroup: Script = {
  name: 'join-group',
  text: `#!lua flags=allow-oom
return redis.call('SADD', KEYS[1], unpack(ARGV))`,
}

/** The content of a marker: the boot id of a life; with the time until which its votes may be missing; or the note of a first reader. */
export type Marker =
  | { readonly is: 'whole'; readonly boot: string }
  | { readonly is: 'doubtful'; readonly boot: string; readonly until: number }
  | { readonly is: 'note'; readonly at: number }

export function parseMarker(text: string): Marker {
  const [letter, at, who = ''] = text.split(' ')
  if (letter === 'q') return { is: 'doubtful', boot: who, until: Number(at) }
  if (letter === 'n') return { is: 'note', at: Number(at) }
  return { is: 'whole', boot: text }
}
