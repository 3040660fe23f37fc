/**
 * The key layout. `<prefix><name>/.lock` is the lock, at the same key as `consul lock`; `<prefix><name>/.line/<attempt>` is a queue
 * entry. `%` in a name is encoded as `%25`. In a name that is not a clean path, such as `a//b` or `..`, slashes and dots are encoded,
 * too, because an HTTP server normalises them away.
 */

export interface LockKeys {
  readonly name: string
  readonly lock: string
  /** The prefix of every entry's key. */
  readonly entryPrefix: string
  entry(attempt: string): string
  /** The key that marks an attempt as given up: it must not enter any more. */
  tombstone(attempt: string): string
}

export function lockKeys(prefix: string, name: string): LockKeys {
  const own = prefix + encode(name)
  return {
    name,
    lock: `${own}/.lock`,
    entryPrefix: `${own}/.line/`,
    entry: (attempt) => `${own}/.line/${attempt}`,
    tombstone: (attempt) => `${prefix}%over/${attempt}`,
  }
}

export function encode(name: string): string {
  const escaped = name.replaceAll('%', '%25')
  const clean = escaped.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  return clean
    ? escaped
    : escaped.replaceAll('/', '%2F').replace(/^\.+$/, (dots) => '%2E'.repeat(dots.length))
}

/** The name that a lock or queue entry belongs to; undefined for keys that are not ours. */
export function parseLockName(prefix: string, key: string): string | undefined {
  if (!key.startsWith(prefix)) return undefined
  const [, name] = /^(.+?)\/\.(?:lock|line\/[0-9a-f]{32})$/s.exec(key.slice(prefix.length)) ?? []
  // The other keys under the prefix begin with a bare percent sign, which no encoded name has.
  if (name === undefined || /%(?!25|2F|2E)/.test(name)) return undefined
  return name.replaceAll('%2E', '.').replaceAll('%2F', '/').replaceAll('%25', '%')
}

/** Encodes a key for a URL, each part by itself, because slashes separate parts in the store, too. */
export function encodePath(key: string): string {
  return key.split('/').map(encodeURIComponent).join('/')
}
