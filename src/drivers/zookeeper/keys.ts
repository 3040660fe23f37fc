/**
 * The node of a lock: it has the lock's name, and its children are the queue entries.
 *
 * Characters that a path cannot have are percent-encoded: `/` and `%`, those that ZooKeeper forbids, and the names `.`, `..` and
 * `zookeeper`. Any other name is used unchanged, so `mutex('foo')` below the chroot `/locks` is the lock that Curator and kazoo
 * know as `/locks/foo`.
 */
import { type Mode, shared } from '../../core/mode.js'
import { parseEntry } from './queue.js'

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression looks for exactly these
const special = /[%/\u0000-\u001f\u007f-\u009f]|[\ud800-\udbff][\udc00-\udfff]|[\ue000-\uf8ff\ufff0-\uffff]/g

const percent = (text: string) =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')

export function encode(name: string): string {
  if (name === '.' || name === '..' || name === 'zookeeper') return percent(name)
  return name.replace(special, percent)
}

/** @returns the lock's name; undefined when the node is not ours, that is not encoded as we would */
export function decode(node: string): string | undefined {
  if (!node.includes('%')) return node
  try {
    const name = decodeURIComponent(node)
    return encode(name) === node ? name : undefined
  } catch {
    return undefined
  }
}

export function lockPath(chroot: string, name: string): string {
  return `${chroot}/${encode(name)}`
}

/** The parent node of all cells. Its percent sign encodes nothing, which no lock's node name contains. */
export const cellsPath = (chroot: string): string => `${chroot}/%cells`

export function cellPath(chroot: string, key: string): string {
  return `${cellsPath(chroot)}/${encode(key)}`
}

/** The beginning of an entry's name; the server appends the number. `queue.ts` parses it. */
export function entryName(attempt: string, mode: Mode, style: 'curator' | 'kazoo'): string {
  if (style === 'curator') {
    const tag =
      mode.kind === 'shared' ? 'shared-' : mode.kind === 'permits' ? `${mode.take}of${mode.of}-` : ''
    return `_c_${attempt}-${tag}lock-`
  }
  const tag = mode.kind === 'permits' ? `-${mode.take}of${mode.of}` : ''
  return `${attempt}${tag}${mode.kind === 'shared' ? '__rlock__' : '__lock__'}`
}

/** A reader's entry with the number of `own`. A writer that downgrades swaps its entry for this one, so that none gets in between. */
export function toReaderNode<
  P extends { readonly lock: string; readonly attempt: string; readonly path: string },
>(own: P, { names }: { readonly names: 'curator' | 'kazoo' }): P {
  const number = parseEntry(own.path.slice(own.lock.length + 1))?.number ?? 0
  const digits = number < 0 ? `-${String(-number).padStart(9, '0')}` : String(number).padStart(10, '0')
  return { ...own, path: `${own.lock}/${entryName(own.attempt, shared, names)}${digits}` }
}

/** Every parent of `path` that may be missing, the topmost first. */
export function parentPaths(path: string): readonly string[] {
  const parts = path.split('/').slice(1, -1)
  return parts.map((_, i) => `/${parts.slice(0, i + 1).join('/')}`)
}
