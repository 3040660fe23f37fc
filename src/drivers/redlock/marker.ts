/**
 * The marker of a server, which says in which of its lives its data were last known to be whole (`group.ts`).
 *
 * It is changed only if it is still what was read. So that this can be told of a marker that was missing, who reads it first
 * leaves a *note* there: the time and an id that nobody else has. Data that are deleted take the note with them, and a change that was
 * decided before and comes late finds something else.
 */
import type { Script } from './state.js'

/** KEYS: the marker. ARGV: 1 an id. Result: the marker, or the note that is there now. */
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

/** KEYS: the marker. ARGV: 1 what was read · 2 what it becomes. Result: what it is. */
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

/** What stands in a marker: the boot id of a life, until when its votes may be missing, or that somebody looks for the first time. */
export type Marker =
  | { readonly is: 'whole'; readonly boot: string }
  | { readonly is: 'doubtful'; readonly boot: string; readonly until: number }
  | { readonly is: 'note'; readonly at: number }

export function markerIn(text: string): Marker {
  const [letter, at, who = ''] = text.split(' ')
  if (letter === 'q') return { is: 'doubtful', boot: who, until: Number(at) }
  if (letter === 'n') return { is: 'note', at: Number(at) }
  return { is: 'whole', boot: text }
}
