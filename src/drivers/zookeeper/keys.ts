/**
 * Where a lock lives: a node named for it, whose children are the places in line.
 *
 * A name is percent-encoded where a path cannot have it: `/` and `%`, what ZooKeeper forbids, and the names `.`, `..` and
 * `zookeeper`. A name without those is its own node, so that `mutex('foo')` below the chroot `/locks` is the lock that
 * Curator and kazoo know as `/locks/foo`.
 */
import { type Mode, shared } from '../../core/mode.js'
import { placeOf } from './line.js'

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const unfit = /[%/\u0000-\u001f\u007f-\u009f]|[\ud800-\udbff][\udc00-\udfff]|[\ue000-\uf8ff\ufff0-\uffff]/g

const percent = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

export function encode(name: string): string {
  if (name === '.' || name === '..' || name === 'zookeeper') return percent(name)
  return name.replace(unfit, percent)
}

/** The name of a node; undefined when it is none of ours: not encoded as we would. */
export function decode(node: string): string | undefined {
  if (!node.includes('%')) return node
  try {
    const name = decodeURIComponent(node)
    return encode(name) === node ? name : undefined
  } catch {
    return undefined
  }
}

export function pathOf(chroot: string, name: string): string {
  return `${chroot}/${encode(name)}`
}

/** The node of all cells: a percent sign that encodes nothing is in no name of a lock. */
export const cellsOf = (chroot: string): string => `${chroot}/%cells`

export function cellPathOf(chroot: string, key: string): string {
  return `${cellsOf(chroot)}/${encode(key)}`
}

/** The beginning of the name of a place; the server appends the number. `line.ts` reads it again. */
export function placeName(attempt: string, mode: Mode, style: 'curator' | 'kazoo'): string {
  if (style === 'curator') {
    const tag =
      mode.kind === 'shared' ? 'shared-' : mode.kind === 'permits' ? `${mode.take}of${mode.of}-` : ''
    return `_c_${attempt}-${tag}lock-`
  }
  const tag = mode.kind === 'permits' ? `-${mode.take}of${mode.of}` : ''
  return `${attempt}${tag}${mode.kind === 'shared' ? '__rlock__' : '__lock__'}`
}

/** The place of a reader with the number of `own`: what a writer exchanges its place for, so that no other gets in between. */
export function readerOf<
  P extends { readonly lock: string; readonly attempt: string; readonly path: string },
>(own: P, { names }: { readonly names: 'curator' | 'kazoo' }): P {
  const number = placeOf(own.path.slice(own.lock.length + 1))?.number ?? 0
  const digits = number < 0 ? `-${String(-number).padStart(9, '0')}` : String(number).padStart(10, '0')
  return { ...own, path: `${own.lock}/${placeName(own.attempt, shared, names)}${digits}` }
}

/** Every node above `path` that may be missing, the topmost first. */
export function parentsOf(path: string): readonly string[] {
  const parts = path.split('/').slice(1, -1)
  return parts.map((_, i) => `/${parts.slice(0, i + 1).join('/')}`)
}
