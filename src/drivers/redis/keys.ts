/**
 * The keys of a lock. All keys of a name carry it as their hash tag, so that in a Cluster they share a slot and one script may
 * touch them. `{`, `}` and `%` inside the name are percent-encoded; otherwise a name could choose another slot, or two names could
 * share keys.
 */

/** The hash, the queue and the deadlines of one lock: see `scripts/state.ts`. */
export type Keys = readonly [hash: string, line: string, deadlines: string]

export function encode(name: string): string {
  return /[%{}]/.test(name)
    ? name.replace(/[%{}]/g, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
    : name
}

export function lockKeys(prefix: string, name: string): Keys {
  const hash = `${prefix}{${encode(name)}}`
  return [hash, `${hash}:q`, `${hash}:d`]
}

/** Names whose keys are remembered. */
const mostRemembered = 1_000

/** `lockKeys` that remembers the keys of the last names: most processes lock the same few again and again. */
export function rememberKeys(prefix: string): (name: string) => Keys {
  const known = new Map<string, Keys>()
  return (name) => {
    const found = known.get(name)
    if (found !== undefined) return found
    if (known.size >= mostRemembered) known.clear()
    const keys = lockKeys(prefix, name)
    known.set(name, keys)
    return keys
  }
}

/** The hash of one cell, and the channels to notify of its next change: see `scripts/cells.ts`. */
export function cellKeys(prefix: string, key: string): readonly [cell: string, watching: string] {
  const cell = `${prefix}{${encode(key)}}:c`
  return [cell, `${cell}:w`]
}

/** The name a hash key belongs to; undefined for other keys: those of the queue and the deadlines end differently. */
export function parseLockName(prefix: string, key: string): string | undefined {
  if (!key.startsWith(`${prefix}{`) || !key.endsWith('}')) return undefined
  return key
    .slice(prefix.length + 1, -1)
    .replace(/%(25|7B|7D)/g, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

/** The SCAN pattern for the hash keys of every name with this beginning. */
export function scanPattern(prefix: string, beginning: string): string {
  return `${glob(`${prefix}{${encode(beginning)}`)}*}`
}

function glob(text: string): string {
  return text.replace(/[\\*?[\]]/g, '\\$&')
}

/** The key of the marker: which server wrote the data, for the whole keyspace. Only outside a Cluster. */
export function bootKey(prefix: string): string {
  return `${prefix}boot`
}

/** The key of a slot's marker in a Cluster: see `scripts/slot-marker.ts`. No lock of any name and prefix has a key that ends like this. */
export function slotMarkerKey(prefix: string, slot: number): string {
  return `${prefix}{${slotTag(slot)}}:boot`
}

/**
 * A tag in the slot: four of the letters `@` to `O`, which differ in four bits each. CRC-16 is linear, so each bit of the slot's number is
 * flipped by a fixed pattern of these 16 bits, whatever the others are.
 */
export function slotTag(slot: number): string {
  let bits = 0
  for (const [i, pattern] of patterns.entries()) if (((slot ^ slotOfZeros) >> i) & 1) bits ^= pattern
  return String.fromCharCode(...[12, 8, 4, 0].map((shift) => 0x40 | ((bits >> shift) & 15)))
}

/** The slot of `@@@@`, and for each bit of a slot's number the pattern that flips it alone. */
const slotOfZeros = 13_881
const patterns = [
  6_906, 1_773, 10_107, 4_364, 10_897, 14_784, 8_035, 10_111, 4_356, 8_712, 7_146, 1_229, 9_019, 6_540,
]

/** The same in Lua: `markerOf`, from the name of another slot's marker in `clear`. */
export const parseSlotTag: string = `local function markerOf(slot)
  local bits, flips = 0, bit.bxor(tonumber(slot), ${slotOfZeros})
  for i, pattern in ipairs({ ${patterns.join(', ')} }) do
    if bit.band(bit.rshift(flips, i - 1), 1) == 1 then bits = bit.bxor(bits, pattern) end
  end
  local function letter(shift) return 64 + bit.band(bit.rshift(bits, shift), 15) end
  return (string.gsub(clear, '{[^{}]*}:boot$', '{' .. string.char(letter(12), letter(8), letter(4), letter(0)) .. '}:boot'))
end`

/** The one channel of a process. */
export function channelName(prefix: string, process: string): string {
  return `${prefix}c:${process}`
}
